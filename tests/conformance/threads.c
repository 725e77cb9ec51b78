/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Many threads of each side: what each threading level allows at once. */
#include "groups.h"

#include <pthread.h>
#include <sched.h>

#include "remote.h"

#define THREADS		4
#define MESSAGES	1000	/* of each thread */
#define ROOM		64

/* What the threads of a side share. */
struct crew {
	struct side	*s;
	uint64_t	received[THREADS];	/* next number from each of the other side */
	unsigned	sent, taken, stop;
	struct region	far;
};

struct member {
	struct crew	*crew;
	int		which;
	pthread_t	thread;
};

/* What a message says: who has sent it, and which of his it is. */
struct words {
	uint64_t	who, number, check;
};

static unsigned count(unsigned *counter, unsigned more)
{
	return __atomic_add_fetch(counter, more, __ATOMIC_SEQ_CST);
}

static void run_crew(struct crew *crew, void *(*work)(void *))
{
	struct member members[THREADS];

	for (int i = 0; i < THREADS; i++) {
		members[i] = (struct member) { .crew = crew, .which = i };
		if (pthread_create(&members[i].thread, NULL, work, &members[i]))
			FAIL("pthread_create failed");
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(members[i].thread, NULL);
}

/* Reads whatever is in a queue; all threads do. */
static void drain(struct crew *crew, struct fid_cq *cq, unsigned *counter)
{
	struct fi_cq_tagged_entry entries[8];
	const ssize_t got = fi_cq_read(cq, entries, 8);

	if (got > 0)
		count(counter, (unsigned) got);
	else if (got != -FI_EAGAIN)
		FAIL("fi_cq_read returned %zd", got);
	else
		sched_yield();
	(void) crew;
}

/* Sends own numbers by tag, receives those of the other side's thread of this number. */
static void *talk(void *argument)
{
	struct member *me = argument;
	struct crew *crew = me->crew;
	struct side *s = crew->s;
	struct words *out = (struct words *) (s->out + (size_t) me->which * ARENA / THREADS);
	struct words *in = (struct words *) (s->in + (size_t) me->which * ARENA / THREADS);
	struct fi_context2 ctx[2];
	double late = 0;

	side_title = s->role ? "side 1, a thread" : "side 0, a thread";
	for (uint64_t i = 0; i < MESSAGES; i++) {
		volatile struct words *arrived = in;
		ssize_t ret;

		*in = (struct words) { ~0ull, ~0ull, ~0ull };
		*out = (struct words) { (uint64_t) me->which, i, i * 31 + 7 };
		while ((ret = fi_trecv(s->ep, in, sizeof(*in), s->in_desc, FI_ADDR_UNSPEC,
				       (uint64_t) me->which, 0, &ctx[0])) == -FI_EAGAIN)
			drain(crew, s->rx, &crew->taken);
		OK(ret);
		while ((ret = fi_tinject(s->ep, out, sizeof(*out), s->peer,
					 (uint64_t) me->which)) == -FI_EAGAIN)
			drain(crew, s->tx, &crew->sent);
		OK(ret);
		/* The completion may be read by any thread; the bytes come with it. */
		while (__atomic_load_n(&arrived->check, __ATOMIC_ACQUIRE) != i * 31 + 7) {
			drain(crew, s->rx, &crew->taken);
			late_at(HERE, &late, "a message of a thread");
		}
		EQUAL(arrived->who, me->which);
		EQUAL(arrived->number, i);
	}
	/* Its context is its own until the last receive has completed. */
	while (__atomic_load_n(&crew->taken, __ATOMIC_SEQ_CST) < THREADS * MESSAGES) {
		drain(crew, s->rx, &crew->taken);
		late_at(HERE, &late, "the last completion");
	}
	return NULL;
}

static void want_safe(struct wish *wish)
{
	wish->threading = FI_THREAD_SAFE;
}

/* One endpoint for all threads. */
static void shared_endpoint(struct side *s)
{
	struct crew crew = { .s = s };

	barrier(s);
	run_crew(&crew, talk);
	EQUAL(crew.taken, THREADS * MESSAGES);
	EQUAL(crew.sent, 0);
	barrier(s);
	QUIET(s, s->rx);
}

/* One thread talks, the others register memory and insert addresses. */
static void *control(void *argument)
{
	struct member *me = argument;
	struct crew *crew = me->crew;
	struct side *s = crew->s;
	char name[256];
	size_t len = sizeof(name);

	side_title = s->role ? "side 1, a thread" : "side 0, a thread";
	OK(fi_getname(&s->ep->fid, name, &len));
	for (unsigned i = 0; i < 300; i++) {
		if (me->which == 0) {
			struct fi_context2 ctx;
			struct fi_cq_tagged_entry entry;
			unsigned char *into = s->out + 65536;
			ssize_t got;
			double late = 0;

			POST(s, fi_read(s->ep, into, 5000, s->out_desc, s->peer, crew->far.addr,
					crew->far.key, &ctx));
			while ((got = fi_cq_read(s->tx, &entry, 1)) == -FI_EAGAIN) {
				sched_yield();
				late_at(HERE, &late, "a read");
			}
			EQUAL(got, 1);
			FILLED(into, 5000, 5);
		} else if (me->which == 1) {
			struct fid_mr *mr = side_register(s, s->in, 64, REMOTE_ACCESS, 1000 + i);

			OK(fi_close(&mr->fid));
		} else if (me->which == 2) {
			fi_addr_t addr = FI_ADDR_NOTAVAIL;
			char found[256];
			size_t room = sizeof(found);

			OK(fi_av_lookup(s->av, s->peer, found, &room));
			EQUAL(fi_av_remove(s->av, &s->self, 1, 0), 0);
			EQUAL(fi_av_insert(s->av, name, 1, &addr, 0, NULL), 1);
			s->self = addr;
		} else {
			struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_MSG };
			struct fi_av_attr av_attr = { .type = s->wish.av_type };
			struct fid_cq *cq;
			struct fid_av *av;
			struct fid_ep *ep;

			/* Endpoints come and go beside the traffic. */
			OK(fi_cq_open(s->domain, &attr, &cq, NULL));
			OK(fi_av_open(s->domain, &av_attr, &av, NULL));
			OK(fi_endpoint(s->domain, s->info, &ep, NULL));
			OK(fi_ep_bind(ep, &av->fid, 0));
			OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
			if (i % 16 == 0)
				OK(fi_enable(ep));
			OK(fi_close(&ep->fid));
			OK(fi_close(&av->fid));
			OK(fi_close(&cq->fid));
		}
	}
	return NULL;
}

