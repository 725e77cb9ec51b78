/* misfits CASE: what can be at the address of a peer over TCP and is none, and what an endpoint has not
 * got. Each operation ends in time, if it can end at all, and the log has one line that tells why.
 * FI_TCP_CONNECT_TIMEOUT is one second. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/fi_eq.h>

#include "log.h"

static fi_addr_t insert_at(struct side *side, const struct sockaddr_in *place) {
    fi_addr_t peer;
    CHECK(fi_av_insert(side->av, place, 1, &peer, 0, NULL) == 1);
    return peer;
}

/* A socket that listens, and that nobody accepts from. */
static int listening(struct sockaddr_in *place) {
    socklen_t len = sizeof *place;
    *place = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)place, len) == 0 && listen(fd, 64) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)place, &len) == 0);
    own_fds++;
    return fd;
}

static void hang_up(int fd) {
    close(fd);
    own_fds--;
}

/* How long a send takes to fail with `err`, or with any error for 0, while `beside` makes progress, too, and whoever has
 * connected to `fd` is turned out. */
static double fails(struct side *side, struct side *beside, int fd, fi_addr_t peer, int err) {
    struct op op = {0};
    double begin = now();
    POST(side, fi_send(side->ep, "x", 1, NULL, peer, &op));
    while (!op.done && now() < begin + PATIENCE) {
        drain(side);
        if (beside)
            drain(beside);
        int visitor = fd < 0 ? -1 : accept(fd, NULL, NULL);
        if (visitor >= 0)
            close(visitor);
    }
    if (!op.err || (err && op.err != err))
        FAIL("error %d %s, not %s", op.err, fi_strerror(op.err), fi_strerror(err));
    return now() - begin;
}

/* It could be a peer that computes, so that what was posted waits; the log tells of it. */
static void silent(void) {
    struct side side;
    struct sockaddr_in place;
    struct op op = {0};
    open_side(&side, (struct wish){0});
    int fd = listening(&place);
    POST(&side, fi_send(side.ep, "x", 1, NULL, insert_at(&side, &place), &op));
    linger(&side, 2.5);
    CHECK(!op.done);
    check_lines(1, "has not answered for 1 s", "127.0.0.1");
    close_side(&side);
    hang_up(fd);
}

/* Whoever takes connections and closes them has as long as others, not twice. */
static void closing(void) {
    struct side side;
    struct sockaddr_in place;
    open_side(&side, (struct wish){0});
    int fd = listening(&place);
    double took = fails(&side, NULL, fd, insert_at(&side, &place), 0);
    if (took < 0.4 || took > 1.6)
        FAIL("took %.2f s", took);
    check_lines(1, "cannot be reached from", is_layered() ? "" : "takes connections and closes them");
    close_side(&side);
    hang_up(fd);
}

static void port_zero(void) {
    struct side side;
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    open_side(&side, (struct wish){0});
    double took = fails(&side, NULL, -1, insert_at(&side, &place), FI_ECONNREFUSED);
    if (took > 0.5)
        FAIL("took %.2f s", took);
    check_lines(1, "cannot be reached from", is_layered() ? "" : "port 0");
    close_side(&side);
}

/* An endpoint of the provider that has the same addresses and other messages. */
static void other_provider(void) {
    struct side side, other;
    struct sockaddr_in place;
    size_t len = sizeof place;
    const char *own = strdup(provider());
    open_side(&side, (struct wish){0});
    setenv("PERCALE_PROVIDER", is_layered() ? "tcp" : "tcp;ofi_rxm", 1);
    open_side(&other, (struct wish){0});
    OK(fi_getname(&other.ep->fid, &place, &len));
    fi_addr_t peer = insert_at(&side, &place);
    for (int i = 0; i < 10; i++) {
        double took = fails(&side, &other, -1, peer, FI_EPROTO);
        if (took > 0.5)
            FAIL("took %.2f s", took);
    }
    char theirs[64], ours[64];
    snprintf(theirs, sizeof theirs, "its provider is %s, and this one %s:", provider(), own);
    snprintf(ours, sizeof ours, "its provider is %s, and this one %s:", own, provider());
    check_lines(1, "is no peer: ", theirs);
    check_lines(1, "is refused: ", ours);
    check_lines(2, "FI_PROVIDER='tcp;ofi_rxm'", "choose one for both sides");
    close_endpoint(&other);
    release_shared(&other);
    setenv("PERCALE_PROVIDER", own, 1);
    close_side(&side);
}

