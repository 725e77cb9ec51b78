/* strangers CASE: visitors at an endpoint's port over TCP that are no peers, or say what peers do
 * not say. Only their own connection ends, and others are served meanwhile. */
#include "side.h"

#include <arpa/inet.h>
#include <netinet/in.h>

enum { HEAD = 32, RECORD = 8 };

static struct sockaddr_in place;

static int visit(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    if (connect(fd, (struct sockaddr *)&place, sizeof place) != 0)
        FAIL("connect: %s", strerror(errno));
    return fd;
}

static void say(int fd, const void *bytes, size_t len) {
    send(fd, bytes, len, MSG_NOSIGNAL);
}

/* A connection request with these bytes of user data. */
static size_t request(unsigned char *out, const void *data, size_t len) {
    static const uint64_t probe = 1;
    memset(out, 0, HEAD);
    out[0] = 3;
    out[2] = (unsigned char)(len >> 8);
    out[3] = (unsigned char)len;
    memcpy(out + 24, &probe, 8);
    memcpy(out + HEAD, data, len);
    return HEAD + len;
}

/* Of an endpoint that listens at a port of its own. */
static size_t good_request(unsigned char *out) {
    static unsigned char record[RECORD];
    unsigned port = 30000 + (unsigned)rand() % 20000;
    unsigned nonce = (unsigned)rand() | 1;
    record[0] = 1;
    record[2] = (unsigned char)(port >> 8);
    record[3] = (unsigned char)port;
    memcpy(record + 4, &nonce, 4);
    return request(out, record, RECORD);
}

/* The same in the protocol of ofi_rxm. */
enum { LAYERED = 24, LAYERED_PORT = HEAD + 4, REFUSAL = 2, ACCEPTANCE = 16 };

static size_t good_layered_request(unsigned char *out) {
    static const unsigned char layered[LAYERED] = {1, 2, 4, 3, 0, 0, 2, 0, 0, 0x40, 0, 0, 0, 0x10};
    size_t len = request(out, layered, LAYERED);
    unsigned owner = (unsigned)rand() | 1;
    memcpy(out + len - 4, &owner, 4);
    return len;
}

/* Waits for the other end's end, with progress. Returns what was read before. */
static size_t read_to_end(struct side *side, int fd, unsigned char *in, size_t room,
                          double seconds) {
    size_t have = 0;
    for (double late = now() + seconds; now() < late;) {
        ssize_t got = recv(fd, in + have, room - have, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN))
            return have;
        have += got > 0 ? (size_t)got : 0;
        drain(side);
    }
    FAIL("the connection does not end");
}

static void read_exactly(struct side *side, int fd, unsigned char *in, size_t len) {
    double late = now() + PATIENCE;
    for (size_t have = 0; have < len && now() < late;) {
        ssize_t got = recv(fd, in + have, len - have, MSG_DONTWAIT);
        CHECK(got > 0 || (got < 0 && errno == EAGAIN));
        have += got > 0 ? (size_t)got : 0;
        drain(side);
    }
    CHECK(now() < late);
}

/* A peer as it should be, all the while. */
static int peer(struct other other) {
    struct side side;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    for (;;) {
        char byte;
        ssize_t told = recv(other.fd, &byte, 1, MSG_DONTWAIT);
        CHECK(told == 1 || errno == EAGAIN);
        if (told == 1 && byte == 'e')
            break;
        if (told == 1) {
            struct op out = {0};
            uint64_t value = 42;
            double begin = now();
            POST(&side, fi_send(side.ep, &value, 8, NULL, side.peer, &out));
            expect(&side, &out);
            if (now() - begin > 1)
                FAIL("served after %.2f s", now() - begin);
            tell(other, "d", 1);
        }
        drain(&side);
    }
    close_side(&side);
    return 0;
}

static void is_served(struct side *side, struct other other) {
    struct op in = {0};
    uint64_t value = 0;
    char byte;
    POST(side, fi_recv(side->ep, &value, 8, NULL, side->peer, &in));
    tell(other, "s", 1);
    expect(side, &in);
    CHECK(value == 42);
    hear(side, other, &byte, 1);
}

static void open_server(struct side *side, struct other *other) {
    char name[256];
    open_side(side, (struct wish){0});
    size_t len = own_name(side, name, sizeof name);
    CHECK(len == sizeof place);
    memcpy(&place, name, len);
    *other = start(peer);
    introduce(side, *other);
}

