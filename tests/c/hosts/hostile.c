/* hostile CASE SECONDS: processes that know where an endpoint listens and how peers introduce
 * themselves. The endpoint neither crashes nor hangs, and serves its honest peers. */
#include "visitor.h"

/* One visit of a kind. */
static void visit(int kind) {
    char bytes[4096], name[64];
    struct hello hello;
    int fd = connect_to(owner), ring = -1, pipes[2];
    snprintf(name, sizeof name, "hosts.hostile.%d", (int)(roll() % 50));
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)roll();
    switch (kind) {
    case 0:
        break;
    case 1:
        say(fd, "!", 1);
        break;
    case 2:
        say(fd, "GET / HTTP/1.0\r\n\r\n", 18);
        break;
    case 3:
        say(fd, &hello, make_hello(&hello, name) % 41);
        break;
    case 4: {
        size_t len = make_hello(&hello, name);
        hello.version = VERSION + 1 + (uint32_t)(roll() % 3);
        say(fd, &hello, len);
        break;
    }
    case 5:
        say_hello(fd, name);
        ring = make_ring(0);
        give(fd, SLOTS, PAGE, &ring, 1);
        /* The owner must not have mapped what can shrink under it. */
        CHECK(ftruncate(ring, 0) == 0);
        break;
    case 6:
        say_hello(fd, name);
        ring = make_ring(1);
        give(fd, 1u << 31, 1ull << 40, &ring, 1);
        break;
    case 7:
        say_hello(fd, name);
        ring = make_ring(1);
        give(fd, (uint64_t)-1, (uint64_t)-64, &ring, 1);
        break;
    case 8:
        say_hello(fd, name);
        give(fd, SLOTS, PAGE, NULL, 0);
        break;
    case 9:
        say_hello(fd, name);
        say_hello(fd, name);
        say_hello(fd, "hosts.hostile.other");
        break;
    case 10:
        ring = make_ring(1);
        give(fd, SLOTS, PAGE, &ring, 1);
        break;
    case 11:
        say(fd, bytes, sizeof bytes);
        break;
    case 12:
        say_hello(fd, "a/b/../c");
        break;
    case 13:
        say_hello(fd, owner);
        break;
    case 14:
        say_hello(fd, name);
        ring = make_ring(1);
        for (int i = 0; i < 200; i++)
            give(fd, SLOTS, PAGE, &ring, 1);
        break;
    case 15:
        say_hello(fd, name);
        CHECK(pipe(pipes) == 0);
        give(fd, SLOTS, PAGE, &pipes[0], 1);
        close(pipes[0]);
        close(pipes[1]);
        break;
    case 16: {
        say_hello(fd, name);
        ring = make_ring(1);
        int fds[8] = {ring, ring, ring, ring, ring, ring, ring, ring};
        give(fd, SLOTS, PAGE, fds, 8);
        break;
    }
    default:
        say(fd, bytes, (size_t)(roll() % 200));
    }
    if (ring >= 0)
        close(ring);
    close(fd);
}

enum { KINDS = 18, VISITS = 1000, SILENT = 300 };

static int visitor(struct other other) {
    struct rlimit files;
    CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
    files.rlim_cur = files.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
    hear(NULL, other, owner, sizeof owner);
    for (int i = 0; i < VISITS; i++)
        visit(i % KINDS);
    /* Many come and say nothing. */
    static int silent[SILENT];
    for (int i = 0; i < SILENT; i++)
        silent[i] = connect_to(owner);
    char byte = 's';
    tell(other, &byte, 1);
    hear(NULL, other, &byte, 1);
    for (int i = 0; i < SILENT; i++)
        close(silent[i]);
    tell(other, &byte, 1);
    return 0;
}

/* Random packets in proper slots, and random words over everything that two ends share. */
static uint64_t likely(void) {
    static const uint64_t words[] = {0, 1, 2, 7, 8, 48, 64, 4096, 1u << 20, UINT32_MAX,
                                     1ull << 32, 1ull << 63, (uint64_t)-1, (uint64_t)-8};
    return roll() % 3 ? words[roll() % (sizeof words / sizeof *words)] : roll();
}

