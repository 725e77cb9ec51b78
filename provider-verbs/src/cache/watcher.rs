//! SETUP. The thread that reads the kernel's notices, one for the process while anybody keeps
//! registrations. Who unmaps memory waits for it, so it does nothing else, and takes no lock.

use std::{
    os::fd::AsFd,
    sync::{Arc, Mutex, PoisonError, Weak},
    thread::{Builder, JoinHandle},
};

use fabric_core::{Errno, Result, fork::Owner, log::Subsys, wait::Signal};
use rustix::event::{PollFd, PollFlags, poll};

use super::{Notices, Watch};
use crate::{
    NAME,
    sys::{Userfault, refused},
};

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Watcher {
    shared: Arc<Shared>,
    /// The process that has the thread: a forked child has only this description of it.
    owner: Owner,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    kernel: Userfault,
    notices: Notices,
    stop: Signal,
}

impl Watcher {
    /// That of the process, started for the first who asks. `None`, and a line in the log: the kernel
    /// tells nothing.
    pub(crate) fn of_process() -> Option<Arc<Self>> {
        static KNOWN: Mutex<Weak<Watcher>> = Mutex::new(Weak::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watcher) = known.upgrade().filter(|known| known.owner.is_here()) {
            return Some(watcher);
        }
        match Self::start() {
            Ok(watcher) => {
                let watcher = Arc::new(watcher);
                *known = Arc::downgrade(&watcher);
                Some(watcher)
            }
            Err(reason) => {
                fabric_core::info!(
                    NAME,
                    Subsys::Mr,
                    "registrations are not kept: {} ({reason})",
                    refused(reason)
                );
                None
            }
        }
    }

    fn start() -> Result<Self> {
        let shared = Arc::new(Shared {
            kernel: Userfault::new()?,
            notices: Notices::new(),
            stop: Signal::new()?,
        });
        let told = shared.clone();
        let thread = Builder::new()
            .name("percale-memory".into())
            .spawn(move || run(&told))
            .map_err(|e| Errno::new(e.raw_os_error().unwrap_or(libc::EAGAIN)))?;
        Ok(Self { shared, owner: Owner::here(), thread: Some(thread) })
    }
}

fn run(shared: &Shared) {
    let Shared { kernel, notices, stop } = shared;
    loop {
        let mut ready = [
            PollFd::from_borrowed_fd(kernel.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN),
        ];
        // An interrupted poll, too, is followed by a look.
        let _ = poll(&mut ready, None);
        if !ready[1].revents().is_empty() {
            return;
        }
        notices.take(|push| {
            while let Some(batch) = kernel.read() {
                batch.for_each(&mut *push);
            }
        });
    }
}

impl Watch for Watcher {
    /// The kernel watches whole mappings: of a part, it would make a mapping of its own, and a
    /// program that moves all of it (mremap(2)) would be refused.
    fn watch(&self, start: usize, len: usize) -> bool {
        let Some((first, last)) = super::maps::private(start, start + len) else { return false };
        // Something else may be mapped there by now.
        self.shared.kernel.watch(first, last - first).is_ok()
            && super::maps::private(start, start + len).is_some()
    }

    fn notices(&self) -> &Notices {
        &self.shared.notices
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if !self.owner.is_here() {
            // Neither is the thread here to be joined, nor the parent's to be stopped.
            std::mem::forget(self.thread.take());
            return;
        }
        self.shared.stop.set();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
