/* guest CASE: the library inside a host program: it changes no signal handler, starts no thread
 * that nobody asked for, prints nothing, and sleeps when there is nothing to do. */
#include "side.h"

static int threads(void) { return entries_of("/proc/self/task") - 2; }

static int echo(struct other other) {
    struct side side;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    static unsigned char bytes[1 << 20];
    struct op op = {0};
    POST(&side, fi_recv(side.ep, bytes, sizeof bytes, NULL, side.peer, &op));
    expect(&side, &op);
    POST(&side, fi_send(side.ep, bytes, sizeof bytes, NULL, side.peer, &op));
    expect(&side, &op);
    meet(&side, other);
    close_side(&side);
    return 0;
}

static void manners(void) {
    int before = threads();
    int quiet[2], stdout_was = dup(1);
    CHECK(pipe(quiet) == 0 && dup2(quiet[1], 1) == 1);
    static struct sigaction was[NSIG], is;
    for (int s = 1; s < NSIG; s++)
        sigaction(s, NULL, &was[s]);
    struct other other = start(echo);
    struct side side;
    open_side(&side, (struct wish){.wait = FI_WAIT_UNSPEC});
    introduce(&side, other);
    static unsigned char bytes[1 << 20];
    struct op in = {0}, out = {0};
    POST(&side, fi_recv(side.ep, bytes, sizeof bytes, NULL, side.peer, &in));
    POST(&side, fi_send(side.ep, bytes, sizeof bytes, NULL, side.peer, &out));
    expect(&side, &out);
    expect(&side, &in);
    meet(&side, other);
    CHECK(threads() == before);
    close_side(&side);
    finish_other(&other);
    for (int s = 1; s < NSIG; s++) {
        sigaction(s, NULL, &is);
        if (is.sa_handler != was[s].sa_handler || is.sa_flags != was[s].sa_flags)
            FAIL("the action of signal %d has changed", s);
    }
    fflush(NULL);
    char byte;
    CHECK(fcntl(quiet[0], F_SETFL, O_NONBLOCK) == 0);
    CHECK(read(quiet[0], &byte, 1) < 0 && errno == EAGAIN);
    dup2(stdout_was, 1);
}

/* Automatic progress: the target makes no call after set-up, and sleeps. */
enum { LARGE = 8 << 20, KEY = 3 };

struct place {
    uint64_t addr;
    uint64_t key;
};

static int target(struct other other) {
    struct side side;
    struct fid_mr *mr;
    open_side(&side, (struct wish){.progress = FI_PROGRESS_AUTO});
    CHECK(side.info->domain_attr->progress == FI_PROGRESS_AUTO);
    introduce(&side, other);
    unsigned char *window = calloc(1, LARGE), *in = calloc(1, LARGE), *out = malloc(LARGE);
    CHECK(window && in && out);
    fill(out, LARGE, 21);
    OK(fi_mr_reg(side.domain, window, LARGE, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &mr,
                 NULL));
    struct op receive = {0}, send = {0};
    OK(fi_recv(side.ep, in, LARGE, NULL, side.peer, &receive));
    OK(fi_send(side.ep, out, LARGE, NULL, side.peer, &send));
    struct place ours = {remote_place(&side, window), fi_mr_key(mr)};
    tell(other, &ours, sizeof ours);
    char byte;
    hear(NULL, other, &byte, 1);
    /* Idle now, with a connected peer: nothing may burn time. */
    double cpu = cpu_time();
    usleep(600000);
    double used = cpu_time() - cpu;
    if (used > 0.05)
        FAIL("%.0f ms of processor time while idle", used * 1e3);
    expect(&side, &receive);
    expect(&side, &send);
    verify(in, LARGE, 5);
    verify(window, 100000, 6);
    tell(other, &byte, 1);
    hear(NULL, other, &byte, 1);
    OK(fi_close(&mr->fid));
    close_side(&side);
    return 0;
}

static void automatic(void) {
    struct other other = start(target);
    struct side side;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    struct place theirs;
    hear(&side, other, &theirs, sizeof theirs);
    unsigned char *bytes = malloc(LARGE);
    CHECK(bytes);
    struct op op = {0};
    fill(bytes, LARGE, 5);
    POST(&side, fi_send(side.ep, bytes, LARGE, NULL, side.peer, &op));
    expect(&side, &op);
    static const size_t sizes[] = {1, 1000, 100000, LARGE};
    for (int i = 0; i < 4; i++) {
        fill(bytes, sizes[i], 6);
        POST(&side, fi_write(side.ep, bytes, sizes[i], NULL, side.peer, theirs.addr, theirs.key,
                             &op));
        expect(&side, &op);
        memset(bytes, 0, sizes[i]);
        POST(&side, fi_read(side.ep, bytes, sizes[i], NULL, side.peer, theirs.addr, theirs.key,
                            &op));
        expect(&side, &op);
        verify(bytes, sizes[i], 6);
    }
    uint64_t one = 1, old = 0;
    POST(&side, fi_fetch_atomic(side.ep, &one, 1, NULL, &old, NULL, side.peer,
                                theirs.addr + (LARGE - 8), theirs.key, FI_UINT64, FI_SUM, &op));
    expect(&side, &op);
    POST(&side, fi_recv(side.ep, bytes, LARGE, NULL, side.peer, &op));
    expect(&side, &op);
    verify(bytes, LARGE, 21);
    char byte = 'b';
    tell(other, &byte, 1);
    hear(&side, other, &byte, 1);
    tell(other, &byte, 1);
    finish_other(&other);
    close_side(&side);
}

static int receiver(struct other other) {
    enum { COUNT = 30 };
    struct side side;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    static unsigned char bytes[COUNT][8];
    static struct op in[COUNT];
    for (int i = 0; i < COUNT; i++)
        POST(&side, fi_recv(side.ep, bytes[i], 8, NULL, side.peer, &in[i]));
    meet(&side, other);
    for (int i = 0; i < COUNT; i++)
        expect(&side, &in[i]);
    tell(other, "e", 1);
    close_side(&side);
    return 0;
}

/* With automatic progress everything that is posted leaves, whoever calls nothing afterwards. */
static void posted(void) {
    enum { COUNT = 30 };
    struct other other = start(receiver);
    struct side side;
    open_side(&side, (struct wish){.progress = FI_PROGRESS_AUTO});
    introduce(&side, other);
    static struct op out[COUNT];
    meet(&side, other);
    /* The thread sleeps, and the queue has been looked at. */
    usleep(100000);
    drain(&side);
    for (int i = 0; i < COUNT; i++)
        POST(&side, fi_send(side.ep, "posted.", 8, NULL, side.peer, &out[i]));
    char byte;
    double begin = now();
    CHECK(hear(NULL, other, &byte, 1) == 1);
    CHECK(now() - begin < 1);
    for (int i = 0; i < COUNT; i++)
        expect(&side, &out[i]);
    finish_other(&other);
    close_side(&side);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    if (strcmp(argv[1], "manners") == 0) {
        manners();
    } else if (strcmp(argv[1], "automatic") == 0) {
        automatic();
    } else if (strcmp(argv[1], "posted") == 0) {
        posted();
    } else {
        FAIL("no case %s", argv[1]);
    }
    return 0;
}
