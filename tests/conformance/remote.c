/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "remote.h"

#include "settings.h"
#include "traffic.h"

#define KEY	0x7003

uint64_t remote_address(const struct side *s, const void *buf)
{
	const int mode = s->info->domain_attr->mr_mode;
	const int virtual = mode == FI_MR_BASIC || (mode & FI_MR_VIRT_ADDR);

	return virtual ? (uint64_t) (uintptr_t) buf : 0;
}

void remote_open(struct side *s, struct remote *r)
{
	r->mr = side_register(s, s->in, ARENA, REMOTE_ACCESS, KEY);
	r->near = (struct region) { remote_address(s, s->in), fi_mr_key(r->mr) };
	r->far = swap_regions(s, r->mr, s->in);
}

void remote_close(struct side *s, struct remote *r)
{
	barrier(s);
	OK(fi_close(&r->mr->fid));
}

uint64_t carried_data(const struct side *s, uint64_t data)
{
	const size_t size = s->info->domain_attr->cq_data_size;

	return size >= sizeof(data) ? data : data & ((1ull << 8 * size) - 1);
}

int takes_receives(const struct side *s)
{
	return !!((s->info->mode | s->info->rx_attr->mode) & FI_RX_CQ_DATA);
}

void await_filled_at(const char *at, struct side *s, const void *buf, size_t len, size_t seed)
{
	const volatile unsigned char *bytes = buf;
	double late = 0;

	for (size_t i = 0; i < len; i++)
		while (bytes[i] != pattern(seed, i)) {
			progress(s);
			late_at(at, &late, "what the other side writes");
		}
}

ssize_t write_with(struct side *s, const void *buf, size_t len, uint64_t addr, uint64_t key,
		   uint64_t flags, uint64_t data, void *context)
{
	struct iovec iov = { (void *) (uintptr_t) buf, len };
	struct fi_rma_iov piece = { addr, len, key };
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .desc = &s->out_desc, .iov_count = 1, .addr = s->peer,
		.rma_iov = &piece, .rma_iov_count = 1, .context = context, .data = data,
	};

	return fi_writemsg(s->ep, &msg, flags);
}

ssize_t read_with(struct side *s, void *buf, size_t len, uint64_t addr, uint64_t key,
		  uint64_t flags, void *context)
{
	struct iovec iov = { buf, len };
	struct fi_rma_iov piece = { addr, len, key };
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .desc = &s->in_desc, .iov_count = 1, .addr = s->peer,
		.rma_iov = &piece, .rma_iov_count = 1, .context = context,
	};

	return fi_readmsg(s->ep, &msg, flags);
}

int looks_by_itself(const struct side *s)
{
	(void) s;
	return !!(settings.mr_mode & FI_MR_ALLOCATED);
}

int ends_with_errors(const struct side *s)
{
	return s->type == FI_EP_MSG && looks_by_itself(s);
}

int refusal(int reason)
{
	return reason == FI_ENOKEY || reason == FI_EACCES || reason == FI_EINVAL;
}

void refusal_at(const char *at, struct side *s, int reason, void *context,
		struct fi_cq_err_entry *err)
{
	struct done done;

	if (!looks_by_itself(s)) {
		error_at(at, s, s->tx, reason, context, err);
		return;
	}
	equal_at(at, "a success", outcome_at(at, s, s->tx, &done, err), 0);
	if (err->op_context != context || !refusal(err->err))
		fail_at(at, "error %d (%s) of %p, expected a refusal of %p", err->err,
			fi_strerror(err->err), err->op_context, context);
}

void refused_at(const char *at, struct side *s, int reason, uint64_t kind, void *context)
{
	struct fi_cq_err_entry err;

	if (kind & FI_RMA)
		refusal_at(at, s, reason, context, &err);
	else
		error_at(at, s, s->tx, reason, context, &err);
	if ((err.flags & kind) != kind)
		fail_at(at, "flags of an error are 0x%" PRIx64 ", expected 0x%" PRIx64, err.flags,
			kind);
	quiet_at(at, s, s->tx);
}

struct fid_cntr *open_counter(struct side *s, enum fi_wait_obj wait)
{
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP, .wait_obj = wait };
	struct fid_cntr *cntr = NULL;

	OK(fi_cntr_open(s->domain, &attr, &cntr, NULL));
	EQUAL(fi_cntr_read(cntr), 0);
	EQUAL(fi_cntr_readerr(cntr), 0);
	return cntr;
}
