//! SETUP. Endpoints that wait for connections. A request becomes an event when it has arrived whole;
//! until then it costs its socket and a deadline.

use std::{
    fmt,
    os::fd::{AsFd, RawFd},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Instant,
};

use fabric_core::{
    Errno, Result,
    api::PassiveEndpoint,
    attr::Info,
    eq::{BoundEq, Drive, Event, EventQueue, RequestHandle},
    log::Subsys,
    mem::Buffers,
    slab::{Handle, Slab},
};

use crate::{
    address::{SocketAddress, local},
    engine::{Answer, send_whole},
    frame::{
        Endian,
        cm::{CM_DATA_MAX, CM_HEADER_LEN, CmError, CmHeader, CmKind, CmMessage, Shown},
    },
    net::{Accepted, Acceptor, Interest, Poller, REST, Ready, Socket, Stream, not_accepted},
    offer, settings,
};

/// Requests that may be on their way, or wait to be read.
const REQUESTS: usize = 4096;
/// The backlog of those who name none.
const BACKLOG: i32 = 1024;
/// The token of the listener; requests have those of their handles, which are not zero.
const LISTENER: u64 = 0;

/// A passive endpoint.
pub struct TcpPassive {
    state: Mutex<State>,
    poller: RawFd,
}

struct State {
    poller: Poller,
    info: Info,
    local: Option<SocketAddress>,
    backlog: i32,
    /// Has the address once the port matters.
    acceptor: Option<Acceptor>,
    listens: bool,
    /// Connections are not taken before.
    rests: Option<Instant>,
    eq: Option<BoundEq>,
    object: usize,
    arriving: Slab<Arriving>,
    closed: bool,
}

/// A request that is not whole.
struct Arriving {
    socket: Socket,
    from: SocketAddress,
    bytes: Vec<u8>,
    deadline: Instant,
}

/// A request that waits for its answer. Dropping it refuses it.
#[derive(Debug)]
pub(crate) struct Request {
    answer: Mutex<Option<Answer<Socket>>>,
}

impl Request {
    /// What a handle of ours stands for.
    pub(crate) fn of(handle: &RequestHandle) -> Result<Arc<Self>> {
        handle.clone().downcast::<Self>().map_err(|_| Errno::EINVAL)
    }

    /// Takes the connection; `EINVAL` if it has been taken.
    pub(crate) fn take(&self) -> Result<Answer<Socket>> {
        let mut answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        answer.take().ok_or(Errno::EINVAL)
    }

    fn refuse(&self, data: &[u8]) -> Result<()> {
        let message = CmMessage::new(CmKind::Reject, data).map_err(|_| Errno::EINVAL)?;
        let mut answer = self.take()?;
        // A peer that has left needs no refusal.
        let _ = send_whole(&mut answer.stream, &message);
        answer.stream.finish();
        Ok(())
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let _ = self.refuse(&[]);
    }
}

impl fmt::Debug for TcpPassive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpPassive").field("local", &self.lock().local).finish_non_exhaustive()
    }
}

impl TcpPassive {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PassiveEndpoint for TcpPassive {
    fn open(info: &Info, _context: usize) -> Result<Arc<Self>> {
        let local = local(info)?;
        let poller = Poller::new()?;
        Ok(Arc::new(Self {
            poller: poller.raw(),
            state: Mutex::new(State {
                poller,
                info: info.clone(),
                local,
                backlog: BACKLOG,
                acceptor: None,
                listens: false,
                rests: None,
                eq: None,
                object: 0,
                arriving: Slab::new(REQUESTS),
                closed: false,
            }),
        }))
    }

    fn bind_eq(self: &Arc<Self>, eq: &Arc<EventQueue>) -> Result<()> {
        let engine: Weak<dyn Drive> = Arc::<Self>::downgrade(self);
        let bound = eq.bind_driven(engine)?;
        // The one bound before goes without the lock held.
        let _before = self.lock().eq.replace(bound);
        Ok(())
    }

