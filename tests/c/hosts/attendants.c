/* attendants SECONDS: a server of connected endpoints over TCP. One thread sleeps in its event queue, one
 * in its completion queue, and a third looks at both now and then, and else does nothing. Clients
 * connect, ask once, and leave; none is forgotten. */
#include "side.h"
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>

enum { CLIENTS = 3, LOOKS = 200, FORGOTTEN = 20 };

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_eq *eq;
static struct fid_cq *cq;
static atomic_long answered;
static atomic_int stop;

static struct fi_info *hints(void) {
    struct fi_info *wanted = fi_allocinfo();
    CHECK(wanted);
    wanted->caps = FI_MSG;
    wanted->ep_attr->type = FI_EP_MSG;
    wanted->fabric_attr->prov_name = strdup("tcp");
    return wanted;
}

static void open_common(enum fi_wait_obj wait) {
    struct fi_eq_attr eq_attr = {.wait_obj = wait};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_MSG, .wait_obj = wait};
    OK(fi_fabric(info->fabric_attr, &fabric, NULL));
    OK(fi_eq_open(fabric, &eq_attr, &eq, NULL));
    OK(fi_domain(fabric, info, &domain, NULL));
    OK(fi_cq_open(domain, &cq_attr, &cq, NULL));
}

static struct fid_ep *open_ep(struct fi_info *of, void *context) {
    struct fid_ep *ep;
    OK(fi_endpoint(domain, of, &ep, context));
    OK(fi_ep_bind(ep, &eq->fid, 0));
    OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
    return ep;
}

/* A client polls, so that whoever sleeps is the server. */
static void reached(double late, const char *what) {
    if (now() > late)
        FAIL("forgotten: %s", what);
    sched_yield();
}

static void visit(void) {
    struct fi_context2 in, out;
    struct fi_eq_cm_entry entry;
    struct fi_cq_msg_entry done;
    uint32_t event;
    char question = 'q', answer = 0;
    double late = now() + FORGOTTEN;
    struct fid_ep *ep = open_ep(info, NULL);
    OK(fi_enable(ep));
    OK(fi_recv(ep, &answer, 1, NULL, 0, &in));
    OK(fi_connect(ep, info->dest_addr, NULL, 0));
    while (fi_eq_read(eq, &event, &entry, sizeof entry, 0) < 0)
        reached(late, "a connection");
    CHECK(event == FI_CONNECTED);
    OK(fi_send(ep, &question, 1, NULL, 0, &out));
    for (int left = 2; left;) {
        ssize_t got = fi_cq_read(cq, &done, 1);
        CHECK(got == 1 || got == -FI_EAGAIN);
        if (got == 1)
            left--;
        else
            reached(late, "a question");
    }
    CHECK(answer == 'a');
    OK(fi_close(&ep->fid));
}

static int client(struct other other) {
    char port[16], order;
    struct fi_info *wanted = hints();
    hear(NULL, other, port, sizeof port);
    OK(fi_getinfo(FI_VERSION(1, 20), "127.0.0.1", port, 0, wanted, &info));
    fi_freeinfo(wanted);
    open_common(FI_WAIT_NONE);
    while (recv(other.fd, &order, 1, MSG_DONTWAIT) < 0)
        visit();
    OK(fi_close(&cq->fid));
    OK(fi_close(&domain->fid));
    OK(fi_close(&eq->fid));
    OK(fi_close(&fabric->fid));
    fi_freeinfo(info);
    return 0;
}

/* The server's end of a connection. It is closed by one thread, and used by another. */
struct guest {
    struct fi_context2 in, out;
    struct fid_ep *ep;
    pthread_mutex_t used;
    char question, answer;
};

static void welcome(struct fi_info *request) {
    struct guest *guest = calloc(1, sizeof *guest);
    CHECK(guest);
    pthread_mutex_init(&guest->used, NULL);
    guest->ep = open_ep(request, guest);
    OK(fi_enable(guest->ep));
    OK(fi_recv(guest->ep, &guest->question, 1, NULL, 0, &guest->in));
    OK(fi_accept(guest->ep, NULL, 0));
    fi_freeinfo(request);
}

