/* wakes CASE ROUNDS: sleeping until something happens. Every kind of operation wakes whom it
 * should, an idle queue wakes nobody, and two sleepers get on with one core. */
#include "side.h"
#include <sys/epoll.h>

enum { KEY = 4, WATCHDOG_MS = 5000 };

struct place {
    uint64_t addr;
    uint64_t key;
};

static struct side side;
static struct fid_cntr *counter;
static struct place theirs;
static uint64_t window[2];
static int rounds, epoll_fd;
static long wakeups;

/* Sleeps as programs are told to: only if trywait allows it, then without a timeout. A wake-up that
 * is lost shows by the watchdog. */
static void doze(void) {
    struct fid *fids[] = {&side.cq->fid, &counter->fid};
    int status = fi_trywait(side.fabric, fids, 2);
    if (status == -FI_EAGAIN)
        return;
    OK(status);
    struct epoll_event event;
    int got = epoll_wait(epoll_fd, &event, 1, WATCHDOG_MS);
    wakeups++;
    if (got == 0)
        FAIL("nothing has woken us for %d ms", WATCHDOG_MS);
    CHECK(got == 1 || errno == EINTR);
}

static void doze_until(const struct op *op) {
    for (drain(&side); !op->done; drain(&side))
        doze();
}

static void until_written(long count) {
    for (drain(&side); side.written < count; drain(&side))
        doze();
}

static void watch(struct fid *fid) {
    struct epoll_event event = {.events = EPOLLIN};
    int fd;
    OK(fi_control(fid, FI_GETWAIT, &fd));
    CHECK(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0);
}

/* One way and back; FIRST begins. */
static void exchange(int tagged, int first) {
    for (int i = 0; i < rounds; i++) {
        struct op in = {0}, out = {0};
        uint64_t value = 0, number = (uint64_t)i;
        if (tagged) {
            POST(&side, fi_trecv(side.ep, &value, 8, NULL, side.peer, 6, 0, &in));
        } else {
            POST(&side, fi_recv(side.ep, &value, 8, NULL, side.peer, &in));
        }
        if (!first) {
            doze_until(&in);
            CHECK(value == number);
        }
        if (tagged) {
            POST(&side, fi_tsend(side.ep, &number, 8, NULL, side.peer, 6, &out));
        } else {
            POST(&side, fi_send(side.ep, &number, 8, NULL, side.peer, &out));
        }
        doze_until(&out);
        if (first) {
            doze_until(&in);
            CHECK(value == number);
        }
    }
}

static void write_by_turns(int first) {
    long before = side.written;
    for (int i = 0; i < rounds; i++) {
        struct op out = {0};
        uint64_t value = (uint64_t)i + 1;
        if (!first) {
            until_written(before + i + 1);
            CHECK(window[0] == value);
        }
        POST(&side, fi_writedata(side.ep, &value, 8, NULL, value, side.peer, theirs.addr,
                                 theirs.key, &out));
        doze_until(&out);
        if (first) {
            until_written(before + i + 1);
            CHECK(window[0] == value);
        }
    }
}

/* The one reads while the other sleeps and serves; then the other way round. */
static void read_by_turns(int first) {
    for (int turn = 0; turn < 2; turn++) {
        struct op last = {0};
        char byte = 'l';
        if (first == (turn == 0)) {
            for (int i = 0; i < rounds / 2; i++) {
                struct op op = {0};
                uint64_t value = 0;
                POST(&side, fi_read(side.ep, &value, 8, NULL, side.peer, theirs.addr + 8,
                                    theirs.key, &op));
                doze_until(&op);
                CHECK(value == 4242 && !op.err);
            }
            POST(&side, fi_send(side.ep, &byte, 1, NULL, side.peer, &last));
        } else {
            POST(&side, fi_recv(side.ep, &byte, 1, NULL, side.peer, &last));
        }
        doze_until(&last);
    }
}

/* As `exchange`, but it is the counter that tells. */
static void count_by_turns(int first) {
    uint64_t before = fi_cntr_read(counter);
    static struct op ins[64];
    for (int i = 0; i < rounds; i++) {
        struct op *in = &ins[i % 64];
        uint64_t value, number = (uint64_t)i;
        memset(in, 0, sizeof *in);
        POST(&side, fi_recv(side.ep, &value, 8, NULL, side.peer, in));
        for (int half = 0; half < 2; half++) {
            if (first == (half == 0)) {
                POST(&side, fi_inject(side.ep, &number, 8, side.peer));
            } else {
                while (fi_cntr_read(counter) < before + (uint64_t)i + 1)
                    doze();
                CHECK(value == number);
            }
        }
        drain(&side);
    }
}

