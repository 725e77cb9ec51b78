//! PENDING. The first messages of a connection: who is there, and whether it stays.
//!
//! Two endpoints that reach for each other at the same time must agree which connection stays: it is
//! the one that the endpoint with the higher address has opened. A peer that opens another while one
//! is up has either been started anew, then it brings another [`Identity`] (see [`super::claims`]), or
//! is mistaken.

use std::cmp::Ordering;

use fabric_core::{Errno, Result, lock::Lock, log::Subsys, reaching::Verdict, slab::Handle};

use super::{
    Core, Engine, Ep, Identity,
    conn::{CM_MAX, Conn, State},
    failed::Failed,
    strangers::OF_ANOTHER_KIND,
};
use crate::{
    address::SocketAddress,
    frame::{
        Endian,
        cm::{CM_HEADER_LEN, CmError, CmHeader, CmKind, CmMessage},
        extension::{Extension, Features},
        record::{Greeting, Record, Speaker, rendezvous_allowed},
    },
    net::{Net, Stream},
};

/// What this side can do beyond the common protocol.
const FEATURES: Features = Features::OPERATIONS.union(Features::POSTED);

impl<L: Lock, N: Net> Engine<L, N> {
    /// Reads a connection's first message. `true` if there was something.
    pub(super) fn greet(&mut self, handle: Handle) -> bool {
        let Some(conn) = self.conns.get_mut(handle) else { return false };
        if matches!(conn.state, State::Connecting | State::Waiting) || conn.claim.is_some() {
            // Readable before it is connected: it has failed, and will be told as writable. A request
            // that waits is looked at in its time, or is being answered.
            return false;
        }
        let have = conn.rx.carry.len();
        let want = match cm_len(&conn.rx.carry) {
            Ok(want) => want,
            Err(error) => {
                let bytes = std::mem::take(&mut conn.rx.carry);
                self.estranged(handle, &bytes, &error.to_string());
                return true;
            }
        };
        if have < want {
            let mut bytes = [0; CM_MAX];
            let room = &mut bytes[..want - have];
            match conn.stream.receive(&fabric_core::mem::Buffers::EMPTY, room) {
                Ok(0) => self.down(handle, Errno::ECONNRESET),
                Ok(n) => {
                    conn.rx.carry.extend_from_slice(&bytes[..n]);
                    self.greet(handle);
                }
                Err(Errno::EAGAIN) => return false,
                Err(reason) => self.down(handle, reason),
            }
            return true;
        }
        self.hear(handle);
        true
    }

    /// Acts on a connection's first message.
    pub(super) fn hear(&mut self, handle: Handle) {
        let Some(conn) = self.conns.get_mut(handle) else { return };
        let message = std::mem::take(&mut conn.rx.carry);
        if let Err(reason) = self.greeted(handle, &message) {
            if reason == Errno::EPROTO {
                return self.estranged(handle, &message, OF_ANOTHER_KIND);
            }
            self.down(handle, reason);
        } else if let Some(conn) = self.conns.get_mut(handle).filter(|conn| conn.claim.is_some()) {
            // It waits.
            conn.rx.carry = message;
        }
    }

    fn greeted(&mut self, handle: Handle, message: &[u8]) -> Result<()> {
        let Some(conn) = self.conns.get_mut(handle) else { return Ok(()) };
        let (head, data) = message.split_first_chunk().ok_or(Errno::EPROTO)?;
        let head = CmHeader::parse(head).map_err(|_| Errno::EPROTO)?;
        match (conn.state, head.kind) {
            (State::Requested, CmKind::Response) => {
                conn.endian = head.endian;
                if conn.layer.is_some() {
                    self.layer_up(handle, data);
                    return Ok(());
                }
                if self.accepted(handle, data) {
                    return Ok(());
                }
                let greeting = Greeting::parse(data).map_err(|_| Errno::EPROTO)?;
                if let Some(conn) = self.conns.get_mut(handle) {
                    conn.rendezvous = rendezvous_allowed(greeting.record.version, head.endian);
                    conn.understand(&greeting, head.endian);
                }
                self.open(handle, identity(&greeting));
                Ok(())
            }
            (State::Requested, CmKind::Reject) => {
                let ep = conn.ep;
                if let Some(own) = self.core.speaker(ep)
                    && let Some(other) = Speaker::of_refusal(data, own)
                {
                    self.no_peer(handle, format_args!("{}", own.advice(other)));
                    return Ok(());
                }
                if let Some(layer) = &mut conn.layer {
                    layer.words = data.to_vec();
                }
                self.core.note_refusal(ep, data);
                Err(Errno::ECONNREFUSED)
            }
            (State::Accepted, CmKind::Request) => {
                conn.endian = head.endian;
                let own = self.core.speaker(conn.ep).ok_or(Errno::EPROTO)?;
                if let Some(other) = Speaker::of_request(data).filter(|other| *other != own) {
                    return self.refuse_speaker(handle, own, other);
                }
                if own == Speaker::OfiRxm {
                    return self.core.layer_requested(handle, conn, data);
                }
                let greeting = Greeting::parse(data).map_err(|_| Errno::EPROTO)?;
                self.admit(handle, &greeting)
            }
            _ => Err(Errno::EPROTO),
        }
    }

