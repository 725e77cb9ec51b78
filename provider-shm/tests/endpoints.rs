//! Two endpoints of one process talk over shared memory.

use std::sync::Arc;

use fabric_core::{
    Errno,
    api::Endpoint,
    attr::{AvType, CqFormat, DomainAttr, EpAttr, EpType, FabricAttr, Info, RxAttr, TxAttr},
    av::Av,
    completion::{Cq, CqAttr, CqError, EntryBuf},
    domain::Domain,
    flags::Flags,
    lock::NoLock,
    mr::MrRequest,
    op::{
        ADDR_UNSPEC, AtomicKind, AtomicOp, IoVec, RecvOp, RmaIov, RmaKind, RmaOp, SendOp, TxMeta,
    },
};
use provider_shm::{ShmAddresses, ShmEndpoint, offer::CAPS};

type Ep = ShmEndpoint<NoLock>;

struct Node {
    ep: Arc<Ep>,
    cq: Arc<Cq<Ep>>,
    av: Arc<Av>,
    domain: Arc<Domain>,
    peer: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Tagged {
    context: usize,
    flags: u64,
    len: usize,
    buf: usize,
    data: u64,
    tag: u64,
}

impl Node {
    fn open() -> Self {
        let info = Info {
            caps: CAPS,
            tx: Some(TxAttr::default()),
            rx: Some(RxAttr::default()),
            domain: Some(DomainAttr { threading: 3, progress: 2, ..DomainAttr::default() }),
            fabric: Some(FabricAttr::default()),
            ..Info::default()
        };
        let domain = Domain::open(&info).unwrap();
        let ep = Ep::open(&domain, &info, None, 0).unwrap();
        let attr = CqAttr { format: CqFormat::Tagged, ..CqAttr::default() };
        let cq = Cq::open(&attr).unwrap();
        let av = Av::open(AvType::Table, 0, Flags::empty(), &ShmAddresses).unwrap();
        ep.bind_av(&av).unwrap();
        ep.bind_cq(&cq, Flags::SEND | Flags::RECV).unwrap();
        ep.enable().unwrap();
        Self { ep, cq, av, domain, peer: ADDR_UNSPEC }
    }

    fn pair() -> (Self, Self) {
        let (mut a, mut b) = (Self::open(), Self::open());
        a.peer = a.av.insert(&b.ep.name().unwrap(), None).unwrap();
        b.peer = b.av.insert(&a.ep.name().unwrap(), None).unwrap();
        (a, b)
    }

    fn meta(&self, context: usize) -> TxMeta {
        TxMeta { dest: self.peer, context, flags: Flags::empty(), data: 0, silent: false }
    }

    fn send(&self, bytes: &[u8], tag: u64, context: usize) {
        let iov = [IoVec { base: bytes.as_ptr().cast_mut(), len: bytes.len() }];
        let op = SendOp { meta: self.meta(context), iov: &iov, tagged: true, tag };
        // SAFETY: the tests keep their buffers until the completion.
        unsafe { self.ep.send(&op) }.unwrap();
    }

    fn recv(&self, bytes: &mut [u8], tag: u64, context: usize) {
        let iov = [IoVec { base: bytes.as_mut_ptr(), len: bytes.len() }];
        let op = RecvOp {
            iov: &iov,
            src: ADDR_UNSPEC,
            tagged: true,
            tag,
            ignore: 0,
            context,
            flags: Flags::empty(),
        };
        // SAFETY: the tests keep their buffers until the completion.
        unsafe { self.ep.recv(&op) }.unwrap();
    }