static int scribbler(struct other other) {
    size_t got = hear(NULL, other, owner, sizeof owner);
    double end;
    CHECK(got);
    hear(NULL, other, &end, sizeof end);
    unsigned long connections = 0;
    while (now() < end) {
        int fd = connect_to(owner), ring = make_ring(1);
        uint64_t *words = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, ring, 0);
        CHECK(words != MAP_FAILED);
        say_hello(fd, "hosts.hostile.scribbler");
        give(fd, SLOTS, PAGE, &ring, 1);
        close(ring);
        connections++;
        uint64_t *back = MAP_FAILED;
        uint32_t next = 1;
        int wild = (int)(roll() % 2);
        for (double until = now() + 0.02 + (double)(roll() % 100) / 1e3; now() < until;) {
            int theirs;
            int heard = take(fd, &theirs);
            if (heard == 0)
                break;
            if (theirs >= 0) {
                if (back == MAP_FAILED)
                    back = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, theirs, 0);
                close(theirs);
            }
            for (int i = 0; i < 8; i++) {
                uint64_t *slot = words + 3 * LINE / 8 + (next - 1) % SLOTS * (LINE / 8);
                for (int k = 1; k < 8; k++)
                    slot[k] = likely();
                for (int k = 0; k < 8; k++)
                    words[(3 + SLOTS) * LINE / 8 + roll() % 300] = likely();
                uint64_t op = roll() % 20, flags = roll() % 256, len = roll() % 56;
                __atomic_store_n(slot, next | op << 32 | flags << 40 | len << 48,
                                 __ATOMIC_RELEASE);
                next++;
                if (wild)
                    words[roll() % (PAGE / 8)] = likely();
                if (back != MAP_FAILED && roll() % 4 == 0)
                    back[roll() % (PAGE / 8)] = likely();
            }
        }
        munmap(words, PAGE);
        if (back != MAP_FAILED)
            munmap(back, PAGE);
        close(fd);
    }
    tell(other, &connections, sizeof connections);
    return 0;
}

static int honest(struct other other) {
    struct side side;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    static unsigned char bytes[1 << 20];
    struct op op = {0};
    fill(bytes, sizeof bytes, 9);
    POST(&side, fi_tsend(side.ep, bytes, 8, NULL, side.peer, 7700, &op));
    expect(&side, &op);
    POST(&side, fi_tsend(side.ep, bytes, sizeof bytes, NULL, side.peer, 7800, &op));
    expect(&side, &op);
    meet(&side, other);
    close_side(&side);
    return 0;
}

/* An honest peer comes, is served within a second, and leaves. */
static void serve_honest(struct side *side) {
    static unsigned char bytes[1 << 20];
    struct other other = start(honest);
    struct op small = {0}, large = {0};
    introduce(side, other);
    double begin = now();
    POST(side, fi_trecv(side->ep, bytes, 8, NULL, side->peer, 7700, 0, &small));
    expect(side, &small);
    verify(bytes, 8, 9);
    POST(side, fi_trecv(side->ep, bytes, sizeof bytes, NULL, side->peer, 7800, 0, &large));
    expect(side, &large);
    verify(bytes, sizeof bytes, 9);
    double took = now() - begin;
    meet(side, other);
    finish_other(&other);
    if (took > 1)
        FAIL("an honest peer waited for %.1f s", took);
}

static void visits(void) {
    struct side side;
    char name[256];
    open_side(&side, (struct wish){.wait = FI_WAIT_UNSPEC});
    serve_honest(&side);
    linger(&side, 0.05);
    int before = open_fds();
    struct other other = start(visitor);
    int after_start = open_fds();
    own_name(&side, name, sizeof name);
    tell(other, name + strlen("fi_shm://"), strlen(name) - strlen("fi_shm://") + 1);
    char byte;
    hear(&side, other, &byte, 1);
    linger(&side, 0.05);
    serve_honest(&side);
    /* The silent ones cost no time. */
    struct fi_cq_tagged_entry entry;
    double cpu = cpu_time();
    CHECK(fi_cq_sread(side.cq, &entry, 1, NULL, 500) == -FI_EAGAIN);
    double used = cpu_time() - cpu;
    if (used > 0.1)
        FAIL("%.0f ms of processor time while silent peers wait", used * 1e3);
    tell(other, &byte, 1);
    hear(&side, other, &byte, 1);
    linger(&side, 0.1);
    if (open_fds() != after_start)
        FAIL("%d descriptors were open, now %d", after_start, open_fds());
    finish_other(&other);
    CHECK(open_fds() == before);
    close_side(&side);
}

