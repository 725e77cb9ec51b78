/*
 * What the MPI jobs share. Rank 0 prints `ok PART` for each part that passed on every rank, each
 * rank the libfabric that it has mapped. A wrong byte ends the job with status 1.
 */
#ifndef PERCALE_JOB_H
#define PERCALE_JOB_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, ranks;

/* Ends the whole job. */
static inline void fail(const char *part, const char *what)
{
	fprintf(stderr, "rank %d: %s: %s\n", rank, part, what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Every rank has come to here. */
static inline void passed(const char *part)
{
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0) {
		printf("ok %s\n", part);
		fflush(stdout);
	}
}

static inline void fill(unsigned char *bytes, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len; i++)
		bytes[i] = (unsigned char)(i * 31u + (i >> 8) + seed);
}

static inline int filled(const unsigned char *bytes, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len; i++)
		if (bytes[i] != (unsigned char)(i * 31u + (i >> 8) + seed))
			return 0;
	return 1;
}

/* The kernel's list of this process's mappings says which library was loaded. */
static inline void show_library(void)
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

static inline void start(int *argc, char ***argv)
{
	MPI_Init(argc, argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (ranks < 2)
		fail("start", "needs two ranks");
	show_library();
}

static inline int end(void)
{
	MPI_Finalize();
	if (rank == 0)
		printf("ok end\n");
	return 0;
}

#endif
