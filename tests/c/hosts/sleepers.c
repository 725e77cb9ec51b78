/* sleepers CASE [SECONDS]: threads sleep on the objects of two endpoints in every way that there is,
 * beside others that post, poll, signal and close. Nobody is left asleep. */
#include "side.h"
#include <pthread.h>
#include <stdatomic.h>

enum { EPS = 2, RECEIVES = 16, LARGE = 100000, KEY = 9, SLEEPERS = 4, MOMENT_MS = 50 };

/* Seconds after which whoever sleeps has been forgotten, on a busy machine too. */
#define FORGOTTEN 20

struct place {
    uint64_t addr, key;
};

/* What the other process is asked for: an answer to an endpoint, after some time. */
struct ask {
    uint32_t ep, spins;
};

static unsigned roll(unsigned sides) {
    static _Thread_local uint64_t dice;
    if (!dice)
        dice = (uint64_t)(uintptr_t)&dice | 1;
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return (unsigned)(dice >> 20) % sides;
}

/* B: answers, and serves reads. It polls, so that whoever sleeps is on our side. */
static int answerer(struct other other) {
    static char window[LARGE], room[8][LARGE];
    static struct ask asks[RECEIVES];
    static struct op in[RECEIVES], large[8];
    char name[256], order;
    struct side side;
    struct fid_mr *region;
    fi_addr_t peers[EPS];
    uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE;
    open_side(&side, (struct wish){0});
    OK(fi_mr_reg(side.domain, window, sizeof window, access, 0, KEY, 0, &region, NULL));
    struct place place = {remote_place(&side, window), fi_mr_key(region)};
    tell(other, &place, sizeof place);
    tell(other, name, own_name(&side, name, sizeof name));
    for (int i = 0; i < EPS; i++) {
        hear(&side, other, name, sizeof name);
        peers[i] = insert(&side, name);
    }
    for (int i = 0; i < RECEIVES; i++)
        OK(fi_recv(side.ep, &asks[i], sizeof asks[i], NULL, FI_ADDR_UNSPEC, &in[i]));
    for (int i = 0; i < 8; i++)
        OK(fi_trecv(side.ep, room[i], LARGE, NULL, FI_ADDR_UNSPEC, 1, 0, &large[i]));
    while (recv(other.fd, &order, 1, MSG_DONTWAIT) < 0) {
        for (int n = 0; n < 100; n++)
            drain(&side);
        for (int i = 0; i < 8; i++) {
            if (large[i].done) {
                CHECK(!large[i].err);
                memset(&large[i], 0, sizeof large[i]);
                OK(fi_trecv(side.ep, room[i], LARGE, NULL, FI_ADDR_UNSPEC, 1, 0, &large[i]));
            }
        }
        for (int i = 0; i < RECEIVES; i++) {
            if (!in[i].done)
                continue;
            CHECK(!in[i].err && asks[i].ep < EPS);
            struct ask ask = asks[i];
            memset(&in[i], 0, sizeof in[i]);
            OK(fi_recv(side.ep, &asks[i], sizeof asks[i], NULL, FI_ADDR_UNSPEC, &in[i]));
            for (volatile uint32_t spins = ask.spins; spins; spins--)
                ;
            POST(&side, fi_inject(side.ep, &ask, sizeof ask, peers[ask.ep]));
        }
    }
    OK(fi_close(&region->fid));
    close_side(&side);
    return 0;
}

/* A: two endpoints of one domain. Each has a queue and a counter of its own, and they share one more
 * queue, of what they receive. */
static struct side base;
static struct fid_ep *eps[EPS];
static struct fid_cq *tx[EPS], *rx;
static struct fid_cntr *counters[EPS];
static fi_addr_t peer;
static struct place place;
static atomic_long received, counted[EPS];
static atomic_int stop, busy;

static struct receive {
    struct fi_context2 context;
    int ep;
    struct ask answer;
} receives[EPS][RECEIVES];

static void receive(struct receive *receive) {
    OK(fi_recv(eps[receive->ep], &receive->answer, sizeof receive->answer, NULL, FI_ADDR_UNSPEC,
               receive));
}

