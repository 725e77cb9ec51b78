//! Which processors the two ends run on, and how far these are from each other.

use std::{
    fs,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Times that a line goes there and back in a run, and runs.
const TRIPS: usize = 10_000;
const RUNS: usize = 10;

/// Two processors that this process may use, not of one core where that can be had; `None` if it may
/// use one only.
pub(super) fn pair() -> Option<[usize; 2]> {
    let allowed = sched_getaffinity(None).ok()?;
    let mut usable = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    let first = usable.next()?;
    let others: Vec<usize> = usable.collect();
    let siblings = siblings(first);
    let apart = others.iter().find(|cpu| !siblings.contains(cpu)).or_else(|| others.first())?;
    Some([first, *apart])
}

/// The processors of a processor's core.
fn siblings(cpu: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    listed(&fs::read_to_string(path).unwrap_or_default())
}

/// A list as the kernel writes it: `0,8` or `0-1`.
fn listed(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(from.trim().parse::<usize>().ok()?..=to.trim().parse::<usize>().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// Keeps this thread on a processor, as far as that is allowed.
pub(super) fn stay_on(cpu: usize) {
    let mut set = CpuSet::new();
    if cpu < CpuSet::MAX_CPU {
        set.set(cpu);
        let _ = sched_setaffinity(None, &set);
    }
}

/// Nanoseconds that a cache line takes from one of the two to the other, undisturbed: nothing that two
/// processes exchange is faster.
pub(super) fn cache_line(both: [usize; 2]) -> f64 {
    let fastest = (0..RUNS).map(|_| trips(both)).min().unwrap_or_default();
    fastest.as_nanos() as f64 / (2 * TRIPS) as f64
}

fn trips([one, other]: [usize; 2]) -> Duration {
    #[repr(align(128))]
    struct Line(AtomicUsize);
    let line = Line(AtomicUsize::new(0));
    // Each waits for the other's number. There is nothing but the number to be ordered.
    let pass = |cpu, first: usize| {
        stay_on(cpu);
        let mut begin = Instant::now();
        // Both are there when the first trip has ended; it does not count.
        for trip in 0..=TRIPS {
            let awaited = trip * 2 + first;
            while line.0.load(Ordering::Relaxed) != awaited {
                core::hint::spin_loop();
            }
            if trip == 1 {
                begin = Instant::now();
            }
            line.0.store(awaited + 1, Ordering::Relaxed);
        }
        begin.elapsed()
    };
    thread::scope(|scope| {
        scope.spawn(|| pass(one, 0));
        scope.spawn(|| pass(other, 1)).join().unwrap_or(Duration::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel() {
        assert_eq!(listed("0,8\n"), [0, 8]);
        assert_eq!(listed("0-3"), [0, 1, 2, 3]);
        assert!(listed("").is_empty());
    }

    #[test]
    fn two_processors_are_two() {
        if let Some([one, other]) = pair() {
            assert_ne!(one, other);
            assert!(cache_line([one, other]) > 0.0);
        }
    }
}
