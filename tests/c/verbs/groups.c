/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Multicast groups of unreliable datagrams.
 *
 * groups GROUP DEVICE DEVICE: an endpoint on the first device sends to a group, two on the second one
 * receive from it. One of them leaves, and gets nothing more; the other one does.
 */
#include <stdbool.h>

#define PROVIDER	"verbs"
#include "../pair.h"

#define LENGTH		512
#define PREFIX		40
#define MESSAGES	20
/* Messages may be lost, and are sent again then. */
#define TRIES		200

static const char *group_name;

struct end {
	struct fi_info		*info;
	struct fid_fabric	*fabric;
	struct fid_domain	*domain;
	struct fid_av		*av;
	struct fid_cq		*cq;
	struct fid_eq		*eq;
	struct fid_ep		*ep;
	struct fid_mr		*mr;
	struct fid_mc		*mc;
	unsigned char		buffer[PREFIX + LENGTH];
};

static void open_end(struct end *e, const char *device)
{
	struct fi_av_attr av = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_DATA, .size = 64 };
	struct fi_eq_attr eq = { .wait_obj = FI_WAIT_UNSPEC };
	struct fi_info *hints = fi_allocinfo();
	char domain[80];

	hints->caps = FI_MSG | FI_MULTICAST;
	hints->mode = FI_MSG_PREFIX;
	hints->ep_attr->type = FI_EP_DGRAM;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup(PROVIDER);
	snprintf(domain, sizeof(domain), "%s-dgram", device);
	hints->domain_attr->name = strdup(domain);
	OK(fi_getinfo(FI_VERSION(1, 17), group_name, NULL, 0, hints, &e->info));
	fi_freeinfo(hints);
	CHECK(e->info->caps & FI_MULTICAST && e->info->dest_addr);
	EQUAL(e->info->ep_attr->msg_prefix_size, PREFIX);
	OK(fi_fabric(e->info->fabric_attr, &e->fabric, NULL));
	OK(fi_domain(e->fabric, e->info, &e->domain, NULL));
	OK(fi_av_open(e->domain, &av, &e->av, NULL));
	OK(fi_cq_open(e->domain, &cq, &e->cq, NULL));
	OK(fi_eq_open(e->fabric, &eq, &e->eq, NULL));
	OK(fi_endpoint(e->domain, e->info, &e->ep, e));
	OK(fi_mr_reg(e->domain, e->buffer, sizeof(e->buffer), FI_SEND | FI_RECV, 0, 0, 0, &e->mr, NULL));
	EQUAL(fi_join(e->ep, e->info->dest_addr, 0, &e->mc, NULL), -FI_ENOEQ);
	OK(fi_ep_bind(e->ep, &e->av->fid, 0));
	OK(fi_ep_bind(e->ep, &e->cq->fid, FI_SEND | FI_RECV));
	OK(fi_ep_bind(e->ep, &e->eq->fid, 0));
	OK(fi_enable(e->ep));
}

static void join_group(struct end *e, uint64_t flags)
{
	struct fi_eq_entry entry;
	uint32_t event;

	EQUAL(fi_join(e->ep, e->info->dest_addr, FI_MORE, &e->mc, NULL), -FI_EBADFLAGS);
	EQUAL(fi_join(e->ep, e->info->dest_addr, FI_COLLECTIVE, &e->mc, NULL), -FI_ENOSYS);
	OK(fi_join(e->ep, e->info->dest_addr, flags, &e->mc, &e->mc));
	EQUAL(fi_eq_sread(e->eq, &event, &entry, sizeof(entry), 30000, 0), sizeof(entry));
	EQUAL(event, FI_JOIN_COMPLETE);
	CHECK(entry.fid == &e->mc->fid && entry.context == &e->mc);
}