static struct fid_cq *open_queue(void) {
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD};
    struct fid_cq *cq;
    OK(fi_cq_open(base.domain, &attr, &cq, NULL));
    return cq;
}

static struct fid_cntr *open_counter(void) {
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_FD};
    struct fid_cntr *counter;
    OK(fi_cntr_open(base.domain, &attr, &counter, NULL));
    return counter;
}

static void open_endpoints(struct other other, int progress) {
    char name[256];
    size_t len;
    open_side(&base, (struct wish){.wait = FI_WAIT_FD, .progress = progress});
    hear(NULL, other, &place, sizeof place);
    hear(NULL, other, name, sizeof name);
    peer = insert(&base, name);
    rx = open_queue();
    for (int i = 0; i < EPS; i++) {
        tx[i] = open_queue();
        counters[i] = open_counter();
        OK(fi_endpoint(base.domain, base.info, &eps[i], NULL));
        OK(fi_ep_bind(eps[i], &base.av->fid, 0));
        OK(fi_ep_bind(eps[i], &tx[i]->fid, FI_TRANSMIT));
        OK(fi_ep_bind(eps[i], &rx->fid, FI_RECV));
        OK(fi_ep_bind(eps[i], &counters[i]->fid, FI_RECV));
        OK(fi_enable(eps[i]));
        len = sizeof name;
        OK(fi_getname(&eps[i]->fid, name, &len));
        tell(other, name, len);
        for (int k = 0; k < RECEIVES; k++) {
            receives[i][k].ep = i;
            receive(&receives[i][k]);
        }
    }
}

static void close_endpoints(struct other *other) {
    char order = 'q';
    for (int i = 0; i < EPS; i++) {
        OK(fi_close(&eps[i]->fid));
        OK(fi_close(&tx[i]->fid));
        OK(fi_close(&counters[i]->fid));
    }
    OK(fi_close(&rx->fid));
    tell(*other, &order, 1);
    finish_other(other);
    close_side(&base);
}

static int descriptor(struct fid *fid) {
    int fd;
    OK(fi_control(fid, FI_GETWAIT, &fd));
    return fd;
}

/* Sleeps as programs with a poll loop of their own do. */
static void doze(struct fid *fid, int fd, int timeout) {
    int status = fi_trywait(base.fabric, &fid, 1);
    if (status == -FI_EAGAIN)
        return;
    OK(status);
    CHECK(poll(&(struct pollfd){fd, POLLIN, 0}, 1, timeout) >= 0 || errno == EINTR);
}

static void take(const struct fi_cq_tagged_entry *entries, ssize_t count) {
    for (ssize_t i = 0; i < count; i++) {
        receive(entries[i].op_context);
        atomic_fetch_add(&received, 1);
    }
}

static void *blocking_reader(void *room) {
    struct fi_cq_tagged_entry entries[4];
    while (!atomic_load(&stop)) {
        ssize_t got = fi_cq_sread(rx, entries, (size_t)(intptr_t)room, NULL, -1);
        CHECK(got > 0 || got == -FI_EAGAIN);
        take(entries, got);
    }
    return NULL;
}

static void *polling_reader(void *unused) {
    struct fi_cq_tagged_entry entry;
    int fd = descriptor(&rx->fid);
    (void)unused;
    while (!atomic_load(&stop)) {
        ssize_t got = fi_cq_read(rx, &entry, 1);
        CHECK(got == 1 || got == -FI_EAGAIN);
        take(&entry, got);
        if (got < 0)
            doze(&rx->fid, fd, -1);
    }
    return NULL;
}

static void *waiter(void *unused) {
    (void)unused;
    while (!atomic_load(&stop)) {
        OK(fi_cntr_wait(counters[0], (uint64_t)counted[0] + 1, -1));
        counted[0] = (long)fi_cntr_read(counters[0]);
    }
    return NULL;
}

static void *polling_counter(void *unused) {
    int fd = descriptor(&counters[1]->fid);
    (void)unused;
    while (!atomic_load(&stop)) {
        long before = counted[1];
        counted[1] = (long)fi_cntr_read(counters[1]);
        if (counted[1] == before)
            doze(&counters[1]->fid, fd, -1);
    }
    return NULL;
}

