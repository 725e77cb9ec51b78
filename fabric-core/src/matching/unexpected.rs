//! HOT. Messages that wait for their receive, in the order of arrival.
//!
//! A receive for one exact tag finds its message without passing all others: as soon as many wait,
//! they are chained by tag as well. With few, looking at each is faster.

use super::{
    Key, Want,
    list::{List, NONE, NodeId},
};

/// More waiting messages than this are chained by tag.
const MANY: usize = 64;

/// Waiting messages of one interface, tagged or not.
pub(super) struct Unexpected<U> {
    list: List<(Key, U)>,
    tags: Option<Tags>,
}

impl<U> Default for Unexpected<U> {
    fn default() -> Self {
        Self { list: List::default(), tags: None }
    }
}

impl<U> Unexpected<U> {
    pub(super) const fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.list.iter().map(|(_, (key, _))| key)
    }

    /// Whether there is memory for one more message.
    pub(super) fn has_place(&mut self) -> bool {
        self.list.has_place()
            && self.tags.as_mut().is_none_or(|tags| tags.has_links(self.list.places() + 1))
    }

    /// Adds the latest message.
    pub(super) fn push_back(&mut self, key: Key, message: U) {
        let id = self.list.push_back((key, message));
        match &mut self.tags {
            Some(tags) if self.list.len() <= tags.room() => tags.append(id.at, key.tag),
            None if !key.tagged || self.list.len() <= MANY => {}
            // Without memory for chains, each message is looked at.
            _ => self.tags = Tags::of(&self.list),
        }
    }

    /// The first message that `want` accepts.
    #[inline]
    pub(super) fn find(&self, want: &Want) -> Option<NodeId> {
        match &self.tags {
            Some(tags) if want.ignore == 0 => tags.chain(want.tag).find_map(|at| {
                let (id, (key, _)) = self.list.at(at)?;
                want.accepts(key).then_some(id)
            }),
            _ => self.list.find(|(key, _)| want.accepts(key)),
        }
    }

    pub(super) fn get(&self, id: NodeId) -> Option<&(Key, U)> {
        self.list.get(id)
    }

    /// Takes a message out.
    #[inline]
    pub(super) fn remove(&mut self, id: NodeId) -> Option<(Key, U)> {
        let (key, message) = self.list.remove(id)?;
        if let Some(tags) = &mut self.tags {
            tags.remove(id.at, key.tag);
            if self.list.len() <= MANY / 2 {
                self.tags = None;
            }
        }
        Some((key, message))
    }

    /// Drops the messages for which `keep` does not hold.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&Key, &U) -> bool) {
        let gone: Vec<NodeId> = self
            .list
            .iter()
            .filter(|(_, (key, message))| !keep(key, message))
            .map(|(id, _)| id)
            .collect();
        for id in gone {
            self.remove(id);
        }
    }
}

/// Chains of places by tag, each in the order of arrival. Tags that fall into one chain are told
/// apart by the searcher.
struct Tags {
    /// First and last place of each chain; a power of two of them.
    chains: Vec<(u32, u32)>,
    /// Next and previous place in its chain, for every place of the list.
    links: Vec<(u32, u32)>,
}

impl Tags {
    /// Chains all messages of a list.
    #[cold]
    fn of<U>(list: &List<(Key, U)>) -> Option<Self> {
        let count = (2 * list.len()).next_power_of_two();
        let mut tags = Self { chains: Vec::new(), links: Vec::new() };
        tags.chains.try_reserve_exact(count).ok()?;
        tags.chains.resize(count, (NONE, NONE));
        tags.links.try_reserve_exact(list.places().max(count)).ok()?;
        for (id, (key, _)) in list.iter() {
            tags.append(id.at, key.tag);
        }
        Some(tags)
    }

    /// Whether there is memory for the links of so many places.
    fn has_links(&mut self, places: usize) -> bool {
        self.links.try_reserve(places.saturating_sub(self.links.len())).is_ok()
    }

    /// Messages up to which chains stay short.
    const fn room(&self) -> usize {
        self.chains.len()
    }

    fn place(&self, tag: u64) -> usize {
        // Fibonacci hashing: tags that differ in any bits spread over all chains.
        let hash = tag.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> 32) as usize & (self.chains.len() - 1)
    }

    fn append(&mut self, at: u32, tag: u64) {
        if self.links.len() <= at as usize {
            self.links.resize(at as usize + 1, (NONE, NONE));
        }
        let place = self.place(tag);
        let (first, last) = self.chains[place];
        self.links[at as usize] = (NONE, last);
        match last {
            NONE => self.chains[place] = (at, at),
            last => {
                self.links[last as usize].0 = at;
                self.chains[place] = (first, at);
            }
        }
    }

    fn remove(&mut self, at: u32, tag: u64) {
        let place = self.place(tag);
        let (next, previous) = self.links[at as usize];
        match previous {
            NONE => self.chains[place].0 = next,
            previous => self.links[previous as usize].0 = next,
        }
        match next {
            NONE => self.chains[place].1 = previous,
            next => self.links[next as usize].1 = previous,
        }
    }

    /// The places of the messages that may have this tag.
    fn chain(&self, tag: u64) -> impl Iterator<Item = u32> {
        let mut at = self.chains[self.place(tag)].0;
        std::iter::from_fn(move || {
            let here = at;
            at = self.links.get(here as usize)?.0;
            Some(here)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::ANY_PEER;

    /// Many more than [`MANY`], over few tags and peers, against a plain list.
    #[test]
    fn chains_keep_the_order_of_arrival() {
        let mut model: Vec<(Key, usize)> = Vec::new();
        let mut unexpected = Unexpected::default();
        let mut dice = 1u64;
        let mut roll = |sides: u64| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (dice >> 33) % sides
        };
        for n in 0..20_000 {
            // Grows and shrinks at different paces, so that chains come and go.
            if roll(10) < [6, 4, 8, 1, 7, 3][(n / 150) % 6] {
                let key = Key { tagged: true, peer: roll(3) as u32, tag: roll(200) << 24 };
                model.push((key, n));
                unexpected.push_back(key, n);
                continue;
            }
            let want = Want {
                tagged: true,
                peer: if roll(2) == 0 { ANY_PEER } else { roll(3) as u32 },
                tag: roll(200) << 24,
                ignore: if roll(8) == 0 { u64::MAX } else { 0 },
            };
            let expected = model.iter().position(|(key, _)| want.accepts(key));
            let found = unexpected.find(&want).and_then(|id| unexpected.remove(id));
            assert_eq!(found, expected.map(|at| model.remove(at)));
            if n % 1000 == 0 {
                model.retain(|(key, _)| key.peer != 1);
                unexpected.retain(|key, _| key.peer != 1);
            }
            assert_eq!(unexpected.len(), model.len());
        }
    }

    #[test]
    fn few_messages_are_not_chained() {
        let mut unexpected = Unexpected::default();
        let key = |tag| Key { tagged: true, peer: 0, tag };
        for tag in 0..=MANY as u64 {
            assert!(unexpected.tags.is_none());
            unexpected.push_back(key(tag), ());
        }
        assert!(unexpected.tags.is_some());
        let want = Want { tagged: true, peer: ANY_PEER, tag: 0, ignore: u64::MAX };
        while let Some(id) = unexpected.find(&want) {
            unexpected.remove(id);
        }
        assert!(unexpected.tags.is_none());
    }
}