    fn listen(self: &Arc<Self>, object: usize) -> Result<()> {
        let mut state = self.lock();
        if state.eq.is_none() {
            return Err(Errno::ENOEQ);
        }
        if state.listens || state.closed {
            return Err(Errno::EINVAL);
        }
        state.bind()?;
        state.object = object;
        state.listen()
    }

    fn reject(&self, request: &RequestHandle, data: &[u8]) -> Result<()> {
        Request::of(request)?.refuse(data)
    }

    fn close(self: &Arc<Self>) {
        let mut state = self.lock();
        state.closed = true;
        state.acceptor = None;
        state.arriving.drain().for_each(drop);
        let _eq = state.eq.take();
        drop(state);
    }

    fn name(&self) -> Result<Vec<u8>> {
        let name = self.lock().bind()?;
        Ok(offer::reachable(name).to_bytes())
    }

    fn set_name(&self, name: &[u8]) -> Result<()> {
        let mut state = self.lock();
        if state.listens {
            return Err(Errno::EOPBADSTATE);
        }
        let name = SocketAddress::parse(name)?;
        if state.local.replace(name) != Some(name) {
            state.acceptor = None;
        }
        Ok(())
    }

    fn set_backlog(&self, backlog: usize) -> Result<()> {
        let mut state = self.lock();
        if state.listens {
            return Err(Errno::EOPBADSTATE);
        }
        state.backlog = i32::try_from(backlog.clamp(1, REQUESTS)).map_err(|_| Errno::EINVAL)?;
        Ok(())
    }
}

impl Drive for TcpPassive {
    fn drive(&self) {
        let mut events = Vec::new();
        let mut state = self.lock();
        if state.closed {
            return;
        }
        state.collect(&mut events);
        let eq = state.eq.as_deref().cloned();
        drop(state);
        for event in events {
            if let Some(eq) = &eq {
                eq.push(event);
            }
        }
    }

    fn arm(&self) -> Result<bool> {
        Ok(true)
    }

    fn wait_fd(&self) -> Result<RawFd> {
        Ok(self.poller)
    }
}

impl State {
    /// Takes the address, so that its port is known.
    fn bind(&mut self) -> Result<SocketAddress> {
        let local = self.local.ok_or(Errno::EADDRNOTAVAIL)?;
        if self.acceptor.is_some() || self.closed {
            return Ok(local);
        }
        let acceptor = self.acceptor.insert(Acceptor::bind(
            settings::options(),
            local.get(),
            settings::ports(),
        )?);
        Ok(*self.local.insert(acceptor.address().into()))
    }

    fn listen(&mut self) -> Result<()> {
        let acceptor = self.acceptor.as_ref().ok_or(Errno::EADDRNOTAVAIL)?;
        acceptor.listen(self.backlog)?;
        let interest = Interest::READ;
        self.poller.watch(acceptor.as_fd(), LISTENER, interest)?;
        self.listens = true;
        Ok(())
    }

    /// Takes connections and reads requests, as far as there are any.
    fn collect(&mut self, events: &mut Vec<Event>) {
        let mut ready = Vec::new();
        if self.rests.is_some_and(|until| until <= Instant::now()) {
            self.rests = None;
            self.watch_listener(true);
        }
        self.poller.ready(&mut ready);
        for Ready { token, .. } in ready {
            if token == LISTENER {
                self.accept();
            } else {
                self.read(Handle::from_raw(token), events);
            }
        }
        let now = Instant::now();
        let late: Vec<Handle> = self
            .arriving
            .iter()
            .filter(|(_, arriving)| arriving.deadline <= now)
            .map(|(handle, _)| handle)
            .collect();
        for handle in late {
            self.arriving.remove(handle);
        }
        // Others may sleep on, whoever looks meanwhile.
        let next =
            self.arriving.iter().map(|(_, arriving)| arriving.deadline).chain(self.rests).min();
        self.poller.alarm().set(next);
    }

    fn watch_listener(&self, watch: bool) {
        if let Some(acceptor) = &self.acceptor {
            let interest = Interest { read: watch, ..Interest::NONE };
            self.poller.change(acceptor.as_fd(), LISTENER, interest);
        }
    }