static void close_end(struct end *e)
{
	if (e->mc)
		OK(fi_close(&e->mc->fid));
	OK(fi_close(&e->ep->fid));
	OK(fi_close(&e->mr->fid));
	OK(fi_close(&e->eq->fid));
	OK(fi_close(&e->cq->fid));
	OK(fi_close(&e->av->fid));
	OK(fi_close(&e->domain->fid));
	OK(fi_close(&e->fabric->fid));
	fi_freeinfo(e->info);
}

/* Whether a message has come: with the bytes and the data that it was sent with. */
static bool came(struct end *e, size_t seed)
{
	struct fi_cq_data_entry entry;
	ssize_t got = fi_cq_read(e->cq, &entry, 1);

	if (got == -FI_EAGAIN)
		return false;
	EQUAL(got, 1);
	CHECK(entry.flags & FI_RECV);
	/* One that was sent twice, because it was slow, may come after the next one. */
	if (entry.data != seed) {
		CHECK(entry.data < seed);
		OK(fi_recv(e->ep, e->buffer, sizeof(e->buffer), fi_mr_desc(e->mr), 0, NULL));
		return false;
	}
	EQUAL(entry.len, sizeof(e->buffer));
	CHECK_FILL(e->buffer + PREFIX, LENGTH, seed);
	return true;
}

static void send_one(struct end *e, size_t seed)
{
	struct iovec piece = { .iov_base = e->buffer, .iov_len = LENGTH };
	void *desc = fi_mr_desc(e->mr);
	struct fi_msg msg = { .msg_iov = &piece, .desc = &desc, .iov_count = 1,
			      .addr = fi_mc_addr(e->mc), .data = seed };
	struct fi_cq_data_entry entry;

	fill(e->buffer, LENGTH, seed);
	OK(fi_sendmsg(e->ep, &msg, FI_MULTICAST | FI_REMOTE_CQ_DATA | FI_COMPLETION));
	while (fi_cq_read(e->cq, &entry, 1) == -FI_EAGAIN)
		sched_yield();
	CHECK(entry.flags & FI_SEND);
}

/* Sends a message until those at `ends` have it. */
static void deliver(struct end *from, struct end **ends, int count, size_t seed)
{
	const struct timespec moment = { .tv_nsec = 20000000 };
	int missing = count, tries = 0;
	bool has[2] = { false, false };

	for (int i = 0; i < count; i++)
		OK(fi_recv(ends[i]->ep, ends[i]->buffer, sizeof(ends[i]->buffer),
			   fi_mr_desc(ends[i]->mr), 0, NULL));
	while (missing) {
		CHECK(++tries < TRIES);
		send_one(from, seed);
		for (int wait = 0; missing && wait < 10; wait++) {
			for (int i = 0; i < count; i++)
				if (!has[i] && (has[i] = came(ends[i], seed)))
					missing--;
			nanosleep(&moment, NULL);
		}
	}
}

int main(int argc, char **argv)
{
	static struct end sender, one, other;
	struct end *both[] = { &one, &other };

	if (argc != 4)
		return 2;
	group_name = argv[1];
	alarm(DEADLINE);
	open_end(&sender, argv[2]);
	open_end(&one, argv[3]);
	open_end(&other, argv[3]);
	join_group(&sender, FI_SEND);
	join_group(&one, FI_RECV);
	join_group(&other, 0);
	for (size_t i = 0; i < MESSAGES; i++)
		deliver(&sender, both, 2, i);

	/* Who is not a member any more gets nothing, whoever else is. */
	OK(fi_recv(other.ep, other.buffer, sizeof(other.buffer), fi_mr_desc(other.mr), 0, NULL));
	OK(fi_close(&other.mc->fid));
	other.mc = NULL;
	for (size_t i = MESSAGES; i < 2 * MESSAGES; i++)
		deliver(&sender, both, 1, i);
	for (int i = 0; i < 100; i++)
		CHECK(!came(&other, 2 * MESSAGES));

	close_end(&sender);
	close_end(&one);
	close_end(&other);
	printf("%d messages to two, %d to one\n", MESSAGES, MESSAGES);
	return 0;
}
