//! SETUP. What a forked child must not keep: the descriptors by which a process is reached, and by
//! which its peers learn of its end. A child that only sleeps would hold them beyond its parent's
//! end; one that uses what it has inherited would take its parent's bytes.
//!
//! The handler in the child puts an unconnected socket in each one's place, so that the number stays
//! the child's copy of the owner to close. It runs where only async-signal-safe calls are allowed:
//! no lock, no allocation.

use std::{
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
    ptr,
    sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering},
};

use super::{ForkSafe, watch};

/// A place for one descriptor. Places are never freed, only used again.
struct Place {
    fd: AtomicI32,
    /// The file behind it.
    inode: AtomicU64,
    next: AtomicPtr<Self>,
}

/// No descriptor.
const FREE: RawFd = -1;
/// Being taken; no descriptor either.
const TAKEN: RawFd = -2;

static PLACES: AtomicPtr<Place> = AtomicPtr::new(ptr::null_mut());

/// A descriptor that children do not keep, for as long as this lives.
#[derive(Debug)]
pub struct NotInherited {
    place: &'static AtomicI32,
    fd: RawFd,
}

impl NotInherited {
    /// Of what `open` opens. No fork comes between. Drop it before the file.
    pub fn open<T: AsFd, E>(open: impl FnOnce() -> Result<T, E>) -> Result<(Self, T), E> {
        static OPENING: ForkSafe<()> = ForkSafe::new(());
        let _no_fork = OPENING.lock();
        let file = open()?;
        Ok((Self::new(file.as_fd()), file))
    }

    /// Of a file that may be in a child already, if that has been forked since it was opened.
    pub fn new(file: BorrowedFd<'_>) -> Self {
        watch();
        let fd = file.as_raw_fd();
        let taken = |place: &&'static Place| {
            place.fd.compare_exchange(FREE, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let place = places().find(taken).unwrap_or_else(add_place);
        place.inode.store(inode(fd).unwrap_or(0), Ordering::Relaxed);
        place.fd.store(fd, Ordering::Release);
        Self { place: &place.fd, fd }
    }
}

impl Drop for NotInherited {
    fn drop(&mut self) {
        // Not in a child, where it is free already and may be another's.
        let _ = self.place.compare_exchange(self.fd, FREE, Ordering::AcqRel, Ordering::Relaxed);
    }
}

fn add_place() -> &'static Place {
    let place: &'static Place = Box::leak(Box::new(Place {
        fd: AtomicI32::new(TAKEN),
        inode: AtomicU64::new(0),
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
    place
}

fn places() -> impl Iterator<Item = &'static Place> {
    // SAFETY: what is in the list was leaked by `add_place`, and only shared references to it exist.
    let at = |place: &AtomicPtr<Place>| unsafe { place.load(Ordering::Acquire).as_ref() };
    std::iter::successors(at(&PLACES), move |place| at(&place.next))
}

/// In a child.
pub(super) fn replace_all() {
    let mut other = FREE;
    for place in places() {
        let fd = place.fd.swap(FREE, Ordering::Relaxed);
        // A program may have closed what is not its own, and the number be another file's.
        if fd < 0 || inode(fd) != Some(place.inode.load(Ordering::Relaxed)) {
            continue;
        }
        // SAFETY: async-signal-safe calls on a number that the owner of the file still holds, as it
        // has not dropped its `NotInherited`; it stays an open file.
        unsafe {
            if other < 0 {
                other = libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0);
            }
            if other >= 0 {
                libc::dup3(other, fd, libc::O_CLOEXEC);
            }
        }
    }
    if other >= 0 {
        // SAFETY: the socket was opened above, and nobody else knows of it.
        unsafe { libc::close(other) };
    }
}

/// What tells one open socket from another; files of the kernel's own kinds may share one.
fn inode(fd: RawFd) -> Option<u64> {
    // SAFETY: plain numbers, for which all zeroes are a value.
    let mut about: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: the structure is writable for the call, which is async-signal-safe.
    (unsafe { libc::fstat(fd, &raw mut about) } == 0).then_some(about.st_ino)
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::{super::tests::in_a_child, *};

    #[test]
    fn a_child_has_another_file_under_the_number() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let kept = NotInherited::new(ours.as_fd());
        let fd = ours.as_raw_fd();
        let parents = inode(fd);
        assert_eq!(in_a_child(|| inode(fd).is_some() && inode(fd) != parents), 0);
        // Closed there, it is open here.
        assert_eq!(in_a_child(|| fd >= 0 && unsafe_close(fd)), 0);
        assert_eq!(rustix::io::write(&ours, b"x"), Ok(1));
        drop(kept);
        assert_eq!(in_a_child(|| inode(fd) == parents), 0);
        drop(theirs);
    }

    fn unsafe_close(fd: RawFd) -> bool {
        // SAFETY: in a child that ends without using it again.
        unsafe { libc::close(fd) == 0 }
    }

    #[test]
    fn a_number_that_is_another_files_is_left_alone() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let fd = ours.as_raw_fd();
        let kept = NotInherited::new(ours.as_fd());
        // As a program does that closes everything: the number becomes another socket's.
        // SAFETY: `ours` stays an open socket.
        assert_eq!(unsafe { libc::dup2(theirs.as_raw_fd(), fd) }, fd);
        let its = inode(fd);
        assert_eq!(in_a_child(|| inode(fd) == its), 0);
        drop(kept);
    }
}
