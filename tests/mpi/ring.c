/*
 * The smallest MPI job that shows which way messages go: a message round all ranks.
 */
#include "job.h"

int main(int argc, char **argv)
{
	unsigned char out[4096], in[4096];

	start(&argc, &argv);
	fill(out, sizeof(out), (unsigned int)rank);
	MPI_Sendrecv(out, sizeof(out), MPI_BYTE, (rank + 1) % ranks, 1, in, sizeof(in), MPI_BYTE,
		     (rank + ranks - 1) % ranks, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (!filled(in, sizeof(in), (unsigned int)((rank + ranks - 1) % ranks)))
		fail("ring", "wrong contents");
	passed("ring");
	return end();
}
