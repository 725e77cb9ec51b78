/* deaths CASE [ROUNDS]: the other process is killed, and nothing of it is left: no operation, no
 * descriptor, no file, no name. */
#include "side.h"

enum { SENDS = 64, READS = 8, WRITES = 8, RECEIVES = 8, ATOMICS = 8, DELIVERIES = 8 };
enum { LARGE = 4 << 20, KEY = 9 };

struct place {
    uint64_t addr;
    uint64_t key;
};

/* Answers one message, then makes no progress until it is killed: what is posted to it stays
 * pending. */
static int quiet_peer(struct other other) {
    struct side side;
    struct fid_mr *mr;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    unsigned char *window = calloc(1, LARGE);
    CHECK(window);
    OK(fi_mr_reg(side.domain, window, LARGE, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &mr,
                 NULL));
    struct place ours = {remote_place(&side, window), fi_mr_key(mr)};
    tell(other, &ours, sizeof ours);
    char byte = 0;
    struct op op = {0};
    POST(&side, fi_recv(side.ep, &byte, 1, NULL, side.peer, &op));
    expect(&side, &op);
    POST(&side, fi_send(side.ep, &byte, 1, NULL, side.peer, &op));
    expect(&side, &op);
    for (;;)
        pause();
}

static void check_all(struct side *side, struct op *ops, int count, double late) {
    for (;;) {
        int left = 0;
        drain(side);
        for (int i = 0; i < count; i++) {
            CHECK(ops[i].done <= 1);
            left += !ops[i].done;
        }
        if (!left)
            break;
        if (now() > late)
            FAIL("%d of %d operations do not complete", left, count);
    }
    /* And once only. */
    linger(side, 0.05);
    for (int i = 0; i < count; i++)
        CHECK(ops[i].done == 1);
}

/* WHEN 0: the peer has not accepted us yet; 1: it has answered once; 2: the same, and it is
 * stopped by a signal. */
static void pending(int when) {
    struct side side;
    open_side(&side, (struct wish){0});
    static unsigned char *bytes;
    if (!bytes)
        bytes = calloc(SENDS, LARGE / 8);
    CHECK(bytes);
    int before = open_fds();
    struct other other = start(quiet_peer);
    introduce(&side, other);
    struct place theirs;
    hear(&side, other, &theirs, sizeof theirs);
    if (when) {
        struct op op = {0};
        char byte = 1;
        POST(&side, fi_send(side.ep, &byte, 1, NULL, side.peer, &op));
        expect(&side, &op);
        POST(&side, fi_recv(side.ep, &byte, 1, NULL, side.peer, &op));
        expect(&side, &op);
    }
    if (when == 2)
        CHECK(kill(other.pid, SIGSTOP) == 0);
    enum { ALL = SENDS + READS + WRITES + RECEIVES + ATOMICS + DELIVERIES + 1 };
    struct op ops[ALL];
    memset(ops, 0, sizeof ops);
    int n = 0;
    for (int i = 0; i < RECEIVES; i++, n++) {
        if (i % 2) {
            POST(&side, fi_trecv(side.ep, bytes, 8, NULL, side.peer, 1000, 0, &ops[n]));
        } else {
            POST(&side, fi_recv(side.ep, bytes, 8, NULL, side.peer, &ops[n]));
        }
    }
    struct iovec iov = {bytes, 4096};
    struct fi_msg several = {
        .msg_iov = &iov, .iov_count = 1, .addr = side.peer, .context = &ops[n++]};
    POST(&side, fi_recvmsg(side.ep, &several, FI_MULTI_RECV | FI_COMPLETION));
    for (int i = 0; i < SENDS; i++, n++) {
        size_t len = (size_t)8 << (i % 20);
        POST(&side, fi_tsend(side.ep, bytes, len, NULL, side.peer, (uint64_t)i, &ops[n]));
    }
    for (int i = 0; i < READS; i++, n++)
        POST(&side, fi_read(side.ep, bytes, (size_t)8 << 2 * i, NULL, side.peer, theirs.addr,
                            theirs.key, &ops[n]));
    for (int i = 0; i < WRITES; i++, n++)
        POST(&side, fi_write(side.ep, bytes, (size_t)8 << 2 * i, NULL, side.peer, theirs.addr,
                             theirs.key, &ops[n]));
    static uint64_t one = 1, old[ATOMICS];
    int atomics = side.atomics ? ATOMICS : 0;
    for (int i = 0; i < atomics; i++, n++) {
        if (i % 2) {
            POST(&side, fi_fetch_atomic(side.ep, &one, 1, NULL, &old[i], NULL, side.peer,
                                        theirs.addr, theirs.key, FI_UINT64, FI_SUM, &ops[n]));
        } else {
            POST(&side, fi_atomic(side.ep, &one, 1, NULL, side.peer, theirs.addr, theirs.key,
                                  FI_UINT64, FI_SUM, &ops[n]));
        }
    }
    for (int i = 0; i < DELIVERIES; i++, n++) {
        struct iovec part = {bytes, (size_t)8 << 2 * i};
        struct fi_msg msg = {
            .msg_iov = &part, .iov_count = 1, .addr = side.peer, .context = &ops[n]};
        POST(&side, fi_sendmsg(side.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE));
    }
    CHECK(n == ALL - ATOMICS + atomics);
    if (when != 2)
        drain(&side);
    kill_other(&other);
    check_all(&side, ops, n, now() + 2);
    int failed = 0;
    for (int i = 0; i < n; i++)
        failed += ops[i].err != 0;
    CHECK(failed >= RECEIVES + 1 + READS + atomics + DELIVERIES);
    CHECK(open_fds() == before);
    close_side(&side);
}

