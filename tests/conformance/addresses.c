/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Names of endpoints and address vectors, without any traffic. Both sides do the same. */
#include "groups.h"

#define ROOM	256

/* Bytes of an address in a packed array. */
static size_t stride(const struct side *s, const void *address, size_t len)
{
	return s->info->addr_format == FI_ADDR_STR ? strlen(address) + 1 : len;
}

/* Two addresses one behind the other: the own one and the other side's. */
static size_t two(struct side *s, char *array, char *mine, char *theirs)
{
	const size_t len = side_name(s, mine, ROOM);
	size_t first, second;

	swap(s, mine, theirs, ROOM);
	first = stride(s, mine, len);
	second = stride(s, theirs, len);
	CHECK(first + second <= 2 * ROOM);
	memcpy(array, mine, first);
	memcpy(array + first, theirs, second);
	return len;
}

static struct fid_av *another(struct side *s, uint64_t flags)
{
	struct fi_av_attr attr = { .type = s->wish.av_type, .flags = flags };
	struct fid_av *av;

	OK(fi_av_open(s->domain, &attr, &av, NULL));
	return av;
}

static int same_address(struct side *s, struct fid_av *av, fi_addr_t at, const char *name, size_t len)
{
	char found[ROOM] = "";
	size_t size = sizeof(found);

	OK(fi_av_lookup(av, at, found, &size));
	CHECK(size <= sizeof(found));
	return !memcmp(found, name, stride(s, name, len));
}

static void name(struct side *s)
{
	char whole[ROOM] = "", part[ROOM];
	size_t len = side_name(s, whole, ROOM), size = 0;

	for (size_t room = 0; room < len; room++) {
		size = room;
		memset(part, 0xee, sizeof(part));
		EQUAL(fi_getname(&s->ep->fid, part, &size), -FI_ETOOSMALL);
		EQUAL(size, len);
		CHECK(!memcmp(part, whole, room));
		EQUAL((unsigned char) part[room], 0xee);
	}
	size = len;
	OK(fi_getname(&s->ep->fid, part, &size));
	EQUAL(size, len);
	CHECK(!memcmp(part, whole, len));
	EQUAL((unsigned char) part[len], 0xee);
}

static void no_peer(struct side *s)
{
	char part[ROOM];
	size_t size = sizeof(part);
	int ret = fi_getpeer(s->ep, part, &size);

	CHECK(ret == -FI_ENOSYS || ret == -FI_EOPNOTSUPP || ret == -FI_ENOTCONN);
}

static void insert_many(struct side *s)
{
	char array[2 * ROOM], mine[ROOM] = "", theirs[ROOM] = "";
	struct fid_av *av = another(s, 0);
	const size_t len = two(s, array, mine, theirs);
	fi_addr_t at[3] = { 5, 5, 5 };

	EQUAL(fi_av_insert(av, array, 2, at, 0, NULL), 2);
	CHECK(at[0] != at[1] && at[2] == 5);
	if (s->wish.av_type == FI_AV_TABLE)
		CHECK(at[0] == 0 && at[1] == 1);
	CHECK(same_address(s, av, at[0], mine, len));
	CHECK(same_address(s, av, at[1], theirs, len));
	EQUAL(fi_av_insert(av, array, 0, at, 0, NULL), 0);
	OK(fi_av_remove(av, at, 2, 0));
	OK(fi_close(&av->fid));
}

static void no_output(struct side *s)
{
	char array[2 * ROOM], mine[ROOM] = "", theirs[ROOM] = "";
	struct fid_av *av = another(s, 0);
	const size_t len = two(s, array, mine, theirs);

	if (s->wish.av_type == FI_AV_TABLE) {
		EQUAL(fi_av_insert(av, array, 2, NULL, 0, NULL), 2);
		CHECK(same_address(s, av, 0, mine, len));
		CHECK(same_address(s, av, 1, theirs, len));
	}
	OK(fi_close(&av->fid));
}

static void more(struct side *s)
{
	char mine[ROOM] = "";
	const size_t len = side_name(s, mine, ROOM);
	struct fid_av *av = another(s, 0);
	fi_addr_t at = FI_ADDR_UNSPEC;

	EQUAL(fi_av_insert(av, mine, 1, &at, FI_MORE, NULL), 1);
	CHECK(same_address(s, av, at, mine, len));
	OK(fi_close(&av->fid));
}

/* Bytes behind the address, whatever they are, are not part of it. */
static void dirty(struct side *s)
{
	char mine[ROOM] = "", padded[2 * ROOM], found[ROOM];
	const size_t len = side_name(s, mine, ROOM), own = stride(s, mine, len);
	struct fid_av *av = another(s, 0);
	fi_addr_t at = FI_ADDR_UNSPEC;
	size_t size = sizeof(found);

	memset(padded, 0xa5, sizeof(padded));
	memcpy(padded, mine, own);
	EQUAL(fi_av_insert(av, padded, 1, &at, 0, NULL), 1);
	CHECK(same_address(s, av, at, mine, len));
	OK(fi_av_lookup(av, at, found, &size));
	CHECK(size <= len || size == own);
	OK(fi_close(&av->fid));
}

