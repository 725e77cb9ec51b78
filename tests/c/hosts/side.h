/* One endpoint, operations that count their completions, and a second process to talk to.
 *
 * For every case: an operation completes once, and closing leaves no descriptor behind. The
 * provider is PERCALE_PROVIDER's, "shm" if that is not set. */
#ifndef SIDE_H
#define SIDE_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <dirent.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

static const char *role = "A";

#define FAIL(...)                                                                                  \
    do {                                                                                           \
        fprintf(stderr, "%s %s:%d: ", role, __FILE__, __LINE__);                                   \
        fprintf(stderr, __VA_ARGS__);                                                              \
        fputc('\n', stderr);                                                                       \
        _exit(1);                                                                                  \
    } while (0)

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            FAIL("%s", #condition);                                                                \
    } while (0)

/* A call that must return zero. */
#define OK(call)                                                                                   \
    do {                                                                                           \
        long status_ = (call);                                                                     \
        if (status_)                                                                               \
            FAIL("%s: %ld %s", #call, status_, fi_strerror((int)-status_));                        \
    } while (0)

/* A data call, repeated with progress while it wants that. */
#define POST(side, call)                                                                           \
    do {                                                                                           \
        long status_;                                                                              \
        double late_ = now() + PATIENCE;                                                           \
        while ((status_ = (call)) == -FI_EAGAIN) {                                                 \
            drain(side);                                                                           \
            if (now() > late_)                                                                     \
                FAIL("%s: FI_EAGAIN without end", #call);                                          \
        }                                                                                          \
        if (status_)                                                                               \
            FAIL("%s: %ld %s", #call, status_, fi_strerror((int)-status_));                        \
    } while (0)

/* Seconds that anything may take. */
static double patience = 10;
#define PATIENCE patience

static inline double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static inline double cpu_time(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* An operation's context: how often it completed, and how. */
struct op {
    struct fi_context2 context;
    int done;
    int err;
    size_t len;
    size_t olen;
    uint64_t flags;
    uint64_t tag;
    uint64_t data;
    fi_addr_t src;
    void *buf;
    /* A multi-receive buffer, which completes with each message. */
    int several;
};

struct side {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    fi_addr_t peer;
    /* Atomic operations are offered. */
    int atomics;
    long completions;
    /* Remote CQ data that came without a context of ours: how many, and their sum. */
    long written;
    uint64_t written_sum;
    int fds_before;
};

/* Descriptors of the programs themselves. */
static int own_fds;

struct wish {
    uint64_t caps;
    int progress;
    enum fi_wait_obj wait;
    const char *name;
    size_t cq_size;
};

/* Entries of a directory; open descriptors for "/proc/self/fd". */
static inline int entries_of(const char *path) {
    int count = 0;
    DIR *dir = opendir(path);
    CHECK(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* Leaves the process as many descriptors as are named, and no more; returns what it could have. */
static inline struct rlimit leave_descriptors(int spare) {
    struct rlimit before, few;
    int lowest = dup(0);
    CHECK(lowest >= 0 && getrlimit(RLIMIT_NOFILE, &before) == 0);
    close(lowest);
    few = before;
    few.rlim_cur = (rlim_t)(lowest + spare);
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    return before;
}

static inline int open_fds(void) { return entries_of("/proc/self/fd"); }

static inline const char *provider(void) {
    const char *name = getenv("PERCALE_PROVIDER");
    return name ? name : "shm";
}

static inline int is_shm(void) { return strcmp(provider(), "shm") == 0; }

static inline int is_layered(void) { return strstr(provider(), "ofi_rxm") != NULL; }

/* Over a network: the address to listen at, NULL for one that the provider chooses. */
static const char *own_node = "127.0.0.1";

/* Name and service under which an endpoint is found; networks have no names of ours, but ports. */
static inline const char *place_of(const char *name, char service[8]) {
    if (is_shm())
        return name;
    unsigned port = 0;
    for (const char *at = name; at && *at; at++)
        port = port * 31 + (unsigned char)*at;
    snprintf(service, 8, "%u", name ? 20000 + port % 10000 : 0);
    return own_node;
}

/* Other libraries have atomics over TCP in another protocol only. */
static int no_atomics;

/* All but the last step, for those who bind more. */
static inline void prepare_side(struct side *side, const struct side *shared, struct wish wish) {
    struct fi_cq_attr cq = {
        .format = FI_CQ_FORMAT_TAGGED, .wait_obj = wish.wait, .size = wish.cq_size};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    struct fi_info *hints = fi_allocinfo();
    CHECK(hints);
    hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_DIRECTED_RECV | FI_SOURCE |
                  FI_MULTI_RECV | wish.caps;
    if (no_atomics)
        hints->caps &= ~FI_ATOMIC;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR;
    hints->domain_attr->progress = wish.progress;
    hints->fabric_attr->prov_name = strdup(provider());
    char port[8] = "";
    const char *node = place_of(wish.name, port), *service = node && *port ? port : NULL;
    uint64_t flags = node ? FI_SOURCE : 0;
    int found = fi_getinfo(FI_VERSION(1, 20), node, service, flags, hints, &side->info);
    if (found == -FI_ENODATA && !is_shm()) {
        hints->caps &= ~FI_ATOMIC;
        found = fi_getinfo(FI_VERSION(1, 20), node, service, flags, hints, &side->info);
    }
    OK(found);
    side->atomics = (side->info->caps & FI_ATOMIC) != 0;
    fi_freeinfo(hints);
    if (shared) {
        side->fabric = shared->fabric;
        side->domain = shared->domain;
        side->av = shared->av;
    } else {
        side->fds_before = open_fds() - own_fds;
        OK(fi_fabric(side->info->fabric_attr, &side->fabric, NULL));
        OK(fi_domain(side->fabric, side->info, &side->domain, NULL));
        OK(fi_av_open(side->domain, &av, &side->av, NULL));
    }
    OK(fi_endpoint(side->domain, side->info, &side->ep, NULL));
    OK(fi_cq_open(side->domain, &cq, &side->cq, NULL));
    OK(fi_ep_bind(side->ep, &side->av->fid, 0));
    OK(fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_RECV));
}

/* How peers name a byte of a region that begins at `base`: by its address, or by its offset. */
static inline uint64_t remote_place(const struct side *side, const void *base) {
    return side->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)base : 0;
}

static inline void join_side(struct side *side, const struct side *shared, struct wish wish) {
    prepare_side(side, shared, wish);
    OK(fi_enable(side->ep));
}

static inline void open_side(struct side *side, struct wish wish) {
    memset(side, 0, sizeof *side);
    join_side(side, NULL, wish);
}

/* Without a look at descriptors, for a program whose other end of a connection is still open. */
static inline void release_shared(struct side *side) {
    OK(fi_close(&side->av->fid));
    OK(fi_close(&side->domain->fid));
    OK(fi_close(&side->fabric->fid));
}

static inline void close_shared(struct side *side) {
    release_shared(side);
    int left = open_fds() - own_fds - side->fds_before;
    if (left)
        FAIL("%d descriptors are left", left);
}

static inline void close_endpoint(struct side *side) {
    OK(fi_close(&side->ep->fid));
    OK(fi_close(&side->cq->fid));
    fi_freeinfo(side->info);
}

/* What is left when the endpoint is closed. */
static inline void close_rest(struct side *side) {
    OK(fi_close(&side->cq->fid));
    fi_freeinfo(side->info);
    close_shared(side);
}

static inline void close_side(struct side *side) {
    close_endpoint(side);
    close_shared(side);
}

static inline void count_op(struct op *op) {
    if (op->done++ && !op->several)
        FAIL("an operation completes for the second time");
}

static inline void note_error(struct side *side) {
    struct fi_cq_err_entry error = {0};
    CHECK(fi_cq_readerr(side->cq, &error, 0) == 1);
    side->completions++;
    if (!error.op_context)
        return;
    struct op *op = error.op_context;
    count_op(op);
    op->src = error.src_addr;
    op->err = error.err;
    op->len = error.len;
    op->olen = error.olen;
    op->flags = error.flags;
    op->tag = error.tag;
}

static inline void count_entry(struct side *side, const struct fi_cq_tagged_entry *entry) {
    struct op *op = entry->op_context;
    side->completions++;
    if (!op) {
        side->written++;
        side->written_sum += entry->data;
        return;
    }
    count_op(op);
    op->data = entry->data;
    op->len = entry->len;
    op->flags = entry->flags;
    op->tag = entry->tag;
    op->buf = entry->buf;
}

/* Progress, and everything that has completed. Two processes that only poll would wait for each
 * other's turn on a machine where others are busy, too: so it gives up its own at times. */
static inline void drain(struct side *side) {
    static unsigned fruitless;
    struct fi_cq_tagged_entry entries[16];
    if (++fruitless % 2048 == 0)
        sched_yield();
    for (;;) {
        ssize_t got = fi_cq_read(side->cq, entries, 16);
        if (got == -FI_EAVAIL) {
            note_error(side);
            continue;
        }
        if (got == -FI_EAGAIN)
            return;
        CHECK(got > 0);
        fruitless = 0;
        for (ssize_t i = 0; i < got; i++)
            count_entry(side, &entries[i]);
        if (got < 16)
            return;
    }
}

static inline void wait_op(struct side *side, struct op *op) {
    double late = now() + PATIENCE;
    while (!op->done) {
        drain(side);
        if (now() > late)
            FAIL("an operation does not complete");
    }
}

/* Waits for an operation that must succeed, once. */
static inline void expect(struct side *side, struct op *op) {
    wait_op(side, op);
    if (op->done != 1 || op->err)
        FAIL("completed %d times, error %d %s", op->done, op->err, fi_strerror(op->err));
    memset(op, 0, sizeof *op);
}

/* The same with progress of another endpoint: over a network, the first contact needs both. */
static inline void expect_with(struct side *side, struct op *op, struct side *beside) {
    for (double late = now() + PATIENCE; !op->done && now() < late;) {
        drain(side);
        drain(beside);
    }
    expect(side, op);
}

/* The other process: its end of a socket pair, and who it is. */
struct other {
    int fd;
    pid_t pid;
};

/* Starts the other process, which ends with this one. */
static inline struct other start(int (*run)(struct other)) {
    int fds[2];
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0);
    fflush(NULL);
    pid_t parent = getpid();
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        role = "B";
        own_fds = 0;
        close(fds[0]);
        _exit(run((struct other){fds[1], parent}));
    }
    close(fds[1]);
    own_fds++;
    return (struct other){fds[0], pid};
}

/* Waits for its end. */
static inline int bury(struct other *other) {
    int status;
    CHECK(waitpid(other->pid, &status, 0) == other->pid);
    close(other->fd);
    own_fds--;
    return status;
}

/* Ends it. */
static inline void kill_other(struct other *other) {
    CHECK(kill(other->pid, SIGKILL) == 0);
    bury(other);
}

/* Waits for its good end. */
static inline void finish_other(struct other *other) {
    int status = bury(other);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        FAIL("B ended with status 0x%x", status);
}

static inline void tell(struct other other, const void *bytes, size_t len) {
    CHECK(send(other.fd, bytes, len, MSG_NOSIGNAL) == (ssize_t)len);
}

/* What the other process tells, with progress of `side` meanwhile. */
static inline size_t hear(struct side *side, struct other other, void *bytes, size_t room) {
    double late = now() + PATIENCE;
    for (;;) {
        ssize_t got = recv(other.fd, bytes, room, MSG_DONTWAIT);
        if (got > 0)
            return (size_t)got;
        if (got == 0)
            FAIL("the other process has ended");
        CHECK(errno == EAGAIN || errno == EINTR);
        if (side) {
            drain(side);
        } else {
            poll(&(struct pollfd){other.fd, POLLIN, 0}, 1, 100);
        }
        if (now() > late)
            FAIL("the other process tells nothing");
    }
}

/* Both go on when both are here. */
static inline void meet(struct side *side, struct other other) {
    char byte = 'm';
    tell(other, &byte, 1);
    CHECK(hear(side, other, &byte, 1) == 1 && byte == 'm');
}

static inline size_t own_name(struct side *side, char *name, size_t room) {
    size_t len = room;
    OK(fi_getname(&side->ep->fid, name, &len));
    return len;
}

static inline fi_addr_t insert(struct side *side, const char *name) {
    fi_addr_t addr = FI_ADDR_UNSPEC;
    CHECK(fi_av_insert(side->av, name, 1, &addr, 0, NULL) == 1);
    return addr;
}

/* The address of an endpoint that is opened under a name. */
static inline fi_addr_t insert_named(struct side *side, const char *name) {
    char port[8] = "", address[256];
    const char *node = place_of(name, port);
    fi_addr_t addr = FI_ADDR_UNSPEC;
    if (!is_shm()) {
        CHECK(fi_av_insertsvc(side->av, node, port, &addr, 0, NULL) == 1);
        return addr;
    }
    snprintf(address, sizeof address, "fi_shm://%s", name);
    return insert(side, address);
}

/* Exchanges names; the other is `side->peer` afterwards. */
static inline void introduce(struct side *side, struct other other) {
    char name[256];
    tell(other, name, own_name(side, name, sizeof name));
    hear(side, other, name, sizeof name);
    side->peer = insert(side, name);
}

static inline void fill(unsigned char *bytes, size_t len, unsigned seed) {
    for (size_t i = 0; i < len; i++)
        bytes[i] = (unsigned char)(seed + i + (i >> 8) * 7 + (i >> 16) * 31);
}

static inline void verify(const unsigned char *bytes, size_t len, unsigned seed) {
    for (size_t i = 0; i < len; i++) {
        unsigned char wanted = (unsigned char)(seed + i + (i >> 8) * 7 + (i >> 16) * 31);
        if (bytes[i] != wanted)
            FAIL("byte %zu of %zu is %u, not %u", i, len, bytes[i], wanted);
    }
}

/* Progress for a while. */
static inline void linger(struct side *side, double seconds) {
    for (double end = now() + seconds; now() < end;)
        drain(side);
}

/* Lines of /proc/net/unix with one of our names. */
static inline int socket_names(const char *part) {
    char line[512];
    int count = 0;
    FILE *file = fopen("/proc/net/unix", "re");
    CHECK(file);
    while (fgets(line, sizeof line, file))
        count += strstr(line, part) != NULL;
    fclose(file);
    return count;
}

static inline long resident_kib(void) {
    long total, resident;
    FILE *file = fopen("/proc/self/statm", "re");
    CHECK(file && fscanf(file, "%ld %ld", &total, &resident) == 2);
    fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

#endif
