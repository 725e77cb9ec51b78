/* edges CASE: operations where something gives way: rings and sockets without room, memory that is not
 * there or no longer there, peers that break a ring or leave at once. */
#include "side.h"

enum { PAGE = 4096, KEY = 9, ATOMICS = 512, LARGE = 32 << 20 };

static struct fid_mr *expose(struct side *side, void *base, size_t len) {
    struct fid_mr *mr;
    OK(fi_mr_reg(side->domain, base, len, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &mr, NULL));
    return mr;
}

/* Where its window is. */
static uint64_t window_of(struct side *side, struct other other) {
    uint64_t at;
    CHECK(hear(side, other, &at, sizeof at) == sizeof at);
    return at;
}

/* Without progress. */
static void wait_for_byte(struct other other) {
    char byte;
    hear(NULL, other, &byte, 1);
}

/* Serves until the other is done. */
static void serve(struct side *side, struct other other) {
    char byte;
    hear(side, other, &byte, 1);
    for (double end = now() + 0.05; now() < end;)
        drain(side);
}

static void add_all(struct side *side, uint64_t at, uint64_t first) {
    static uint64_t ones[ATOMICS], old[ATOMICS];
    struct op op = {0};
    for (int i = 0; i < ATOMICS; i++)
        ones[i] = 1;
    POST(side, fi_atomic(side->ep, ones, ATOMICS, NULL, side->peer, at, KEY, FI_UINT64, FI_SUM, &op));
    expect(side, &op);
    POST(side, fi_fetch_atomic(side->ep, ones, ATOMICS, NULL, old, NULL, side->peer, at, KEY,
                               FI_UINT64, FI_SUM, &op));
    expect(side, &op);
    for (int i = 0; i < ATOMICS; i++)
        CHECK(old[i] == first + 1);
    POST(side, fi_compare_atomic(side->ep, ones, ATOMICS, NULL, old, NULL, old, NULL, side->peer, at,
                                 KEY, FI_UINT64, FI_CSWAP_NE, &op));
    expect(side, &op);
    for (int i = 0; i < ATOMICS; i++)
        CHECK(old[i] == first + 2);
}

/* The largest atomics while the rings of both directions are full of small messages. */
static int computes(struct other other) {
    static uint64_t window[ATOMICS];
    struct side side;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    expose(&side, window, sizeof window);
    uint64_t at = remote_place(&side, window);
    for (int i = 0; i < 16; i++)
        POST(&side, fi_inject(side.ep, &at, 8, side.peer));
    tell(other, &at, sizeof at);
    wait_for_byte(other);
    serve(&side, other);
    return 0;
}

static void full_rings(void) {
    struct side side;
    open_side(&side, (struct wish){0});
    struct other other = start(computes);
    introduce(&side, other);
    uint64_t at = 0;
    /* Both at once, since injected messages may have to wait for a connection. */
    for (int i = 0; i < 16; i++)
        POST(&side, fi_inject(side.ep, &at, 8, side.peer));
    CHECK(hear(NULL, other, &at, sizeof at) == sizeof at);
    tell(other, "g", 1);
    add_all(&side, at, 0);
    tell(other, "x", 1);
    finish_other(&other);
    close_side(&side);
}

/* Nobody gets a segment of more than a page. */
static void only_pages(void) {
    signal(SIGXFSZ, SIG_IGN);
    OK(setrlimit(RLIMIT_FSIZE, &(struct rlimit){2 * PAGE, 2 * PAGE}));
}

static int on_a_page(struct other other) {
    static unsigned char window[1 << 20];
    struct side side;
    only_pages();
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    expose(&side, window, sizeof window);
    uint64_t at = remote_place(&side, window);
    tell(other, &at, sizeof at);
    serve(&side, other);
    return 0;
}

static void small_rings(void) {
    static unsigned char out[1 << 20], in[1 << 20];
    static const unsigned char zeros[PAGE];
    struct side side;
    struct op op = {0};
    only_pages();
    open_side(&side, (struct wish){0});
    struct other other = start(on_a_page);
    introduce(&side, other);
    uint64_t at = window_of(&side, other);
    for (size_t len = 1; len <= sizeof out; len *= 4) {
        fill(out, len, (unsigned)len);
        POST(&side, fi_write(side.ep, out, len, NULL, side.peer, at, KEY, &op));
        expect(&side, &op);
        POST(&side, fi_read(side.ep, in, len, NULL, side.peer, at, KEY, &op));
        expect(&side, &op);
        verify(in, len, (unsigned)len);
    }
    POST(&side, fi_write(side.ep, zeros, PAGE, NULL, side.peer, at, KEY, &op));
    expect(&side, &op);
    add_all(&side, at, 0);
    tell(other, "x", 1);
    finish_other(&other);
    close_side(&side);
}

