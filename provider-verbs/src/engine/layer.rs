//! HOT. Connections of reliable datagrams: what the protocol above posts, and what it has to hear.
//!
//! Messages are copied into packets that are registered once, and received in packets of a queue that
//! all connections share. The device tells of requests that somebody waits for, and of enough others
//! that room and packets come back.

use std::{collections::VecDeque, sync::Arc, time::Instant};

use fabric_core::{
    Errno, Result,
    flags::Flags,
    inet::SocketAddress,
    mem::Buffers,
    op::RmaKind,
    rdm_over_msg::{Access, Event, Token},
    slab::Handle,
};

use super::{
    Engine, Ep, EpLimits, Reads,
    complete::Failure,
    ep::TxOp,
    id::{Id, Side},
    lent::Lent,
    parse_data,
};
use crate::{
    cache::Cache,
    links::{LinkRequest, Links},
    mr, settings,
    sys::{
        CmEvent, CmId, Packets, Pieces, RecvWork, SendWork, Srq, What,
        abi::{
            IBV_SEND_INLINE, IBV_SEND_SIGNALED, IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_SUCCESS,
            IBV_WC_WITH_IMM, ibv_wc,
        },
    },
};

/// Requests of one connection.
const SENDS: u32 = 128;
/// Packets on their way out, of all connections, at most.
const OUTGOING: u32 = 256;
/// Packets that may arrive before they are taken in, of all connections, at most: 8 MiB.
const INCOMING: u32 = 512;
/// Bytes of either, where packets are larger than usual. Fewer than so many packets would be no queue.
const BYTES: usize = 32 << 20;
const FEWEST: u32 = 4;

/// Packets of a size, of at most `most`.
fn count(most: u32, packet: usize) -> u32 {
    let fitting = u32::try_from(BYTES / packet.max(1)).unwrap_or(most);
    fitting.clamp(FEWEST, most)
}

/// What the engine has beside its endpoints for the protocol above.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) events: Vec<Event<Links>>,
    /// Where connections are asked for; events of it have no endpoint's word.
    pub(crate) listener: Option<CmId>,
    pub(crate) alarm: Option<Instant>,
    pub(super) outgoing: Packets,
    /// Where reads want what comes by way of packets, by the first of those.
    pub(super) into: Box<[Buffers]>,
    incoming: Packets,
    queue: Arc<Srq>,
    pub(super) cache: Cache,
}

/// What a connection has beside what every endpoint has.
#[derive(Debug)]
pub(super) struct Link {
    token: Token,
    /// Messages wait.
    paused: bool,
    held: VecDeque<Vec<u8>>,
}

/// What a request of the protocol's holds.
#[derive(Debug)]
pub(super) enum Held {
    /// Nothing: the request has taken the bytes along.
    Nothing,
    /// A packet, and whoever is to be told.
    Packet(u32, Option<Token>),
    /// Memory of the program's, and whoever is to be told.
    Memory(Lent, Token),
}

/// What is to be done, and with which data for the peer.
struct Posting {
    what: What,
    immediate: Option<u32>,
}

const SEND: Posting = Posting { what: What::Send, immediate: None };

impl Layer {
    /// Receives that all connections share.
    pub(super) const fn receives(&self) -> u32 {
        self.incoming.count()
    }

    /// The device has no part any more in what a request holds. `done`: it has succeeded.
    pub(super) fn let_go(&mut self, held: Held, done: bool) -> Option<Token> {
        match held {
            Held::Nothing => None,
            Held::Packet(packet, token) => {
                self.outgoing.give_back(packet);
                token
            }
            Held::Memory(lent, token) => {
                if let Some(bounce) = lent.bounce() {
                    self.take_back(&bounce, done);
                }
                Some(token)
            }
        }
    }
}

/// The owner of the queue's receives in their words.
const QUEUE: Handle = Handle::from_raw(1 << 32);

impl Engine {
    /// Makes the engine one of reliable datagrams, with packets of so many bytes.
    pub(crate) fn open_layer(&mut self, packet: usize) -> Result<()> {
        let incoming = count(INCOMING, packet).min(self.device.limits.shared);
        let outgoing = Packets::new(&self.pd, count(OUTGOING, packet), packet)?;
        let count = incoming;
        let incoming = Packets::new(&self.pd, count, packet)?;
        let queue = Srq::new(&self.pd, count, 1)?;
        for number in 0..count {
            let id = Id::new(Side::Shared, QUEUE, number).word();
            queue.post(&RecvWork { id, pieces: incoming.whole(number)? })?;
        }
        self.layer = Some(Layer {
            events: Vec::new(),
            listener: None,
            alarm: None,
            into: vec![Buffers::EMPTY; outgoing.count() as usize].into(),
            outgoing,
            incoming,
            queue,
            cache: Cache::open(mr::on_demand(&self.device, self.pd.context(), false)),
        });
        Ok(())
    }