static void control_beside_traffic(struct side *s)
{
	struct crew crew = { .s = s };
	struct remote r;

	fill(s->in, 5000, 5);
	remote_open(s, &r);
	crew.far = r.far;
	barrier(s);
	run_crew(&crew, control);
	remote_close(s, &r);
}

/* Opened by one thread each, one after the other, since the sides talk through one channel. */
static void *ring_of_own(void *argument)
{
	struct side *s = argument;
	const int role = s->role;

	side_title = role ? "side 1, a thread" : "side 0, a thread";
	for (uint64_t i = 0; i < MESSAGES; i++) {
		if (role == 0)
			POST(s, fi_inject(s->ep, &i, sizeof(i), s->peer));
		POST(s, fi_recv(s->ep, s->in, sizeof(i), s->in_desc, FI_ADDR_UNSPEC, &s->ctx[0]));
		FINISHED(s, s->rx, &s->ctx[0], FI_RECV, sizeof(i));
		EQUAL(*(uint64_t *) s->in, i);
		if (role == 1)
			POST(s, fi_inject(s->ep, &i, sizeof(i), s->peer));
	}
	return NULL;
}

/* Everything of its own for each thread: nothing is serialised by the program. */
static void own_domains(struct side *s)
{
	struct side parts[THREADS];
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++) {
		parts[i] = (struct side) {
			.role = s->role, .channel = s->channel, .type = s->type, .wish = s->wish,
		};
		side_open(&parts[i]);
	}
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, ring_of_own, &parts[i]))
			FAIL("pthread_create failed");
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < THREADS; i++)
		barrier(&parts[i]);
	for (int i = 0; i < THREADS; i++)
		side_close(&parts[i]);
}

