/* vector STEPS: insertions, duplicates, removals, look-ups and sends at random, against a model.
 * Addresses come with dirt where their format leaves room for it. */
#include "side.h"

enum { PEERS = 12, ROOM = 256 };

static uint64_t dice = 2463534242u;

static unsigned roll(unsigned sides) {
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return (unsigned)(dice >> 20) % sides;
}

struct peer {
    struct side side;
    unsigned char name[ROOM];
    size_t len;
    /* The model: insertions that were not removed, and the handle that all of them gave. */
    int inserted;
    fi_addr_t addr;
    uint64_t sent;
};

static struct peer peers[PEERS];
static struct side side;

/* The address with dirt in its padding or behind its end. */
static size_t dirty(const struct peer *peer, unsigned char *name) {
    memcpy(name, peer->name, peer->len);
    size_t len = peer->len;
    if (side.info->addr_format == FI_ADDR_STR) {
        for (int i = 0; i < 16; i++)
            name[len++] = (unsigned char)roll(256);
    } else if (side.info->addr_format == FI_SOCKADDR_IN) {
        for (size_t i = 8; i < len; i++)
            name[i] = (unsigned char)roll(256);
    }
    return len;
}

static void check_insert(struct peer *peer, fi_addr_t addr) {
    if (peer->inserted) {
        CHECK(addr == peer->addr);
    } else {
        CHECK(addr != FI_ADDR_NOTAVAIL && addr != FI_ADDR_UNSPEC);
        for (int i = 0; i < PEERS; i++)
            CHECK(!peers[i].inserted || peers[i].addr != addr);
    }
    peer->addr = addr;
    peer->inserted++;
}

static void insert_one(struct peer *peer) {
    unsigned char name[2 * ROOM];
    fi_addr_t addr = FI_ADDR_NOTAVAIL;
    dirty(peer, name);
    CHECK(fi_av_insert(side.av, name, 1, &addr, 0, NULL) == 1);
    check_insert(peer, addr);
}

/* Several at once, packed. */
static void insert_some(void) {
    enum { SOME = 4 };
    unsigned char names[SOME * ROOM];
    struct peer *which[SOME];
    fi_addr_t addrs[SOME];
    size_t at = 0;
    for (int i = 0; i < SOME; i++) {
        which[i] = &peers[roll(PEERS)];
        memcpy(names + at, which[i]->name, which[i]->len);
        at += which[i]->len;
    }
    CHECK(fi_av_insert(side.av, names, SOME, addrs, 0, NULL) == SOME);
    for (int i = 0; i < SOME; i++)
        check_insert(which[i], addrs[i]);
}

static void look_up(const struct peer *peer) {
    unsigned char name[ROOM];
    size_t len = sizeof name;
    int status = fi_av_lookup(side.av, peer->addr, name, &len);
    if (peer->inserted) {
        OK(status);
        CHECK(len == peer->len && memcmp(name, peer->name, len) == 0);
        return;
    }
    /* The handle may be another's by now, never its old owner's. */
    CHECK(status || memcmp(name, peer->name, peer->len) != 0);
}

static void send_to(struct peer *peer) {
    struct op out = {0}, in = {0};
    uint64_t number = ++peer->sent, value = 0;
    if (!peer->inserted) {
        for (int i = 0; i < PEERS; i++)
            if (peers[i].inserted && peers[i].addr == peer->addr)
                return;
        CHECK(fi_send(side.ep, &number, 8, NULL, peer->addr, &out) == -FI_EINVAL);
        peer->sent--;
        return;
    }
    OK(fi_recv(peer->side.ep, &value, 8, NULL, FI_ADDR_UNSPEC, &in));
    POST(&side, fi_send(side.ep, &number, 8, NULL, peer->addr, &out));
    expect_with(&side, &out, &peer->side);
    for (double late = now() + PATIENCE; !in.done;) {
        drain(&peer->side);
        CHECK(now() < late);
    }
    CHECK(value == number);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    int steps = atoi(argv[1]), kinds[5] = {0};
    open_side(&side, (struct wish){0});
    for (int i = 0; i < PEERS; i++) {
        join_side(&peers[i].side, &side, (struct wish){0});
        peers[i].len = own_name(&peers[i].side, (char *)peers[i].name, ROOM);
        peers[i].addr = 1000;
    }
    for (int step = 0; step < steps; step++) {
        struct peer *peer = &peers[roll(PEERS)];
        unsigned kind = roll(10);
        if (kind < 3) {
            insert_one(peer);
            kinds[0]++;
        } else if (kind == 3) {
            insert_some();
            kinds[1]++;
        } else if (kind < 8) {
            int status = fi_av_remove(side.av, &peer->addr, 1, 0);
            int taken = 0;
            for (int i = 0; i < PEERS; i++)
                taken |= peers[i].inserted && peers[i].addr == peer->addr;
            if (peer->inserted) {
                OK(status);
                peer->inserted--;
            } else if (taken) {
                /* The handle is another's now, and it was that one which went. */
                OK(status);
                for (int i = 0; i < PEERS; i++)
                    if (peers[i].inserted && peers[i].addr == peer->addr)
                        peers[i].inserted--;
            } else {
                CHECK(status == -FI_EINVAL);
            }
            kinds[2]++;
        } else if (kind == 8) {
            look_up(peer);
            kinds[3]++;
        } else {
            send_to(peer);
            kinds[4]++;
        }
    }
    fprintf(stderr, "%d insertions, %d of four, %d removals, %d look-ups, %d sends\n", kinds[0],
            kinds[1], kinds[2], kinds[3], kinds[4]);
    for (int i = PEERS; i-- > 0;)
        close_endpoint(&peers[i].side);
    close_side(&side);
    return 0;
}
