//! SETUP. Faults on purpose, so that programs can test what they do about them.

use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fabric_core::Errno;

use crate::address::Peer;

/// Faults that an endpoint meets with, for the tests of programs
/// ([`EndpointBuilder::faults`](crate::EndpointBuilder::faults)).
///
/// It is a handle: what is changed through a copy holds for the endpoints that have been opened with it.
/// The same seed and the same operations give the same faults.
///
/// ```
/// use percale::{Errno, Error, Fabric, Faults};
///
/// # fn main() -> percale::Result<()> {
/// let domain = Fabric::loopback()?.domain()?;
/// let faults = Faults::seeded(7);
/// let one = domain.builder().faults(&faults).open()?;
/// let two = domain.endpoint()?;
/// let peer = domain.peer(&two.address()?)?;
///
/// faults.drop_peer(peer);
/// let failure = one.send(peer, "hello").wait().unwrap_err();
/// assert_eq!(failure.error.errno(), Errno::EHOSTUNREACH);
/// faults.restore_peer(peer);
/// one.send(peer, "hello").wait()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Faults {
    plan: Arc<Mutex<Plan>>,
}

struct Plan {
    /// Of the generator of chances.
    state: u64,
    /// How often operations are refused, and what for.
    refuse: Option<(f64, Errno)>,
    /// How often operations are late, and by how much at most.
    delay: Option<(f64, Duration)>,
    dropped: HashSet<Peer>,
    met: u64,
}

/// What is to become of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It goes its way.
    Pass,
    /// It fails.
    Fail(Errno),
    /// It goes its way later.
    Late(Duration),
}

impl Faults {
    /// No faults yet, and chances that depend on this number.
    pub fn seeded(seed: u64) -> Self {
        let plan = Plan { state: seed, refuse: None, delay: None, dropped: HashSet::new(), met: 0 };
        Self { plan: Arc::new(Mutex::new(plan)) }
    }

    /// Operations fail with this reason, one in `1 / chance`.
    pub fn refuse(&self, chance: f64, reason: Errno) -> &Self {
        self.plan().refuse = Some((chance, reason));
        self
    }

    /// Operations towards peers start late, one in `1 / chance`, by a random time up to `limit`. Those
    /// behind them wait for them.
    pub fn delay(&self, chance: f64, limit: Duration) -> &Self {
        self.plan().delay = Some((chance, limit));
        self
    }

    /// From now on operations towards this peer, and receives from it by name, fail with
    /// `EHOSTUNREACH`.
    pub fn drop_peer(&self, peer: Peer) -> &Self {
        self.plan().dropped.insert(peer);
        self
    }

    /// The peer can be reached again.
    pub fn restore_peer(&self, peer: Peer) -> &Self {
        self.plan().dropped.remove(&peer);
        self
    }

    /// No faults from here on.
    pub fn clear(&self) {
        let mut plan = self.plan();
        plan.refuse = None;
        plan.delay = None;
        plan.dropped.clear();
    }

    /// Operations that have met with a fault so far.
    pub fn met(&self) -> u64 {
        self.plan().met
    }

    /// What becomes of an operation with this peer, if it names one.
    pub(crate) fn fate(&self, peer: Option<Peer>, receive: bool) -> Fate {
        let mut plan = self.plan();
        let fate = plan.fate(peer, receive);
        plan.met += u64::from(fate != Fate::Pass);
        fate
    }

    // A panic cannot leave the plan half changed, so a poisoned lock is as good as any.
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Plan {
    fn fate(&mut self, peer: Option<Peer>, receive: bool) -> Fate {
        if peer.is_some_and(|peer| self.dropped.contains(&peer)) {
            return Fate::Fail(Errno::EHOSTUNREACH);
        }
        if let Some((chance, reason)) = self.refuse
            && self.chance() < chance
        {
            return Fate::Fail(reason);
        }
        if let (Some((chance, limit)), false) = (self.delay, receive)
            && self.chance() < chance
        {
            return Fate::Late(limit.mul_f64(self.chance()));
        }
        Fate::Pass
    }

    /// The next number from 0 to 1 (the generator is SplitMix64).
    fn chance(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = self.plan();
        f.debug_struct("Faults")
            .field("refuse", &plan.refuse)
            .field("delay", &plan.delay)
            .field("met", &plan.met)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(seed: u64) -> Vec<Fate> {
        let faults = Faults::seeded(seed);
        faults.refuse(0.2, Errno::ENOMEM).delay(0.3, Duration::from_millis(2));
        (0..1000).map(|i| faults.fate(None, i % 4 == 0)).collect()
    }

    #[test]
    fn a_seed_decides() {
        assert_eq!(fates(1), fates(1));
        assert_ne!(fates(1), fates(2));
        let count = |which: fn(&Fate) -> bool| fates(1).iter().filter(|fate| which(fate)).count();
        let refused = count(|fate| matches!(fate, Fate::Fail(Errno::ENOMEM)));
        let late = count(|fate| matches!(fate, Fate::Late(by) if *by <= Duration::from_millis(2)));
        assert!((150..250).contains(&refused) && (120..240).contains(&late), "{refused} {late}");
    }
}