static void end(struct side *side, struct other *other, int fds) {
    tell(*other, "e", 1);
    finish_other(other);
    double late = now() + 5;
    while (open_fds() - own_fds > fds) {
        if (now() > late)
            FAIL("%d descriptors were open, now %d", fds, open_fds() - own_fds);
        drain(side);
    }
    close_side(side);
}

/* Scanners: a word of another protocol, or none. */
static void scanners(int rounds) {
    static const char get[] = "GET / HTTP/1.0\r\n\r\n", tls[] = "\x16\x03\x01\x02\x00\x01\x00\x01";
    struct side side;
    struct other other;
    open_server(&side, &other);
    int fds = open_fds() - own_fds;
    for (int i = 0; i < rounds; i++) {
        int fd = visit();
        switch (i % 5) {
        case 0:
            break;
        case 1:
            say(fd, "x", 1);
            break;
        case 2:
            say(fd, get, sizeof get - 1);
            say(fd, get, sizeof get - 1);
            break;
        case 3:
            say(fd, tls, sizeof tls - 1);
            break;
        case 4:
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
            break;
        }
        close(fd);
        drain(&side);
        if (i % 100 == 99)
            is_served(&side, other);
    }
    end(&side, &other, fds);
}

/* Those who begin to say who they are and never end, as many as there may be. They are let go after
 * a while (FI_TCP_CONNECT_TIMEOUT, one second here), and not before. */
static void half_open(void) {
    enum { COUNT = 300 };
    struct side side;
    struct other other;
    unsigned char bytes[HEAD + RECORD];
    int guests[COUNT];
    open_server(&side, &other);
    is_served(&side, other);
    int fds = open_fds() - own_fds;
    double begin = now();
    size_t len = good_request(bytes);
    for (int i = 0; i < COUNT; i++) {
        guests[i] = visit();
        own_fds++;
        say(guests[i], bytes, (size_t)i % len);
    }
    linger(&side, 0.2);
    is_served(&side, other);
    for (int i = 0; i < COUNT; i++) {
        unsigned char in[8];
        CHECK(read_to_end(&side, guests[i], in, sizeof in, 3) == 0);
        if (i == 0)
            fprintf(stderr, "let go after %.2f s\n", now() - begin);
        CHECK(now() - begin > 0.8);
        close(guests[i]);
        own_fds--;
    }
    CHECK(now() - begin < 3);
    is_served(&side, other);
    end(&side, &other, fds);
}

/* A peer of another provider's protocol is told no. */
static void layered(void) {
    struct side side;
    struct other other;
    unsigned char bytes[HEAD + 24], data[24] = {0}, in[HEAD + 256];
    open_server(&side, &other);
    is_served(&side, other);
    int fds = open_fds() - own_fds;
    data[2] = 4;
    data[3] = 3;
    int fd = visit();
    own_fds++;
    say(fd, bytes, request(bytes, data, sizeof data));
    size_t got = read_to_end(&side, fd, in, sizeof in, 1);
    CHECK(got > HEAD && in[0] == 3 && in[1] == 6);
    close(fd);
    own_fds--;
    is_served(&side, other);
    end(&side, &other, fds);
}

struct header {
    unsigned char bytes[512];
    size_t len;
    const char *what;
};

static struct header header(const char *what, int op, unsigned flags, int data, int ranges,
                            size_t head, uint64_t size) {
    struct header h = {.len = head < 64 ? head : 64, .what = what};
    h.bytes[0] = 3;
    h.bytes[1] = (unsigned char)op;
    memcpy(h.bytes + 2, &(uint16_t){(uint16_t)flags}, 2);
    h.bytes[4] = (unsigned char)data;
    h.bytes[5] = (unsigned char)ranges;
    h.bytes[6] = (unsigned char)head;
    memcpy(h.bytes + 8, &size, 8);
    return h;
}

/* A packet of the protocol of ofi_rxm in a message that is as long as it should be. */
enum { FRAME = 16, PACKET = 64, RANGES = 104, COUNT_AT = FRAME + PACKET + RANGES - 8 };
enum { EAGER, SEGMENT, ANNOUNCEMENT, READ_DONE, ATOMIC, ATOMIC_RESPONSE, WRITE_READY = 7, WRITE_DONE };

