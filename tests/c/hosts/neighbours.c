/* neighbours CASE SECONDS: other peers of an endpoint, and other users of its host, must not come
 * between it and those it works with. */
#include "visitor.h"
#include <grp.h>

enum { NOBODY = 65534, ARMED = 2 * LINE / 4 + 1 };

/* Three neighbours in one process: one rings without end, one takes every bell out of its socket,
 * one never takes any. The latter two say in their rings that they sleep, all the time. */
static int bad_neighbours(struct other other) {
    enum { FLOODS, DRAINS, DEAF, ALL };
    int fds[ALL];
    uint32_t *back[ALL];
    double end;
    hear(NULL, other, owner, sizeof owner);
    hear(NULL, other, &end, sizeof end);
    for (int i = 0; i < ALL; i++) {
        char name[64];
        int ring = make_ring(1);
        snprintf(name, sizeof name, "hosts.neighbour.%d", i);
        fds[i] = connect_to(owner);
        say_sleepy_hello(fds[i], name);
        give(fds[i], SLOTS, PAGE, &ring, 1);
        close(ring);
        back[i] = NULL;
    }
    char byte = 'c';
    tell(other, &byte, 1);
    unsigned long rung = 0, drained = 0;
    while (now() < end) {
        for (int k = 0; k < 64; k++) {
            rung += send(fds[FLOODS], "!", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
            for (int i = 0; i < ALL; i++)
                if (back[i])
                    __atomic_store_n(back[i] + ARMED, 1, __ATOMIC_RELAXED);
        }
        for (int i = 0; i < ALL; i++) {
            int ring;
            if (back[i] && i == DEAF)
                continue;
            for (int got; (got = take(fds[i], &ring)) > 0; drained++) {
                if (ring < 0)
                    continue;
                void *memory =
                    mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, ring, 0);
                CHECK(memory != MAP_FAILED);
                back[i] = memory;
                close(ring);
            }
        }
    }
    for (int i = 0; i < ALL; i++)
        CHECK(back[i]);
    fprintf(stderr, "%lu bells rung, %lu drained\n", rung, drained);
    CHECK(rung > 1000 && drained > 0);
    hear(NULL, other, &byte, 1);
    return 0;
}

static int good_neighbour(struct other other) {
    struct side side;
    double end;
    open_side(&side, (struct wish){0});
    introduce(&side, other);
    hear(&side, other, &end, sizeof end);
    while (now() < end) {
        double sent = now();
        struct op op = {0};
        usleep(1000);
        POST(&side, fi_send(side.ep, &sent, sizeof sent, NULL, side.peer, &op));
        sent = now();
        expect(&side, &op);
        meet(&side, other);
    }
    double last = 0;
    struct op op = {0};
    POST(&side, fi_send(side.ep, &last, sizeof last, NULL, side.peer, &op));
    expect(&side, &op);
    meet(&side, other);
    close_side(&side);
    return 0;
}

static void bells(double seconds) {
    struct side side;
    char name[256];
    open_side(&side, (struct wish){.wait = FI_WAIT_UNSPEC});
    struct other good = start(good_neighbour), bad = start(bad_neighbours);
    introduce(&side, good);
    own_name(&side, name, sizeof name);
    tell(bad, name + strlen("fi_shm://"), strlen(name) - strlen("fi_shm://") + 1);
    double end = now() + seconds;
    tell(bad, &end, sizeof end);
    char byte;
    hear(&side, bad, &byte, 1);
    /* They do not listen: who they are has to be heard first. */
    linger(&side, 0.05);
    fi_addr_t others[3];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "fi_shm://hosts.neighbour.%d", i);
        others[i] = insert(&side, name);
    }
    tell(good, &end, sizeof end);
    double worst = 0, sum = 0;
    long count = 0;
    for (double sent = 1; sent != 0;) {
        struct fi_cq_tagged_entry entry;
        struct op op = {0};
        POST(&side, fi_recv(side.ep, &sent, sizeof sent, NULL, side.peer, &op));
        /* Words for the neighbours, as far as their rings have room. */
        for (int i = 0; i < 3; i++)
            fi_inject(side.ep, &count, sizeof count, others[i]);
        while (!op.done) {
            ssize_t got = fi_cq_sread(side.cq, &entry, 1, NULL, 2000);
            if (got != 1)
                FAIL("no wake-up for message %ld: %s", count, fi_strerror((int)-got));
            count_entry(&side, &entry);
        }
        if (sent != 0) {
            double took = now() - sent;
            worst = took > worst ? took : worst;
            sum += took;
            count++;
        }
        meet(&side, good);
    }
    fprintf(stderr, "%ld messages: %.2f ms on average, %.1f ms at worst\n", count,
            sum / (double)count * 1e3, worst * 1e3);
    CHECK(count > 20 && sum / (double)count < 0.05 && worst < 1);
    tell(bad, &byte, 1);
    finish_other(&bad);
    finish_other(&good);
    close_side(&side);
}

