/*
 * The floor under every shared-memory latency: two pinned processes pass one cache line each way
 * in turn. Prints half a round trip in nanoseconds, the least and the median of several batches.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BATCHES 21
#define ROUNDS 20000u

struct line {
	_Alignas(64) atomic_uint turn;
};

/* One line is written by each side only. The padding keeps prefetched neighbours apart. */
struct board {
	struct line ping, unused[3], pong;
};

static int pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void await(atomic_uint *turn, unsigned int wanted)
{
	while (atomic_load_explicit(turn, memory_order_acquire) != wanted)
		;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	int cpus[2] = { argc > 1 ? atoi(argv[1]) : 0, argc > 2 ? atoi(argv[2]) : 1 };
	struct board *board;
	double nanos[BATCHES];
	unsigned int turn = 0, last = BATCHES * ROUNDS;
	pid_t child;
	int status;

	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		     -1, 0);
	if (board == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	child = fork();
	if (child < 0) {
		perror("fork");
		return 1;
	}
	if (pin(cpus[child == 0])) {
		perror("sched_setaffinity");
		/* The other side would wait for ever. */
		if (child > 0)
			kill(child, SIGKILL);
		else
			kill(getppid(), SIGKILL);
		return 1;
	}
	if (child == 0) {
		for (turn = 1; turn <= last; turn++) {
			await(&board->ping.turn, turn);
			atomic_store_explicit(&board->pong.turn, turn, memory_order_release);
		}
		_exit(0);
	}
	for (int batch = 0; batch < BATCHES; batch++) {
		double start = now();

		for (unsigned int round = 0; round < ROUNDS; round++) {
			turn++;
			atomic_store_explicit(&board->ping.turn, turn, memory_order_release);
			await(&board->pong.turn, turn);
		}
		nanos[batch] = (now() - start) / (2.0 * ROUNDS);
	}
	waitpid(child, &status, 0);
	qsort(nanos, BATCHES, sizeof(nanos[0]), ascending);
	printf("%.1f %.1f\n", nanos[0], nanos[BATCHES / 2]);
	return status != 0;
}
