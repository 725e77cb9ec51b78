/* throng COUNT: many peers of one endpoint: what a connection takes, what many idle ones cost,
 * and the end of them all at once. */
#include "side.h"

enum { MOST = 4000 };

/* Seconds for one call that finds nothing. */
static double idle_cost(struct side *side) {
    enum { CALLS = 20000 };
    double best = 1;
    for (int round = 0; round < 5; round++) {
        double begin = cpu_time();
        for (int i = 0; i < CALLS; i++)
            fi_cq_read(side->cq, NULL, 0);
        double took = (cpu_time() - begin) / CALLS;
        best = took < best ? took : best;
    }
    return best;
}

static int count;

/* Receives from each of them, tells what they cost, and sees them end. */
static int server(struct other other) {
    static struct op in[MOST], named[MOST];
    static uint64_t values[MOST];
    static fi_addr_t addrs[MOST];
    struct side side;
    char name[256];
    patience = 60;
    open_side(&side, (struct wish){0});
    tell(other, name, own_name(&side, name, sizeof name));
    for (int i = 0; i < count; i++) {
        hear(&side, other, name, sizeof name);
        addrs[i] = insert(&side, name);
    }
    double before = idle_cost(&side);
    long resident = resident_kib();
    for (int i = 0; i < count; i++)
        POST(&side, fi_recv(side.ep, &values[i], 8, NULL, FI_ADDR_UNSPEC, &in[i]));
    double begin = now();
    meet(&side, other);
    for (int i = 0; i < count; i++)
        expect(&side, &in[i]);
    double all = now() - begin;
    meet(&side, other);
    linger(&side, 0.2);
    double with_all = idle_cost(&side), each = (double)(resident_kib() - resident) / count;
    fprintf(stderr,
            "%d peers in %.2f s, %.2f KiB for each; a call that finds nothing: %.0f ns, was %.0f\n",
            count, all, each, with_all * 1e9, before * 1e9);
    CHECK(each < 8 && with_all < 3 * before + 100e-9);
    /* Each of them owes something when it ends. */
    for (int i = 0; i < count; i++)
        POST(&side, fi_trecv(side.ep, &values[i], 8, NULL, addrs[i], 1, 0, &named[i]));
    meet(&side, other);
    double cpu = cpu_time();
    begin = now();
    for (int i = 0; i < count; i++) {
        wait_op(&side, &named[i]);
        CHECK(named[i].err);
    }
    fprintf(stderr, "all have ended after %.2f s, %.2f s of processor time\n", now() - begin,
            cpu_time() - cpu);
    CHECK(cpu_time() - cpu < 10);
    close_side(&side);
    return 0;
}

/* All of them, in one process that is killed. */
static int clients(struct other other) {
    static struct side sides[MOST];
    static struct op out[MOST];
    char theirs[256], name[256];
    uint64_t value = 1;
    patience = 60;
    hear(NULL, other, theirs, sizeof theirs);
    for (int i = 0; i < count; i++) {
        join_side(&sides[i], i ? &sides[0] : NULL, (struct wish){0});
        tell(other, name, own_name(&sides[i], name, sizeof name));
        /* It is told between names, so that it hears each. */
        CHECK(hear(NULL, other, name, sizeof name) == 1);
    }
    meet(NULL, other);
    fi_addr_t addr = insert(&sides[0], theirs);
    for (int i = 0; i < count; i++)
        POST(&sides[i], fi_send(sides[i].ep, &value, 8, NULL, addr, &out[i]));
    for (int i = 0; i < count; i++)
        expect(&sides[i], &out[i]);
    meet(NULL, other);
    meet(NULL, other);
    pause();
    return 1;
}

/* Between the two, each of which knows its parent only. */
static void relay(struct other a, struct other b) {
    char bytes[256];
    ssize_t len = recv(a.fd, bytes, sizeof bytes, 0);
    CHECK(len > 0);
    tell(b, bytes, (size_t)len);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    count = atoi(argv[1]);
    CHECK(count > 0 && count <= MOST);
    struct rlimit files;
    CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
    files.rlim_cur = files.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
    if (files.rlim_max < (rlim_t)count * 4 + 100) {
        fprintf(stderr, "too few descriptors for %d peers\n", count);
        return 0;
    }
    struct other one = start(server), many = start(clients);
    relay(one, many);
    for (int i = 0; i < count; i++) {
        relay(many, one);
        tell(many, "n", 1);
    }
    /* They meet three times; then the many are killed. */
    for (int i = 0; i < 3; i++) {
        relay(one, many);
        relay(many, one);
    }
    kill_other(&many);
    finish_other(&one);
    return 0;
}
