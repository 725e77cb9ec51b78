/* floods CASE: many of something between two processes: messages that nobody waits for, cancelled
 * receives, truncated receives, endpoints. */
#include "side.h"

/* Both send 10000 messages of 64 KiB before either receives one. */
static int both_ways(struct other other) {
    enum { COUNT = 10000, LEN = 64 << 10, AT_ONCE = 256 };
    struct side side;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    unsigned char *out = malloc(LEN), *in = malloc((size_t)LEN * AT_ONCE);
    static struct op sends[COUNT], receives[COUNT];
    CHECK(out && in);
    fill(out, LEN, 3);
    for (int i = 0; i < COUNT; i++) {
        double late = now() + PATIENCE;
        for (;;) {
            ssize_t status = fi_send(side.ep, out, LEN, NULL, side.peer, &sends[i]);
            if (status == 0)
                break;
            CHECK(status == -FI_EAGAIN);
            ssize_t drained = fi_cq_read(side.cq, NULL, 0);
            CHECK(drained == 0 || drained == -FI_EAGAIN);
            if (now() > late)
                FAIL("FI_EAGAIN without end after %d messages", i);
        }
    }
    meet(&side, other);
    for (int i = 0; i < COUNT; i += AT_ONCE) {
        int count = COUNT - i < AT_ONCE ? COUNT - i : AT_ONCE;
        for (int k = 0; k < count; k++)
            POST(&side,
                 fi_recv(side.ep, in + (size_t)k * LEN, LEN, NULL, side.peer, &receives[i + k]));
        for (int k = 0; k < count; k++) {
            expect(&side, &receives[i + k]);
            verify(in + (size_t)k * LEN, LEN, 3);
        }
    }
    for (int i = 0; i < COUNT; i++)
        expect(&side, &sends[i]);
    meet(&side, other);
    close_side(&side);
    return 0;
}

enum { SMALL = 200000, LARGE = 200, LARGE_LEN = 1 << 20 };

static int unexpected_sender(struct other other) {
    struct side side;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    struct op *sends = calloc(SMALL + LARGE, sizeof *sends);
    uint64_t *small = calloc(SMALL, sizeof *small);
    unsigned char *large = malloc(LARGE_LEN);
    CHECK(sends && small && large);
    fill(large, LARGE_LEN, 11);
    for (uint64_t i = 0; i < SMALL; i++) {
        small[i] = i;
        POST(&side, fi_tsend(side.ep, &small[i], 8, NULL, side.peer, i, &sends[i]));
    }
    for (uint64_t i = 0; i < LARGE; i++)
        POST(&side, fi_tsend(side.ep, large, LARGE_LEN, NULL, side.peer, SMALL + i,
                             &sends[SMALL + i]));
    char all = 'a';
    tell(other, &all, 1);
    for (int i = 0; i < SMALL + LARGE; i++)
        expect(&side, &sends[i]);
    meet(&side, other);
    close_side(&side);
    return 0;
}

static void unexpected_receiver(struct other other) {
    struct side side;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    unsigned char *large = calloc(1, LARGE_LEN);
    struct op *receives = calloc(SMALL, sizeof *receives);
    uint64_t *small = calloc(SMALL, sizeof *small);
    CHECK(large && receives && small);
    memset(receives, 0, SMALL * sizeof *receives);
    memset(small, 1, SMALL * sizeof *small);
    memset(large, 1, LARGE_LEN);
    long before = resident_kib();
    char all;
    hear(&side, other, &all, 1);
    linger(&side, 0.2);
    long growth = resident_kib() - before;
    if (growth > 64 << 10)
        FAIL("the receiver grew by %ld KiB", growth);
    for (uint64_t i = LARGE; i-- > 0;) {
        struct op op = {0};
        memset(large, 0, LARGE_LEN);
        POST(&side, fi_trecv(side.ep, large, LARGE_LEN, NULL, side.peer, SMALL + i, 0, &op));
        expect(&side, &op);
        verify(large, LARGE_LEN, 11);
    }
    double begin = now();
    for (uint64_t i = SMALL; i-- > 0;)
        POST(&side, fi_trecv(side.ep, &small[i], 8, NULL, side.peer, i, 0, &receives[i]));
    for (uint64_t i = 0; i < SMALL; i++) {
        expect(&side, &receives[i]);
        CHECK(small[i] == i);
    }
    fprintf(stderr, "grew by %ld KiB, matched in reverse in %.2f s\n", growth, now() - begin);
    meet(&side, other);
    close_side(&side);
}

