/* lifetimes CASE [COUNT]: objects that are closed in any order and beside others' use, operations
 * to nobody, and threads that share everything. */
#include "side.h"
#include <pthread.h>
#include <stdatomic.h>

static uint64_t dice = 1181783497276652981u;

static unsigned roll(unsigned sides) {
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return (unsigned)(dice >> 20) % sides;
}

enum { FABRIC, DOMAIN, VECTOR, QUEUE, COUNTER, REGION, ENDPOINT, OBJECTS };

/* Everything that a program opens, with sends to one who has gone still pending. */
static void open_all(struct fid *fids[OBJECTS], struct fi_info **info, const char *gone) {
    static char bytes[64];
    static struct op ops[5];
    struct side side = {0};
    struct fid_cntr *counter;
    struct fid_mr *region;
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
    prepare_side(&side, NULL, (struct wish){0});
    OK(fi_cntr_open(side.domain, &attr, &counter, NULL));
    OK(fi_ep_bind(side.ep, &counter->fid, FI_SEND));
    OK(fi_enable(side.ep));
    OK(fi_mr_reg(side.domain, bytes, sizeof bytes, FI_REMOTE_READ, 0, 1, 0, &region, NULL));
    side.peer = insert(&side, gone);
    for (int i = 0; i < 5; i++)
        OK(fi_send(side.ep, bytes, 8, NULL, side.peer, &ops[i]));
    fids[FABRIC] = &side.fabric->fid;
    fids[DOMAIN] = &side.domain->fid;
    fids[VECTOR] = &side.av->fid;
    fids[QUEUE] = &side.cq->fid;
    fids[COUNTER] = &counter->fid;
    fids[REGION] = &region->fid;
    fids[ENDPOINT] = &side.ep->fid;
    *info = side.info;
}

static int next_order(int *order) {
    int i = OBJECTS - 2, j = OBJECTS - 1;
    while (i >= 0 && order[i] > order[i + 1])
        i--;
    if (i < 0)
        return 0;
    while (order[j] < order[i])
        j--;
    int swap = order[i];
    order[i] = order[j];
    order[j] = swap;
    for (int a = i + 1, b = OBJECTS - 1; a < b; a++, b--) {
        swap = order[a];
        order[a] = order[b];
        order[b] = swap;
    }
    return 1;
}

/* All 5040 orders. An object with others under it is busy; when those are closed it closes, once. */
static void orders(void) {
    struct side gone;
    char name[256];
    int order[OBJECTS], count = 0;
    long busy = 0, resident = 0;
    open_side(&gone, (struct wish){0});
    own_name(&gone, name, sizeof name);
    close_side(&gone);
    for (int i = 0; i < OBJECTS; i++)
        order[i] = i;
    int fds = open_fds();
    do {
        struct fid *fids[OBJECTS];
        struct fi_info *info;
        open_all(fids, &info, name);
        int left = OBJECTS;
        for (int pass = 0; left; pass++) {
            CHECK(pass < OBJECTS);
            for (int i = 0; i < OBJECTS; i++) {
                struct fid **fid = &fids[order[i]];
                if (!*fid)
                    continue;
                int status = fi_close(*fid);
                CHECK(status == 0 || status == -FI_EBUSY);
                if (status) {
                    busy++;
                    continue;
                }
                CHECK(fi_close(*fid) == -FI_EINVAL);
                *fid = NULL;
                left--;
            }
        }
        fi_freeinfo(info);
        if (++count == 2520)
            resident = resident_kib();
    } while (next_order(order));
    long grown = resident_kib() - resident;
    fprintf(stderr, "%d orders, %ld times busy, grew by %ld KiB in the second half\n", count, busy,
            grown);
    CHECK(busy > 0 && open_fds() == fds && grown < 1024);
}

/* A queue that one thread reads all the time, and endpoints that come, send to each other, and go. */
static struct side shared;
static atomic_int stop;
static atomic_long seen;

static void *reader(void *unused) {
    (void)unused;
    while (!atomic_load(&stop)) {
        struct fi_cq_tagged_entry entries[8];
        struct fi_cq_err_entry error = {0};
        ssize_t got = fi_cq_read(shared.cq, entries, 8);
        if (got == -FI_EAVAIL)
            got = fi_cq_readerr(shared.cq, &error, 0);
        if (got > 0)
            atomic_fetch_add(&seen, got);
        else
            CHECK(got == -FI_EAGAIN);
    }
    return NULL;
}

