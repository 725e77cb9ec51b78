/*
 * A small MPI job over whatever libfabric the MPI library loads: point-to-point with checked
 * contents, wildcards and probes, collectives, one-sided access. Any number of ranks from two.
 *
 * Rank 0 prints one line for each part that passed and a table of ping-pong times; every rank
 * prints the libfabric that it has mapped. A wrong byte ends the job with status 1.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LARGEST (4u << 20)

static int rank, ranks;

static void fail(const char *part, const char *what)
{
	fprintf(stderr, "rank %d: %s: %s\n", rank, part, what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void passed(const char *part)
{
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0) {
		printf("ok %s\n", part);
		fflush(stdout);
	}
}

static void fill(unsigned char *bytes, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len; i++)
		bytes[i] = (unsigned char)(i * 31u + (i >> 8) + seed);
}

static int filled(const unsigned char *bytes, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len; i++)
		if (bytes[i] != (unsigned char)(i * 31u + (i >> 8) + seed))
			return 0;
	return 1;
}

/* The kernel's list of this process's mappings says which library was loaded. */
static void show_library(void)
{
	char line[4096];
	FILE *maps = fopen("/proc/self/maps", "r");

	while (maps && fgets(line, sizeof(line), maps)) {
		char *path = strchr(line, '/');

		if (path && strstr(path, "/libfabric.so")) {
			printf("maps %d %s", (int)getpid(), path);
			break;
		}
	}
	if (maps)
		fclose(maps);
	fflush(stdout);
}

/* Every size crosses both ways, odd lengths included. */
static void ring_of_sizes(unsigned char *out, unsigned char *in)
{
	static const size_t sizes[] = { 0, 1, 7, 64, 255, 4096, 4097, 16384, 16385, 65536, 300001,
					1u << 20, LARGEST };
	int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t len = sizes[i];
		MPI_Status status;
		int count;

		fill(out, len, (unsigned int)rank);
		memset(in, 0xee, len);
		MPI_Sendrecv(out, (int)len, MPI_BYTE, next, 5, in, (int)len, MPI_BYTE, previous, 5,
			     MPI_COMM_WORLD, &status);
		MPI_Get_count(&status, MPI_BYTE, &count);
		if ((size_t)count != len || !filled(in, len, (unsigned int)previous))
			fail("send and receive", "wrong length or contents");
	}
	passed("send and receive");
}

/* Messages that arrive before their receives, taken in another order. */
static void unexpected(unsigned char *out, unsigned char *in)
{
	enum { COUNT = 64, LEN = 20000 };
	int partner = rank ^ 1;

	if (partner < ranks) {
		MPI_Request sends[COUNT];

		for (int i = 0; i < COUNT; i++) {
			size_t len = i % 4 ? 32 : LEN;

			fill(out + (size_t)i * LEN, len, (unsigned int)(rank * 100 + i));
			MPI_Isend(out + (size_t)i * LEN, (int)len, MPI_BYTE, partner, i,
				  MPI_COMM_WORLD, &sends[i]);
		}
		for (int i = COUNT - 1; i >= 0; i--) {
			size_t len = i % 4 ? 32 : LEN;

			MPI_Recv(in, LEN, MPI_BYTE, partner, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			if (!filled(in, len, (unsigned int)(partner * 100 + i)))
				fail("unexpected messages", "wrong contents");
		}
		MPI_Waitall(COUNT, sends, MPI_STATUSES_IGNORE);
	}
	passed("unexpected messages");
}

static void probes(void)
{
	if (rank == 0) {
		for (int i = 1; i < ranks; i++) {
			MPI_Message message;
			MPI_Status status;
			int count, values[64];

			MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
			MPI_Get_count(&status, MPI_INT, &count);
			MPI_Mrecv(values, count, MPI_INT, &message, MPI_STATUS_IGNORE);
			if (count != status.MPI_SOURCE % 64 + 1 || values[0] != status.MPI_TAG)
				fail("probes", "another message than the one probed");
		}
	} else {
		int values[64] = { rank + 1000 };

		MPI_Send(values, rank % 64 + 1, MPI_INT, 0, rank + 1000, MPI_COMM_WORLD);
	}
	passed("wildcards and probes");
}

/*
 * A message of a rank to itself and one from another rank match the same wildcard. Returns how many
 * of the receives that followed a probe took another message than the probe named, at rank 1.
 */
static int upset_probes(int rounds)
{
	enum { TAG = 6 };
	int upset = 0;

	for (int i = 0; i < rounds; i++) {
		int values[4] = { i, i }, arrived = 0;
		MPI_Request own;

		MPI_Barrier(MPI_COMM_WORLD);
		if (rank == 0)
			MPI_Send(values, 2, MPI_INT, 1, TAG, MPI_COMM_WORLD);
		if (rank != 1)
			continue;

		MPI_Isend(&i, 1, MPI_INT, 1, TAG, MPI_COMM_WORLD, &own);
		while (!arrived)
			MPI_Iprobe(0, TAG, MPI_COMM_WORLD, &arrived, MPI_STATUS_IGNORE);
		for (int k = 0; k < 2; k++) {
			MPI_Status named, taken;
			int expected, count;

			MPI_Probe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &named);
			MPI_Get_count(&named, MPI_INT, &expected);
			MPI_Recv(values, 4, MPI_INT, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &taken);
			MPI_Get_count(&taken, MPI_INT, &count);
			upset += named.MPI_SOURCE != taken.MPI_SOURCE || expected != count;
		}
		MPI_Wait(&own, MPI_STATUS_IGNORE);
	}
	return upset;
}

