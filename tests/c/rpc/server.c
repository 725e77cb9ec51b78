/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * server PROVIDER FILE [NODE [SERVICE [return]]]: serves procedure calls until one says stop,
 * sleeping while there are none.  Its address is written to FILE, its account to standard output.
 * Clients may die at any moment; with return, others may come at their addresses.
 */
#include "rpc.h"

#define BUFFER_ROOM	((size_t) 64 << 10)

enum { BUFFERS = 3, JOBS = 384, PEERS = 128, REMEMBERED = 4 };

struct peer {
	char		name[NAME_ROOM];
	uint32_t	name_len;
	fi_addr_t	addr;
	int		used, lost, jobs;
	unsigned long	last_call;
};

/* A buffer for many requests. */
struct buffer {
	struct op	op;
	int		is_buffer;
	unsigned char	*bytes;
};

enum step { MOVE, ANSWER };

struct job {
	struct op	op;
	int		is_buffer;
	int		used, blocked;
	enum step	step;
	struct peer	*peer;
	uint64_t	tag;
	struct request	request;
	unsigned char	*bytes;		/* bulk data, then the response */
};

static struct endpoint self;
static struct buffer buffers[BUFFERS];
static struct job jobs[JOBS];
static struct peer peers[PEERS];
static struct fid_mr *bulk_region, *request_region;
static unsigned char *bulk;
static unsigned long calls, per_procedure[PROCEDURES], lost, inserted, removed, cancelled;
static int stopping, closing, returning;

static void post_buffer(struct buffer *b)
{
	struct iovec iov = { .iov_base = b->bytes, .iov_len = BUFFER_ROOM };
	void *desc = fi_mr_desc(request_region);
	struct fi_msg msg = { .msg_iov = &iov, .desc = &desc, .iov_count = 1,
			      .addr = FI_ADDR_UNSPEC, .context = &b->op };

	OK(started(&self, &b->op, fi_recvmsg(self.ep, &msg, FI_MULTI_RECV | FI_COMPLETION)));
}

static void forget(struct peer *p)
{
	CHECK(p->used && !p->jobs);
	OK(fi_av_remove(self.av, &p->addr, 1, 0));
	p->used = 0;
	removed++;
}

/* The text of the address is there, whole and cut. */
static void check_text(const void *address)
{
	char text[NAME_ROOM], cut[4];
	size_t needed = sizeof(text), length = sizeof(cut);

	CHECK(fi_av_straddr(self.av, address, text, &needed) == text);
	CHECK(needed == strlen(text) + 1 && needed > sizeof(cut));
	CHECK(fi_av_straddr(self.av, address, cut, &length) == cut);
	EQUAL(length, needed);
	EQUAL(memcmp(cut, text, sizeof(cut) - 1), 0);
	EQUAL(cut[sizeof(cut) - 1], 0);
}

/* Few are remembered, so that peers come and go in the address vector. */
static void make_room(void)
{
	struct peer *oldest = NULL;
	int i, used = 0;

	for (i = 0; i < PEERS; i++) {
		used += peers[i].used;
		if (peers[i].used && !peers[i].jobs &&
		    (!oldest || peers[i].last_call < oldest->last_call))
			oldest = &peers[i];
	}
	if (used >= REMEMBERED && oldest)
		forget(oldest);
}

static struct peer *find_peer(const struct request *request)
{
	char known[NAME_ROOM];
	size_t length = sizeof(known);
	struct peer *p, *unused = NULL;
	int i;

	for (i = 0; i < PEERS; i++) {
		p = &peers[i];
		if (p->used && p->name_len == request->name_len &&
		    !memcmp(p->name, request->name, p->name_len))
			return p;
	}
	make_room();
	for (i = 0; i < PEERS && !unused; i++)
		if (!peers[i].used)
			unused = &peers[i];
	CHECK(unused);
	p = unused;
	memset(p, 0, sizeof(*p));
	p->used = 1;
	p->name_len = request->name_len;
	memcpy(p->name, request->name, p->name_len);
	EQUAL(fi_av_insert(self.av, p->name, 1, &p->addr, 0, NULL), 1);
	inserted++;
	OK(fi_av_lookup(self.av, p->addr, known, &length));
	EQUAL(length, p->name_len);
	EQUAL(memcmp(known, p->name, length), 0);
	check_text(p->name);
	return p;
}

static uint64_t bytes_of(const struct request *request)
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i < request->pieces; i++)
		sum += request->piece[i].len;
	return sum;
}