/* As another user: the name is not there, and who looks for the socket itself is sent away. */
static int stranger(struct other other) {
    enum { DENIED = 77 };
    char name[256];
    struct side side;
    size_t len = hear(NULL, other, name, sizeof name);
    CHECK(len);
    if (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY)) {
        fprintf(stderr, "nobody can be another user here\n");
        return 0;
    }
    /* Changing the user took these away. */
    CHECK(prctl(PR_SET_DUMPABLE, 1) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    open_side(&side, (struct wish){0});
    side.peer = insert(&side, name);
    struct op op = {0};
    double begin = now();
    POST(&side, fi_send(side.ep, name, len, NULL, side.peer, &op));
    wait_op(&side, &op);
    CHECK(op.err == FI_ECONNREFUSED && now() - begin < 1);
    int fd = connect_as(0, name + strlen("fi_shm://"));
    say_hello(fd, "hosts.neighbour.stranger");
    for (int ring; take(fd, &ring) != 0;) {
        CHECK(now() - begin < 2);
        usleep(1000);
    }
    close(fd);
    close_side(&side);
    return 0;
}

static void other_user(void) {
    struct side side;
    char name[256];
    open_side(&side, (struct wish){0});
    struct other other = start(stranger);
    tell(other, name, own_name(&side, name, sizeof name));
    /* Serving goes on until the stranger has gone. */
    char byte;
    while (recv(other.fd, &byte, 1, MSG_DONTWAIT) != 0)
        drain(&side);
    finish_other(&other);
    CHECK(side.completions == 0);
    close_side(&side);
}

#define TAKEN "hosts.neighbour.taken"

/* As another user: takes a name of the parent's user. */
static int squatter(struct other other) {
    if (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY)) {
        fprintf(stderr, "nobody can be another user here\n");
        return 0;
    }
    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    int fd = listen_as(0, TAKEN);
    meet(NULL, other);
    meet(NULL, other);
    close(fd);
    return 0;
}

/* The name cannot be had and nobody is reached by it; every other one can, and this one later. */
static void squat(void) {
    struct side side, named;
    struct op op = {0};
    char byte = 0;
    open_side(&side, (struct wish){0});
    struct other other = start(squatter);
    if (getuid() != 0) {
        bury(&other);
        close_side(&side);
        return;
    }
    meet(&side, other);
    prepare_side(&named, &side, (struct wish){.name = TAKEN});
    CHECK(fi_enable(named.ep) == -FI_EADDRINUSE);
    POST(&side, fi_send(side.ep, &byte, 1, NULL, insert_named(&side, TAKEN), &op));
    wait_op(&side, &op);
    CHECK(op.err == FI_EACCES);
    meet(&side, other);
    finish_other(&other);
    OK(fi_enable(named.ep));
    close_endpoint(&named);
    close_side(&side);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    if (strcmp(argv[1], "bells") == 0) {
        bells(atof(argv[2]));
    } else if (strcmp(argv[1], "other-user") == 0) {
        other_user();
    } else if (strcmp(argv[1], "squat") == 0) {
        squat();
    } else {
        FAIL("no case %s", argv[1]);
    }
    return 0;
}
