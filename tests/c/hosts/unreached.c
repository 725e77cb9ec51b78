/* unreached CASE: peers that shared memory cannot reach, and addresses that are none. Each operation
 * fails by name and in words, and the log has one line that tells why. */
#include <grp.h>

#include "log.h"

enum { NOBODY = 65534 };

/* A send that fails with `err`; its error names the peer and has words. */
static void fails(struct side *side, const char *name, int err, const char *word) {
    struct fi_cq_err_entry error = {0};
    struct op op = {0};
    fi_addr_t peer = insert(side, name);
    OK(fi_send(side->ep, "x", 1, NULL, peer, &op));
    for (double late = now() + PATIENCE; fi_cq_readerr(side->cq, &error, 0) != 1;) {
        ssize_t got = fi_cq_read(side->cq, NULL, 0);
        CHECK(got == -FI_EAGAIN || got == -FI_EAVAIL);
        CHECK(now() < late);
    }
    side->completions++;
    CHECK(error.op_context == &op && error.err == err);
    CHECK(error.err_data_size == strlen(name) + 1 && strcmp(error.err_data, name) == 0);
    char text[256] = "";
    const char *told =
        fi_cq_strerror(side->cq, error.prov_errno, error.err_data, text, sizeof text);
    if (strcmp(told, text) || !strstr(text, word))
        FAIL("\"%s\" without \"%s\"", text, word);
    OK(fi_av_remove(side->av, &peer, 1, 0));
}

static void nobody(void) {
    struct side side;
    open_side(&side, (struct wish){.name = "hosts.unreached.me"});
    for (int i = 0; i < 100; i++)
        fails(&side, "fi_shm://hosts.unreached.you", FI_ECONNREFUSED, "network namespace");
    check_lines(1, "fi_shm://hosts.unreached.you", "another network namespace");
    fails(&side, "fi_shm://hosts.unreached.we", FI_ECONNREFUSED, "no endpoint");
    check_lines(1, "hosts.unreached.we ", "did you mean fi_shm://hosts.unreached.me?");
    fails(&side, "fi_shm://192.0.2.1:5000", FI_ECONNREFUSED, "no endpoint");
    check_lines(1, "fi_shm://192.0.2.1:5000", "FI_PROVIDER=tcp");
    fails(&side, "fi_shm://127.0.0.1:5000", FI_ECONNREFUSED, "no endpoint");
    check_lines(1, "fi_shm://127.0.0.1:5000", "FI_PROVIDER=tcp");

    struct side late;
    join_side(&late, &side, (struct wish){.name = "hosts.unreached.you"});
    struct op out = {0};
    fi_addr_t peer = insert(&side, "fi_shm://hosts.unreached.you");
    POST(&side, fi_send(side.ep, "x", 1, NULL, peer, &out));
    expect(&side, &out);
    close_endpoint(&late);
    linger(&side, 0.05);
    fails(&side, "fi_shm://hosts.unreached.you", FI_ECONNREFUSED, "no endpoint");
    check_lines(2, "fi_shm://hosts.unreached.you", "another network namespace");
    close_side(&side);
}

/* As another user than the parent. */
static int stranger(struct other other) {
    struct side side;
    meet(NULL, other);
    if (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY)) {
        fprintf(stderr, "nobody can be another user here\n");
        return 0;
    }
    open_log();
    open_side(&side, (struct wish){0});
    fails(&side, "fi_shm://hosts.unreached.parent", FI_ECONNREFUSED, "of this user");
    check_lines(1, "fi_shm://hosts.unreached.parent", "is user 0's");
    close_side(&side);
    close_log();
    return 0;
}

static void other_user(void) {
    struct other other = start(stranger);
    struct side side;
    open_side(&side, (struct wish){.name = "hosts.unreached.parent"});
    meet(&side, other);
    finish_other(&other);
    close_side(&side);
}

static void descriptors(void) {
    struct side side;
    open_side(&side, (struct wish){0});
    struct rlimit files = leave_descriptors(0);
    fails(&side, "fi_shm://hosts.unreached.you", FI_EMFILE, "ulimit -n");
    CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
    check_lines(1, "fi_shm://hosts.unreached.you", "ulimit -n");
    close_side(&side);
}

static void names(void) {
    static const struct {
        const char *name, *why;
    } bad[] = {
        {"a/b", "'/' is not allowed"},
        {"fi_sockaddr_in://127.0.0.1:5000", "an address of another provider"},
        {"fi_shm://...", "no letter or digit"},
    };
    struct side side;
    fi_addr_t at;
    int err = 0;
    open_side(&side, (struct wish){0});
    for (int i = 0; i < 3; i++) {
        at = 7;
        CHECK(fi_av_insert(side.av, bad[i].name, 1, &at, FI_SYNC_ERR, &err) == 0);
        CHECK(at == FI_ADDR_NOTAVAIL && err == FI_EINVAL);
        check_lines(1, bad[i].name, bad[i].why);
        check_lines(1, bad[i].name, "expected fi_shm://NAME");
    }
    at = 7;
    CHECK(fi_av_insertsvc(side.av, "a/b", "5", &at, 0, NULL) == -FI_EINVAL);
    CHECK(at == FI_ADDR_NOTAVAIL);
    check_lines(1, "node \"a/b\", service \"5\"", "'/' is not allowed");

    close_side(&side);

    struct side second;
    struct wish wish = {.name = "hosts.unreached.twice"};
    open_side(&side, wish);
    prepare_side(&second, &side, wish);
    CHECK(fi_enable(second.ep) == -FI_EADDRINUSE);
    check_lines(1, "another endpoint", "fi_shm://hosts.unreached.twice");
    close_endpoint(&second);
    close_side(&side);
}

/* A program that asks for what nobody has, and perhaps for less then, in a process of its own: the
 * reasons are in the log at its end, if at all. */
static int asks_for_less(int less) {
    open_log();
    struct fi_info *hints = fi_allocinfo(), *info;
    hints->fabric_attr->prov_name = strdup(provider());
    hints->caps = FI_MULTICAST;
    CHECK(fi_getinfo(FI_VERSION(1, 20), NULL, NULL, 0, hints, &info) == -FI_ENODATA);
    check_lines(0, "FI_MULTICAST", "");
    if (less) {
        hints->caps = FI_MSG;
        OK(fi_getinfo(FI_VERSION(1, 20), NULL, NULL, 0, hints, &info));
        fi_freeinfo(info);
    }
    fi_freeinfo(hints);
    return 0;
}

static void probing(void) {
    for (int less = 0; less < 2; less++) {
        int status;
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0)
            exit(asks_for_less(less));
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
        name_log(pid);
        check_lines(less ? 0 : 1, "caps: wanted FI_MULTICAST", "do without FI_MULTICAST");
        close_log();
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    if (strcmp(argv[1], "probing") == 0) {
        probing();
        return 0;
    }
    if (strcmp(argv[1], "other-user") == 0) {
        other_user();
        return 0;
    }
    open_log();
    if (strcmp(argv[1], "nobody") == 0) {
        nobody();
    } else if (strcmp(argv[1], "descriptors") == 0) {
        descriptors();
    } else if (strcmp(argv[1], "names") == 0) {
        names();
    } else {
        FAIL("no case \"%s\"", argv[1]);
    }
    close_log();
    return 0;
}
