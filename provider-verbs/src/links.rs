//! HOT. Reliable connections as the transport of reliable datagrams in another protocol:
//! `verbs;ofi_rxm`.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use fabric_core::{
    Errno, Result,
    attr::Info,
    domain::Domain,
    flags::Flags,
    inet::{SocketAddress, local},
    mem::Buffers,
    op::RmaIov,
    rdm_over_msg::{Access, Event, MsgRdmEndpoint, Sent, Taker, Token, Transport, packet::Ranges},
    slab::Handle,
};

use crate::{
    endpoint::Port,
    engine::{Engine, Reads, private_data},
    offer, settings,
    sys::{
        CmId, Mr,
        abi::{IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE},
    },
};

/// An endpoint of `verbs;ofi_rxm`.
pub type VerbsRxmEndpoint<L> = MsgRdmEndpoint<Links, L>;

/// Connections of one endpoint.
#[derive(Debug)]
pub struct Links {
    engine: Engine,
    local: Option<SocketAddress>,
}

/// A request for a connection. Dropping it refuses it.
#[derive(Debug)]
pub struct LinkRequest {
    pub(crate) id: CmId,
    pub(crate) reads: Reads,
}

/// Memory that is open to peers, one region for each piece.
#[derive(Debug)]
pub struct Exposure(#[allow(dead_code, reason = "held until it is dropped")] Vec<Arc<Mr>>);

impl Links {
    /// Takes the address, so that its port is known.
    fn bind(&mut self) -> Result<SocketAddress> {
        let local = self.local.ok_or(Errno::EADDRNOTAVAIL)?;
        let (events, layer) = self.engine.layer_parts()?;
        if layer.listener.is_none() {
            let id = CmId::new(&events, 0)?;
            id.bind(local)?;
            self.local = id.local().or(self.local);
            layer.listener = Some(id);
        }
        self.local.ok_or(Errno::EADDRNOTAVAIL)
    }
}

impl Transport for Links {
    type Address = SocketAddress;
    type Conn = Handle;
    type Request = LinkRequest;
    type Packet = Vec<u8>;
    type Exposure = Exposure;

    const CAPS: Flags = offer::RDM_CAPS;
    const RANGES: usize = 1;
    const COPIED: usize = usize::MAX;
    const RECEIVES: u32 = 0;
    /// What a write has room for.
    const DATA: usize = size_of::<u32>();

    fn connect_timeout() -> Duration {
        settings::connect_timeout()
    }

    fn open(domain: &Arc<Domain>, info: &Info, packet: usize) -> Result<Self> {
        let port = Port::of(domain)?;
        let (device, pd) = port.lock().device_and_pd();
        let mut engine = Engine::new(device, pd)?;
        engine.open_layer(packet)?;
        let local = local(info)?;
        Ok(Self { engine, local })
    }

    fn listen(&mut self) -> Result<()> {
        self.bind()?;
        let (_, layer) = self.engine.layer_parts()?;
        layer.listener.as_ref().ok_or(Errno::EADDRNOTAVAIL)?.listen(1024)
    }

    fn close(&mut self) {
        self.engine.close_all();
    }

    fn name(&mut self) -> Result<SocketAddress> {
        self.bind()
    }

    fn set_name(&mut self, name: SocketAddress) -> Result<()> {
        self.local = Some(name);
        let (_, layer) = self.engine.layer_parts()?;
        layer.listener = None;
        Ok(())
    }

    fn connect(&mut self, token: Token, to: SocketAddress, data: &[u8]) -> Result<Handle> {
        self.engine.layer_connect(token, self.local, to, data)
    }

    fn accept(&mut self, token: Token, request: LinkRequest, data: &[u8]) -> Result<Handle> {
        self.engine.layer_accept(token, request, data)
    }

    fn reject(&mut self, request: LinkRequest, data: &[u8]) {
        if let Ok(words) = private_data(data) {
            // A peer that has left needs no refusal.
            let _ = request.id.reject(&words);
        }
    }

    fn end(&mut self, conn: Handle) {
        self.engine.close(conn);
    }

    fn local(&self, conn: Handle) -> Result<SocketAddress> {
        let ep = self.engine.eps.get(conn).ok_or(Errno::ENOTCONN)?;
        ep.name().or(self.local).ok_or(Errno::ENOTCONN)
    }

    fn local_of(&self, request: &LinkRequest) -> Result<SocketAddress> {
        request.id.local().ok_or(Errno::ENOTCONN)
    }

    fn look(&mut self, _: Handle) {
        self.engine.progress();
        self.engine.look();
    }

    #[inline]
    fn inject(
        &mut self,
        conn: Handle,
        head: &[u8],
        body: &Buffers,
        more: bool,
        _token: Token,
    ) -> Result<Sent> {
        self.engine.layer_send(conn, head, body, None, more).map(|()| Sent::Now)
    }

    fn send(
        &mut self,
        conn: Handle,
        head: &[u8],
        body: &Buffers,
        flags: Flags,
        token: Token,
    ) -> Result<Sent> {
        let more = flags.contains(Flags::MORE);
        self.engine.layer_send(conn, head, body, Some(token), more).map(|()| Sent::Later)
    }

    fn access(&mut self, conn: Handle, access: &Access<'_>, token: Token) -> Result<()> {
        self.engine.layer_access(conn, access, token)
    }

    fn expose(&mut self, memory: &Buffers, access: Flags) -> Result<(Exposure, Ranges)> {
        let mut rights = 0;
        if access.contains(Flags::REMOTE_READ) {
            rights |= IBV_ACCESS_REMOTE_READ;
        }
        if access.contains(Flags::REMOTE_WRITE) {
            rights |= IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
        }
        let (mut regions, mut ranges) = (Vec::with_capacity(1), Vec::with_capacity(1));
        // Pieces of a buffer may have no bytes.
        for piece in memory.iov().iter().filter(|piece| piece.len != 0) {
            let mr = self.engine.register(*piece, rights)?;
            let addr = piece.base.addr() as u64;
            ranges.push(RmaIov { addr, len: piece.len, key: u64::from(mr.rkey()) });
            regions.push(mr);
        }
        let ranges = Ranges::new(&ranges).ok_or(Errno::EINVAL)?;
        Ok((Exposure(regions), ranges))
    }

    fn withdraw(&mut self, exposure: Exposure) {
        drop(exposure);
    }

    fn pause(&mut self, conn: Handle, pause: bool) {
        self.engine.layer_pause(conn, pause);
    }

    #[inline]
    fn poll(&mut self, events: &mut Vec<Event<Self>>, _taker: &mut impl Taker) {
        self.engine.progress();
        if let Ok((_, layer)) = self.engine.layer_parts() {
            events.append(&mut layer.events);
        }
    }

    fn owes(&mut self) -> usize {
        self.engine.layer_owes()
    }

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn set_alarm(&mut self, at: Instant) {
        self.engine.layer_alarm(at);
    }

    fn wait_fd(&self) -> Result<i32> {
        Ok(self.engine.wait_fd())
    }

    fn arm(&mut self) -> bool {
        self.engine.arm()
    }

    #[inline]
    fn hand_on(&mut self, must: bool) {
        self.engine.hand_on(must);
    }
}
