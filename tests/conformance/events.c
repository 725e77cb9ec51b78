/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Event queues. Both sides do the same, each on its own. */
#include "groups.h"

static struct fid_eq *open_events(struct side *s, enum fi_wait_obj wait)
{
	struct fi_eq_attr attr = { .flags = FI_WRITE, .wait_obj = wait };
	struct fid_eq *eq;

	OK(fi_eq_open(s->fabric, &attr, &eq, s));
	CHECK(eq->fid.context == s);
	return eq;
}

static void only_domain(struct side *s)
{
	side_info(s);
	OK(fi_fabric(s->info->fabric_attr, &s->fabric, NULL));
	OK(fi_domain(s->fabric, s->info, &s->domain, NULL));
}

static void write_event(struct side *s, struct fid_eq *eq, uint64_t number)
{
	const struct fi_eq_entry entry = { .fid = &s->domain->fid, .context = s, .data = number };

	EQUAL(fi_eq_write(eq, FI_NOTIFY, &entry, sizeof(entry), 0), sizeof(entry));
}

static void check_event(struct side *s, struct fid_eq *eq, uint64_t number, uint64_t flags)
{
	struct { struct fi_eq_entry entry; unsigned char behind[64]; } room;
	uint32_t event = 77;

	memset(&room, 0xde, sizeof(room));
	EQUAL(fi_eq_read(eq, &event, &room, sizeof(room), flags), sizeof(room.entry));
	EQUAL(event, FI_NOTIFY);
	CHECK(room.entry.fid == &s->domain->fid && room.entry.context == s);
	EQUAL(room.entry.data, number);
	for (size_t i = 0; i < sizeof(room.behind); i++)
		EQUAL(room.behind[i], 0xde);
}

