//! Operations that are dropped, forgotten, outlived by nobody: memory stays as long as it is used.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use percale::{Buf, BufMut, Error, buf::Piece};

use crate::pair::{Pair, fabrics};

/// A buffer that counts itself, and spoils its bytes when it goes.
struct Counted {
    bytes: Box<[u8]>,
    alive: Arc<AtomicUsize>,
}

impl Counted {
    fn new(len: usize, alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::SeqCst);
        Self { bytes: vec![0x11; len].into(), alive: alive.clone() }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.bytes.fill(0xdd);
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

// SAFETY: a box of bytes is one whose memory stays.
unsafe impl Buf for Counted {
    fn piece(&self) -> Piece {
        self.bytes.piece()
    }
}

// SAFETY: as above.
unsafe impl BufMut for Counted {
    fn piece_mut(&mut self) -> Piece {
        self.bytes.piece_mut()
    }

    unsafe fn filled(&mut self, _: usize) {}
}

fn alive() -> Arc<AtomicUsize> {
    Arc::default()
}

#[test]
fn a_dropped_receive_takes_no_message() {
    for fabric in fabrics() {
        let count = alive();
        let Pair { one, two, second, .. } = Pair::new(fabric.domain().unwrap()).unwrap();
        drop(two.recv(Counted::new(64, &count)));
        let receive = two.recv(Counted::new(64, &count));
        one.send(second, "for the second").wait().unwrap();
        let received = receive.wait().unwrap();
        assert_eq!(&received.buffer.bytes[..received.len], b"for the second");
        drop(received);
        two.progress();
        assert_eq!((count.load(Ordering::SeqCst), two.operations()), (0, 0));
    }
}

/// Large sends whose futures are dropped while the peer is reading them: the bytes are whole.
#[test]
fn a_dropped_send_keeps_its_bytes_until_they_are_sent() {
    for fabric in fabrics() {
        const LEN: usize = 2 << 20;
        let count = alive();
        let Pair { one, two, second, .. } = Pair::new(fabric.domain().unwrap()).unwrap();
        let receives: Vec<_> = (0..4).map(|_| two.recv(Vec::<u8>::with_capacity(LEN))).collect();
        for i in 0..4 {
            let send = one.send(second, Counted::new(LEN, &count));
            // Some have begun when they are dropped, some have not.
            if i % 2 == 0 {
                let _ = send.wait_timeout(Duration::from_micros(50 * i)).map(drop);
            }
        }
        for receive in receives {
            match receive.wait_timeout(Duration::from_millis(300)) {
                Ok(done) => assert!(done.unwrap().buffer.iter().all(|byte| *byte == 0x11)),
                Err(unmatched) => drop(unmatched),
            }
        }
        drop((one, two));
        assert_eq!(count.load(Ordering::SeqCst), 0, "{}", fabric.provider());
    }
}

#[test]
fn a_forgotten_operation_leaks_and_nothing_else() {
    for fabric in fabrics() {
        let count = alive();
        let Pair { one, two, second, .. } = Pair::new(fabric.domain().unwrap()).unwrap();
        std::mem::forget(two.recv(Counted::new(64, &count)));
        one.send(second, "lost").wait().unwrap();
        let next = two.recv(Vec::<u8>::with_capacity(64));
        one.send(second, "found").wait().unwrap();
        assert_eq!(next.wait().unwrap().buffer, b"found");
        drop((one, two));
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }
}

/// Whatever goes first, the rest stays usable, and everything is given back.
#[test]
fn handles_may_go_in_any_order() {
    for fabric in fabrics() {
        let count = alive();
        let Pair { domain, one, two, second, .. } = Pair::new(fabric.domain().unwrap()).unwrap();
        let region = domain.region(64, percale::Access::ReadWrite).unwrap();
        let (remote, view) = (region.remote(), region.view());
        drop(domain);
        drop(fabric);
        let receive = two.recv(Counted::new(64, &count));
        drop(two);
        one.send(second, "late").wait().unwrap();
        assert_eq!(receive.wait().unwrap().len, 4);
        drop(region);
        assert!(
            one.read(second, remote, vec![0u8; 64])
                .wait_timeout(Duration::from_millis(200))
                .is_err_or_failed()
        );
        view.put(0, 7u64);
        drop(one);
        assert_eq!((view.get::<u64>(0), count.load(Ordering::SeqCst)), (7, 0));
    }
}

trait Failed {
    fn is_err_or_failed(&self) -> bool;
}

impl<T, E, F> Failed for Result<Result<T, E>, F> {
    fn is_err_or_failed(&self) -> bool {
        !matches!(self, Ok(Ok(_)))
    }
}

#[test]
fn closing_frees_what_was_left_behind() {
    for fabric in fabrics() {
        let count = alive();
        let Pair { two, .. } = Pair::new(fabric.domain().unwrap()).unwrap();
        let kept = two.recv(Counted::new(64, &count));
        for _ in 0..10 {
            drop(two.recv(Counted::new(64, &count)));
        }
        two.clone().close();
        assert_eq!(count.load(Ordering::SeqCst), 1);
        let failure = kept.wait().map(|_| ()).unwrap_err();
        assert!(matches!(failure.error, Error::Cancelled));
        drop(failure);
        assert_eq!((count.load(Ordering::SeqCst), two.operations()), (0, 0));
    }
}

/// Threads start, wait for, drop and cancel operations of one endpoint at the same time.
#[test]
fn threads_share_an_endpoint() {
    for fabric in fabrics() {
        let count = alive();
        let Pair { one, two, second, .. } = Pair::new(fabric.domain().unwrap()).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..2u64 {
                let (one, two, count) = (&one, &two, &count);
                scope.spawn(move || {
                    for i in 0..200u64 {
                        let tag = thread << 32 | i;
                        let receive = two.recv_tagged(tag, Counted::new(256, count));
                        drop(two.recv_tagged(u64::MAX - tag, Counted::new(256, count)));
                        let send = one.send_tagged(second, tag, vec![tag; 32]);
                        let received = receive.wait().unwrap();
                        assert_eq!(received.buffer.bytes[..8], tag.to_ne_bytes());
                        send.wait().unwrap();
                    }
                });
            }
        });
        drop((one, two));
        assert_eq!(count.load(Ordering::SeqCst), 0);
    }
}
