//! PENDING. Automatic progress: a thread that sleeps until a peer rings, started only for domains
//! that asked for `FI_PROGRESS_AUTO`.

use std::{
    fmt,
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc, Weak,
        mpsc::{Sender, channel},
    },
    thread::{Builder, JoinHandle},
    time::Duration,
};

use crate::{
    Errno, Result,
    api::Endpoint,
    fork::Owner,
    log::Subsys,
    shortage::explained,
    sync::{AtomicBool, Ordering},
    wait::{Deadline, Signal, WaitSet, sleep_on},
};

/// The thread; it ends when this is dropped.
pub struct AutoProgress {
    stop: Arc<Stop>,
    /// The thread waits for a word, or for this to be dropped.
    go: Option<Sender<()>>,
    /// The process that has the thread: a forked child has only this description of it.
    owner: Owner,
    thread: Option<JoinHandle<()>>,
}

struct Stop {
    asked: AtomicBool,
    signal: Signal,
}

impl fmt::Debug for AutoProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AutoProgress")
    }
}

/// The endpoint was in use by others when it was to be armed; look again after this long.
const BUSY: Duration = Duration::from_micros(50);

impl AutoProgress {
    /// Makes all that is needed to move `endpoint` forward, so that nothing can fail any more when it
    /// has been enabled.
    pub fn start<E: Endpoint>(endpoint: &Arc<E>) -> Result<Self> {
        Self::begin(endpoint).inspect_err(|reason| {
            let reason = explained(*reason);
            crate::warn_few!("core", Subsys::EpCtrl, "no thread for automatic progress: {reason}");
        })
    }

    fn begin<E: Endpoint>(endpoint: &Arc<E>) -> Result<Self> {
        let stop = Arc::new(Stop { asked: AtomicBool::new(false), signal: Signal::new()? });
        let wait = WaitSet::new()?;
        wait.add(stop.signal.as_fd(), 0)?;
        // SAFETY: the endpoint keeps its descriptor open while it lives; it drops this thread
        // before it ends.
        wait.add(unsafe { BorrowedFd::borrow_raw(endpoint.wait_fd()?) }, 1)?;
        let (weak, told) = (Arc::downgrade(endpoint), stop.clone());
        let (go, word) = channel();
        let thread = Builder::new()
            .name("percale-progress".into())
            .spawn(move || {
                if word.recv().is_ok() {
                    run(&weak, &told, &wait);
                }
            })
            .map_err(|e| Errno::new(e.raw_os_error().unwrap_or(libc::EAGAIN)))?;
        Ok(Self { stop, go: Some(go), owner: Owner::here(), thread: Some(thread) })
    }

    /// Begins. Once.
    pub fn go(&mut self) {
        if let Some(go) = self.go.take() {
            // The thread waits for it.
            let _ = go.send(());
        }
    }
}

fn run<E: Endpoint>(endpoint: &Weak<E>, stop: &Stop, wait: &WaitSet) {
    // Acquire: pairs with the release store in `drop`.
    while !stop.asked.load(Ordering::Acquire) {
        let Some(endpoint) = endpoint.upgrade() else { return };
        endpoint.progress();
        let quiet = endpoint.arm();
        drop(endpoint);
        match quiet {
            // An error of poll itself cannot be repaired here; do not spin on it.
            Ok(true) => match sleep_on(wait.as_fd(), Deadline::from_millis(-1)) {
                Ok(()) | Err(Errno::EAGAIN) => {}
                Err(_) => std::thread::sleep(BUSY),
            },
            Ok(false) => std::thread::yield_now(),
            Err(_) => std::thread::sleep(BUSY),
        }
    }
}

impl Drop for AutoProgress {
    fn drop(&mut self) {
        if !self.owner.is_here() {
            // Neither is the thread here to be joined, nor the parent's to be stopped.
            std::mem::forget(self.thread.take());
            return;
        }
        self.go = None;
        self.stop.asked.store(true, Ordering::Release);
        self.stop.signal.set();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
