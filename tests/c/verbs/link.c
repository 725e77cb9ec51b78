/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A link that goes down under large messages and comes up again: every operation ends once, and the
 * endpoints go on.
 *
 * link PROVIDER ADDRESS ADDRESS NETDEV: processes at two addresses; the first one turns its netdev off.
 */
#define PROVIDER	provider
#define NODE		nodes[role]
#define CAPS		(FI_MSG | FI_TAGGED)
static const char *provider, *nodes[2];
#include "../pair.h"

#define LENGTH		300000
#define PATIENCE	400
enum { BEFORE = 4, UNDER_WAY = 4, TRIES = 60 };

static unsigned char *buffer;

static void link_is(const char *netdev, const char *state)
{
	char command[128];

	snprintf(command, sizeof(command), "ip link set %s %s", netdev, state);
	EQUAL(system(command), 0);
}

/* How the next operation of a queue ends: 0, or an error. Each is to end once. */
static int ends(struct node *n, struct fid_cq *cq, unsigned *pending)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry err = { 0 };
	uintptr_t which;
	ssize_t got;

	while ((got = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN)
		sched_yield(), fi_cq_read(cq == n->tx ? n->rx : n->tx, NULL, 0);
	if (got == -FI_EAVAIL)
		EQUAL(fi_cq_readerr(cq, &err, 0), 1);
	else
		EQUAL(got, 1);
	which = (uintptr_t) (got == 1 ? entry.op_context : err.op_context);
	CHECK(which < 32 && *pending & 1u << which);
	*pending &= ~(1u << which);
	return got == 1 ? 0 : err.err;
}

static void sends(struct node *n, size_t at)
{
	fill(buffer, LENGTH, at);
	POST(n, fi_tsend(n->ep, buffer, LENGTH, NULL, n->peer, 1, (void *) at));
}

static void sender(struct node *n, const char *netdev)
{
	unsigned pending = 0;
	int failed = 0, tries = 0;

	for (size_t i = 0; i < BEFORE; i++) {
		pending = 1u << i;
		sends(n, i);
		EQUAL(ends(n, n->tx, &pending), 0);
	}
	link_is(netdev, "down");
	for (size_t i = 0; i < UNDER_WAY; i++) {
		pending |= 1u << i;
		POST(n, fi_tsend(n->ep, buffer, LENGTH, NULL, n->peer, 2, (void *) i));
	}
	while (pending)
		failed += !!ends(n, n->tx, &pending);
	printf("%d of %d ended with an error while the link was down\n", failed, UNDER_WAY);
	CHECK(failed > 0);
	QUIET(n, n->tx);
	link_is(netdev, "up");
	do {
		const struct timespec moment = { .tv_sec = 1 };

		CHECK(++tries < TRIES);
		nanosleep(&moment, NULL);
		pending = 1u << 9;
		sends(n, 9);
	} while (ends(n, n->tx, &pending));
	printf("it goes on, at attempt %d\n", tries);
}

/* Takes what comes, until the message with another content. */
static void receiver(struct node *n)
{
	unsigned pending = 0;
	size_t good = 0;

	for (;;) {
		pending |= 1;
		memset(buffer, 0, LENGTH);
		POST(n, fi_trecv(n->ep, buffer, LENGTH, NULL, FI_ADDR_UNSPEC, 1, 0, (void *) 0));
		/* Of a message that has begun, the receive may end with its connection. */
		if (ends(n, n->rx, &pending))
			continue;
		if (buffer[0] == pattern(9, 0)) {
			check_fill_at(__FILE__, __LINE__, buffer, LENGTH, 9);
			EQUAL(good, BEFORE);
			return;
		}
		check_fill_at(__FILE__, __LINE__, buffer, LENGTH, good++);
	}
}

int main(int argc, char **argv)
{
	const struct wish wish = { .mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY };
	struct node node = { 0 };

	CHECK(argc == 5);
	provider = argv[1];
	nodes[0] = argv[2];
	nodes[1] = argv[3];
	split();
	alarm(PATIENCE);
	buffer = malloc(LENGTH);
	CHECK(buffer);
	open_node(&node, &wish);
	connect_node(&node);
	if (role == 0)
		sender(&node, argv[4]);
	else
		receiver(&node);
	barrier(&node);
	close_node(&node);
	free(buffer);
	return join();
}