static ssize_t post_move(struct job *j)
{
	const size_t size = (size_t) bytes_of(&j->request), first = size / 3;
	void *desc[2] = { fi_mr_desc(bulk_region), fi_mr_desc(bulk_region) };
	struct iovec iov[2] = {
		{ .iov_base = j->bytes, .iov_len = first },
		{ .iov_base = j->bytes + first, .iov_len = size - first },
	};
	struct fi_rma_iov remote[PIECES];
	struct fi_msg_rma msg = { .msg_iov = iov, .desc = desc, .iov_count = 2,
				  .addr = j->peer->addr, .rma_iov = remote,
				  .rma_iov_count = j->request.pieces, .context = &j->op };
	uint32_t i;

	for (i = 0; i < j->request.pieces; i++) {
		remote[i].addr = j->request.piece[i].addr;
		remote[i].len = (size_t) j->request.piece[i].len;
		remote[i].key = j->request.piece[i].key;
	}
	if (j->request.procedure == FETCH)
		return fi_readmsg(self.ep, &msg, FI_COMPLETION);
	return fi_writemsg(self.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE);
}

static ssize_t post_answer(struct job *j)
{
	struct response response = { .seed = j->request.seed,
				     .moved = bytes_of(&j->request) };

	memcpy(j->bytes, &response, sizeof(response));
	fill(j->bytes + sizeof(response), j->request.answer, j->request.seed + 1);
	return fi_tsend(self.ep, j->bytes, sizeof(response) + j->request.answer,
			fi_mr_desc(bulk_region), j->peer->addr, j->tag, &j->op);
}

/* Who is at the address of a client that has died knows nothing of its memory. */
static int is_mistaken(const struct job *j, int err)
{
	return returning && j->step == MOVE && (err == FI_EACCES || err == FI_ENOKEY);
}

static void end_job(struct job *j, int err)
{
	struct peer *p = j->peer;

	if (err) {
		if (!is_loss(err) && !is_mistaken(j, err))
			FAIL("procedure %u ended with %d (%s)", j->request.procedure, err,
			     fi_strerror(err));
		p->lost = 1;
		lost++;
	}
	j->used = 0;
	p->jobs--;
	if (!p->jobs && (p->lost || j->request.procedure == GOODBYE))
		forget(p);
	if (!err && j->request.procedure == STOP)
		stopping = 1;
}

static void post_job(struct job *j)
{
	const ssize_t posted = started(&self, &j->op,
				       j->step == MOVE ? post_move(j) : post_answer(j));

	j->blocked = posted == -FI_EAGAIN;
	if (posted && !j->blocked)
		end_job(j, (int) -posted);
}

static void take_request(const unsigned char *bytes, size_t length, uint64_t data)
{
	struct request request;
	struct job *j;

	CHECK(length >= sizeof(request) && length <= REQUEST_ROOM);
	memcpy(&request, bytes, sizeof(request));
	EQUAL(length, sizeof(request) + request.payload);
	CHECK(request.name_len > 0 && request.name_len <= NAME_ROOM);
	CHECK(request.procedure < PROCEDURES && request.pieces <= PIECES);
	CHECK(bytes_of(&request) <= BULK_ROOM);
	CHECK(sizeof(struct response) + request.answer <= BULK_ROOM);
	CHECK_FILL(bytes + sizeof(request), request.payload, request.seed);
	calls++;
	per_procedure[request.procedure]++;

	for (j = jobs; j < jobs + JOBS && j->used; j++)
		;
	CHECK(j < jobs + JOBS);
	j->used = 1;
	j->tag = data;
	j->request = request;
	j->peer = find_peer(&request);
	j->peer->jobs++;
	j->peer->last_call = calls;
	j->step = request.procedure == FETCH || request.procedure == STORE ? MOVE : ANSWER;
	if (request.procedure == FETCH)
		memset(j->bytes, 0xdd, BULK_ROOM);
	if (request.procedure == STORE)
		fill(j->bytes, (size_t) bytes_of(&request), (size_t) request.seed);
	post_job(j);
}

static void buffer_ended(struct buffer *b, const struct fi_cq_tagged_entry *entry,
			 const struct fi_cq_err_entry *err)
{
	if (err) {
		EQUAL(err->err, FI_ECANCELED);
		CHECK(err->flags & FI_MULTI_RECV);
		CHECK(closing);
		cancelled++;
		return;
	}
	if (entry->len) {
		CHECK(entry->flags & FI_REMOTE_CQ_DATA);
		take_request(entry->buf, entry->len, entry->data);
	}
	if (entry->flags & FI_MULTI_RECV)
		post_buffer(b);
}

