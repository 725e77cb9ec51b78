//! HOT. Connected endpoints over TCP as the transport of reliable datagrams in another protocol:
//! `tcp;ofi_rxm`.

use std::{
    ffi::CStr,
    fmt,
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::{Duration, Instant},
};

use fabric_core::{
    Errno, Result,
    attr::Info,
    domain::Domain,
    flags::Flags,
    lock::Lock,
    mem::Buffers,
    mr::{MrRequest, Region},
    op::RmaIov,
    rdm_over_msg::{Access, Event, MsgRdmEndpoint, Sent, Taker, Token, Transport, packet::Ranges},
    reaching::Verdict,
    slab::Handle,
};

use crate::{
    address::{SocketAddress, local},
    engine::{Buffering, Engine, Ep, Limits, exposed},
    frame::head::HEAD_MAX,
    net::{Net, Sockets},
    offer, settings,
    words::words,
};

/// An endpoint of `tcp;ofi_rxm`.
pub type TcpRxmEndpoint<L> = MsgRdmEndpoint<Streams<L>, L>;

/// Connections of one endpoint.
pub struct Streams<L: Lock> {
    engine: Engine<L, Sockets>,
    ep: Handle,
    domain: Arc<Domain>,
    /// Keys of memory that is opened to peers: nobody can guess the next one.
    hasher: RandomState,
    keys: u64,
}

/// Memory that is open to peers, one region for each piece.
#[derive(Debug)]
pub struct Exposure(Vec<Arc<Region>>);

impl<L: Lock> fmt::Debug for Streams<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streams").field("engine", &self.engine).finish_non_exhaustive()
    }
}

/// Pieces of a buffer may have no bytes.
fn pieces(memory: &Buffers) -> impl Iterator<Item = &fabric_core::op::IoVec> {
    memory.iov().iter().filter(|piece| piece.len != 0)
}

/// Reads ahead several whole messages, which are taken from there.
fn buffering(set: Buffering, packet: usize) -> Buffering {
    const MESSAGES: usize = 4;
    const MOST: usize = 128 << 10;
    let whole = (MESSAGES * (packet + HEAD_MAX)).min(MOST);
    Buffering { ahead: if set.ahead == 0 { 0 } else { set.ahead.max(whole) }, ..set }
}

impl<L: Lock> Streams<L> {
    fn register(&mut self, memory: &Buffers, access: Flags) -> Result<Vec<Arc<Region>>> {
        let mut regions = Vec::with_capacity(1);
        for piece in pieces(memory) {
            loop {
                self.keys = self.keys.wrapping_add(1);
                let request = MrRequest {
                    iov: &[*piece],
                    access,
                    requested_key: self.hasher.hash_one(self.keys),
                    offset: 0,
                    flags: Flags::empty(),
                    context: exposed(),
                };
                match self.domain.regions().register(&request) {
                    Ok(region) => regions.push(region),
                    // The application, or chance, has this key.
                    Err(Errno::ENOKEY | Errno::EKEYREJECTED) => continue,
                    Err(reason) => {
                        self.withdraw(Exposure(regions));
                        return Err(reason);
                    }
                }
                break;
            }
        }
        Ok(regions)
    }
}

impl<L: Lock> Transport for Streams<L> {
    type Address = SocketAddress;
    type Conn = Handle;
    type Request = Handle;
    type Packet = Vec<u8>;
    type Exposure = Exposure;

    const CAPS: Flags = offer::RXM_CAPS;
    const RANGES: usize = offer::IOV_LIMIT;
    const COPIED: usize = 4096;
    const RECEIVES: u32 = 0;