static void idle(double seconds) {
    struct fid *fids[] = {&side.cq->fid, &counter->fid};
    double cpu = cpu_time();
    int woken = 0;
    for (double end = now() + seconds, left; (left = end - now()) > 0;) {
        struct epoll_event event;
        if (fi_trywait(side.fabric, fids, 2) == 0)
            woken += epoll_wait(epoll_fd, &event, 1, (int)(left * 1e3) + 1);
        drain(&side);
        (void)fi_cntr_read(counter);
    }
    double used = cpu_time() - cpu;
    fprintf(stderr, "%s idle for %.0f s: woken %d times, %.1f ms of processor time\n", role,
            seconds, woken, used * 1e3);
    CHECK(woken < 100 && used < 0.05);
}

static int kinds(struct other other) {
    int first = role[0] == 'A';
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_FD};
    struct fid_mr *mr;
    memset(&side, 0, sizeof side);
    prepare_side(&side, NULL, (struct wish){.wait = FI_WAIT_FD});
    OK(fi_cntr_open(side.domain, &attr, &counter, NULL));
    OK(fi_ep_bind(side.ep, &counter->fid, FI_RECV));
    OK(fi_enable(side.ep));
    window[1] = 4242;
    introduce(&side, other);
    OK(fi_mr_reg(side.domain, window, sizeof window, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0,
                 &mr, NULL));
    struct place ours = {remote_place(&side, window), fi_mr_key(mr)};
    tell(other, &ours, sizeof ours);
    hear(&side, other, &theirs, sizeof theirs);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    CHECK(epoll_fd >= 0);
    watch(&side.cq->fid);
    watch(&counter->fid);
    meet(&side, other);
    double begin = now();
    exchange(0, first);
    exchange(1, first);
    write_by_turns(first);
    read_by_turns(first);
    meet(&side, other);
    count_by_turns(first);
    if (first)
        fprintf(stderr, "5 kinds, %d rounds each: %.2f s, %ld times asleep\n", rounds,
                now() - begin, wakeups);
    meet(&side, other);
    linger(&side, 0.05);
    idle(rounds > 10000 ? 3 : 1);
    meet(&side, other);
    close(epoll_fd);
    OK(fi_close(&mr->fid));
    OK(fi_close(&side.ep->fid));
    OK(fi_close(&counter->fid));
    close_rest(&side);
    return 0;
}

/* Both on one core, both asleep when it is not their turn. */
static int one_core(struct other other) {
    cpu_set_t allowed, one;
    int first = role[0] == 'A';
    CHECK(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
        if (CPU_ISSET(i, &allowed))
            CPU_SET(i, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    open_side(&side, (struct wish){.wait = FI_WAIT_UNSPEC});
    introduce(&side, other);
    meet(&side, other);
    double begin = now();
    for (int i = 0; i < rounds; i++) {
        struct op in = {0};
        struct fi_cq_tagged_entry entry;
        uint64_t value, number = (uint64_t)i;
        POST(&side, fi_recv(side.ep, &value, 8, NULL, side.peer, &in));
        for (int half = 0; half < 2; half++) {
            if (first == (half == 0)) {
                POST(&side, fi_inject(side.ep, &number, 8, side.peer));
                continue;
            }
            while (!in.done) {
                CHECK(fi_cq_sread(side.cq, &entry, 1, NULL, WATCHDOG_MS) == 1);
                count_entry(&side, &entry);
            }
            CHECK(value == number);
        }
    }
    double took = now() - begin;
    if (first)
        fprintf(stderr, "%d round trips on one core: %.2f s\n", rounds, took);
    CHECK(took < 10);
    meet(&side, other);
    close_side(&side);
    return 0;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    rounds = atoi(argv[2]);
    int (*run)(struct other) = strcmp(argv[1], "kinds") == 0 ? kinds : one_core;
    CHECK(run == kinds || strcmp(argv[1], "one-core") == 0);
    struct other other = start(run);
    run(other);
    finish_other(&other);
    return 0;
}