/* A start, an exchange, a kill, fifty times: no file, no name, and the next start works. */
static int partner(struct other other) {
    struct side side;
    open_side(&side, (struct wish){.name = "hosts.deaths.partner"});
    introduce(&side, other);
    static unsigned char bytes[1 << 16];
    for (;;) {
        struct op in = {0}, out = {0};
        POST(&side, fi_recv(side.ep, bytes, sizeof bytes, NULL, side.peer, &in));
        POST(&side, fi_send(side.ep, bytes, sizeof bytes, NULL, side.peer, &out));
        expect(&side, &in);
        expect(&side, &out);
    }
}

static void cycles(int rounds) {
    struct side side;
    open_side(&side, (struct wish){0});
    static unsigned char bytes[1 << 16];
    int files = entries_of("/dev/shm"), fds = open_fds();
    for (int i = 0; i < rounds; i++) {
        struct other other = start(partner);
        introduce(&side, other);
        for (int k = 0; k < 3; k++) {
            struct op in = {0}, out = {0};
            POST(&side, fi_recv(side.ep, bytes, sizeof bytes, NULL, side.peer, &in));
            POST(&side, fi_send(side.ep, bytes, sizeof bytes, NULL, side.peer, &out));
            expect(&side, &in);
            expect(&side, &out);
        }
        struct op last = {0};
        POST(&side, fi_recv(side.ep, bytes, sizeof bytes, NULL, side.peer, &last));
        kill_other(&other);
        /* It may have sent one message more. That it has ended is certain when a send fails. */
        for (struct op probe = {0}; !probe.err;) {
            memset(&probe, 0, sizeof probe);
            POST(&side, fi_send(side.ep, bytes, 8, NULL, side.peer, &probe));
            wait_op(&side, &probe);
        }
        CHECK(last.done);
        CHECK(socket_names("hosts.deaths.partner") == 0);
        struct op end = {0};
        POST(&side, fi_trecv(side.ep, bytes, 8, NULL, side.peer, 5, 0, &end));
        OK(fi_cancel(&side.ep->fid, &end));
        wait_op(&side, &end);
        CHECK(end.done == 1 && end.err == FI_ECANCELED);
    }
    linger(&side, 0.05);
    if (open_fds() != fds)
        FAIL("%d descriptors were open, now %d", fds, open_fds());
    CHECK(entries_of("/dev/shm") == files);
    close_side(&side);
}