    /// Answers a request.
    fn admit(&mut self, handle: Handle, greeting: &Greeting) -> Result<()> {
        let Some(conn) = self.conns.get_mut(handle) else { return Ok(()) };
        let (ep, endian) = (conn.ep, conn.endian);
        let from = conn.from.ok_or(Errno::EPROTO)?;
        let address = from.with_port(greeting.record.port).canonical();
        self.forget_peers(ep);
        let state = self.core.eps.get_mut(ep).ok_or(Errno::EPROTO)?;
        let port = state.local.ok_or(Errno::EPROTO)?.port();
        let own = |stream: &N::Stream| own_end(stream, port);
        let peer = state.peer(address);
        let (nonce, own_extension) = (state.nonce, state.extension());
        if let Some(rival) = state.peers[peer as usize].conn {
            // A connection whose end has come but has not been seen is no rival.
            self.read(rival);
        }
        let known = self.core.peer_mut(ep, peer).map(|peer| (peer.conn, peer.identity));
        if let Some((Some(rival), stored)) = known
            && let Some(other) = self.conns.get(rival)
            && let Some(conn) = self.conns.get(handle)
            && address != own(&conn.stream)?
        {
            let keep_ours = match other.state {
                // The peer compares with where that one comes from.
                State::Connecting | State::Requested => {
                    address.contest(own(&other.stream)?) == Ordering::Less
                }
                State::Accepted | State::Waiting | State::Open => stored.agrees(identity(greeting)),
            };
            if keep_ours {
                return self.refuse(handle, greeting);
            }
            if other.state == State::Open {
                match self.judge(handle, rival, address)? {
                    Verdict::Believed => {}
                    Verdict::Refused => return self.refuse(handle, greeting),
                    Verdict::Open => return Ok(()),
                }
                fabric_core::info!("tcp", Subsys::EpCtrl, "{address} has been started anew");
                self.down(rival, Errno::ECONNRESET);
            } else {
                self.conns.remove(rival);
                if let Some(target) = self.core.peer_mut(ep, peer) {
                    target.conn = None;
                }
            }
        }
        let answer = Greeting {
            record: greeting.record.answer(nonce, endian),
            extension: greeting.extension.map(|_| own_extension),
        };
        let Some(conn) = self.conns.get_mut(handle) else { return Ok(()) };
        conn.peer = peer;
        conn.rendezvous = rendezvous_allowed(answer.record.version, endian);
        conn.understand(greeting, endian);
        let message = CmMessage::new(CmKind::Response, answer.user_data().as_slice());
        let answered = message.map_err(|_| Errno::EINVAL);
        if let Err(reason) = answered.and_then(|answer| send_whole(&mut conn.stream, &answer)) {
            // Our own attempt may have given way to this one.
            if self.core.peer_mut(ep, peer).is_some_and(|target| target.conn.is_none()) {
                self.not_reached(ep, peer, Failed::at_once(reason));
            }
            return Err(reason);
        }
        self.open(handle, identity(greeting));
        Ok(())
    }

    /// Turns a request down; it is returned with the refusal.
    fn refuse(&mut self, handle: Handle, greeting: &Greeting) -> Result<()> {
        self.refuse_with(handle, &greeting.record.bytes())
    }

