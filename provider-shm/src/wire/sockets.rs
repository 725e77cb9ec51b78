//! PENDING. Sockets: newcomers, what peers say, rings that are handed over.

use std::{
    os::fd::AsFd,
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

use super::{LISTENER, SIGNAL, ShmWire, Watched, clock::ticks};
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
        self.starved = false;
        self.reserve.refill();
        self.find_processes();
        self.attach_unmapped();
        self.young = self.young.saturating_sub(1);
        let mut ready = [(0u64, false); READY];
        let mut count = 0;
        self.sockets.ready::<READY>(|token, hang_up| {
            if let Some(place) = ready.get_mut(count) {
                *place = (token, hang_up);
                count += 1;
            }
        });
        for &(token, _) in &ready[..count] {
            match token {
                LISTENER => self.accept(),
                // For a sleeper, who may not have run yet.
                SIGNAL => {}
                token => self.hear(Handle::from_raw(token)),
            }
        }
        self.heard |= count != 0;
        self.finish_ending();
        self.last_look = ticks();
    }

    fn accept(&mut self) {
        for _ in 0..READY {
            let Some(listener) = &self.listener else { return };
            match self.reserve.lend(Need::Connection, || listener.accept()) {
                Ok(Some(link)) => {
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
                Err(Errno::EMFILE) => {
                    self.starved = true;
                    return;
                }
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
                self.starved = true;
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
                self.hear(handle);
            }
        }
    }

    /// What a peer says now.
    pub(super) fn hear(&mut self, handle: Handle) {
        for said in 0..MESSAGES {
            if self.successors.iter().any(|(waiting, _)| *waiting == handle) {
                return;
            }
            let Some(watched) = self.links.get(handle) else { return };
            if watched.unmapped.is_some() {
                return;
            }
            let (link, peer) = (watched.link.clone(), watched.peer);
            match (self.reserve.lend(Need::Ring, || link.hear()), peer) {
                (Ok(None), _) => {
                    // Nothing was said, so it may be the process that has news.
                    if said == 0 && link.has_exited() {
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
                (Err(Errno::EMFILE), _) => {
                    self.starved = true;
                    return;
                }
                (Ok(Some(Said::Ring(_))), None) => {
                    return self.hung_up(handle, Errno::EPROTO);
                }
                (Err(reason), _) => return self.hung_up(handle, reason),
            }
        }
    }
}