/* Exchanges of all sizes, cut at any microsecond. */
static int talker(struct other other) {
    struct side side;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    static unsigned char in[1 << 20], out[1 << 20];
    char go = 'g';
    tell(other, &go, 1);
    for (unsigned i = 0;; i++) {
        struct op a = {0}, b = {0};
        size_t len = (size_t)1 << (i * 7 % 21);
        POST(&side, fi_recv(side.ep, in, sizeof in, NULL, side.peer, &a));
        POST(&side, fi_send(side.ep, out, len, NULL, side.peer, &b));
        wait_op(&side, &a);
        wait_op(&side, &b);
    }
}

static void any_moment(int rounds) {
    struct side side;
    open_side(&side, (struct wish){0});
    static unsigned char in[1 << 20], out[1 << 20];
    int fds = open_fds();
    srand(4711);
    for (int round = 0; round < rounds; round++) {
        struct other other = start(talker);
        introduce(&side, other);
        char go;
        hear(&side, other, &go, 1);
        /* Some are cut before we have said a word. */
        double cut = now() + (round % 4 ? rand() % 8000 / 1e6 : rand() % 300 / 1e6);
        int ended = 0, killed = 0;
        for (unsigned i = 0; !ended; i++) {
            struct op a = {0}, b = {0};
            size_t len = (size_t)1 << (i * 5 % 21);
            POST(&side, fi_recv(side.ep, in, sizeof in, NULL, side.peer, &a));
            POST(&side, fi_send(side.ep, out, len, NULL, side.peer, &b));
            double late = now() + 5;
            while (!a.done || !b.done) {
                drain(&side);
                /* Nobody there any more: a receive would wait for the next one of that name. */
                if (b.err && !a.done && i > 0)
                    OK(fi_cancel(&side.ep->fid, &a));
                if (!killed && now() >= cut) {
                    CHECK(kill(other.pid, SIGKILL) == 0);
                    killed = 1;
                }
                if (now() > late)
                    FAIL("round %d: stuck, killed %d, receive %d, send %d", round, killed, a.done,
                         b.done);
            }
            CHECK(a.done == 1 && b.done == 1);
            CHECK(killed || (!a.err && !b.err));
            ended = a.err && killed;
        }
        bury(&other);
    }
    linger(&side, 0.05);
    if (open_fds() != fds)
        FAIL("%d descriptors were open, now %d", fds, open_fds());
    close_side(&side);
}

/* A blocking read is woken by the end of a peer that a receive names. */
static void asleep(void) {
    struct side side;
    open_side(&side, (struct wish){.wait = FI_WAIT_UNSPEC});
    struct other other = start(quiet_peer);
    introduce(&side, other);
    struct place theirs;
    hear(&side, other, &theirs, sizeof theirs);
    struct op op = {0};
    char byte = 1;
    POST(&side, fi_send(side.ep, &byte, 1, NULL, side.peer, &op));
    expect(&side, &op);
    POST(&side, fi_recv(side.ep, &byte, 1, NULL, side.peer, &op));
    expect(&side, &op);
    POST(&side, fi_recv(side.ep, &byte, 1, NULL, side.peer, &op));
    pid_t killer = fork();
    CHECK(killer >= 0);
    if (killer == 0) {
        usleep(200000);
        kill(other.pid, SIGKILL);
        _exit(0);
    }
    struct fi_cq_tagged_entry entry;
    double begin = now(), cpu = cpu_time();
    ssize_t got = fi_cq_sread(side.cq, &entry, 1, NULL, 5000);
    double took = now() - begin;
    CHECK(got == -FI_EAVAIL);
    CHECK(took > 0.15 && took < 1.0);
    CHECK(cpu_time() - cpu < 0.05);
    note_error(&side);
    CHECK(op.done == 1 && op.err);
    waitpid(killer, NULL, 0);
    bury(&other);
    /* Nothing is left to burn time on. */
    cpu = cpu_time();
    CHECK(fi_cq_sread(side.cq, &entry, 1, NULL, 500) == -FI_EAGAIN);
    CHECK(cpu_time() - cpu < 0.05);
    close_side(&side);
}