static struct header packet(const char *what, int kind, int op, uint64_t size, size_t body) {
    struct header h = header(what, 0, 0, 0, 0, FRAME, FRAME + PACKET + body);
    unsigned char *head = h.bytes + FRAME;
    head[0] = 4;
    head[1] = (unsigned char)kind;
    head[32] = 2;
    head[34] = (unsigned char)op;
    memcpy(head + 40, &size, 8);
    h.len = FRAME + PACKET + body;
    CHECK(h.len <= sizeof h.bytes);
    return h;
}

static struct header ranges(const char *what, int kind, uint64_t size, int count, uint64_t addr,
                            uint64_t len) {
    struct header h = packet(what, kind, 0, size, RANGES);
    for (int i = 0; i < 4; i++)
        memcpy(h.bytes + FRAME + PACKET + 24 * i, (uint64_t[]){addr, len, 77}, 24);
    h.bytes[COUNT_AT] = (unsigned char)count;
    return h;
}

static struct header atomic(const char *what, int type, int op, int count, size_t operands) {
    size_t body = RANGES - 8 + operands;
    struct header h = packet(what, ATOMIC, 6, body, body);
    h.bytes[FRAME + 56] = (unsigned char)type;
    h.bytes[FRAME + 57] = (unsigned char)op;
    h.bytes[FRAME + 58] = (unsigned char)count;
    memcpy(h.bytes + FRAME + PACKET, (uint64_t[]){0x1000, 1, 77}, 24);
    return h;
}

/* Shakes hands as a peer does. A layered one is told how packets name it. */
static int greet(struct side *side, uint64_t *index) {
    unsigned char bytes[HEAD + LAYERED], in[HEAD + ACCEPTANCE];
    size_t answer = HEAD + (is_layered() ? ACCEPTANCE : RECORD);
    int fd = visit();
    own_fds++;
    say(fd, bytes, is_layered() ? good_layered_request(bytes) : good_request(bytes));
    read_exactly(side, fd, in, answer);
    CHECK(in[1] == 1);
    *index = 0;
    memcpy(index, in + HEAD, 4);
    return fd;
}

/* What is said behind a good hand-shake, in one piece or byte by byte. */
static int says(struct side *side, const struct header *h, int split) {
    struct header own = *h;
    uint64_t index;
    int fd = greet(side, &index);
    if (is_layered() && own.len >= FRAME + PACKET)
        memcpy(own.bytes + FRAME + 8, &index, 8);
    for (size_t at = 0; at < own.len; at += split ? 1 : own.len) {
        say(fd, own.bytes + at, split ? 1 : own.len);
        drain(side);
    }
    return fd;
}

/* Packets of good form with impossible contents: each ends its connection, and no other. */
static void packets(struct side *side, struct other other) {
    unsigned char in[256];
    struct header table[] = {
        packet("kind", 9, 0, 8, 8),
        packet("kind", 255, 0, 8, 8),
        packet("an operation that messages do not have", EAGER, 5, 8, 8),
        packet("less than it says", EAGER, 0, 1ull << 63, 8),
        packet("more than it says", EAGER, 1, 7, 8),
        packet("a segment without a place", SEGMENT, 0, 100, 0),
        packet("read of nothing", READ_DONE, 0, 0, 0),
        packet("written, and not asked for", WRITE_DONE, 0, 0, 0),
        packet("old values of nothing", ATOMIC_RESPONSE, 0, 8, 8),
        packet("no ranges", ANNOUNCEMENT, 0, 1 << 20, 0),
        ranges("ready for nothing", WRITE_READY, 0, 1, 0, 64),
        ranges("0 ranges", ANNOUNCEMENT, 64, 0, 0, 64),
        ranges("5 ranges", ANNOUNCEMENT, 64, 5, 0, 64),
        ranges("255 ranges", ANNOUNCEMENT, 64, 255, 0, 64),
        ranges("beyond all memory", ANNOUNCEMENT, 64, 1, -8ull, 64),
        ranges("more than its ranges", ANNOUNCEMENT, 1ull << 62, 1, 0, 64),
        atomic("no such type", 77, 2, 1, 8),
        atomic("no such operation", 0, 200, 1, 8),
        atomic("0 ranges", 0, 2, 0, 8),
        atomic("5 ranges", 0, 2, 5, 8),
        atomic("255 ranges", 0, 2, 255, 8),
        atomic("too few operands", 7, 2, 1, 1),
        {.len = 0},
    };
    struct header *beyond = &table[sizeof table / sizeof *table - 1];
    *beyond = header("longer than any packet", 0, 0, 0, 0, FRAME, FRAME + PACKET + (1ull << 40));
    beyond->len = FRAME;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        for (int split = 0; split < 2; split++) {
            int fd = says(side, &table[i], split);
            fprintf(stderr, "%s\n", table[i].what);
            read_to_end(side, fd, in, sizeof in, 1);
            close(fd);
            own_fds--;
        }
        is_served(side, other);
    }
}

