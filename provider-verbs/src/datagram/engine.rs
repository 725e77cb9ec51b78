//! HOT. What moves a datagram endpoint: its queue pair, and what is posted there.
//!
//! The device tells of all receives, of sends that somebody waits for, and of enough others that room and
//! ways come back. A request that fails stops the queue pair. It is started again then: receives are
//! posted anew in their order, and sends that had not left are lost, as datagrams may be.

mod complete;

use std::{collections::VecDeque, sync::Arc};

use fabric_core::{
    Errno, Result,
    av::Av,
    completion::{Interest, Report},
    engine::Stats,
    flags::Flags,
    lock::Lock,
    log::Subsys,
    mem::Buffers,
    op::{Descs, RecvOp, SendOp},
    wait::WaitSet,
};

use super::{
    address::DatagramAddress,
    gids::Gids,
    groups::{GroupTargets, Groups},
    peers::Peers,
    watch::{Place, Watch},
};
use crate::{
    NAME,
    device::Device,
    engine::{STRANGE, full, local},
    ports::place_of,
    settings,
    sys::{
        AddressHandle, CompChannel, Context, Cq, HEADER, Packets, Pd, Pieces, QpCap, RecvWork,
        SendWork, UdQp, What,
        abi::{IBV_SEND_INLINE, IBV_SEND_SIGNALED, ibv_wc},
    },
};

/// Completions taken in one call of the device.
const BATCH: usize = 16;
/// The bit of a request's word that tells a receive; the others are its number, and which start of the
/// queue pair it was posted after.
const RECEIVE: u64 = 1 << 63;
const STARTS: u64 = 0x7fff_ffff;
/// Progress calls after which the device is looked at.
const LOOK: u32 = 256;
/// At most this part of the sends is untold.
const UNTOLD: usize = 4;
/// A queue pair that no port has.
const NOBODY: u32 = 0xff_fffe;

/// What an endpoint keeps to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Sends.
    pub(crate) sends: usize,
    /// Receives.
    pub(crate) receives: usize,
    /// Pieces of a request.
    pub(crate) pieces: u32,
    /// Bytes of an inject, and of every request that carries them itself.
    pub(crate) inline: usize,
    /// Bytes of a message.
    pub(crate) message: usize,
    /// Receives begin with room for the header that the application has put there.
    pub(crate) prefixed: bool,
    /// Completions name the sender.
    pub(crate) sources: bool,
    /// Multicast groups can be joined.
    pub(crate) groups: bool,
}

/// A send that the device has.
#[derive(Debug)]
struct Sent {
    interest: Interest,
    bytes: usize,
    _way: Arc<AddressHandle>,
}

/// A receive that the device has.
#[derive(Debug)]
struct Posted {
    context: usize,
    flags: Flags,
    pieces: Pieces,
    /// The application's memory.
    buffers: Buffers,
    /// Where the header goes, unless it is the application's memory.
    header: Option<u32>,
}

/// The engine of an endpoint.
pub(crate) struct Datagrams<L: Lock> {
    pub(super) report: Report<L>,
    pub(super) stats: Stats,
    pub(super) enabled: bool,
    sends: VecDeque<Sent>,
    /// Sends at the end of the list whose success the device will not tell of.
    untold: usize,
    receives: VecDeque<Posted>,
    /// Numbers of the first of either.
    first_send: u32,
    first_receive: u32,
    starts: u32,
    /// Progress calls, modulo 2^32.
    rounds: u32,
    /// The device rings for completions.
    armed: bool,
    /// A request has failed, and the queue pair has to be started again.
    stopped: bool,
    /// It cannot be.
    broken: bool,
    service: u16,
    bounds: Bounds,
    peers: Peers,
    groups: Option<Arc<Groups>>,
    to_groups: GroupTargets,
    address: DatagramAddress,
    /// Room for headers, where the application leaves none.
    headers: Option<Packets>,
    /// Where the device puts completions.
    completions: Box<[ibv_wc; BATCH]>,
    qp: Arc<UdQp>,
    comp: Arc<CompChannel>,
    /// What a thread sleeps on: completions, the device, the bell.
    sleep: WaitSet,
    pub(super) place: Arc<Place>,
    watch: Arc<Watch>,
    device: Arc<Device>,
    _pd: Arc<Pd>,
}

