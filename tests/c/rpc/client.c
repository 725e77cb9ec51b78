/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * client PROVIDER FILE CALLS SEED [WAY [NODE SERVICE]]: makes calls, several at a time, to the
 * server whose address is in FILE.  A call that fails because the server has ended is made again.
 *
 * WAY	tell	says "begun" on standard output after the first answer
 *	linger	says "done" after its calls, and stays connected until its standard input ends
 *	ponder	makes calls now and then, until its standard input ends
 *	stop	ends the server
 */
#include "rpc.h"

#include <poll.h>

enum { WINDOW = 4 };

/* Milliseconds between two rounds of calls of those who ponder, at most. */
#define PAUSE		400

/* Of the memory of a call that nobody writes. */
#define UNTOUCHED	0xa5

struct call {
	struct op	answered, sent, abandoned;
	int		active, failed, blocked;
	struct request	request;
	uint64_t	tag;
	struct fid_mr	*region;
	unsigned char	*memory;	/* what the server reads or writes */
	unsigned char	*message, *answer;
};

static struct endpoint self;
static struct call calls[WINDOW];
static fi_addr_t server;
static char server_name[NAME_ROOM];
static uint64_t next_tag, random_state;
static unsigned long made, failed, cancelled;
static int tells;

static uint64_t draw(uint64_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % below;
}

/* Small ones more often than large ones. */
static uint64_t draw_size(uint64_t limit)
{
	const uint64_t scaled = limit >> draw(12);

	return scaled ? draw(scaled) + 1 : 1;
}

static uint64_t address_in(const struct call *c, uint64_t offset)
{
	if (self.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)
		return (uint64_t) (uintptr_t) c->memory + offset;
	return offset;
}

/* Pieces with gaps between them. */
static void lay_out_pieces(struct call *c)
{
	const uint32_t count = 1 + (uint32_t) draw(PIECES);
	uint64_t offset = draw(64);
	uint32_t i;

	for (i = 0; i < count; i++) {
		struct piece *p = &c->request.piece[i];

		p->len = draw_size(BULK_ROOM / PIECES - 128);
		p->addr = address_in(c, offset);
		p->key = fi_mr_key(c->region);
		offset += p->len + draw(128);
	}
	c->request.pieces = count;
}

static unsigned char *start_of(const struct call *c, uint32_t piece)
{
	return c->memory + (c->request.piece[piece].addr - address_in(c, 0));
}

/* The bytes of the pieces are one pattern, in their order. */
static void fill_pieces(struct call *c)
{
	size_t at = 0, k;
	uint32_t i;

	for (i = 0; i < c->request.pieces; i++)
		for (k = 0; k < c->request.piece[i].len; k++)
			start_of(c, i)[k] = pattern((size_t) c->request.seed, at++);
}

static void check_pieces(const struct call *c)
{
	const unsigned char *byte = c->memory;
	size_t at = 0, k;
	uint32_t i;

	for (i = 0; i < c->request.pieces; i++) {
		for (; byte < start_of(c, i); byte++)
			EQUAL(*byte, UNTOUCHED);
		for (k = 0; k < c->request.piece[i].len; k++, byte++)
			EQUAL(*byte, pattern((size_t) c->request.seed, at++));
	}
	for (; byte < c->memory + BULK_ROOM; byte++)
		EQUAL(*byte, UNTOUCHED);
}

static size_t message_size(const struct call *c)
{
	return sizeof(c->request) + c->request.payload;
}

static void send_request(struct call *c)
{
	const ssize_t posted = started(&self, &c->sent,
				       fi_senddata(self.ep, c->message, message_size(c), NULL,
						   c->tag, server, &c->sent));

	c->blocked = posted == -FI_EAGAIN;
	if (posted && !c->blocked) {
		CHECK(is_loss((int) -posted));
		c->failed = 1;
		/* Nobody will answer; where the end is known, that is known as well. */
		if (c->answered.pending)
			OK(fi_cancel(&self.ep->fid, &c->answered));
	}
}

