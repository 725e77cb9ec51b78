//! SETUP. The heap of tests, which counts what each thread has of it.

use core::cell::Cell;
use std::alloc::{GlobalAlloc, Layout, System};

/// The system's, with a count.
struct Counting;

#[global_allocator]
static HEAP: Counting = Counting;

thread_local! {
    static BYTES: Cell<isize> = const { Cell::new(0) };
}

/// Bytes that this thread has allocated, less those that it has freed.
pub(crate) fn allocated() -> isize {
    BYTES.get()
}

fn count(bytes: isize) {
    // At a thread's end nobody asks any more.
    let _ = BYTES.try_with(|all| all.set(all.get() + bytes));
}

// SAFETY: all is done by the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: this function's own contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: this function's own contract.
        unsafe { System.dealloc(at, layout) }
    }
}