static void *door(void *unused) {
    (void)unused;
    while (!atomic_load(&stop)) {
        struct fi_eq_cm_entry entry;
        uint32_t event;
        ssize_t got = fi_eq_sread(eq, &event, &entry, sizeof entry, 1000 * FORGOTTEN, 0);
        if (got == -FI_EAGAIN)
            continue;
        CHECK(got >= (ssize_t)sizeof entry);
        if (event == FI_CONNREQ) {
            welcome(entry.info);
        } else if (event == FI_SHUTDOWN) {
            struct guest *guest = entry.fid->context;
            pthread_mutex_lock(&guest->used);
            OK(fi_close(&guest->ep->fid));
            pthread_mutex_unlock(&guest->used);
            free(guest);
        } else {
            CHECK(event == FI_CONNECTED);
        }
    }
    return NULL;
}

static void *desk(void *unused) {
    (void)unused;
    while (!atomic_load(&stop)) {
        struct fi_cq_msg_entry done;
        ssize_t got = fi_cq_sread(cq, &done, 1, NULL, 1000 * FORGOTTEN);
        if (got == -FI_EAGAIN)
            continue;
        CHECK(got == 1);
        if (!(done.flags & FI_RECV))
            continue;
        struct guest *guest = done.op_context;
        pthread_mutex_lock(&guest->used);
        guest->answer = 'a';
        OK(fi_send(guest->ep, &guest->answer, 1, NULL, 0, &guest->out));
        atomic_fetch_add(&answered, 1);
        pthread_mutex_unlock(&guest->used);
    }
    return NULL;
}

static void look_around(void) {
    struct fi_eq_cm_entry entry;
    uint32_t event;
    for (int i = 0; i < LOOKS; i++) {
        struct fid *fids[] = {&eq->fid, &cq->fid};
        fi_cq_read(cq, NULL, 0);
        fi_trywait(fabric, &fids[i % 2], 1);
        fi_eq_read(eq, &event, &entry, sizeof entry, FI_PEEK);
    }
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 2;
    struct other clients[CLIENTS];
    struct fi_info *wanted = hints();
    struct fid_pep *pep;
    struct sockaddr_in name;
    size_t len = sizeof name;
    pthread_t threads[2];
    char port[16];
    long looks = 0;
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = start(client);
    OK(fi_getinfo(FI_VERSION(1, 20), "127.0.0.1", "0", FI_SOURCE, wanted, &info));
    fi_freeinfo(wanted);
    open_common(FI_WAIT_FD);
    OK(fi_passive_ep(fabric, info, &pep, NULL));
    OK(fi_pep_bind(pep, &eq->fid, 0));
    OK(fi_listen(pep));
    OK(fi_getname(&pep->fid, &name, &len));
    snprintf(port, sizeof port, "%u", ntohs(name.sin_port));
    CHECK(pthread_create(&threads[0], NULL, door, NULL) == 0);
    CHECK(pthread_create(&threads[1], NULL, desk, NULL) == 0);
    for (int i = 0; i < CLIENTS; i++)
        tell(clients[i], port, strlen(port) + 1);
    for (double end = now() + seconds; now() < end; looks++) {
        long before = atomic_load(&answered);
        look_around();
        for (double late = now() + FORGOTTEN; atomic_load(&answered) < before + CLIENTS;) {
            usleep(100);
            if (now() > late)
                FAIL("nobody is answered any more, after %ld", before);
        }
    }
    for (int i = 0; i < CLIENTS; i++)
        tell(clients[i], "q", 1);
    for (int i = 0; i < CLIENTS; i++)
        finish_other(&clients[i]);
    fprintf(stderr, "%ld answers, %ld times looked around\n", (long)answered, looks);
    return 0;
}
