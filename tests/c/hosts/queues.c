/* queues CASE: more of everything than a queue was made for, messages long before their receives,
 * and errors that say whose they are. */
#include "deny.h"

enum { KEY = 11, LATE = 10000, WRITES = 1000 };

struct place {
    uint64_t addr;
    uint64_t key;
};

/* A queue of 4 entries: 10000 receives are posted and 1000 writes with remote CQ data arrive, none
 * of which takes a receive, before either side reads one completion. */
static int writer(struct other other) {
    struct side side;
    struct place theirs;
    open_side(&side, (struct wish){.cq_size = 4});
    introduce(&side, other);
    hear(&side, other, &theirs, sizeof theirs);
    static struct op writes[WRITES], sends[LATE];
    static uint64_t values[WRITES], numbers[LATE];
    for (uint64_t i = 0; i < WRITES; i++) {
        values[i] = i * 3;
        long status;
        while ((status = fi_writedata(side.ep, &values[i], 8, NULL, i, side.peer,
                                      theirs.addr + 8 * i, theirs.key, &writes[i])) == -FI_EAGAIN)
            fi_cq_read(side.cq, NULL, 0);
        OK(status);
    }
    char byte = 'w';
    tell(other, &byte, 1);
    for (int i = 0; i < WRITES; i++)
        expect(&side, &writes[i]);
    hear(&side, other, &byte, 1);
    for (uint64_t i = 0; i < LATE; i++) {
        numbers[i] = i;
        POST(&side, fi_send(side.ep, &numbers[i], 8, NULL, side.peer, &sends[i]));
    }
    for (int i = 0; i < LATE; i++)
        expect(&side, &sends[i]);
    meet(&side, other);
    close_side(&side);
    return 0;
}

static void small(void) {
    struct side side;
    struct fid_mr *mr;
    struct other other = start(writer);
    open_side(&side, (struct wish){.cq_size = 4, .caps = FI_RMA_EVENT});
    introduce(&side, other);
    static uint64_t window[WRITES], numbers[LATE];
    static struct op receives[LATE];
    OK(fi_mr_reg(side.domain, window, sizeof window, FI_REMOTE_WRITE, 0, KEY, 0, &mr, NULL));
    /* At once: none may be refused. */
    for (int i = 0; i < LATE; i++)
        OK(fi_recv(side.ep, &numbers[i], 8, NULL, side.peer, &receives[i]));
    struct place ours = {remote_place(&side, window), fi_mr_key(mr)};
    tell(other, &ours, sizeof ours);
    char byte;
    for (double late = now() + PATIENCE; recv(other.fd, &byte, 1, MSG_DONTWAIT) != 1;) {
        ssize_t status = fi_cq_read(side.cq, NULL, 0);
        CHECK(status == 0 || status == -FI_EAGAIN);
        CHECK(now() < late);
    }
    for (double late = now() + PATIENCE; side.written < WRITES;) {
        drain(&side);
        CHECK(now() < late);
    }
    CHECK(side.written == WRITES && side.completions == WRITES);
    CHECK(side.written_sum == (uint64_t)WRITES * (WRITES - 1) / 2);
    for (uint64_t i = 0; i < WRITES; i++)
        CHECK(window[i] == i * 3);
    tell(other, &byte, 1);
    for (uint64_t i = 0; i < LATE; i++) {
        expect(&side, &receives[i]);
        CHECK(numbers[i] == i);
    }
    CHECK(side.completions == WRITES + LATE);
    meet(&side, other);
    OK(fi_close(&mr->fid));
    close_side(&side);
    finish_other(&other);
}

/* The most that was resident since the last call, in KiB. */
static long peak_kib(int forget) {
    char line[128];
    long peak = -1;
    FILE *file = fopen("/proc/self/status", "re");
    CHECK(file);
    while (fgets(line, sizeof line, file))
        sscanf(line, "VmHWM: %ld", &peak);
    fclose(file);
    CHECK(peak > 0);
    if (forget) {
        int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
        CHECK(fd >= 0 && write(fd, "5", 1) == 1);
        close(fd);
    }
    return peak;
}

enum { SIZES = 3, EACH = 1000, AT_ONCE = 4 };
static const size_t LENGTHS[SIZES] = {8, 60 << 10, 8 << 20};

/* Another library, whose memory is its own affair. */
static int foreign;

