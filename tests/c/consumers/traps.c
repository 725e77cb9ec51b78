/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * traps CASE: what all applications lean on, and what drop-ins get wrong.  "hidden" and "odd"
 * are about the environment that they are started with.
 */
#include "consumer.h"

#include <dlfcn.h>

static struct fi_context2 context[8];
static unsigned char out[1 << 16], in[1 << 16];

static struct fi_info *ask(uint32_t version, const struct fi_info *hints)
{
	struct fi_info *info = NULL;

	OK(fi_getinfo(version, NULL, NULL, 0, hints, &info));
	CHECK(info);
	return info;
}

static struct fi_info *rdm_hints(uint64_t caps)
{
	struct fi_info *hints = fi_allocinfo();

	CHECK(hints);
	hints->caps = caps;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->fabric_attr->prov_name = strdup("shm");
	return hints;
}

/* An empty filter matches nothing. */
static void hidden(void)
{
	struct fi_info *hints = rdm_hints(FI_MSG), *info = NULL;

	EQUAL(fi_getinfo(fi_version(), NULL, NULL, 0, NULL, &info), -FI_ENODATA);
	EQUAL(fi_getinfo(fi_version(), NULL, NULL, 0, hints, &info), -FI_ENODATA);
	CHECK(!info);
	fi_freeinfo(hints);
}

/* Between what is gated by it: cancellation as of 2.1, no memory monitor asked for below 1.14. */
static void versions(void)
{
	static const uint32_t old[] = { FI_VERSION(0, 0), FI_VERSION(1, 0), FI_VERSION(1, 4) };
	static const uint32_t now[] = { FI_VERSION(1, 5), FI_VERSION(1, 9), FI_VERSION(1, 18),
					FI_VERSION(2, 0) };
	struct fi_info *hints, *info = NULL;
	size_t i;

	EQUAL(fi_version(), FI_VERSION(2, 6));
	for (i = 0; i < 3; i++) {
		info = ask(old[i], NULL);
		EQUAL(info->domain_attr->mr_mode, FI_MR_BASIC);
		EQUAL(info->fabric_attr->api_version, old[i]);
		fi_freeinfo(info);
	}
	for (i = 0; i < 4; i++) {
		info = ask(now[i], NULL);
		EQUAL(info->domain_attr->mr_mode & (FI_MR_BASIC | FI_MR_SCALABLE), 0);
		fi_freeinfo(info);
		/* The old names still mean what they did. */
		hints = rdm_hints(FI_RMA);
		hints->domain_attr->mr_mode = FI_MR_BASIC;
		info = ask(now[i], hints);
		EQUAL(info->domain_attr->mr_mode, FI_MR_BASIC);
		fi_freeinfo(info);
		hints->domain_attr->mr_mode = FI_MR_SCALABLE;
		info = ask(now[i], hints);
		EQUAL(info->domain_attr->mr_mode, FI_MR_SCALABLE);
		fi_freeinfo(info);
		fi_freeinfo(hints);
	}
	info = NULL;
	EQUAL(fi_getinfo(FI_VERSION(9, 0), NULL, NULL, 0, NULL, &info), -FI_ENOSYS);
	CHECK(!info);
}

/* Attributes as long as version node 1.3 knows them, on the stack, with anything behind. */
static void short_hints(void)
{
	enum { LENGTH_OF_1_3 = 192 };
	int (*getinfo)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *,
		       struct fi_info **);
	struct fi_info *(*dupinfo)(const struct fi_info *);
	void *library = dlopen("libfabric.so.1", RTLD_NOW);
	union {
		struct fi_domain_attr	attr;
		unsigned char		bytes[sizeof(struct fi_domain_attr) + 256];
	} domain;
	struct fi_tx_attr tx;
	struct fi_ep_attr ep;
	struct fi_info hints, *info = NULL, *copy;
	struct fid_fabric *fabric;
	struct fid_domain *opened;

	CHECK(library);
	getinfo = dlvsym(library, "fi_getinfo", "FABRIC_1.3");
	dupinfo = dlvsym(library, "fi_dupinfo", "FABRIC_1.3");
	CHECK(getinfo && dupinfo);
	memset(&hints, 0, sizeof(hints));
	memset(&tx, 0, sizeof(tx));
	memset(&ep, 0, sizeof(ep));
	memset(&domain, 0xd7, sizeof(domain));
	memset(&domain, 0, LENGTH_OF_1_3);
	hints.caps = FI_RMA | FI_ATOMIC;
	hints.tx_attr = &tx;
	hints.ep_attr = &ep;
	hints.domain_attr = &domain.attr;
	ep.type = FI_EP_RDM;
	domain.attr.mr_mode = FI_MR_VIRT_ADDR;
	/* It may also pass the version of the library that it meets. */
	OK(getinfo(fi_version(), NULL, NULL, 0, &hints, &info));
	fi_freeinfo(info);
	OK(getinfo(FI_VERSION(1, 5), NULL, NULL, 0, &hints, &info));
	memset((unsigned char *) info->domain_attr + LENGTH_OF_1_3, 0,
	       sizeof(struct fi_domain_attr) - LENGTH_OF_1_3);
	copy = dupinfo(info);
	CHECK(copy);
	OK(fi_fabric(copy->fabric_attr, &fabric, NULL));
	/* The application's own structure reaches fi_domain, too. */
	memcpy(&domain, info->domain_attr, LENGTH_OF_1_3);
	free(info->domain_attr->name);
	info->domain_attr->name = NULL;
	domain.attr.name = copy->domain_attr->name;
	{
		struct fi_info mixed = *copy;

		mixed.domain_attr = &domain.attr;
		OK(fi_domain(fabric, &mixed, &opened, NULL));
	}
	OK(fi_close(&opened->fid));
	OK(fi_close(&fabric->fid));
	fi_freeinfo(copy);
	fi_freeinfo(info);
}

