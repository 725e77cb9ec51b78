//! SETUP, but for [`call_target`], which is HOT. Rust objects behind the `fid` pointers of C.
//!
//! C holds a pointer to a [`Shell`]: the C struct of the class at offset 0, then a reference to the
//! Rust object. Shells are type-stable: they are never given back to the allocator, only reused for
//! the same Rust type, and not before [`QUARANTINE`] further closes of that type. So a pointer that
//! an application uses after closing is recognised: its class is 0, its tables answer `-FI_EINVAL`.
//!
//! A forked child has copies of its parent's shells, and they are emptied before it sees them. Calls
//! on them are `-FI_EOPNOTSUPP` and closing them does nothing: no lock is taken that a thread of the
//! parent may have held, and what is behind stays as it was.

mod head;
mod pool;

pub use head::Head;
pub use pool::QUARANTINE;

use std::sync::{
    Arc,
    atomic::{AtomicPtr, AtomicUsize, Ordering},
};

use core::{
    any::TypeId,
    cell::UnsafeCell,
    ffi::{c_int, c_void},
    marker::PhantomData,
    ptr::NonNull,
};

use fabric_core::{Errno, Result, domain::Domain, log::Subsys};

use crate::{
    abi::{constants::FI_CLASS_UNSPEC, fid::fid},
    panic::{guard, status},
};

/// A Rust object that C can hold.
pub trait CObject: Send + Sync + Sized + 'static {
    /// The C struct of the class.
    type Head: Head;
    /// The class (`FI_CLASS_...`).
    const CLASS: usize;

    /// The domain that it was opened in; `None` for what is in no domain.
    fn domain(&self) -> Option<&Arc<Domain>> {
        None
    }
}

/// What a `fid` pointer of this library points to.
#[repr(C)]
pub struct Shell<T: CObject> {
    head: UnsafeCell<T::Head>,
    /// Tells apart types of one class; same place in every shell of that class.
    kind: TypeId,
    /// [`domain_behind`] of the type; same place, too.
    domain: DomainBehind,
    /// Same place, too.
    content: Content,
    of: PhantomData<Arc<T>>,
}

/// The domain of a shell's payload.
type DomainBehind = unsafe fn(NonNull<()>) -> Option<Arc<Domain>>;

/// # Safety
/// `payload` is an object of type `T`.
unsafe fn domain_behind<T: CObject>(payload: NonNull<()>) -> Option<Arc<Domain>> {
    // SAFETY: the caller's promise.
    unsafe { payload.cast::<T>().as_ref() }.domain().cloned()
}

/// What is in a shell, whatever its type.
struct Content {
    /// From `Arc::into_raw`; null in a closed shell, and in a child's copy of its parent's.
    payload: AtomicPtr<()>,
    /// That of the shell made before.
    next: AtomicPtr<Self>,
}

// SAFETY: `payload` is an `Arc` of a `Send + Sync` type. `head` is written before C sees the shell
// and on close, which C must not let race with other uses of the object.
unsafe impl<T: CObject> Send for Shell<T> {}
// SAFETY: as above.
unsafe impl<T: CObject> Sync for Shell<T> {}

impl<T: CObject> core::fmt::Debug for Shell<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Shell").field("class", &T::CLASS).finish_non_exhaustive()
    }
}

/// Hands `payload` to C. `head` brings the tables (none null) and fields of the class; class and
/// context are filled in here. The result belongs to C until [`Shell::retire`].
pub fn open<T: CObject>(payload: Arc<T>, context: *mut c_void, mut head: T::Head) -> *mut T::Head {
    let shell = pool::take::<T>();
    head.fid_mut().fclass = FI_CLASS_UNSPEC;
    head.fid_mut().context = context;
    // SAFETY: shells live forever, and this one is closed and in nobody's hands.
    let opened = unsafe { shell.as_ref() };
    // SAFETY: as above; nobody else reads or writes the head.
    unsafe { opened.head.get().write(head) };
    opened.content.payload.store(Arc::into_raw(payload).cast_mut().cast(), Ordering::Release);
    // Release: pairs with the Acquire in `from_fid`, which must find the rest written.
    opened.class().store(T::CLASS, Ordering::Release);
    shell.as_ptr().cast()
}

