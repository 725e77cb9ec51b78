/* wires CASE: two hosts, each in a network namespace of its own, and a cable between them that can be
 * pulled. Needs the right to make namespaces, and `ip`. */
#include "network.h"

#include <arpa/inet.h>

enum { LARGE = 4 << 20, KEY = 5 };
static const size_t SIZES[] = {1, 8, 4096, 60000, 1 << 20, LARGE};
enum { COUNT = sizeof SIZES / sizeof *SIZES };

/* Seconds without a sign of life that are allowed (FI_TCP_PEER_TIMEOUT of these runs), and what is
 * granted to a busy machine. */
static const double BOUND = 3, GRACE = 2.5;

static const char *ours = "10.99.0.1", *theirs = "10.99.0.2";

/* The other host begins without a cable. */
static void new_host(struct other other) {
    if (unshare(CLONE_NEWNET) != 0)
        FAIL("unshare: %s", strerror(errno));
    run("ip link set lo up");
    meet(NULL, other);
    meet(NULL, other);
    if (strchr(theirs, ':'))
        run("ip addr add fe80::2/64 dev veth1 nodad");
    else
        run("ip addr add %s/24 dev veth1", theirs);
    run("ip link set veth1 up");
    wait_for_carrier("veth1");
    meet(NULL, other);
    own_node = theirs;
}

/* A cable to the other host. */
static void connect_host(struct other other) {
    meet(NULL, other);
    run("ip link add veth0 type veth peer name veth1 netns %d", other.pid);
    if (strchr(ours, ':'))
        run("ip link add other0 type veth peer name other1 && ip link set other0 up && "
            "ip link set other1 up && ip addr add fe80::1/64 dev other0 nodad && "
            "ip addr add fe80::1/64 dev veth0 nodad");
    else
        run("ip addr add %s/24 dev veth0", ours);
    run("ip link set veth0 up");
    meet(NULL, other);
    meet(NULL, other);
    wait_for_carrier("veth0");
    own_node = ours;
}

static void talk(struct side *side, struct other other, int rounds) {
    static unsigned char in[LARGE], out[LARGE];
    for (int i = 0; i < rounds; i++) {
        size_t len = SIZES[i % COUNT];
        struct op a = {0}, b = {0};
        fill(out, len, (unsigned)i);
        POST(side, fi_recv(side->ep, in, len, NULL, side->peer, &a));
        POST(side, fi_send(side->ep, out, len, NULL, side->peer, &b));
        expect(side, &b);
        expect(side, &a);
        verify(in, len, (unsigned)i);
    }
    meet(side, other);
}

static int talker(struct other other) {
    struct side side;
    new_host(other);
    open_side(&side, (struct wish){0});
    introduce_side(&side, other);
    talk(&side, other, 60);
    close_side(&side);
    return 0;
}

static void traffic(void) {
    struct side side;
    struct other other = start(talker);
    connect_host(other);
    open_side(&side, (struct wish){0});
    introduce_side(&side, other);
    talk(&side, other, 60);
    close_side(&side);
    finish_other(&other);
}

/* The cable is out for a moment, in the middle of it. */
static void loose(void) {
    struct side side;
    struct other other = start(talker);
    connect_host(other);
    open_side(&side, (struct wish){0});
    introduce_side(&side, other);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (int i = 0; i < 2; i++) {
            usleep(20000);
            run("ip link set veth0 down");
            usleep(400000);
            run("ip link set veth0 up");
        }
        _exit(0);
    }
    talk(&side, other, 60);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    close_side(&side);
    finish_other(&other);
}

/* What the other host does until it is killed. */
enum { ANSWERS_ONCE, SAYS_NOTHING };
static int manner;

static int victim(struct other other) {
    struct side side;
    struct fid_mr *mr;
    static unsigned char window[LARGE];
    new_host(other);
    open_side(&side, (struct wish){0});
    OK(fi_mr_reg(side.domain, window, LARGE, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &mr,
                 NULL));
    introduce_side(&side, other);
    if (manner == ANSWERS_ONCE) {
        char byte = 0;
        struct op in = {0}, out = {0};
        POST(&side, fi_recv(side.ep, &byte, 1, NULL, side.peer, &in));
        expect(&side, &in);
        POST(&side, fi_send(side.ep, &byte, 1, NULL, side.peer, &out));
        expect(&side, &out);
    }
    meet(NULL, other);
    pause();
    return 1;
}

/* Everything that was posted ends with an error, within the bound. */
static void all_end(struct side *side, struct op *ops, int n, double pulled, double bound) {
    double first = 0, last = 0;
    for (int left = n; left;) {
        left = 0;
        drain(side);
        for (int i = 0; i < n; i++)
            left += !ops[i].done;
        if (left < n && !first)
            first = now();
        last = now();
        if (now() > pulled + bound + GRACE)
            FAIL("%d of %d operations do not end", left, n);
    }
    int failed = 0;
    for (int i = 0; i < n; i++)
        failed += ops[i].err != 0;
    fprintf(stderr, "%d operations, %d errors, from %.2f to %.2f s, error %s\n", n, failed,
            first - pulled, last - pulled, fi_strerror(ops[n - 1].err));
}

