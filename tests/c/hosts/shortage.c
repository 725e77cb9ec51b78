/* shortage CASE: something has run out, at the peer or here: its backlog, its descriptors, the size
 * of files, memory for names. Nothing is lost that counts as sent, and nothing ends the program. */
#include <stdbool.h>
#include <stddef.h>
#include <sys/un.h>

#include "side.h"

/* Receives one message when it is told to. */
static int late_receiver(struct other other) {
    struct side side;
    open_side(&side, (struct wish){.name = "hosts.shortage.backlog"});
    meet(NULL, other);
    meet(NULL, other);
    char in[8] = "";
    struct op op = {0};
    POST(&side, fi_recv(side.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, &op));
    expect(&side, &op);
    CHECK(memcmp(in, "hello", 5) == 0);
    meet(&side, other);
    close_side(&side);
    return 0;
}

/* Connections that say nothing fill the peer's backlog: no operation completes before it is on its
 * way, and all do when there is room. */
static void backlog(void) {
    enum { MOST = 15000 };
    struct rlimit files;
    CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
    files.rlim_cur = files.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
    struct other other = start(late_receiver);
    struct side side;
    open_side(&side, (struct wish){0});
    meet(&side, other);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int len = snprintf(address.sun_path + 1, sizeof address.sun_path - 1,
                       "percale/%u/hosts.shortage.backlog", getuid());
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
    static int fds[MOST];
    int count = 0;
    bool full = false;
    while (count < MOST && !full) {
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd < 0)
            break;
        full = connect(fd, (struct sockaddr *)&address, size) != 0;
        fds[count++] = fd;
    }
    side.peer = insert_named(&side, "hosts.shortage.backlog");
    struct op sent = {0};
    POST(&side, fi_send(side.ep, "hello", 5, NULL, side.peer, &sent));
    for (double end = now() + 0.3; now() < end;)
        drain(&side);
    if (full)
        CHECK(!sent.done);
    else
        fprintf(stderr, "too few descriptors to fill a backlog\n");
    for (int i = 0; i < count; i++)
        close(fds[i]);
    meet(&side, other);
    meet(&side, other);
    expect(&side, &sent);
    close_side(&side);
    finish_other(&other);
}

enum { MESSAGES = 60, LEN = 3000 };

/* Takes every descriptor that there is, before (`first`) or after the first message, and receives
 * everything all the same. */
static int poor_receiver(struct other other, bool first) {
    struct side side;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    static unsigned char in[MESSAGES][LEN];
    static struct op ops[MESSAGES];
    for (int i = 0; i < MESSAGES; i++)
        POST(&side, fi_recv(side.ep, in[i], LEN, NULL, FI_ADDR_UNSPEC, &ops[i]));
    if (!first)
        wait_op(&side, &ops[0]);
    struct rlimit files;
    CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
    files.rlim_cur = 256;
    CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
    while (dup(0) >= 0)
        own_fds++;
    CHECK(errno == EMFILE);
    meet(&side, other);
    for (int i = 0; i < MESSAGES; i++)
        expect(&side, &ops[i]);
    meet(&side, other);
    close_side(&side);
    return 0;
}

static int poor_at_first(struct other other) { return poor_receiver(other, true); }
static int poor_later(struct other other) { return poor_receiver(other, false); }

/* The peer has no descriptor for a connection, or none for the ring that a busy pair gets. */
static void descriptors(bool first) {
    struct side side;
    open_side(&side, (struct wish){0});
    struct other other = start(first ? poor_at_first : poor_later);
    introduce(&side, other);
    static unsigned char out[LEN];
    static struct op ops[MESSAGES];
    memset(ops, 0, sizeof ops);
    int sent = 0;
    if (!first)
        POST(&side, fi_send(side.ep, out, 8, NULL, side.peer, &ops[sent++]));
    meet(&side, other);
    for (; sent < MESSAGES; sent++)
        POST(&side, fi_send(side.ep, out, sent % 2 ? 8 : LEN, NULL, side.peer, &ops[sent]));
    for (int i = 0; i < MESSAGES; i++)
        expect(&side, &ops[i]);
    meet(&side, other);
    close_side(&side);
    finish_other(&other);
}

/* Thousands of clients, each under a name of its own: the server forgets them. */
static void names(void) {
    enum { CLIENTS = 4000, WARM = 1000 };
    struct side server;
    open_side(&server, (struct wish){0});
    char name[256];
    own_name(&server, name, sizeof name);
    long before = 0;
    for (int i = 0; i < CLIENTS; i++) {
        struct side side;
        open_side(&side, (struct wish){0});
        side.peer = insert(&side, name);
        struct op sent = {0}, received = {0};
        char in[8];
        POST(&side, fi_send(side.ep, "hello", 5, NULL, side.peer, &sent));
        expect_with(&side, &sent, &server);
        close_endpoint(&side);
        release_shared(&side);
        POST(&server, fi_recv(server.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, &received));
        expect(&server, &received);
        if (i == WARM)
            before = resident_kib();
    }
    long growth = resident_kib() - before;
    if (growth > 512)
        FAIL("the server grew by %ld KiB", growth);
    close_side(&server);
}

static int small_files(void) {
    struct rlimit size = {8192, 8192};
    return setrlimit(RLIMIT_FSIZE, &size);
}