/* After a good hand-shake: headers with impossible numbers. The connection ends, nothing is
 * allocated for them, and nobody else notices. */
static void headers(void) {
    struct side side;
    struct other other;
    unsigned char in[HEAD + 256];
    open_server(&side, &other);
    is_served(&side, other);
    int fds = open_fds() - own_fds;
    enum { READ = 2, READ_RESPONSE = 4, WRITE = 5 };
    struct header table[] = {
        header("version", 0, 0, 0, 0, 16, 16),
        header("operation", 99, 0, 0, 0, 16, 16),
        header("operation", 255, 0, 0, 0, 16, 16),
        header("size below the header's", 0, 0, 0, 0, 16, 15),
        header("no size", 0, 0, 0, 0, 16, 0),
        header("waits: 2^63 bytes are a message that nobody receives", 0, 0, 0, 0, 16, 1ull << 63),
        header("size 2^64-1", 0, 0, 0, 0, 16, ~0ull),
        header("short header", 0, 0, 0, 0, 8, 16),
        header("empty header", 0, 0, 0, 0, 0, 16),
        header("long header", 0, 0, 0, 0, 255, 255),
        header("write, no range", WRITE, 0, 0, 0, 16, 24),
        header("write, 5 ranges", WRITE, 0, 0, 5, 16 + 5 * 24, 16 + 5 * 24),
        header("write, 255 ranges", WRITE, 0, 0, 255, 40, 48),
        header("read, no range", READ, 0, 0, 0, 16, 16),
        header("read, 255 ranges", READ, 0, 0, 255, 40, 40),
        header("read of nothing registered", READ, 0, 0, 1, 40, 40),
        header("answer to no read", READ_RESPONSE, 0, 0, 0, 16, 24),
        header("acknowledgement of nothing", 0, 0, 2, 0, 16, 16),
    };
    table[0].bytes[0] = 4;
    memcpy(table[15].bytes + 16, &(uint64_t[]){0x1000, 8, 77}, 24);
    long before = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        /* In one piece, and byte by byte. */
        for (int split = 0; split < 2; split++) {
            int fd = says(&side, &table[i], split);
            char more[256] = {0};
            say(fd, more, sizeof more);
            int waits = !is_layered() && strncmp(table[i].what, "waits", 5) == 0;
            if (waits)
                linger(&side, 0.05);
            else
                read_to_end(&side, fd, in, sizeof in, 1);
            close(fd);
            if (waits) {
                /* A receive begins to take it, and finds its end. */
                struct op taken = {0};
                POST(&side, fi_recv(side.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, &taken));
                wait_op(&side, &taken);
                CHECK(taken.err == FI_ECONNRESET);
            }
            own_fds--;
            if (i == 0)
                before = resident_kib();
        }
        is_served(&side, other);
    }
    if (is_layered())
        packets(&side, other);
    /* Cut at each byte of a good message. */
    struct header good = is_layered() ? packet("good", EAGER, 0, 40, 40)
                                      : header("good", 0, 0, 0, 0, 16, 16 + 40);
    size_t whole = is_layered() ? good.len : good.len + 40;
    for (size_t cut = 0; cut < whole; cut++) {
        uint64_t index;
        int fd = greet(&side, &index);
        say(fd, good.bytes, cut);
        linger(&side, 0.001);
        close(fd);
        own_fds--;
    }
    is_served(&side, other);
    if (resident_kib() - before > 512)
        FAIL("grew by %ld KiB", resident_kib() - before);
    end(&side, &other, fds);
}

/* A server that is no fabric endpoint and says nothing may be a peer that computes: operations wait
 * for it and can be cancelled, and the log tells where. */
