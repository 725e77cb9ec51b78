//! The engine of datagrams on a device that does what the tests say.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use fabric_core::{
    attr::{AvType, CqFormat, WaitObj},
    completion::{CompletionQueue, Counter, CounterAttr, CqBinding, EntryBuf},
    eq::{ControlEvent, Drive, EqAttr, Event, EventQueue},
    lock::SafeLock,
    op::{ADDR_UNSPEC, IoVec, TxMeta},
};

use super::*;
use crate::{
    datagram::{
        DatagramAddresses, VerbsDatagramEndpoint,
        groups::{self, group_at},
    },
    device::Limits,
    sys::{
        abi::{
            IBV_EVENT_DEVICE_FATAL, IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR, IBV_EVENT_QP_FATAL,
            IBV_WC_LOC_LEN_ERR, IBV_WC_LOC_PROT_ERR, IBV_WC_SUCCESS, IBV_WC_WR_FLUSH_ERR,
        },
        cm_abi::{RDMA_CM_EVENT_MULTICAST_ERROR, RDMA_CM_EVENT_MULTICAST_JOIN},
        mock::{self, RXE},
    },
};

/// A descriptor, as registration makes them.
const DESC: usize = 1 << 32 | 77;
const ROOM: usize = 1024 + HEADER;

struct Bench {
    engine: Datagrams<SafeLock>,
    cq: Arc<CompletionQueue<SafeLock>>,
    av: Arc<Av>,
    memory: Box<[u8; ROOM]>,
}

fn peer(number: u32, lid: u16) -> [u8; 32] {
    DatagramAddress { number, lid, ..DatagramAddress::default() }.to_bytes()
}

impl Bench {
    fn new(size: usize, prefixed: bool) -> Self {
        let context = mock::device(RXE);
        let (attr, port) = (context.attr().unwrap(), context.port(1).unwrap());
        let limits = Limits::of(false, &attr, &port, 256);
        let device = Device::mock(limits);
        let bounds = Bounds {
            sends: size,
            receives: size,
            pieces: 4,
            inline: 256,
            message: 1024,
            prefixed,
            sources: true,
            groups: true,
        };
        let (device, pd) = (Arc::new(device), Pd::new(context).unwrap());
        let watch = Watch::new(device.clone(), context).unwrap();
        let mut engine = Datagrams::new(device, pd, watch, bounds).unwrap();
        let cq = Arc::new(CompletionQueue::new(64, None));
        engine.report.tx = Some(CqBinding { queue: cq.clone(), selective: false });
        engine.report.rx = Some(CqBinding { queue: cq.clone(), selective: false });
        let av = Av::open(AvType::Table, 0, Flags::empty(), &DatagramAddresses).unwrap();
        engine.enable(Some(av.clone())).unwrap();
        mock::calls();
        Self { engine, cq, av, memory: Box::new([0; ROOM]) }
    }

    fn send(&mut self, dest: u64, context: usize, flags: Flags, len: usize) -> Result<()> {
        let iov = [IoVec { base: self.memory.as_mut_ptr(), len }];
        let silent = flags.contains(Flags::INJECT);
        let meta = TxMeta { dest, context, flags, data: 5, silent };
        let op = SendOp { meta, iov: &iov, tagged: false, tag: 0 };
        // SAFETY: the mock device looks at no memory.
        let buffers = unsafe { Buffers::new(&iov) }.unwrap();
        self.engine.post_send(&op, &buffers, Descs::new(&[DESC]))
    }

    fn recv(&mut self, context: usize, len: usize) -> Result<()> {
        let iov = [IoVec { base: self.memory.as_mut_ptr(), len }];
        let flags = Flags::COMPLETION;
        let op = RecvOp { iov: &iov, src: 0, tagged: false, tag: 0, ignore: 0, context, flags };
        // SAFETY: the memory is there to the end of the test.
        let buffers = unsafe { Buffers::new(&iov) }.unwrap();
        self.engine.post_recv(&op, &buffers, Descs::new(&[DESC]))
    }