/* A peer's end is reported within this many seconds; over a network, that of its host. */
#define BOUND 1.0

enum { STREAM = 200, PIECE_MAX = 128 << 10 };

/* More than lies between two processes that do not read: rings, or sockets. */
static size_t piece(void) { return is_shm() ? 16 << 10 : PIECE_MAX; }

/* Answers once, then computes for three times the bound; receives everything afterwards, and waits
 * for its end. */
static int busy_peer(struct other other) {
    struct side side;
    patience = 30;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    const size_t len = piece();
    unsigned char *bytes = malloc(len);
    CHECK(bytes);
    struct op op = {0};
    POST(&side, fi_recv(side.ep, bytes, 1, NULL, side.peer, &op));
    expect(&side, &op);
    meet(&side, other);
    for (double end = now() + 3 * BOUND; now() < end;)
        bytes[0]++;
    for (unsigned i = 0; i < STREAM; i++) {
        POST(&side, fi_recv(side.ep, bytes, len, NULL, side.peer, &op));
        expect(&side, &op);
        verify(bytes, len, i);
    }
    meet(&side, other);
    for (;;)
        drain(&side);
}

/* Full rings, and a peer that makes no progress: computing, then stopped. It lives. Once killed, it
 * is reported within the bound. */
static void quiet(void) {
    struct side side;
    patience = 30;
    open_side(&side, (struct wish){0});
    const size_t len = piece();
    unsigned char *bytes = malloc(STREAM * len);
    CHECK(bytes);
    struct other other = start(busy_peer);
    introduce(&side, other);
    struct op op = {0};
    POST(&side, fi_send(side.ep, bytes, 1, NULL, side.peer, &op));
    expect(&side, &op);
    meet(&side, other);
    static struct op sends[STREAM];
    for (unsigned i = 0; i < STREAM; i++) {
        fill(bytes + i * len, len, i);
        POST(&side, fi_send(side.ep, bytes + i * len, len, NULL, side.peer, &sends[i]));
    }
    linger(&side, BOUND);
    CHECK(!sends[STREAM - 1].done);
    for (int i = 0; i < STREAM; i++)
        expect(&side, &sends[i]);
    meet(&side, other);

    CHECK(kill(other.pid, SIGSTOP) == 0);
    for (unsigned i = 0; i < STREAM; i++)
        POST(&side, fi_send(side.ep, bytes, len, NULL, side.peer, &sends[i]));
    linger(&side, 3 * BOUND);
    for (int i = 0; i < STREAM; i++)
        CHECK(!sends[i].err);
    CHECK(!sends[STREAM - 1].done);
    kill_other(&other);
    double killed = now();
    wait_op(&side, &sends[STREAM - 1]);
    double took = now() - killed;
    CHECK(sends[STREAM - 1].err);
    fprintf(stderr, "reported after %.1f ms\n", took * 1e3);
    CHECK(took < BOUND);
    check_all(&side, sends, STREAM, now() + BOUND);
    close_side(&side);
    free(bytes);
}

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    if (strcmp(argv[1], "pending") == 0) {
        for (int when = 0; when < 3; when++)
            pending(when);
    } else if (strcmp(argv[1], "cycles") == 0) {
        cycles(50);
    } else if (strcmp(argv[1], "any-moment") == 0 && argc == 3) {
        any_moment(atoi(argv[2]));
    } else if (strcmp(argv[1], "asleep") == 0) {
        asleep();
    } else if (strcmp(argv[1], "quiet") == 0) {
        quiet();
    } else {
        FAIL("no case %s", argv[1]);
    }
    return 0;
}
