/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Data calls on a connection, each in a function of its own, whose instructions callgrind counts
 * (tests/vm/cost.py).
 *
 * cost PROVIDER ADDRESS ROUNDS: forks a process that receives, and ends it.
 */
#define PROVIDER	provider
#define NODE		node
#define CAPS		(FI_MSG | FI_RMA)
static const char *provider, *node;
#include "../pair.h"

#define ROOM		64
#define BYTES		8

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_eq *eq;
static struct fid_cq *tx, *rx;
static struct fid_ep *ep;
static struct fid_mr *mr;
static uint64_t words[512];
static struct { uint64_t address, key; } far, near;

__attribute__((noinline)) static ssize_t call_send(void)
{
	return fi_send(ep, words, BYTES, fi_mr_desc(mr), FI_ADDR_UNSPEC, words);
}

__attribute__((noinline)) static ssize_t call_inject(void)
{
	return fi_inject(ep, words, BYTES, FI_ADDR_UNSPEC);
}

__attribute__((noinline)) static ssize_t call_write(void)
{
	return fi_write(ep, words, BYTES, fi_mr_desc(mr), FI_ADDR_UNSPEC, far.address, far.key, words);
}

__attribute__((noinline)) static ssize_t call_receive(void)
{
	return fi_recv(ep, words + 256, BYTES, fi_mr_desc(mr), FI_ADDR_UNSPEC, words);
}

__attribute__((noinline)) static ssize_t call_read(struct fi_cq_entry *entry)
{
	return fi_cq_read(tx, entry, 1);
}

__attribute__((noinline)) static ssize_t call_read_empty(struct fi_cq_entry *entry)
{
	return fi_cq_read(tx, entry, 1);
}

static void open_objects(void)
{
	struct fi_eq_attr events = { .wait_obj = FI_WAIT_NONE };
	struct fi_cq_attr queue = { .format = FI_CQ_FORMAT_CONTEXT };
	struct fi_info *hints = fi_allocinfo();

	hints->caps = CAPS;
	hints->ep_attr->type = FI_EP_MSG;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup(provider);
	OK(fi_getinfo(FI_VERSION(1, 17), node, NULL, FI_SOURCE, hints, &info));
	fi_freeinfo(hints);
	OK(fi_fabric(info->fabric_attr, &fabric, NULL));
	OK(fi_domain(fabric, info, &domain, NULL));
	OK(fi_eq_open(fabric, &events, &eq, NULL));
	OK(fi_cq_open(domain, &queue, &tx, NULL));
	OK(fi_cq_open(domain, &queue, &rx, NULL));
	OK(fi_mr_reg(domain, words, sizeof(words),
		     FI_SEND | FI_RECV | FI_WRITE | FI_REMOTE_WRITE, 0, 0, 0, &mr, NULL));
	near.address = (uintptr_t) words;
	near.key = fi_mr_key(mr);
}

static void open_end(struct fi_info *with)
{
	OK(fi_endpoint(domain, with, &ep, NULL));
	OK(fi_ep_bind(ep, &eq->fid, 0));
	OK(fi_ep_bind(ep, &tx->fid, FI_TRANSMIT));
	OK(fi_ep_bind(ep, &rx->fid, FI_RECV));
	OK(fi_enable(ep));
}

static void expect(uint32_t expected, struct fi_eq_cm_entry *entry)
{
	uint32_t event = 0;
	ssize_t got;

	while ((got = fi_eq_read(eq, &event, entry, sizeof(*entry), 0)) == -FI_EAGAIN)
		fi_cq_read(tx, NULL, 0);
	CHECK(got > 0);
	EQUAL(event, expected);
}

static void connect_ends(void)
{
	char mine[ROOM] = "", theirs[ROOM] = "";
	struct fi_eq_cm_entry entry;
	struct fid_pep *pep;
	size_t len = ROOM;

	if (role == 1) {
		OK(fi_passive_ep(fabric, info, &pep, NULL));
		OK(fi_pep_bind(pep, &eq->fid, 0));
		OK(fi_listen(pep));
		OK(fi_getname(&pep->fid, mine, &len));
		swap(NULL, mine, theirs, ROOM);
		expect(FI_CONNREQ, &entry);
		open_end(entry.info);
		OK(fi_accept(ep, NULL, 0));
		expect(FI_CONNECTED, &entry);
	} else {
		swap(NULL, mine, theirs, ROOM);
		/* Some look for the way when the endpoint is opened. */
		info->dest_addrlen = info->src_addrlen;
		info->dest_addr = malloc(info->dest_addrlen);
		CHECK(info->dest_addr && info->dest_addrlen <= ROOM);
		memcpy(info->dest_addr, theirs, info->dest_addrlen);
		open_end(info);
		OK(fi_connect(ep, theirs, NULL, 0));
		expect(FI_CONNECTED, &entry);
	}
	swap(NULL, &near, &far, sizeof(near));
}

static void finish(void)
{
	struct fi_cq_entry entry;
	struct timespec moment = { .tv_nsec = 100000000 };

	/* It has completed by then. */
	nanosleep(&moment, NULL);
	CHECK(call_read(&entry) == 1);
	CHECK(call_read_empty(&entry) == -FI_EAGAIN);
}

int main(int argc, char **argv)
{
	size_t rounds;

	CHECK(argc == 4);
	provider = argv[1];
	node = argv[2];
	rounds = strtoul(argv[3], NULL, 10);
	CHECK(rounds < 100);
	split();
	alarm(1200);
	open_objects();
	connect_ends();
	/* The receives of all that comes; of the first side, what they cost. */
	for (size_t i = 0; i < 3 * rounds; i++)
		OK(call_receive());
	swap(NULL, &near, &far, sizeof(near));
	for (size_t i = 0; role == 0 && i < rounds; i++) {
		OK(call_send());
		finish();
		OK(call_write());
		finish();
		OK(call_inject());
	}
	swap(NULL, &near, &far, sizeof(near));
	_exit(join());
}