/* Levels come back as asked for; no mode comes back that was not offered. */
static void echoed(void)
{
	static const enum fi_threading levels[] = { FI_THREAD_SAFE, FI_THREAD_DOMAIN,
						    FI_THREAD_COMPLETION };
	static const enum fi_progress ways[] = { FI_PROGRESS_MANUAL, FI_PROGRESS_AUTO };
	struct fi_info *hints = rdm_hints(FI_MSG | FI_RMA), *info;
	size_t level, way;
	int mr_mode;

	for (level = 0; level < 3; level++) {
		for (way = 0; way < 2; way++) {
			hints->domain_attr->threading = levels[level];
			hints->domain_attr->control_progress = ways[way];
			hints->domain_attr->data_progress = ways[way];
			info = ask(FI_VERSION(1, 18), hints);
			EQUAL(info->domain_attr->threading, levels[level]);
			EQUAL(info->domain_attr->data_progress, ways[way]);
			EQUAL(info->domain_attr->control_progress, ways[way]);
			fi_freeinfo(info);
		}
	}
	for (mr_mode = 0; mr_mode < 1 << 10; mr_mode += 4) {
		hints->domain_attr->mr_mode = mr_mode;
		info = ask(FI_VERSION(1, 18), hints);
		EQUAL(info->domain_attr->mr_mode & ~mr_mode, 0);
		fi_freeinfo(info);
	}
	fi_freeinfo(hints);
}

static struct fi_info *message_info(enum fi_av_type type)
{
	struct fi_info *hints = rdm_hints(FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_MULTI_RECV),
		       *info;

	hints->domain_attr->av_type = type;
	info = ask(FI_VERSION(1, 18), hints);
	fi_freeinfo(hints);
	return info;
}

/* A third endpoint beside a and b that sends as well: receives take what is theirs. */
static void directed(enum fi_av_type type)
{
	const struct objects objects = { .av_type = type, .format = FI_CQ_FORMAT_TAGGED };
	struct fi_info *info = message_info(type);
	struct fi_cq_tagged_entry entry;
	struct side third = { .info = NULL };
	fi_addr_t again, from_third;
	char name[256];
	size_t length = sizeof(name);
	int i;

	open_both(info, &objects);
	open_side(&third, info, &objects);
	introduce(&third, &b);
	introduce(&b, &third);
	from_third = b.peer;
	introduce(&b, &a);
	CHECK(from_third != b.peer);
	/* The same address once more: both values name the peer. */
	OK(fi_getname(&a.ep->fid, name, &length));
	EQUAL(fi_av_insert(b.av, name, 1, &again, 0, NULL), 1);
	for (i = 0; i < 2; i++) {
		const fi_addr_t source = i ? again : b.peer;

		PUT(fi_tinject(third.ep, "third", 6, third.peer, 1));
		PUT(fi_tinject(a.ep, "first", 6, a.peer, 1));
		PUT(fi_trecv(b.ep, in, 64, NULL, source, 1, 0, &context[0]));
		drive_side(&third);
		DONE(&b, &context[0], FI_TAGGED | FI_RECV);
		EQUAL(strcmp((char *) in, "first"), 0);
		PUT(fi_trecv(b.ep, in, 64, NULL, from_third, 1, 0, &context[1]));
		do
			drive_side(&third);
		while (fi_cq_read(b.cq, &entry, 1) == -FI_EAGAIN);
		CHECK(entry.op_context == &context[1]);
		EQUAL(strcmp((char *) in, "third"), 0);
	}
	SILENT();
	close_side(&third);
	close_both();
	fi_freeinfo(info);
}

