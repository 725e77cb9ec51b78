/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Many connections between two processes: what each takes of time and memory.
 *
 * connections PROVIDER ADDRESS COUNT: forks a process that listens, and connects to it so many times
 * with connected endpoints. Then one message goes over each, both ways. Prints a line for each power of
 * two.
 */
#define PROVIDER	provider
#define NODE		node
#define CAPS		FI_MSG
static const char *provider, *node;
#include "../pair.h"

#define ROOM		64
/* Requests that have not been answered. */
#define WINDOW		16
#define QUEUE		4

struct end {
	struct fi_info		*info;
	struct fid_fabric	*fabric;
	struct fid_domain	*domain;
	struct fid_eq		*eq;
	struct fid_cq		*cq;
	struct fid_mr		*mr;
	struct fid_pep		*pep;
	struct fid_ep		**eps;
	uint64_t		*words;		/* one to send and one to receive for each */
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

static long resident_kib(void)
{
	long total, resident;
	FILE *file = fopen("/proc/self/statm", "re");

	CHECK(file && fscanf(file, "%ld %ld", &total, &resident) == 2);
	fclose(file);
	return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static void open_end(struct end *e, size_t count)
{
	struct fi_eq_attr eq = { .wait_obj = FI_WAIT_NONE };
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_CONTEXT, .size = 2 * count };
	struct fi_info *hints = fi_allocinfo();
	const size_t bytes = 2 * count * sizeof(*e->words);

	hints->caps = CAPS;
	hints->ep_attr->type = FI_EP_MSG;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup(provider);
	OK(fi_getinfo(FI_VERSION(1, 17), node, NULL, FI_SOURCE, hints, &e->info));
	fi_freeinfo(hints);
	/* Queues as small as programs with many peers make them. */
	e->info->tx_attr->size = QUEUE;
	e->info->rx_attr->size = QUEUE;
	OK(fi_fabric(e->info->fabric_attr, &e->fabric, NULL));
	OK(fi_domain(e->fabric, e->info, &e->domain, NULL));
	OK(fi_eq_open(e->fabric, &eq, &e->eq, NULL));
	OK(fi_cq_open(e->domain, &cq, &e->cq, NULL));
	e->eps = calloc(count, sizeof(*e->eps));
	e->words = calloc(1, bytes);
	OK(fi_mr_reg(e->domain, e->words, bytes, FI_SEND | FI_RECV, 0, 0, 0, &e->mr, NULL));
}

static void make(struct end *e, struct fi_info *info, size_t at)
{
	info->tx_attr->size = QUEUE;
	info->rx_attr->size = QUEUE;
	OK(fi_endpoint(e->domain, info, &e->eps[at], (void *) at));
	OK(fi_ep_bind(e->eps[at], &e->eq->fid, 0));
	OK(fi_ep_bind(e->eps[at], &e->cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_enable(e->eps[at]));
	OK(fi_recv(e->eps[at], &e->words[2 * at + 1], 8, fi_mr_desc(e->mr), FI_ADDR_UNSPEC,
		   (void *) (2 * at + 1)));
}

/* The next event of connections; progress is driven meanwhile. */
static uint32_t event(struct end *e, struct fi_eq_cm_entry *entry)
{
	uint32_t kind = 0;
	ssize_t got;

	while ((got = fi_eq_read(e->eq, &kind, entry, sizeof(*entry), 0)) == -FI_EAGAIN)
		fi_cq_read(e->cq, NULL, 0);
	if (got < 0) {
		struct fi_eq_err_entry err = { 0 };

		fi_eq_readerr(e->eq, &err, 0);
		FAIL("a connection fails: %s", fi_strerror(err.err));
	}
	return kind;
}

static void listens(struct end *e, size_t count)
{
	struct fi_eq_cm_entry entry;
	size_t made = 0, up = 0;

	while (up < count)
		switch (event(e, &entry)) {
		case FI_CONNREQ:
			make(e, entry.info, made);
			OK(fi_accept(e->eps[made++], NULL, 0));
			fi_freeinfo(entry.info);
			break;
		case FI_CONNECTED:
			up++;
			break;
		default:
			FAIL("another event");
		}
}

static void connects(struct end *e, const void *address, size_t count)
{
	const double begin = now();
	const long before = resident_kib();
	struct fi_eq_cm_entry entry;
	size_t made = 0, up = 0, next = 16;

	while (up < count) {
		while (made < count && made < up + WINDOW) {
			make(e, e->info, made);
			OK(fi_connect(e->eps[made++], address, NULL, 0));
		}
		CHECK(event(e, &entry) == FI_CONNECTED);
		if (++up == next || up == count) {
			printf("%6zu connections: %8.2f ms each, %6.1f KiB each\n", up,
			       1e3 * (now() - begin) / (double) up,
			       (double) (resident_kib() - before) / (double) up);
			fflush(stdout);
			next *= 2;
		}
	}
}

/* A word over each connection and one back, all under way at a time. */
static void talk(struct end *e, size_t count)
{
	size_t done = 0;

	for (size_t at = 0; at < count; at++) {
		e->words[2 * at] = 1000 * at + (size_t) role;
		while (fi_send(e->eps[at], &e->words[2 * at], 8, fi_mr_desc(e->mr), FI_ADDR_UNSPEC,
			       (void *) (2 * at)) == -FI_EAGAIN)
			fi_cq_read(e->cq, NULL, 0);
	}
	while (done < 2 * count) {
		struct fi_cq_entry entry;
		const ssize_t got = fi_cq_read(e->cq, &entry, 1);

		CHECK(got == 1 || got == -FI_EAGAIN);
		done += got == 1;
	}
	for (size_t at = 0; role == 1 && at < count; at++)
		CHECK(e->words[2 * at + 1] % 1000 == 0);
}

static void close_end(struct end *e, size_t count)
{
	for (size_t at = 0; at < count; at++)
		OK(fi_close(&e->eps[at]->fid));
	if (e->pep)
		OK(fi_close(&e->pep->fid));
	OK(fi_close(&e->mr->fid));
	OK(fi_close(&e->cq->fid));
	OK(fi_close(&e->eq->fid));
	OK(fi_close(&e->domain->fid));
	OK(fi_close(&e->fabric->fid));
	fi_freeinfo(e->info);
}

int main(int argc, char **argv)
{
	struct end end = { 0 };
	char address[ROOM] = "", done = 0;
	size_t count, len = ROOM;
	int ends[2], status = 0;
	pid_t child;

	CHECK(argc == 4);
	provider = argv[1];
	node = argv[2];
	count = strtoul(argv[3], NULL, 10);
	CHECK(count > 0 && !socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	child = fork();
	CHECK(child >= 0);
	role = child != 0;
	channel = ends[role];
	close(ends[!role]);
	open_end(&end, count);
	if (role == 0) {
		OK(fi_passive_ep(end.fabric, end.info, &end.pep, NULL));
		OK(fi_pep_bind(end.pep, &end.eq->fid, 0));
		OK(fi_listen(end.pep));
		OK(fi_getname(&end.pep->fid, address, &len));
		CHECK(write(channel, address, ROOM) == ROOM);
		listens(&end, count);
	} else {
		CHECK(read(channel, address, ROOM) == ROOM);
		connects(&end, address, count);
	}
	talk(&end, count);
	/* Neither goes before the other has all. */
	CHECK(write(channel, &done, 1) == 1 && read(channel, &done, 1) == 1);
	close_end(&end, count);
	if (role == 0)
		return 0;
	CHECK(waitpid(child, &status, 0) == child && !status);
	printf("closed\n");
	return 0;
}
