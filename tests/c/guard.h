/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Memory that ends at a page nobody may touch: reading past its end is a fault. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Zeroed, and never given back: the programs that use it are short. */
static void *guarded(size_t size)
{
	const size_t page = (size_t) sysconf(_SC_PAGESIZE);
	const size_t room = (size + page - 1) / page * page;
	char *start = (char *) mmap(NULL, room + page, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (start == (char *) MAP_FAILED || mprotect(start + room, page, PROT_NONE)) {
		perror("guarded memory");
		_exit(3);
	}
	return start + room - size;
}

static char *guarded_text(const char *text)
{
	const size_t size = strlen(text) + 1;

	return (char *) memcpy(guarded(size), text, size);
}
