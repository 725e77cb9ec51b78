/* huge WHO ERRNO KIND SIZE: SIZE bytes at once, through a window of 64 MiB that is mapped again and
 * again, so that little memory is needed; direct copies denied as in transfers.c. KIND is "send",
 * "sleeper" (the sender makes no progress, so that the receiver has to copy directly), "write" or
 * "read". */
#include "deny.h"
#include <sys/mman.h>

/* Not a divisor of 2^32: an offset that is wrong by 4 GiB shows in the bytes. */
#define PERIOD ((size_t)(64 << 20) - 4096)

enum { KEY = 5 };

static size_t total;
static const char *kind, *who;
static int reason;

static unsigned char *map_again_and_again(void) {
    int fd = memfd_create("window", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, PERIOD) == 0);
    size_t room = total + PERIOD;
    unsigned char *base =
        mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(base != MAP_FAILED);
    for (size_t at = 0; at < total; at += PERIOD)
        CHECK(mmap(base + at, PERIOD, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
              base + at);
    close(fd);
    return base;
}

static void message(struct side *side, struct other other, unsigned char *bytes, int active) {
    struct op op = {0};
    if (!active) {
        POST(side, fi_recv(side->ep, bytes, total, NULL, side->peer, &op));
        wait_op(side, &op);
        CHECK(op.len == total);
        expect(side, &op);
        verify(bytes, PERIOD, 1);
    } else {
        POST(side, fi_send(side->ep, bytes, total, NULL, side->peer, &op));
        if (strcmp(kind, "sleeper") != 0)
            expect(side, &op);
    }
    char byte = 'm';
    tell(other, &byte, 1);
    hear(NULL, other, &byte, 1);
    if (active && strcmp(kind, "sleeper") == 0)
        expect(side, &op);
}

static void access_region(struct side *side, struct other other, unsigned char *bytes, int active) {
    struct fid_mr *mr;
    struct op op = {0};
    uint64_t base = remote_place(side, bytes);
    uint64_t theirs;
    OK(fi_mr_reg(side->domain, bytes, total, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &mr,
                 NULL));
    tell(other, &base, sizeof base);
    hear(side, other, &theirs, sizeof theirs);
    int writes = strcmp(kind, "write") == 0;
    if (active) {
        if (writes) {
            POST(side, fi_write(side->ep, bytes, total, NULL, side->peer, theirs, KEY, &op));
        } else {
            POST(side, fi_read(side->ep, bytes, total, NULL, side->peer, theirs, KEY, &op));
        }
        expect(side, &op);
    }
    meet(side, other);
    if (active != writes)
        verify(bytes, PERIOD, 1);
    OK(fi_close(&mr->fid));
}

static int run(struct other other, int active) {
    if (strcmp(who, "both") == 0 || strcmp(who, role) == 0)
        deny_copies(reason);
    struct side side;
    patience = 60;
    open_side(&side, (struct wish){0});
    CHECK(side.info->ep_attr->max_msg_size >= total);
    introduce(&side, other);
    unsigned char *bytes = map_again_and_again();
    if (active == (strcmp(kind, "read") != 0))
        fill(bytes, PERIOD, 1);
    meet(&side, other);
    if (strcmp(kind, "send") == 0 || strcmp(kind, "sleeper") == 0) {
        message(&side, other, bytes, active);
    } else {
        access_region(&side, other, bytes, active);
    }
    meet(&side, other);
    close_side(&side);
    return 0;
}

static int run_b(struct other other) { return run(other, 0); }

int main(int argc, char **argv) {
    CHECK(argc == 5);
    who = argv[1];
    reason = atoi(argv[2]);
    kind = argv[3];
    total = strtoull(argv[4], NULL, 10);
    struct other other = start(run_b);
    run(other, 1);
    finish_other(&other);
    return 0;
}