enum { IN_MID_STREAM, IDLE, IN_HAND_SHAKE, BEFORE };

static void cut(int when) {
    enum { SENDS = 40, READS = 4, RECEIVES = 4 };
    static unsigned char bytes[LARGE];
    static struct op ops[SENDS + 2 * READS + RECEIVES];
    struct side side;
    int n = 0;
    manner = when == IN_HAND_SHAKE || when == BEFORE ? SAYS_NOTHING : ANSWERS_ONCE;
    struct other other = start(victim);
    connect_host(other);
    open_side(&side, (struct wish){0});
    introduce_side(&side, other);
    int fds = open_fds();
    if (manner == ANSWERS_ONCE) {
        struct op in = {0}, out = {0};
        POST(&side, fi_recv(side.ep, bytes, 1, NULL, side.peer, &in));
        POST(&side, fi_send(side.ep, bytes, 1, NULL, side.peer, &out));
        expect(&side, &out);
        expect(&side, &in);
        fds++;
    }
    meet(&side, other);
    if (when == BEFORE)
        run("ip link set veth0 down");
    for (int i = 0; i < RECEIVES; i++)
        POST(&side, fi_recv(side.ep, bytes, 8, NULL, side.peer, &ops[n++]));
    if (when == IN_MID_STREAM) {
        for (int i = 0; i < SENDS; i++)
            POST(&side, fi_tsend(side.ep, bytes, i % 2 ? LARGE : 60000, NULL, side.peer, 1,
                                 &ops[n++]));
        for (int i = 0; i < READS; i++) {
            POST(&side, fi_read(side.ep, bytes, 8, NULL, side.peer, 0, KEY, &ops[n++]));
            POST(&side, fi_write(side.ep, bytes, LARGE, NULL, side.peer, 0, KEY, &ops[n++]));
        }
    } else if (when != IDLE) {
        POST(&side, fi_send(side.ep, bytes, 8, NULL, side.peer, &ops[n++]));
    }
    linger(&side, when == IN_MID_STREAM ? 0.05 : 0.3);
    if (when != BEFORE)
        run("ip link set veth0 down");
    all_end(&side, ops, n, now(), BOUND);
    CHECK(open_fds() < fds || when == BEFORE || when == IN_HAND_SHAKE);
    kill_other(&other);
    close_side(&side);
}

/* The same, seen from a blocking read, which sleeps. */
static void asleep(void) {
    static char bytes[8];
    struct side side;
    struct op in = {0}, out = {0}, last = {0};
    manner = ANSWERS_ONCE;
    struct other other = start(victim);
    connect_host(other);
    open_side(&side, (struct wish){.wait = FI_WAIT_UNSPEC});
    introduce_side(&side, other);
    POST(&side, fi_recv(side.ep, bytes, 1, NULL, side.peer, &in));
    POST(&side, fi_send(side.ep, bytes, 1, NULL, side.peer, &out));
    expect(&side, &out);
    expect(&side, &in);
    meet(&side, other);
    run("ip link set veth0 down");
    POST(&side, fi_recv(side.ep, bytes, 8, NULL, side.peer, &last));
    POST(&side, fi_send(side.ep, bytes, 8, NULL, side.peer, &out));
    expect(&side, &out);
    struct fi_cq_tagged_entry entry;
    double begin = now(), cpu = cpu_time();
    CHECK(fi_cq_sread(side.cq, &entry, 1, NULL, 10000) == -FI_EAVAIL);
    fprintf(stderr, "woken after %.2f s\n", now() - begin);
    CHECK(now() - begin < BOUND + GRACE && cpu_time() - cpu < 0.1);
    note_error(&side);
    CHECK(last.err);
    kill_other(&other);
    close_side(&side);
}

/* Eleven cables and a bridge without anything: two processes on one host find each other. */
static int neighbour(struct other other) {
    struct side side;
    own_node = NULL;
    open_side(&side, (struct wish){0});
    introduce_side(&side, other);
    talk(&side, other, COUNT);
    close_side(&side);
    return 0;
}

static void many(void) {
    for (int i = 0; i < 11; i++) {
        run("ip link add a%d type veth peer name b%d", i, i);
        run("ip addr add 10.98.%d.1/24 dev a%d", i, i);
        run("ip link set a%d up", i);
        if (i % 2)
            run("ip link set b%d up", i);
    }
    run("ip link add docker0 type bridge && ip addr add 172.17.0.1/16 dev docker0");
    struct other other = start(neighbour);
    double begin = now();
    neighbour(other);
    fprintf(stderr, "found and served within %.2f s\n", now() - begin);
    CHECK(now() - begin < 2);
    finish_other(&other);
}

