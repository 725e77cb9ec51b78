use std::sync::{Mutex, MutexGuard, PoisonError};

use super::*;

#[derive(Default)]
struct Collect {
    lines: Mutex<Vec<String>>,
    most: Option<Level>,
}

impl Sink for Collect {
    fn most_talkative(&self) -> Level {
        self.most.unwrap_or(Level::Debug)
    }
    fn write(&self, record: &Record<'_>) {
        self.lines.lock().unwrap().push(record.to_string());
    }
}

/// The log is one per process; tests that replace its sink take turns.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn captured(most: Level, act: impl FnOnce()) -> Vec<String> {
    let sink = Arc::new(Collect { most: Some(most), ..Collect::default() });
    replace(sink.clone()).unwrap();
    act();
    restore();
    let mut lines = sink.lines.lock().unwrap();
    // Other tests of this process may log at the same time.
    lines.retain(|line| line.contains(":logtest:"));
    std::mem::take(&mut *lines)
}

#[test]
fn line_format() {
    let _turn = alone();
    let lines = captured(Level::Debug, || {
        crate::info!("logtest", Subsys::EpCtrl, "peer {} is gone", 3);
    });
    let fields: Vec<&str> = lines[0].split(':').collect();
    assert_eq!(fields[0], "libfabric");
    assert_eq!(fields[1], std::process::id().to_string());
    assert!(fields[2].parse::<u64>().unwrap() > 1_600_000_000);
    assert_eq!(fields[3..6], ["", "logtest", "ep_ctrl"]);
    assert_eq!(fields[6], "line_format()");
    assert!(fields[7].ends_with("<info> peer 3 is gone"), "{}", lines[0]);
}

#[test]
fn a_message_is_one_line() {
    let _turn = alone();
    let lines = captured(Level::Debug, || {
        crate::info!("logtest", Subsys::Core, "no {} \u{e9}", "x\ny\u{1b}[2J\u{85}");
    });
    assert!(lines[0].ends_with("<info> no x\\ny\\u{1b}[2J\\u{85} \u{e9}"), "{}", lines[0]);
}

#[test]
fn levels_above_the_threshold_are_not_formatted() {
    struct Bomb;
    impl fmt::Display for Bomb {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("formatted")
        }
    }
    let _turn = alone();
    let lines = captured(Level::Warn, || {
        crate::debug!("logtest", Subsys::Core, "{Bomb}");
        crate::info!("logtest", Subsys::Core, "{Bomb}");
        crate::warn!("logtest", Subsys::Core, "seen");
    });
    assert_eq!(lines.len(), 1);
}

#[test]
fn a_million_failures_are_few_lines() {
    let _turn = alone();
    let lines = captured(Level::Error, || {
        for attempt in 0..1_000_000 {
            crate::error!("logtest", Subsys::EpData, "send to peer 7 failed ({attempt})");
        }
    });
    assert!((1..50).contains(&lines.len()), "{}", lines.len());
}

#[test]
fn one_replacement_at_a_time() {
    let _turn = alone();
    replace(Arc::new(Collect::default())).unwrap();
    assert_eq!(replace(Arc::new(Collect::default())), Err(Errno::EALREADY));
    restore();
    replace(Arc::new(Collect::default())).unwrap();
    assert!(enabled("any", Level::Debug, Subsys::Mr));
    restore();
}

#[test]
fn c_values() {
    assert_eq!(Level::from_c(3), Some(Level::Debug));
    assert_eq!(Level::from_c(4), None);
    assert_eq!(Level::from_c(-1), None);
    assert_eq!(Subsys::from_c(9), Some(Subsys::Cntr));
    assert_eq!(Subsys::from_c(10), None);
    assert_eq!(Level::Error.to_c(), 0);
}
