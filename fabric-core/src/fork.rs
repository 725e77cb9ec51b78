//! SETUP. What a fork means for a process's objects: they stay the parent's.
//!
//! A child has copies of objects whose other ends it does not know, of locks that threads hold which it
//! does not have, and of descriptors by which peers would learn of its parent's end. So
//!
//! * descriptors of that kind are [`NotInherited`],
//! * process-wide tables are [`ForkSafe`],
//! * and an object asks its [`Owner`] before it does anything that touches others.
//!
//! Handlers of `pthread_atfork(3)` see to it. Children made by `clone(2)` pass them by.

mod descriptors;
mod mutex;

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

pub use descriptors::NotInherited;
pub use mutex::ForkSafe;

/// Forks between the first process that this library was used in and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// The process that an object belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    generation: u32,
    /// For children that the handlers have not seen. Alone it tells less: a descendant may have its
    /// ancestor's id, and so may a child in another PID namespace.
    pid: u32,
}

impl Owner {
    /// This process.
    pub fn here() -> Self {
        watch();
        Self { generation: GENERATION.load(Ordering::Relaxed), pid: std::process::id() }
    }

    /// Its id, as it was for itself.
    pub const fn pid(self) -> u32 {
        self.pid
    }

    /// Whether that is this process.
    pub fn is_here(self) -> bool {
        self == Self::here()
    }

    /// Whether `object` is another process's, and only a copy of it here. Then the copy stays as it is
    /// for as long as this process lives, not even dropped: a thread of the owner may have been
    /// changing it when the process forked.
    pub fn abandons<T>(self, object: &Arc<T>) -> bool {
        let elsewhere = !self.is_here();
        if elsewhere {
            std::mem::forget(object.clone());
        }
        elsewhere
    }
}

/// Has `disown` run in each child. It may do what is async-signal-safe. The first one stays.
pub fn in_each_child(disown: fn()) {
    watch();
    let _ = DISOWN.set(disown);
}

static DISOWN: OnceLock<fn()> = OnceLock::new();

/// Installs the handlers. Without memory for them, children are told apart by their ids alone.
fn watch() {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    // Miri has no forks.
    if !cfg!(miri) && !WATCHED.load(Ordering::Relaxed) && !WATCHED.swap(true, Ordering::Relaxed) {
        // SAFETY: the handlers are safe to be run by whoever forks; that of the child does what one may
        // do in a child of a process with threads.
        let _ = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    }
}

extern "C" fn before() {
    mutex::hold_all();
}

extern "C" fn in_parent() {
    mutex::release_all();
}

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    descriptors::replace_all();
    if let Some(disown) = DISOWN.get() {
        disown();
    }
    mutex::release_all();
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    /// The exit code of a child that runs `check`, which must not depend on threads of ours.
    pub(super) fn in_a_child(check: impl FnOnce() -> bool) -> i32 {
        // SAFETY: the child ends without running anything else of ours.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            // SAFETY: async-signal-safe: a child that hangs is ended.
            unsafe { libc::alarm(10) };
            let good = check();
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!good)) };
        }
        let mut status = 0;
        // SAFETY: the place is writable for the call; the child is ours.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        status
    }

    #[test]
    fn a_child_is_another_owner_and_so_is_its_child() {
        let owner = Owner::here();
        assert!(owner.is_here());
        assert_eq!(
            in_a_child(|| {
                let own = Owner::here();
                !owner.is_here() && in_a_child(|| !owner.is_here() && !own.is_here()) == 0
            }),
            0
        );
        let reused = Owner { generation: owner.generation.wrapping_sub(2), ..owner };
        assert!(!reused.is_here(), "the process's id may have been an ancestor's");
        assert!(owner.is_here());
    }

    #[test]
    fn what_a_child_abandons_is_not_dropped() {
        let (owner, object) = (Owner::here(), Arc::new(()));
        assert!(!owner.abandons(&object));
        let counted = || owner.abandons(&object) && Arc::strong_count(&object) == 2;
        assert_eq!(in_a_child(counted), 0);
        assert_eq!(Arc::strong_count(&object), 1);
    }
}
