use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::{
    api::NoSharedReceive,
    attr::Info,
    av::Av,
    completion::{Counter, Cq, CqAttr},
    domain::Domain,
    engine::Stats,
    eq::{EventQueue, RequestHandle},
    flags::Flags,
    lock::SafeLock,
    op::{AtomicOp, RecvOp, RmaOp, SendOp},
    wait::{Deadline, sleep_on},
};

/// What several endpoints share; it has something to do while its signal is set.
struct Engine {
    driven: AtomicUsize,
    armed: AtomicUsize,
    signal: Signal,
}

struct Rider(Arc<Engine>);

impl Rider {
    fn new(engine: &Arc<Engine>) -> Arc<Self> {
        Arc::new(Self(engine.clone()))
    }
}

fn engine() -> Arc<Engine> {
    let (driven, armed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    Arc::new(Engine { driven, armed, signal: Signal::new().unwrap() })
}

/// How often each engine was driven since the last look.
fn driven<const N: usize>(engines: [&Arc<Engine>; N]) -> [usize; N] {
    engines.map(|engine| engine.driven.swap(0, Ordering::Relaxed))
}

impl Endpoint for Rider {
    type Lock = SafeLock;
    type SharedReceive = NoSharedReceive;

    fn open(_: &Arc<Domain>, _: &Info, _: Option<&RequestHandle>, _: usize) -> Result<Arc<Self>> {
        Err(Errno::ENOSYS)
    }
    fn bind_av(self: &Arc<Self>, _: &Arc<Av>) -> Result<()> {
        Err(Errno::ENOSYS)
    }
    fn bind_cq(self: &Arc<Self>, _: &Arc<Cq<Self>>, _: Flags) -> Result<()> {
        Err(Errno::ENOSYS)
    }
    fn bind_counter(self: &Arc<Self>, _: &Arc<Counter<Self>>, _: Flags) -> Result<()> {
        Err(Errno::ENOSYS)
    }
    fn bind_eq(self: &Arc<Self>, _: &Arc<EventQueue>) -> Result<()> {
        Err(Errno::ENOSYS)
    }
    fn enable(self: &Arc<Self>) -> Result<()> {
        Err(Errno::ENOSYS)
    }
    fn close(self: &Arc<Self>) {}
    fn name(&self) -> Result<Vec<u8>> {
        Err(Errno::ENOSYS)
    }
    fn set_name(&self, _: &[u8]) -> Result<()> {
        Err(Errno::ENOSYS)
    }
    fn option(&self, _: i32) -> Result<Vec<u8>> {
        Err(Errno::ENOPROTOOPT)
    }
    fn set_option(&self, _: i32, _: &[u8]) -> Result<()> {
        Err(Errno::ENOPROTOOPT)
    }
    fn tx_op_flags(&self) -> Flags {
        Flags::empty()
    }
    fn rx_op_flags(&self) -> Flags {
        Flags::empty()
    }
    fn atomic_limit(&self) -> usize {
        0
    }
    unsafe fn send(&self, _: &SendOp<'_>) -> Result<()> {
        Err(Errno::ENOSYS)
    }
    unsafe fn recv(&self, _: &RecvOp<'_>) -> Result<()> {
        Err(Errno::ENOSYS)
    }
    unsafe fn rma(&self, _: &RmaOp<'_>) -> Result<()> {
        Err(Errno::ENOSYS)
    }
    unsafe fn atomic(&self, _: &AtomicOp<'_>) -> Result<()> {
        Err(Errno::ENOSYS)
    }
    fn cancel(&self, _: usize) -> Result<()> {
        Ok(())
    }
    fn same_engine(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
    fn progress(&self) {
        self.0.driven.fetch_add(1, Ordering::Relaxed);
        self.0.signal.clear();
    }
    fn wait_fd(&self) -> Result<i32> {
        use std::os::fd::AsRawFd;
        Ok(self.0.signal.as_fd().as_raw_fd())
    }
    fn stats(&self) -> Stats {
        Stats::default()
    }
    fn arm(&self) -> Result<bool> {
        self.0.armed.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }
}

fn open(wait_obj: WaitObj) -> ProgressSet<Rider> {
    ProgressSet::open(wait_obj).unwrap().0
}

#[test]
fn an_engine_is_driven_once_for_all_its_endpoints() {
    let (one, two) = (engine(), engine());
    let riders = [Rider::new(&one), Rider::new(&one), Rider::new(&two), Rider::new(&one)];
    let set = open(WaitObj::None);
    for rider in riders.iter().chain(&riders) {
        set.attach(rider).unwrap();
    }
    set.progress();
    assert_eq!(driven([&one, &two]), [1, 1]);
    assert_eq!(set.arm(), Ok(true));
    assert_eq!(one.armed.load(Ordering::Relaxed), 1);

    for (at, left) in [(0, [1, 1]), (1, [1, 1]), (2, [1, 0]), (2, [1, 0]), (3, [0, 0])] {
        set.detach(&riders[at]);
        set.progress();
        assert_eq!(driven([&one, &two]), left, "without {at}");
    }
    assert!(set.is_empty());
    assert!(riders.iter().all(|rider| Arc::strong_count(rider) == 1));
}

#[test]
fn an_engine_is_watched_until_its_last_endpoint_goes() {
    let engine = engine();
    let riders = [Rider::new(&engine), Rider::new(&engine), Rider::new(&engine)];
    let set = open(WaitObj::Fd);
    riders.iter().for_each(|rider| set.attach(rider).unwrap());
    let wakes = || {
        engine.signal.set();
        let woken = sleep_on(set.wait_set().unwrap().as_fd(), Deadline::from_millis(0)).is_ok();
        engine.signal.clear();
        woken
    };
    for rider in &riders {
        assert!(wakes());
        set.detach(rider);
    }
    assert!(!wakes());
    set.attach(&riders[0]).unwrap();
    assert!(wakes());
}

#[test]
fn queues_of_one_engine_read_through_it() {
    let engine = engine();
    let riders = [Rider::new(&engine), Rider::new(&engine)];
    let cq = Cq::<Rider>::open(&CqAttr::default()).unwrap();
    riders.iter().for_each(|rider| cq.attach(rider).unwrap());
    // SAFETY: without room nothing is written.
    let mut out =
        unsafe { EntryBuf::new(std::ptr::null_mut(), cq.attr().format, 0, std::ptr::null_mut()) };
    assert_eq!(cq.read(&mut out), Err(Errno::EAGAIN));
    assert_eq!(driven([&engine]), [1]);
    cq.detach(&riders[0]);
    assert!(cq.in_use());
    cq.detach(&riders[1]);
    assert!(!cq.in_use());
}