static void check_empty(struct fid_eq *eq)
{
	struct fi_eq_err_entry err = { 0 };
	struct fi_eq_entry entry;
	uint32_t event = 77;

	EQUAL(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
	EQUAL(fi_eq_read(eq, &event, &entry, sizeof(entry), FI_PEEK), -FI_EAGAIN);
	EQUAL(fi_eq_readerr(eq, &err, 0), -FI_EAGAIN);
	EQUAL(event, 77);
}

static void written(struct side *s)
{
	enum { COUNT = 100 };
	struct fid_eq *eq;

	only_domain(s);
	eq = open_events(s, FI_WAIT_NONE);
	check_empty(eq);
	for (uint64_t i = 0; i < COUNT; i++)
		write_event(s, eq, i);
	for (uint64_t i = 0; i < COUNT; i++) {
		check_event(s, eq, i, FI_PEEK);
		check_event(s, eq, i, FI_PEEK);
		check_event(s, eq, i, 0);
	}
	check_empty(eq);
	/* What is still in it goes with it. */
	write_event(s, eq, 1);
	OK(fi_close(&eq->fid));
	side_close(s);
}

static void deadline(struct side *s)
{
	static const enum fi_wait_obj kinds[] = { FI_WAIT_UNSPEC, FI_WAIT_FD };
	struct fi_eq_entry entry;
	uint32_t event;

	only_domain(s);
	for (size_t i = 0; i < 2; i++) {
		struct fid_eq *eq = open_events(s, kinds[i]);
		double before = now();

		EQUAL(fi_eq_sread(eq, &event, &entry, sizeof(entry), 50, 0), -FI_EAGAIN);
		CHECK(now() - before > 0.045 && now() - before < 5);
		before = now();
		EQUAL(fi_eq_sread(eq, &event, &entry, sizeof(entry), 0, 0), -FI_EAGAIN);
		CHECK(now() - before < 5);
		write_event(s, eq, 3);
		EQUAL(fi_eq_sread(eq, &event, &entry, sizeof(entry), 20000, FI_PEEK), sizeof(entry));
		EQUAL(fi_eq_sread(eq, &event, &entry, sizeof(entry), -1, 0), sizeof(entry));
		EQUAL(entry.data, 3);
		CHECK(now() - before < 5);
		check_empty(eq);
		OK(fi_close(&eq->fid));
	}
	side_close(s);
}

static void no_sleep(struct side *s)
{
	struct fid_eq *eq;
	struct fi_eq_entry entry;
	uint32_t event;
	ssize_t ret;

	only_domain(s);
	eq = open_events(s, FI_WAIT_NONE);
	ret = fi_eq_sread(eq, &event, &entry, sizeof(entry), 10, 0);
	CHECK(ret == -FI_ENOSYS || ret == -FI_EINVAL || ret == -FI_EOPNOTSUPP);
	OK(fi_close(&eq->fid));
	side_close(s);
}

static void attributes(struct side *s)
{
	struct fi_eq_attr attr = { .wait_obj = (enum fi_wait_obj) 77 };
	struct fid_eq *eq = NULL;
	char buf[32];

	only_domain(s);
	EQUAL(fi_eq_open(s->fabric, &attr, &eq, NULL) < 0, 1);
	attr = (struct fi_eq_attr) { .flags = FI_PEEK };
	EQUAL(fi_eq_open(s->fabric, &attr, &eq, NULL) < 0, 1);
	CHECK(!eq);
	attr = (struct fi_eq_attr) { .size = 1000 };
	OK(fi_eq_open(s->fabric, &attr, &eq, NULL));
	EQUAL(eq->fid.fclass, FI_CLASS_EQ);
	CHECK(*fi_eq_strerror(eq, FI_ECONNREFUSED, NULL, buf, sizeof(buf)));
	CHECK(memchr(buf, 0, sizeof(buf)));
	OK(fi_close(&eq->fid));
	side_close(s);
}

/* A vector that reports insertions as events: an old way, which may be refused or not taken. */
static void insertions(struct side *s)
{
	struct fi_av_attr attr = { .type = s->wish.av_type, .flags = FI_EVENT };
	struct fi_eq_entry entry = { 0 };
	char name[256] = "";
	struct fid_av *av;
	struct fid_eq *eq;
	fi_addr_t at = 5;
	uint32_t event = 77;
	double late = 0;
	ssize_t got;
	int ret;

	side_info(s);
	side_objects(s);
	OK(fi_enable(s->ep));
	side_name(s, name, sizeof(name));
	eq = open_events(s, FI_WAIT_NONE);
	ret = fi_av_open(s->domain, &attr, &av, NULL);
	if (!ret && fi_av_insert(av, name, 1, &at, 0, NULL) == 1) {
		OK(fi_close(&av->fid));
	} else if (!ret) {
		EQUAL(fi_av_insert(av, name, 1, &at, 0, NULL), -FI_ENOEQ);
		OK(fi_av_bind(av, &eq->fid, 0));
		EQUAL(fi_close(&eq->fid), -FI_EBUSY);
		OK(fi_av_insert(av, name, 1, &at, 0, &entry));
		while ((got = fi_eq_read(eq, &event, &entry, sizeof(entry), 0)) == -FI_EAGAIN)
			late_at(HERE, &late, "an event");
		EQUAL(got, sizeof(entry));
		EQUAL(event, FI_AV_COMPLETE);
		CHECK(entry.fid == &av->fid && entry.context == &entry);
		EQUAL(entry.data, 1);
		CHECK(at != 5 && at != FI_ADDR_NOTAVAIL);
		if (s->info->addr_format == FI_ADDR_STR) {
			struct fi_eq_err_entry err = { 0 };

			OK(fi_av_insert(av, "", 1, &at, 0, &err));
			EQUAL(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), -FI_EAVAIL);
			EQUAL(fi_eq_readerr(eq, &err, 0), sizeof(err));
			CHECK(err.fid == &av->fid && err.context == &err && err.err > 0);
			EQUAL(err.data, 0);
			EQUAL(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), sizeof(entry));
			EQUAL(entry.data, 0);
			EQUAL(at, FI_ADDR_NOTAVAIL);
		}
		check_empty(eq);
		OK(fi_close(&av->fid));
	}
	OK(fi_close(&eq->fid));
	side_close(s);
}

static const struct conformance_case events_cases[] = {
	{ "written", "fi_eq(3)", "Events that a program writes are read in order, with the bytes they have; FI_PEEK leaves them there.",
	  FI_MSG, EP_ANY, 0, 1, NULL, written },
	{ "deadline", "fi_eq(3)", "fi_eq_sread waits for an event, for as long as it was told and no longer.",
	  FI_MSG, EP_ANY, 0, 1, NULL, deadline },
	{ "no-sleep", "fi_eq(3)", "There is no waiting on a queue without wait object.",
	  FI_MSG, EP_ANY, 0, 1, NULL, no_sleep },
	{ "attributes", "fi_eq(3)", "Attributes outside their enumerations are refused when a queue is opened.",
	  FI_MSG, EP_ANY, 0, 1, NULL, attributes },
	{ "insertions", "fi_av(3)", "A vector with FI_EVENT, unless that is refused or ignored, reports insertions to its queue, and failures as errors.",
	  FI_MSG, EP_RDM, VARY_AV, 1, NULL, insertions },
};
GROUP(events);
