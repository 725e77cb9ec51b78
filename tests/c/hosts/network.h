/* Networks of hosts that are network namespaces. Needs the right to make them, and `ip`. */
#ifndef NETWORK_H
#define NETWORK_H

#include "side.h"

#include <stdarg.h>

static inline void run(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline void run(const char *format, ...) {
    char command[512];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    if (system(command) != 0)
        FAIL("%s", command);
}

/* The kernel takes a moment to see the other end of a cable. */
static inline void wait_for_carrier(const char *cable) {
    run("for look in $(seq 200); do ip link show %s | grep -q 'state UP' && exit 0; sleep 0.01; "
        "done; exit 1",
        cable);
}

/* Names are relayed without progress: nothing is connected yet. */
static inline void introduce_side(struct side *side, struct other other) {
    char name[256];
    tell(other, name, own_name(side, name, sizeof name));
    hear(NULL, other, name, sizeof name);
    side->peer = insert(side, name);
}

/* Whether this process may make hosts; it ends well if not. */
static inline void need_hosts(void) {
    pid_t probe = fork();
    int status;
    CHECK(probe >= 0);
    if (probe == 0)
        _exit(unshare(CLONE_NEWNET) != 0 || system("ip link set lo up") != 0);
    CHECK(waitpid(probe, &status, 0) == probe);
    if (status) {
        fprintf(stderr, "no namespaces for other hosts\n");
        exit(0);
    }
}

/* Whether there is `nft`, and packets can be filtered and changed. */
static inline int can_filter(void) {
    int can = system("nft list tables > /dev/null 2>&1") == 0;
    if (!can)
        fprintf(stderr, "there is no nft to filter packets with\n");
    return can;
}

#endif
