/* wrong: hints that are wrong in one way. Discovery finds nothing, and the first line of its report
 * names the attribute; so does a release build. */
#include "side.h"
#include <netinet/in.h>
#include <rdma/percale.h>

static void multicast(struct fi_info *h) { h->caps = FI_MSG | FI_MULTICAST; }
static void device_memory(struct fi_info *h) { h->caps = FI_MSG | FI_HMEM; }
static void no_such_level(struct fi_info *h) { h->domain_attr->threading = 77; }
static void connected(struct fi_info *h) { h->ep_attr->type = FI_EP_MSG; }
static void datagrams(struct fi_info *h) { h->ep_attr->type = FI_EP_DGRAM; }
static void protocol(struct fi_info *h) { h->ep_attr->protocol = FI_PROTO_RDMA_CM_IB_RC; }
static void internet(struct fi_info *h) { h->addr_format = FI_SOCKADDR_IN; }
static void infiniband(struct fi_info *h) { h->addr_format = FI_SOCKADDR_IB; }
static void elsewhere(struct fi_info *h) {
    static const struct sockaddr_in other = {.sin_family = AF_INET, .sin_addr = {0x010200c0}};
    h->addr_format = FI_SOCKADDR_IN;
    h->src_addr = memcpy(calloc(1, sizeof other), &other, sizeof other);
    h->src_addrlen = sizeof other;
}
static void long_key(struct fi_info *h) { h->domain_attr->mr_key_size = 16; }
static void long_data(struct fi_info *h) { h->domain_attr->cq_data_size = 16; }
static void large_inject(struct fi_info *h) { h->tx_attr->inject_size = 1 << 20; }
static void deep_queue(struct fi_info *h) { h->tx_attr->size = 1 << 30; }
static void many_pieces(struct fi_info *h) { h->rx_attr->iov_limit = 1000; }
static void buffered(struct fi_info *h) { h->rx_attr->total_buffered_recv = 1 << 20; }
static void prefixed(struct fi_info *h) { h->ep_attr->msg_prefix_size = 8; }
static void device(struct fi_info *h) { h->domain_attr->name = strdup("mlx5_0"); }
static void network(struct fi_info *h) { h->fabric_attr->name = strdup("192.0.2.0/24"); }
static void contexts(struct fi_info *h) { h->ep_attr->tx_ctx_cnt = 4; }
static void durable(struct fi_info *h) { h->tx_attr->op_flags = FI_COMMIT_COMPLETE; }

static const struct {
    void (*spoil)(struct fi_info *);
    const char *attribute;
    /* The only provider for which it is wrong; none is all. */
    const char *provider;
} WRONG[] = {
    {multicast, "caps", NULL},
    {device_memory, "caps", NULL},
    {no_such_level, "domain_attr.threading", NULL},
    {connected, "ep_attr.type", "shm"},
    {datagrams, "ep_attr.type", NULL},
    {protocol, "ep_attr.protocol", NULL},
    {internet, "addr_format", "shm"},
    {infiniband, "addr_format", NULL},
    {elsewhere, "src_addr", "tcp"},
    {long_key, "domain_attr.mr_key_size", NULL},
    {long_data, "domain_attr.cq_data_size", NULL},
    {large_inject, "tx_attr.inject_size", NULL},
    {deep_queue, "tx_attr.size", NULL},
    {many_pieces, "rx_attr.iov_limit", NULL},
    {buffered, "rx_attr.total_buffered_recv", NULL},
    {prefixed, "ep_attr.msg_prefix_size", NULL},
    {device, "domain_attr.name", NULL},
    {network, "fabric_attr.name", NULL},
    {contexts, "ep_attr.tx_ctx_cnt", NULL},
    {durable, "tx_attr.op_flags", "shm"},
};
enum { COUNT = sizeof WRONG / sizeof *WRONG };

static struct fi_info *plain_hints(void) {
    struct fi_info *hints = fi_allocinfo();
    CHECK(hints);
    hints->caps = FI_MSG | FI_TAGGED | FI_RMA;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR;
    hints->fabric_attr->prov_name = strdup(provider());
    return hints;
}

/* The report's first line has to name the attribute. */
static void check_report(const char *attribute) {
    struct fid *fid;
    char first[1024], wanted[128];
    OK(fi_open(FI_VERSION(1, 13), PERCALE_EXPLAIN, NULL, 0, 0, &fid, NULL));
    const char *text = ((struct fid_percale_explain *)fid)->text;
    snprintf(first, sizeof first, "%.*s", (int)strcspn(text, "\n"), text);
    snprintf(wanted, sizeof wanted, ": %s: wanted ", attribute);
    if (strncmp(first, provider(), strlen(provider())) || !strstr(first, wanted))
        FAIL("\"%s\" is not what the report says first:\n%s", wanted, text);
    fi_close(fid);
}

int main(void) {
    struct fi_info *infos, *hints = plain_hints();
    OK(fi_getinfo(FI_VERSION(1, 20), NULL, NULL, 0, hints, &infos));
    fi_freeinfo(infos);
    fi_freeinfo(hints);
    int asked = 0;
    for (int i = 0; i < COUNT; i++) {
        if (WRONG[i].provider && strcmp(WRONG[i].provider, provider()))
            continue;
        asked++;
        hints = plain_hints();
        WRONG[i].spoil(hints);
        int status = fi_getinfo(FI_VERSION(1, 20), NULL, NULL, 0, hints, &infos);
        if (status != -FI_ENODATA)
            FAIL("%s: %d", WRONG[i].attribute, status);
        check_report(WRONG[i].attribute);
        fi_freeinfo(hints);
    }
    fprintf(stderr, "%d hints, each report begins with the wrong one\n", asked);
    return 0;
}
