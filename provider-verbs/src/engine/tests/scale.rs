//! What many connections take. Run with `--ignored --nocapture` for the table:
//!
//! ```text
//! cargo test --release -p percale-verbs --lib scale -- --ignored --nocapture
//! ```

use std::time::{Duration, Instant};

use fabric_core::rdm_over_msg::Token;

use super::*;
use crate::engine::ep::{RxOp, TxOp};

/// Bytes of memory in use, with those of the mock's objects.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size()
}

/// Connections of reliable datagrams, one after the other; time of all steps here, and memory.
fn connect(engine: &mut Engine, count: usize) -> (Duration, usize) {
    let (begin, before) = (Instant::now(), resident());
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
    (begin.elapsed(), resident() - before)
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
    assert!(bytes / 2000 < 8192, "{} bytes each", bytes / 2000);
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
        let begin = Instant::now();
        for _ in 0..100 {
            engine.progress();
        }
        println!("    a progress call without work: {:?}", begin.elapsed() / 100);
        engine.close_all();
    }
}