    fn poll(&self) -> Result<Option<Tagged>, CqError> {
        let mut entry = Tagged::default();
        // SAFETY: room for one entry.
        let mut out = unsafe {
            EntryBuf::new((&raw mut entry).cast(), CqFormat::Tagged, 1, std::ptr::null_mut())
        };
        match self.cq.read(&mut out) {
            Ok(1) => Ok(Some(entry)),
            Err(Errno::EAGAIN) => Ok(None),
            Err(Errno::EAVAIL) => Err(self.cq.read_error().unwrap()),
            other => panic!("{other:?}"),
        }
    }
}

/// Drives both until each has completed as many operations as asked.
fn complete(a: &Node, b: &Node, want_a: usize, want_b: usize) -> (Vec<Tagged>, Vec<Tagged>) {
    let (mut got_a, mut got_b) = (Vec::new(), Vec::new());
    let start = std::time::Instant::now();
    while got_a.len() < want_a || got_b.len() < want_b {
        got_a.extend(a.poll().unwrap());
        got_b.extend(b.poll().unwrap());
        assert!(
            start.elapsed().as_secs() < 20,
            "{}/{want_a} {}/{want_b}",
            got_a.len(),
            got_b.len()
        );
    }
    (got_a, got_b)
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

#[test]
fn messages_of_all_sizes_expected_and_unexpected() {
    let (a, b) = Node::pair();
    for len in [0, 1, 40, 48, 49, 600, 700, 4096, 16384, 16385, 100_000, 3 << 20] {
        let out = pattern(len);
        for expected in [true, false] {
            let mut into = vec![0; len];
            if expected {
                b.recv(&mut into, 5, 2);
            }
            a.send(&out, 5, 1);
            if !expected {
                for _ in 0..100 {
                    b.poll().unwrap();
                }
                b.recv(&mut into, 5, 2);
            }
            let (sent, received) = complete(&a, &b, 1, 1);
            assert_eq!((sent[0].context, received[0].context), (1, 2));
            assert_eq!((received[0].len, received[0].tag), (len, 5));
            assert!(into == out, "{len} {expected}");
        }
    }
}

#[test]
fn a_stream_of_messages_keeps_order() {
    let (a, b) = Node::pair();
    let out: Vec<[u8; 8]> = (0..2000u64).map(u64::to_ne_bytes).collect();
    let mut into = vec![[0u8; 8]; 2000];
    for (i, slot) in into.iter_mut().enumerate() {
        b.recv(slot, 0, i);
    }
    let mut sent = 0;
    let mut got = Vec::new();
    for bytes in &out {
        let iov = [IoVec { base: bytes.as_ptr().cast_mut(), len: 8 }];
        let op = SendOp { meta: a.meta(0), iov: &iov, tagged: true, tag: 0 };
        // SAFETY: `out` lives until the end.
        while unsafe { a.ep.send(&op) } == Err(Errno::EAGAIN) {
            got.extend(b.poll().unwrap());
        }
        sent += a.poll().unwrap().iter().count();
    }
    let (_, rest) = complete(&a, &b, 2000 - sent, 2000 - got.len());
    got.extend(rest);
    assert!(got.iter().enumerate().all(|(i, entry)| entry.context == i));
    assert!(into == out);
}

#[test]
fn one_sided_operations_and_their_errors() {
    let (a, b) = Node::pair();
    let mut memory = vec![0u8; 1 << 20];
    let whole = [IoVec { base: memory.as_mut_ptr(), len: memory.len() }];
    let request = MrRequest {
        iov: &whole,
        access: Flags::REMOTE_READ | Flags::REMOTE_WRITE,
        requested_key: 77,
        offset: 0,
        flags: Flags::empty(),
        context: 0,
    };
    let region = b.domain.regions().register(&request).unwrap();
    for len in [1, 512, 513, 5000, 1 << 20] {
        let out = pattern(len);
        let iov = [IoVec { base: out.as_ptr().cast_mut(), len }];
        let remote = [RmaIov { addr: 0, len, key: 77 }];
        let op = RmaOp { meta: a.meta(1), kind: RmaKind::Write, iov: &iov, remote: &remote };
        // SAFETY: buffers live until the completion.
        unsafe { a.ep.rma(&op) }.unwrap();
        complete(&a, &b, 1, 0);
        assert!(memory[..len] == out);

        let mut back = vec![0; len];
        let iov = [IoVec { base: back.as_mut_ptr(), len }];
        let op = RmaOp { meta: a.meta(2), kind: RmaKind::Read, iov: &iov, remote: &remote };
        // SAFETY: as above.
        unsafe { a.ep.rma(&op) }.unwrap();
        complete(&a, &b, 1, 0);
        assert!(back == out);
    }
    for (addr, key, err) in [(0, 78, Errno::ENOKEY), ((1 << 20) - 1, 77, Errno::EINVAL)] {
        let mut back = [0; 8];
        let iov = [IoVec { base: back.as_mut_ptr(), len: 8 }];
        let remote = [RmaIov { addr, len: 8, key }];
        let op = RmaOp { meta: a.meta(3), kind: RmaKind::Read, iov: &iov, remote: &remote };
        // SAFETY: as above.
        unsafe { a.ep.rma(&op) }.unwrap();
        let error = loop {
            b.poll().unwrap();
            match a.poll() {
                Err(error) => break error,
                other => assert!(other.unwrap().is_none()),
            }
        };
        assert_eq!((error.err, error.entry.context), (err, 3));
    }
    b.domain.regions().close(&region).unwrap();
}

#[test]
fn atomics_fetch_old_values() {
    let (a, b) = Node::pair();
    let mut word = 40u64;
    let whole = [IoVec { base: (&raw mut word).cast(), len: 8 }];
    let request = MrRequest {
        iov: &whole,
        access: Flags::REMOTE_READ | Flags::REMOTE_WRITE,
        requested_key: 1,
        offset: 0,
        flags: Flags::empty(),
        context: 0,
    };
    b.domain.regions().register(&request).unwrap();
    let (mut two, mut old) = (2u64, 0u64);
    let operand = [IoVec { base: (&raw mut two).cast(), len: 8 }];
    let result = [IoVec { base: (&raw mut old).cast(), len: 8 }];
    let op = AtomicOp {
        meta: a.meta(1),
        kind: AtomicKind::Fetch,
        datatype: 7,
        op: 2,
        operand: &operand,
        compare: &[],
        result: &result,
        remote: &[RmaIov { addr: 0, len: 8, key: 1 }],
    };
    // SAFETY: the words live until the completion.
    unsafe { a.ep.atomic(&op) }.unwrap();
    complete(&a, &b, 1, 0);
    assert_eq!((word, old), (42, 40));
}

#[test]
fn a_peer_that_closes_fails_what_depends_on_it() {
    let (a, b) = Node::pair();
    let mut into = [0u8; 8];
    b.recv(&mut into, 1, 1);
    a.send(&[1; 8], 1, 1);
    complete(&a, &b, 1, 1);
    let large = pattern(1 << 20);
    a.send(&large, 9, 2);
    b.ep.close();
    let error = loop {
        match a.poll() {
            Err(error) => break error,
            other => assert!(other.unwrap().is_none()),
        }
    };
    assert_eq!((error.err, error.entry.context), (Errno::ECONNRESET, 2));
    a.send(&[1; 8], 1, 3);
    let error = a.poll().unwrap_err();
    assert_eq!((error.err, error.entry.context), (Errno::ECONNREFUSED, 3));
}

#[test]
fn an_endpoint_is_not_what_was_never_offered() {
    let node = Node::open();
    let open = |ep_type: u32, caps: Flags| {
        let ep = EpAttr { ep_type, ..EpAttr::default() };
        let info = Info { caps, ep: Some(ep), ..Info::default() };
        Ep::open(&node.domain, &info, None, 0).map(drop)
    };
    for ep_type in [EpType::Msg as u32, EpType::Dgram as u32, 77] {
        assert_eq!(open(ep_type, Flags::MSG), Err(Errno::EINVAL));
    }
    assert_eq!(open(EpType::Rdm as u32, Flags::MSG | Flags::MULTICAST), Err(Errno::EINVAL));
    assert_eq!(open(EpType::Rdm as u32, Flags::MSG | Flags::TAGGED), Ok(()));
}
