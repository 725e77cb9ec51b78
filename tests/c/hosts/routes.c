/* routes CASE: endpoints with more than one way to them: two interfaces on one subnet, all addresses of
 * a host, and hosts that nobody can connect to. */
#include "network.h"

#include <arpa/inet.h>
#include <netinet/in.h>

enum { LARGE = 1 << 20, KEY = 5, ROUNDS = 12 };

/* Into a host of its own, which gets a cable named `cable` from the first one, and an address. */
static void move_to(struct other other, const char *cable, const char *address) {
    CHECK(unshare(CLONE_NEWNET) == 0);
    run("ip link set lo up");
    meet(NULL, other);
    meet(NULL, other);
    run("ip addr add %s dev %s && ip link set %s up", address, cable, cable);
    wait_for_carrier(cable);
    meet(NULL, other);
}

static void send_to(struct side *side, fi_addr_t to, size_t len, unsigned seed) {
    static unsigned char out[LARGE];
    struct op op = {0};
    fill(out, len, seed);
    POST(side, fi_send(side->ep, out, len, NULL, to, &op));
    expect(side, &op);
}

/* From nobody else. */
static void receive_from(struct side *side, fi_addr_t from, size_t len, unsigned seed) {
    static unsigned char in[LARGE];
    struct op op = {0};
    POST(side, fi_recv(side->ep, in, len, NULL, from, &op));
    expect(side, &op);
    verify(in, len, seed);
}

/* Two interfaces of one host on one subnet, with an endpoint at each: they are told apart, whoever
 * begins, although all that host's packets may leave through one of them. */
static int between_twins(struct other other) {
    struct side side;
    fi_addr_t peers[2];
    CHECK(unshare(CLONE_NEWNET) == 0);
    run("ip link set lo up");
    meet(NULL, other);
    meet(NULL, other);
    run("ip link add br0 type bridge && ip link set br0 up && ip addr add 10.95.0.2/24 dev br0");
    for (int i = 0; i < 2; i++) {
        run("ip link set port%d master br0 && ip link set port%d up", i, i);
        char port[] = {'p', 'o', 'r', 't', (char)('0' + i), 0};
        wait_for_carrier(port);
    }
    wait_for_carrier("br0");
    meet(NULL, other);
    own_node = "10.95.0.2";
    open_side(&side, (struct wish){0});
    for (int i = 0; i < 2; i++) {
        introduce_side(&side, other);
        peers[i] = side.peer;
    }
    for (unsigned i = 0; i < ROUNDS; i++) {
        size_t len = i % 3 ? LARGE : 8;
        int which = i % 2;
        /* The first begins itself. */
        if (which == 0)
            receive_from(&side, peers[which], len, i);
        send_to(&side, peers[which], len, i + 1);
        if (which == 1)
            receive_from(&side, peers[which], len, i);
    }
    meet(&side, other);
    close_side(&side);
    return 0;
}

static void twins(void) {
    struct side sides[2] = {0};
    struct other other = start(between_twins);
    meet(NULL, other);
    for (int i = 0; i < 2; i++) {
        run("ip link add twin%d type veth peer name port%d netns %d", i, i, other.pid);
        run("ip addr add 10.95.0.%d/24 dev twin%d && ip link set twin%d up", 10 + i, i, i);
    }
    meet(NULL, other);
    meet(NULL, other);
    for (int i = 0; i < 2; i++) {
        char cable[] = {'t', 'w', 'i', 'n', (char)('0' + i), 0};
        wait_for_carrier(cable);
        own_node = i ? "10.95.0.11" : "10.95.0.10";
        if (i == 0)
            open_side(&sides[0], (struct wish){0});
        else
            join_side(&sides[1], &sides[0], (struct wish){0});
        introduce_side(&sides[i], other);
    }
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct side *side = &sides[i % 2];
        size_t len = i % 3 ? LARGE : 8;
        if (i % 2 == 0)
            send_to(side, side->peer, len, i);
        receive_from(side, side->peer, len, i + 1);
        if (i % 2 == 1)
            send_to(side, side->peer, len, i);
    }
    meet(&sides[0], other);
    close_endpoint(&sides[1]);
    close_side(&sides[0]);
    finish_other(&other);
}

/* An endpoint at all addresses of its host, which two other hosts reach at different ones. */
enum { GUESTS = 2 };
static int guest_number;

static const char *const HOME[GUESTS] = {"10.94.0.1", "10.94.1.1"};

static int guest(struct other other) {
    char address[48], node[32], cable[16];
    struct side side;
    struct sockaddr_in theirs;
    struct op op = {0};
    snprintf(node, sizeof node, "10.94.%d.2", guest_number);
    snprintf(address, sizeof address, "%s/24", node);
    snprintf(cable, sizeof cable, "away%d", guest_number);
    move_to(other, cable, address);
    own_node = node;
    open_side(&side, (struct wish){0});
    char name[256];
    tell(other, name, own_name(&side, name, sizeof name));
    CHECK(hear(NULL, other, &theirs, sizeof theirs) == sizeof theirs);
    /* Its name has one of its addresses. Who has no route to that one is told so. */
    char told[32];
    CHECK(inet_ntop(AF_INET, &theirs.sin_addr, told, sizeof told));
    CHECK(strcmp(told, HOME[0]) == 0 || strcmp(told, HOME[1]) == 0);
    if (strcmp(told, HOME[guest_number])) {
        POST(&side, fi_send(side.ep, "far", 3, NULL, insert(&side, (char *)&theirs), &op));
        wait_op(&side, &op);
        if (op.err != FI_ENETUNREACH)
            FAIL("error %d %s", op.err, fi_strerror(op.err));
    }
    CHECK(inet_pton(AF_INET, HOME[guest_number], &theirs.sin_addr) == 1);
    side.peer = insert(&side, (char *)&theirs);
    meet(NULL, other);
    for (unsigned i = 0; i < ROUNDS; i++) {
        size_t len = i % 3 ? LARGE : 8;
        if (guest_number == 0)
            send_to(&side, side.peer, len, i);
        receive_from(&side, side.peer, len, i + 1);
        if (guest_number == 1)
            send_to(&side, side.peer, len, i);
    }
    meet(&side, other);
    close_side(&side);
    return 0;
}

