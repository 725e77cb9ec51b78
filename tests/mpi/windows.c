/*
 * One-sided access with every byte checked. Any number of ranks from two.
 *
 * All parts run twice: as a program usually makes its windows, and with promises
 * that let the MPI library leave accumulates to the atomics of the network.
 */
#include "job.h"

#define CELLS 4096

/* How this round's windows are made. */
static MPI_Info promises;
static const char *kind;

static void done(const char *part)
{
	char name[80];

	snprintf(name, sizeof(name), "%s (%s)", part, kind);
	passed(name);
}

static void *window_of(size_t bytes, int unit, MPI_Win *window)
{
	void *memory;

	MPI_Win_allocate((MPI_Aint)bytes, unit, promises, MPI_COMM_WORLD, &memory, window);
	/* The lock makes the stores visible, whatever the window's memory model. */
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, *window);
	memset(memory, 0, bytes);
	MPI_Win_unlock(rank, *window);
	MPI_Barrier(MPI_COMM_WORLD);
	return memory;
}

/* Each rank has a lane in the window of every rank, itself included; small and large, odd sizes. */
static void lanes(void)
{
	static const size_t sizes[] = { 1, 63, 4097, 65536, 65537, 200001, 1u << 20 };
	const size_t lane = 1u << 20;
	unsigned char *out = malloc(lane), *in = malloc(lane), *memory;
	MPI_Win window;

	if (!out || !in)
		fail("put and get", "no memory");
	memory = window_of(lane * (size_t)ranks, 1, &window);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		int len = (int)sizes[i];

		fill(out, sizes[i], (unsigned int)(rank + len));
		MPI_Win_fence(0, window);
		for (int to = 0; to < ranks; to++)
			MPI_Put(out, len, MPI_BYTE, to, (MPI_Aint)(lane * (size_t)rank), len, MPI_BYTE,
				window);
		MPI_Win_fence(0, window);
		for (int from = 0; from < ranks; from++)
			if (!filled(memory + lane * (size_t)from, sizes[i], (unsigned int)(from + len)))
				fail("put and get", "wrong bytes were put");
		for (int from = 0; from < ranks; from++) {
			int whose = (from + rank) % ranks;

			memset(in, 0xee, sizes[i]);
			MPI_Win_lock(MPI_LOCK_SHARED, from, 0, window);
			MPI_Get(in, len, MPI_BYTE, from, (MPI_Aint)(lane * (size_t)whose), len, MPI_BYTE,
				window);
			MPI_Win_unlock(from, window);
			if (!filled(in, sizes[i], (unsigned int)(whose + len)))
				fail("put and get", "wrong bytes were got");
		}
	}
	MPI_Win_free(&window);
	free(out);
	free(in);
	done("put and get");
}

/* Every third cell, by a datatype at both sides; a window that neighbours open to each other. */
static void columns(void)
{
	enum { COUNT = 500, STRIDE = 3 };
	int32_t out[COUNT * STRIDE], in[COUNT * STRIDE], *memory;
	int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
	MPI_Group all, to, from;
	MPI_Datatype column;
	MPI_Win window;

	memory = window_of(sizeof(out), sizeof(*memory), &window);
	MPI_Type_vector(COUNT, 1, STRIDE, MPI_INT32_T, &column);
	MPI_Type_commit(&column);
	MPI_Comm_group(MPI_COMM_WORLD, &all);
	MPI_Group_incl(all, 1, &next, &to);
	MPI_Group_incl(all, 1, &previous, &from);
	for (int i = 0; i < COUNT * STRIDE; i++) {
		out[i] = rank * 10000 + i;
		in[i] = -1;
	}
	MPI_Win_post(from, 0, window);
	MPI_Win_start(to, 0, window);
	MPI_Put(out, 1, column, next, 1, 1, column, window);
	MPI_Win_complete(window);
	MPI_Win_wait(window);
	for (int i = 0; i < COUNT * STRIDE; i++)
		if (memory[i] != (i % STRIDE == 1 ? previous * 10000 + i - 1 : 0))
			fail("strided access", "a wrong cell was put");
	MPI_Win_post(from, 0, window);
	MPI_Win_start(to, 0, window);
	MPI_Get(in + 2, 1, column, next, 1, 1, column, window);
	MPI_Win_complete(window);
	MPI_Win_wait(window);
	for (int i = 0; i < COUNT * STRIDE; i++)
		if (in[i] != (i % STRIDE == 2 ? rank * 10000 + i - 2 : -1))
			fail("strided access", "a wrong cell was got");
	MPI_Group_free(&all);
	MPI_Group_free(&to);
	MPI_Group_free(&from);
	MPI_Type_free(&column);
	MPI_Win_free(&window);
	done("strided access");
}

