//! PENDING. Connected endpoints: one connection in a life, asked for or accepted, and the events
//! that tell of it (`fi_cm(3)`).

use std::{sync::Arc, time::Duration};

use fabric_core::{
    Errno, Result,
    eq::{ErrorEvent, Event, EventQueue},
    lock::Lock,
    log::Subsys,
    matching::PeerId,
    slab::Handle,
};

use super::{
    Core, Engine, Identity,
    conn::{Conn, State},
    failed::Failed,
    handshake::send_whole,
    timers::Due,
};
use crate::{
    address::SocketAddress,
    frame::{
        Endian,
        cm::{CmKind, CmMessage},
    },
    net::Net,
};

/// The only peer.
pub(super) const PEER: PeerId = 0;

/// What a connected endpoint has beside what every endpoint has.
#[derive(Debug)]
pub(crate) struct Msg {
    /// How events name the endpoint.
    pub(crate) object: usize,
    eq: Option<Arc<EventQueue>>,
    phase: Phase,
    /// What goes with the request.
    greeting: Vec<u8>,
    /// What came with a refusal.
    refusal: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Unconnected,
    Connecting,
    Connected,
    Ended,
}

/// A connection that is to be accepted.
#[derive(Debug)]
pub(crate) struct Answer<S> {
    pub(crate) stream: S,
    pub(crate) peer: SocketAddress,
    pub(crate) endian: Endian,
}

impl Msg {
    pub(crate) const fn new() -> Self {
        Self {
            object: 0,
            eq: None,
            phase: Phase::Unconnected,
            greeting: Vec::new(),
            refusal: Vec::new(),
        }
    }

    /// Where sends go. They are taken, and fail, as long as the program has not read that the connection
    /// has ended.
    #[inline]
    pub(crate) fn target(&self) -> Result<PeerId> {
        match self.phase {
            Phase::Connected => Ok(PEER),
            Phase::Ended if !self.end_is_read() => Ok(PEER),
            Phase::Unconnected | Phase::Connecting | Phase::Ended => Err(Errno::ENOTCONN),
        }
    }

    /// Of an endpoint that has ended: whether the program has read all its events.
    #[cold]
    pub(super) fn end_is_read(&self) -> bool {
        self.eq.as_ref().is_none_or(|eq| eq.pending(self.object) == 0)
    }

    /// It was connected, or could not be, and will not be again.
    pub(super) fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// As if its connection had ended, and that had been told.
    #[cfg(test)]
    pub(super) fn end(&mut self, eq: Arc<EventQueue>) {
        (self.eq, self.phase) = (Some(eq), Phase::Ended);
        self.tell(Event::Shutdown { object: self.object });
    }

    pub(super) fn greeting(&self) -> &[u8] {
        &self.greeting
    }

    fn tell(&self, event: Event) {
        if let Some(eq) = &self.eq {
            eq.push(event);
        }
    }
}

impl<L: Lock, N: Net> Engine<L, N> {
    /// Asks a peer for a connection. The outcome is an event.
    pub(crate) fn connect(
        &mut self,
        ep: Handle,
        to: SocketAddress,
        data: &[u8],
        eq: Arc<EventQueue>,
        patience: Duration,
    ) -> Result<()> {
        let now = self.net.now();
        let deadline = now + patience;
        let state = self.core.eps.get_mut(ep).ok_or(Errno::EOPBADSTATE)?;
        let local = state.local.filter(|local| local.family() == to.family());
        let msg = state.msg.as_mut().ok_or(Errno::ENOSYS)?;
        if msg.phase != Phase::Unconnected {
            return Err(Errno::EINVAL);
        }
        msg.greeting = data.to_vec();
        (msg.eq, msg.phase) = (Some(eq), Phase::Connecting);
        let peer = state.peer(to);
        let to = state.peers.get(peer as usize).map_or(to, |peer| peer.address);
        let begun = self.net.connect(local.map(SocketAddress::get), to.get()).and_then(|stream| {
            let mut conn = Conn::new(stream, ep, PEER, State::Connecting);
            (conn.begun, conn.deadline) = (Some(now), Some(deadline));
            self.adopt(conn)
        });
        match begun {
            Ok(handle) => {
                self.schedule(deadline, Due::Handshake(handle));
                if let Some(peer) = self.core.peer_mut(ep, PEER) {
                    peer.conn = Some(handle);
                }
            }
            Err(reason) => {
                self.core.refused(ep, Failed::at_once(reason));
            }
        }
        Ok(())
    }

