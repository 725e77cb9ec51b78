//! HOT. Threads that sleep on an engine while others drive it.

/// What wakes all who sleep on an engine: a part of the descriptor that they sleep on.
pub trait Bell {
    /// Makes the descriptor readable, whoever looks at it, until [`Bell::rest`].
    fn ring(&mut self);
    /// Leaves it to whatever else makes it readable.
    fn rest(&mut self);
}

/// Of an engine without sleepers.
impl<B: Bell> Bell for Option<B> {
    fn ring(&mut self) {
        self.iter_mut().for_each(B::ring);
    }

    fn rest(&mut self) {
        self.iter_mut().for_each(B::rest);
    }
}

/// Whether threads sleep on an engine. Guarded by the engine's lock.
///
/// Whoever sleeps finds the engine armed, or the bell ringing until it is armed again: what is done for
/// one thread takes nothing from another that has not run yet.
#[derive(Debug, Default)]
pub struct Sleepers(State);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nobody has been told that it may sleep.
    #[default]
    None,
    /// Threads may sleep, and what the engine was armed for wakes them.
    Armed,
    /// Threads may sleep, and the bell rings.
    Woken,
}

impl Sleepers {
    /// The engine has been armed as a whole, so that the caller may sleep, or there is something to do
    /// (not `quiet`), and it may be armed in part. Returns `quiet`.
    pub fn arm(&mut self, quiet: bool, bell: &mut impl Bell) -> bool {
        match (self.0, quiet) {
            (State::Woken, true) => bell.rest(),
            // The attempt may have used up what others sleep on, and the caller need not come back.
            (State::Armed, false) => self.wake(bell),
            _ => {}
        }
        if quiet {
            self.0 = State::Armed;
        }
        quiet
    }

    /// Whether threads may sleep that nothing has woken.
    #[inline]
    pub fn are_armed(&self) -> bool {
        self.0 == State::Armed
    }

    /// There is something to do that an armed engine would not notice.
    pub fn wake(&mut self, bell: &mut impl Bell) {
        if self.are_armed() {
            self.0 = State::Woken;
            bell.ring();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    impl Bell for bool {
        fn ring(&mut self) {
            *self = true;
        }

        fn rest(&mut self) {
            *self = false;
        }
    }

    #[test]
    fn who_sleeps_is_armed_or_woken() {
        let (mut sleepers, mut rings) = (Sleepers::default(), false);
        sleepers.wake(&mut rings);
        assert!(!sleepers.arm(false, &mut rings) && !rings, "nobody slept");

        assert!(sleepers.arm(true, &mut rings), "one goes to sleep");
        assert!(sleepers.arm(true, &mut rings), "and another");
        assert!(sleepers.are_armed() && !rings);

        assert!(!sleepers.arm(false, &mut rings), "a third is to look first");
        assert!(!sleepers.are_armed() && rings);
        sleepers.wake(&mut rings);
        assert!(!sleepers.arm(false, &mut rings) && rings, "a sleeper may not have run yet");

        assert!(sleepers.arm(true, &mut rings));
        assert!(sleepers.are_armed() && !rings, "whoever sleeps is armed again");
        sleepers.wake(&mut rings);
        assert!(!sleepers.are_armed() && rings);
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::{sync::Arc, thread};

    use super::*;
    use crate::{
        sync::{Mutex, MutexGuard},
        wait::Signal,
    };

    impl Bell for &Signal {
        fn ring(&mut self) {
            self.set();
        }

        fn rest(&mut self) {
            self.clear();
        }
    }

    /// An engine whose work is only counted.
    #[derive(Default)]
    struct Engine {
        sleepers: Sleepers,
        to_do: u32,
        done: u32,
    }

    #[derive(Default)]
    struct Port {
        engine: Mutex<Engine>,
        bell: Signal,
    }

    impl Port {
        fn lock(&self) -> MutexGuard<'_, Engine> {
            self.engine.lock().unwrap()
        }

        /// A post that leaves something to be done.
        fn post(&self) {
            let mut engine = self.lock();
            engine.to_do += 1;
            engine.sleepers.wake(&mut &self.bell);
        }

        fn progress(&self) -> u32 {
            let mut engine = self.lock();
            engine.done += std::mem::take(&mut engine.to_do);
            engine.done
        }

        fn arm(&self) -> bool {
            let mut engine = self.lock();
            let quiet = engine.to_do == 0;
            engine.sleepers.arm(quiet, &mut &self.bell)
        }

        /// Whoever sleeps until so much is done; others need not come back.
        fn sleep_until(&self, done: u32) {
            while self.progress() < done {
                if self.arm() {
                    self.bell.sleep();
                }
            }
        }
    }

    fn check(model: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = builder.preemption_bound.or(Some(3));
        builder.check(model);
    }

    /// One thread posts, polls, and posts again; the last of that is left to the sleeper.
    #[test]
    fn what_a_poller_leaves_is_the_sleepers() {
        check(|| {
            let port = Arc::new(Port::default());
            let theirs = port.clone();
            let poller = thread::spawn(move || {
                theirs.post();
                theirs.progress();
                theirs.post();
            });
            port.sleep_until(2);
            poller.join().unwrap();
        });
    }

    /// One that is told to look first does not come back.
    #[test]
    fn who_only_tries_to_sleep_leaves_it_to_the_sleeper() {
        check(|| {
            let port = Arc::new(Port::default());
            let theirs = port.clone();
            let trying = thread::spawn(move || {
                theirs.post();
                theirs.arm();
            });
            port.sleep_until(1);
            trying.join().unwrap();
        });
    }
}
