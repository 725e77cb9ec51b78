/* forked CASE: a process with an open endpoint has children. They neither disturb it nor hide its
 * end. */
#include "side.h"

#include <pthread.h>
#include <sys/syscall.h>

enum { MESSAGES = 200, LEN = 3000 };

/* Answers with what it is sent, until it is told to end or its peer is gone. */
static int answers(struct other other) {
    struct side side;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    static unsigned char bytes[LEN];
    for (;;) {
        struct op in = {0}, out = {0};
        POST(&side, fi_recv(side.ep, bytes, LEN, NULL, side.peer, &in));
        wait_op(&side, &in);
        if (in.err || bytes[0] == 'e')
            break;
        POST(&side, fi_send(side.ep, bytes, LEN, NULL, side.peer, &out));
        expect(&side, &out);
    }
    close_side(&side);
    return 0;
}

/* The first byte of what is sent: whose it is. */
static unsigned char whose = 'p';

static void exchange(struct side *side, unsigned seed) {
    static unsigned char in[LEN], out[LEN];
    struct op a = {0}, b = {0};
    fill(out, LEN, seed);
    out[0] = whose;
    POST(side, fi_recv(side->ep, in, LEN, NULL, side->peer, &a));
    POST(side, fi_send(side->ep, out, LEN, NULL, side->peer, &b));
    expect(side, &b);
    expect(side, &a);
    CHECK(memcmp(in, out, LEN) == 0);
}

static void say_end(struct side *side) {
    static unsigned char end[LEN] = {'e'};
    struct op out = {0};
    POST(side, fi_send(side->ep, end, LEN, NULL, side->peer, &out));
    expect(side, &out);
}

static void wait_for(pid_t child, int wanted) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != wanted)
        FAIL("a child ended with status 0x%x", status);
}

/* What is the parent's is of no use to a child, and does it no harm. */
static void refuses(struct side *side) {
    char byte = 0;
    struct fi_cq_tagged_entry entry;
    struct fid_mr *mr;
    CHECK(fi_cq_read(side->cq, &entry, 1) == -FI_EOPNOTSUPP);
    CHECK(fi_cq_sread(side->cq, &entry, 1, NULL, -1) == -FI_EOPNOTSUPP);
    CHECK(fi_inject(side->ep, &byte, 1, side->peer) == -FI_EOPNOTSUPP);
    CHECK(fi_recv(side->ep, &byte, 1, NULL, side->peer, NULL) == -FI_EOPNOTSUPP);
    CHECK(fi_av_insert(side->av, &byte, 1, NULL, 0, NULL) == -FI_EOPNOTSUPP);
    CHECK(fi_mr_reg(side->domain, &byte, 1, FI_REMOTE_READ, 0, 1, 0, &mr, NULL) == -FI_EOPNOTSUPP);
}

static void closes_inherited(struct side *side) {
    OK(fi_close(&side->ep->fid));
    CHECK(fi_close(&side->ep->fid) == -FI_EINVAL);
    OK(fi_close(&side->cq->fid));
    OK(fi_close(&side->av->fid));
    OK(fi_close(&side->domain->fid));
    OK(fi_close(&side->fabric->fid));
}

/* A child closes what it has inherited, while its parent sleeps and talks. */
static void closes(void) {
    struct side side;
    open_side(&side, (struct wish){.wait = FI_WAIT_UNSPEC});
    struct other other = start(answers);
    introduce(&side, other);
    exchange(&side, 0);
    for (int i = 0; i < 10; i++) {
        fflush(NULL);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            refuses(&side);
            closes_inherited(&side);
            _exit(7);
        }
        for (unsigned k = 0; k < 20; k++)
            exchange(&side, k);
        wait_for(child, 7);
        for (unsigned k = 0; k < 20; k++)
            exchange(&side, k);
        struct fi_cq_tagged_entry entry;
        CHECK(fi_cq_sread(side.cq, &entry, 1, NULL, 5) == -FI_EAGAIN);
    }
    say_end(&side);
    finish_other(&other);
    close_side(&side);
}

/* A child opens an endpoint of its own and talks to the same peer. */
static int parent_of_talker(struct other other) {
    struct side side;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    exchange(&side, 1);
    tell(other, "1", 1);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct side own;
        whose = 'c';
        open_side(&own, (struct wish){0});
        introduce(&own, other);
        for (unsigned i = 0; i < MESSAGES; i++)
            exchange(&own, i);
        close_side(&own);
        _exit(7);
    }
    wait_for(child, 7);
    for (unsigned i = 0; i < MESSAGES; i++)
        exchange(&side, i);
    tell(other, "2", 1);
    close_side(&side);
    return 0;
}