/* Calls that only look, as long as the main thread posts and waits. The second counter is left alone:
 * who has read it may sleep, whichever thread that was. */
static void *onlooker(void *unused) {
    (void)unused;
    while (!atomic_load(&stop)) {
        if (!atomic_load(&busy)) {
            usleep(20);
            continue;
        }
        struct fid *fid = roll(2) ? &rx->fid : &counters[0]->fid;
        switch (roll(4)) {
        case 0: fi_trywait(base.fabric, &fid, 1); break;
        case 1: fi_cq_read(tx[roll(EPS)], NULL, 0); break;
        case 2: fi_cntr_read(counters[0]); break;
        case 3: CHECK(fi_cntr_wait(counters[0], UINT64_MAX, (int)roll(2)) == -FI_ETIMEDOUT);
        }
    }
    return NULL;
}

/* Posts one operation; whether it has a completion of its own. */
static int post(int i, int kind, struct op *op, struct ask *ask) {
    static char bytes[LARGE];
    struct iovec iov = {ask, sizeof *ask};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = peer, .context = op};
    size_t len = 1 + roll(roll(3) ? 2000 : LARGE);
    ssize_t status;
    switch (kind) {
    case 0: status = fi_sendmsg(eps[i], &msg, roll(4) ? 0 : FI_MORE); break;
    case 1: status = fi_read(eps[i], bytes, len, NULL, peer, place.addr, place.key, op); break;
    default: status = fi_tsend(eps[i], bytes, len, NULL, peer, 1, op);
    }
    CHECK(status == 0 || status == -FI_EAGAIN);
    return status == 0;
}

/* Windows of messages that are to be answered, with a look after each but the last: what that leaves to
 * be done is the sleepers'. */
static int part(long each[EPS]) {
    int count = 0, i = (int)roll(EPS), window = 1 + (int)roll(16);
    for (int left = (int)roll(8) * window; left; left--) {
        struct ask ask = {(uint32_t)roll(EPS), roll(100)};
        ssize_t status = fi_inject(eps[i], &ask, sizeof ask, peer);
        CHECK(status == 0 || status == -FI_EAGAIN);
        if (status == 0) {
            count++;
            each[ask.ep]++;
        }
        if (left % window == 1 && left > window)
            fi_cq_read(tx[i], NULL, 0);
    }
    return count;
}

/* Waits for as many completions as are out, in one of the ways. */
static void collect(int out[EPS]) {
    double late = now() + FORGOTTEN;
    while (out[0] || out[1]) {
        struct fi_cq_tagged_entry entry;
        int i = out[0] && (!out[1] || roll(2)) ? 0 : 1;
        ssize_t got = roll(3) ? fi_cq_read(tx[i], &entry, 1)
                              : fi_cq_sread(tx[i], &entry, 1, NULL, roll(2) ? FORGOTTEN * 1000 : 1);
        CHECK(got == 1 || got == -FI_EAGAIN);
        if (got == 1)
            out[i]--;
        else if (roll(2))
            doze(&tx[i]->fid, descriptor(&tx[i]->fid), FORGOTTEN * 1000);
        if (now() > late)
            FAIL("%d and %d operations do not complete", out[0], out[1]);
    }
}

static void until(long answers, const long each[EPS], long rounds) {
    for (double late = now() + FORGOTTEN; atomic_load(&received) != answers ||
                                          counted[0] < each[0] || counted[1] < each[1];) {
        sched_yield();
        if (now() > late)
            FAIL("round %ld: asleep with %ld of %ld messages, counters %ld of %ld and %ld of %ld",
                 rounds, (long)received, answers, (long)counted[0], each[0], (long)counted[1],
                 each[1]);
    }
}