static void silent(void) {
    char path[] = "/tmp/percale-silent-XXXXXX", text[4096] = "", address[64];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    struct op out = {0};
    struct side side;
    int log = mkstemp(path), listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(log >= 0 && listener >= 0 && unlink(path) == 0);
    setenv("FI_LOG_LEVEL", "warn", 1);
    setenv("FI_LOG_LOCATION", path, 1);
    CHECK(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&at, &len) == 0);
    snprintf(address, sizeof address, "127.0.0.1:%u", ntohs(at.sin_port));
    open_side(&side, (struct wish){0});
    fi_addr_t there = insert(&side, (const char *)&at);
    POST(&side, fi_send(side.ep, text, 8, NULL, there, &out));
    linger(&side, 1.5);
    CHECK(!out.done);
    close(log);
    log = open(path, O_RDONLY);
    CHECK(log >= 0 && read(log, text, sizeof text - 1) > 0 && unlink(path) == 0);
    close(log);
    if (!strstr(text, address) || !strstr(text, "has not answered for 1 s"))
        FAIL("the log has: %s", text);
    OK(fi_cancel(&side.ep->fid, &out));
    wait_op(&side, &out);
    CHECK(out.err == FI_ECANCELED);
    close(listener);
    /* The log is open. */
    close_endpoint(&side);
    release_shared(&side);
}

/* Somebody at a peer's address who says that the peer has been started anew, as it may be said by
 * other libraries: the peer lives, so that it is not believed. */
static void forged(void) {
    struct side side;
    struct other other;
    unsigned char bytes[HEAD + LAYERED], in[HEAD + 256];
    size_t record = is_layered() ? REFUSAL : RECORD;
    char name[256];
    open_server(&side, &other);
    is_served(&side, other);
    int fds = open_fds() - own_fds;
    struct sockaddr_in theirs;
    size_t len = sizeof name;
    OK(fi_av_lookup(side.av, side.peer, name, &len));
    CHECK(len == sizeof theirs);
    memcpy(&theirs, name, len);
    for (int silent = 0; silent < 2; silent++) {
        /* The second time nothing travels that would tell. */
        int fd = visit();
        own_fds++;
        len = is_layered() ? good_layered_request(bytes) : good_request(bytes);
        uint16_t port = is_layered() ? ntohs(theirs.sin_port) : theirs.sin_port;
        memcpy(bytes + (is_layered() ? LAYERED_PORT : HEAD + 2), &port, 2);
        if (silent)
            linger(&side, 1.2);
        double begin = now();
        say(fd, bytes, len);
        if (!silent)
            is_served(&side, other);
        size_t got = read_to_end(&side, fd, in, sizeof in, 2);
        CHECK(got == HEAD + record && in[1] == 6);
        fprintf(stderr, "refused after %.3f s\n", now() - begin);
        close(fd);
        own_fds--;
        is_served(&side, other);
    }
    end(&side, &other, fds);
}

/* A message for which there is no memory ends its connection, not the process. */
static void memory(void) {
    struct side side;
    struct other other;
    unsigned char bytes[HEAD + RECORD], in[HEAD + 256];
    open_server(&side, &other);
    is_served(&side, other);
    int fds = open_fds() - own_fds;
    struct rlimit before, limit = {600ul << 20, 600ul << 20};
    CHECK(getrlimit(RLIMIT_AS, &before) == 0);
    limit.rlim_max = before.rlim_max;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    /* Somebody waits for another message, which could be behind it. */
    struct op waits = {0};
    POST(&side, fi_trecv(side.ep, in, 8, NULL, FI_ADDR_UNSPEC, 77, 0, &waits));
    int fd = visit();
    own_fds++;
    say(fd, bytes, good_request(bytes));
    read_exactly(&side, fd, in, HEAD + RECORD);
    struct header huge = header("huge", 0, 0, 0, 0, 16, (900ul << 20) + 16);
    say(fd, huge.bytes, huge.len);
    read_to_end(&side, fd, in, sizeof in, 2);
    close(fd);
    own_fds--;
    CHECK(setrlimit(RLIMIT_AS, &before) == 0);
    is_served(&side, other);
    OK(fi_cancel(&side.ep->fid, &waits));
    wait_op(&side, &waits);
    end(&side, &other, fds);
}

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    srand(99);
    if (strcmp(argv[1], "scanners") == 0 && argc == 3)
        scanners(atoi(argv[2]));
    else if (strcmp(argv[1], "half-open") == 0)
        half_open();
    else if (strcmp(argv[1], "layered") == 0)
        layered();
    else if (strcmp(argv[1], "headers") == 0)
        headers();
    else if (strcmp(argv[1], "silent") == 0)
        silent();
    else if (strcmp(argv[1], "forged") == 0)
        forged();
    else if (strcmp(argv[1], "memory") == 0)
        memory();
    else
        FAIL("no case %s", argv[1]);
    return 0;
}