static void homes(void) {
    struct other others[GUESTS];
    struct side side;
    fi_addr_t peers[GUESTS];
    char name[256], theirs[256];
    for (guest_number = 0; guest_number < GUESTS; guest_number++) {
        int i = guest_number;
        others[i] = start(guest);
        meet(NULL, others[i]);
        run("ip link add home%d type veth peer name away%d netns %d", i, i, others[i].pid);
        run("ip addr add %s/24 dev home%d && ip link set home%d up", HOME[i], i, i);
        meet(NULL, others[i]);
        meet(NULL, others[i]);
        char cable[] = {'h', 'o', 'm', 'e', (char)('0' + i), 0};
        wait_for_carrier(cable);
    }
    own_node = "0.0.0.0";
    open_side(&side, (struct wish){0});
    size_t len = own_name(&side, name, sizeof name);
    for (int i = 0; i < GUESTS; i++) {
        tell(others[i], name, len);
        hear(NULL, others[i], theirs, sizeof theirs);
        peers[i] = insert(&side, theirs);
    }
    for (int i = 0; i < GUESTS; i++)
        meet(NULL, others[i]);
    /* The first one begins, the second one is begun with. */
    for (unsigned i = 0; i < ROUNDS; i++) {
        size_t size = i % 3 ? LARGE : 8;
        receive_from(&side, peers[0], size, i);
        send_to(&side, peers[0], size, i + 1);
        send_to(&side, peers[1], size, i + 1);
        receive_from(&side, peers[1], size, i);
    }
    for (int i = 0; i < GUESTS; i++)
        meet(&side, others[i]);
    close_side(&side);
    for (int i = 0; i < GUESTS; i++)
        finish_other(&others[i]);
}

/* Nobody can connect to this host, but it can to others: what it has begun is used both ways. */
static int walled_in(struct other other) {
    struct side side;
    struct fid_mr *mr;
    static unsigned char window[LARGE];
    move_to(other, "away0", "10.93.0.2/24");
    run("nft add table ip wall && nft 'add chain ip wall in { type filter hook input priority 0 ; }' "
        "&& nft 'add rule ip wall in iifname away0 tcp flags & (syn | ack) == syn drop'");
    own_node = "10.93.0.2";
    open_side(&side, (struct wish){0});
    OK(fi_mr_reg(side.domain, window, LARGE, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &mr,
                 NULL));
    introduce_side(&side, other);
    int fds = open_fds();
    meet(NULL, other);
    send_to(&side, side.peer, 8, 1);
    receive_from(&side, side.peer, LARGE, 2);
    meet(&side, other);
    CHECK(open_fds() == fds + 1);
    verify(window, LARGE, 3);
    meet(&side, other);
    OK(fi_close(&mr->fid));
    close_side(&side);
    return 0;
}

static void wall(void) {
    static unsigned char out[LARGE], in[LARGE];
    struct side side;
    struct op op = {0};
    if (!can_filter())
        return;
    struct other other = start(walled_in);
    meet(NULL, other);
    run("ip link add home0 type veth peer name away0 netns %d", other.pid);
    run("ip addr add 10.93.0.1/24 dev home0 && ip link set home0 up");
    meet(NULL, other);
    meet(NULL, other);
    wait_for_carrier("home0");
    own_node = "10.93.0.1";
    open_side(&side, (struct wish){0});
    introduce_side(&side, other);
    /* The wall stands. */
    POST(&side, fi_send(side.ep, "knock", 5, NULL, side.peer, &op));
    wait_op(&side, &op);
    if (op.err != FI_ETIMEDOUT)
        FAIL("error %d %s", op.err, fi_strerror(op.err));
    memset(&op, 0, sizeof op);
    meet(NULL, other);
    receive_from(&side, side.peer, 8, 1);
    send_to(&side, side.peer, LARGE, 2);
    fill(out, LARGE, 3);
    POST(&side, fi_write(side.ep, out, LARGE, NULL, side.peer, 0, KEY, &op));
    expect(&side, &op);
    POST(&side, fi_read(side.ep, in, LARGE, NULL, side.peer, 0, KEY, &op));
    expect(&side, &op);
    CHECK(memcmp(in, out, LARGE) == 0);
    meet(&side, other);
    meet(&side, other);
    close_side(&side);
    finish_other(&other);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    patience = 20;
    need_hosts();
    if (strcmp(argv[1], "twins") == 0)
        twins();
    else if (strcmp(argv[1], "homes") == 0)
        homes();
    else if (strcmp(argv[1], "wall") == 0)
        wall();
    else
        FAIL("no case %s", argv[1]);
    return 0;
}