/* Both post 3000 sends that are not waited for, then the first receive. */
static int sizes(struct other other) {
    struct side side;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    static struct op sends[SIZES][EACH];
    unsigned char *out = malloc(LENGTHS[2]), *in = malloc(AT_ONCE * LENGTHS[2]);
    CHECK(out && in);
    fill(out, LENGTHS[2], 77);
    memset(in, 1, AT_ONCE * LENGTHS[2]);
    memset(sends, 0, sizeof sends);
    peak_kib(1);
    long before = resident_kib();
    for (int s = 0; s < SIZES; s++)
        for (int i = 0; i < EACH; i++)
            POST(&side, fi_send(side.ep, out, LENGTHS[s], NULL, side.peer, &sends[s][i]));
    meet(&side, other);
    linger(&side, 0.1);
    long waiting = peak_kib(0) - before;
    double begin = now();
    for (int s = 0; s < SIZES; s++) {
        for (int i = 0; i < EACH; i += AT_ONCE) {
            struct op receives[AT_ONCE] = {0};
            for (int k = 0; k < AT_ONCE; k++)
                POST(&side, fi_recv(side.ep, in + (size_t)k * LENGTHS[s], LENGTHS[s], NULL,
                                    side.peer, &receives[k]));
            for (int k = 0; k < AT_ONCE; k++) {
                wait_op(&side, &receives[k]);
                CHECK(receives[k].len == LENGTHS[s]);
                expect(&side, &receives[k]);
                if (s < 2 || i % 64 == 0)
                    verify(in + (size_t)k * LENGTHS[s], LENGTHS[s], 77);
            }
        }
    }
    for (int s = 0; s < SIZES; s++)
        for (int i = 0; i < EACH; i++)
            expect(&side, &sends[s][i]);
    long peak = peak_kib(0) - before;
    fprintf(stderr, "%s grew by %ld KiB before the first receive, by %ld KiB in all; %.1f s\n", role,
            waiting, peak, now() - begin);
    /* 16 MiB are kept of a peer. The heap gives back late what small messages took, and one of the
     * largest may come between two receives. */
    CHECK(peak < 28 << 10 || foreign);
    meet(&side, other);
    close_side(&side);
    return 0;
}

/* The same with a peer that has its library from a directory. */
static const char *directory, *program;

static int become(struct other other) {
    char fd[16];
    snprintf(fd, sizeof fd, "%d", dup(other.fd));
    CHECK(setenv("LD_LIBRARY_PATH", directory, 1) == 0);
    execl(program, program, "sizes-peer", fd, (char *)NULL);
    FAIL("exec: %s", strerror(errno));
}

/* Looks whose library it is. */
static void peer_of_other_library(const char *fd) {
    const char *path = getenv("LD_LIBRARY_PATH");
    char line[512], library[512];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    CHECK(maps && path);
    snprintf(library, sizeof library, "%s/libfabric.so.1", path);
    char *real = realpath(library, NULL);
    CHECK(real);
    while (fgets(line, sizeof line, maps))
        found |= strstr(line, real) != NULL;
    fclose(maps);
    free(real);
    if (!found)
        FAIL("the library in %s is not in use", path);
    role = "B";
    foreign = no_atomics = 1;
    sizes((struct other){atoi(fd), getppid()});
}

enum { SENDERS = 16, MESSAGES = 1000, LEN = 5000 };

static int late_sender(struct other other) {
    deny_copies(EPERM);
    struct side side;
    uint64_t number;
    patience = 40;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    hear(&side, other, &number, sizeof number);
    static unsigned char bytes[LEN];
    static struct op ops[MESSAGES];
    fill(bytes, LEN, (unsigned)number);
    for (uint64_t i = 0; i < MESSAGES; i++)
        POST(&side, fi_tsend(side.ep, bytes, LEN, NULL, side.peer, number << 32 | i, &ops[i]));
    tell(other, &number, sizeof number);
    for (int i = 0; i < MESSAGES; i++)
        expect(&side, &ops[i]);
    meet(&side, other);
    close_side(&side);
    return 0;
}

