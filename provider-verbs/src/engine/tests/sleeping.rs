//! One thread sleeps while others drive the engine.

use std::os::fd::BorrowedFd;

use fabric_core::wait::{Deadline, sleep_on};

use super::*;

/// Whether a sleeper wakes in time.
fn wakes(engine: &Engine) -> bool {
    // SAFETY: the engine keeps its descriptor open.
    let fd = unsafe { BorrowedFd::borrow_raw(engine.wait_fd()) };
    sleep_on(fd, Deadline::from_millis(5000)).is_ok()
}

/// Others connect while somebody sleeps, and others look when the first time is over.
#[test]
fn a_sleeper_learns_of_every_deadline() {
    let mut bench = Bench::new(RXE, 8, false);
    let limits = limits(&bench.engine, 8);
    let other = bench.engine.open(limits, None).unwrap();
    assert!(bench.engine.arm());
    for (ep, ms) in [(bench.ep, 60), (other, 10)] {
        let (eq, patience) = (Some(bench.eq.clone()), Duration::from_millis(ms));
        bench.engine.connect(ep, peer(), b"", eq, patience).unwrap();
    }
    let mut given_up = Vec::new();
    while given_up.len() < 2 {
        assert!(wakes(&bench.engine), "{given_up:?}");
        bench.engine.look();
        while let Ok(error) = bench.eq.read_error(Flags::empty()) {
            assert_eq!(error.err, Errno::ETIMEDOUT);
            given_up.push(error.object);
        }
    }
    given_up.sort_unstable();
    assert_eq!(given_up, [0, 0x1234]);
}

#[test]
fn what_is_left_wakes_the_sleeper_until_it_has_armed() {
    let mut bench = Bench::new(RXE, 8, false);
    bench.engine.hand_on(true);
    assert!(bench.engine.arm());
    bench.engine.hand_on(false);
    bench.engine.hand_on(true);
    assert!(wakes(&bench.engine));
    bench.engine.look();
    bench.engine.hand_on(true);
    assert!(wakes(&bench.engine), "whoever looks meanwhile");
    assert!(bench.engine.arm() && !bench.engine.clock.ready().clock);
}
