//! No wake-up is lost between whoever completes and whoever goes to sleep.

use loom::{sync::Arc, thread};

use super::{CompletionQueue, CounterValue, CqError, Entry, EntryBuf};
use crate::{Errno, attr::CqFormat, flags::Flags, lock::SafeLock, wait::Signal};

type Queue = CompletionQueue<SafeLock>;

fn queue() -> Arc<Queue> {
    Arc::new(Queue::new(16, Some(Signal::new().unwrap())))
}

fn read_one(queue: &Queue) -> Result<usize, Errno> {
    let mut context = 0usize;
    let base = std::ptr::from_mut(&mut context).cast();
    // SAFETY: one entry of this format is one word.
    let mut out = unsafe { EntryBuf::new(base, CqFormat::Context, 1, std::ptr::null_mut()) };
    queue.read(&mut out).map(|_| context)
}

/// What a blocking read does.
fn sleep_for_one(queue: &Queue) -> Result<usize, Errno> {
    loop {
        match read_one(queue) {
            Err(Errno::EAGAIN) => {}
            done => return done,
        }
        if queue.arm() {
            queue.signal().unwrap().sleep();
        }
    }
}

fn push(queue: &Queue, context: usize) {
    queue.push(Entry::new(context, Flags::SEND));
}

#[test]
fn one_sleeper_hears_every_entry() {
    loom::model(|| {
        let queue = queue();
        let theirs = queue.clone();
        let pusher = thread::spawn(move || {
            push(&theirs, 1);
            push(&theirs, 2);
        });
        assert_eq!(sleep_for_one(&queue), Ok(1));
        assert_eq!(sleep_for_one(&queue), Ok(2));
        pusher.join().unwrap();
    });
}

#[test]
fn an_error_wakes_too() {
    loom::model(|| {
        let queue = queue();
        let theirs = queue.clone();
        let pusher = thread::spawn(move || {
            theirs.push_error(CqError::new(Entry::new(1, Flags::SEND), Errno::EIO));
        });
        assert_eq!(sleep_for_one(&queue), Err(Errno::EAVAIL));
        pusher.join().unwrap();
    });
}

#[test]
fn two_sleepers_share_two_entries() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.or(Some(2));
    model.check(|| {
        let queue = queue();
        let other = queue.clone();
        let sleeper = thread::spawn(move || sleep_for_one(&other).unwrap());
        let theirs = queue.clone();
        let pusher = thread::spawn(move || {
            push(&theirs, 1);
            push(&theirs, 2);
        });
        let mine = sleep_for_one(&queue).unwrap();
        assert_eq!(mine + sleeper.join().unwrap(), 3);
        pusher.join().unwrap();
    });
}

#[test]
fn a_counter_wakes_its_sleeper() {
    loom::model(|| {
        let value = Arc::new(CounterValue::new(false, Some(Signal::new().unwrap())));
        let theirs = value.clone();
        let counting = thread::spawn(move || {
            theirs.count(1);
            theirs.count(1);
        });
        while value.success() < 2 {
            value.arm();
            if value.success() < 2 {
                value.sleep();
            }
        }
        counting.join().unwrap();
    });
}