static void opens(void) {
    struct side side;
    open_side(&side, (struct wish){0});
    struct other other = start(parent_of_talker);
    introduce(&side, other);
    static unsigned char bytes[LEN];
    int left = 2 * MESSAGES + 1;
    fi_addr_t parent = side.peer;
    char name[256];
    for (int i = 0; i < left; i++) {
        struct op in = {0}, out = {0};
        POST(&side, fi_recv(side.ep, bytes, LEN, NULL, FI_ADDR_UNSPEC, &in));
        while (!in.done) {
            drain(&side);
            ssize_t got = recv(other.fd, name, sizeof name, MSG_DONTWAIT);
            if (got > 1) {
                /* The child has introduced itself. */
                char mine[256];
                side.peer = insert(&side, name);
                tell(other, mine, own_name(&side, mine, sizeof mine));
            }
        }
        CHECK(!in.err);
        POST(&side, fi_send(side.ep, bytes, LEN, NULL, bytes[0] == 'c' ? side.peer : parent,
                            &out));
        expect(&side, &out);
    }
    finish_other(&other);
    close_side(&side);
}

/* Has a child that outlives it, and is killed. */
static int dies(struct other other) {
    struct side side;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    exchange(&side, 1);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, 0);
        sleep(20);
        _exit(0);
    }
    tell(other, &child, sizeof child);
    pause();
    return 1;
}

static void survives(void) {
    struct side side;
    open_side(&side, (struct wish){0});
    struct other other = start(dies);
    introduce(&side, other);
    static unsigned char bytes[LEN];
    struct op in = {0}, out = {0}, last = {0};
    POST(&side, fi_recv(side.ep, bytes, LEN, NULL, side.peer, &in));
    expect(&side, &in);
    POST(&side, fi_send(side.ep, bytes, LEN, NULL, side.peer, &out));
    expect(&side, &out);
    pid_t child;
    CHECK(hear(&side, other, &child, sizeof child) == sizeof child);
    POST(&side, fi_recv(side.ep, bytes, LEN, NULL, side.peer, &last));
    kill_other(&other);
    double begin = now();
    wait_op(&side, &last);
    CHECK(last.err && now() - begin < 1);
    CHECK(kill(child, SIGKILL) == 0);
    close_side(&side);
}

static struct side busy;

static void *polls(void *unused) {
    struct fi_cq_tagged_entry entries[8];
    for (;;)
        fi_cq_read(busy.cq, entries, 8);
    return unused;
}

static void *posts(void *unused) {
    static struct fi_context2 context;
    static char byte;
    for (;;) {
        fi_tinject(busy.ep, &byte, 1, busy.peer, 3);
        fi_trecv(busy.ep, &byte, 1, NULL, FI_ADDR_UNSPEC, 3, 0, &context);
    }
    return unused;
}

/* Uses what all objects of the process have in common. */
static void *opens_and_asks(void *unused) {
    for (;;) {
        struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_CONTEXT};
        struct fid_cq *cq;
        struct fi_info *info;
        OK(fi_cq_open(busy.domain, &attr, &cq, NULL));
        OK(fi_close(&cq->fid));
        if (fi_getinfo(FI_VERSION(1, 20), NULL, NULL, 0, busy.info, &info) == 0)
            fi_freeinfo(info);
    }
    return unused;
}

/* Children of a process whose threads are inside the library, and have its locks. */
static void threads(int progress) {
    char name[256];
    open_side(&busy, (struct wish){.wait = FI_WAIT_UNSPEC, .progress = progress});
    own_name(&busy, name, sizeof name);
    busy.peer = insert(&busy, name);
    void *(*run[])(void *) = {polls, polls, posts, opens_and_asks};
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, run[i], NULL) == 0);
    }
    for (int i = 0; i < 60; i++) {
        fflush(NULL);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(10);
            struct side own;
            refuses(&busy);
            if (i % 2)
                closes_inherited(&busy);
            open_side(&own, (struct wish){0});
            own_name(&own, name, sizeof name);
            own.peer = insert(&own, name);
            exchange(&own, 1);
            close_side(&own);
            _exit(7);
        }
        wait_for(child, 7);
    }
    /* Its threads are still at it. */
    _exit(0);
}

/* How the other process leaves, and whether handlers of forks see the child that it has by then. */
static const char *way;
static int unseen;
/* Whoever it leaves sleeps, and finds no descriptor before that. */
static int asleep;