impl<L: Lock> Datagrams<L> {
    /// Opens the queue pair, which takes no work yet.
    pub(super) fn new(
        device: Arc<Device>,
        pd: Arc<Pd>,
        watch: Arc<Watch>,
        bounds: Bounds,
    ) -> Result<Self> {
        let (context, port) = (pd.context(), device.port);
        // One more, for the send that shows at the end that those before it have left.
        let sends = bounds.sends + 1;
        let entries = u32::try_from(sends + bounds.receives).map_err(|_| Errno::EINVAL)?;
        let comp = CompChannel::new(context)?;
        let cq = Cq::new(context, entries, Some(&comp))?;
        let cap = QpCap {
            sends: sends as u32,
            receives: bounds.receives as u32,
            pieces: bounds.pieces,
            inline: bounds.inline as u32,
        };
        let partition = partition(context, port, settings::pkey())?;
        let qp = Arc::new(UdQp::new(&pd, cq, (port, partition), &cap)?);
        let groups = match bounds.groups {
            true => Some(Groups::new(context.tables(), &pd, &qp, port, watch.clone())?),
            false => None,
        };
        let (place, sleep) = (watch.place(qp.number())?, WaitSet::new()?);
        for (token, fd) in (0..).zip([comp.fd(), watch.fd(), place.bell()]) {
            sleep.add(fd, token)?;
        }
        let headers = match bounds.prefixed {
            true => None,
            false => Some(Packets::new(&pd, bounds.receives as u32, HEADER)?),
        };
        let gids = Gids::of(context, port, &device.name);
        let address = DatagramAddress {
            gid: gids.own(),
            number: qp.number(),
            lid: context.port(port)?.lid,
            pkey: context.pkey(port, partition)?,
            service: 0,
            level: 0,
        };
        Ok(Self {
            report: Report::new(),
            stats: Stats::default(),
            enabled: false,
            sends: VecDeque::new(),
            untold: 0,
            receives: VecDeque::new(),
            first_send: 0,
            first_receive: 0,
            starts: 0,
            rounds: 0,
            armed: false,
            stopped: false,
            broken: false,
            service: 0,
            bounds,
            peers: Peers::new(pd.clone(), gids, port),
            groups,
            to_groups: GroupTargets::default(),
            address,
            headers,
            completions: Box::new([const { ibv_wc::zeroed() }; BATCH]),
            qp,
            comp,
            sleep,
            place,
            watch,
            device,
            _pd: pd,
        })
    }

    /// Begins to send and receive.
    pub(super) fn enable(&mut self, av: Option<Arc<Av>>) -> Result<()> {
        self.qp.start()?;
        self.peers.set_av(av);
        self.enabled = true;
        Ok(())
    }

    /// Ends it: the device touches no memory of the application any more.
    pub(super) fn close(&mut self) {
        self.enabled = false;
        self.place.set_eq(None);
        if let Some(groups) = &self.groups {
            groups.close();
        }
        self.to_groups = GroupTargets::default();
        // Nothing is left to be told of, whatever becomes of the queue pair.
        let _ = self.qp.reset();
        self.sends.clear();
        self.untold = 0;
        self.receives.clear();
        self.peers.clear();
    }

    /// The groups that it is a member of, if there can be any.
    pub(super) const fn groups(&self) -> Option<&Arc<Groups>> {
        self.groups.as_ref()
    }

    /// Where peers send to.
    pub(super) fn address(&self) -> DatagramAddress {
        DatagramAddress { service: self.service, ..self.address }
    }

    /// The service that name servers know it under.
    pub(super) const fn set_service(&mut self, service: u16) {
        self.service = service;
    }

    /// Sends that have not left, but for those that the device will not tell of.
    pub(super) fn owes(&self) -> usize {
        if self.broken { 0 } else { self.sends.len() - self.untold }
    }

