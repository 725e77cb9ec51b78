/* Talks to an endpoint as peers do (provider-shm, link), without the library. */
#ifndef VISITOR_H
#define VISITOR_H

#include "side.h"
#include <stddef.h>
#include <sys/mman.h>
#include <sys/un.h>

struct hello {
    char magic[8];
    uint32_t version;
    uint32_t sleeps;
    unsigned char id[16];
    uint64_t probe[2];
    char address[96];
};

enum { HEAD = 48, VERSION = 1, SLOTS = 16, PAGE = 4096, LINE = 64 };

static char owner[128];
static uint64_t dice = 88172645463325252u;

static inline uint64_t roll(void) {
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return dice;
}

/* The place of a user's endpoint. */
static inline socklen_t place_as(struct sockaddr_un *address, unsigned user, const char *name) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int len = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "percale/%u/%s", user,
                       name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

/* The socket of a user's endpoint. */
static inline int connect_as(unsigned user, const char *name) {
    struct sockaddr_un address;
    socklen_t size = place_as(&address, user, name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    if (connect(fd, (struct sockaddr *)&address, size) != 0)
        FAIL("cannot connect: %s", strerror(errno));
    return fd;
}

/* Listens in its place. */
static inline int listen_as(unsigned user, const char *name) {
    struct sockaddr_un address;
    socklen_t size = place_as(&address, user, name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 && listen(fd, 16) == 0);
    return fd;
}

static inline int connect_to(const char *name) { return connect_as(getuid(), name); }

static inline void say(int fd, const void *bytes, size_t len) {
    send(fd, bytes, len, MSG_NOSIGNAL);
}

static inline size_t make_hello(struct hello *hello, const char *address) {
    memset(hello, 0, sizeof *hello);
    memcpy(hello->magic, "PercaleH", 8);
    hello->version = VERSION;
    for (int i = 0; i < 16; i++)
        hello->id[i] = (unsigned char)roll();
    return HEAD + (size_t)snprintf(hello->address, sizeof hello->address, "fi_shm://%s", address) +
           1;
}

static inline void say_hello(int fd, const char *address) {
    struct hello hello;
    size_t len = make_hello(&hello, address);
    say(fd, &hello, len);
}

/* Of one whose bell wants to be rung. */
static inline void say_sleepy_hello(int fd, const char *address) {
    struct hello hello;
    size_t len = make_hello(&hello, address);
    hello.sleeps = 1;
    say(fd, &hello, len);
}

/* Takes what the owner has said: 0 at its end, negative if there is nothing. A ring that came with
 * it, else -1. */
static inline int take(int fd, int *ring) {
    char said[256];
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec iov = {said, sizeof said};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof control};
    *ring = -1;
    ssize_t heard = recvmsg(fd, &msg, MSG_DONTWAIT);
    if (heard < 0)
        return errno == ECONNRESET ? 0 : -1;
    if (heard > 0 && CMSG_FIRSTHDR(&msg))
        memcpy(ring, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof *ring);
    return (int)heard;
}

static inline void give(int fd, uint64_t slots, uint64_t bytes, const int *fds, int count) {
    struct {
        char magic[8];
        uint64_t slots, bytes;
    } ring = {{0}, slots, bytes};
    memcpy(ring.magic, "PercaleR", 8);
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(8 * sizeof(int))];
    } control;
    memset(&control, 0, sizeof control);
    struct iovec iov = {&ring, sizeof ring};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (count) {
        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
        memcpy(CMSG_DATA(&control.head), fds, (size_t)count * sizeof(int));
    }
    sendmsg(fd, &msg, MSG_NOSIGNAL);
}

static inline int make_ring(int sealed) {
    int fd = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd >= 0 && ftruncate(fd, PAGE) == 0);
    if (sealed)
        CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
    return fd;
}

#endif
