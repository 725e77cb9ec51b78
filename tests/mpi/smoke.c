/*
 * A small MPI job over whatever libfabric the MPI library loads: point-to-point with checked
 * contents, wildcards and probes, collectives, one-sided access. Any number of ranks from two.
 *
 * Rank 0 prints one line for each part that passed and a table of ping-pong times; every rank
 * prints the libfabric that it has mapped. A wrong byte ends the job with status 1.
 */
#include "job.h"

#define LARGEST (4u << 20)

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
static inline int upset_probes(int rounds)
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
static inline void probes_beside_own_messages(void)
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
	int *table = malloc((size_t)ranks * sizeof(*table));
	int *turned = malloc((size_t)ranks * sizeof(*turned));

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

static void roots(int *values, int *all, int count)
{
	for (int root = 0; root < ranks; root++) {
		for (int i = 0; i < count; i++)
			values[i] = rank == root ? root * 7 + i : -1;
		MPI_Bcast(values, count, MPI_INT, root, MPI_COMM_WORLD);
		for (int i = 0; i < count; i++)
			if (values[i] != root * 7 + i)
				fail("collectives", "wrong broadcast");
		for (int i = 0; i < count; i++)
			values[i] = rank * 5 + i;
		MPI_Gather(values, count, MPI_INT, all, count, MPI_INT, root, MPI_COMM_WORLD);
		for (int i = 0; rank == root && i < ranks * count; i++)
			if (all[i] != i / count * 5 + i % count)
				fail("collectives", "wrong gather");
		/* What was gathered is scattered again. */
		memset(values, 0xff, (size_t)count * sizeof(*values));
		MPI_Scatter(all, count, MPI_INT, values, count, MPI_INT, root, MPI_COMM_WORLD);
		for (int i = 0; i < count; i++)
			if (values[i] != rank * 5 + i)
				fail("collectives", "wrong scatter");
		for (int i = 0; i < count; i++)
			values[i] = (rank + i) % 11;
		MPI_Reduce(values, all, count, MPI_INT, MPI_MAX, root, MPI_COMM_WORLD);
		for (int i = 0; rank == root && i < count; i++) {
			int most = 0;

			for (int k = 0; k < ranks; k++)
				most = (k + i) % 11 > most ? (k + i) % 11 : most;
			if (all[i] != most)
				fail("collectives", "wrong maximum");
		}
	}
}

static void everyone(int *values, int *all, int count)
{
	MPI_Request pending[2];

	for (int i = 0; i < count; i++)
		values[i] = rank * 5 + i;
	MPI_Allgather(values, count, MPI_INT, all, count, MPI_INT, MPI_COMM_WORLD);
	for (int i = 0; i < ranks * count; i++)
		if (all[i] != i / count * 5 + i % count)
			fail("collectives", "wrong allgather");
	/* A barrier and a sum under way at once. */
	MPI_Ibarrier(MPI_COMM_WORLD, &pending[0]);
	MPI_Iallreduce(values, all, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &pending[1]);
	MPI_Waitall(2, pending, MPI_STATUSES_IGNORE);
	for (int i = 0; i < count; i++)
		if (all[i] != 5 * ranks * (ranks - 1) / 2 + ranks * i)
			fail("collectives", "wrong sum");
	MPI_Scan(values, all, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < count; i++)
		if (all[i] != 5 * rank * (rank + 1) / 2 + (rank + 1) * i)
			fail("collectives", "wrong running sum");
}

static void more_collectives(void)
{
	static const int counts[] = { 1, 17, 1000, 20000, 100000 };

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		size_t bytes = (size_t)counts[i] * sizeof(int);
		int *values = malloc(bytes), *all = malloc(bytes * (size_t)ranks);

		if (!values || !all)
			fail("collectives", "no memory");
		roots(values, all, counts[i]);
		everyone(values, all, counts[i]);
		free(values);
		free(all);
	}
	passed("other collectives");
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

	start(&argc, &argv);
	out = malloc(LARGEST);
	in = malloc(LARGEST);
	if (!out || !in)
		fail("start", "no memory");
	passed("start");
	ring_of_sizes(out, in);
	unexpected(out, in);
	probes();
	/* Open MPI takes sources in turn: its probes and receives differ on every transport. */
#ifndef OPEN_MPI
	/* The share is judged where each rank has a processor; more ranks upset more on any libfabric. */
	if (ranks == 2)
		probes_beside_own_messages();
#endif
	collectives();
	more_collectives();
	windows(out, in);
	ping_pong(out);
	free(out);
	free(in);
	return end();
}
