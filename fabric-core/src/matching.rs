//! HOT. Which receive gets which message: one engine for every provider.
//!
//! Rules (`fi_msg(3)`, `fi_tagged(3)`):
//!
//! * receives match in the order in which they were posted, messages in the order of arrival;
//! * tagged and untagged messages never meet;
//! * a tag matches where it equals the receive's outside the `ignore` bits;
//! * a receive that names a sender takes messages of that sender only;
//! * a claimed message is out of reach for everybody but the claim's context.
//!
//! The payloads `R` (what a receive brings) and `U` (what waits of a message) are the caller's.

mod list;
mod unexpected;

use std::fmt;

use self::{
    list::Found,
    list::{List, NodeId},
    unexpected::Unexpected,
};

/// A sender, as the transport numbers its peers.
pub type PeerId = u32;

/// Any sender.
pub const ANY_PEER: PeerId = PeerId::MAX;

/// What a receive accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// Tagged interface.
    pub tagged: bool,
    /// A sender, or [`ANY_PEER`].
    pub peer: PeerId,
    /// Tag; zero when not tagged.
    pub tag: u64,
    /// Tag bits that do not count.
    pub ignore: u64,
}

/// What a message brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Tagged interface.
    pub tagged: bool,
    /// The sender.
    pub peer: PeerId,
    /// Tag; zero when not tagged.
    pub tag: u64,
}

impl Want {
    #[inline]
    fn accepts(&self, key: &Key) -> bool {
        (self.tag ^ key.tag) & !self.ignore == 0 && (self.peer == ANY_PEER || self.peer == key.peer)
    }
}

/// A posted receive's handle. Stale ones are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostedId {
    tagged: bool,
    node: NodeId,
}

/// What [`Matcher::match_arrival`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matched<R> {
    /// The receive, which is posted no more.
    Taken(R),
    /// A receive that stays posted.
    Kept(PostedId),
}

/// Posted receives and waiting messages.
pub struct Matcher<R, U> {
    posted: [List<(Want, R)>; 2],
    waiting: [Unexpected<U>; 2],
    claimed: Vec<(usize, Key, U)>,
}

impl<R, U> fmt::Debug for Matcher<R, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Matcher")
            .field("posted", &[self.posted[0].len(), self.posted[1].len()])
            .field("waiting", &[self.waiting[0].len(), self.waiting[1].len()])
            .finish_non_exhaustive()
    }
}

impl<R, U> Default for Matcher<R, U> {
    fn default() -> Self {
        Self {
            posted: [List::default(), List::default()],
            waiting: [Unexpected::default(), Unexpected::default()],
            claimed: Vec::new(),
        }
    }
}

impl<R, U> Matcher<R, U> {
    /// Whether there is memory for one more receive.
    #[inline]
    pub fn has_place_to_post(&mut self, tagged: bool) -> bool {
        self.posted[usize::from(tagged)].has_place()
    }

    /// Adds a receive behind the others. The caller has looked at [`Matcher::take_waiting`] first.
    #[inline]
    pub fn post(&mut self, want: Want, receive: R) -> PostedId {
        let node = self.posted[usize::from(want.tagged)].push_back((want, receive));
        PostedId { tagged: want.tagged, node }
    }

    /// The first receive that accepts `key`; it stays posted.
    #[inline]
    pub fn find_posted(&mut self, key: &Key) -> Option<PostedId> {
        let node = self.posted[usize::from(key.tagged)].find(|(want, _)| want.accepts(key))?;
        Some(PostedId { tagged: key.tagged, node })
    }

    /// The first receive that accepts `key`: taken out, unless it is one that `keep` says goes on.
    #[inline]
    pub fn match_arrival(
        &mut self,
        key: &Key,
        keep: impl FnOnce(&R) -> bool,
    ) -> Option<Matched<R>> {
        let list = &mut self.posted[usize::from(key.tagged)];
        match list.find_or_take(|(want, _)| want.accepts(key), |(_, receive)| keep(receive))? {
            Found::Taken((_, receive)) => Some(Matched::Taken(receive)),
            Found::Kept(node) => Some(Matched::Kept(PostedId { tagged: key.tagged, node })),
        }
    }

