/* transfers WHO ERRNO: messages, reads, writes and atomics of all sizes between two processes, of
 * which WHO ("none", "A", "B", "both") gets ERRNO from direct copies. */
#include "deny.h"

enum { LARGEST = 16 << 20, KEY = 7 };

static const char *who;
static int reason;
static unsigned char *window;

static const size_t SIZES[] = {1,      64,     1000,    4096,    16384,    16385,
                               65536,  262143, 262144,  1 << 20, 5000001,  LARGEST};
enum { COUNT = sizeof SIZES / sizeof *SIZES };

struct place {
    uint64_t addr;
    uint64_t key;
};

static void send_all(struct side *side, unsigned char *bytes) {
    for (unsigned i = 0; i < COUNT; i++) {
        struct op op = {0};
        fill(bytes, SIZES[i], i);
        if (i % 2) {
            POST(side, fi_tsend(side->ep, bytes, SIZES[i], NULL, side->peer, i, &op));
        } else {
            POST(side, fi_send(side->ep, bytes, SIZES[i], NULL, side->peer, &op));
        }
        expect(side, &op);
    }
}

static void receive_all(struct side *side, unsigned char *bytes) {
    for (unsigned i = 0; i < COUNT; i++) {
        struct op op = {0};
        memset(bytes, 0, SIZES[i]);
        if (i % 2) {
            POST(side, fi_trecv(side->ep, bytes, SIZES[i], NULL, side->peer, i, 0, &op));
        } else {
            POST(side, fi_recv(side->ep, bytes, SIZES[i], NULL, side->peer, &op));
        }
        wait_op(side, &op);
        CHECK(op.len == SIZES[i]);
        expect(side, &op);
        verify(bytes, SIZES[i], i);
    }
}

static void access_all(struct side *side, struct place theirs, unsigned char *bytes) {
    for (unsigned i = 0; i < COUNT; i++) {
        size_t len = SIZES[i];
        struct op op = {0};
        fill(bytes, len, i);
        POST(side, fi_write(side->ep, bytes, len, NULL, side->peer, theirs.addr, theirs.key, &op));
        expect(side, &op);
        memset(bytes, 0, len);
        POST(side, fi_read(side->ep, bytes, len, NULL, side->peer, theirs.addr, theirs.key, &op));
        expect(side, &op);
        verify(bytes, len, i);
    }
    uint64_t one = 1, old = 0, zero = 0;
    struct op op = {0};
    POST(side, fi_write(side->ep, &zero, 8, NULL, side->peer, theirs.addr, theirs.key, &op));
    expect(side, &op);
    for (uint64_t i = 0; i < 100; i++) {
        POST(side, fi_fetch_atomic(side->ep, &one, 1, NULL, &old, NULL, side->peer, theirs.addr,
                                   theirs.key, FI_UINT64, FI_SUM, &op));
        expect(side, &op);
        CHECK(old == i);
    }
    uint64_t swap = 7, compare = 100;
    POST(side, fi_compare_atomic(side->ep, &swap, 1, NULL, &compare, NULL, &old, NULL, side->peer,
                                 theirs.addr, theirs.key, FI_UINT64, FI_CSWAP, &op));
    expect(side, &op);
    CHECK(old == 100);
    POST(side, fi_atomic(side->ep, &one, 1, NULL, side->peer, theirs.addr, theirs.key, FI_UINT64,
                         FI_SUM, &op));
    expect(side, &op);
    POST(side, fi_read(side->ep, &old, 8, NULL, side->peer, theirs.addr, theirs.key, &op));
    expect(side, &op);
    CHECK(old == 8);
}

static int run(struct other other, int first) {
    if (strcmp(who, "both") == 0 || strcmp(who, role) == 0)
        deny_copies(reason);
    struct side side;
    struct fid_mr *mr;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    unsigned char *bytes = malloc(LARGEST);
    window = calloc(1, LARGEST);
    CHECK(bytes && window);
    OK(fi_mr_reg(side.domain, window, LARGEST, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &mr,
                 NULL));
    struct place ours = {remote_place(&side, window), fi_mr_key(mr)}, theirs;
    tell(other, &ours, sizeof ours);
    CHECK(hear(&side, other, &theirs, sizeof theirs) == sizeof theirs);
    for (int turn = 0; turn < 2; turn++) {
        if (turn == first) {
            send_all(&side, bytes);
            access_all(&side, theirs, bytes);
        } else {
            receive_all(&side, bytes);
        }
        meet(&side, other);
    }
    OK(fi_close(&mr->fid));
    close_side(&side);
    return 0;
}

static int run_b(struct other other) { return run(other, 1); }

int main(int argc, char **argv) {
    CHECK(argc == 3);
    who = argv[1];
    reason = atoi(argv[2]);
    struct other other = start(run_b);
    run(other, 0);
    finish_other(&other);
    return 0;
}
