/* settings CASE ARGS: what settings of the tcp provider do, seen from outside. */
#include "side.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

enum { MESSAGES = 100, LEN = 100 };

/* What they are posted with. */
static uint64_t flags;

static void post_with(struct side *side, void *bytes, size_t len, struct op *op) {
    struct iovec piece = {bytes, len};
    struct fi_msg message = {
        .msg_iov = &piece, .iov_count = 1, .addr = side->peer, .context = op};
    OK(fi_sendmsg(side->ep, &message, flags));
}

/* Posts small messages in a row without any other call. */
static int posts(struct other other) {
    static char out[LEN];
    static struct op ops[MESSAGES];
    struct side side;
    struct op first = {0};
    char byte;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    POST(&side, fi_send(side.ep, out, 1, NULL, side.peer, &first));
    expect(&side, &first);
    meet(&side, other);
    for (int i = 0; i < MESSAGES; i++)
        post_with(&side, out, LEN, &ops[i]);
    tell(other, "p", 1);
    hear(NULL, other, &byte, 1);
    /* Now all of them leave. */
    hear(&side, other, &byte, 1);
    close_side(&side);
    return 0;
}

static void between(const char *what, long found, const char *least, const char *most) {
    fprintf(stderr, "%ld %s\n", found, what);
    if (found < atol(least) || found > atol(most))
        FAIL("%ld %s, not %s to %s", found, what, least, most);
}

/* `posted`, `announced`: how many of them arrive while their sender does not call. `ahead`: how many are
 * taken in by one call that makes progress, when all are there. */
static void arrivals(int ahead, const char *least, const char *most) {
    static char in[MESSAGES][LEN];
    static struct op ops[MESSAGES];
    static struct fi_cq_tagged_entry entries[MESSAGES];
    struct side side;
    struct op first = {0};
    char byte;
    struct other other = start(posts);
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    POST(&side, fi_recv(side.ep, in, 1, NULL, side.peer, &first));
    expect(&side, &first);
    meet(&side, other);
    hear(NULL, other, &byte, 1);
    if (ahead) {
        tell(other, "a", 1);
        usleep(100000);
    }
    for (int i = 0; i < MESSAGES; i++)
        POST(&side, fi_recv(side.ep, in[i], LEN, NULL, side.peer, &ops[i]));
    if (ahead) {
        ssize_t got;
        while ((got = fi_cq_read(side.cq, entries, MESSAGES)) == -FI_EAGAIN) {
        }
        CHECK(got > 0);
        for (ssize_t i = 0; i < got; i++)
            count_entry(&side, &entries[i]);
    } else {
        linger(&side, 0.1);
    }
    long arrived = 0;
    for (int i = 0; i < MESSAGES; i++)
        arrived += ops[i].done;
    between(ahead ? "messages are taken in by one call" : "messages arrive", arrived, least, most);
    if (!ahead)
        tell(other, "a", 1);
    for (int i = 0; i < MESSAGES; i++)
        expect(&side, &ops[i]);
    tell(other, "e", 1);
    finish_other(&other);
    close_side(&side);
}

/* Sends to another endpoint of this process; both are connected then. */
static void connect_both(struct side *side, struct side *peer) {
    char name[256];
    struct op out = {0}, in = {0};
    open_side(side, (struct wish){0});
    join_side(peer, side, (struct wish){0});
    own_name(peer, name, sizeof name);
    side->peer = insert(side, name);
    POST(peer, fi_recv(peer->ep, name, sizeof name, NULL, FI_ADDR_UNSPEC, &in));
    POST(side, fi_send(side->ep, "hello", 5, NULL, side->peer, &out));
    expect_with(side, &out, peer);
    expect_with(peer, &in, side);
}

/* TCP_NODELAY of every connection. */
static void nodelay(int wanted) {
    struct side side, peer;
    int connections = 0;
    connect_both(&side, &peer);
    for (int fd = 0; fd < 256; fd++) {
        int protocol = 0, is = -1;
        socklen_t len = sizeof protocol;
        struct sockaddr_storage to;
        socklen_t to_len = sizeof to;
        if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) || protocol != IPPROTO_TCP ||
            getpeername(fd, (struct sockaddr *)&to, &to_len))
            continue;
        len = sizeof is;
        CHECK(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &is, &len) == 0);
        CHECK(!is == !wanted);
        connections++;
    }
    CHECK(connections == 2);
    close_endpoint(&peer);
    close_side(&side);
}

