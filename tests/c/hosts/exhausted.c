/* exhausted CASE: a process that has no descriptor left for another connection, at either end. It
 * neither spins nor loses what it has, and nobody waits for ever. */
#include "side.h"

enum { FILES = 40, ONE_BY_ONE = 200, AT_ONCE = 60 };

/* Receives what comes, with few descriptors, asleep in between. Ends when it is told to. */
static int poor_server(struct other other) {
    struct side side;
    struct rlimit files;
    CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
    files.rlim_cur = FILES;
    CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
    open_side(&side, (struct wish){.wait = FI_WAIT_UNSPEC});
    char name[256];
    tell(other, name, own_name(&side, name, sizeof name));
    int before = open_fds();
    double begin = now(), cpu = cpu_time();
    long received = 0;
    uint64_t value;
    struct op in = {0};
    POST(&side, fi_recv(side.ep, &value, 8, NULL, FI_ADDR_UNSPEC, &in));
    for (char byte; recv(other.fd, &byte, 1, MSG_DONTWAIT) != 1;) {
        struct fi_cq_tagged_entry entry;
        ssize_t got = fi_cq_sread(side.cq, &entry, 1, NULL, 20);
        CHECK(got == 1 || got == -FI_EAGAIN);
        if (got != 1)
            continue;
        received++;
        POST(&side, fi_recv(side.ep, &value, 8, NULL, FI_ADDR_UNSPEC, &in));
    }
    double busy = cpu_time() - cpu, all = now() - begin;
    fprintf(stderr, "server: %ld messages, %.2f of %.2f s of processor time\n", received, busy,
            all);
    CHECK(busy < 0.2 + all / 4);
    double late = now() + 5;
    while (open_fds() > before) {
        CHECK(now() < late);
        drain(&side);
    }
    OK(fi_cancel(&side.ep->fid, &in));
    tell(other, &received, sizeof received);
    close_side(&side);
    return 0;
}

static void clients(void) {
    struct other other = start(poor_server);
    static struct side sides[AT_ONCE];
    static struct op sends[AT_ONCE];
    char name[256];
    uint64_t value = 1;
    long served = 0, told;
    hear(NULL, other, name, sizeof name);
    for (int i = 0; i < ONE_BY_ONE; i++) {
        struct side side;
        struct op out = {0};
        open_side(&side, (struct wish){0});
        side.peer = insert(&side, name);
        POST(&side, fi_send(side.ep, &value, 8, NULL, side.peer, &out));
        expect(&side, &out);
        served++;
        close_side(&side);
    }
    for (int i = 0; i < AT_ONCE; i++) {
        open_side(&sides[i], (struct wish){0});
        sides[i].peer = insert(&sides[i], name);
        POST(&sides[i], fi_send(sides[i].ep, &value, 8, NULL, sides[i].peer, &sends[i]));
    }
    long refused = 0, ok = 0;
    double late = now() + patience;
    for (int left = AT_ONCE; left;) {
        left = 0;
        for (int i = 0; i < AT_ONCE; i++) {
            drain(&sides[i]);
            left += !sends[i].done;
        }
        CHECK(now() < late);
    }
    for (int i = 0; i < AT_ONCE; i++) {
        if (sends[i].err)
            CHECK(sends[i].err == FI_ECONNRESET || sends[i].err == FI_ECONNREFUSED ||
                  sends[i].err == FI_ETIMEDOUT);
        refused += sends[i].err != 0;
        ok += !sends[i].err;
    }
    fprintf(stderr, "%ld of %d are served at once, %ld are refused\n", ok, AT_ONCE, refused);
    CHECK(ok >= FILES / 2 && refused > 0);
    /* When others go, whoever was refused is served. */
    int again = -1;
    for (int i = 0; i < AT_ONCE; i++) {
        if (sends[i].err)
            again = i;
        else
            close_endpoint(&sides[i]);
    }
    struct op out = {0};
    POST(&sides[again],
         fi_send(sides[again].ep, &value, 8, NULL, sides[again].peer, &out));
    expect(&sides[again], &out);
    for (int i = 0; i < AT_ONCE; i++)
        if (sends[i].err)
            close_endpoint(&sides[i]);
    for (int i = 0; i < AT_ONCE; i++)
        release_shared(&sides[i]);
    tell(other, "e", 1);
    hear(NULL, other, &told, sizeof told);
    CHECK(told == served + ok + 1);
    finish_other(&other);
}

/* Receives two messages. */
static int server(struct other other) {
    struct side side;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    for (int i = 0; i < 2; i++) {
        struct op in = {0};
        uint64_t value;
        POST(&side, fi_recv(side.ep, &value, 8, NULL, FI_ADDR_UNSPEC, &in));
        patience = 30;
        expect(&side, &in);
    }
    meet(&side, other);
    close_side(&side);
    return 0;
}

/* Nothing is left to connect with: that is tried for a while, and then told. */
static void connects(void) {
    struct other other = start(server);
    struct side side;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    struct rlimit files;
    CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
    files.rlim_cur = 64;
    CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
    int held[64], count = 0;
    while ((held[count] = dup(0)) >= 0)
        count++;
    CHECK(errno == EMFILE && count > 2);
    uint64_t value = 1;
    struct op failed = {0}, late = {0}, last = {0};
    double begin = now(), cpu = cpu_time();
    POST(&side, fi_send(side.ep, &value, 8, NULL, side.peer, &failed));
    while (!failed.done) {
        drain(&side);
        usleep(1000);
        CHECK(now() - begin < 3);
    }
    CHECK(failed.err == FI_EMFILE);
    fprintf(stderr, "told after %.2f s, %.3f s of processor time\n", now() - begin,
            cpu_time() - cpu);
    CHECK(now() - begin > 0.5);
    POST(&side, fi_send(side.ep, &value, 8, NULL, side.peer, &late));
    linger(&side, 0.2);
    CHECK(!late.done);
    while (count)
        close(held[--count]);
    expect(&side, &late);
    POST(&side, fi_send(side.ep, &value, 8, NULL, side.peer, &last));
    expect(&side, &last);
    meet(&side, other);
    close_side(&side);
    finish_other(&other);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    if (strcmp(argv[1], "clients") == 0)
        clients();
    else if (strcmp(argv[1], "connects") == 0)
        connects();
    else
        FAIL("no case %s", argv[1]);
    return 0;
}
