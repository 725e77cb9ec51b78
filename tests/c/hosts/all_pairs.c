/* all_pairs WHICH DIRECTORY: one of two processes that share nothing but an abstract socket and do
 * not start each other. Each opens four endpoints; every endpoint sends to all eight. */
#include "side.h"
#include <sys/un.h>

enum { EACH = 4, ALL = 2 * EACH, LARGE = 1 << 20 };

static struct other meet_at(const char *path, int which) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CHECK(strlen(path) < sizeof address.sun_path);
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    if (which == 0) {
        CHECK(bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 1) == 0);
        int peer = accept(fd, NULL, NULL);
        CHECK(peer >= 0);
        close(fd);
        own_fds++;
        return (struct other){peer, 0};
    }
    double late = now() + PATIENCE;
    while (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        CHECK(now() < late);
        usleep(10000);
    }
    own_fds++;
    return (struct other){fd, 0};
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    int which = atoi(argv[1]);
    role = which ? "B" : "A";
    struct side sides[EACH] = {0};
    for (int i = 0; i < EACH; i++)
        join_side(&sides[i], i ? &sides[0] : NULL, (struct wish){0});
    struct other other = meet_at(argv[2], which);
    pid_t pid = getpid(), theirs;
    tell(other, &pid, sizeof pid);
    hear(NULL, other, &theirs, sizeof theirs);
    CHECK(pid == theirs);

    fi_addr_t addrs[ALL];
    for (int i = 0; i < EACH; i++) {
        char name[256], mine[256];
        tell(other, mine, own_name(&sides[i], mine, sizeof mine));
        hear(NULL, other, name, sizeof name);
        addrs[which * EACH + i] = insert(&sides[0], mine);
        addrs[(1 - which) * EACH + i] = insert(&sides[0], name);
    }

    static struct op sends[EACH][ALL][2], receives[EACH][ALL][2];
    static unsigned char *small[EACH][ALL], *in[EACH][ALL], *out[EACH][ALL];
    for (int i = 0; i < EACH; i++) {
        for (int j = 0; j < ALL; j++) {
            small[i][j] = calloc(1, 64);
            in[i][j] = calloc(1, LARGE);
            out[i][j] = malloc(LARGE);
            CHECK(small[i][j] && in[i][j] && out[i][j]);
            OK(fi_trecv(sides[i].ep, small[i][j], 32, NULL, addrs[j], 1, 0, &receives[i][j][0]));
            OK(fi_trecv(sides[i].ep, in[i][j], LARGE, NULL, addrs[j], 2, 0, &receives[i][j][1]));
        }
    }
    for (int i = 0; i < EACH; i++) {
        for (int j = 0; j < ALL; j++) {
            unsigned seed = (unsigned)((which * EACH + i) * ALL + j);
            fill(out[i][j], LARGE, seed);
            POST(&sides[i],
                 fi_tsend(sides[i].ep, out[i][j], 32, NULL, addrs[j], 1, &sends[i][j][0]));
            POST(&sides[i],
                 fi_tsend(sides[i].ep, out[i][j], LARGE, NULL, addrs[j], 2, &sends[i][j][1]));
        }
    }
    double late = now() + PATIENCE;
    for (int left = 1; left;) {
        left = 0;
        for (int i = 0; i < EACH; i++) {
            drain(&sides[i]);
            for (int j = 0; j < ALL; j++)
                for (int k = 0; k < 2; k++)
                    left += !sends[i][j][k].done + !receives[i][j][k].done;
        }
        if (now() > late)
            FAIL("%d operations do not complete", left);
    }
    for (int i = 0; i < EACH; i++) {
        for (int j = 0; j < ALL; j++) {
            for (int k = 0; k < 2; k++) {
                expect(&sides[i], &sends[i][j][k]);
                expect(&sides[i], &receives[i][j][k]);
            }
            unsigned seed = (unsigned)(j * ALL + which * EACH + i);
            verify(small[i][j], 32, seed);
            verify(in[i][j], LARGE, seed);
        }
    }
    /* The other side may still need our progress. */
    char done = 'd';
    tell(other, &done, 1);
    for (int told = 0; !told;) {
        for (int i = 0; i < EACH; i++)
            drain(&sides[i]);
        told = recv(other.fd, &done, 1, MSG_DONTWAIT) >= 0;
    }
    for (int i = EACH - 1; i > 0; i--)
        close_endpoint(&sides[i]);
    close_side(&sides[0]);
    return 0;
}