/* Operations in flight together, each with a request of its own. */
static void requests(void)
{
	enum { COUNT = 64, LEN = 3000 };
	unsigned char *out = malloc(COUNT * LEN), *in = malloc(COUNT * LEN);
	int next = (rank + 1) % ranks;
	MPI_Request pending[COUNT];
	MPI_Win window;

	if (!out || !in)
		fail("requests", "no memory");
	window_of(COUNT * LEN, 1, &window);
	fill(out, COUNT * LEN, (unsigned int)rank);
	MPI_Win_lock_all(0, window);
	for (int i = 0; i < COUNT; i++)
		MPI_Rput(out + i * LEN, LEN, MPI_BYTE, next, i * LEN, LEN, MPI_BYTE, window, &pending[i]);
	MPI_Waitall(COUNT, pending, MPI_STATUSES_IGNORE);
	MPI_Win_flush(next, window);
	for (int i = COUNT - 1; i >= 0; i--)
		MPI_Rget(in + i * LEN, LEN, MPI_BYTE, next, i * LEN, LEN, MPI_BYTE, window, &pending[i]);
	MPI_Waitall(COUNT, pending, MPI_STATUSES_IGNORE);
	MPI_Win_unlock_all(window);
	if (memcmp(in, out, COUNT * LEN) != 0)
		fail("requests", "wrong bytes");
	MPI_Win_free(&window);
	free(out);
	free(in);
	done("requests");
}

/*
 * All ranks add to all cells of all ranks, in every type: `CELLS` values in one operation and
 * single ones. Values are small integers, so that sums are exact in each type.
 */