    /// Accepts a connection. `Err`: the endpoint stays as it was, and the connection is given up.
    pub(crate) fn accept_request(
        &mut self,
        ep: Handle,
        answer: Answer<N::Stream>,
        data: &[u8],
        eq: Arc<EventQueue>,
    ) -> Result<()> {
        let state = self.core.eps.get_mut(ep).ok_or(Errno::EOPBADSTATE)?;
        let msg = state.msg.as_mut().ok_or(Errno::ENOSYS)?;
        if msg.phase != Phase::Unconnected {
            return Err(Errno::EINVAL);
        }
        (msg.eq, msg.phase) = (Some(eq), Phase::Connecting);
        state.peer(answer.peer);
        let message = CmMessage::new(CmKind::Response, data).map_err(|_| Errno::EINVAL)?;
        let mut conn = Conn::new(answer.stream, ep, PEER, State::Accepted);
        conn.endian = answer.endian;
        let begun = send_whole(&mut conn.stream, &message).and_then(|()| self.adopt(conn));
        match begun {
            Ok(handle) => self.up(handle, Vec::new()),
            Err(reason) => {
                self.core.refused(ep, Failed::at_once(reason));
            }
        }
        Ok(())
    }

    /// The peer has accepted, if this is a connected endpoint's connection.
    pub(super) fn accepted(&mut self, handle: Handle, data: &[u8]) -> bool {
        let ep = self.conns.get(handle).and_then(|conn| self.core.eps.get(conn.ep));
        let is_msg = ep.is_some_and(|ep| ep.msg.is_some());
        if is_msg {
            self.up(handle, data.to_vec());
        }
        is_msg
    }

    fn up(&mut self, handle: Handle, data: Vec<u8>) {
        let Some(conn) = self.conns.get_mut(handle) else { return };
        let ep = conn.ep;
        if let Some(peer) = self.core.peer_mut(ep, PEER) {
            peer.conn = Some(handle);
        }
        if let Some(msg) = self.core.msg_mut(ep) {
            msg.phase = Phase::Connected;
            msg.tell(Event::Connected { object: msg.object, data });
        }
        self.open(handle, Identity::default());
    }

    /// Ends the connection of a connected endpoint; what is staged leaves first, if it can.
    pub(crate) fn shutdown(&mut self, ep: Handle) -> Result<()> {
        if self.core.msg_mut(ep).is_some_and(|msg| msg.has_ended()) {
            // The peer was first; programs that answer its event with a shutdown are no different.
            return Ok(());
        }
        let peer = self.core.peer_mut(ep, PEER).ok_or(Errno::ENOTCONN)?;
        let handle = peer.conn.ok_or(Errno::ENOTCONN)?;
        self.pump(handle);
        if let Some(conn) = self.conns.get_mut(handle) {
            use crate::net::Stream as _;
            conn.stream.finish();
        }
        self.down(handle, Errno::ECANCELED);
        Ok(())
    }
}

impl<L: Lock> Core<L> {
    fn msg_mut(&mut self, ep: Handle) -> Option<&mut Msg> {
        self.eps.get_mut(ep)?.msg.as_mut()
    }

    /// Keeps a peer's reasons for the event.
    pub(super) fn note_refusal(&mut self, ep: Handle, data: &[u8]) {
        if let Some(msg) = self.msg_mut(ep) {
            msg.refusal = data.to_vec();
        }
    }

    /// A connected endpoint's hand-shake has failed; `false` for other endpoints.
    pub(super) fn refused(&mut self, ep: Handle, failed: Failed) -> bool {
        let Some(state) = self.eps.get_mut(ep) else { return false };
        let Some(msg) = &mut state.msg else { return false };
        msg.phase = Phase::Ended;
        // The program itself may have called it off.
        if let Some(peer) = state.peers.get(PEER as usize)
            && failed.reason != Errno::ECANCELED
        {
            let (to, words) = (peer.address, failed.words(peer.address));
            fabric_core::warn_few!("tcp", Subsys::EpCtrl, "{to} has not been connected: {words}");
        }
        let err_data = Arc::from(std::mem::take(&mut msg.refusal));
        let error = ErrorEvent { err_data, ..ErrorEvent::new(msg.object, 0, failed.reason) };
        if let Some(eq) = &msg.eq {
            eq.push_error(error);
        }
        self.fail_receives(ep, Errno::ECANCELED);
        true
    }

    /// The connection of a connected endpoint has ended: nothing can be received any more.
    pub(super) fn disconnected(&mut self, ep: Handle) {
        let Some(state) = self.eps.get_mut(ep) else { return };
        let Some(msg) = &mut state.msg else { return };
        msg.phase = Phase::Ended;
        msg.tell(Event::Shutdown { object: msg.object });
        self.fail_receives(ep, Errno::ECANCELED);
    }
}
