/* restarts CASE [ROUNDS]: who is not there yet, who comes back at the same address, and two that
 * reach for each other at once. */
#include "side.h"

#define NAME "hosts.restarts.server"

/* Under the name: answers every message, until it is killed. */
static int server(struct other other) {
    struct side side;
    open_side(&side, (struct wish){.name = NAME});
    introduce(&side, other);
    tell(other, "r", 1);
    for (;;) {
        struct op in = {0}, out = {0};
        uint64_t value;
        POST(&side, fi_recv(side.ep, &value, 8, NULL, FI_ADDR_UNSPEC, &in));
        while (!in.done)
            drain(&side);
        POST(&side, fi_send(side.ep, &value, 8, NULL, side.peer, &out));
        while (!out.done)
            drain(&side);
    }
}

/* Lets it know who we are. Its own name is one that we have. */
static struct other start_server(struct side *side) {
    char name[256], byte;
    struct other other = start(server);
    tell(other, name, own_name(side, name, sizeof name));
    hear(side, other, name, sizeof name);
    hear(side, other, &byte, 1);
    return other;
}

/* 1: it has been answered. */
static int round_trip(struct side *side, uint64_t value) {
    struct op in = {0}, out = {0};
    uint64_t got = 0;
    POST(side, fi_recv(side->ep, &got, 8, NULL, FI_ADDR_UNSPEC, &in));
    POST(side, fi_send(side->ep, &value, 8, NULL, side->peer, &out));
    wait_op(side, &out);
    if (out.err) {
        OK(fi_cancel(&side->ep->fid, &in));
        wait_op(side, &in);
        return 0;
    }
    wait_op(side, &in);
    CHECK(!in.err && got == value);
    return 1;
}

/* A first message to nobody waits a while, and a failed one spoils nothing. */
static void early(void) {
    struct side side;
    open_side(&side, (struct wish){0});
    side.peer = insert_named(&side, NAME);
    uint64_t value = 7;
    uint64_t got = 0;
    struct op refused = {0}, waits = {0}, answer = {0};
    double begin = now();
    POST(&side, fi_send(side.ep, &value, 8, NULL, side.peer, &refused));
    CHECK(now() - begin < 0.005);
    wait_op(&side, &refused);
    CHECK(refused.err == FI_ECONNREFUSED);
    fprintf(stderr, "refused after %.2f s\n", now() - begin);
    CHECK(now() - begin < 1.5);

    POST(&side, fi_recv(side.ep, &got, 8, NULL, FI_ADDR_UNSPEC, &answer));
    POST(&side, fi_send(side.ep, &value, 8, NULL, side.peer, &waits));
    linger(&side, 0.3);
    CHECK(!waits.done);
    struct other other = start_server(&side);
    expect(&side, &waits);
    expect(&side, &answer);
    CHECK(got == value && round_trip(&side, 1));
    kill_other(&other);
    close_side(&side);
}

/* To many addresses where nobody will ever be, some 10000 attempts in all: each operation is told, and
 * nothing is left of it. */
static void never(void) {
    enum { PEERS = 500, EACH = 4, TIMES = 3 };
    static struct op ops[PEERS][EACH];
    static fi_addr_t addrs[PEERS];
    struct side side;
    long before = 0;
    double worst = 0;
    open_side(&side, (struct wish){0});
    for (int round = 0; round < TIMES; round++) {
        int fds = open_fds();
        double begin = now();
        memset(ops, 0, sizeof ops);
        for (int i = 0; i < PEERS; i++) {
            char node[32];
            snprintf(node, sizeof node, "127.%d.%d.%d", 1 + round, i / 250, 1 + i % 250);
            CHECK(fi_av_insertsvc(side.av, node, "9", &addrs[i], 0, NULL) == 1);
            for (int k = 0; k < EACH; k++) {
                double posted = now();
                OK(fi_send(side.ep, "hello", 5, NULL, addrs[i], &ops[i][k]));
                worst = now() - posted > worst ? now() - posted : worst;
            }
        }
        for (int i = 0; i < PEERS; i++) {
            for (int k = 0; k < EACH; k++) {
                wait_op(&side, &ops[i][k]);
                CHECK(ops[i][k].err == FI_ECONNREFUSED);
            }
        }
        fprintf(stderr, "all are told after %.2f s\n", now() - begin);
        CHECK(open_fds() == fds);
        OK(fi_av_remove(side.av, addrs, PEERS, 0));
        if (round == 0)
            before = resident_kib();
    }
    fprintf(stderr, "posts of up to %.2f ms; grew by %ld KiB\n", worst * 1e3,
            resident_kib() - before);
    /* None waits for an attempt; a busy machine takes its time. */
    CHECK(worst < 0.5 && resident_kib() - before < 1024);
    close_side(&side);
}

/* Killed and started anew: whoever has the address goes on using it. */
static void again(int rounds) {
    struct side side;
    double worst = 0;
    open_side(&side, (struct wish){0});
    side.peer = insert_named(&side, NAME);
    for (int i = 0; i < rounds; i++) {
        struct other other = start_server(&side);
        double begin = now();
        /* What was posted before the old one's end was known is its loss. */
        int tries = 0;
        while (!round_trip(&side, (uint64_t)i))
            CHECK(++tries < 3);
        worst = now() - begin > worst ? now() - begin : worst;
        kill_other(&other);
    }
    fprintf(stderr, "answered within %.1f ms\n", worst * 1e3);
    CHECK(worst < 1);
    close_side(&side);
}

/* Both send at once, with endpoints that have never met. */
static int crosses(struct other other, int rounds) {
    double worst = 0;
    srand(role[0]);
    for (int i = 0; i < rounds; i++) {
        struct side side;
        struct op in = {0}, out = {0};
        uint64_t value = (uint64_t)i, got = ~0ull;
        open_side(&side, (struct wish){0});
        introduce(&side, other);
        POST(&side, fi_recv(side.ep, &got, 8, NULL, side.peer, &in));
        meet(NULL, other);
        if (i % 2)
            usleep((useconds_t)(rand() % 200));
        double begin = now();
        POST(&side, fi_send(side.ep, &value, 8, NULL, side.peer, &out));
        expect(&side, &out);
        expect(&side, &in);
        CHECK(got == value);
        worst = now() - begin > worst ? now() - begin : worst;
        meet(&side, other);
        close_endpoint(&side);
        release_shared(&side);
    }
    fprintf(stderr, "%s: %d times, within %.1f ms\n", role, rounds, worst * 1e3);
    CHECK(worst < 1);
    return 0;
}

static int rounds;
static int crossing(struct other other) { return crosses(other, rounds); }

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    rounds = argc == 3 ? atoi(argv[2]) : 0;
    if (strcmp(argv[1], "early") == 0) {
        early();
    } else if (strcmp(argv[1], "never") == 0) {
        never();
    } else if (strcmp(argv[1], "again") == 0) {
        again(rounds);
    } else if (strcmp(argv[1], "crossing") == 0) {
        struct other other = start(crossing);
        crosses(other, rounds);
        finish_other(&other);
    } else {
        FAIL("no case %s", argv[1]);
    }
    return 0;
}