static void start_call(struct call *c, enum procedure procedure)
{
	const size_t limit = REQUEST_ROOM - sizeof(c->request);

	memset(&c->request, 0, sizeof(c->request));
	c->active = 1;
	c->failed = 0;
	c->tag = next_tag++;
	c->request.procedure = procedure;
	c->request.seed = draw(1 << 20);
	c->request.name_len = (uint32_t) self.name_len;
	memcpy(c->request.name, self.name, self.name_len);
	c->request.payload = (uint32_t) draw(limit + 1);
	if (procedure == ECHO)
		c->request.answer = (uint32_t) draw_size(BULK_ROOM - sizeof(struct response));
	if (procedure == FETCH || procedure == STORE) {
		memset(c->memory, UNTOUCHED, BULK_ROOM);
		c->region = registered(&self, c->memory, BULK_ROOM,
				       procedure == FETCH ? FI_REMOTE_READ : FI_REMOTE_WRITE);
		lay_out_pieces(c);
		if (procedure == FETCH)
			fill_pieces(c);
	}
	memcpy(c->message, &c->request, sizeof(c->request));
	fill(c->message + sizeof(c->request), c->request.payload, (size_t) c->request.seed);

	/* One in sixteen also waits for what never comes, and thinks better of it. */
	if (c->tag % 16 == 0) {
		OK(started(&self, &c->abandoned,
			   fi_trecv(self.ep, c->answer, BULK_ROOM, NULL, server,
				    c->tag | 1ull << 40, 0, &c->abandoned)));
		OK(fi_cancel(&self.ep->fid, &c->abandoned));
	}
	OK(started(&self, &c->answered, fi_trecv(self.ep, c->answer, BULK_ROOM, NULL, server,
						 c->tag, 0, &c->answered)));
	send_request(c);
}

static void check_answer(struct call *c, const struct fi_cq_tagged_entry *entry)
{
	struct response response;
	uint64_t moved = 0;
	uint32_t i;

	for (i = 0; i < c->request.pieces; i++)
		moved += c->request.piece[i].len;
	EQUAL(entry->tag, c->tag);
	EQUAL(entry->len, sizeof(response) + c->request.answer);
	memcpy(&response, c->answer, sizeof(response));
	EQUAL(response.seed, c->request.seed);
	EQUAL(response.moved, moved);
	CHECK_FILL(c->answer + sizeof(response), c->request.answer, (size_t) response.seed + 1);
	if (c->region)
		check_pieces(c);
}

static void ended(struct op *op, const struct fi_cq_tagged_entry *entry,
		  const struct fi_cq_err_entry *err)
{
	struct call *c = calls;

	while (op != &c->answered && op != &c->sent && op != &c->abandoned)
		CHECK(++c < calls + WINDOW);
	if (op == &c->abandoned) {
		CHECK(err);
		/* Or the end of the server came first. */
		CHECK(err->err == FI_ECANCELED || is_loss(err->err));
		cancelled++;
	} else if (err) {
		if (!is_loss(err->err))
			FAIL("%s ended with %d (%s)", op == &c->sent ? "a request" : "an answer",
			     err->err, fi_strerror(err->err));
		if (op == &c->sent && c->answered.pending && !c->failed)
			OK(fi_cancel(&self.ep->fid, &c->answered));
		c->failed = 1;
	} else if (op == &c->answered) {
		check_answer(c, entry);
	}
}

/* Nothing of the call is under way any more. */
static int is_over(const struct call *c)
{
	return !c->answered.pending && !c->sent.pending && !c->abandoned.pending && !c->blocked;
}

/* A server that comes back has its old address, and is another peer. */
static void look_up_again(void)
{
	OK(fi_av_remove(self.av, &server, 1, 0));
	EQUAL(fi_av_insert(self.av, server_name, 1, &server, 0, NULL), 1);
}

static int all_over(void)
{
	int i;

	for (i = 0; i < WINDOW; i++)
		if (calls[i].active && !is_over(&calls[i]))
			return 0;
	return 1;
}

/* Drives a call: sends it when there is room again, and takes note of its end. */
static void tend(struct call *c)
{
	if (!c->active)
		return;
	if (c->blocked) {
		if (c->failed || !c->answered.pending)
			c->blocked = 0;
		else
			send_request(c);
	}
	if (!is_over(c)) {
		if (c->answered.pending && milliseconds() - c->answered.since > PATIENCE)
			FAIL("procedure %u is not answered, sent: %d", c->request.procedure,
			     !c->sent.pending);
		return;
	}
	if (c->region)
		OK(fi_close(&c->region->fid));
	c->region = NULL;
	c->active = 0;
	made += !c->failed;
	failed += (unsigned long) c->failed;
	if (tells && made == 1) {
		tells = 0;
		printf("begun\n");
		fflush(stdout);
	}
}

