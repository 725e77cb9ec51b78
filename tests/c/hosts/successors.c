/* successors CASE: who comes under the name of one that has been killed. */
#include "side.h"

enum { LARGE = 4 << 20 };

/* Sends a few messages, then waits for its end. */
static int sender(struct other other) {
    struct side side;
    open_side(&side, (struct wish){.name = "hosts.deaths.sender"});
    introduce(&side, other);
    static uint64_t values[3];
    uint64_t first;
    hear(&side, other, &first, sizeof first);
    struct op ops[3] = {0};
    for (uint64_t i = 0; i < 3; i++) {
        values[i] = first + i;
        POST(&side, fi_tsend(side.ep, &values[i], 8, NULL, side.peer, first + i, &ops[i]));
        expect(&side, &ops[i]);
    }
    tell(other, &first, sizeof first);
    meet(&side, other);
    for (;;)
        drain(&side);
}

/* A peer ends and another takes its address, and we notice both only afterwards: what the first
 * has said is still there, and the second is served. */
static void replaced(void) {
    struct side side;
    open_side(&side, (struct wish){0});
    for (int round = 0; round < 10; round++) {
        struct other other;
        for (uint64_t first = 0; first < 6; first += 3) {
            uint64_t said;
            if (first)
                kill_other(&other);
            other = start(sender);
            char name[256];
            tell(other, name, own_name(&side, name, sizeof name));
            hear(NULL, other, name, sizeof name);
            side.peer = insert(&side, name);
            tell(other, &first, sizeof first);
            hear(NULL, other, &said, sizeof said);
        }
        for (uint64_t i = 0; i < 6; i++) {
            struct op op = {0};
            uint64_t value = 99;
            POST(&side, fi_trecv(side.ep, &value, 8, NULL, FI_ADDR_UNSPEC, i, 0, &op));
            expect(&side, &op);
            CHECK(value == i);
        }
        linger(&side, 0.01);
        struct op op = {0};
        char byte = 1;
        POST(&side, fi_send(side.ep, &byte, 1, NULL, side.peer, &op));
        expect(&side, &op);
        meet(&side, other);
        struct op end = {0};
        POST(&side, fi_recv(side.ep, &byte, 1, NULL, side.peer, &end));
        kill_other(&other);
        wait_op(&side, &end);
        CHECK(end.err);
    }
    close_side(&side);
}

/* Under the name of one that has been killed: sends, and lives on. */
static int restarted_peer(struct other other) {
    struct side side;
    open_side(&side, (struct wish){.name = "hosts.deaths.restarted"});
    introduce(&side, other);
    unsigned char *bytes = malloc(LARGE);
    CHECK(bytes);
    fill(bytes, LARGE, 3);
    struct op small = {0}, large = {0}, kept = {0};
    unsigned char in[8];
    POST(&side, fi_trecv(side.ep, in, sizeof in, NULL, side.peer, 99, 0, &kept));
    POST(&side, fi_tsend(side.ep, bytes, 8, NULL, side.peer, 1, &small));
    POST(&side, fi_tsend(side.ep, bytes, LARGE, NULL, side.peer, 2, &large));
    tell(other, "p", 1);
    expect(&side, &small);
    expect(&side, &large);
    meet(&side, other);
    expect(&side, &kept);
    close_side(&side);
    return 0;
}

static int silent_peer(struct other other) {
    struct side side;
    open_side(&side, (struct wish){.name = "hosts.deaths.restarted"});
    introduce(&side, other);
    pause();
    return 1;
}

/* A peer is killed before it has answered our first message, and comes back before we look: the one
 * that lives is not taken for the one that has died. */
static void restarted(void) {
    struct side side;
    open_side(&side, (struct wish){0});
    struct other other = start(silent_peer);
    introduce(&side, other);
    unsigned char *bytes = malloc(LARGE);
    CHECK(bytes);
    struct op lost = {0}, small = {0}, large = {0}, back = {0};
    OK(fi_send(side.ep, bytes, 1, NULL, side.peer, &lost));
    kill_other(&other);
    other = start(restarted_peer);
    char name[256];
    tell(other, name, own_name(&side, name, sizeof name));
    /* Its name, and that it has posted: no progress here meanwhile. */
    hear(NULL, other, name, sizeof name);
    hear(NULL, other, name, 1);
    POST(&side, fi_trecv(side.ep, bytes, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &small));
    expect(&side, &small);
    POST(&side, fi_trecv(side.ep, bytes, LARGE, NULL, FI_ADDR_UNSPEC, 2, 0, &large));
    expect(&side, &large);
    verify(bytes, LARGE, 3);
    meet(&side, other);
    POST(&side, fi_tsend(side.ep, bytes, 8, NULL, side.peer, 99, &back));
    expect(&side, &back);
    finish_other(&other);
    close_side(&side);
}

/* Has a child that only sleeps and outlives it. */
static int forking_peer(struct other other) {
    struct side side;
    open_side(&side, (struct wish){.name = "hosts.deaths.parent"});
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, 0);
        /* Told here, since it has what it inherits until it runs. */
        child = getpid();
        tell(other, &child, sizeof child);
        sleep(20);
        _exit(0);
    }
    pause();
    return 1;
}

/* The name is free when its owner has died, whatever the owner's children do. */
static void orphaned(void) {
    struct side side;
    struct other other = start(forking_peer);
    pid_t child;
    CHECK(hear(NULL, other, &child, sizeof child) == sizeof child);
    kill_other(&other);
    open_side(&side, (struct wish){.name = "hosts.deaths.parent"});
    close_side(&side);
    CHECK(kill(child, SIGKILL) == 0);
}
int main(int argc, char **argv) {
    CHECK(argc == 2);
    if (strcmp(argv[1], "replaced") == 0) {
        replaced();
    } else if (strcmp(argv[1], "restarted") == 0) {
        restarted();
    } else if (strcmp(argv[1], "orphaned") == 0) {
        orphaned();
    } else {
        FAIL("no case %s", argv[1]);
    }
    return 0;
}