    /// Context, length and sender of each success, and context and error of each failure.
    #[allow(clippy::type_complexity, reason = "read at once")]
    fn ended(&mut self) -> (Vec<(usize, usize, u64)>, Vec<(usize, Errno)>) {
        self.engine.progress();
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        let (mut room, mut sources) = ([0u8; 48], [0u64]);
        loop {
            // SAFETY: room for so many entries.
            let mut out = unsafe {
                EntryBuf::new(room.as_mut_ptr(), CqFormat::Tagged, 1, sources.as_mut_ptr())
            };
            let word = |at: usize| usize::from_ne_bytes(*room[at..].first_chunk::<8>().unwrap());
            match self.cq.read(&mut out) {
                Ok(_) => done.push((word(0), word(16), sources[0])),
                Err(Errno::EAVAIL) => {
                    let error = self.cq.read_error().unwrap();
                    failed.push((error.entry.context, error.err));
                }
                Err(_) => return (done, failed),
            }
        }
    }
}

#[test]
fn datagrams_go_where_handles_lead() {
    let mut bench = Bench::new(8, true);
    assert_eq!(bench.send(0, 1, Flags::empty(), 8).unwrap_err(), Errno::EINVAL, "no such peer");
    assert_eq!(bench.av.insert(&peer(7, 1), None), Ok(0));
    assert_eq!(bench.av.insert(&peer(8, 1), None), Ok(1));
    bench.send(1, 1, Flags::empty(), 8).unwrap();
    bench.send(0, 2, Flags::REMOTE_CQ_DATA, 1024).unwrap();
    bench.send(0, 3, Flags::empty(), 8).unwrap();
    let posted = mock::posted().0;
    let told: Vec<_> = posted.iter().map(|send| (send.to, send.flags & IBV_SEND_INLINE)).collect();
    assert_eq!(told, [(8, IBV_SEND_INLINE), (7, 0), (7, IBV_SEND_INLINE)]);
    assert_eq!(posted[1].immediate, 5);
    let ways = mock::calls().iter().filter(|call| **call == "ibv_create_ah").count();
    assert_eq!(ways, 2, "a way is made once");
    for place in 0..3 {
        mock::complete_send(place, IBV_WC_SUCCESS);
    }
    let contexts: Vec<_> = bench.ended().0.iter().map(|(context, ..)| *context).collect();
    assert_eq!(contexts, [1, 2, 3]);

    // Another peer under the same handle.
    bench.av.remove(0).unwrap();
    assert_eq!(bench.send(0, 4, Flags::empty(), 8).unwrap_err(), Errno::EINVAL);
    bench.av.insert(&peer(9, 1), None).unwrap();
    bench.send(0, 4, Flags::empty(), 8).unwrap();
    bench.send(1, 5, Flags::empty(), 8).unwrap();
    assert_eq!(mock::posted().0[3].to, 9);
    let ways = mock::calls().iter().filter(|call| **call == "ibv_create_ah").count();
    assert_eq!(ways, 1, "that of the other peer is as it was");
    mock::fail("ibv_create_ah", &[libc::ENETUNREACH]);
    bench.av.insert(&peer(10, 1), None).unwrap();
    assert_eq!(bench.send(2, 6, Flags::empty(), 8).unwrap_err(), Errno::new(libc::ENETUNREACH));
}