static void scribbles(double seconds) {
    enum { RECEIVES = 64, WINDOW = 1 << 16, GUARD = 4096 };
    struct side side;
    struct fid_mr *mr;
    char name[256];
    open_side(&side, (struct wish){.caps = FI_RMA_EVENT});
    unsigned char *window = malloc(WINDOW + 2 * GUARD);
    CHECK(window);
    memset(window, 0xa5, WINDOW + 2 * GUARD);
    OK(fi_mr_reg(side.domain, window + GUARD, WINDOW, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 7, 0,
                 &mr, NULL));
    fi_addr_t enemy = insert(&side, "fi_shm://hosts.hostile.scribbler");
    struct other other = start(scribbler);
    int fds = open_fds();
    own_name(&side, name, sizeof name);
    tell(other, name + strlen("fi_shm://"), strlen(name) - strlen("fi_shm://") + 1);
    double end = now() + seconds;
    tell(other, &end, sizeof end);
    static struct op receives[RECEIVES], sends[RECEIVES];
    static unsigned char in[RECEIVES][192], out[1 << 16];
    memset(in, 0x5a, sizeof in);
    for (int i = 0; i < RECEIVES; i++)
        receives[i].done = sends[i].done = 1;
    long ended = 0;
    double served = 0;
    for (unsigned turn = 0; now() < end; turn++) {
        for (int i = 0; i < RECEIVES; i++) {
            if (receives[i].done) {
                receives[i].done = 0;
                /* Some tagged, some for the enemy alone. */
                fi_addr_t from = i % 3 ? FI_ADDR_UNSPEC : enemy;
                if (i % 2) {
                    POST(&side, fi_trecv(side.ep, in[i] + 64, 64, NULL, from, 0, 0xff, &receives[i]));
                } else {
                    POST(&side, fi_recv(side.ep, in[i] + 64, 64, NULL, from, &receives[i]));
                }
            }
            if (sends[i].done) {
                ended += sends[i].err != 0;
                memset(&sends[i], 0, sizeof sends[i]);
                size_t len = (size_t)1 << (i % 17);
                if (fi_tsend(side.ep, out, len, NULL, enemy, 5, &sends[i]) != 0)
                    sends[i].done = 1;
            }
        }
        drain(&side);
        for (int i = 0; i < RECEIVES; i++) {
            CHECK(receives[i].done <= 1 && sends[i].done <= 1);
            for (int k = 0; k < 64; k++)
                CHECK(in[i][k] == 0x5a && in[i][128 + k] == 0x5a);
        }
        if (now() > served + 1) {
            serve_honest(&side);
            served = now();
        }
    }
    unsigned long connections;
    hear(&side, other, &connections, sizeof connections);
    finish_other(&other);
    for (double quiet = now() + 0.2; now() < quiet;)
        drain(&side);
    for (int i = 0; i < RECEIVES; i++) {
        CHECK(sends[i].done == 1);
        OK(fi_cancel(&side.ep->fid, &receives[i]));
        wait_op(&side, &receives[i]);
    }
    for (int i = 0; i < GUARD; i++)
        CHECK(window[i] == 0xa5 && window[GUARD + WINDOW + i] == 0xa5);
    CHECK(connections > 3 && ended > 0);
    fprintf(stderr, "%lu connections, %ld sends failed\n", connections, ended);
    /* The control socket of the other process is closed, too. */
    if (open_fds() != fds - 1)
        FAIL("%d descriptors were open, now %d", fds - 1, open_fds());
    OK(fi_close(&mr->fid));
    close_side(&side);
    free(window);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    if (strcmp(argv[1], "visits") == 0) {
        visits();
    } else if (strcmp(argv[1], "scribbles") == 0) {
        scribbles(atof(argv[2]));
    } else {
        FAIL("no case %s", argv[1]);
    }
    return 0;
}
