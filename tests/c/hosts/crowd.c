/* crowd COUNT LEN: so many processes with an endpoint each, every one of which sends to every other:
 * words first, then LEN bytes. The rings that this takes are measured after each, and never more than a
 * node has for them; those of a node with 192 processes whose pairs talk little follow. */
#include "side.h"
#include <stdatomic.h>
#include <sys/mman.h>

enum { MOST = 512, ROUNDS = 3, NODE = 192, NODE_MIB = 150 };

/* What the processes share, set up before they start. */
struct board {
    atomic_int here[8];
    /* Mappings of both ends. */
    atomic_long ring_bytes[2];
    char names[MOST][128];
};

static struct board *board;
static int count;
static size_t len;

static void gather(struct side *side, int step) {
    double late = now() + PATIENCE;
    atomic_fetch_add(&board->here[step], 1);
    while (atomic_load(&board->here[step]) < count) {
        if (side)
            drain(side);
        usleep(500);
        if (now() > late)
            FAIL("%d of %d have come to step %d", atomic_load(&board->here[step]), count, step);
    }
}

/* Rings that this process has mapped, filled or emptied by it. */
static void note_rings(int when) {
    char line[512];
    FILE *file = fopen("/proc/self/maps", "re");
    CHECK(file);
    while (fgets(line, sizeof line, file)) {
        unsigned long from, to;
        if (!strstr(line, "percale-ring"))
            continue;
        CHECK(sscanf(line, "%lx-%lx", &from, &to) == 2);
        atomic_fetch_add(&board->ring_bytes[when], (long)(to - from));
    }
    fclose(file);
}

static struct side side;
static struct op sends[MOST], receives[MOST];

/* Until all operations with the others have completed, asleep while there is nothing to do. */
static void finish_round(int self) {
    double late = now() + PATIENCE;
    for (int i = 0; i < count; i++) {
        while (i != self && !(receives[i].done && sends[i].done)) {
            struct fi_cq_tagged_entry entry;
            ssize_t got = fi_cq_sread(side.cq, &entry, 1, NULL, 100);
            if (got == 1)
                count_entry(&side, &entry);
            CHECK(got == 1 || got == -FI_EAGAIN);
            if (now() > late)
                FAIL("%d: nothing from %d", self, i);
        }
        if (i == self)
            continue;
        expect(&side, &sends[i]);
        expect(&side, &receives[i]);
    }
}

static int member(int self) {
    static fi_addr_t addrs[MOST];
    static uint64_t in[MOST], out[MOST];
    patience = 50;
    open_side(&side, (struct wish){.wait = FI_WAIT_UNSPEC});
    own_name(&side, board->names[self], sizeof board->names[self]);
    gather(NULL, 0);
    for (int i = 0; i < count; i++)
        addrs[i] = insert(&side, board->names[i]);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < count; i++)
            if (i != self)
                POST(&side, fi_recv(side.ep, &in[i], 8, NULL, addrs[i], &receives[i]));
        for (int k = 1; k < count; k++) {
            int i = (self + k) % count;
            out[i] = round << 32 | (uint64_t)self << 16 | (uint64_t)i;
            POST(&side, fi_send(side.ep, &out[i], 8, NULL, addrs[i], &sends[i]));
        }
        finish_round(self);
        for (int i = 0; i < count; i++)
            CHECK(i == self || in[i] == (round << 32 | (uint64_t)i << 16 | (uint64_t)self));
    }
    gather(&side, 1);
    note_rings(0);
    gather(&side, 2);
    unsigned char *bytes = malloc(len * (size_t)count), *mine = malloc(len);
    CHECK(bytes && mine);
    fill(mine, len, (unsigned)self);
    for (int i = 0; i < count; i++)
        if (i != self)
            POST(&side, fi_recv(side.ep, bytes + (size_t)i * len, len, NULL, addrs[i],
                                &receives[i]));
    for (int k = 1; k < count; k++) {
        int i = (self + k) % count;
        POST(&side, fi_send(side.ep, mine, len, NULL, addrs[i], &sends[i]));
    }
    finish_round(self);
    for (int i = 0; i < count; i++)
        if (i != self)
            verify(bytes + (size_t)i * len, len, (unsigned)i);
    gather(&side, 3);
    note_rings(1);
    gather(&side, 4);
    close_side(&side);
    return 0;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    count = atoi(argv[1]);
    len = strtoul(argv[2], NULL, 10);
    CHECK(len > 0 && count > 1 && count <= MOST);
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(board != MAP_FAILED);
    static pid_t pids[MOST];
    pid_t parent = getpid();
    double begin = now();
    for (int i = 0; i < count; i++) {
        pids[i] = fork();
        CHECK(pids[i] >= 0);
        if (pids[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent)
                _exit(1);
            _exit(member(i));
        }
    }
    int bad = 0;
    for (int i = 0; i < count; i++) {
        int status;
        CHECK(waitpid(pids[i], &status, 0) == pids[i]);
        bad += status != 0;
    }
    if (bad)
        FAIL("%d of %d ended badly", bad, count);
    /* Both ends have mapped each ring. */
    double rings = (double)count * (count - 1), bytes = (double)board->ring_bytes[0] / 2;
    double node = bytes / rings * NODE * (NODE - 1) / (1 << 20);
    double after = (double)board->ring_bytes[1] / 2 / (1 << 20);
    fprintf(stderr, "%d processes: %.0f rings, %.2f MiB after words, %.2f MiB after %zu bytes; %.1f s\n",
            count, rings, bytes / (1 << 20), after, len, now() - begin);
    fprintf(stderr, "%d processes would have %.2f MiB after words\n", NODE, node);
    CHECK(bytes >= rings * 4096);
    CHECK(node <= NODE_MIB && after <= NODE_MIB);
    return 0;
}