/* A region that is the whole address space. */
static int everything(struct other other) {
    struct side side;
    struct fid_mr *none;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    CHECK(fi_mr_reg(side.domain, NULL, 100, FI_REMOTE_WRITE, 0, KEY, 0, &none, NULL) == -FI_EINVAL);
    expose(&side, NULL, SIZE_MAX);
    uint64_t word[2] = {5, 7};
    uint64_t at = (uintptr_t)word;
    tell(other, &at, sizeof at);
    serve(&side, other);
    CHECK(word[0] == 11 && word[1] == 7);
    return 0;
}

static void refused(struct side *side, struct op *op) {
    wait_op(side, op);
    if (op->done != 1 || op->err != FI_EFAULT)
        FAIL("completed %d times, error %d %s", op->done, op->err, fi_strerror(op->err));
    memset(op, 0, sizeof *op);
}

static void address_space(void) {
    static unsigned char bytes[1 << 20];
    struct side side;
    struct op op = {0};
    open_side(&side, (struct wish){0});
    struct other other = start(everything);
    introduce(&side, other);
    uint64_t at = window_of(&side, other), one = 1, old;
    uint64_t code = (uintptr_t)&everything & ~7ull;
    static const uint64_t nowhere[] = {0, 64, 4096, 1ull << 60, UINT64_MAX - (2 << 20)};
    for (size_t i = 0; i < sizeof nowhere / sizeof *nowhere; i++) {
        uint64_t bad = nowhere[i];
        for (size_t len = 8; len <= sizeof bytes; len <<= 17) {
            POST(&side, fi_write(side.ep, bytes, len, NULL, side.peer, bad, KEY, &op));
            refused(&side, &op);
            POST(&side, fi_read(side.ep, bytes, len, NULL, side.peer, bad, KEY, &op));
            refused(&side, &op);
        }
        bad &= ~7ull;
        POST(&side, fi_atomic(side.ep, &one, 1, NULL, side.peer, bad, KEY, FI_UINT64, FI_SUM, &op));
        refused(&side, &op);
    }
    /* What can be read, but not written. The other process has the same program. */
    POST(&side, fi_read(side.ep, bytes, 8, NULL, side.peer, code, KEY, &op));
    expect(&side, &op);
    CHECK(memcmp(bytes, (void *)code, 8) == 0);
    POST(&side, fi_write(side.ep, bytes, 8, NULL, side.peer, code, KEY, &op));
    refused(&side, &op);
    POST(&side, fi_atomic(side.ep, &one, 1, NULL, side.peer, code, KEY, FI_UINT64, FI_SUM, &op));
    refused(&side, &op);
    uint64_t ten = 10;
    POST(&side, fi_write(side.ep, &ten, 8, NULL, side.peer, at, KEY, &op));
    expect(&side, &op);
    POST(&side, fi_fetch_atomic(side.ep, &one, 1, NULL, &old, NULL, side.peer, at, KEY, FI_UINT64,
                                FI_SUM, &op));
    expect(&side, &op);
    CHECK(old == 10);
    tell(other, "x", 1);
    finish_other(&other);
    close_side(&side);
}

/* A read is granted, or half answered, then its region is closed and its memory used again. */
static int closes(struct other other) {
    struct side side;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    unsigned char *window = malloc(LARGE);
    CHECK(window);
    memset(window, 1, LARGE);
    struct fid_mr *mr = expose(&side, window, LARGE);
    uint64_t at = remote_place(&side, window);
    tell(other, &at, sizeof at);
    char byte;
    /* What it can send of the answer without the reader's help, it sends here. */
    hear(&side, other, &byte, 1);
    OK(fi_close(&mr->fid));
    memset(window, 2, LARGE);
    tell(other, "c", 1);
    serve(&side, other);
    return 0;
}