static void senders(void) {
    deny_copies(EPERM);
    struct side side;
    struct other others[SENDERS];
    static struct op receives[SENDERS][MESSAGES];
    patience = 40;
    for (int i = 0; i < SENDERS; i++)
        others[i] = start(late_sender);
    open_side(&side, (struct wish){0});
    unsigned char *in = calloc(MESSAGES, LEN);
    CHECK(in);
    for (uint64_t i = 0; i < SENDERS; i++) {
        introduce(&side, others[i]);
        tell(others[i], &i, sizeof i);
    }
    memset(in, 1, (size_t)MESSAGES * LEN);
    long before = resident_kib();
    peak_kib(1);
    for (uint64_t i = 0, number; i < SENDERS; i++)
        CHECK(hear(&side, others[i], &number, sizeof number) && number == i);
    for (uint64_t s = SENDERS; s-- > 0;) {
        for (uint64_t i = MESSAGES; i-- > 0;)
            POST(&side, fi_trecv(side.ep, in + i * LEN, LEN, NULL, FI_ADDR_UNSPEC, s << 32 | i, 0,
                                 &receives[s][i]));
        for (int i = 0; i < MESSAGES; i++) {
            expect(&side, &receives[s][i]);
            verify(in + (size_t)i * LEN, LEN, (unsigned)s);
        }
    }
    long grown = peak_kib(0) - before, payload = (long)SENDERS * MESSAGES * LEN / 1024;
    fprintf(stderr, "%ld KiB waited, the receiver grew by %ld KiB\n", payload, grown);
    CHECK(grown < payload + payload / 4);
    for (int i = 0; i < SENDERS; i++)
        meet(&side, others[i]);
    close_side(&side);
    for (int i = 0; i < SENDERS; i++)
        finish_other(&others[i]);
}

/* Five endpoints send to one; the third sends too much. */
static void third(void) {
    enum { COUNT = 5 };
    struct side side, peers[COUNT] = {0};
    fi_addr_t addrs[COUNT];
    struct op receives[COUNT] = {0}, sends[COUNT] = {0};
    char in[COUNT][8], out[16] = {0}, name[256];
    open_side(&side, (struct wish){0});
    own_name(&side, name, sizeof name);
    fi_addr_t self = insert(&side, name);
    for (int i = 0; i < COUNT; i++) {
        join_side(&peers[i], &side, (struct wish){0});
        own_name(&peers[i], name, sizeof name);
        addrs[i] = insert(&side, name);
    }
    for (int i = 0; i < COUNT; i++)
        OK(fi_recv(side.ep, in[i], 8, NULL, FI_ADDR_UNSPEC, &receives[i]));
    for (int i = 0; i < COUNT; i++) {
        POST(&peers[i], fi_send(peers[i].ep, out, i == 2 ? 16 : 8, NULL, self, &sends[i]));
        expect_with(&peers[i], &sends[i], &side);
        wait_op(&side, &receives[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        CHECK(receives[i].err == (i == 2 ? FI_ETRUNC : 0));
        CHECK(i != 2 || receives[i].src == addrs[2]);
    }
    for (int i = 0; i < COUNT; i++)
        close_endpoint(&peers[i]);
    close_side(&side);
}

/* A sender reads each completion and then calls nothing any more: all that has completed arrives. */
enum { COMPLETED = 100 };

static int falls_silent(struct other other) {
    struct side side;
    char byte;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    for (int i = 0; i < COMPLETED; i++) {
        struct op op = {0};
        POST(&side, fi_send(side.ep, &i, sizeof i, NULL, side.peer, &op));
        expect(&side, &op);
    }
    hear(NULL, other, &byte, 1);
    close_side(&side);
    return 0;
}

static void leaves(void) {
    struct side side;
    static struct op receives[COMPLETED];
    static int in[COMPLETED];
    struct other other = start(falls_silent);
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    for (int i = 0; i < COMPLETED; i++)
        POST(&side, fi_recv(side.ep, &in[i], sizeof in[i], NULL, side.peer, &receives[i]));
    for (int i = 0; i < COMPLETED; i++) {
        expect(&side, &receives[i]);
        CHECK(in[i] == i);
    }
    tell(other, "l", 1);
    finish_other(&other);
    close_side(&side);
}

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    patience = 30;
    if (strcmp(argv[1], "sizes-peer") == 0 && argc == 3) {
        peer_of_other_library(argv[2]);
        return 0;
    }
    if (strcmp(argv[1], "sizes-with") == 0 && argc == 3) {
        patience = 60;
        no_atomics = 1;
        directory = argv[2];
        program = argv[0];
        struct other other = start(become);
        sizes(other);
        finish_other(&other);
        return 0;
    }
    if (strcmp(argv[1], "small") == 0) {
        small();
    } else if (strcmp(argv[1], "sizes") == 0) {
        struct other other = start(sizes);
        sizes(other);
        finish_other(&other);
    } else if (strcmp(argv[1], "senders") == 0) {
        senders();
    } else if (strcmp(argv[1], "third") == 0) {
        third();
    } else if (strcmp(argv[1], "leaves") == 0) {
        leaves();
    } else {
        FAIL("no case %s", argv[1]);
    }
    return 0;
}