/* Rounds of posts, after each of which nobody calls anything but those who sleep. */
static void rounds(double seconds, int progress) {
    static struct op ops[8];
    static struct ask asks[8];
    struct other other = start(answerer);
    pthread_t threads[6];
    long answers = 0, each[EPS] = {0}, count = 0;
    void *(*const run[6])(void *) = {blocking_reader, blocking_reader, polling_reader,
                                     waiter,          polling_counter, onlooker};
    open_endpoints(other, progress);
    for (int i = 0; i < 6; i++)
        CHECK(pthread_create(&threads[i], NULL, run[i], (void *)(intptr_t)(1 + 3 * i)) == 0);
    for (double end = now() + seconds; now() < end; count++) {
        int out[EPS] = {0}, n = 1 + (int)roll(6);
        atomic_store(&busy, 1);
        for (int k = 0; k < n; k++) {
            int i = (int)roll(EPS), kind = (int)roll(3);
            asks[k] = (struct ask){(uint32_t)roll(EPS), roll(4000)};
            if (!post(i, kind, &ops[k], &asks[k]))
                continue;
            out[i]++;
            if (kind == 0) {
                answers++;
                each[asks[k].ep]++;
            }
        }
        collect(out);
        answers += part(each);
        atomic_store(&busy, 0);
        until(answers, each, count);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < EPS; i++)
        OK(fi_cntr_add(counters[i], 1));
    for (int i = 0; i < 6; i++) {
        while (pthread_tryjoin_np(threads[i], NULL)) {
            OK(fi_cq_signal(rx));
            usleep(100);
        }
    }
    fprintf(stderr, "%ld rounds, %ld messages\n", count, answers);
    close_endpoints(&other);
}

/* Each signal ends one blocking read, whoever else looks. */
static atomic_int ended;

static void *signalled(void *unused) {
    struct fi_cq_tagged_entry entry;
    (void)unused;
    CHECK(fi_cq_sread(rx, &entry, 1, NULL, -1) == -FI_EAGAIN);
    atomic_fetch_add(&ended, 1);
    return NULL;
}

static void signals(double seconds) {
    struct other other = start(answerer);
    pthread_t threads[SLEEPERS], looking;
    long count = 0;
    open_endpoints(other, 0);
    atomic_store(&busy, 1);
    CHECK(pthread_create(&looking, NULL, onlooker, NULL) == 0);
    for (double end = now() + seconds; now() < end; count++) {
        atomic_store(&ended, 0);
        for (int i = 0; i < SLEEPERS; i++)
            CHECK(pthread_create(&threads[i], NULL, signalled, NULL) == 0);
        usleep(roll(1000));
        for (int i = 0; i < SLEEPERS; i++) {
            double late = now() + FORGOTTEN;
            OK(fi_cq_signal(rx));
            while (atomic_load(&ended) <= i) {
                sched_yield();
                if (now() > late)
                    FAIL("round %ld: signal %d has woken nobody", count, i + 1);
            }
        }
        for (int i = 0; i < SLEEPERS; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
    }
    atomic_store(&stop, 1);
    CHECK(pthread_join(looking, NULL) == 0);
    fprintf(stderr, "%ld rounds\n", count);
    close_endpoints(&other);
}

/* Sleeps end when their time is over, not before, whoever else looks. */
static void timeouts(void) {
    struct other other = start(answerer);
    pthread_t looking;
    struct fi_cq_tagged_entry entry;
    open_endpoints(other, 0);
    atomic_store(&busy, 1);
    CHECK(pthread_create(&looking, NULL, onlooker, NULL) == 0);
    for (int i = 0; i < 10; i++) {
        double begin = now();
        if (i % 2) {
            CHECK(fi_cq_sread(rx, &entry, 1, NULL, MOMENT_MS) == -FI_EAGAIN);
        } else {
            CHECK(fi_cntr_wait(counters[1], 1, MOMENT_MS) == -FI_ETIMEDOUT);
        }
        double took = now() - begin;
        if (took < MOMENT_MS / 1e3 || took > FORGOTTEN)
            FAIL("a sleep of %d ms took %.3f s", MOMENT_MS, took);
    }
    atomic_store(&stop, 1);
    CHECK(pthread_join(looking, NULL) == 0);
    close_endpoints(&other);
}

/* What threads sleep on is busy; an endpoint may close under them. */
static struct fid_cq *lone_cq;
static struct fid_cntr *lone_counter;
static struct fid_eq *lone_eq;

static void *sleep_on_cq(void *unused) {
    struct fi_cq_tagged_entry entry;
    (void)unused;
    CHECK(fi_cq_sread(lone_cq, &entry, 1, NULL, -1) == -FI_EAGAIN);
    return NULL;
}

static void *sleep_on_counter(void *unused) {
    (void)unused;
    OK(fi_cntr_wait(lone_counter, 1, -1));
    return NULL;
}

static void *sleep_on_eq(void *unused) {
    uint32_t event;
    char byte;
    (void)unused;
    CHECK(fi_eq_sread(lone_eq, &event, &byte, 1, -1, 0) == 1 && byte == 'e');
    return NULL;
}

/* Closing is refused from some time on, until the thread has been woken. */
static void busy_while(void *(*sleep)(void *), struct fid *fid, void (*wake)(void)) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, sleep, NULL) == 0);
    usleep(100000);
    CHECK(fi_close(fid) == -FI_EBUSY);
    wake();
    CHECK(pthread_join(thread, NULL) == 0);
    OK(fi_close(fid));
}