static void closed_region(void) {
    struct side side;
    struct op op = {0};
    open_side(&side, (struct wish){0});
    struct other other = start(closes);
    introduce(&side, other);
    uint64_t at = window_of(&side, other);
    unsigned char *in = calloc(1, LARGE);
    CHECK(in);
    if (!is_shm()) {
        /* The first contact over a network needs progress, which would take the answer, too. */
        POST(&side, fi_read(side.ep, in, 1, NULL, side.peer, at, KEY, &op));
        expect(&side, &op);
    }
    POST(&side, fi_read(side.ep, in, LARGE, NULL, side.peer, at, KEY, &op));
    usleep(100000);
    tell(other, "g", 1);
    wait_for_byte(other);
    wait_op(&side, &op);
    /* There is no way to take back the beginning of an answer but to end the connection. */
    if (op.done != 1 || op.err != (is_shm() ? FI_ENOKEY : FI_ECONNRESET))
        FAIL("completed %d times, error %d %s", op.done, op.err, fi_strerror(op.err));
    /* A direct copy may have gone on, which is why it fails. */
    CHECK(is_shm() || !memchr(in, 2, LARGE));
    memset(&op, 0, sizeof op);
    POST(&side, fi_read(side.ep, in, LARGE, NULL, side.peer, at, KEY, &op));
    wait_op(&side, &op);
    if (op.done != 1 || op.err != FI_ENOKEY)
        FAIL("completed %d times, error %d %s", op.done, op.err, fi_strerror(op.err));
    tell(other, "x", 1);
    finish_other(&other);
    free(in);
    close_side(&side);
}

/* Writes an impossible index into every ring that it has mapped. */
static void break_rings(void) {
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");
    CHECK(maps);
    while (fgets(line, sizeof line, maps)) {
        unsigned long at;
        if (strstr(line, "percale-ring") && sscanf(line, "%lx-", &at) == 1)
            *(volatile uint32_t *)(at + 128) = 0x70000000;
    }
    fclose(maps);
}

static int breaks(struct other other) {
    static unsigned char in[8 << 20];
    struct side side;
    struct op op = {0};
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    POST(&side, fi_recv(side.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, &op));
    wait_for_byte(other);
    /* By now in the large ring, and much is still to come. */
    while (*(volatile unsigned char *)(in + (1 << 20)) == 0)
        drain(&side);
    for (;;) {
        break_rings();
        usleep(1000);
    }
}

static void broken_ring(void) {
    static unsigned char out[8 << 20];
    struct side side;
    struct op large = {0}, receive = {0};
    setenv("FI_SHM_DISABLE_CMA", "1", 1);
    memset(out, 7, sizeof out);
    open_side(&side, (struct wish){0});
    struct other other = start(breaks);
    introduce(&side, other);
    static char in[8];
    POST(&side, fi_recv(side.ep, in, sizeof in, NULL, side.peer, &receive));
    POST(&side, fi_send(side.ep, out, sizeof out, NULL, side.peer, &large));
    tell(other, "g", 1);
    wait_op(&side, &large);
    wait_op(&side, &receive);
    if (large.err != FI_EPROTO || receive.err != FI_EPROTO)
        FAIL("send: %s, receive: %s", fi_strerror(large.err), fi_strerror(receive.err));
    CHECK(large.done == 1 && receive.done == 1);
    kill_other(&other);
    close_side(&side);
}

/* Injected messages, and then the endpoint is closed. */
enum { INJECTED = 100 };

static int receives(struct other other) {
    static struct op ops[INJECTED];
    static int in[INJECTED];
    struct side side;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    char byte;
    /* A network's first contact needs both. */
    hear(is_shm() ? NULL : &side, other, &byte, 1);
    for (int i = 0; i < INJECTED; i++)
        POST(&side, fi_recv(side.ep, &in[i], sizeof in[i], NULL, FI_ADDR_UNSPEC, &ops[i]));
    for (int i = 0; i < INJECTED; i++) {
        expect(&side, &ops[i]);
        CHECK(in[i] == i);
    }
    close_side(&side);
    return 0;
}

static void injected(void) {
    struct side side;
    open_side(&side, (struct wish){0});
    struct other other = start(receives);
    introduce(&side, other);
    for (int i = 0; i < INJECTED; i++)
        POST(&side, fi_inject(side.ep, &i, sizeof i, side.peer));
    double begin = now();
    close_side(&side);
    CHECK(now() - begin < 1);
    tell(other, "g", 1);
    finish_other(&other);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"full-rings", full_rings},       {"small-rings", small_rings},
        {"address-space", address_space}, {"closed-region", closed_region},
        {"broken-ring", broken_ring},     {"injected", injected},
    };
    CHECK(argc == 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    }
    FAIL("no case %s", argv[1]);
}