/* A buffer for many messages is given back once: with the message after which less than the
 * least is left, or alone. */
static void multi_receive(void)
{
	enum { LEAST = 0x4000, ROOM = 0xffff };
	const struct objects objects = { .format = FI_CQ_FORMAT_TAGGED, .min_multi_recv = LEAST };
	struct fi_info *info = message_info(FI_AV_TABLE);
	struct iovec iov = { in, ROOM };
	struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC,
			      .context = &context[0] };
	struct fi_cq_tagged_entry entry;
	size_t size, used, value = 0, length = sizeof(value);
	int released;

	open_both(info, &objects);
	OK(fi_getopt(&b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &length));
	EQUAL(value, LEAST);
	for (size = 1; size <= LEAST; size *= 4) {
		OK(fi_recvmsg(b.ep, &msg, FI_MULTI_RECV));
		for (used = 0, released = 0; !released;) {
			CHECK(used + LEAST <= ROOM);
			fill(out, size, used);
			PUT(fi_send(a.ep, out, size, NULL, a.peer, &context[1]));
			COMPLETES(&b, &entry);
			DONE(&a, &context[1], FI_MSG | FI_SEND);
			CHECK(entry.op_context == &context[0]);
			EQUAL(entry.len, size);
			CHECK((unsigned char *) entry.buf >= in + used);
			CHECK_FILL(entry.buf, size, used);
			used = (size_t) ((unsigned char *) entry.buf - in) + size;
			if (used + LEAST <= ROOM) {
				CHECK(!(entry.flags & FI_MULTI_RECV));
			} else if (!(entry.flags & FI_MULTI_RECV)) {
				COMPLETES(&b, &entry);
				EQUAL(entry.len, 0);
				CHECK(entry.flags & FI_MULTI_RECV);
			}
			released = !!(entry.flags & FI_MULTI_RECV);
		}
		SILENT();
	}
	close_both();
	fi_freeinfo(info);
}

/* What is not flagged is counted and not reported; what is injected never is. */
static void selective(void)
{
	const struct objects objects = { .format = FI_CQ_FORMAT_TAGGED,
					 .cq_flags = FI_SELECTIVE_COMPLETION,
					 .cntr_flags = FI_SEND | FI_RECV };
	struct fi_info *info = message_info(FI_AV_TABLE);
	struct iovec iov = { out, 100 };
	struct fi_msg_tagged msg = { .msg_iov = &iov, .iov_count = 1, .tag = 1,
				     .context = &context[1] };
	int i;

	open_both(info, &objects);
	msg.addr = a.peer;
	for (i = 0; i < 6; i++)
		PUT(fi_trecv(b.ep, in, 100, NULL, FI_ADDR_UNSPEC, 1, 0, &context[0]));
	PUT(fi_tsend(a.ep, out, 100, NULL, a.peer, 1, &context[1]));
	PUT(fi_tsendmsg(a.ep, &msg, 0));
	PUT(fi_tinject(a.ep, out, 100, a.peer, 1));
	PUT(fi_tinjectdata(a.ep, out, 100, 5, a.peer, 1));
	PUT(fi_tsendmsg(a.ep, &msg, FI_INJECT));
	COUNTED(a.cntr, 5);
	COUNTED(b.cntr, 5);
	SILENT();
	PUT(fi_tsendmsg(a.ep, &msg, FI_COMPLETION));
	DONE(&a, &context[1], FI_TAGGED | FI_SEND);
	COUNTED(a.cntr, 6);
	COUNTED(b.cntr, 6);
	SILENT();
	/* Errors are always reported. */
	PUT(fi_trecv(b.ep, in, 100, NULL, FI_ADDR_UNSPEC, 1, 0, &context[2]));
	OK(fi_cancel(&b.ep->fid, &context[2]));
	{
		struct fi_cq_err_entry err = { .err_data_size = 0 };

		FAILS(&b, &context[2], FI_ECANCELED, &err);
	}
	close_both();
	fi_freeinfo(info);
}