/* An address that is none: only texts can be told to be none, so for others this is empty. */
static void bad_among_good(struct side *s)
{
	char mine[ROOM] = "", other[ROOM] = "";
	const size_t len = side_name(s, mine, ROOM);
	struct fid_av *av = another(s, 0);
	fi_addr_t at[3] = { 5, 5, 5 };
	int errors[3] = { 7, 7, 7 };

	swap(s, mine, other, ROOM);
	if (s->info->addr_format == FI_ADDR_STR) {
		/* Each text behind the other, as the array is packed. */
		char array[2 * ROOM + 8];
		size_t used = 0;

		memcpy(array, mine, strlen(mine) + 1);
		used += strlen(mine) + 1;
		array[used++] = 0;
		memcpy(array + used, other, strlen(other) + 1);
		EQUAL(fi_av_insert(av, array, 3, at, FI_SYNC_ERR, errors), 2);
		EQUAL(at[1], FI_ADDR_NOTAVAIL);
		CHECK(errors[0] == 0 && errors[1] > 0 && errors[2] == 0);
		CHECK(same_address(s, av, at[0], mine, len));
		CHECK(same_address(s, av, at[2], other, len));
	}
	OK(fi_close(&av->fid));
}

static void lookup(struct side *s)
{
	char whole[ROOM], part[ROOM];
	size_t len = sizeof(whole), size;

	OK(fi_av_lookup(s->av, s->peer, whole, &len));
	CHECK(len > 0 && len <= sizeof(whole));
	for (size_t room = 0; room <= len; room++) {
		size = room;
		memset(part, 0xee, sizeof(part));
		OK(fi_av_lookup(s->av, s->peer, part, &size));
		EQUAL(size, len);
		CHECK(!memcmp(part, whole, room));
		EQUAL((unsigned char) part[room], 0xee);
	}
	size = sizeof(part);
	EQUAL(fi_av_lookup(s->av, 4711, part, &size), -FI_EINVAL);
	EQUAL(fi_av_lookup(s->av, FI_ADDR_UNSPEC, part, &size), -FI_EINVAL);
}

static void as_text(struct side *s)
{
	char mine[ROOM] = "", whole[ROOM], part[ROOM];
	size_t len = sizeof(whole), size;

	side_name(s, mine, ROOM);
	CHECK(fi_av_straddr(s->av, mine, whole, &len) == whole);
	CHECK(len > 1 && len <= sizeof(whole));
	EQUAL(strlen(whole) + 1, len);
	for (size_t room = 1; room <= len; room++) {
		size = room;
		memset(part, 0xee, sizeof(part));
		fi_av_straddr(s->av, mine, part, &size);
		EQUAL(size, len);
		EQUAL(part[room - 1], 0);
		CHECK(!strncmp(part, whole, room - 1));
		EQUAL((unsigned char) part[room], 0xee);
	}
	size = 0;
	memset(part, 0xee, sizeof(part));
	fi_av_straddr(s->av, mine, part, &size);
	EQUAL(size, len);
	EQUAL((unsigned char) part[0], 0xee);
}

static void removal(struct side *s)
{
	char mine[ROOM] = "", array[2 * ROOM], theirs[ROOM] = "", found[ROOM];
	struct fid_av *av = another(s, 0);
	const size_t len = two(s, array, mine, theirs);
	fi_addr_t at[2], again = FI_ADDR_UNSPEC;
	size_t size = sizeof(found);

	for (int round = 0; round < 3; round++) {
		EQUAL(fi_av_insert(av, array, 2, at, 0, NULL), 2);
		OK(fi_av_remove(av, &at[0], 1, 0));
		EQUAL(fi_av_lookup(av, at[0], found, &size), -FI_EINVAL);
		EQUAL(fi_av_remove(av, &at[0], 1, 0), -FI_EINVAL);
		CHECK(same_address(s, av, at[1], theirs, len));
		EQUAL(fi_av_insert(av, mine, 1, &again, 0, NULL), 1);
		/* The lowest free place, so that tables stay dense. */
		if (s->wish.av_type == FI_AV_TABLE)
			EQUAL(again, at[0]);
		CHECK(same_address(s, av, again, mine, len));
		OK(fi_av_remove(av, &again, 1, 0));
		OK(fi_av_remove(av, &at[1], 1, 0));
	}
	at[0] = 99999;
	EQUAL(fi_av_remove(av, at, 1, 0), -FI_EINVAL);
	OK(fi_close(&av->fid));
}