    /// Leaves connections where they are for a while.
    fn rest(&mut self) {
        self.watch_listener(false);
        self.rests = Some(Instant::now() + REST);
    }

    fn accept(&mut self) {
        let waiting = self.eq.as_ref().map_or(0, |eq| eq.pending(self.object));
        let mut room = REQUESTS.saturating_sub(waiting + self.arriving.len());
        while let Some(acceptor) = &self.acceptor
            && room != 0
        {
            let Accepted { stream, peer } = match acceptor.accept() {
                Ok(accepted) => accepted,
                Err(Errno::EAGAIN) => return,
                Err(reason) => {
                    not_accepted(reason);
                    if reason != Errno::EMFILE {
                        return self.rest();
                    }
                    room -= 1;
                    continue;
                }
            };
            room -= 1;
            let Some(handle) = self.arriving.next_handle() else { return };
            let interest = Interest::READ;
            if self.poller.watch(stream.as_fd(), handle.raw(), interest).is_err() {
                continue;
            }
            let deadline = Instant::now() + settings::connect_timeout();
            let arriving =
                Arriving { socket: stream, from: peer.into(), bytes: Vec::new(), deadline };
            let _ = self.arriving.insert(arriving);
        }
        if room == 0 {
            self.rest();
        }
    }

    /// Reads a request; what is none is dropped.
    fn read(&mut self, handle: Handle, events: &mut Vec<Event>) {
        let Some(arriving) = self.arriving.get_mut(handle) else { return };
        match arriving.read() {
            Ok(None) => {}
            Ok(Some(endian)) => {
                let Some(arriving) = self.arriving.remove(handle) else { return };
                if let Ok(event) = self.event(arriving, endian) {
                    events.push(event);
                }
            }
            Err(_) => {
                self.arriving.remove(handle);
            }
        }
    }

    fn event(&self, arriving: Arriving, endian: Endian) -> Result<Event> {
        let Arriving { socket, from, bytes, .. } = arriving;
        self.poller.forget(socket.as_fd());
        let mut info = self.info.clone();
        info.src_addr = SocketAddress::from(socket.local()?).to_bytes();
        info.dest_addr = from.to_bytes();
        info.addr_format = from.family().addr_format();
        let answer = Answer { stream: socket, peer: from, endian };
        Ok(Event::ConnectionRequest {
            object: self.object,
            info: Arc::new(info),
            handle: Arc::new(Request { answer: Mutex::new(Some(answer)) }),
            data: bytes[CM_HEADER_LEN..].to_vec(),
        })
    }
}

impl Arriving {
    fn estranged(&self, error: CmError) -> Errno {
        fabric_core::warn_few!(
            "tcp",
            Subsys::EpCtrl,
            "{} is let go: {error}; it begins with {}",
            self.from,
            Shown(&self.bytes)
        );
        Errno::EPROTO
    }

    /// Reads on; the byte order once the request is whole.
    fn read(&mut self) -> Result<Option<Endian>> {
        loop {
            let (want, endian) = match self.bytes.first_chunk::<CM_HEADER_LEN>() {
                None => {
                    CmHeader::check_front(&self.bytes).map_err(|error| self.estranged(error))?;
                    (CM_HEADER_LEN, None)
                }
                Some(head) => {
                    let head = CmHeader::parse(head).map_err(|error| self.estranged(error))?;
                    if head.kind != CmKind::Request {
                        return Err(Errno::EPROTO);
                    }
                    (CM_HEADER_LEN + head.len, Some(head.endian))
                }
            };
            let have = self.bytes.len();
            if have == want {
                return Ok(endian);
            }
            let mut room = [0; CM_HEADER_LEN + CM_DATA_MAX];
            match self.socket.receive(&Buffers::EMPTY, &mut room[..want - have]) {
                Ok(0) => return Err(Errno::ECONNRESET),
                Ok(n) => self.bytes.extend_from_slice(&room[..n]),
                Err(Errno::EAGAIN) => return Ok(None),
                Err(reason) => return Err(reason),
            }
        }
    }
}