#[test]
fn sizes_are_kept_to() {
    let mut bench = Bench::new(2, true);
    bench.av.insert(&peer(7, 1), None).unwrap();
    assert_eq!(bench.send(0, 1, Flags::INJECT, 257).unwrap_err(), Errno::EINVAL);
    assert_eq!(bench.send(0, 1, Flags::empty(), 1025).unwrap_err(), Errno::EMSGSIZE);
    assert_eq!(bench.recv(1, HEADER - 1).unwrap_err(), Errno::EINVAL, "no room for the header");
    bench.recv(1, HEADER).unwrap();
    bench.recv(2, ROOM).unwrap();
    assert_eq!(bench.recv(3, ROOM).unwrap_err(), Errno::EAGAIN);
    bench.send(0, 4, Flags::empty(), 256).unwrap();
    bench.send(0, 5, Flags::empty(), 0).unwrap();
    assert_eq!(bench.send(0, 6, Flags::empty(), 8).unwrap_err(), Errno::EAGAIN);
    mock::complete_send(0, IBV_WC_SUCCESS);
    bench.send(0, 6, Flags::empty(), 8).unwrap();
    bench.engine.close();
    assert_eq!(bench.send(0, 7, Flags::empty(), 8).unwrap_err(), Errno::EOPBADSTATE);
    assert_eq!(mock::receives(), 0, "the device has forgotten them");
}

/// With room of the application's in front a completion counts that, and without it does not.
#[test]
fn headers_in_front() {
    for (prefixed, len) in [(true, 8 + HEADER), (false, 8)] {
        let mut bench = Bench::new(4, prefixed);
        bench.av.insert(&peer(7, 3), None).unwrap();
        bench.av.insert(&peer(9, 3), None).unwrap();
        for context in 0..3 {
            bench.recv(context, if prefixed { ROOM } else { 1024 }).unwrap();
        }
        mock::complete_datagram((8 + HEADER) as u32, 9, 3);
        mock::complete_datagram((8 + HEADER) as u32, 7, 3);
        mock::complete_datagram((8 + HEADER) as u32, 7, 4);
        let nobody = ADDR_UNSPEC;
        assert_eq!(bench.ended().0, [(0, len, 1), (1, len, 0), (2, len, nobody)]);
    }
}