static void wake_cq(void) { OK(fi_cq_signal(lone_cq)); }
static void wake_counter(void) { OK(fi_cntr_add(lone_counter, 1)); }
static void wake_eq(void) { CHECK(fi_eq_write(lone_eq, 7, "e", 1, 0) == 1); }

static void close_under(void) {
    char name[256];
    size_t len = sizeof name;
    OK(fi_getname(&base.ep->fid, name, &len));
    OK(fi_close(&base.ep->fid));
    CHECK(fi_close(&lone_cq->fid) == -FI_EBUSY);
    wake_cq();
}

static void closing(void) {
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_FD, .flags = FI_WRITE};
    open_side(&base, (struct wish){.wait = FI_WAIT_FD});
    lone_cq = open_queue();
    busy_while(sleep_on_cq, &lone_cq->fid, wake_cq);
    lone_counter = open_counter();
    busy_while(sleep_on_counter, &lone_counter->fid, wake_counter);
    OK(fi_eq_open(base.fabric, &attr, &lone_eq, NULL));
    busy_while(sleep_on_eq, &lone_eq->fid, wake_eq);
    lone_cq = base.cq;
    busy_while(sleep_on_cq, &base.cq->fid, close_under);
    fi_freeinfo(base.info);
    close_shared(&base);
}

/* Whoever waits for a peer to make room is left alone until it does, however many sleep. */
static atomic_int completed;

static void *completer(void *unused) {
    struct fi_cq_tagged_entry entry;
    (void)unused;
    while (!atomic_load(&stop)) {
        ssize_t got = fi_cq_sread(tx[0], &entry, 1, NULL, -1);
        CHECK(got == 1 || got == -FI_EAGAIN);
        atomic_fetch_add(&completed, got == 1);
    }
    return NULL;
}

static void no_room(void) {
    enum { SENDS = 2000, WATCH_MS = 300 };
    static struct op ops[SENDS];
    static char bytes[60000];
    struct other other = start(answerer);
    pthread_t threads[SLEEPERS];
    open_endpoints(other, 0);
    for (int i = 0; i < SLEEPERS; i++)
        CHECK(pthread_create(&threads[i], NULL, i % 2 ? completer : blocking_reader,
                             (void *)(intptr_t)1) == 0);
    for (int round = 0; round < 6; round++) {
        int posted = 0;
        atomic_store(&completed, 0);
        usleep(roll(20000));
        CHECK(kill(other.pid, SIGSTOP) == 0);
        for (int i = 0; i < SENDS; i++) {
            size_t len = i % 7 ? 900 : sizeof bytes;
            posted += fi_tsend(eps[0], bytes, len, NULL, peer, 1, &ops[i]) == 0;
        }
        /* All of them look at the same time. */
        for (int i = 0; i < 100; i++) {
            OK(fi_cq_signal(rx));
            OK(fi_cq_signal(tx[0]));
            usleep(roll(200));
        }
        usleep(100000);
        double before = cpu_time();
        usleep(WATCH_MS * 1000);
        double used = cpu_time() - before;
        CHECK(kill(other.pid, SIGCONT) == 0);
        if (used > WATCH_MS / 2e3)
            FAIL("%d sends wait, and %.3f s of processor time in %d ms", posted, used, WATCH_MS);
        for (double late = now() + FORGOTTEN; atomic_load(&completed) < posted; usleep(1000))
            if (now() > late)
                FAIL("%d of %d sends have completed", (int)completed, posted);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < SLEEPERS; i++) {
        while (pthread_tryjoin_np(threads[i], NULL)) {
            OK(fi_cq_signal(rx));
            OK(fi_cq_signal(tx[0]));
            usleep(100);
        }
    }
    close_endpoints(&other);
}