static int with_small_files(struct other other) {
    struct side side;
    CHECK(small_files() == 0);
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    static unsigned char in[1 << 20];
    for (int shift = 0; shift <= 20; shift++) {
        struct op op = {0};
        POST(&side, fi_recv(side.ep, in, sizeof in, NULL, side.peer, &op));
        expect(&side, &op);
        verify(in, (size_t)1 << shift, (unsigned)shift);
    }
    meet(&side, other);
    close_side(&side);
    return 0;
}

/* No file may be as large as a busy pair's ring: the pair stays on its page. Below a page there is
 * no endpoint. */
static void file_size(void) {
    struct side side;
    struct other other = start(with_small_files);
    CHECK(small_files() == 0);
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    static unsigned char out[1 << 20];
    for (int shift = 0; shift <= 20; shift++) {
        struct op op = {0};
        fill(out, (size_t)1 << shift, (unsigned)shift);
        POST(&side, fi_send(side.ep, out, (size_t)1 << shift, NULL, side.peer, &op));
        expect(&side, &op);
    }
    meet(&side, other);
    finish_other(&other);
    struct rlimit size = {100, 100};
    CHECK(setrlimit(RLIMIT_FSIZE, &size) == 0);
    struct fid_ep *none;
    CHECK(fi_endpoint(side.domain, side.info, &none, NULL) == -EFBIG);
    close_side(&side);
}

enum { FLOOD = 800, LONGEST = 60000 };

static size_t length_of(int i) { return i % 3 ? (size_t)i * 37 % 1000 : (size_t)i * 7919 % LONGEST; }

/* Is sent far more than it has memory for, and receives it all when there is some again. */
static int without_memory(struct other other) {
    struct side side;
    struct rlimit space;
    long pages;
    static unsigned char in[LONGEST];
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    FILE *file = fopen("/proc/self/statm", "re");
    CHECK(file && fscanf(file, "%ld", &pages) == 1);
    fclose(file);
    CHECK(getrlimit(RLIMIT_AS, &space) == 0);
    rlim_t before = space.rlim_cur;
    /* More than a ring, or not even that. */
    long room = 0;
    CHECK(hear(NULL, other, &room, sizeof room) == sizeof room);
    space.rlim_cur = (rlim_t)(pages * sysconf(_SC_PAGESIZE) + room);
    CHECK(setrlimit(RLIMIT_AS, &space) == 0);
    meet(&side, other);
    linger(&side, 0.5);
    space.rlim_cur = before;
    CHECK(setrlimit(RLIMIT_AS, &space) == 0);
    for (int i = 0; i < FLOOD; i++) {
        struct op op = {0};
        POST(&side, fi_trecv(side.ep, in, sizeof in, NULL, side.peer, (uint64_t)i, 0, &op));
        wait_op(&side, &op);
        CHECK(op.done == 1 && !op.err && op.len == length_of(i));
        verify(in, op.len, (unsigned)i);
    }
    meet(&side, other);
    close_side(&side);
    return 0;
}

static void memory(long room) {
    struct side side;
    open_side(&side, (struct wish){0});
    struct other other = start(without_memory);
    introduce(&side, other);
    tell(other, &room, sizeof room);
    static unsigned char *out[FLOOD];
    static struct op ops[FLOOD];
    memset(ops, 0, sizeof ops);
    meet(&side, other);
    for (int i = 0; i < FLOOD; i++) {
        out[i] = malloc(LONGEST);
        CHECK(out[i]);
        fill(out[i], length_of(i), (unsigned)i);
        POST(&side, fi_tsend(side.ep, out[i], length_of(i), NULL, side.peer, (uint64_t)i, &ops[i]));
    }
    for (int i = 0; i < FLOOD; i++)
        expect(&side, &ops[i]);
    meet(&side, other);
    for (int i = 0; i < FLOOD; i++)
        free(out[i]);
    finish_other(&other);
    close_side(&side);
}

/* Enabling without descriptors is refused, and done when there are some. */
static void enabling(int progress) {
    int refused = 0;
    for (int spare = 0; spare < 12; spare++) {
        struct side side;
        char name[256], byte = 0;
        struct op in = {0}, out = {0};
        memset(&side, 0, sizeof side);
        prepare_side(&side, NULL, (struct wish){.progress = progress, .wait = FI_WAIT_FD});
        struct rlimit files = leave_descriptors(spare);
        int enabled = fi_enable(side.ep);
        CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
        if (enabled) {
            CHECK(enabled == -FI_EMFILE);
            refused++;
            OK(fi_enable(side.ep));
        }
        own_name(&side, name, sizeof name);
        side.peer = insert(&side, name);
        POST(&side, fi_recv(side.ep, &byte, 1, NULL, side.peer, &in));
        POST(&side, fi_send(side.ep, &byte, 1, NULL, side.peer, &out));
        expect(&side, &out);
        expect(&side, &in);
        close_side(&side);
    }
    CHECK(refused);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    if (strcmp(argv[1], "backlog") == 0) {
        backlog();
    } else if (strcmp(argv[1], "descriptors") == 0) {
        descriptors(true);
        descriptors(false);
    } else if (strcmp(argv[1], "names") == 0) {
        names();
    } else if (strcmp(argv[1], "file-size") == 0) {
        file_size();
    } else if (strcmp(argv[1], "enabling") == 0) {
        enabling(FI_PROGRESS_MANUAL);
        enabling(FI_PROGRESS_AUTO);
    } else if (strcmp(argv[1], "memory") == 0) {
        memory(4 << 20);
        memory(1 << 20);
        memory(100 << 10);
    } else {
        FAIL("no case %s", argv[1]);
    }
    return 0;
}