/* Receives that are cancelled while their messages come in. */
static int racing_sender(struct other other) {
    enum { COUNT = 1000 };
    struct side side;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    for (int round = 0; round < 2; round++) {
        static struct op sends[COUNT];
        static uint64_t values[COUNT];
        meet(&side, other);
        for (uint64_t i = 0; i < COUNT; i++) {
            values[i] = i;
            struct iovec iov = {&values[i], 8};
            struct fi_msg_tagged msg = {.msg_iov = &iov,
                                        .iov_count = 1,
                                        .addr = side.peer,
                                        .tag = i,
                                        .context = &sends[i]};
            uint64_t flags = FI_COMPLETION | (round ? FI_DELIVERY_COMPLETE : 0);
            POST(&side, fi_tsendmsg(side.ep, &msg, flags));
            if (i % 16 == 0)
                drain(&side);
        }
        for (int i = 0; i < COUNT; i++)
            expect(&side, &sends[i]);
        meet(&side, other);
    }
    close_side(&side);
    return 0;
}

static void cancelling_receiver(struct other other) {
    enum { COUNT = 1000 };
    struct side side;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    for (int round = 0; round < 2; round++) {
        static struct op receives[COUNT];
        static uint64_t values[COUNT];
        memset(receives, 0, sizeof receives);
        for (uint64_t i = 0; i < COUNT; i++)
            POST(&side, fi_trecv(side.ep, &values[i], 8, NULL, side.peer, i, 0, &receives[i]));
        meet(&side, other);
        for (int i = 0; i < COUNT; i++) {
            if (i % 8 == 0)
                drain(&side);
            OK(fi_cancel(&side.ep->fid, &receives[COUNT - 1 - i]));
            OK(fi_cancel(&side.ep->fid, &receives[i]));
        }
        int cancelled = 0;
        for (int i = 0; i < COUNT; i++) {
            wait_op(&side, &receives[i]);
            cancelled += receives[i].err == FI_ECANCELED;
            CHECK(receives[i].done == 1);
            CHECK(receives[i].err == 0 || receives[i].err == FI_ECANCELED);
            CHECK(receives[i].err || values[i] == (uint64_t)i);
        }
        /* The messages whose receives were taken back wait for others. */
        for (uint64_t i = 0; i < COUNT; i++) {
            if (!receives[i].err)
                continue;
            struct op op = {0};
            uint64_t value = 0;
            POST(&side, fi_trecv(side.ep, &value, 8, NULL, side.peer, i, 0, &op));
            expect(&side, &op);
            CHECK(value == i);
        }
        for (int i = 0; i < COUNT; i++)
            CHECK(receives[i].done == 1);
        fprintf(stderr, "round %d: %d of %d cancelled\n", round, cancelled, COUNT);
        meet(&side, other);
    }
    close_side(&side);
}

/* Messages longer than their receives: the error says by how much, and the next one is whole. */
static const size_t LENGTHS[] = {8, 64 << 10, 4 << 20};
enum { KINDS = 3 };

static int long_sender(struct other other) {
    struct side side;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    unsigned char *bytes = malloc(4 << 20);
    CHECK(bytes);
    for (int kind = 0; kind < KINDS; kind++) {
        for (int i = 0; i < 3; i++) {
            for (unsigned turn = 0; turn < 3; turn++) {
                struct op op = {0};
                fill(bytes, LENGTHS[i], turn);
                if (kind == 1) {
                    POST(&side,
                         fi_tsend(side.ep, bytes, LENGTHS[i], NULL, side.peer, turn, &op));
                } else {
                    POST(&side, fi_send(side.ep, bytes, LENGTHS[i], NULL, side.peer, &op));
                }
                expect(&side, &op);
            }
            meet(&side, other);
        }
    }
    close_side(&side);
    return 0;
}

static void check_cut(struct op *op, size_t len, size_t room) {
    CHECK(op->done == 1 && op->err == FI_ETRUNC);
    CHECK(op->len == room && op->olen == len - room);
}

