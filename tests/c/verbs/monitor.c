/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The application's own memory monitor: memory that is replaced at one address, again and again, of
 * which only the application tells.
 *
 * monitor ADDRESS: two processes; the first sends from shared memory, which the kernel does not tell
 * of, and the second must get what is there now. What stays is registered once.
 */
#define PROVIDER	"verbs;ofi_rxm"
#define NODE		node
#define CAPS		(FI_MSG | FI_TAGGED)
static const char *node;
#include "../pair.h"

#include <stdbool.h>
#include <sys/mman.h>

#include <rdma/fi_ext.h>

#define LENGTH	(1 << 20)
#define ROUNDS	20
/* Sends of each memory. */
#define SENDS	3

static int started, subscribed, unsubscribed;

static int start(struct fid_mem_monitor *monitor)
{
	(void) monitor;
	started++;
	return 0;
}

static void stop(struct fid_mem_monitor *monitor)
{
	(void) monitor;
	started--;
}

static int subscribe(struct fid_mem_monitor *monitor, const void *addr, size_t len)
{
	(void) monitor, (void) addr, (void) len;
	subscribed++;
	return 0;
}

static void unsubscribe(struct fid_mem_monitor *monitor, const void *addr, size_t len)
{
	(void) monitor, (void) addr, (void) len;
	unsubscribed++;
}

static bool valid(struct fid_mem_monitor *monitor, const void *addr, size_t len)
{
	(void) monitor, (void) addr, (void) len;
	return true;
}

static unsigned char *map(void *at)
{
	int fixed = at ? MAP_FIXED_NOREPLACE : 0;
	void *memory = mmap(at, LENGTH, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS | fixed, -1, 0);

	CHECK(memory != MAP_FAILED && (!at || memory == at));
	return memory;
}

static void sender(struct node *n, struct fid_mem_monitor *monitor)
{
	unsigned char *memory = map(NULL);

	for (size_t i = 0; i < ROUNDS; i++) {
		fill(memory, LENGTH, i);
		for (size_t j = 0; j < SENDS; j++) {
			POST(n, fi_tsend(n->ep, memory, LENGTH, NULL, n->peer, i, memory));
			FINISHED(n, n->tx, memory);
		}
		monitor->import_ops->notify(monitor, memory, LENGTH);
		EQUAL(munmap(memory, LENGTH), 0);
		map(memory);
	}
	/* Once for each memory, not once for each send. */
	EQUAL(started, 1);
	EQUAL(subscribed, ROUNDS);
}

static void receiver(struct node *n)
{
	static unsigned char buffer[LENGTH];

	for (size_t i = 0; i < ROUNDS; i++)
		for (size_t j = 0; j < SENDS; j++) {
			memset(buffer, 0, sizeof(buffer));
			POST(n, fi_trecv(n->ep, buffer, LENGTH, NULL, n->peer, i, 0, buffer));
			FINISHED(n, n->rx, buffer);
			CHECK_FILL(buffer, LENGTH, i);
		}
}

int main(int argc, char **argv)
{
	struct fi_ops_mem_monitor ops = {
		.size = sizeof(ops), .start = start, .stop = stop, .subscribe = subscribe,
		.unsubscribe = unsubscribe, .valid = valid,
	};
	struct fid_mem_monitor monitor = {
		.fid.fclass = FI_CLASS_MEM_MONITOR, .export_ops = &ops,
	};
	const struct wish wish = {
		.mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
	};
	struct node n = { 0 };
	struct fid *cache;

	if (argc != 2)
		return 2;
	node = argv[1];
	split();
	OK(fi_open(FI_VERSION(1, 13), "mr_cache", NULL, 0, 0, &cache, NULL));
	OK(fi_import_fid(cache, &monitor.fid, 0));
	OK(fi_close(cache));
	open_node(&n, &wish);
	connect_node(&n);
	if (role == 0)
		sender(&n, &monitor);
	else
		receiver(&n);
	barrier(&n);
	EQUAL(fi_close(&monitor.fid), -FI_EBUSY);
	close_node(&n);
	EQUAL(subscribed, unsubscribed);
	EQUAL(started, 0);
	OK(fi_close(&monitor.fid));
	if (role == 0)
		printf("%d memories at one address, each sent %d times\n", ROUNDS, SENDS);
	return join();
}
