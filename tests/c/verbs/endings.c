/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Connections that end in the midst of work: the peer is killed, the peer's device refuses an access, the
 * listener is gone. Every operation ends once, the next connection is as good as the first one, and no
 * descriptor is left.
 *
 * endings PROVIDER ADDRESS: forks a peer for each ending, and connects to one after the other. What is left
 * of the device's objects is looked at from outside.
 */
#define PROVIDER	provider
#define NODE		node
#define CAPS		(FI_MSG | FI_RMA)
static const char *provider, *node;
#include "../pair.h"

#include <dirent.h>

#define ROOM		64
#define LENGTH		4096
#define PATIENCE	600

enum ending { KILLED, REFUSED, GONE, ORDERLY, ENDINGS };
/* Operations that are under way when it ends, by the bits of their contexts. */
enum { RECEIVES = 3, SENDS = 2, WRITE = RECEIVES + SENDS, OPERATIONS };

struct peer {
	pid_t	pid;
	int	channel;
};

struct end {
	struct fi_info		*info;
	struct fid_fabric	*fabric;
	struct fid_domain	*domain;
	struct fid_eq		*eq;
	struct fid_cq		*cq;
	struct fid_mr		*mr;
	struct fid_pep		*pep;
	struct fid_ep		*ep;
	unsigned char		bytes[2 * LENGTH];
};

static struct end end;

static void give(const void *from, size_t len)
{
	CHECK(write(channel, from, len) == (ssize_t) len);
}

static void take(void *to, size_t len)
{
	CHECK(read(channel, to, len) == (ssize_t) len);
}

static void open_end(struct end *e)
{
	struct fi_eq_attr eq = { .wait_obj = FI_WAIT_NONE };
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_CONTEXT };
	struct fi_info *hints = fi_allocinfo();

	hints->caps = CAPS;
	hints->ep_attr->type = FI_EP_MSG;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup(provider);
	OK(fi_getinfo(FI_VERSION(1, 17), node, NULL, FI_SOURCE, hints, &e->info));
	fi_freeinfo(hints);
	OK(fi_fabric(e->info->fabric_attr, &e->fabric, NULL));
	OK(fi_domain(e->fabric, e->info, &e->domain, NULL));
	OK(fi_eq_open(e->fabric, &eq, &e->eq, NULL));
	OK(fi_cq_open(e->domain, &cq, &e->cq, NULL));
	OK(fi_mr_reg(e->domain, e->bytes, sizeof(e->bytes),
		     FI_SEND | FI_RECV | FI_WRITE | FI_REMOTE_WRITE, 0, 0, 0, &e->mr, NULL));
}

static void close_end(struct end *e)
{
	OK(fi_close(&e->mr->fid));
	OK(fi_close(&e->cq->fid));
	OK(fi_close(&e->eq->fid));
	OK(fi_close(&e->domain->fid));
	OK(fi_close(&e->fabric->fid));
	fi_freeinfo(e->info);
}

static void open_ep(struct end *e, struct fi_info *info)
{
	OK(fi_endpoint(e->domain, info, &e->ep, NULL));
	OK(fi_ep_bind(e->ep, &e->eq->fid, 0));
	OK(fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_enable(e->ep));
}

static void receive(struct end *e, size_t context)
{
	OK(fi_recv(e->ep, e->bytes, LENGTH, fi_mr_desc(e->mr), FI_ADDR_UNSPEC, (void *) context));
}

static void sends(struct end *e, size_t context)
{
	OK(fi_send(e->ep, e->bytes, LENGTH, fi_mr_desc(e->mr), FI_ADDR_UNSPEC, (void *) context));
}

/* The next event of connections; 0 for an error, whose reason is given. */
static uint32_t event(struct end *e, struct fi_eq_cm_entry *entry, int *reason)
{
	struct fi_eq_err_entry err = { 0 };
	uint32_t kind = 0;
	ssize_t got;

	while ((got = fi_eq_read(e->eq, &kind, entry, sizeof(*entry), 0)) == -FI_EAGAIN)
		sched_yield();
	if (got > 0)
		return kind;
	EQUAL(got, -FI_EAVAIL);
	CHECK(fi_eq_readerr(e->eq, &err, 0) > 0);
	*reason = err.err;
	return 0;
}

static void expect(struct end *e, uint32_t expected, struct fi_eq_cm_entry *entry)
{
	int reason = 0;
	const uint32_t kind = event(e, entry, &reason);

	if (kind != expected)
		FAIL("event %u (%s), expected %u", kind, fi_strerror(reason), expected);
}

/* How the next of the pending operations ends. Each ends once. */
static int ends(struct end *e, unsigned *pending, size_t *which)
{
	struct fi_cq_err_entry err = { 0 };
	struct fi_cq_entry entry;
	ssize_t got;

	while ((got = fi_cq_read(e->cq, &entry, 1)) == -FI_EAGAIN)
		sched_yield();
	if (got == -FI_EAVAIL)
		EQUAL(fi_cq_readerr(e->cq, &err, 0), 1);
	else
		EQUAL(got, 1);
	*which = (size_t) (got == 1 ? entry.op_context : err.op_context);
	CHECK(*which < OPERATIONS && *pending & 1u << *which);
	*pending &= ~(1u << *which);
	return got == 1 ? 0 : err.err;
}

/* Nothing else comes, of operations or of the connection. */
static void quiet(struct end *e)
{
	struct fi_eq_cm_entry entry;
	uint32_t kind;

	for (int i = 0; i < 1000; i++) {
		EQUAL(fi_cq_read(e->cq, &entry, 1), -FI_EAGAIN);
		EQUAL(fi_eq_read(e->eq, &kind, &entry, sizeof(entry), 0), -FI_EAGAIN);
	}
}

