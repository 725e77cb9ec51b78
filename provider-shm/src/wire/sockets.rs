//! PENDING. Sockets: newcomers, what peers say, rings that are handed over.

use std::{
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
    time::{Duration, Instant},
};

use fabric_core::{
    Errno, Result,
    log::Subsys,
    matching::PeerId,
    shortage,
    slab::Handle,
    wire::{Event, Refused},
};

use super::{ALARM, LISTENER, ShmWire, Watched, clock::ticks};
use crate::{
    link::{Handed, Link, Said},
    offer::NAME,
    reserve::Need,
    rings::Incoming,
    segment::Segment,
};

/// Sockets handled in one look.
const READY: usize = 32;

/// Messages of one peer handled in one look.
const MESSAGES: usize = 64;

/// How long a ring waits for memory to be mapped in. Then its peer is given up.
const PATIENCE: Duration = Duration::from_secs(3);

/// Links that have not introduced themselves; when more come, the oldest is closed. Peers connect
/// and introduce themselves in one go, so that only one that says nothing can get so old.
const STRANGERS: usize = 256;

/// How long sleepers leave alone what nobody tells of.
const AGAIN: Duration = Duration::from_millis(1);
/// The same where only processes could not be named.
const SELDOM: Duration = Duration::from_millis(100);

impl ShmWire {
    pub(super) fn look_at_sockets(&mut self) {
        for (peer, link) in std::mem::take(&mut self.tx.fresh) {
            if let Err(reason) = self.watch(link, Some(peer)) {
                self.tx.broken.push((peer, reason));
            }
        }
        for peer in std::mem::take(&mut self.tx.retry) {
            match self.tx.hand_over(peer) {
                Ok(()) => self.events.push_back(Event::Writable(peer)),
                Err(Refused::Again) => {}
                Err(Refused::Down(reason)) => self.end(peer, reason),
            }
        }
        self.rx.hurry = false;
        self.reserve.refill();
        self.find_processes();
        self.young = self.young.saturating_sub(1);
        self.look_at_starved();
        self.attach_unmapped();
        let mut ready = [(0u64, false); READY];
        let mut count = 0;
        self.sockets.ready::<READY>(|token, hang_up| {
            if let Some(place) = ready.get_mut(count) {
                *place = (token, hang_up);
                count += 1;
            }
        });
        for &(token, _) in &ready[..count] {
            self.serve(token);
        }
        self.finish_ending();
        self.last_look = ticks();
    }

    fn serve(&mut self, token: u64) {
        match token {
            LISTENER => self.accept(),
            // For sleepers, who may not have run yet.
            ALARM => {}
            token => self.hear(Handle::from_raw(token)),
        }
    }

    /// Nobody tells of a free descriptor, of memory, or of room in a peer's backlog: sleepers look
    /// again after a while. What is to be read until then, and cannot be, would keep them from sleeping,
    /// so it is not watched. `false`: there are to be no sleepers.
    pub(super) fn rest(&mut self) -> bool {
        self.resting = !self.tx.retry.is_empty() || !self.starved.is_empty();
        for token in &self.starved {
            if let Some(fd) = self.descriptor(*token) {
                self.sockets.remove(fd);
            }
        }
        let Some(alarm) = &mut self.alarm else { return !self.resting };
        let pause = match (self.resting, self.nameless.is_empty()) {
            (true, _) => Some(AGAIN),
            // Their sockets are watched, and tell of nearly every end.
            (false, false) => Some(SELDOM),
            (false, true) => None,
        };
        alarm.set(pause.map(|pause| Instant::now() + pause));
        true
    }

    /// Looks again at what may not be watched.
    fn look_at_starved(&mut self) {
        for token in std::mem::take(&mut self.starved) {
            if !self.resting {
                continue;
            }
            self.serve(token);
            if self.starved.contains(&token) {
                continue;
            }
            let watch = |fd| self.sockets.add(fd, token).is_ok();
            if !self.descriptor(token).is_none_or(watch) {
                self.starve(token);
            }
        }
    }

    /// Notes that what a socket has waits for a descriptor, or for memory.
    fn starve(&mut self, token: u64) {
        if !self.starved.contains(&token) {
            self.starved.push(token);
        }
    }