/* The other host is behind one that hides its address. What it begins works in both directions. */
static int hidden(struct other other) {
    struct side side;
    char name[256];
    CHECK(unshare(CLONE_NEWNET) == 0);
    run("ip link set lo up");
    meet(NULL, other);
    meet(NULL, other);
    run("ip addr add 10.97.0.2/24 dev inner && ip link set inner up");
    wait_for_carrier("inner");
    run("ip route add default via 10.97.0.1");
    meet(NULL, other);
    own_node = "10.97.0.2";
    open_side(&side, (struct wish){0});
    hear(NULL, other, name, sizeof name);
    side.peer = insert(&side, name);
    static unsigned char bytes[LARGE], back[LARGE];
    struct op op = {0};
    for (int i = 0; i < COUNT; i++) {
        fill(bytes, SIZES[i], 1);
        POST(&side, fi_send(side.ep, bytes, SIZES[i], NULL, side.peer, &op));
        expect(&side, &op);
        POST(&side, fi_write(side.ep, bytes, SIZES[i], NULL, side.peer, 0, KEY, &op));
        expect(&side, &op);
        memset(back, 0, SIZES[i]);
        POST(&side, fi_read(side.ep, back, SIZES[i], NULL, side.peer, 0, KEY, &op));
        expect(&side, &op);
        verify(back, SIZES[i], 1);
    }
    /* What it has begun leads back, too. */
    POST(&side, fi_recv(side.ep, back, LARGE, NULL, side.peer, &op));
    tell(other, name, own_name(&side, name, sizeof name));
    expect(&side, &op);
    verify(back, LARGE, 2);
    meet(&side, other);
    close_side(&side);
    return 0;
}

/* Only hides. */
static int router(struct other other) {
    CHECK(unshare(CLONE_NEWNET) == 0);
    run("ip link set lo up");
    meet(NULL, other);
    meet(NULL, other);
    run("ip addr add 10.96.0.2/24 dev outer && ip link set outer up");
    wait_for_carrier("outer");
    run("ip addr add 10.97.0.1/24 dev gate && ip link set gate up");
    run("echo 1 > /proc/sys/net/ipv4/ip_forward");
    run("nft add table ip nat && nft 'add chain ip nat out { type nat hook postrouting priority 100 "
        "; }' && nft add rule ip nat out oifname outer masquerade");
    meet(NULL, other);
    meet(NULL, other);
    return 0;
}

static void behind(void) {
    if (!can_filter())
        return;
    struct other way = start(router), other = start(hidden);
    meet(NULL, way);
    meet(NULL, other);
    run("ip link add wire type veth peer name outer netns %d", way.pid);
    run("ip addr add 10.96.0.1/24 dev wire && ip link set wire up");
    run("ip link add here type veth peer name there");
    run("ip link set here name gate netns %d && ip link set there name inner netns %d", way.pid,
        other.pid);
    meet(NULL, way);
    meet(NULL, way);
    meet(NULL, other);
    meet(NULL, other);
    struct side side;
    struct fid_mr *mr;
    char name[256];
    static unsigned char window[LARGE], in[LARGE];
    own_node = "10.96.0.1";
    open_side(&side, (struct wish){0});
    OK(fi_mr_reg(side.domain, window, LARGE, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &mr,
                 NULL));
    tell(other, name, own_name(&side, name, sizeof name));
    for (int i = 0; i < COUNT; i++) {
        struct op op = {0};
        POST(&side, fi_recv(side.ep, in, LARGE, NULL, FI_ADDR_UNSPEC, &op));
        expect(&side, &op);
        verify(in, SIZES[i], 1);
    }
    /* It is known by the address that hides it, and its own port. */
    struct sockaddr_in theirs;
    struct op op = {0};
    CHECK(hear(&side, other, &theirs, sizeof theirs) == sizeof theirs);
    CHECK(inet_pton(AF_INET, "10.96.0.2", &theirs.sin_addr) == 1);
    fill(in, LARGE, 2);
    POST(&side, fi_send(side.ep, in, LARGE, NULL, insert(&side, (char *)&theirs), &op));
    expect(&side, &op);
    meet(&side, other);
    OK(fi_close(&mr->fid));
    close_side(&side);
    finish_other(&other);
    meet(NULL, way);
    finish_other(&way);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    patience = 20;
    need_hosts();
    const char *name = argv[1];
    if (strcmp(name, "traffic") == 0) {
        traffic();
    } else if (strcmp(name, "link-local") == 0) {
        ours = "fe80::1%veth0";
        theirs = "fe80::2%veth1";
        traffic();
    } else if (strcmp(name, "loose") == 0) {
        loose();
    } else if (strcmp(name, "mid-stream") == 0) {
        cut(IN_MID_STREAM);
    } else if (strcmp(name, "idle") == 0) {
        cut(IDLE);
    } else if (strcmp(name, "hand-shake") == 0) {
        cut(IN_HAND_SHAKE);
    } else if (strcmp(name, "before") == 0) {
        cut(BEFORE);
    } else if (strcmp(name, "asleep") == 0) {
        asleep();
    } else if (strcmp(name, "many") == 0) {
        many();
    } else if (strcmp(name, "behind") == 0) {
        behind();
    } else {
        FAIL("no case %s", name);
    }
    return 0;
}