/* The other process of an ending: takes one message, and then whatever comes to it. */
static void be_peer(enum ending ending)
{
	struct { uint64_t address, key; } mine;
	struct fi_eq_cm_entry entry;
	unsigned pending = 1;
	char address[ROOM] = "", word;
	size_t len = ROOM, which;

	take(&word, 1);
	open_end(&end);
	OK(fi_passive_ep(end.fabric, end.info, &end.pep, NULL));
	OK(fi_pep_bind(end.pep, &end.eq->fid, 0));
	OK(fi_listen(end.pep));
	OK(fi_getname(&end.pep->fid, address, &len));
	if (ending == GONE) {
		OK(fi_close(&end.pep->fid));
		close_end(&end);
		give(address, ROOM);
		return;
	}
	give(address, ROOM);
	expect(&end, FI_CONNREQ, &entry);
	open_ep(&end, entry.info);
	receive(&end, 0);
	OK(fi_accept(end.ep, NULL, 0));
	fi_freeinfo(entry.info);
	expect(&end, FI_CONNECTED, &entry);
	EQUAL(ends(&end, &pending, &which), 0);
	mine.address = (uintptr_t) end.bytes;
	mine.key = fi_mr_key(end.mr);
	give(&mine, sizeof(mine));
	if (ending == KILLED)
		for (;;)
			pause();
	expect(&end, FI_SHUTDOWN, &entry);
	quiet(&end);
	OK(fi_close(&end.ep->fid));
	OK(fi_close(&end.pep->fid));
	close_end(&end);
}

static void connect_to(const struct peer *peer, enum ending ending)
{
	struct fi_eq_cm_entry entry;
	unsigned pending = (1u << RECEIVES) - 1;
	char address[ROOM];
	int reason = 0;
	size_t which;

	channel = peer->channel;
	give("", 1);
	take(address, ROOM);
	open_ep(&end, end.info);
	for (size_t i = 0; i < RECEIVES; i++)
		receive(&end, i);
	OK(fi_connect(end.ep, address, NULL, 0));
	if (ending != GONE) {
		expect(&end, FI_CONNECTED, &entry);
		return;
	}
	EQUAL(event(&end, &entry, &reason), 0);
	EQUAL(reason, FI_ECONNREFUSED);
	while (pending)
		EQUAL(ends(&end, &pending, &which), FI_ECANCELED);
}

/* Work under way, and its end. */
static void work(const struct peer *peer, enum ending ending)
{
	struct { uint64_t address, key; } far;
	unsigned pending = 1u << RECEIVES;
	struct fi_eq_cm_entry entry;
	int reason, failed = 0;
	size_t which;

	sends(&end, RECEIVES);
	EQUAL(ends(&end, &pending, &which), 0);
	take(&far, sizeof(far));
	if (ending == REFUSED)
		far.key ^= 0x5a5a00;
	pending = (1u << OPERATIONS) - 1;
	if (ending == ORDERLY)
		pending &= ~((1u << WRITE) - (1u << RECEIVES));
	/* Behind messages that find no receive, if it is not the one that ends it all. */
	for (size_t i = 0; ending == KILLED && i < SENDS; i++)
		sends(&end, RECEIVES + i);
	OK(fi_write(end.ep, end.bytes, LENGTH, fi_mr_desc(end.mr), FI_ADDR_UNSPEC, far.address + LENGTH,
		    far.key, (void *) WRITE));
	for (size_t i = 0; ending == REFUSED && i < SENDS; i++)
		sends(&end, RECEIVES + i);
	if (ending == KILLED)
		CHECK(!kill(peer->pid, SIGKILL));
	if (ending == ORDERLY) {
		while (pending & 1u << WRITE)
			EQUAL(ends(&end, &pending, &which), 0);
		OK(fi_shutdown(end.ep, 0));
	}
	while (pending) {
		reason = ends(&end, &pending, &which);
		CHECK(reason);
		failed++;
		if (ending == REFUSED && which == WRITE)
			EQUAL(reason, FI_EACCES);
		else if (ending != KILLED)
			EQUAL(reason, FI_ECANCELED);
	}
	printf("%d operations have failed, each once\n", failed);
	if (ending != ORDERLY)
		expect(&end, FI_SHUTDOWN, &entry);
}

static int descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int count = 0;

	CHECK(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

int main(int argc, char **argv)
{
	struct peer peers[ENDINGS];
	int before = 0;

	CHECK(argc == 3);
	provider = argv[1];
	node = argv[2];
	/* Before anything is opened: what is open is of no use to a child. */
	for (int i = 0; i < ENDINGS; i++) {
		int ends[2];

		CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
		peers[i] = (struct peer) { fork(), ends[0] };
		CHECK(peers[i].pid >= 0);
		alarm(PATIENCE);
		if (peers[i].pid)
			continue;
		role = i + 1;
		channel = ends[1];
		be_peer((enum ending) i);
		return 0;
	}
	open_end(&end);
	for (int i = 0; i < ENDINGS; i++) {
		int status;

		connect_to(&peers[i], (enum ending) i);
		if (i != GONE)
			work(&peers[i], (enum ending) i);
		quiet(&end);
		OK(fi_close(&end.ep->fid));
		CHECK(waitpid(peers[i].pid, &status, 0) == peers[i].pid);
		if (i == KILLED)
			CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		else
			EQUAL(status, 0);
		/* What the first connection has opened for all is there from then on. */
		if (i == KILLED)
			before = descriptors();
		EQUAL(descriptors(), before);
	}
	close_end(&end);
	return 0;
}