static void churn(int steps) {
    enum { ROOM = 16 };
    static char bytes[ROOM][100000];
    struct fid_ep *eps[ROOM] = {0};
    fi_addr_t addrs[ROOM];
    pthread_t thread;
    int opened = 0, sends = 0;
    open_side(&shared, (struct wish){0});
    CHECK(pthread_create(&thread, NULL, reader, NULL) == 0);
    for (int step = 0; opened < steps || step < steps; step++) {
        unsigned i = roll(ROOM), k = roll(ROOM);
        if (!eps[i]) {
            char name[256];
            size_t len = sizeof name;
            OK(fi_endpoint(shared.domain, shared.info, &eps[i], NULL));
            OK(fi_ep_bind(eps[i], &shared.av->fid, 0));
            OK(fi_ep_bind(eps[i], &shared.cq->fid, FI_TRANSMIT | FI_RECV));
            OK(fi_enable(eps[i]));
            OK(fi_getname(&eps[i]->fid, name, &len));
            CHECK(fi_av_insert(shared.av, name, 1, &addrs[i], 0, NULL) == 1);
            opened++;
            for (int n = 0; n < 8; n++)
                OK(fi_recv(eps[i], bytes[i], sizeof bytes[i], NULL, FI_ADDR_UNSPEC, bytes[i]));
        } else if (roll(3) == 0) {
            OK(fi_close(&eps[i]->fid));
            OK(fi_av_remove(shared.av, &addrs[i], 1, 0));
            eps[i] = NULL;
        } else if (eps[k]) {
            /* Some large enough to be under way when an end closes. */
            size_t len = roll(2) ? 8 : sizeof bytes[i];
            long status = fi_send(eps[i], bytes[i], len, NULL, addrs[k], bytes[i]);
            CHECK(status == 0 || status == -FI_EAGAIN);
            sends++;
        }
    }
    for (int i = 0; i < ROOM; i++)
        if (eps[i])
            OK(fi_close(&eps[i]->fid));
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
    close_side(&shared);
    fprintf(stderr, "%d endpoints, %d sends, %ld completions\n", opened, sends,
            atomic_load(&seen));
    CHECK(atomic_load(&seen) > 0);
}