    /// A posted receive.
    #[inline]
    pub fn posted_mut(&mut self, id: PostedId) -> Option<&mut R> {
        self.posted[usize::from(id.tagged)].get_mut(id.node).map(|(_, receive)| receive)
    }

    /// Takes a posted receive out.
    #[inline]
    pub fn remove_posted(&mut self, id: PostedId) -> Option<R> {
        self.posted[usize::from(id.tagged)].remove(id.node).map(|(_, receive)| receive)
    }

    /// Takes out the first posted receive for which `pick` holds, with what it wanted.
    pub fn remove_posted_if(
        &mut self,
        mut pick: impl FnMut(&Want, &R) -> bool,
    ) -> Option<(Want, R)> {
        for list in &mut self.posted {
            if let Some(node) = list.find(|(want, receive)| pick(want, receive)) {
                return list.remove(node);
            }
        }
        None
    }

    /// Takes out all posted receives that name `peer`, in one pass.
    pub fn remove_posted_of(&mut self, peer: PeerId) -> impl Iterator<Item = (Want, R)> {
        let [untagged, tagged] = &mut self.posted;
        let named = |(want, _): &(Want, R)| want.peer == peer;
        untagged.take_all(named).into_iter().chain(tagged.take_all(named))
    }

    /// Whether there is memory for one more message that waits.
    pub fn has_place_to_wait(&mut self, tagged: bool) -> bool {
        self.waiting[usize::from(tagged)].has_place()
    }

    /// Keeps a message that no receive accepted.
    pub fn wait(&mut self, key: Key, message: U) {
        self.waiting[usize::from(key.tagged)].push_back(key, message);
    }

    /// Takes out the first waiting message that `want` accepts.
    #[inline]
    pub fn take_waiting(&mut self, want: &Want) -> Option<(Key, U)> {
        let list = &mut self.waiting[usize::from(want.tagged)];
        let node = list.find(want)?;
        list.remove(node)
    }

    /// Looks at the first waiting message that `want` accepts.
    pub fn peek_waiting(&self, want: &Want) -> Option<(&Key, &U)> {
        let list = &self.waiting[usize::from(want.tagged)];
        let node = list.find(want)?;
        list.get(node).map(|(key, message)| (key, message))
    }

    /// Reserves the first waiting message that `want` accepts for `context`.
    pub fn claim(&mut self, want: &Want, context: usize) -> Option<(&Key, &U)> {
        let (key, message) = self.take_waiting(want)?;
        self.claimed.push((context, key, message));
        self.claimed.last().map(|(_, key, message)| (key, message))
    }

    /// Takes out the message that was claimed with `context`.
    pub fn take_claimed(&mut self, context: usize) -> Option<(Key, U)> {
        let at = self.claimed.iter().position(|(owner, ..)| *owner == context)?;
        let (_, key, message) = self.claimed.remove(at);
        Some((key, message))
    }

    /// Drops the waiting and claimed messages for which `keep` does not hold.
    pub fn retain_waiting(&mut self, mut keep: impl FnMut(&Key, &U) -> bool) {
        for list in &mut self.waiting {
            list.retain(&mut keep);
        }
        self.claimed.retain(|(_, key, message)| keep(key, message));
    }

    /// Peers that receives or messages name, in no order and some more than once.
    pub fn peers(&self) -> impl Iterator<Item = PeerId> {
        let posted = self.posted.iter().flat_map(List::iter).map(|(_, (want, _))| want.peer);
        let waiting = self.waiting.iter().flat_map(Unexpected::keys).map(|key| key.peer);
        posted.chain(waiting).chain(self.claimed.iter().map(|(_, key, _)| key.peer))
    }

    /// Number of waiting messages, claimed ones included.
    pub fn waiting_len(&self) -> usize {
        self.waiting.iter().map(Unexpected::len).sum::<usize>() + self.claimed.len()
    }

    /// Number of posted receives.
    pub fn posted_len(&self) -> usize {
        self.posted.iter().map(List::len).sum()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