static void want_domain(struct wish *wish)
{
	wish->threading = FI_THREAD_DOMAIN;
}

/* One domain and one address vector; endpoint and queues are a thread's own. */
static void own_queues(struct side *s)
{
	struct side parts[THREADS];
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++) {
		struct fi_cq_attr attr = { .format = s->wish.format };

		parts[i] = *s;
		OK(fi_cq_open(s->domain, &attr, &parts[i].tx, NULL));
		OK(fi_cq_open(s->domain, &attr, &parts[i].rx, NULL));
		OK(fi_endpoint(s->domain, s->info, &parts[i].ep, NULL));
		OK(fi_ep_bind(parts[i].ep, &s->av->fid, 0));
		OK(fi_ep_bind(parts[i].ep, &parts[i].tx->fid, FI_TRANSMIT));
		OK(fi_ep_bind(parts[i].ep, &parts[i].rx->fid, FI_RECV));
		side_connect(&parts[i]);
		parts[i].in = s->in + i * 4096;
	}
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, ring_of_own, &parts[i]))
			FAIL("pthread_create failed");
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < THREADS; i++)
		barrier(&parts[i]);
	for (int i = 0; i < THREADS; i++) {
		OK(fi_close(&parts[i].ep->fid));
		OK(fi_close(&parts[i].tx->fid));
		OK(fi_close(&parts[i].rx->fid));
	}
}

static void want_completion(struct wish *wish)
{
	wish->threading = FI_THREAD_COMPLETION;
}

/* Everything opened and closed over and over, by threads that know nothing of each other. */
static void *churn(void *argument)
{
	struct member *me = argument;
	struct side *s = me->crew->s;

	side_title = s->role ? "side 1, a thread" : "side 0, a thread";
	for (int i = 0; i < 30; i++) {
		struct side own = {
			.role = s->role, .channel = -1, .type = s->type, .wish = s->wish,
		};

		side_info(&own);
		side_objects(&own);
		if (own.ep)
			OK(fi_enable(own.ep));
		side_close(&own);
	}
	return NULL;
}

static void churn_of_all(struct side *s)
{
	struct crew crew = { .s = s };

	barrier(s);
	run_crew(&crew, churn);
}

static const struct conformance_case threads_cases[] = {
	{ "shared-endpoint", "fi_domain(3)", "FI_THREAD_SAFE: any threads may send, receive and read queues of one endpoint at once.",
	  FI_TAGGED, EP_RDM, VARY_PROGRESS | VARY_AV, 0, want_safe, shared_endpoint },
	{ "control", "fi_domain(3)", "FI_THREAD_SAFE: memory, addresses and endpoints come and go beside traffic.",
	  FI_RMA, EP_RDM, VARY_PROGRESS | VARY_MR, 0, want_safe, control_beside_traffic },
	{ "own-domains", "fi_domain(3)", "FI_THREAD_DOMAIN: threads with a domain each need no lock.",
	  FI_MSG, EP_RELIABLE, VARY_PROGRESS, 1, want_domain, own_domains },
	{ "own-queues", "fi_domain(3)", "FI_THREAD_COMPLETION: threads with endpoints and queues of their own need no lock.",
	  FI_MSG, EP_RDM, VARY_PROGRESS, 0, want_completion, own_queues },
	{ "churn", "fi_domain(3)", "Objects of every kind may be opened and closed by many threads at once.",
	  FI_MSG, EP_RELIABLE, 0, 0, want_safe, churn_of_all },
};
GROUP(threads);
