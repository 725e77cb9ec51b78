#!/usr/bin/env python3
"""Makes `corpus` of the recorded connections in provider-tcp, and of what no record has.

The corpus is committed, because `cargo test` runs over it; inputs that libFuzzer has found wanting
are added to it by hand. This only writes files, and takes none away.
"""

import pathlib
import re
import struct

HERE = pathlib.Path(__file__).resolve().parent
CORPUS = HERE / "corpus"
CAPTURES = HERE.parents[1] / "provider-tcp" / "tests" / "captures"
CM, BASE = 32, 16
# How the input for `head` begins: order, our own kinds of messages, pieces of that many bytes.
SWAPPED, OURS, PIECES = 1, 2, 4


def main():
    for path in sorted(CAPTURES.glob("*.hex")):
        connection(path.stem, blocks(path.read_text(encoding="utf-8")))
    extension()
    ours()
    packets()


def blocks(text):
    """Direction, length and recorded bytes of each message."""
    for part in re.split(r"^(?=[CS]->)", text, flags=re.M)[1:]:
        title, *lines = part.splitlines()
        octets = bytes.fromhex("".join(line.split(":")[1] for line in lines))
        way = title[:4].replace("->", "")
        yield way, "kind=CM" in title, int(re.search(r"length=(\d+)", title)[1]), octets


def connection(name, messages):
    """Connection messages one by one; the others as one stream for each direction."""
    streams = {}
    for number, (way, introduction, length, octets) in enumerate(messages):
        if introduction:
            seed("cm", f"{name}-{number}", octets)
            if len(octets) >= CM + 8:
                seed("record", f"{name}-{number}", octets[CM:])
        elif length - len(octets) < 128:
            streams.setdefault(way, []).append(octets.ljust(length, b"\0"))
        else:
            seed("head", f"{name}-{number}-long", b"\0" + octets)
    for way, stream in streams.items():
        seed("head", f"{name}-{way}", bytes([3 * PIECES]) + b"".join(stream))
        seed("head", f"{name}-{way}-swapped", bytes([SWAPPED]) + b"".join(map(swapped, stream)))


def packets():
    """What endpoints over connections send each other: the messages of their records, one by one."""
    for path in sorted(CAPTURES.glob("rxm-*.hex")):
        for number, (_, introduction, length, octets) in enumerate(blocks(path.read_text("utf-8"))):
            if introduction:
                seed("private_data", f"{path.stem}-{number}", octets[CM:])
            elif octets[1] == 0 and length <= 1024:
                seed("packet", f"{path.stem}-{number}", octets.ljust(length, b"\0")[BASE:])
    seed("packet", "credit", struct.pack("<BB2xI3QBBBB", 4, 6, 0, 0, 0, 127, 2, 0, 6, 0).ljust(64, b"\0"))
    seed("packet", "segment", struct.pack("<BBHI3QBBBBI3Q", 4, 1, 3, 0, 0, 9, 1, 2, 0, 1, 0, 0, 6, 0, 5) + b"abc")


def swapped(message):
    """A message in the order of the other kind of host."""
    version, op, flags, op_data, count, length, number, size = struct.unpack_from("<BBHBBBBQ", message)
    base = struct.pack(">BBHBBBBQ", version, op, flags, op_data, count, length, number, size)
    words = struct.unpack_from(f"<{(length - BASE) // 8}Q", message, BASE)
    return base + struct.pack(f">{len(words)}Q", *words) + message[length:]


def extension():
    """The record with our own fields behind it, and with some that are yet to come."""
    record = bytes.fromhex("0100 8697 12345678")
    fields = [(1, bytes(range(8))), (2, struct.pack("<Q", 1)), (3, bytes(16)), (4, bytes(8))]
    ours = b"PCLE\x01" + b"".join(bytes([kind, len(value)]) + value for kind, value in fields)
    seed("record", "extension", record + ours)
    seed("record", "extension-short", record + ours[:25])
    seed("record", "extension-later", record + ours + b"\x2a\x03abc\xfe\x00")


def ours():
    """Messages that only our own kind sends."""
    entry = struct.pack("<3Q", 0x1000, 8, 0x77)
    plain = [
        message(0x40, 0, struct.pack("<Q", 0x020700), entry, payload=8),
        message(0x40, 1, struct.pack("<2Q", 9, 0x020701), entry, entry, payload=16),
        message(0x40, 4, struct.pack("<Q", 0x0A0701), entry),
        message(0x40, 0, struct.pack("<Q", 0x0C0702), entry, payload=16),
        message(0x41, 0, payload=8),
        message(0x42, 0, struct.pack("<Q", 266 | 0x41 << 32)),
    ]
    for number, octets in enumerate(plain):
        seed("head", f"ours-{number}", bytes([OURS]) + octets)
    seed("head", "ours", bytes([OURS | 5 * PIECES]) + b"".join(plain))
    seed("head", "ours-swapped", bytes([OURS | SWAPPED]) + b"".join(map(swapped, plain)))


def message(op, flags, words=b"", *entries, payload=0):
    length = BASE + len(words) + 24 * len(entries)
    base = struct.pack("<BBHBBBBQ", 3, op, flags, 0, len(entries), length, 0, length + payload)
    return base + words + b"".join(entries) + bytes(payload)


def seed(target, name, octets):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    if not any(path.read_bytes() == octets for path in folder.iterdir() if path.name != name):
        (folder / name).write_bytes(octets)


if __name__ == "__main__":
    main()