    pub(super) fn refuse_with(&mut self, handle: Handle, data: &[u8]) -> Result<()> {
        let Some(mut conn) = self.conns.remove(handle) else { return Ok(()) };
        self.withdraw_claim(conn.claim);
        let message = CmMessage::new(CmKind::Reject, data).map_err(|_| Errno::EINVAL)?;
        // A peer that has left needs no refusal.
        let _ = send_whole(&mut conn.stream, &message);
        conn.stream.finish();
        Ok(())
    }

    /// Messages may travel now.
    pub(super) fn open(&mut self, handle: Handle, identity: Identity) {
        self.settle_claim(handle);
        let Some(conn) = self.conns.get_mut(handle) else { return };
        conn.state = State::Open;
        conn.deadline = None;
        let (ep, peer) = (conn.ep, conn.peer);
        if let Some(target) = self.core.peer_mut(ep, peer) {
            // Of a connection to ourselves, the end that we opened is the one to send on.
            if target.conn.is_none_or(|own| self.conns.get(own).is_none()) {
                target.conn = Some(handle);
            }
            target.identity = identity;
            target.attempts.succeed();
            target.asking.end();
            if target.conn == Some(handle)
                && let Some(conn) = self.conns.get_mut(handle)
            {
                conn.tx.queue.append(&mut target.waiting);
            }
        }
        self.rewatch(handle);
        self.list(handle);
        self.heat(handle);
    }
}

impl<L: Lock> Core<L> {
    /// Whose protocol an endpoint speaks; `None` for a connected one, which speaks its program's.
    pub(super) fn speaker(&self, ep: Handle) -> Option<Speaker> {
        let state = self.eps.get(ep)?;
        match (&state.msg, state.layer) {
            (Some(_), _) => None,
            (None, Some(_)) => Some(Speaker::OfiRxm),
            (None, None) => Some(Speaker::Tcp),
        }
    }

    /// What an endpoint says when it connects.
    pub(super) fn request(&self, ep: Handle) -> Result<CmMessage> {
        let state = self.eps.get(ep).ok_or(Errno::EOPBADSTATE)?;
        let message = if let Some(msg) = &state.msg {
            CmMessage::new(CmKind::Request, msg.greeting())
        } else {
            let port = state.local.map_or(0, |local| local.port());
            let record = Record::request(port, state.nonce);
            let greeting = Greeting { record, extension: Some(state.extension()) };
            CmMessage::new(CmKind::Request, greeting.user_data().as_slice())
        };
        message.map_err(|_| Errno::EINVAL)
    }
}

impl<L: Lock> Ep<L> {
    /// What it says to its own kind.
    const fn extension(&self) -> Extension {
        Extension { features: FEATURES, ..Extension::new(self.epoch) }
    }
}

const fn identity(greeting: &Greeting) -> Identity {
    let epoch = match &greeting.extension {
        Some(extension) => Some(extension.epoch),
        None => None,
    };
    Identity { nonce: greeting.record.nonce, epoch }
}

impl<S> Conn<S> {
    /// Takes what the peer says that it understands beyond the common protocol.
    fn understand(&mut self, greeting: &Greeting, endian: Endian) {
        let in_force = FEATURES.in_force(greeting.extension.as_ref(), endian);
        self.extensions = in_force.contains(Features::OPERATIONS);
        self.tells_posted = self.extensions && in_force.contains(Features::POSTED);
    }
}

/// An end of a connection as the peer names its owner, who listens at `port`: endpoints that listen
/// at all of a host's addresses have another one on each connection.
fn own_end(stream: &impl Stream, port: u16) -> Result<SocketAddress> {
    Ok(SocketAddress::from(stream.local()?).with_port(port).canonical())
}

/// Bytes of the connection message that begins so, as far as they show.
fn cm_len(bytes: &[u8]) -> std::result::Result<usize, CmError> {
    match bytes.first_chunk::<CM_HEADER_LEN>() {
        None => CmHeader::check_front(bytes).map(|()| CM_HEADER_LEN),
        Some(head) => Ok(CM_HEADER_LEN + CmHeader::parse(head)?.len),
    }
}

/// Sends a connection message, which peers read in one call: it must leave whole. It is the first
/// on its socket, so there is room.
pub(crate) fn send_whole(stream: &mut impl Stream, message: &CmMessage) -> Result<()> {
    let bytes = message.bytes();
    match stream.send(bytes, &fabric_core::mem::Buffers::EMPTY, false)? {
        n if n == bytes.len() => Ok(()),
        _ => Err(Errno::EIO),
    }
}