/* Endpoints take each port of the range, and there are no more than that. */
static void ports(int low, int high) {
    enum { MOST = 16 };
    struct side sides[MOST] = {0}, none = {0};
    int taken[MOST] = {0}, count = high - low + 1;
    CHECK(count > 0 && count <= MOST);
    for (int i = 0; i < count; i++) {
        struct sockaddr_in name;
        if (i == 0)
            open_side(&sides[0], (struct wish){0});
        else
            join_side(&sides[i], &sides[0], (struct wish){0});
        CHECK(own_name(&sides[i], (char *)&name, sizeof name) == sizeof name);
        int port = ntohs(name.sin_port);
        if (port < low || port > high || taken[port - low]++)
            FAIL("port %d", port);
    }
    prepare_side(&none, &sides[0], (struct wish){0});
    CHECK(fi_enable(none.ep) == -FI_EADDRINUSE);
    close_endpoint(&none);
    for (int i = count; i-- > 0;)
        if (i)
            close_endpoint(&sides[i]);
    close_side(&sides[0]);
}

/* As a user who may take none of the range: enabling says so. */
static void denied(void) {
    enum { NOBODY = 65534 };
    struct side side = {0};
    if (setgid(NOBODY) || setuid(NOBODY)) {
        fprintf(stderr, "nobody can be another user here\n");
        return;
    }
    prepare_side(&side, NULL, (struct wish){0});
    CHECK(fi_enable(side.ep) == -FI_EACCES);
    close_side(&side);
}

static struct fi_info *offered(size_t tx, size_t rx) {
    struct fi_info *hints = fi_allocinfo(), *info;
    CHECK(hints);
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG | FI_TAGGED;
    hints->tx_attr->size = tx;
    hints->rx_attr->size = rx;
    hints->fabric_attr->prov_name = strdup(provider());
    OK(fi_getinfo(FI_VERSION(1, 20), own_node, NULL, FI_SOURCE, hints, &info));
    fi_freeinfo(hints);
    return info;
}

/* What is offered to who names no sizes, and more to who does; an inject call takes its limit. */
static void sizes(size_t tx, size_t rx, size_t inject) {
    static char bytes[1 << 17];
    struct fi_info *info = offered(0, 0);
    CHECK(info->tx_attr->size == tx && info->rx_attr->size == rx);
    CHECK(info->tx_attr->inject_size == inject);
    fi_freeinfo(info);
    info = offered(tx + 1, rx + 1);
    CHECK(info->tx_attr->size == tx + 1 && info->rx_attr->size == rx + 1);
    fi_freeinfo(info);
    struct side side, peer;
    connect_both(&side, &peer);
    CHECK(fi_inject(side.ep, bytes, inject + 1, side.peer) == -FI_EINVAL);
    POST(&side, fi_inject(side.ep, bytes, inject, side.peer));
    struct op in = {0};
    POST(&peer, fi_recv(peer.ep, bytes, sizeof bytes, NULL, FI_ADDR_UNSPEC, &in));
    expect_with(&peer, &in, &side);
    close_endpoint(&peer);
    close_side(&side);
}

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    const char *name = argv[1];
    if (strcmp(name, "posted") == 0 && argc == 4) {
        arrivals(0, argv[2], argv[3]);
    } else if (strcmp(name, "announced") == 0 && argc == 4) {
        flags = FI_MORE;
        arrivals(0, argv[2], argv[3]);
    } else if (strcmp(name, "ahead") == 0 && argc == 4) {
        arrivals(1, argv[2], argv[3]);
    } else if (strcmp(name, "nodelay") == 0 && argc == 3) {
        nodelay(atoi(argv[2]));
    } else if (strcmp(name, "ports") == 0 && argc == 4) {
        ports(atoi(argv[2]), atoi(argv[3]));
    } else if (strcmp(name, "denied") == 0) {
        denied();
    } else if (strcmp(name, "sizes") == 0 && argc == 5) {
        sizes((size_t)atol(argv[2]), (size_t)atol(argv[3]), (size_t)atol(argv[4]));
    } else {
        FAIL("no case %s", name);
    }
    return 0;
}