static void wait_a_little(void)
{
	int i, timeout = 1000;

	for (i = 0; i < WINDOW; i++)
		if (calls[i].active && calls[i].blocked)
			timeout = 1;
	if (!handle_completions(&self))
		sleep_until_ready(&self, timeout);
}

static unsigned long active_calls(void)
{
	unsigned long active = 0;
	int i;

	for (i = 0; i < WINDOW; i++)
		active += (unsigned long) calls[i].active;
	return active;
}

/* Makes calls until so many have been answered. */
static void make_calls(unsigned long count)
{
	unsigned long failed_before = 0;
	int i;

	while (made < count) {
		for (i = 0; i < WINDOW; i++) {
			tend(&calls[i]);
			if (calls[i].active || failed != failed_before ||
			    made + active_calls() >= count)
				continue;
			start_call(&calls[i], (enum procedure) draw(GOODBYE));
		}
		if (failed != failed_before && all_over()) {
			for (i = 0; i < WINDOW; i++)
				tend(&calls[i]);
			failed_before = failed;
			look_up_again();
			usleep(2000);
		}
		if (active_calls())
			wait_a_little();
	}
}

static void make_one(enum procedure procedure)
{
	start_call(&calls[0], procedure);
	while (calls[0].active) {
		wait_a_little();
		tend(&calls[0]);
	}
	CHECK(!calls[0].failed);
}

/* Asleep, until nobody holds the other end of standard input. */
static void linger(void)
{
	struct pollfd fds[2] = {
		{ .fd = STDIN_FILENO, .events = POLLIN },
		{ .fd = self.epoll_fd, .events = POLLIN },
	};
	struct fid *fids[1] = { &self.cq->fid };

	printf("done\n");
	fflush(stdout);
	do {
		handle_completions(&self);
		if (fi_trywait(self.fabric, fids, 1) == FI_SUCCESS)
			poll(fds, 2, -1);
	} while (!(fds[0].revents & (POLLHUP | POLLIN)));
}

/* A few calls now and then, until nobody holds the other end of standard input. */
static void ponder(void)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };

	do {
		make_calls(made + WINDOW);
	} while (!poll(&input, 1, (int) draw(PAUSE)));
}

/* What its calls and its memory are known by is never that of another client. */
static void open_client(const char *provider, const char *path, uint64_t seed, const char *node,
			const char *service)
{
	FILE *file = fopen(path, "rbe");
	int i;

	CHECK(file);
	CHECK(fread(server_name, 1, sizeof(server_name), file) > 0);
	fclose(file);
	random_state = seed * 0x9e3779b97f4a7c15ull | 1;
	next_tag = (seed << 12 & UINT32_MAX) + 1;
	self.next_key = seed << 20;
	self.ended = ended;
	open_endpoint(&self, provider, node, service, 512);
	EQUAL(fi_av_insert(self.av, server_name, 1, &server, 0, NULL), 1);
	for (i = 0; i < WINDOW; i++) {
		calls[i].memory = malloc(BULK_ROOM);
		calls[i].message = malloc(REQUEST_ROOM);
		calls[i].answer = malloc(BULK_ROOM);
		CHECK(calls[i].memory && calls[i].message && calls[i].answer);
	}
}

int main(int argc, char **argv)
{
	const char *way = argc > 5 ? argv[5] : "";
	int i;

	CHECK(argc > 4);
	deadline(DEADLINE_SECONDS);
	role = atoi(argv[4]);
	tells = !strcmp(way, "tell");
	open_client(argv[1], argv[2], strtoull(argv[4], NULL, 10), argc > 7 ? argv[6] : NULL,
		    argc > 7 ? argv[7] : NULL);
	make_calls(strtoul(argv[3], NULL, 10));
	if (!strcmp(way, "linger"))
		linger();
	if (!strcmp(way, "ponder"))
		ponder();
	make_one(!strcmp(way, "stop") ? STOP : GOODBYE);
	close_endpoint(&self);
	for (i = 0; i < WINDOW; i++) {
		free(calls[i].memory);
		free(calls[i].message);
		free(calls[i].answer);
	}
	printf("made %lu failed %lu cancelled %lu posted %lu completed %lu\n", made, failed,
	       cancelled, self.posted, self.completed);
	return 0;
}