    /// Posts a message.
    #[inline]
    pub(super) fn post_send(
        &mut self,
        op: &SendOp<'_>,
        buffers: &Buffers,
        descs: Descs<'_>,
    ) -> Result<()> {
        let bytes = buffers.len();
        if op.tagged {
            return Err(Errno::EOPNOTSUPP);
        }
        self.usable()?;
        let inline = bytes <= self.bounds.inline;
        if op.meta.injects() && !inline {
            return Err(Errno::EINVAL);
        }
        if bytes > self.bounds.message {
            return Err(Errno::EMSGSIZE);
        }
        if self.sends.len() >= self.bounds.sends {
            self.make_room()?;
        }
        let pieces = local(buffers, descs, inline, self.bounds.pieces)?;
        let number = self.first_send.wrapping_add(self.sends.len() as u32);
        let interest = op.meta.interest();
        // Who counts has to be told of each.
        let told = self.report.tells(&interest)
            || self.report.counts_kind(KIND_SEND)
            || self.untold >= self.bounds.sends / UNTOLD;
        let mut flags = if told { IBV_SEND_SIGNALED } else { 0 };
        if inline {
            flags |= IBV_SEND_INLINE;
        }
        let work = SendWork {
            id: self.word(number),
            what: What::Send,
            pieces,
            // 32 bits wide here.
            immediate: op.meta.cq_data().map(|data| data as u32),
            flags,
        };
        let (way, number) = if op.meta.flags.contains(Flags::MULTICAST) {
            let target = self.to_groups.get(self.groups.as_deref(), op.meta.dest)?;
            (&target.way, target.number)
        } else {
            let target = self.peers.target(op.meta.dest)?;
            (&target.way, target.number)
        };
        self.qp.post_send(&work, way, number).map_err(full)?;
        let way = way.clone();
        self.note(Sent { interest, bytes, _way: way }, told);
        Ok(())
    }

    /// Posts a message to nobody, which shows by its end that those before it have left, if the device
    /// does not tell of them.
    pub(super) fn post_end(&mut self) {
        if self.untold == 0 || self.usable().is_err() {
            return;
        }
        let work = SendWork {
            id: self.word(self.first_send.wrapping_add(self.sends.len() as u32)),
            what: What::Send,
            pieces: Pieces::NONE,
            immediate: None,
            flags: IBV_SEND_SIGNALED,
        };
        // Without it, what is on its way may be lost, as datagrams may be.
        if let Ok(way) = self.peers.way(&self.address)
            && self.qp.post_send(&work, &way, NOBODY).is_ok()
        {
            let interest = Interest { context: 0, flags: Flags::empty(), silent: true };
            self.note(Sent { interest, bytes: 0, _way: Arc::new(way) }, true);
        }
    }

    /// A send has been posted.
    #[inline]
    fn note(&mut self, sent: Sent, told: bool) {
        self.untold = if told { 0 } else { self.untold + 1 };
        self.sends.push_back(sent);
    }

    /// Posts a receive. `EINVAL` if it has no room for the header that goes in front.
    #[inline]
    pub(super) fn post_recv(
        &mut self,
        op: &RecvOp<'_>,
        buffers: &Buffers,
        descs: Descs<'_>,
    ) -> Result<()> {
        if op.tagged || op.flags.intersects(STRANGE) {
            return Err(Errno::EOPNOTSUPP);
        }
        self.usable()?;
        if self.bounds.prefixed && buffers.len() < HEADER {
            return Err(too_short(buffers.len()));
        }
        // The room for the header is one of its own.
        let most = self.bounds.pieces - u32::from(self.headers.is_some());
        let own = local(buffers, descs, false, most)?;
        if self.receives.len() >= self.bounds.receives {
            return Err(Errno::EAGAIN);
        }
        let (pieces, header) = match &mut self.headers {
            None => (own, None),
            Some(headers) => {
                let header = headers.take().ok_or(Errno::EAGAIN)?;
                let pieces = headers.whole(header).and_then(|mut all| {
                    all.append(&own)?;
                    Ok(all)
                });
                (pieces.inspect_err(|_| headers.give_back(header))?, Some(header))
            }
        };
        let number = self.first_receive.wrapping_add(self.receives.len() as u32);
        let id = self.word(number) | RECEIVE;
        if let Err(reason) = self.qp.post_recv(&RecvWork { id, pieces }) {
            self.give_back(header);
            return Err(full(reason));
        }
        let (context, flags, buffers) = (op.context, op.flags, *buffers);
        self.receives.push_back(Posted { context, flags, pieces, buffers, header });
        Ok(())
    }