/* A caught signal ends a read; cancelling a thread lets its call return first. */
static void *cancelled_read(void *cq) {
    struct fi_cq_tagged_entry entry;
    CHECK(fi_cq_sread(cq, &entry, 1, NULL, 4 * MOMENT_MS) == -FI_EAGAIN);
    atomic_fetch_add(&ended, 1);
    pthread_testcancel();
    return NULL;
}

static void *cancelled_wait(void *counter) {
    CHECK(fi_cntr_wait(counter, 1, 4 * MOMENT_MS) == -FI_ETIMEDOUT);
    atomic_fetch_add(&ended, 1);
    pthread_testcancel();
    return NULL;
}

static void caught(int number) { (void)number; }

static void interrupted(void) {
    struct sigaction action = {.sa_handler = caught};
    struct fi_cq_attr no_queue = {.wait_obj = FI_WAIT_NONE}, yields = {.wait_obj = FI_WAIT_YIELD};
    struct fi_cntr_attr yielding = {.wait_obj = FI_WAIT_YIELD};
    void *objects[5], *(*calls[5])(void *) = {cancelled_read, cancelled_read, cancelled_read,
                                              cancelled_wait, cancelled_wait};
    struct fid_cq *cqs[2];
    pthread_t thread;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    open_side(&base, (struct wish){.wait = FI_WAIT_FD});
    rx = lone_cq = open_queue();
    OK(fi_cq_open(base.domain, &no_queue, &cqs[0], NULL));
    OK(fi_cq_open(base.domain, &yields, &cqs[1], NULL));
    lone_counter = open_counter();
    objects[0] = lone_cq;
    objects[1] = cqs[0];
    objects[2] = cqs[1];
    objects[3] = lone_counter;
    OK(fi_cntr_open(base.domain, &yielding, (struct fid_cntr **)&objects[4], NULL));
    for (int i = 0; i < 5; i++) {
        void *result;
        atomic_store(&ended, 0);
        CHECK(pthread_create(&thread, NULL, calls[i], objects[i]) == 0);
        usleep(MOMENT_MS * 1000);
        CHECK(pthread_cancel(thread) == 0);
        CHECK(pthread_join(thread, &result) == 0);
        CHECK(result == PTHREAD_CANCELED && ended == 1);
    }
    atomic_store(&ended, 0);
    CHECK(pthread_create(&thread, NULL, signalled, NULL) == 0);
    for (double late = now() + FORGOTTEN; !atomic_load(&ended); usleep(1000)) {
        CHECK(now() < late);
        CHECK(pthread_kill(thread, SIGUSR1) == 0);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    for (int i = 0; i < 5; i++)
        OK(fi_close(objects[i]));
    close_side(&base);
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    double seconds = argc > 2 ? atof(argv[2]) : 2;
    if (strcmp(name, "rounds") == 0)
        rounds(seconds, 0);
    else if (strcmp(name, "automatic") == 0)
        rounds(seconds, FI_PROGRESS_AUTO);
    else if (strcmp(name, "signals") == 0)
        signals(seconds);
    else if (strcmp(name, "timeouts") == 0)
        timeouts();
    else if (strcmp(name, "closing") == 0)
        closing();
    else if (strcmp(name, "no-room") == 0)
        no_room();
    else if (strcmp(name, "interrupted") == 0)
        interrupted();
    else
        FAIL("there is no case \"%s\"", name);
    return 0;
}