static void short_receiver(struct other other) {
    struct side side;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    unsigned char *bytes = malloc(16 << 20);
    CHECK(bytes);
    for (int kind = 0; kind < KINDS; kind++) {
        for (int i = 0; i < 3; i++) {
            size_t len = LENGTHS[i], half = len / 2;
            if (kind == 2) {
                /* Room for one and a half, then for the last. */
                struct op op = {.several = 1}, last = {0};
                struct iovec iov = {bytes, len + half};
                struct fi_msg msg = {
                    .msg_iov = &iov, .iov_count = 1, .addr = side.peer, .context = &op};
                size_t least = 1;
                OK(fi_setopt(&side.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least,
                             sizeof least));
                POST(&side, fi_recvmsg(side.ep, &msg, FI_MULTI_RECV | FI_COMPLETION));
                double late = now() + PATIENCE;
                while (op.done < 2 && now() < late)
                    drain(&side);
                CHECK(op.done == 2 && op.err == FI_ETRUNC);
                CHECK(op.len == half && op.olen == len - half);
                CHECK(op.flags & FI_MULTI_RECV);
                verify(bytes, len, 0);
                verify(bytes + len, half, 1);
                POST(&side, fi_recv(side.ep, bytes, len, NULL, side.peer, &last));
                expect(&side, &last);
                verify(bytes, len, 2);
            } else {
                for (unsigned turn = 0; turn < 3; turn++) {
                    struct op op = {0};
                    size_t room = turn == 1 ? len : half;
                    memset(bytes, 0xee, len);
                    if (kind == 1) {
                        POST(&side,
                             fi_trecv(side.ep, bytes, room, NULL, side.peer, turn, 0, &op));
                    } else {
                        POST(&side, fi_recv(side.ep, bytes, room, NULL, side.peer, &op));
                    }
                    wait_op(&side, &op);
                    if (turn == 1) {
                        expect(&side, &op);
                    } else {
                        check_cut(&op, len, room);
                        CHECK(bytes[room] == 0xee);
                    }
                    verify(bytes, room, turn);
                }
            }
            meet(&side, other);
        }
    }
    close_side(&side);
}

/* One process, 600 endpoints, one address vector: a message to each arrives. */
static void endpoints(void) {
    enum { COUNT = 600 };
    struct rlimit files;
    CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
    files.rlim_cur = files.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
    static struct side sides[COUNT];
    static struct op receives[COUNT], sends[COUNT];
    static uint64_t in[COUNT], out[COUNT];
    static fi_addr_t addrs[COUNT];
    int before = open_fds();
    for (int i = 0; i < COUNT; i++) {
        char name[256];
        join_side(&sides[i], i ? &sides[0] : NULL, (struct wish){0});
        own_name(&sides[i], name, sizeof name);
        addrs[i] = insert(&sides[0], name);
    }
    for (uint64_t i = 0; i < COUNT; i++) {
        out[i] = i;
        OK(fi_recv(sides[i].ep, &in[i], 8, NULL, FI_ADDR_UNSPEC, &receives[i]));
        POST(&sides[0], fi_send(sides[0].ep, &out[i], 8, NULL, addrs[i], &sends[i]));
    }
    for (uint64_t i = 0; i < COUNT; i++) {
        expect_with(&sides[0], &sends[i], &sides[i]);
        expect(&sides[i], &receives[i]);
        CHECK(in[i] == i);
    }
    /* And from each to one. */
    for (uint64_t i = 1; i < COUNT; i++) {
        OK(fi_recv(sides[0].ep, &in[i], 8, NULL, addrs[i], &receives[i]));
        POST(&sides[i], fi_send(sides[i].ep, &out[i], 8, NULL, addrs[0], &sends[i]));
    }
    for (uint64_t i = 1; i < COUNT; i++) {
        expect_with(&sides[i], &sends[i], &sides[0]);
        expect(&sides[0], &receives[i]);
        CHECK(in[i] == i);
    }
    for (int i = COUNT - 1; i > 0; i--)
        close_endpoint(&sides[i]);
    close_side(&sides[0]);
    CHECK(open_fds() == before);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    patience = 30;
    struct other other;
    if (strcmp(argv[1], "both-ways") == 0) {
        other = start(both_ways);
        both_ways(other);
    } else if (strcmp(argv[1], "unexpected") == 0) {
        other = start(unexpected_sender);
        unexpected_receiver(other);
    } else if (strcmp(argv[1], "cancelled") == 0) {
        other = start(racing_sender);
        cancelling_receiver(other);
    } else if (strcmp(argv[1], "truncated") == 0) {
        other = start(long_sender);
        short_receiver(other);
    } else if (strcmp(argv[1], "endpoints") == 0) {
        endpoints();
        return 0;
    } else {
        FAIL("no case %s", argv[1]);
    }
    finish_other(&other);
    return 0;
}
