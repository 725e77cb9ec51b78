//! SETUP. What a forked child must not keep: listening sockets. A child that only sleeps would
//! hold its parent's name beyond the parent's end, and a restart would find the name taken.
//!
//! A handler in the child puts an unconnected socket in each one's place, so that the number stays
//! the child's copy of the owner to close. It runs where only async-signal-safe calls are allowed:
//! no lock, no allocation.

use std::{
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    ptr,
    sync::{
        Once,
        atomic::{AtomicI32, AtomicPtr, Ordering},
    },
};

/// A place for one descriptor. Places are never freed, only used again.
struct Place {
    fd: AtomicI32,
    next: AtomicPtr<Self>,
}

/// No descriptor.
const FREE: RawFd = -1;

static PLACES: AtomicPtr<Place> = AtomicPtr::new(ptr::null_mut());

/// A socket that children do not keep, for as long as this lives.
#[derive(Debug)]
pub(crate) struct NotInherited {
    place: &'static AtomicI32,
    fd: RawFd,
}

impl NotInherited {
    /// Drop it before the socket.
    pub(crate) fn new(socket: BorrowedFd<'_>) -> Self {
        static HANDLER: Once = Once::new();
        HANDLER.call_once(|| {
            // SAFETY: the handler does what one may do in a child of a process with threads.
            // Without memory for it, children keep the sockets.
            let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
        let fd = socket.as_raw_fd();
        let taken = |place: &&'static Place| {
            place.fd.compare_exchange(FREE, fd, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        if let Some(place) = places().find(taken) {
            return Self { place: &place.fd, fd };
        }
        let place: &'static Place = Box::leak(Box::new(Place {
            fd: AtomicI32::new(fd),
            next: AtomicPtr::new(PLACES.load(Ordering::Acquire)),
        }));
        let at = ptr::from_ref(place).cast_mut();
        while let Err(first) = PLACES.compare_exchange(
            place.next.load(Ordering::Relaxed),
            at,
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            place.next.store(first, Ordering::Relaxed);
        }
        Self { place: &place.fd, fd }
    }
}

impl Drop for NotInherited {
    fn drop(&mut self) {
        // Not in a child, where it is free already and may be another's.
        let _ = self.place.compare_exchange(self.fd, FREE, Ordering::AcqRel, Ordering::Relaxed);
    }
}

fn places() -> impl Iterator<Item = &'static Place> {
    // SAFETY: what is in the list was leaked by `new`, and only shared references to it exist.
    let at = |place: &AtomicPtr<Place>| unsafe { place.load(Ordering::Acquire).as_ref() };
    std::iter::successors(at(&PLACES), move |place| at(&place.next))
}

extern "C" fn in_child() {
    for place in places() {
        let fd = place.fd.swap(FREE, Ordering::Relaxed);
        if fd != FREE && listens(fd) {
            // SAFETY: async-signal-safe calls on a number that the owner of the socket still holds,
            // as it has not dropped its `NotInherited`; it stays an open socket.
            unsafe {
                let plain = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
                let other = libc::socket(libc::AF_UNIX, plain, 0);
                if other >= 0 {
                    libc::dup3(other, fd, libc::O_CLOEXEC);
                    libc::close(other);
                }
            }
        }
    }
}

/// Whether it is a listening socket still: a program may have closed what is not its own.
fn listens(fd: RawFd) -> bool {
    let mut answer: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `answer`, whose size that is.
    let got = unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_ACCEPTCONN,
            (&raw mut answer).cast(),
            &raw mut len,
        )
    };
    got == 0 && answer != 0
}