/// A message that is too long stops the queue pair: its receive fails, the others are posted anew, and
/// what was being sent is lost.
#[test]
fn a_stopped_queue_pair_is_started_again() {
    for prefixed in [true, false] {
        let mut bench = Bench::new(4, prefixed);
        bench.av.insert(&peer(7, 3), None).unwrap();
        let room = if prefixed { ROOM } else { 1024 };
        for context in 0..3 {
            bench.recv(context, room).unwrap();
        }
        bench.send(0, 10, Flags::empty(), 8).unwrap();
        mock::complete_receive(IBV_WC_LOC_LEN_ERR, 0, None);
        mock::complete_receive(IBV_WC_WR_FLUSH_ERR, 0, None);
        let (done, failed) = bench.ended();
        assert_eq!(failed, [(0, Errno::ETRUNC)]);
        assert_eq!(done.iter().map(|(context, ..)| *context).collect::<Vec<_>>(), [10]);
        assert_eq!(mock::receives(), 2);
        bench.recv(3, room).unwrap();
        bench.send(0, 11, Flags::empty(), 8).unwrap();
        mock::complete_send(0, IBV_WC_LOC_PROT_ERR);
        for _ in 0..2 {
            mock::complete_datagram((8 + HEADER) as u32, 7, 3);
        }
        let (done, failed) = bench.ended();
        assert_eq!(failed, [(11, Errno::EACCES)]);
        assert_eq!(done.iter().map(|(context, ..)| *context).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(mock::receives(), 1);
    }
}

/// Of what nobody waits for, the device tells of every third here. With one, all before it have left.
#[test]
fn sends_that_nobody_waits_for() {
    let mut bench = Bench::new(8, true);
    bench.av.insert(&peer(7, 3), None).unwrap();
    let told = |from: usize| -> Vec<bool> {
        mock::posted().0[from..].iter().map(mock::PostedSend::is_told).collect()
    };
    for context in 0..6 {
        bench.send(0, context, Flags::INJECT, 8).unwrap();
    }
    assert_eq!(told(0), [false, false, true, false, false, true]);
    bench.send(0, 6, Flags::empty(), 8).unwrap();
    bench.send(0, 7, Flags::INJECT, 8).unwrap();
    assert_eq!(told(6), [true, false]);
    assert_eq!(bench.send(0, 8, Flags::INJECT, 8).unwrap_err(), Errno::EAGAIN);
    mock::complete_send(6, IBV_WC_SUCCESS);
    assert_eq!(bench.ended(), (vec![(6, 0, ADDR_UNSPEC)], vec![]));
    assert_eq!(bench.engine.owes(), 0, "of the last one nothing will be told");
    bench.engine.post_end();
    assert_eq!((told(8), bench.engine.owes()), (vec![true], 2));
    assert_eq!(mock::posted().0[8].to, NOBODY);
    mock::complete_send(8, IBV_WC_SUCCESS);
    assert_eq!((bench.ended(), bench.engine.owes()), ((vec![], vec![]), 0));
    bench.engine.post_end();
    assert_eq!(mock::posted().0.len(), 9, "there is nothing left to be told of");

    // One that fails is told of, and says that those before it have left.
    bench.send(0, 9, Flags::INJECT, 8).unwrap();
    bench.send(0, 10, Flags::INJECT, 8).unwrap();
    mock::complete_send(10, IBV_WC_LOC_PROT_ERR);
    assert_eq!(bench.ended(), (vec![], vec![(10, Errno::EACCES)]));
}

/// Who counts sends is told of each.
#[test]
fn sends_that_are_counted() {
    let mut bench = Bench::new(8, true);
    bench.av.insert(&peer(7, 3), None).unwrap();
    let counter =
        Counter::<VerbsDatagramEndpoint<SafeLock>>::open(&CounterAttr::default()).unwrap();
    bench.engine.report.bind_counter(counter.value(), Flags::SEND).unwrap();
    for context in 0..3 {
        bench.send(0, context, Flags::INJECT, 8).unwrap();
        mock::complete_send(context, IBV_WC_SUCCESS);
    }
    bench.engine.progress();
    assert_eq!(counter.read(), 3);
}

/// The link, the queue pair and the device itself, to an event queue, and to the operations.
#[test]
fn what_the_device_tells_of_itself() {
    let attr = EqAttr { wait_obj: WaitObj::None, ..EqAttr::default() };
    for (number, reason) in
        [(IBV_EVENT_QP_FATAL, Errno::EIO), (IBV_EVENT_DEVICE_FATAL, Errno::ENODEV)]
    {
        let mut bench = Bench::new(8, true);
        let eq = EventQueue::open(&attr).unwrap();
        bench.engine.place.introduce(0x1234);
        bench.engine.place.set_eq(Some(eq.clone()));
        bench.av.insert(&peer(7, 3), None).unwrap();
        bench.recv(0, ROOM).unwrap();
        bench.send(0, 1, Flags::empty(), 8).unwrap();
        assert!(bench.engine.arm(), "nothing to do");
        mock::async_event(IBV_EVENT_PORT_ERR, 2);
        mock::async_event(IBV_EVENT_PORT_ERR, 1);
        mock::async_event(IBV_EVENT_PORT_ACTIVE, 1);
        assert!(bench.engine.arm(), "the link is none of its operations' business");
        let error = eq.read_error(Flags::empty()).unwrap();
        assert_eq!((error.object, error.err, error.prov_errno), (0x1234, Errno::ENETDOWN, 10));
        assert!(matches!(eq.read(Flags::empty()), Ok(Event::Notify(event)) if event.data == 9));

        mock::async_event_of_qp(number);
        assert!(!bench.engine.arm());
        let error = eq.read_error(Flags::empty()).unwrap();
        assert_eq!((error.err, error.prov_errno), (reason, number as i32));
        assert_eq!(bench.ended(), (vec![], vec![(0, reason), (1, reason)]));
        assert_eq!(bench.recv(3, ROOM).unwrap_err(), Errno::EIO);
        assert_eq!(eq.read(Flags::empty()).unwrap_err(), Errno::EAGAIN);
    }
}

/// Whoever asks the device first, everybody learns what is his.
#[test]
fn an_event_that_another_endpoint_has_taken() {
    let mut bench = Bench::new(8, true);
    bench.recv(0, ROOM).unwrap();
    assert!(bench.engine.arm());
    mock::async_event_of_qp(IBV_EVENT_QP_FATAL);
    bench.engine.watch.look();
    let mut rings = 0;
    bench.engine.sleep.ready::<4>(|token, _| rings += u32::from(token == 2));
    assert_eq!(rings, 1, "its sleeper is woken");
    assert_eq!(bench.ended(), (vec![], vec![(0, Errno::EIO)]));
    bench.engine.sleep.ready::<4>(|token, _| rings += u32::from(token == 2));
    assert_eq!(rings, 1);
}

/// A queue pair that does not start again ends everything.
#[test]
fn a_queue_pair_that_does_not_start_again() {
    let mut bench = Bench::new(4, true);
    bench.av.insert(&peer(7, 3), None).unwrap();
    bench.recv(0, ROOM).unwrap();
    bench.recv(1, ROOM).unwrap();
    bench.send(0, 2, Flags::empty(), 8).unwrap();
    mock::complete_receive(IBV_WC_LOC_LEN_ERR, 0, None);
    mock::fail("ibv_modify_qp", &[libc::EIO]);
    let (done, mut failed) = bench.ended();
    failed.sort_unstable_by_key(|(context, _)| *context);
    assert_eq!(done, []);
    assert_eq!(failed, [(0, Errno::ETRUNC), (1, Errno::EIO), (2, Errno::EIO)]);
    assert_eq!(bench.recv(3, ROOM).unwrap_err(), Errno::EIO);
    assert_eq!(bench.engine.owes(), 0);
}

const GROUP: [u8; 16] = [0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];

/// A group is sent to and received from once it has been joined, as it was joined for.
#[test]
fn groups_are_joined_and_left() {
    let address = DatagramAddress { gid: GROUP, ..DatagramAddress::default() };
    let (group, from) = (group_at(&address).unwrap(), Ipv4Addr::new(10, 0, 0, 1));
    let from = SocketAddr::from((from, 0)).into();
    for (flags, sends, receives) in [
        (Flags::SEND | Flags::RECV, true, true),
        (Flags::SEND, true, false),
        (Flags::RECV, false, true),
    ] {
        let mut bench = Bench::new(8, true);
        let groups = bench.engine.groups().unwrap().clone();
        let eq = EventQueue::open(&EqAttr::default()).unwrap();
        let _bound = eq.bind_driven(Arc::<Groups>::downgrade(&groups)).unwrap();
        let number = groups.reserve(group, flags).unwrap();
        assert_eq!(bench.send(number, 1, Flags::MULTICAST, 8).unwrap_err(), Errno::EINVAL, "early");
        mock::calls();
        groups.join(number, from, eq.clone(), 77, 5).unwrap();
        assert_eq!(mock::calls(), ["rdma_create_id", "rdma_bind_addr", "rdma_join_multicast"]);
        assert_eq!(eq.read(Flags::empty()).unwrap_err(), Errno::EAGAIN);
        mock::group_event(RDMA_CM_EVENT_MULTICAST_JOIN, 0, GROUP);
        let event = ControlEvent { object: 77, context: 5, data: 0 };
        let told = eq.read(Flags::empty()).unwrap();
        assert!(matches!(told, Event::JoinComplete(told) if told == event), "{told:?}");
        assert_eq!(mock::calls().contains(&"ibv_attach_mcast"), receives);
        let sent = bench.send(number, 2, Flags::MULTICAST, 8);
        assert_eq!(sent.is_ok(), sends);
        if sends {
            assert_eq!(mock::posted().0[0].to, groups::EVERYBODY);
            assert_eq!(bench.send(0, 3, Flags::empty(), 8).unwrap_err(), Errno::EINVAL, "no peer");
        }
        mock::calls();
        groups.leave(number);
        let left = mock::calls();
        assert!(left.contains(&"rdma_leave_multicast"), "{left:?}");
        assert_eq!(left.contains(&"ibv_detach_mcast"), receives);
        assert_eq!(bench.send(number, 4, Flags::MULTICAST, 8).unwrap_err(), Errno::EINVAL);
        assert_eq!(groups.reserve(group, flags), Ok(number), "free again");
        bench.engine.close();
        assert_eq!(groups.reserve(group, flags).unwrap_err(), Errno::EOPBADSTATE);
    }
}

/// What fails is told: by the call, or as an event; and a membership that the network ends.
#[test]
fn groups_that_are_not_joined() {
    let mut bench = Bench::new(8, true);
    let groups = bench.engine.groups().unwrap().clone();
    let eq = EventQueue::open(&EqAttr::default()).unwrap();
    let _bound = eq.bind_driven(Arc::<Groups>::downgrade(&groups)).unwrap();
    let address = DatagramAddress { gid: GROUP, ..DatagramAddress::default() };
    let from = SocketAddr::from((Ipv4Addr::new(10, 0, 0, 1), 0)).into();
    let flags = Flags::SEND | Flags::RECV;
    let number = groups.reserve(group_at(&address).unwrap(), flags).unwrap();
    for call in ["rdma_create_id", "rdma_bind_addr", "rdma_join_multicast"] {
        mock::fail(call, &[libc::ENODEV]);
        let joined = groups.join(number, from, eq.clone(), 77, 5);
        assert_eq!(joined.unwrap_err(), Errno::new(libc::ENODEV), "{call}");
    }
    mock::fail("rdma_join_multicast", &[524]);
    let joined = groups.join(number, from, eq.clone(), 77, 5);
    assert_eq!(joined.unwrap_err(), Errno::EOPNOTSUPP, "the kernel's own number");
    let failed = |eq: &EventQueue| {
        assert_eq!(eq.read(Flags::empty()).unwrap_err(), Errno::EAVAIL);
        let error = eq.read_error(Flags::empty()).unwrap();
        (error.object, error.context, error.err)
    };
    groups.join(number, from, eq.clone(), 77, 5).unwrap();
    mock::group_event(RDMA_CM_EVENT_MULTICAST_ERROR, -libc::ETIMEDOUT, GROUP);
    assert_eq!(failed(&eq), (77, 5, Errno::ETIMEDOUT));
    groups.leave(number);
    for call in ["ibv_attach_mcast", "ibv_create_ah"] {
        let number = groups.reserve(group_at(&address).unwrap(), flags).unwrap();
        groups.join(number, from, eq.clone(), 77, 5).unwrap();
        mock::fail(call, &[libc::ENOMEM]);
        mock::group_event(RDMA_CM_EVENT_MULTICAST_JOIN, 0, GROUP);
        assert_eq!(failed(&eq), (77, 5, Errno::ENOMEM), "{call}");
        assert_eq!(bench.send(number, 1, Flags::MULTICAST, 8).unwrap_err(), Errno::EINVAL);
        groups.leave(number);
    }
    // Events that nobody has read go with the group.
    let number = groups.reserve(group_at(&address).unwrap(), flags).unwrap();
    groups.join(number, from, eq.clone(), 77, 5).unwrap();
    mock::group_event(RDMA_CM_EVENT_MULTICAST_JOIN, 0, GROUP);
    groups.drive();
    groups.leave(number);
    assert_eq!(eq.read(Flags::empty()).unwrap_err(), Errno::EAGAIN);
}

#[test]
fn partitions_by_their_keys() {
    let context = mock::device(RXE);
    assert_eq!(mock::PARTITIONS, [0x7fff, 0x8001]);
    for (wanted, place) in [
        (None, Ok(0)),
        (Some(0x8001), Ok(1)),
        (Some(0x0001), Ok(1)),
        (Some(0xffff), Ok(0)),
        (Some(0x8002), Err(Errno::EINVAL)),
    ] {
        assert_eq!(partition(context, 1, wanted), place, "{wanted:x?}");
    }
}
