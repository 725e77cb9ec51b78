/* huge WHO ERRNO: one message of 2^32 + 1 bytes, through a window of 64 MiB that is mapped again
 * and again, so that little memory is needed; direct copies denied as in transfers.c. */
#include "deny.h"
#include <sys/mman.h>

/* Not a divisor of 2^32: an offset that is wrong by 4 GiB shows in the bytes. */
#define PERIOD ((size_t)(64 << 20) - 4096)
#define TOTAL (((size_t)1 << 32) + 1)

static const char *who;
static int reason;

static unsigned char *map_again_and_again(void) {
    int fd = memfd_create("window", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, PERIOD) == 0);
    size_t room = TOTAL + PERIOD;
    unsigned char *base =
        mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(base != MAP_FAILED);
    for (size_t at = 0; at < TOTAL; at += PERIOD)
        CHECK(mmap(base + at, PERIOD, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
              base + at);
    close(fd);
    return base;
}

static int run(struct other other, int sends) {
    if (strcmp(who, "both") == 0 || strcmp(who, role) == 0)
        deny_copies(reason);
    struct side side;
    patience = 60;
    open_side(&side, (struct wish){0});
    CHECK(side.info->ep_attr->max_msg_size >= TOTAL);
    introduce(&side, other);
    unsigned char *bytes = map_again_and_again();
    struct op op = {0};
    if (sends) {
        fill(bytes, PERIOD, 1);
        POST(&side, fi_send(side.ep, bytes, TOTAL, NULL, side.peer, &op));
        expect(&side, &op);
    } else {
        POST(&side, fi_recv(side.ep, bytes, TOTAL, NULL, side.peer, &op));
        wait_op(&side, &op);
        CHECK(op.len == TOTAL);
        expect(&side, &op);
        verify(bytes, PERIOD, 1);
    }
    meet(&side, other);
    close_side(&side);
    return 0;
}

static int run_b(struct other other) { return run(other, 0); }

int main(int argc, char **argv) {
    CHECK(argc == 3);
    who = argv[1];
    reason = atoi(argv[2]);
    struct other other = start(run_b);
    run(other, 1);
    finish_other(&other);
    return 0;
}