static pid_t child_that_stays(void) {
    pid_t child = unseen ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
    CHECK(child >= 0);
    if (child == 0) {
        sleep(30);
        _exit(0);
    }
    return child;
}

static int leaver(struct other other) {
    struct side side;
    char byte;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    if (asleep)
        say_end(&side);
    else
        exchange(&side, 1);
    pid_t child = child_that_stays();
    tell(other, &child, sizeof child);
    hear(&side, other, &byte, 1);
    if (strcmp(way, "close") == 0) {
        OK(fi_close(&side.ep->fid));
        pause();
    }
    if (strcmp(way, "exec") == 0)
        execlp("sleep", "sleep", "30", (char *)NULL);
    _exit(0);
}

/* What the next descriptor would be. */
static int lowest_free(void) {
    int fd = dup(0);
    close(fd);
    return fd;
}

static struct rlimit limit;
static struct other other;

static void *leave_later(void *unused) {
    usleep(100000);
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    tell(other, "", 1);
    return unused;
}

static void sleep_until_left(struct side *side, struct op *op) {
    struct fi_cq_tagged_entry entry;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, leave_later, NULL) == 0);
    CHECK(fi_cq_sread(side->cq, &entry, 1, NULL, 5000) == -FI_EAVAIL);
    note_error(side);
    CHECK(op->done && pthread_join(thread, NULL) == 0);
}

/* All that depends on a peer ends with it, though a child of its own lives on. With so few descriptors
 * to `spare`, if not negative, we meet it. */
static void left_by(int spare) {
    static unsigned char bytes[1 << 20], rest[LEN];
    struct side side;
    struct rlimit low;
    open_side(&side, (struct wish){.wait = asleep ? FI_WAIT_FD : FI_WAIT_NONE});
    other = start(leaver);
    introduce(&side, other);
    struct op in = {0}, out = {0}, ops[4] = {0};
    POST(&side, fi_recv(side.ep, rest, LEN, NULL, side.peer, &in));
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    low = limit;
    if (spare >= 0)
        low.rlim_cur = (rlim_t)(lowest_free() + spare);
    CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
    expect(&side, &in);
    if (!asleep) {
        CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        POST(&side, fi_send(side.ep, rest, LEN, NULL, side.peer, &out));
        expect(&side, &out);
    }
    pid_t child;
    CHECK(hear(&side, other, &child, sizeof child) == sizeof child);
    POST(&side, fi_trecv(side.ep, rest, LEN, NULL, side.peer, 5, 0, &ops[0]));
    if (!asleep)
        POST(&side, fi_tsend(side.ep, bytes, sizeof bytes, NULL, side.peer, 9, &ops[1]));
    linger(&side, 0.02);
    double begin = now();
    if (asleep) {
        sleep_until_left(&side, &ops[0]);
    } else {
        tell(other, "", 1);
        wait_op(&side, &ops[0]);
        wait_op(&side, &ops[1]);
        CHECK(ops[1].err);
    }
    CHECK(ops[0].err && now() - begin < 2);
    POST(&side, fi_tsend(side.ep, bytes, 8, NULL, side.peer, 9, &ops[2]));
    POST(&side, fi_tsend(side.ep, bytes, sizeof bytes, NULL, side.peer, 9, &ops[3]));
    wait_op(&side, &ops[2]);
    wait_op(&side, &ops[3]);
    linger(&side, 0.05);
    for (int i = 0; i < 4; i++)
        CHECK(ops[i].done == (i != 1 || !asleep));
    kill_other(&other);
    CHECK(kill(child, SIGKILL) == 0);
    close_side(&side);
}

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    way = argv[argc - 1];
    if (strcmp(argv[1], "closes") == 0)
        closes();
    else if (strcmp(argv[1], "opens") == 0)
        opens();
    else if (strcmp(argv[1], "survives") == 0)
        survives();
    else if (strcmp(argv[1], "threads") == 0)
        threads(strcmp(way, "auto") == 0 ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL);
    else if (strcmp(argv[1], "left") == 0)
        left_by(-1);
    else if (strcmp(argv[1], "unseen") == 0) {
        unseen = 1;
        left_by(-1);
    } else if (strcmp(argv[1], "starved") == 0 || strcmp(argv[1], "asleep") == 0) {
        unseen = 1;
        asleep = argv[1][0] == 'a';
        for (int spare = 0; spare < 3; spare++)
            left_by(spare);
    } else
        FAIL("no case %s", argv[1]);
    return 0;
}
