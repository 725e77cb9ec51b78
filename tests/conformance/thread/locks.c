/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What ThreadSanitizer does not see of Rust's standard library, which is not instrumented: how a
 * lock is taken after waiting for it. Taking a free one and giving it back is inlined into the
 * library under test, and so is seen.
 *
 * The linker sends the three waits here (--wrap); each ends with the acquire load that its last
 * compare-and-exchange implies. It pairs with the release of whoever gave the lock back.
 */
#include <stdint.h>

enum { ACQUIRE = 2 };		/* as the runtime counts memory orders */

uint32_t __tsan_atomic32_load(const volatile uint32_t *word, int order);

#define WAIT_OF(symbol)		WAIT(symbol)
#define WAIT(symbol)							\
	void __real_##symbol(uint32_t *lock);				\
	void __wrap_##symbol(uint32_t *lock);				\
	void __wrap_##symbol(uint32_t *lock)				\
	{								\
		__real_##symbol(lock);					\
		__tsan_atomic32_load(lock, ACQUIRE);			\
	}

/* The state is the first word of each. */
WAIT_OF(MUTEX_LOCK)
WAIT_OF(RWLOCK_READ)
WAIT_OF(RWLOCK_WRITE)
