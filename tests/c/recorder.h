/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the slots of the wrapper check were called with, and comparisons with it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RETURNED_INT	0x1eaf
#define RETURNED_WIDE	0x1eaf00000000beefULL
#define MAX_ARGUMENTS	20

/* Targets of pointer arguments: wrappers may read and write through them. */
static uint64_t scratch[MAX_ARGUMENTS][32];

static struct {
	const char	*caller;
	const char	*slot;
	int		calls;
	int		count;
	uintptr_t	arguments[MAX_ARGUMENTS];
} seen;

static int failures;

static void fail(const char *what, unsigned long long is, unsigned long long should)
{
	printf("%s: %s is 0x%llx, should be 0x%llx\n", seen.caller, what, is, should);
	failures++;
}

/* Called by the slots. */
static void enter(const char *slot)
{
	seen.slot = slot;
	seen.calls++;
	seen.count = 0;
}

static void argument(uintptr_t value)
{
	seen.arguments[seen.count++] = value;
}

/* Called by the checks. */
static void begin(const char *caller)
{
	memset(&seen, 0, sizeof(seen));
	seen.caller = caller;
}

static void expect_slot(const char *slot, int count)
{
	if (seen.calls != 1 || !seen.slot || strcmp(seen.slot, slot)) {
		printf("%s: called %s %d times, should call %s once\n", seen.caller,
		       seen.slot ? seen.slot : "nothing", seen.calls, slot);
		failures++;
	} else if (seen.count != count) {
		fail("number of arguments", (unsigned) seen.count, (unsigned) count);
	}
}

static void expect_nothing(void)
{
	if (seen.calls)
		fail("number of calls", (unsigned) seen.calls, 0);
}

static void expect_argument(int position, uintptr_t value)
{
	if (seen.arguments[position] != value)
		fail("an argument", seen.arguments[position], value);
}

static void expect_result(uintptr_t is, uintptr_t should)
{
	if (is != should)
		fail("result", is, should);
}

static void expect(const char *what, unsigned long long is, unsigned long long should)
{
	if (is != should)
		fail(what, is, should);
}
