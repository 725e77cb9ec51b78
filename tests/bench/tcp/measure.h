/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What is measured between a server and a client, whatever carries their messages:
 *
 *	PROGRAM server|client ... latency|rate|bandwidth|sizes COUNT
 *
 * The client prints one number: microseconds of half a round trip of SMALL bytes, millions of
 * messages of SMALL bytes in a second, or GB/s of messages of LARGE bytes.  The latter two send a
 * window of messages and wait for one that says that all of them are there, as MPI benchmarks do.
 * Or it prints a line for each of many sizes: the size, and the three numbers for messages of it.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SMALL		((size_t) 8)
#define LARGE		((size_t) 1 << 20)
#define SMALL_WINDOW	64
#define LARGE_WINDOW	16
#define DEADLINE	60

/* From the least to what fills a window alone, and on both sides of where ways change. */
static const size_t SIZES[] = {
	1, 8, 64, 256, 1 << 10, 4 << 10, 6 << 10, 8 << 10, 12 << 10, 16 << 10, 24 << 10, 32 << 10,
	48 << 10, 64 << 10, 96 << 10, 128 << 10, 192 << 10, 256 << 10, 512 << 10, 1 << 20, 4 << 20,
};
/* Bytes in one direction that one size's measurement sends at most. */
#define MOST		((size_t) 128 << 20)

/* What carries messages.  Those of one direction arrive in order. */
struct carrier {
	/* Names the places for the next messages, all of one size. */
	void	(*expect)(int count, size_t size);
	/* Begins to send messages of one size. */
	void	(*send)(int count, size_t size);
	/* Waits for the messages expected, and for the end of all that was sent. */
	void	(*finish)(void);
};

/* The messages of the largest window, one behind the other, in each direction. */
static char *outgoing, *incoming;

static inline void fail(const char *format, ...)
	__attribute__((format(printf, 1, 2), noreturn));

static inline void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

static inline double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

/* For whoever starts the client. */
static inline void ready(void)
{
	puts("ready");
	fflush(stdout);
}

/* A window is answered with one message; one message, with one like it. */
static size_t answer_to(int window, size_t size)
{
	return window == 1 ? size : SMALL;
}

/* The client begins with a window, which the server answers with one message. */
static void ask(const struct carrier *carrier, int rounds, int window, size_t size)
{
	for (int i = 0; i < rounds; i++) {
		carrier->expect(1, answer_to(window, size));
		carrier->send(window, size);
		carrier->finish();
	}
}

/* Places are there before the client may send to them. */
static void answer(const struct carrier *carrier, int rounds, int window, size_t size)
{
	carrier->expect(window, size);
	for (int i = 0; i < rounds; i++) {
		carrier->finish();
		if (i + 1 < rounds)
			carrier->expect(window, size);
		carrier->send(1, answer_to(window, size));
	}
	carrier->finish();
}

/* The time of so many rounds, behind a tenth of them. */
static double timed(const struct carrier *carrier, int is_server, int rounds, int window,
		    size_t size)
{
	double begin;

	if (is_server) {
		answer(carrier, rounds / 10 + 1, window, size);
		answer(carrier, rounds, window, size);
		return 0;
	}
	ask(carrier, rounds / 10 + 1, window, size);
	begin = now();
	ask(carrier, rounds, window, size);
	return now() - begin;
}

static int at_most(int count, size_t limit)
{
	return (size_t) count < limit ? count : (int) limit;
}

/* As many round trips as there are rounds, and a tenth as many windows, but for large messages. */
static void measure_size(const struct carrier *carrier, int is_server, int rounds, size_t size)
{
	const int trips = at_most(rounds, MOST / size + 1);
	const int window = at_most(SMALL_WINDOW, LARGE_WINDOW * LARGE / size);
	const int windows = at_most(rounds / 10 + 1, MOST / size / (size_t) window + 1);
	const double trip = timed(carrier, is_server, trips, 1, size) / trips;
	const double message = timed(carrier, is_server, windows, window, size) / windows / window;

	if (!is_server)
		printf("%zu %.4f %.4f %.4f\n", size, trip / 2 * 1e6, 1 / message / 1e6,
		       (double) size / message / 1e9);
}

static inline void measure(const struct carrier *carrier, int is_server, char **args)
{
	const char *what = args[0];
	const int rounds = atoi(args[1]), is_latency = !strcmp(what, "latency");
	const int is_rate = !strcmp(what, "rate");
	const int window = is_latency ? 1 : is_rate ? SMALL_WINDOW : LARGE_WINDOW;
	const size_t size = is_latency || is_rate ? SMALL : LARGE;
	double seconds;

	if (rounds < 1)
		fail("%s: no number of rounds", args[1]);
	alarm(DEADLINE);
	outgoing = malloc(LARGE_WINDOW * LARGE);
	incoming = malloc(LARGE_WINDOW * LARGE);
	if (!outgoing || !incoming)
		fail("no memory");
	memset(outgoing, 0x55, LARGE_WINDOW * LARGE);
	memset(incoming, 0, LARGE_WINDOW * LARGE);
	if (!strcmp(what, "sizes")) {
		for (size_t i = 0; i < sizeof(SIZES) / sizeof(SIZES[0]); i++)
			measure_size(carrier, is_server, rounds, SIZES[i]);
		return;
	}
	seconds = timed(carrier, is_server, rounds, window, size);
	if (is_server)
		return;
	if (is_latency)
		printf("%.4f\n", seconds / rounds / 2 * 1e6);
	else if (is_rate)
		printf("%.4f\n", (double) rounds * window / seconds / 1e6);
	else
		printf("%.4f\n", (double) rounds * window * (double) size / seconds / 1e9);
}