/*
 * MPICH keeps messages to itself apart from those of the fabric, probes the fabric first and
 * receives its own first: probes and receives agree as far as a probe of the fabric brings nothing
 * new in. Where it does, a third of the rounds and more are upset. What other calls brought in
 * upsets some on any libfabric, more of them on a crowded host, hence the share and the tries.
 */
static void probes_beside_own_messages(void)
{
	enum { ROUNDS = 200, TRIES = 5 };
	int upset = ROUNDS;

	for (int i = 0; i < TRIES && upset > ROUNDS / 10; i++) {
		upset = upset_probes(ROUNDS);
		MPI_Bcast(&upset, 1, MPI_INT, 1, MPI_COMM_WORLD);
	}
	if (upset > ROUNDS / 10)
		fail("probes", "receives took other messages than the probes named");
	passed("probes beside own messages");
}

static void collectives(void)
{
	enum { COUNT = 50000 };
	double *mine = malloc(COUNT * sizeof(*mine)), *sums = malloc(COUNT * sizeof(*sums));
	int *table = malloc((size_t)ranks * sizeof(*table)), *turned = malloc((size_t)ranks * sizeof(*table));

	if (!mine || !sums || !table || !turned)
		fail("collectives", "no memory");
	for (int i = 0; i < COUNT; i++)
		mine[i] = rank + i;
	MPI_Allreduce(mine, sums, COUNT, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < COUNT; i++)
		if (sums[i] != ranks * (ranks - 1) / 2.0 + (double)i * ranks)
			fail("collectives", "wrong sum");
	for (int i = 0; i < ranks; i++)
		table[i] = rank * 1000 + i;
	MPI_Alltoall(table, 1, MPI_INT, turned, 1, MPI_INT, MPI_COMM_WORLD);
	for (int i = 0; i < ranks; i++)
		if (turned[i] != i * 1000 + rank)
			fail("collectives", "wrong exchange");
	free(mine);
	free(sums);
	free(table);
	free(turned);
	passed("allreduce and alltoall");
}

/* Every rank writes to its neighbour's window, reads it back, and counts at rank 0. */
static void windows(unsigned char *out, unsigned char *in)
{
	enum { LEN = 1 << 18 };
	unsigned char *memory;
	int64_t one = 1, old, *counter;
	int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
	MPI_Win window, counts;

	MPI_Win_allocate(LEN, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
	MPI_Win_allocate(sizeof(*counter), sizeof(*counter), MPI_INFO_NULL, MPI_COMM_WORLD, &counter,
			 &counts);
	memset(memory, 0, LEN);
	*counter = 0;
	MPI_Win_fence(0, window);
	fill(out, LEN, (unsigned int)rank);
	MPI_Put(out, LEN, MPI_BYTE, next, 0, LEN, MPI_BYTE, window);
	MPI_Win_fence(0, window);
	if (!filled(memory, LEN, (unsigned int)previous))
		fail("windows", "wrong bytes after a put");
	memset(in, 0, LEN);
	MPI_Get(in, LEN - 3, MPI_BYTE, next, 3, LEN - 3, MPI_BYTE, window);
	MPI_Win_fence(0, window);
	if (memcmp(in, out + 3, LEN - 3) != 0)
		fail("windows", "wrong bytes after a get");

	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, counts);
	for (int i = 0; i < 100; i++) {
		MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 0, 0, MPI_SUM, counts);
		MPI_Win_flush(0, counts);
	}
	MPI_Win_unlock_all(counts);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, counts);
	if (rank == 0 && *counter != 100 * (int64_t)ranks)
		fail("windows", "updates were lost");
	MPI_Win_unlock(rank, counts);
	MPI_Win_free(&window);
	MPI_Win_free(&counts);
	passed("put, get, fetch and add");
}

static void ping_pong(unsigned char *bytes)
{
	static const struct {
		size_t size;
		int rounds;
	} runs[] = { { 8, 2000 }, { 1024, 2000 }, { 65536, 500 }, { 1u << 20, 100 }, { LARGEST, 30 } };

	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]) && rank < 2; i++) {
		int len = (int)runs[i].size;
		double start = 0;

		/* The first rounds set the pair up. */
		for (int round = -10; round < runs[i].rounds; round++) {
			if (round == 0)
				start = MPI_Wtime();
			if (rank == 0)
				MPI_Send(bytes, len, MPI_BYTE, 1, 9, MPI_COMM_WORLD);
			MPI_Recv(bytes, len, MPI_BYTE, 1 - rank, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			if (rank == 1)
				MPI_Send(bytes, len, MPI_BYTE, 0, 9, MPI_COMM_WORLD);
		}
		if (rank == 0)
			printf("time %d %.3f\n", len,
			       (MPI_Wtime() - start) * 1e6 / (2.0 * runs[i].rounds));
	}
	passed("ping-pong");
}

int main(int argc, char **argv)
{
	unsigned char *out, *in;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	out = malloc(LARGEST);
	in = malloc(LARGEST);
	if (!out || !in || ranks < 2)
		fail("start", "needs two ranks and memory");
	show_library();
	printf("hello %d of %d\n", rank, ranks);
	fflush(stdout);
	passed("start");
	ring_of_sizes(out, in);
	unexpected(out, in);
	probes();
	probes_beside_own_messages();
	collectives();
	windows(out, in);
	ping_pong(out);
	free(out);
	free(in);
	MPI_Finalize();
	if (rank == 0)
		printf("ok end\n");
	return 0;
}