/// The live shell behind a pointer that C passes as an argument. `EINVAL` for null, for an object
/// of another class or provider, and for a closed one; `EOPNOTSUPP` for one of the parent process.
///
/// # Safety
/// `fid` is null or an object that this library or the application made; if it is open, it is not
/// closed while the result is in use.
pub unsafe fn from_fid<'a, T: CObject>(fid: *mut fid) -> Result<&'a Shell<T>> {
    // SAFETY: this function's own contract.
    let shell = unsafe { find(fid) }?;
    shell.payload().map(|_| shell)
}

/// The domain of an open object of `T`'s class, whatever its provider; `None` for all else.
///
/// # Safety
/// As for [`from_fid`].
pub unsafe fn domain_of<T: CObject>(fid: *mut fid) -> Option<Arc<Domain>> {
    // SAFETY: this function's own contract.
    let shell = unsafe { of_class::<T>(fid) }.ok()?;
    // SAFETY: a shell of some type of this class, where these two have the same places in all types;
    // the function is written once, before anybody sees the shell.
    let (content, domain) = unsafe { (&(*shell).content, (&raw const (*shell).domain).read()) };
    let payload = NonNull::new(content.payload.load(Ordering::Acquire))?;
    // SAFETY: the payload is of the shell's own type, as the function is, and the shell's own
    // reference keeps it alive.
    unsafe { domain(payload) }
}

/// The class of an object that C passes as an argument; that of a closed one is 0. `EINVAL` for null.
///
/// # Safety
/// As for [`from_fid`].
pub unsafe fn class_of(fid: *mut fid) -> Result<usize> {
    if fid.is_null() || !fid.is_aligned() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: every object starts with its class, and shells stay readable after close.
    let class = unsafe { AtomicUsize::from_ptr(&raw mut (*fid).fclass) };
    // Acquire: pairs with the Release in `open`.
    Ok(class.load(Ordering::Acquire))
}

/// A slot `close` of C: has `close` retire the object, unless something is in its way. A copy of the
/// parent process's object is closed without being touched.
///
/// # Safety
/// As for [`from_fid`]; nobody else closes the object now.
pub unsafe fn close<T: CObject>(
    fid: *mut fid,
    close: impl FnOnce(&Shell<T>) -> Result<()>,
) -> c_int {
    guard(|| {
        // SAFETY: this function's own contract.
        status(unsafe { find::<T>(fid) }.and_then(|shell| {
            if shell.content.payload.load(Ordering::Acquire).is_null() {
                shell.end().map(drop)
            } else {
                close(shell)
            }
        }))
    })
}

/// The shell of an object that has not been closed.
///
/// # Safety
/// As for [`from_fid`].
unsafe fn find<'a, T: CObject>(fid: *mut fid) -> Result<&'a Shell<T>> {
    // SAFETY: this function's own contract.
    let shell = unsafe { of_class::<T>(fid) }?;
    // SAFETY: objects of this class are made by this library alone, so a shell of some type is
    // here, and the place of `kind` depends only on the class.
    if unsafe { (&raw const (*shell).kind).read() } != TypeId::of::<T>() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the type has been checked, shells live forever.
    Ok(unsafe { &*shell })
}

/// A shell of `T`'s class that has not been closed, be it of another type.
///
/// # Safety
/// As for [`from_fid`].
unsafe fn of_class<T: CObject>(fid: *mut fid) -> Result<*mut Shell<T>> {
    let shell = fid.cast::<Shell<T>>();
    // SAFETY: this function's own contract.
    if shell.is_aligned() && unsafe { class_of(fid) }? == T::CLASS {
        Ok(shell)
    } else {
        Err(Errno::EINVAL)
    }
}

/// The object of a call that came through its own table: the table vouches for the type.
///
/// # Safety
/// `head` is what C passed to a slot of a table that only shells of `T` carry, and the object is
/// not closed during the call.
#[inline(always)]
pub unsafe fn call_target<'a, T: CObject>(head: *mut T::Head) -> Result<&'a T> {
    // SAFETY: the caller vouches for the type; shells live forever.
    unsafe { &*head.cast::<Shell<T>>() }.payload()
}