#define DEFINE_SUMS(name, type, mpi_type)                                                         \
	static void name(void)                                                                     \
	{                                                                                          \
		type *out = malloc(CELLS * sizeof(*out)), *memory;                                 \
		MPI_Win window;                                                                    \
                                                                                                   \
		if (!out)                                                                          \
			fail("accumulate", "no memory");                                           \
		memory = window_of(CELLS * sizeof(*memory), sizeof(*memory), &window);             \
		for (int i = 0; i < CELLS; i++)                                                    \
			out[i] = (type)(rank + i % 7);                                             \
		MPI_Win_fence(0, window);                                                          \
		for (int to = 0; to < ranks; to++) {                                               \
			MPI_Accumulate(out, CELLS, mpi_type, to, 0, CELLS, mpi_type, MPI_SUM,      \
				       window);                                                    \
			for (int i = 0; i < 10; i++)                                               \
				MPI_Accumulate(out + i, 1, mpi_type, to, i, 1, mpi_type, MPI_SUM,  \
					       window);                                            \
		}                                                                                  \
		MPI_Win_fence(0, window);                                                          \
		for (int i = 0; i < CELLS; i++) {                                                  \
			type sum = (type)(ranks * (ranks - 1) / 2 + ranks * (i % 7));              \
                                                                                                   \
			if (memory[i] != (type)(i < 10 ? 2 * sum : sum))                           \
				fail("accumulate", "wrong sum in " #type);                         \
		}                                                                                  \
		MPI_Win_free(&window);                                                             \
		free(out);                                                                         \
	}

DEFINE_SUMS(sums_int8, int8_t, MPI_INT8_T)
DEFINE_SUMS(sums_uint16, uint16_t, MPI_UINT16_T)
DEFINE_SUMS(sums_int32, int32_t, MPI_INT32_T)
DEFINE_SUMS(sums_uint64, uint64_t, MPI_UINT64_T)
DEFINE_SUMS(sums_float, float, MPI_FLOAT)
DEFINE_SUMS(sums_double, double, MPI_DOUBLE)

static void accumulates(void)
{
	sums_int8();
	sums_uint16();
	sums_int32();
	sums_uint64();
	sums_float();
	sums_double();
	done("accumulate");
}

/* One cell for each operation, changed by every rank; no outcome depends on their order. */
static void operations(void)
{
	enum { SUM, PRODUCT, MAX, MIN, OR, AND, XOR, COUNT };
	const MPI_Op table[COUNT] = { MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN,
				      MPI_BOR, MPI_BAND, MPI_BXOR };
	uint32_t bit = 1u << rank, mine[COUNT] = { bit, 3, bit, bit, bit, ~bit, bit };
	uint32_t expected[COUNT] = { 0, 1, 1u << (ranks - 1), 1, 0, ~0u, 0 }, *memory, old;
	MPI_Win window;

	memory = window_of(sizeof(mine), sizeof(*memory), &window);
	if (rank == 0) {
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
		memory[PRODUCT] = 1;
		memory[MIN] = memory[AND] = ~0u;
		MPI_Win_unlock(0, window);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < ranks; i++) {
		expected[SUM] |= 1u << i;
		expected[PRODUCT] *= 3;
		expected[AND] &= ~(1u << i);
	}
	expected[OR] = expected[XOR] = expected[SUM];
	MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
	for (int i = 0; i < COUNT; i++) {
		if ((i + rank) % 2)
			MPI_Accumulate(&mine[i], 1, MPI_UINT32_T, 0, i, 1, MPI_UINT32_T, table[i], window);
		else
			MPI_Fetch_and_op(&mine[i], &old, MPI_UINT32_T, 0, i, table[i], window);
		MPI_Win_flush(0, window);
	}
	MPI_Win_unlock(0, window);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
	if (rank == 0 && memcmp(memory, expected, sizeof(expected)) != 0)
		fail("operations", "a cell has a wrong value");
	MPI_Win_unlock(rank, window);
	MPI_Win_free(&window);
	done("operations");
}

/* What was there comes back whole, and what replaces it arrives whole, many elements at once. */
static void exchanges(void)
{
	int64_t *mine = malloc(CELLS * sizeof(*mine)), *old = malloc(CELLS * sizeof(*old)), *memory, sum;
	int64_t before = 0, after = 0;
	MPI_Win window;

	if (!mine || !old)
		fail("get and accumulate", "no memory");
	memory = window_of(CELLS * sizeof(*memory), sizeof(*memory), &window);
	for (int i = 0; i < CELLS; i++)
		mine[i] = ((int64_t)(rank + 1) << 32) + i;
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
	MPI_Get_accumulate(mine, CELLS, MPI_INT64_T, old, CELLS, MPI_INT64_T, 0, 0, CELLS, MPI_INT64_T,
			   MPI_REPLACE, window);
	MPI_Win_unlock(0, window);
	/* A chain: each rank finds what one other left, the first nothing, the last one's stays. */
	for (int i = 0; i < CELLS; i++) {
		if (old[0] ? old[i] != old[0] + i : old[i] != 0)
			fail("get and accumulate", "two ranks' values are mixed");
	}
	before = old[0] >> 32;
	MPI_Allreduce(&before, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
	MPI_Get_accumulate(NULL, 0, MPI_INT64_T, old, CELLS, MPI_INT64_T, 0, 0, CELLS, MPI_INT64_T,
			   MPI_NO_OP, window);
	MPI_Win_unlock(0, window);
	after = old[0] >> 32;
	for (int i = 0; i < CELLS; i++)
		if (old[i] != (after << 32) + i)
			fail("get and accumulate", "what stays is mixed");
	if (sum + after != (int64_t)ranks * (ranks + 1) / 2)
		fail("get and accumulate", "an exchange was lost");
	MPI_Win_free(&window);
	free(mine);
	free(old);
	done("get and accumulate");
}

/* Numbers are drawn from one counter: each comes out once, whoever asks. */
static void tickets(void)
{
	enum { DRAWS = 300 };
	int64_t one = 1, mine[DRAWS], last, *counter, *drawn = NULL;
	MPI_Win window;

	counter = window_of(sizeof(*counter), sizeof(*counter), &window);
	if (rank == 0)
		drawn = calloc((size_t)ranks * DRAWS, sizeof(*drawn));
	MPI_Win_lock_all(0, window);
	for (int i = 0; i < DRAWS; i++) {
		if (i % 2)
			MPI_Fetch_and_op(&one, &mine[i], MPI_INT64_T, 0, 0, MPI_SUM, window);
		else
			MPI_Get_accumulate(&one, 1, MPI_INT64_T, &mine[i], 1, MPI_INT64_T, 0, 0, 1,
					   MPI_INT64_T, MPI_SUM, window);
		MPI_Win_flush(0, window);
		if (i && mine[i] <= mine[i - 1])
			fail("fetch and add", "the counter ran backwards");
	}
	MPI_Win_unlock_all(window);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, window);
	MPI_Fetch_and_op(NULL, &last, MPI_INT64_T, 0, 0, MPI_NO_OP, window);
	MPI_Win_unlock_all(window);
	if (last != (int64_t)ranks * DRAWS)
		fail("fetch and add", "updates were lost");
	MPI_Gather(mine, DRAWS, MPI_INT64_T, drawn, DRAWS, MPI_INT64_T, 0, MPI_COMM_WORLD);
	if (rank == 0) {
		char *seen = calloc((size_t)last, 1);

		for (int64_t i = 0; seen && i < last; i++)
			if (drawn[i] < 0 || drawn[i] >= last || seen[drawn[i]]++)
				fail("fetch and add", "a number was drawn twice");
		free(seen);
		free(drawn);
	}
	(void)counter;
	MPI_Win_free(&window);
	done("fetch and add");
}

/* A lock made of compare-and-swap, around a sum that is read and written in two steps. */
static inline void spin_lock(void)
{
	enum { ROUNDS = 100 };
	int64_t none = 0, me = rank + 1, holder, sum;
	MPI_Win window;

	window_of(2 * sizeof(sum), sizeof(sum), &window);
	MPI_Win_lock_all(0, window);
	for (int i = 0; i < ROUNDS; i++) {
		do {
			MPI_Compare_and_swap(&me, &none, &holder, MPI_INT64_T, ranks - 1, 0, window);
			MPI_Win_flush(ranks - 1, window);
		} while (holder != 0);
		MPI_Get(&sum, 1, MPI_INT64_T, ranks - 1, 1, 1, MPI_INT64_T, window);
		MPI_Win_flush(ranks - 1, window);
		sum += me;
		MPI_Put(&sum, 1, MPI_INT64_T, ranks - 1, 1, 1, MPI_INT64_T, window);
		MPI_Win_flush(ranks - 1, window);
		MPI_Compare_and_swap(&none, &me, &holder, MPI_INT64_T, ranks - 1, 0, window);
		MPI_Win_flush(ranks - 1, window);
		if (holder != me)
			fail("compare and swap", "the lock was taken away");
	}
	MPI_Win_unlock_all(window);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, ranks - 1, 0, window);
	MPI_Get(&sum, 1, MPI_INT64_T, ranks - 1, 1, 1, MPI_INT64_T, window);
	MPI_Win_unlock(ranks - 1, window);
	if (sum != (int64_t)ROUNDS * ranks * (ranks + 1) / 2)
		fail("compare and swap", "the lock did not exclude");
	MPI_Win_free(&window);
	done("compare and swap");
}