    fn open_link(&mut self, token: Token, local: Option<SocketAddress>) -> Result<Handle> {
        let limits = &self.device.limits;
        let limits = EpLimits {
            sends: SENDS.min(limits.queue.saturating_sub(1)),
            // Those that all connections share have entries of their own.
            receives: 0,
            pieces: limits.pieces,
            inline: limits.inline,
            message: limits.message as usize,
            data: true,
        };
        let handle = self.open(limits, local.map(|local| local.with_port(0)))?;
        if let Some(ep) = self.eps.get_mut(handle) {
            ep.enabled = true;
            ep.link = Some(Link { token, paused: false, held: VecDeque::new() });
        }
        Ok(handle)
    }

    /// The queue that connections of the protocol receive from.
    pub(super) fn layer_queue(&self) -> Option<Arc<Srq>> {
        self.layer.as_ref().map(|layer| layer.queue.clone())
    }

    pub(crate) fn layer_connect(
        &mut self,
        token: Token,
        from: Option<SocketAddress>,
        to: SocketAddress,
        data: &[u8],
    ) -> Result<Handle> {
        let handle = self.open_link(token, from)?;
        let asked = self.connect(handle, to, data, None, settings::connect_timeout());
        asked.inspect_err(|_| self.close(handle))?;
        Ok(handle)
    }

    pub(crate) fn layer_accept(
        &mut self,
        token: Token,
        request: LinkRequest,
        data: &[u8],
    ) -> Result<Handle> {
        let handle = self.open_link(token, None)?;
        let LinkRequest { id, reads } = request;
        let accepted = self.accept(handle, id, reads, data, None, settings::connect_timeout());
        accepted.inspect_err(|_| self.close(handle))?;
        Ok(handle)
    }

    /// An event of the listener.
    pub(super) fn listener_event(&mut self, event: CmEvent) {
        let (Some(layer), Some(id)) = (&mut self.layer, event.request) else { return };
        let Some(from) = id.peer() else { return };
        let (own, served) = event.reads;
        let request = LinkRequest { id, reads: Reads { own, served } };
        layer.events.push(Event::Requested { request, from, data: parse_data(&event.data) });
    }

    /// Tells what has become of a connection, if it is one of the protocol's.
    pub(super) fn tell_layer(&mut self, handle: Handle, make: impl FnOnce(Token) -> Event<Links>) {
        let token = self.eps.get(handle).and_then(|ep| ep.link.as_ref()).map(|link| link.token);
        if let (Some(layer), Some(token)) = (&mut self.layer, token) {
            layer.events.push(make(token));
        }
    }

    /// Whether a connection is one of the protocol's.
    pub(super) fn is_link(&self, handle: Handle) -> bool {
        self.eps.get(handle).is_some_and(|ep| ep.link.is_some())
    }

    /// Posts a message. `token`: who is to be told of its end.
    pub(crate) fn layer_send(
        &mut self,
        handle: Handle,
        head: &[u8],
        body: &Buffers,
        token: Option<Token>,
        more: bool,
    ) -> Result<()> {
        self.room(handle)?;
        let inline = self.device.limits.inline as usize;
        // What waits for others must not be read from the program's memory later.
        if token.is_none()
            && !more
            && head.len() + body.len() <= inline
            && body.iov().len() < self.device.limits.pieces as usize
        {
            let mut pieces = Pieces::NONE;
            pieces.push(head.as_ptr().addr(), head.len(), 0)?;
            body.iov().iter().try_for_each(|p| pieces.push(p.base.addr(), p.len, 0))?;
            let held = Held::Nothing;
            return self.post_held(handle, SEND, pieces, IBV_SEND_INLINE, held, false);
        }
        let layer = self.layer.as_mut().ok_or(Errno::EOPBADSTATE)?;
        let packet = layer.outgoing.take().ok_or(Errno::EAGAIN)?;
        let filled = layer.outgoing.fill(packet, head, body);
        let pieces = filled.and_then(|len| layer.outgoing.piece(packet, len));
        let posted = pieces.and_then(|pieces| {
            self.post_held(handle, SEND, pieces, 0, Held::Packet(packet, token), more)
        });
        if posted.is_err()
            && let Some(layer) = &mut self.layer
        {
            layer.outgoing.give_back(packet);
        }
        posted
    }

    /// Posts a read or write of the peer's memory.
    pub(crate) fn layer_access(
        &mut self,
        handle: Handle,
        access: &Access<'_>,
        token: Token,
    ) -> Result<()> {
        self.room(handle)?;
        let len = access.local.len();
        let (address, key) = super::post::remote(access.remote, len)?;
        let more = access.flags.contains(Flags::MORE);
        let reads = access.kind == RmaKind::Read;
        let what = if reads { What::Read { address, key } } else { What::Write { address, key } };
        let what = Posting { what, immediate: access.data.map(|data| data as u32) };
        let fits = len <= self.device.limits.inline as usize;
        if !reads && fits && !more {
            let mut pieces = Pieces::NONE;
            access.local.iov().iter().try_for_each(|p| pieces.push(p.base.addr(), p.len, 0))?;
            let held = Held::Memory(Lent::None, token);
            return self.post_held(handle, what, pieces, IBV_SEND_INLINE, held, false);
        }
        let (pieces, lent) = self.lend(access.local, reads)?;
        let bounce = lent.bounce();
        let posted = self.post_held(handle, what, pieces, 0, Held::Memory(lent, token), more);
        if let (Err(_), Some(bounce), Some(layer)) = (posted, bounce, &mut self.layer) {
            layer.take_back(&bounce, false);
        }
        posted
    }