/* Keys of the application have all 64 bits, and are free again when the region is closed. */
static void keys(void)
{
	static const uint64_t wanted[] = { 0, 1, UINT32_MAX, 1ull << 63, UINT64_MAX - 1 };
	const struct objects objects = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_info *hints = rdm_hints(FI_RMA), *info;
	struct fid_mr *mr;
	size_t i, k;

	info = ask(FI_VERSION(1, 18), hints);
	EQUAL(info->domain_attr->mr_mode, 0);
	EQUAL(info->domain_attr->mr_key_size, 8);
	open_both(info, &objects);
	for (i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		for (k = 0; k < 50; k++) {
			OK(fi_mr_reg(b.domain, in + k, 1000, FI_REMOTE_WRITE, 0, wanted[i], 0,
				     &mr, NULL));
			EQUAL(fi_mr_key(mr), wanted[i]);
			fill(out, 10, k);
			/* By offset. */
			PUT(fi_write(a.ep, out, 10, NULL, a.peer, 990, wanted[i], &context[0]));
			DONE(&a, &context[0], FI_RMA | FI_WRITE);
			CHECK_FILL(in + k + 990, 10, k);
			OK(fi_close(&mr->fid));
		}
	}
	close_both();
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

/* Operations and datatypes that there are not: no query and no call takes them. */
static void unknown_atomics(void)
{
	static const int outside[] = { -1, 20, 32, 255, 256, 257, 65536, INT32_MAX };
	const struct objects objects = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_info *hints = rdm_hints(FI_RMA | FI_ATOMIC), *info;
	uint64_t value = 1, compare = 1, old = 1;
	struct fid_mr *mr;
	size_t i, k;

	info = ask(FI_VERSION(1, 18), hints);
	open_both(info, &objects);
	CHECK(query_atomics(a.ep, 32, 32) > 0);
	OK(fi_mr_reg(b.domain, in, sizeof(in), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0, &mr,
		     NULL));
	memset(in, 0x11, 64);
	for (i = 0; i < 8; i++) {
		for (k = 0; k < 8; k++) {
			const enum fi_op op = (enum fi_op) outside[i];
			const enum fi_datatype type = k ? (enum fi_datatype) outside[k] : FI_UINT64;
			ssize_t ret;

			ret = fi_atomic(a.ep, &value, 1, NULL, a.peer, 0, 1, type, op, NULL);
			CHECK(ret == -FI_EOPNOTSUPP || ret == -FI_EINVAL);
			ret = fi_inject_atomic(a.ep, &value, 1, a.peer, 0, 1, type, op);
			CHECK(ret == -FI_EOPNOTSUPP || ret == -FI_EINVAL);
			ret = fi_fetch_atomic(a.ep, &value, 1, NULL, &old, NULL, a.peer, 0, 1,
					      type, op, NULL);
			CHECK(ret == -FI_EOPNOTSUPP || ret == -FI_EINVAL);
			ret = fi_compare_atomic(a.ep, &value, 1, NULL, &compare, NULL, &old, NULL,
						a.peer, 0, 1, type, op, NULL);
			CHECK(ret == -FI_EOPNOTSUPP || ret == -FI_EINVAL);
		}
	}
	SILENT();
	EQUAL(in[0], 0x11);
	OK(fi_close(&mr->fid));
	close_both();
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

/* Progress is made by reading the queue and by nothing else, and a full one says so cheaply. */
static void storm(void)
{
	const struct objects objects = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_info *info = message_info(FI_AV_TABLE);
	struct fi_cq_tagged_entry entry;
	size_t sent = 0, got = 0, refused = 0;

	open_both(info, &objects);
	while (got < 20000) {
		const ssize_t ret = fi_inject(a.ep, &sent, sizeof(sent), a.peer);

		if (ret == 0) {
			sent++;
			continue;
		}
		EQUAL(ret, -FI_EAGAIN);
		refused++;
		drive();
		while (got < sent) {
			size_t value;

			OK(fi_recv(b.ep, &value, sizeof(value), NULL, FI_ADDR_UNSPEC, NULL));
			while (fi_cq_read(b.cq, &entry, 1) == -FI_EAGAIN)
				drive();
			EQUAL(value, got);
			got++;
		}
	}
	CHECK(refused > 0);
	close_both();
	fi_freeinfo(info);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	alarm(DEADLINE);
	if (!strcmp(what, "hidden")) {
		hidden();
		return 0;
	}
	EQUAL(strcmp(what, "odd") && strcmp(what, "all"), 0);
	versions();
	short_hints();
	echoed();
	directed(FI_AV_TABLE);
	directed(FI_AV_MAP);
	multi_receive();
	selective();
	keys();
	unknown_atomics();
	storm();
	return 0;
}