/* Enabling without a descriptor says so, and works when there is one; accepting without one says
 * nothing as long as nobody comes. */
static void descriptors(void) {
    struct side side, server;
    open_side(&server, (struct wish){0});
    memset(&side, 0, sizeof side);
    prepare_side(&side, NULL, (struct wish){0});
    struct rlimit files = leave_descriptors(0);
    CHECK(fi_enable(side.ep) == -FI_EMFILE);
    linger(&server, 0.3);
    CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
    check_lines(1, "cannot listen at", "ulimit -n");
    check_lines(0, "accept", "");
    OK(fi_enable(side.ep));
    close_endpoint(&side);
    release_shared(&side);
    close_side(&server);
}

/* What is short is said by whatever is asked first, and does not last. */
static void set_up(void) {
    struct fi_info *hints = fi_allocinfo(), *info, *found;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fi_cq_attr cq_attr = {.wait_obj = FI_WAIT_FD};
    struct fi_cntr_attr cntr_attr = {.wait_obj = FI_WAIT_FD};
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_FD};
    struct fid_cq *cq;
    struct fid_cntr *cntr;
    struct fid_eq *eq;
    char words[128];

    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG;
    hints->fabric_attr->prov_name = strdup(provider());
    OK(fi_getinfo(FI_VERSION(1, 20), NULL, NULL, 0, hints, &info));
    struct rlimit files = leave_descriptors(0);
    CHECK(fi_getinfo(FI_VERSION(1, 20), NULL, NULL, 0, hints, &found) == -FI_EMFILE);
    CHECK(fi_fabric(info->fabric_attr, &fabric, NULL) == -FI_EMFILE);
    CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
    snprintf(words, sizeof words, "wanted %s, offered no list of interfaces", provider());
    check_lines(1, words, "ulimit -n");
    OK(fi_fabric(info->fabric_attr, &fabric, NULL));
    for (int spare = 0, refused = -FI_EMFILE; refused; spare++) {
        files = leave_descriptors(spare);
        refused = fi_domain(fabric, info, &domain, NULL);
        CHECK(refused == 0 || refused == -FI_EMFILE);
        CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
    }
    files = leave_descriptors(0);
    CHECK(fi_cq_open(domain, &cq_attr, &cq, NULL) == -FI_EMFILE);
    CHECK(fi_cntr_open(domain, &cntr_attr, &cntr, NULL) == -FI_EMFILE);
    CHECK(fi_eq_open(fabric, &eq_attr, &eq, NULL) == -FI_EMFILE);
    CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
    check_lines(1, "fi_cq_open", "ulimit -n");
    check_lines(1, "fi_cntr_open", "ulimit -n");
    check_lines(1, "fi_eq_open", "ulimit -n");
    OK(fi_close(&domain->fid));
    OK(fi_close(&fabric->fid));
    fi_freeinfo(info);
    fi_freeinfo(hints);
}

/* The error event of a connection that has been asked for, and how long it took. */
static double not_connected(const struct sockaddr_in *place, int err) {
    struct fi_info *hints = fi_allocinfo(), *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_eq *eq;
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_MSG};
    struct fi_eq_cm_entry entry;
    struct fi_eq_err_entry error = {0};
    uint32_t event;

    hints->ep_attr->type = FI_EP_MSG;
    hints->caps = FI_MSG;
    hints->fabric_attr->prov_name = strdup("tcp");
    OK(fi_getinfo(FI_VERSION(1, 20), "127.0.0.1", "1", 0, hints, &info));
    fi_freeinfo(hints);
    OK(fi_fabric(info->fabric_attr, &fabric, NULL));
    OK(fi_domain(fabric, info, &domain, NULL));
    OK(fi_eq_open(fabric, &eq_attr, &eq, NULL));
    OK(fi_cq_open(domain, &cq_attr, &cq, NULL));
    OK(fi_endpoint(domain, info, &ep, NULL));
    OK(fi_ep_bind(ep, &eq->fid, 0));
    OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
    double begin = now();
    OK(fi_connect(ep, place, NULL, 0));
    CHECK(fi_eq_sread(eq, &event, &entry, sizeof entry, 10000, 0) == -FI_EAVAIL);
    CHECK(fi_eq_readerr(eq, &error, 0) == sizeof error);
    double took = now() - begin;
    if (error.err != err || error.fid != &ep->fid)
        FAIL("error %d %s, not %s", error.err, fi_strerror(error.err), fi_strerror(err));
    OK(fi_close(&ep->fid));
    OK(fi_close(&cq->fid));
    OK(fi_close(&eq->fid));
    OK(fi_close(&domain->fid));
    OK(fi_close(&fabric->fid));
    fi_freeinfo(info);
    return took;
}