impl<T: CObject> Shell<T> {
    /// The Rust object; `EINVAL` if it has been closed, `EOPNOTSUPP` if it is the parent process's.
    #[inline(always)]
    pub fn payload(&self) -> Result<&T> {
        // Acquire: pairs with the Release in `open`.
        let payload = self.content.payload.load(Ordering::Acquire).cast::<T>();
        // SAFETY: not null, so the shell's own reference keeps the object alive; C does not close
        // an object during a call on it.
        unsafe { payload.as_ref() }.ok_or_else(|| self.why_empty())
    }

    #[cold]
    fn why_empty(&self) -> Errno {
        if self.class().load(Ordering::Acquire) != T::CLASS {
            return Errno::EINVAL;
        }
        fabric_core::warn_few!(
            "core",
            Subsys::Core,
            "an object that the parent process has opened is used in a forked child, which has to \
             open its own"
        );
        Errno::EOPNOTSUPP
    }

    /// Another reference to the Rust object.
    pub fn share(&self) -> Result<Arc<T>> {
        let payload: *const T = self.payload()?;
        // SAFETY: `payload` is from `Arc::into_raw`, and the shell's own reference still counts.
        unsafe { Arc::increment_strong_count(payload) };
        // SAFETY: takes over the reference counted above.
        Ok(unsafe { Arc::from_raw(payload) })
    }

    /// The application's context.
    pub fn context(&self) -> *mut c_void {
        // SAFETY: the head is not written while the object is open.
        unsafe { (*self.head.get().cast::<fid>()).context }
    }

    /// The pointer that C knows.
    pub fn head(&self) -> *mut T::Head {
        (&raw const *self).cast_mut().cast()
    }

    /// Takes the object back from C: class and tables are those of a closed object from here on.
    /// `EINVAL` if another close came first.
    ///
    /// Call it when nothing can refuse the close any more.
    pub fn retire(&self) -> Result<Arc<T>> {
        let payload = self.end()?;
        // SAFETY: from `Arc::into_raw` in `open`, and handed over once.
        Ok(unsafe { Arc::from_raw(payload.ok_or(Errno::EOPNOTSUPP)?.as_ptr()) })
    }

    /// Closes the shell for C. Its reference to the object is the caller's then, if it has one.
    fn end(&self) -> Result<Option<NonNull<T>>> {
        self.class()
            .compare_exchange(T::CLASS, FI_CLASS_UNSPEC, Ordering::AcqRel, Ordering::Relaxed)
            .map_err(|_| Errno::EINVAL)?;
        let payload = self.content.payload.swap(core::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: this call won the exchange above, and C uses the object nowhere else.
        unsafe { self.head.get().write(T::Head::closed()) };
        pool::give_back(NonNull::from(self));
        Ok(NonNull::new(payload.cast()))
    }

    fn class(&self) -> &AtomicUsize {
        let fid = self.head.get().cast::<fid>();
        // SAFETY: every head starts with a `fid`; this crate reaches its class only through here
        // and through `from_fid`, atomically, once the shell is shared.
        unsafe { AtomicUsize::from_ptr(&raw mut (*fid).fclass) }
    }
}

/// Every shell's content, the newest first.
static ALL: AtomicPtr<Content> = AtomicPtr::new(core::ptr::null_mut());

impl Content {
    const fn empty() -> Self {
        let null: *mut Self = core::ptr::null_mut();
        Self { payload: AtomicPtr::new(null.cast()), next: AtomicPtr::new(null) }
    }

    /// Has children find it empty.
    fn list(&'static self) {
        fabric_core::fork::in_each_child(empty_all);
        let this = core::ptr::from_ref(self).cast_mut();
        let mut first = ALL.load(Ordering::Relaxed);
        loop {
            self.next.store(first, Ordering::Relaxed);
            // Release: pairs with the Acquire in `empty_all`.
            match ALL.compare_exchange(first, this, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(newer) => first = newer,
            }
        }
    }
}

/// In a child, which has this thread only: its parent's objects are out of its reach.
fn empty_all() {
    let mut at = ALL.load(Ordering::Acquire);
    // SAFETY: what is in the list is part of shells, which live forever.
    while let Some(content) = unsafe { at.as_ref() } {
        content.payload.store(core::ptr::null_mut(), Ordering::Relaxed);
        at = content.next.load(Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
