//! HOT. An engine and what guards it.

use std::{os::fd::RawFd, sync::Arc};

use fabric_core::{
    Result,
    eq::Drive,
    lock::{Access, Guarded, Lock, SafeLock},
};

use crate::{
    engine::Engine,
    net::{Net, Sockets},
    settings,
};

/// The engine over sockets. Event queues drive it from any thread, so it is always guarded.
pub(crate) type Tcp = Engine<SafeLock, Sockets>;

/// An engine and its lock: one for each reliable datagram endpoint, one for all connected endpoints
/// of a domain, which would otherwise be asked one by one.
pub(crate) struct Port {
    engine: <SafeLock as Lock>::Cell<Tcp>,
    wait_fd: RawFd,
}

impl Port {
    pub(crate) fn new() -> Result<Arc<Self>> {
        let options = settings::options();
        let sockets = Sockets::new(options, settings::ports())?;
        let wait_fd = sockets.wait_fd();
        let engine = Engine::new(sockets, options.patience, settings::buffering());
        Ok(Arc::new(Self { engine: Guarded::new(engine), wait_fd }))
    }

    #[inline]
    pub(crate) fn lock(&self) -> Access<'_, SafeLock, Tcp> {
        self.engine.lock()
    }

    /// Has a progress call made ([`Guarded::pass`]).
    #[inline]
    pub(crate) fn pass(&self, enough: impl Fn() -> bool, progress: impl FnOnce(&mut Tcp)) -> bool {
        self.engine.pass(enough, |engine| {
            progress(engine);
            engine.hand_on();
            true
        })
    }
}

impl Drive for Port {
    fn drive(&self) {
        self.pass(|| false, Tcp::progress);
    }

    fn arm(&self) -> Result<bool> {
        Ok(self.engine.lock().arm())
    }

    fn wait_fd(&self) -> Result<RawFd> {
        Ok(self.wait_fd)
    }
}
