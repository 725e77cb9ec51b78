/* forked CASE: a process with an open endpoint has children. They neither disturb it nor hide its
 * end. */
#include "side.h"

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
            struct fi_cq_tagged_entry entry;
            /* Progress of a child finds nothing that is its parent's. */
            for (int k = 0; i % 2 && k < 1000; k++)
                fi_cq_read(side.cq, &entry, 1);
            OK(fi_close(&side.ep->fid));
            OK(fi_close(&side.cq->fid));
            OK(fi_close(&side.av->fid));
            OK(fi_close(&side.domain->fid));
            OK(fi_close(&side.fabric->fid));
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

int main(int argc, char **argv) {
    CHECK(argc == 2);
    if (strcmp(argv[1], "closes") == 0)
        closes();
    else if (strcmp(argv[1], "opens") == 0)
        opens();
    else if (strcmp(argv[1], "survives") == 0)
        survives();
    else
        FAIL("no case %s", argv[1]);
    return 0;
}
