/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* FI_THREAD_SAFE: several threads of a program use one endpoint and one queue. */
#include "groups.h"
#include "traffic.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { THREADS = 4, MESSAGES = 300 };

/* An operation under way; whoever reads its completion says so here. */
struct operation {
	struct fi_context2	context;
	atomic_int		done;
};

struct worker {
	struct side	*s;
	const char	*title;
	uint64_t	number;
};

static struct operation *operation_of(void *context)
{
	return context;		/* its first member */
}

/* Reads the queues until this operation has completed, for all threads. */
static void await(struct side *s, struct operation *operation)
{
	struct fid_cq *const queues[] = { s->tx, s->rx };
	double late = 0;

	while (!atomic_load(&operation->done)) {
		for (int i = 0; i < 2; i++) {
			struct fi_cq_tagged_entry entries[4];
			ssize_t got = fi_cq_read(queues[i], entries, 4);

			if (got == -FI_EAGAIN)
				continue;
			CHECK(got > 0);
			for (ssize_t k = 0; k < got; k++)
				EQUAL(atomic_fetch_add(&operation_of(entries[k].op_context)->done, 1), 0);
		}
		late_at(HERE, &late, "a completion");
		sched_yield();
	}
}

static void with_workers(struct side *s, void *(*work)(void *))
{
	struct worker workers[THREADS];
	pthread_t threads[THREADS];

	for (uint64_t i = 0; i < THREADS; i++) {
		workers[i] = (struct worker) { s, side_title, i };
		CHECK(!pthread_create(&threads[i], NULL, work, &workers[i]));
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

/* A place of its own for each thread. */
static unsigned char *place(unsigned char *base, uint64_t number)
{
	return base + number * (ARENA / THREADS);
}

static size_t length(size_t i)
{
	return i % 50 == 49 ? 300000 : 8 + i % 9 * 100;
}

static void *send_and_receive(void *argument)
{
	const struct worker *worker = argument;
	struct side *s = worker->s;
	unsigned char *out = place(s->out, worker->number), *in = place(s->in, worker->number);

	side_title = worker->title;
	for (size_t i = 0; i < MESSAGES; i++) {
		struct operation send = { .done = 0 }, receive = { .done = 0 };
		const size_t len = length(i);

		OK(fi_trecv(s->ep, in, ARENA / THREADS, s->in_desc, FI_ADDR_UNSPEC, worker->number, 0,
			    &receive));
		fill(out, len, i + worker->number);
		POST(s, fi_tsend(s->ep, out, len, s->out_desc, s->peer, worker->number, &send));
		await(s, &receive);
		FILLED(in, len, i + worker->number);
		await(s, &send);
	}
	return NULL;
}

static void want_safe(struct wish *wish)
{
	wish->threading = FI_THREAD_SAFE;
	wish->order = FI_ORDER_SAS;
}

static void one_endpoint(struct side *s)
{
	with_workers(s, send_and_receive);
}

static void *discover(void *argument)
{
	const struct worker *worker = argument;

	side_title = worker->title;
	for (int i = 0; i < 20; i++) {
		struct fi_info *hints = wished_hints(worker->s), *info = NULL;

		OK(ask(0, hints, &info));
		CHECK(info);
		fi_freeinfo(info);
		fi_freeinfo(hints);
	}
	return NULL;
}

static void discovery(struct side *s)
{
	with_workers(s, discover);
}

/* Objects of one domain are opened and closed by all. */
static void *open_and_close(void *argument)
{
	const struct worker *worker = argument;
	struct side *s = worker->s;

	side_title = worker->title;
	for (int i = 0; i < 20; i++) {
		struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_CONTEXT };
		struct fi_av_attr av_attr = { .type = s->wish.av_type };
		struct fid_ep *ep;
		struct fid_cq *cq;
		struct fid_av *av;

		OK(fi_cq_open(s->domain, &cq_attr, &cq, NULL));
		OK(fi_av_open(s->domain, &av_attr, &av, NULL));
		OK(fi_endpoint(s->domain, s->info, &ep, NULL));
		OK(fi_ep_bind(ep, &av->fid, 0));
		OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
		OK(fi_enable(ep));
		EQUAL(fi_cq_read(cq, NULL, 0), -FI_EAGAIN);
		OK(fi_close(&ep->fid));
		OK(fi_close(&cq->fid));
		OK(fi_close(&av->fid));
	}
	return NULL;
}

static void objects(struct side *s)
{
	with_workers(s, open_and_close);
}

static const struct conformance_case concurrency_cases[] = {
	{ "one-endpoint", "fi_domain(3)", "With FI_THREAD_SAFE, threads post to one endpoint and read one queue at the same time.",
	  FI_TAGGED, EP_RELIABLE, VARY_PROGRESS | VARY_WAIT, 0, want_safe, one_endpoint },
	{ "objects", "fi_domain(3)", "With FI_THREAD_SAFE, threads open and close objects of one domain at the same time.",
	  FI_MSG, EP_RDM, VARY_PROGRESS, 0, want_safe, objects },
	{ "discovery", "fi_getinfo(3)", "fi_getinfo may be called by several threads at the same time.",
	  FI_MSG, EP_RELIABLE, 0, 1, NULL, discovery },
};
GROUP(concurrency);