/* Either call makes a name of the provider's kind, or says that it cannot. */
static void services(struct side *s)
{
	struct fid_av *av = another(s, 0);
	fi_addr_t at[6];
	char found[ROOM];
	size_t size;
	int ret;

	for (int i = 0; i < 6; i++)
		at[i] = 5;
	ret = fi_av_insertsvc(av, "127.0.0.1", "7471", at, 0, NULL);
	CHECK(ret == 1 || ret == -FI_ENOSYS || ret == -FI_EINVAL || ret == -FI_EADDRNOTAVAIL);
	if (ret == 1) {
		size = sizeof(found);
		OK(fi_av_lookup(av, at[0], found, &size));
		EQUAL(at[1], 5);
		OK(fi_av_remove(av, at, 1, 0));
	}
	ret = fi_av_insertsym(av, "127.0.0.1", 2, "7471", 3, at, 0, NULL);
	CHECK(ret == 6 || ret == -FI_ENOSYS || ret == -FI_EINVAL);
	for (int i = 0; i < ret; i++) {
		size = sizeof(found);
		OK(fi_av_lookup(av, at[i], found, &size));
		for (int k = 0; k < i; k++)
			CHECK(at[k] != at[i]);
	}
	EQUAL(fi_av_insertsvc(av, NULL, NULL, at, 0, NULL) < 0, 1);
	OK(fi_close(&av->fid));
}

static void refusals(struct side *s)
{
	struct fi_av_attr attr = { .type = (enum fi_av_type) 77 };
	char mine[ROOM] = "";
	struct fid_av *av = NULL;
	fi_addr_t at = 5;

	side_name(s, mine, ROOM);
	EQUAL(fi_av_open(s->domain, &attr, &av, NULL), -FI_EINVAL);
	attr = (struct fi_av_attr) { .type = s->wish.av_type, .name = (char *) "conformance" };
	EQUAL(fi_av_open(s->domain, &attr, &av, NULL) < 0, 1);
	EQUAL(fi_av_open(s->domain, NULL, &av, NULL), -FI_EINVAL);
	EQUAL(fi_av_insert(s->av, NULL, 1, &at, 0, NULL), -FI_EINVAL);
	EQUAL(fi_av_insert(s->av, mine, 1, &at, FI_SYNC_ERR, NULL), -FI_EINVAL);
	EQUAL(fi_av_insert(s->av, mine, 1, &at, FI_PEEK, NULL) < 0, 1);
	EQUAL(fi_close(&s->av->fid), -FI_EBUSY);
	EQUAL(at, 5);
}

/* The kind that the vector has is written where the program left it open. */
static void unspecified(struct side *s)
{
	struct fi_av_attr attr = { .type = FI_AV_UNSPEC, .count = 1000 };
	struct fid_av *av;

	OK(fi_av_open(s->domain, &attr, &av, NULL));
	CHECK(attr.type == FI_AV_MAP || attr.type == FI_AV_TABLE);
	OK(fi_close(&av->fid));
}

static const struct conformance_case addresses_cases[] = {
	{ "name", "fi_cm(3)", "fi_getname tells the whole length; with less room it cuts, says -FI_ETOOSMALL and writes no further.",
	  FI_MSG, EP_ANY, 0, 0, NULL, name },
	{ "no-peer", "fi_cm(3)", "An endpoint without connections has no peer to name.",
	  FI_MSG, EP_NAMED, 0, 0, NULL, no_peer },
	{ "insert-many", "fi_av(3)", "A packed array is inserted in order; tables count from zero.",
	  FI_MSG, EP_NAMED, VARY_AV, 0, NULL, insert_many },
	{ "no-output", "fi_av(3)", "Tables need no array for the handles.",
	  FI_MSG, EP_NAMED, VARY_AV, 0, NULL, no_output },
	{ "more", "fi_av(3)", "FI_MORE announces further insertions and changes nothing of this one.",
	  FI_MSG, EP_NAMED, 0, 0, NULL, more },
	{ "dirty", "fi_av(3)", "What lies behind an address does not belong to it.",
	  FI_MSG, EP_NAMED, VARY_AV, 0, NULL, dirty },
	{ "bad-among-good", "fi_av(3)", "An address that is none gets FI_ADDR_NOTAVAIL and, with FI_SYNC_ERR, a reason; the others are inserted.",
	  FI_MSG, EP_NAMED, VARY_AV, 0, NULL, bad_among_good },
	{ "lookup", "fi_av(3)", "fi_av_lookup tells the whole length and cuts the address to the room; unknown handles are -FI_EINVAL.",
	  FI_MSG, EP_NAMED, VARY_AV, 0, NULL, lookup },
	{ "as-text", "fi_av(3)", "fi_av_straddr tells the whole length, and ends the text within the room.",
	  FI_MSG, EP_NAMED, 0, 0, NULL, as_text },
	{ "removal", "fi_av(3)", "A removed handle is -FI_EINVAL until it is given out again.",
	  FI_MSG, EP_NAMED, VARY_AV, 0, NULL, removal },
	{ "services", "fi_av(3)", "Nodes and services become addresses where the provider knows such, and are refused elsewhere.",
	  FI_MSG, EP_NAMED, VARY_AV, 0, NULL, services },
	{ "refusals", "fi_av(3)", "Unknown kinds and flags, missing arrays and closing while in use are refused.",
	  FI_MSG, EP_NAMED, VARY_AV, 0, NULL, refusals },
	{ "unspecified", "fi_av(3)", "Opening a vector of no particular kind tells which kind it is.",
	  FI_MSG, EP_NAMED, 0, 0, NULL, unspecified },
};
GROUP(addresses);
