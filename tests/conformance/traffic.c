/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "traffic.h"

const size_t sizes[] = {
	0, 1, 7, 8, 63, 64, 65, 1000, 4095, 4096, 4097, 16383, 16384, 16385, 65535, 65536, 65537,
	100001, (size_t) 1 << 20, ARENA,
};
const size_t size_count = sizeof(sizes) / sizeof(sizes[0]);

void messages_wait(const struct side *s)
{
	if (s->info->domain_attr->resource_mgmt == FI_RM_DISABLED)
		not_offered();
}

size_t usable_sizes(const struct side *s)
{
	size_t count = 0;

	while (count < size_count && sizes[count] <= s->largest)
		count++;
	return count;
}

uint64_t tag_of(const struct side *s, uint64_t tag)
{
	/* Leading zeros are bits that the provider keeps to itself. */
	const uint64_t format = s->info->ep_attr->mem_tag_format;

	return format ? tag & (~0ull >> __builtin_clzll(format)) : tag;
}

uint64_t carried(const struct side *s, uint64_t data)
{
	const size_t size = s->info->domain_attr->cq_data_size;

	return size >= sizeof(data) ? data : data & ((1ull << 8 * size) - 1);
}

size_t cut_vector(struct side *s, size_t piece, struct iovec *iov, void **desc)
{
	const size_t limit = s->role ? s->info->rx_attr->iov_limit : s->info->tx_attr->iov_limit;
	unsigned char *base = s->role ? s->in : s->out;

	CHECK(limit >= 1 && limit < PIECES);
	for (size_t i = 0; i <= limit; i++) {
		iov[i] = (struct iovec) { base + i * (piece + 1), piece };
		desc[i] = s->role ? s->in_desc : s->out_desc;
	}
	return limit;
}

ssize_t receive_tagged(struct side *s, void *buf, size_t len, fi_addr_t source, uint64_t tag,
		       uint64_t ignore, void *context, uint64_t flags)
{
	struct iovec iov = { buf, len };
	struct fi_msg_tagged msg = {
		.msg_iov = &iov, .desc = &s->in_desc, .iov_count = 1, .addr = source, .tag = tag,
		.ignore = ignore, .context = context,
	};

	return fi_trecvmsg(s->ep, &msg, flags);
}

ssize_t receive_untagged(struct side *s, void *buf, size_t len, fi_addr_t source, void *context,
			 uint64_t flags)
{
	struct iovec iov = { buf, len };
	struct fi_msg msg = {
		.msg_iov = &iov, .desc = &s->in_desc, .iov_count = 1, .addr = source,
		.context = context,
	};

	return fi_recvmsg(s->ep, &msg, flags);
}

ssize_t send_tagged(struct side *s, const void *buf, size_t len, uint64_t tag, uint64_t data,
		    void *context, uint64_t flags)
{
	struct iovec iov = { (void *) (uintptr_t) buf, len };
	struct fi_msg_tagged msg = {
		.msg_iov = &iov, .desc = &s->out_desc, .iov_count = 1, .addr = s->peer, .tag = tag,
		.context = context, .data = data,
	};

	return fi_tsendmsg(s->ep, &msg, flags);
}

ssize_t send_untagged(struct side *s, const void *buf, size_t len, uint64_t data, void *context,
		      uint64_t flags)
{
	struct iovec iov = { (void *) (uintptr_t) buf, len };
	struct fi_msg msg = {
		.msg_iov = &iov, .desc = &s->out_desc, .iov_count = 1, .addr = s->peer,
		.context = context, .data = data,
	};

	return fi_sendmsg(s->ep, &msg, flags);
}

int outcome_at(const char *at, struct side *s, struct fid_cq *cq, struct done *done,
	       struct fi_cq_err_entry *err)
{
	struct fi_cq_tagged_entry entry = { 0 };
	double late = 0;
	ssize_t got;

	*done = (struct done) { .source = FI_ADDR_NOTAVAIL };
	while ((got = fi_cq_readfrom(cq, &entry, 1, &done->source)) == -FI_EAGAIN) {
		progress(s);
		late_at(at, &late, "a completion");
	}
	if (got == -FI_EAVAIL) {
		memset(err, 0, sizeof(*err));
		equal_at(at, "fi_cq_readerr", fi_cq_readerr(cq, err, 0), 1);
		return 0;
	}
	equal_at(at, "fi_cq_readfrom", got, 1);
	done->context = entry.op_context;
	done->flags = entry.flags;
	done->len = entry.len;
	done->buf = entry.buf;
	done->data = entry.data;
	done->tag = entry.tag;
	return 1;
}
