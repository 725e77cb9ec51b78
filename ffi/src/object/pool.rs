//! SETUP. One allocator of shells for each Rust type.

use std::{
    any::{Any, TypeId},
    cell::UnsafeCell,
    collections::{HashMap, VecDeque},
    marker::PhantomData,
    ptr::NonNull,
};

use fabric_core::fork::ForkSafe;

use super::{CObject, Content, Head, Shell, domain_behind};

/// Closes of one type that pass before a shell is used again.
pub const QUARANTINE: usize = 1024;

/// A closed shell, or a fresh one; it lives forever.
pub(super) fn take<T: CObject>() -> NonNull<Shell<T>> {
    let mut closed = pool::<T>().closed.lock();
    if closed.len() > QUARANTINE
        && let Some(Closed(shell)) = closed.pop_front()
    {
        return shell;
    }
    drop(closed);
    let shell: &'static Shell<T> = Box::leak(Box::new(Shell {
        head: UnsafeCell::new(T::Head::closed()),
        kind: TypeId::of::<T>(),
        domain: domain_behind::<T>,
        content: Content::empty(),
        of: PhantomData,
    }));
    shell.content.list();
    NonNull::from(shell)
}

/// Puts a shell that has just been closed at the end of the quarantine.
pub(super) fn give_back<T: CObject>(shell: NonNull<Shell<T>>) {
    pool::<T>().closed.lock().push_back(Closed(shell));
}

struct Pool<T: CObject> {
    /// Oldest close first.
    closed: ForkSafe<VecDeque<Closed<T>>>,
}

struct Closed<T: CObject>(NonNull<Shell<T>>);

// SAFETY: a shell may be used from every thread; the pool only passes its address on.
unsafe impl<T: CObject> Send for Closed<T> {}

/// The pool of a type. Statics cannot be generic, so pools are found by type.
fn pool<T: CObject>() -> &'static Pool<T> {
    type AnyPool = &'static (dyn Any + Send + Sync);
    static POOLS: ForkSafe<Option<HashMap<TypeId, AnyPool>>> = ForkSafe::new(None);

    let mut pools = POOLS.lock();
    let entry: &mut AnyPool =
        pools.get_or_insert_default().entry(TypeId::of::<T>()).or_insert_with(|| {
            Box::leak(Box::new(Pool::<T> { closed: ForkSafe::new(VecDeque::new()) }))
        });
    match entry.downcast_ref() {
        Some(pool) => pool,
        None => unreachable!("a pool is stored under the identity of its own type"),
    }
}