    fn words(err: Errno) -> Option<&'static CStr> {
        words(err)
    }

    fn connect_timeout() -> Duration {
        settings::connect_timeout()
    }

    fn open(domain: &Arc<Domain>, info: &Info, packet: usize) -> Result<Self> {
        let options = settings::options();
        let sockets = Sockets::new(options, settings::ports())?;
        let buffering = buffering(settings::buffering(), packet);
        let mut engine = Engine::new(sockets, options.patience, buffering);
        let limits = Limits {
            inject: 0,
            outstanding: usize::MAX,
            directed: false,
            source: false,
            rma_event: info.caps.contains(Flags::RMA_EVENT),
            war: info.tx.as_ref().is_some_and(|tx| tx.msg_order.intersects(offer::WAR)),
            atomics: false,
            coalesce: settings::coalesce(),
            connect: settings::connect_timeout(),
        };
        let mut state = Ep::new(domain.regions().clone(), limits);
        state.local = local(info)?;
        state.layer = Some(packet);
        let ep = engine.open_endpoint(state, 0)?;
        let domain = domain.clone();
        Ok(Self { engine, ep, domain, hasher: RandomState::new(), keys: 0 })
    }

    fn listen(&mut self) -> Result<()> {
        self.engine.listen(self.ep)
    }

    fn close(&mut self) {
        self.engine.close(self.ep);
        self.engine.core.layer.clear();
    }

    fn name(&mut self) -> Result<SocketAddress> {
        self.engine.name(self.ep)
    }

    fn public_name(&self, name: SocketAddress) -> SocketAddress {
        offer::reachable(name)
    }

    fn set_name(&mut self, name: SocketAddress) -> Result<()> {
        let ep = self.engine.core.eps.get_mut(self.ep).ok_or(Errno::EOPBADSTATE)?;
        ep.local = Some(name);
        Ok(())
    }

    fn connect(&mut self, token: Token, to: SocketAddress, data: &[u8]) -> Result<Handle> {
        self.engine.layer_connect(self.ep, token, to, data)
    }

    fn accept(&mut self, token: Token, request: Handle, data: &[u8]) -> Result<Handle> {
        self.engine.layer_accept(request, token, data).map(|()| request)
    }

    fn reject(&mut self, request: Handle, data: &[u8]) {
        self.engine.layer_reject(request, data);
    }

    fn judge(&mut self, request: &Handle, rival: Handle, peer: SocketAddress) -> Result<Verdict> {
        self.engine.judge(*request, rival, peer)
    }

    fn extend(&mut self, conn: Handle) {
        self.engine.layer_extend(conn);
    }

    fn end(&mut self, conn: Handle) {
        self.engine.layer_end(conn);
    }

    fn local(&self, conn: Handle) -> Result<SocketAddress> {
        self.engine.layer_local(conn)
    }

    fn local_of(&self, request: &Handle) -> Result<SocketAddress> {
        self.engine.layer_local(*request)
    }

    fn look(&mut self, conn: Handle) {
        self.engine.layer_look(conn);
    }

    #[inline]
    fn inject(
        &mut self,
        conn: Handle,
        head: &[u8],
        body: &Buffers,
        more: bool,
        token: Token,
    ) -> Result<Sent> {
        self.engine.layer_inject(conn, head, body, more, token)
    }

    fn send(
        &mut self,
        conn: Handle,
        head: &[u8],
        body: &Buffers,
        flags: Flags,
        token: Token,
    ) -> Result<Sent> {
        self.engine.layer_send(conn, head, *body, flags, token)
    }

    fn access(&mut self, conn: Handle, access: &Access<'_>, token: Token) -> Result<()> {
        self.engine.layer_access(conn, access, token)
    }

    fn expose(&mut self, memory: &Buffers, access: Flags) -> Result<(Exposure, Ranges)> {
        let exposure = Exposure(self.register(memory, access)?);
        let range = |(region, piece): (&Arc<Region>, &fabric_core::op::IoVec)| RmaIov {
            addr: region.raw_attr().0,
            len: piece.len,
            key: region.key(),
        };
        let ranges: Vec<RmaIov> = exposure.0.iter().zip(pieces(memory)).map(range).collect();
        match Ranges::new(&ranges) {
            Some(ranges) => Ok((exposure, ranges)),
            None => {
                self.withdraw(exposure);
                Err(Errno::EINVAL)
            }
        }
    }

    fn withdraw(&mut self, exposure: Exposure) {
        for region in exposure.0 {
            // It is in the table, since nobody else takes it out.
            let _ = self.domain.regions().close(&region);
        }
    }

    fn pause(&mut self, conn: Handle, pause: bool) {
        self.engine.layer_pause(conn, pause);
    }

    #[inline]
    fn poll(&mut self, events: &mut Vec<Event<Self>>, taker: &mut impl Taker) {
        self.engine.progress_for(taker);
        self.engine.core.layer.hand_over(events);
    }

    fn owes(&mut self) -> usize {
        self.engine.owes(self.ep)
    }

    fn now(&self) -> Instant {
        self.engine.net.now()
    }

    fn set_alarm(&mut self, at: Instant) {
        self.engine.layer_alarm(at);
    }

    fn wait_fd(&self) -> Result<i32> {
        Ok(self.engine.net.wait_fd())
    }

    fn arm(&mut self) -> bool {
        self.engine.arm()
    }

    #[inline]
    fn hand_on(&mut self, must: bool) {
        self.engine.hand_on_if(must);
    }
}