/* Memory that joins a window after it was made, at its own address. */
static void attached(void)
{
	enum { LEN = 70000 };
	unsigned char *memory = malloc(LEN), *out = malloc(LEN);
	int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
	MPI_Aint mine, theirs;
	MPI_Win window;

	if (!memory || !out)
		fail("attached memory", "no memory");
	memset(memory, 0, LEN);
	fill(out, LEN, (unsigned int)rank);
	MPI_Win_create_dynamic(promises, MPI_COMM_WORLD, &window);
	MPI_Win_attach(window, memory, LEN);
	MPI_Get_address(memory, &mine);
	MPI_Sendrecv(&mine, 1, MPI_AINT, previous, 1, &theirs, 1, MPI_AINT, next, 1, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
	MPI_Win_fence(0, window);
	MPI_Put(out, LEN, MPI_BYTE, next, theirs, LEN, MPI_BYTE, window);
	MPI_Win_fence(0, window);
	if (!filled(memory, LEN, (unsigned int)previous))
		fail("attached memory", "wrong bytes");
	MPI_Win_detach(window, memory);
	MPI_Win_free(&window);
	free(memory);
	free(out);
	done("attached memory");
}

static void windows(const char *name, MPI_Info info)
{
	kind = name;
	promises = info;
	lanes();
	columns();
	requests();
	accumulates();
	operations();
	exchanges();
	tickets();
	/* The compare-and-swap of Open MPI 4 over btl/ofi does not survive its own call. */
#if !defined(OMPI_MAJOR_VERSION) || OMPI_MAJOR_VERSION >= 5
	spin_lock();
#endif
	attached();
}

int main(int argc, char **argv)
{
	MPI_Info info;

	start(&argc, &argv);
	passed("start");
	windows("plain", MPI_INFO_NULL);
	MPI_Info_create(&info);
	MPI_Info_set(info, "accumulate_ops", "same_op");
	MPI_Info_set(info, "accumulate_ordering", "none");
	MPI_Info_set(info, "which_accumulate_ops", "sum,replace,no_op,cswap");
	windows("promises", info);
	MPI_Info_free(&info);
	return end();
}