static double thread_time(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A failed first attempt spoils nothing: somebody takes the address, and the next one works. */
static void late_comer(void) {
    static const char name[] = "fi_shm://hosts.lifetimes.late";
    struct side early, late;
    open_side(&early, (struct wish){0});
    early.peer = insert(&early, name);
    for (int i = 0; i < 3; i++) {
        struct op refused = {0}, out = {0}, in = {0};
        uint64_t value = 5, got = 0;
        POST(&early, fi_send(early.ep, &value, 8, NULL, early.peer, &refused));
        wait_op(&early, &refused);
        CHECK(refused.err);
        memset(&late, 0, sizeof late);
        join_side(&late, &early, (struct wish){.name = name + strlen("fi_shm://")});
        POST(&late, fi_recv(late.ep, &got, 8, NULL, FI_ADDR_UNSPEC, &in));
        POST(&early, fi_send(early.ep, &value, 8, NULL, early.peer, &out));
        expect(&early, &out);
        expect(&late, &in);
        CHECK(got == 5);
        close_endpoint(&late);
        linger(&early, 0.05);
    }
    close_side(&early);
}

/* Nobody has the address: every operation is accepted and fails, soon and by name. Then as many
 * addresses of which each is tried once and removed. */
static void nobody(void) {
    enum { COUNT = 10000 };
    struct side side;
    double worst = 0, latest = 0;
    open_side(&side, (struct wish){0});
    char name[300], mine[256];
    size_t len = own_name(&side, mine, sizeof mine);
    CHECK(len > 4 && len < 256);
    long before = 0, same = 0;
    for (int i = 0; i < 2 * COUNT; i++) {
        struct op op = {0};
        char byte = 1;
        if (i == 0 || i > COUNT) {
            memcpy(name, mine, len);
            snprintf(name + len - 10, 10, "%08d", i);
            if (i > COUNT)
                OK(fi_av_remove(side.av, &side.peer, 1, 0));
            side.peer = insert(&side, name);
        }
        if (i == 100)
            before = resident_kib();
        if (i == COUNT)
            same = resident_kib();
        double cpu = thread_time(), begin = now();
        OK(fi_send(side.ep, &byte, 1, NULL, side.peer, &op));
        double took = thread_time() - cpu;
        worst = took > worst ? took : worst;
        wait_op(&side, &op);
        took = now() - begin;
        latest = took > latest ? took : latest;
        CHECK(op.err == FI_ECONNREFUSED);
    }
    fprintf(stderr,
            "posts of up to %.2f ms, errors after up to %.1f ms; grew by %ld KiB for one address, "
            "by %ld KiB for %d\n",
            worst * 1e3, latest * 1e3, same - before, resident_kib() - same, COUNT);
    CHECK(worst < 0.005 && latest < 1);
    CHECK(same - before < 1024 && resident_kib() - same < 16 << 10);
    close_side(&side);
    late_comer();
}

/* One side sends from two threads while others read its queue, change the vector and register
 * memory; the other receives. Each sender's messages keep their order and their bytes. */
static struct side from, to;
static double until;
static atomic_long sent[2], completed;

static void *sends(void *which) {
    uintptr_t tag = (uintptr_t)which;
    static uint64_t numbers[2][4096];
    for (uint64_t i = 0; now() < until; i++) {
        uint64_t *number = &numbers[tag][i % 4096];
        *number = i;
        /* What is on its way keeps its place. */
        while (atomic_load(&completed) + 2000 < atomic_load(&sent[0]) + atomic_load(&sent[1]))
            sched_yield();
        long status;
        while ((status = fi_tsend(from.ep, number, 8, NULL, from.peer, tag, NULL)) == -FI_EAGAIN)
            sched_yield();
        OK(status);
        atomic_fetch_add(&sent[tag], 1);
    }
    return NULL;
}

static void *reads(void *unused) {
    (void)unused;
    while (!atomic_load(&stop)) {
        struct fi_cq_tagged_entry entries[8];
        ssize_t got = fi_cq_read(from.cq, entries, 8);
        if (got > 0)
            atomic_fetch_add(&completed, got);
        else
            CHECK(got == -FI_EAGAIN);
    }
    return NULL;
}

static void *changes(void *unused) {
    (void)unused;
    static char bytes[4096];
    struct fid *fids[] = {&from.cq->fid};
    for (uint64_t i = 0; !atomic_load(&stop); i++) {
        struct fid_mr *mr;
        fi_addr_t addr = insert_named(&from, "hosts.lifetimes.absent");
        OK(fi_mr_reg(from.domain, bytes, sizeof bytes, FI_REMOTE_READ, 0, 100 + i % 3, 0, &mr,
                     NULL));
        int status = fi_trywait(from.fabric, fids, 1);
        CHECK(status == 0 || status == -FI_EAGAIN);
        OK(fi_close(&mr->fid));
        OK(fi_av_remove(from.av, &addr, 1, 0));
    }
    return NULL;
}

static void threads(double seconds) {
    enum { SENDERS = 2, AHEAD = 64 };
    struct op ops[SENDERS][AHEAD] = {0};
    uint64_t in[SENDERS][AHEAD], next[SENDERS] = {0};
    pthread_t ids[5];
    char name[256];
    open_side(&from, (struct wish){.wait = FI_WAIT_FD});
    CHECK(from.info->domain_attr->threading == FI_THREAD_SAFE);
    join_side(&to, &from, (struct wish){0});
    own_name(&to, name, sizeof name);
    from.peer = insert(&from, name);
    for (uint64_t s = 0; s < SENDERS; s++)
        for (int i = 0; i < AHEAD; i++)
            OK(fi_trecv(to.ep, &in[s][i], 8, NULL, FI_ADDR_UNSPEC, s, 0, &ops[s][i]));
    until = now() + seconds;
    void *(*const runs[])(void *) = {sends, sends, reads, reads, changes};
    for (uintptr_t i = 0; i < 5; i++)
        CHECK(pthread_create(&ids[i], NULL, runs[i], (void *)i) == 0);
    for (double late = now() + seconds + PATIENCE;;) {
        drain(&to);
        uint64_t all = 0;
        for (uint64_t s = 0; s < SENDERS; s++) {
            struct op *op;
            while ((op = &ops[s][next[s] % AHEAD])->done) {
                uint64_t *place = &in[s][next[s] % AHEAD];
                CHECK(!op->err && *place == next[s]);
                memset(op, 0, sizeof *op);
                OK(fi_trecv(to.ep, place, 8, NULL, FI_ADDR_UNSPEC, s, 0, op));
                next[s]++;
            }
            all += next[s];
        }
        if (now() > until + 0.1 && all == (uint64_t)(atomic_load(&sent[0]) + atomic_load(&sent[1])))
            break;
        if (now() > late)
            FAIL("%ld and %ld messages sent, %ld of them came", atomic_load(&sent[0]),
                 atomic_load(&sent[1]), (long)all);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(ids[i], NULL);
    for (double late = now() + PATIENCE;
         atomic_load(&completed) < atomic_load(&sent[0]) + atomic_load(&sent[1]);)
        CHECK(now() < late);
    atomic_store(&stop, 1);
    for (int i = 2; i < 5; i++)
        pthread_join(ids[i], NULL);
    CHECK(atomic_load(&completed) == atomic_load(&sent[0]) + atomic_load(&sent[1]));
    fprintf(stderr, "%ld and %ld messages\n", atomic_load(&sent[0]), atomic_load(&sent[1]));
    close_endpoint(&to);
    close_side(&from);
}

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    if (strcmp(argv[1], "orders") == 0) {
        orders();
    } else if (strcmp(argv[1], "churn") == 0 && argc == 3) {
        churn(atoi(argv[2]));
    } else if (strcmp(argv[1], "nobody") == 0) {
        nobody();
    } else if (strcmp(argv[1], "threads") == 0 && argc == 3) {
        threads(atof(argv[2]));
    } else {
        FAIL("no case %s", argv[1]);
    }
    return 0;
}