static void connections(void) {
    struct sockaddr_in place;
    int fd = listening(&place);
    double took = not_connected(&place, FI_ETIMEDOUT);
    if (took < 0.9 || took > 1.6)
        FAIL("took %.2f s", took);
    check_lines(1, "has not been connected", "said nothing for FI_TCP_CONNECT_TIMEOUT");
    hang_up(fd);
    CHECK(not_connected(&place, FI_ECONNREFUSED) < 0.5);
    check_lines(1, "has not been connected", "nobody listens at this port");
    place.sin_port = 0;
    CHECK(not_connected(&place, FI_ECONNREFUSED) < 0.5);
    check_lines(1, "has not been connected", "port 0");
}

static double seconds_of(const struct rusage *use) {
    const struct timeval *user = &use->ru_utime, *system = &use->ru_stime;
    return (double)(user->tv_sec + system->tv_sec) + (double)(user->tv_usec + system->tv_usec) / 1e6;
}

/* Where a connection can be neither taken nor turned away, who waits for it sleeps, and gets it later. */
static void listening_without(void) {
    struct fi_info *hints = fi_allocinfo(), *info;
    struct fid_fabric *fabric;
    struct fid_eq *eq;
    struct fid_pep *pep;
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_FD};
    struct fi_eq_cm_entry entry;
    struct sockaddr_in place;
    size_t len = sizeof place;
    struct rlimit files, few;
    struct rusage before, after;
    char junk[300] = "nobody's request";
    uint32_t event;

    hints->ep_attr->type = FI_EP_MSG;
    hints->caps = FI_MSG;
    hints->fabric_attr->prov_name = strdup("tcp");
    OK(fi_getinfo(FI_VERSION(1, 20), "127.0.0.1", NULL, FI_SOURCE, hints, &info));
    fi_freeinfo(hints);
    OK(fi_fabric(info->fabric_attr, &fabric, NULL));
    OK(fi_eq_open(fabric, &eq_attr, &eq, NULL));
    OK(fi_passive_ep(fabric, info, &pep, NULL));
    OK(fi_pep_bind(pep, &eq->fid, 0));
    OK(fi_listen(pep));
    OK(fi_getname(&pep->fid, &place, &len));
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(client >= 0 && connect(client, (struct sockaddr *)&place, sizeof place) == 0);

    /* Fewer than there are: not even the one in reserve helps. */
    CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
    few = files;
    few.rlim_cur = 3;
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    CHECK(getrusage(RUSAGE_SELF, &before) == 0);
    CHECK(fi_eq_sread(eq, &event, &entry, sizeof entry, 1000, 0) == -FI_EAGAIN);
    CHECK(getrusage(RUSAGE_SELF, &after) == 0);
    CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
    if (after.ru_nvcsw - before.ru_nvcsw > 100)
        FAIL("woken %ld times", after.ru_nvcsw - before.ru_nvcsw);
    if (seconds_of(&after) - seconds_of(&before) > 0.3)
        FAIL("%.2f s of work", seconds_of(&after) - seconds_of(&before));
    CHECK(lines_with("accept fails", "ulimit -n"));

    /* Now it is taken, and let go for what it says. */
    CHECK(write(client, junk, sizeof junk) == sizeof junk);
    CHECK(fi_eq_sread(eq, &event, &entry, sizeof entry, 300, 0) == -FI_EAGAIN);
    CHECK(recv(client, junk, sizeof junk, MSG_DONTWAIT) <= 0 && errno != EAGAIN);
    check_lines(1, "is let go", "it begins with");
    close(client);
    OK(fi_close(&pep->fid));
    OK(fi_close(&eq->fid));
    OK(fi_close(&fabric->fid));
    fi_freeinfo(info);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"silent", silent},         {"closing", closing},         {"port-zero", port_zero},
        {"other", other_provider},  {"descriptors", descriptors}, {"connections", connections},
        {"set-up", set_up},         {"listening", listening_without},
    };
    CHECK(argc == 2);
    open_log();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(cases[i].name, argv[1]) == 0) {
            cases[i].run();
            close_log();
            return 0;
        }
    }
    FAIL("no case \"%s\"", argv[1]);
}
