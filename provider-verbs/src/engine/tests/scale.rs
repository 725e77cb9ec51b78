//! What many connections take. Run with `--ignored --nocapture` for the table:
//!
//! ```text
//! cargo test --release -p percale-verbs --lib scale -- --ignored --nocapture
//! ```

use std::time::Duration;

use fabric_core::rdm_over_msg::Token;

use super::*;
use crate::engine::ep::{RxOp, TxOp};

/// Time of the processor that this thread has had.
fn now() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Connections of reliable datagrams, one after the other; time of all steps here, and bytes of the heap,
/// with those of the mock's objects.
fn connect(engine: &mut Engine, count: usize) -> (Duration, usize) {
    let (begin, before) = (now(), mock::allocated());
    for at in 0..count {
        let conn = engine.layer_connect(Token(at as u64), None, peer(), b"who").unwrap();
        for kind in
            [RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_ESTABLISHED]
        {
            mock::event(kind, 0, &[2, b'm', b'e']);
            engine.look();
        }
        // One message each.
        engine.layer_send(conn, b"hello", &Buffers::EMPTY, None, false).unwrap();
        engine.layer_parts().unwrap().1.events.clear();
        mock::calls();
    }
    (now() - begin, (mock::allocated() - before) as usize)
}

fn layered() -> Engine {
    let mut engine = engine(MLX5);
    engine.open_layer(16_448).unwrap();
    engine
}

/// A connection has what it needs for what is under way on it, and completion queues have entries for
/// its requests and once for the receives that all share.
#[test]
fn a_connection_takes_little() {
    let mut engine = layered();
    let (_, bytes) = connect(&mut engine, 2000);
    assert!(bytes / 2000 < 6144, "{} bytes each", bytes / 2000);
    let entries: u32 = engine.queues.iter().map(|queue| queue.reserved + queue.shared).sum();
    assert!(entries / 2000 < 132, "{} entries each", entries / 2000);
    assert!(size_of::<TxOp>() <= 256 && size_of::<RxOp>() <= 16);
}

/// However many peers there are, receives have the same memory.
#[test]
fn receives_of_many_peers_have_the_memory_of_one() {
    let mut engine = layered();
    connect(&mut engine, 1);
    let regions = mock::regions();
    connect(&mut engine, 500);
    assert_eq!(mock::regions(), regions);
    let layer = engine.layer_parts().unwrap().1;
    assert!(layer.receives() as usize * 16_448 <= 64 << 20);
}

#[test]
#[ignore = "for the table"]
fn thirty_six_thousand_connections() {
    for count in [1, 256, 1024, 4096, 16_384, 36_864] {
        let mut engine = layered();
        let (time, bytes) = connect(&mut engine, count);
        let queues = engine.queues.len();
        println!(
            "| {count} | {:.1} µs | {:.1} KiB | {queues} |",
            time.as_secs_f64() * 1e6 / count as f64,
            bytes as f64 / 1024.0 / count as f64
        );
        let begin = now();
        for _ in 0..100 {
            engine.progress();
        }
        println!("    a progress call without work: {:?}", (now() - begin) / 100);
        engine.close_all();
    }
}