static void ended(struct op *op, const struct fi_cq_tagged_entry *entry,
		  const struct fi_cq_err_entry *err)
{
	struct job *j = (struct job *) op;

	if (j->is_buffer) {
		buffer_ended((struct buffer *) op, entry, err);
	} else if (err) {
		end_job(j, err->err);
	} else if (j->step == MOVE) {
		if (j->request.procedure == FETCH)
			CHECK_FILL(j->bytes, (size_t) bytes_of(&j->request),
				   (size_t) j->request.seed);
		j->step = ANSWER;
		post_job(j);
	} else {
		end_job(j, 0);
	}
}

/* Tries what was refused for now; how long the server may sleep then. */
static int tend_jobs(void)
{
	int timeout = -1;
	struct job *j;

	for (j = jobs; j < jobs + JOBS; j++) {
		if (j->used && j->blocked)
			post_job(j);
		if (!j->used)
			continue;
		if (j->op.pending && milliseconds() - j->op.since > PATIENCE)
			FAIL("procedure %u does not end in step %d", j->request.procedure,
			     (int) j->step);
		if (j->blocked)
			timeout = 1;
		else if (timeout < 0)
			timeout = 1000;
	}
	return timeout;
}

static void write_address(const char *path)
{
	char draft[4096];
	FILE *file;

	snprintf(draft, sizeof(draft), "%s.draft", path);
	file = fopen(draft, "wbe");
	CHECK(file);
	EQUAL(fwrite(self.name, 1, self.name_len, file), self.name_len);
	EQUAL(fclose(file), 0);
	EQUAL(rename(draft, path), 0);
}

static void open_server(char **argv, int argc)
{
	int i;

	self.ended = ended;
	open_endpoint(&self, argv[1], argc > 3 ? argv[3] : NULL, argc > 4 ? argv[4] : NULL, 4096);
	bulk = calloc(JOBS, BULK_ROOM);
	CHECK(bulk);
	returning = argc > 5 && !strcmp(argv[5], "return");
	if (returning)
		/* All of it is in memory from the first, since memory is watched. */
		memset(bulk, 0xdd, JOBS * BULK_ROOM);
	bulk_region = registered(&self, bulk, JOBS * BULK_ROOM,
				 FI_SEND | FI_RECV | FI_READ | FI_WRITE);
	for (i = 0; i < JOBS; i++)
		jobs[i].bytes = bulk + (size_t) i * BULK_ROOM;
	buffers[0].bytes = malloc(BUFFERS * BUFFER_ROOM);
	CHECK(buffers[0].bytes);
	request_region = registered(&self, buffers[0].bytes, BUFFERS * BUFFER_ROOM, FI_RECV);
	for (i = 0; i < BUFFERS; i++) {
		buffers[i].bytes = buffers[0].bytes + (size_t) i * BUFFER_ROOM;
		buffers[i].is_buffer = 1;
		post_buffer(&buffers[i]);
	}
}

/* Each posted buffer is cancelled once, and nothing comes behind that. */
static void cancel_buffers(void)
{
	const uint64_t begin = milliseconds();
	int i;

	closing = 1;
	for (i = 0; i < BUFFERS; i++) {
		EQUAL(buffers[i].op.pending, 1);
		OK(fi_cancel(&self.ep->fid, &buffers[i].op));
	}
	while (milliseconds() - begin < 50)
		handle_completions(&self);
	EQUAL(cancelled, BUFFERS);
}

int main(int argc, char **argv)
{
	int i;

	CHECK(argc > 2);
	deadline(DEADLINE_SECONDS);
	open_server(argv, argc);
	write_address(argv[2]);
	while (!stopping) {
		const int timeout = tend_jobs();

		if (!handle_completions(&self))
			sleep_until_ready(&self, timeout);
	}
	while (tend_jobs() >= 0)
		handle_completions(&self);
	cancel_buffers();
	for (i = 0; i < PEERS; i++)
		if (peers[i].used)
			forget(&peers[i]);
	OK(fi_close(&bulk_region->fid));
	OK(fi_close(&request_region->fid));
	close_endpoint(&self);
	free(bulk);
	free(buffers[0].bytes);
	EQUAL(inserted, removed);
	printf("calls %lu echo %lu fetch %lu store %lu goodbye %lu lost %lu inserted %lu slept %lu "
	       "posted %lu completed %lu\n", calls, per_procedure[ECHO], per_procedure[FETCH],
	       per_procedure[STORE], per_procedure[GOODBYE], lost, inserted, self.slept,
	       self.posted, self.completed);
	return 0;
}