    /// Whether another request fits. What has ended may have to be told first.
    fn room(&mut self, handle: Handle) -> Result<()> {
        let ep = self.eps.get(handle).ok_or(Errno::ENOTCONN)?;
        ep.connected()?;
        if ep.sends.list.len() >= ep.limits.sends as usize {
            return Err(Errno::EAGAIN);
        }
        Ok(())
    }

    /// Posts a request, or has it wait for the next one. What nobody waits for is told of by what
    /// is; in between, the device tells of enough that there is room, and of all once half of the
    /// packets are on their way: those of connections that fall silent stay with them.
    fn post_held(
        &mut self,
        handle: Handle,
        posting: Posting,
        pieces: Pieces,
        flags: u32,
        held: Held,
        more: bool,
    ) -> Result<()> {
        let Posting { what, immediate } = posting;
        let scarce = self.layer.as_ref().is_none_or(|layer| layer.outgoing.is_scarce());
        let ep = self.eps.get_mut(handle).ok_or(Errno::ENOTCONN)?;
        let told = match held {
            Held::Nothing | Held::Packet(_, None) => ep.is_untold_enough(),
            Held::Packet(_, Some(_)) | Held::Memory(..) => true,
        };
        let told = told || (scarce && matches!(held, Held::Packet(..)));
        let flags = if told { flags | IBV_SEND_SIGNALED } else { flags };
        let id = Id::new(Side::Send, handle, ep.next_send()).word();
        let work = SendWork { id, what, pieces, immediate, flags };
        self.hand_over(handle, work, TxOp::held(held), told, more)
    }

    /// A request of the protocol's has ended.
    pub(super) fn held_ended(&mut self, held: Held, outcome: Result<(), Failure>) {
        let Some(layer) = &mut self.layer else { return };
        if let Some(token) = layer.let_go(held, outcome.is_ok()) {
            let outcome = outcome.map_err(|(errno, _)| errno);
            layer.events.push(Event::Done { token, outcome });
        }
    }

    /// A receive of the protocol's queue has ended; the device gets it back at once.
    pub(super) fn complete_layer(&mut self, number: u32, completion: &ibv_wc) {
        let Some(layer) = &mut self.layer else { return };
        let owner = self.by_qp.get(&completion.qp_num).copied();
        let link = owner.and_then(|owner| self.eps.get_mut(owner)?.link.as_mut());
        let done = completion.status == IBV_WC_SUCCESS;
        if let (Some(link), true) = (link, done) {
            let conn = link.token;
            let len = completion.byte_len as usize;
            if completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM {
                let with_data = completion.wc_flags & IBV_WC_WITH_IMM != 0;
                let data = with_data.then(|| u64::from(u32::from_be(completion.imm_data)));
                let kind = Flags::REMOTE_WRITE;
                layer.events.push(Event::Accessed { conn, kind, bytes: len, data });
            } else {
                let packet = layer.incoming.bytes(number, len).to_vec();
                if link.paused {
                    link.held.push_back(packet);
                } else {
                    layer.events.push(Event::Packet { conn, packet });
                }
            }
        }
        let id = Id::new(Side::Shared, QUEUE, number).word();
        if let Ok(pieces) = layer.incoming.whole(number) {
            // It was in the queue before, so that there is room.
            let _ = layer.queue.post(&RecvWork { id, pieces });
        }
        if let (false, Some(owner)) = (done, owner) {
            self.failed(owner, completion.status);
        }
    }

    /// Holds the messages of a connection back, or no more.
    pub(crate) fn layer_pause(&mut self, handle: Handle, pause: bool) {
        let link = self.eps.get_mut(handle).and_then(|ep| ep.link.as_mut());
        let (Some(link), Some(layer)) = (link, &mut self.layer) else { return };
        link.paused = pause;
        if !pause {
            let conn = link.token;
            let packets = link.held.drain(..).map(|packet| Event::Packet { conn, packet });
            layer.events.extend(packets);
        }
    }

    /// Requests that have not ended. Those that the device would not tell of show from now on.
    pub(crate) fn layer_owes(&mut self) -> usize {
        let untold = |(handle, ep): (Handle, &Ep)| (ep.sends.untold != 0).then_some(handle);
        let untold: Vec<Handle> = self.eps.iter().filter_map(untold).collect();
        untold.into_iter().for_each(|handle| self.post_end(handle));
        self.eps.iter().map(|(handle, _)| self.owes(handle)).sum()
    }
}