    fn descriptor(&self, token: u64) -> Option<BorrowedFd<'_>> {
        match token {
            LISTENER => self.listener.as_ref().map(AsFd::as_fd),
            token => self.links.get(Handle::from_raw(token)).map(|watched| watched.link.as_fd()),
        }
    }

    fn accept(&mut self) {
        for _ in 0..READY {
            let Some(listener) = &self.listener else { return };
            match self.reserve.lend(Need::Connection, || listener.accept()) {
                Ok(Some(link)) => {
                    self.heard = true;
                    let link = Arc::new(link);
                    // A peer that is gone already is found out by `hear`.
                    let _ = link.say_hello(&self.tx.hello);
                    if let Ok(handle) = self.watch(link, None) {
                        self.strangers.push_back(handle);
                        self.hear(handle);
                        if self.strangers.len() > STRANGERS
                            && let Some(oldest) = self.strangers.front()
                        {
                            self.hung_up(*oldest, Errno::ETIMEDOUT);
                        }
                    }
                }
                Ok(None) => return,
                Err(Errno::EACCES) => {
                    fabric_core::warn_few!(
                        NAME,
                        Subsys::EpCtrl,
                        "refused a process of another user"
                    );
                }
                Err(Errno::EMFILE) => return self.starve(LISTENER),
                Err(reason) => {
                    fabric_core::error!(NAME, Subsys::EpCtrl, "cannot accept a peer: {reason}");
                    return;
                }
            }
        }
    }

    /// Begins to listen to a peer, and to watch whether its process lives.
    fn watch(&mut self, link: Arc<Link>, peer: Option<PeerId>) -> Result<Handle> {
        let watched = Watched { link: link.clone(), peer, unmapped: None };
        let handle = self.links.insert(watched).map_err(|_| Errno::ENOMEM)?;
        if let Err(reason) = self.sockets.add(link.as_fd(), handle.raw()) {
            fabric_core::error!(NAME, Subsys::EpCtrl, "cannot watch a peer: {reason}");
            self.links.remove(handle);
            return Err(reason);
        }
        if self.watch_process(handle, &link).is_err() {
            self.nameless.retain(|handle| self.links.get(*handle).is_some());
            self.nameless.push(handle);
        }
        Ok(handle)
    }

    /// Watches the process behind a link, if it can be named. An error: not now, for want of something.
    fn watch_process(&self, handle: Handle, link: &Link) -> Result<()> {
        // Where it cannot be named at all, its socket alone tells of its end.
        if link.find_process() == Err(Errno::EMFILE) {
            return Err(Errno::EMFILE);
        }
        link.process().map_or(Ok(()), |process| self.sockets.add(process, handle.raw()))
    }

    /// Tries again for those that could not be named; gives up at the first that still cannot.
    fn find_processes(&mut self) {
        while let Some(&handle) = self.nameless.last() {
            if let Some(watched) = self.links.get(handle) {
                let link = watched.link.clone();
                if self.watch_process(handle, &link).is_err() {
                    return;
                }
                if link.has_exited() {
                    self.hung_up(handle, Errno::ECONNRESET);
                }
            }
            self.nameless.pop();
        }
    }

    pub(super) fn unwatch(&self, link: &Link) {
        self.sockets.remove(link.as_fd());
        if let Some(process) = link.process() {
            self.sockets.remove(process);
        }
    }

    /// Takes a ring that came at `since`. One that there is no memory for (`ENOMEM`) waits, unless its
    /// peer has left meanwhile.
    fn attach(&mut self, handle: Handle, peer: PeerId, ring: Handed, since: Instant) -> Result<()> {
        let Handed { fd, slots, bytes } = &ring;
        let attached = Segment::attach(fd.as_fd(), *slots, *bytes)
            .and_then(|segment| self.rx.attach(peer, Incoming::new(segment)));
        match (attached, self.links.get_mut(handle)) {
            (Ok(()), _) => {
                drop(ring);
                self.reserve.refill();
                Ok(())
            }
            (Err(Errno::ENOMEM), Some(watched))
                if watched.link.is_alive() && since.elapsed() < PATIENCE =>
            {
                watched.unmapped = Some((ring, since));
                self.unmapped.push(handle);
                self.starve(handle.raw());
                Err(Errno::ENOMEM)
            }
            (Err(reason), _) => {
                self.hung_up(handle, reason);
                Ok(())
            }
        }
    }

    /// Tries again with rings that there was no memory for.
    fn attach_unmapped(&mut self) {
        for handle in std::mem::take(&mut self.unmapped) {
            let Some(watched) = self.links.get_mut(handle) else { continue };
            let (peer, ring) = (watched.peer, watched.unmapped.take());
            if let (Some(peer), Some((ring, since))) = (peer, ring)
                && self.attach(handle, peer, ring, since).is_ok()
            {
                self.heard = true;
                self.hear(handle);
            }
        }
    }

    /// What a peer says now.
    pub(super) fn hear(&mut self, handle: Handle) {
        for nth in 0..MESSAGES {
            if self.successors.iter().any(|(waiting, _)| *waiting == handle) {
                return;
            }
            let Some(watched) = self.links.get(handle) else { return };
            if watched.unmapped.is_some() {
                return self.starve(handle.raw());
            }
            let (link, peer) = (watched.link.clone(), watched.peer);
            let said = self.reserve.lend(Need::Ring, || link.hear());
            self.heard |= matches!(said, Ok(Some(_)));
            match (said, peer) {
                (Ok(None), _) => {
                    // Nothing was said, so it may be the process that has news.
                    if nth == 0 && link.has_exited() {
                        self.hung_up(handle, Errno::ECONNRESET);
                    }
                    return;
                }
                (Ok(Some(Said::Bell)), _) => {}
                (Ok(Some(Said::Hello(hello))), _) => self.introduced(handle, &link, hello),
                (Ok(Some(Said::Ring(ring))), Some(peer)) => {
                    if self.attach(handle, peer, ring, Instant::now()) == Err(Errno::ENOMEM) {
                        fabric_core::warn_few!(
                            NAME,
                            Subsys::EpCtrl,
                            "a peer's packets have to wait: {}",
                            shortage::explained(Errno::ENOMEM)
                        );
                    }
                }
                (Err(Errno::EMFILE), _) => return self.starve(handle.raw()),
                (Ok(Some(Said::Ring(_))), None) => {
                    return self.hung_up(handle, Errno::EPROTO);
                }
                (Err(reason), _) => return self.hung_up(handle, reason),
            }
        }
    }
}