    #[inline]
    fn usable(&self) -> Result<()> {
        match self {
            Self { enabled: false, .. } => Err(Errno::EOPBADSTATE),
            Self { broken: true, .. } => Err(Errno::EIO),
            _ => Ok(()),
        }
    }

    #[cold]
    fn make_room(&mut self) -> Result<()> {
        self.progress();
        if self.sends.len() >= self.bounds.sends { Err(Errno::EAGAIN) } else { Ok(()) }
    }

    #[inline]
    fn word(&self, number: u32) -> u64 {
        (u64::from(self.starts) & STARTS) << 32 | u64::from(number)
    }

    /// Takes in what has completed.
    #[inline]
    pub(super) fn progress(&mut self) {
        if !self.enabled {
            return;
        }
        if self.poll() && self.armed {
            // Others may sleep on, and have to be rung for again.
            self.rearm();
        }
        self.rounds = self.rounds.wrapping_add(1);
        if self.rounds.is_multiple_of(LOOK) {
            self.watch.look();
        }
        if let Some(reason) = self.place.take() {
            self.breaks(reason);
        }
        if self.stopped && !self.broken {
            self.start_again();
        }
    }

    /// Prepares for sleeping on the descriptor; `false` if there is something to do.
    pub(super) fn arm(&mut self) -> bool {
        self.armed = true;
        self.watch.look();
        let given_up = self.place.take().inspect(|reason| self.breaks(*reason)).is_some();
        !self.rearm() && !self.stopped && !given_up
    }

    /// What a thread sleeps on.
    pub(super) fn wait_fd(&self) -> i32 {
        self.sleep.raw()
    }

    fn rearm(&mut self) -> bool {
        self.comp.drain();
        if let Err(reason) = self.qp.cq().arm() {
            fabric_core::warn!(NAME, Subsys::Cq, "a completion queue does not ring: {reason}");
        }
        self.poll()
    }
}

impl<L: Lock> std::fmt::Debug for Datagrams<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Datagrams").field("qp", &self.qp).finish_non_exhaustive()
    }
}

const KIND_SEND: Flags = Flags::MSG.union(Flags::SEND);
const KIND_RECV: Flags = Flags::MSG.union(Flags::RECV);

/// The place of the key of the partition to be in: the first one, unless one is wanted. `EINVAL` if the
/// port is not in that.
pub(super) fn partition(context: Context, port: u8, wanted: Option<u16>) -> Result<u16> {
    let Some(wanted) = wanted else { return Ok(0) };
    let count = context.port(port)?.pkey_tbl_len;
    let keys: Vec<u16> = (0..count).map(|at| context.pkey(port, at).unwrap_or(0)).collect();
    place_of(wanted, &keys).ok_or_else(|| {
        let name = context.name();
        fabric_core::warn!(
            NAME,
            Subsys::EpCtrl,
            "{name} port {port} is not in partition {wanted:#06x} (FI_VERBS_PKEY)"
        );
        Errno::EINVAL
    })
}

#[cold]
fn too_short(len: usize) -> Errno {
    fabric_core::warn!(
        NAME,
        Subsys::EpData,
        "a receive of {len} bytes: FI_MSG_PREFIX asks for ep_attr.msg_prefix_size ({HEADER}) more \
         than the message has"
    );
    Errno::EINVAL
}

#[cfg(test)]
mod tests;
