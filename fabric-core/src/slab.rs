//! HOT. A table of values named by generation-checked handles.
//!
//! A handle that has been given to a peer, an application or a timer may come back after its value
//! is gone and the place taken by another. The generation in the handle tells the two apart: a
//! stale handle finds nothing, never the wrong value.
//!
//! Insertion allocates only when the table grows, which it does by doubling up to its maximum;
//! everything else is an index and a comparison.

use core::{fmt, iter::Enumerate, slice};

/// Names one value of one [`Slab`]. Never zero, so that zero can mean "none" on a wire.
///
/// The generation of a place wraps after 2^32 - 1 insertions; a handle kept that long could be
/// mistaken for its successor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Handle(u64);

impl Handle {
    /// Takes any number, as it comes from a peer; [`Slab::get`] decides whether it names something.
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// The number that [`Handle::from_raw`] takes.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The place in the table; at most one live value has it.
    pub const fn index(self) -> u32 {
        self.0 as u32
    }

    const fn new(index: u32, generation: u32) -> Self {
        Self(((generation as u64) << 32) | index as u64)
    }

    const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.index(), self.generation())
    }
}

/// The table.
#[derive(Debug)]
pub struct Slab<T> {
    slots: Vec<Slot<T>>,
    first_free: u32,
    len: u32,
    max: u32,
}

#[derive(Debug)]
struct Slot<T> {
    /// Of the present value, or of the next one if free.
    generation: u32,
    content: Content<T>,
}

#[derive(Debug)]
enum Content<T> {
    Used(T),
    Free { next: u32 },
}

/// End of the free list, and therefore no valid index.
const NIL: u32 = u32::MAX;

impl<T> Slab<T> {
    /// A table that holds at most `max` values (and never more than 2^32 - 2).
    pub const fn new(max: usize) -> Self {
        let max = if max < NIL as usize { max as u32 } else { NIL - 1 };
        Self { slots: Vec::new(), first_free: NIL, len: 0, max }
    }

    /// As [`Slab::new`], with room for `capacity` values before the first growth.
    pub fn with_capacity(capacity: usize, max: usize) -> Self {
        let mut slab = Self::new(max);
        slab.slots.reserve_exact(capacity.min(slab.max as usize));
        slab
    }

    /// Stores a value; a full table gives it back, and so does one that there is no memory for.
    pub fn insert(&mut self, value: T) -> Result<Handle, T> {
        let Some(handle) = self.next_handle() else { return Err(value) };
        let index = handle.index();
        match self.slots.get_mut(index as usize) {
            Some(slot) => {
                if let Content::Free { next } = slot.content {
                    self.first_free = next;
                }
                slot.content = Content::Used(value);
            }
            None => {
                if self.slots.try_reserve(1).is_err() {
                    return Err(value);
                }
                let content = Content::Used(value);
                self.slots.push(Slot { generation: handle.generation(), content });
            }
        }
        self.len += 1;
        Ok(handle)
    }

    /// The handle that the next [`Slab::insert`] will return, for values that contain their own.
    /// `None` when full.
    pub fn next_handle(&self) -> Option<Handle> {
        if let Some(slot) = self.slots.get(self.first_free as usize) {
            return Some(Handle::new(self.first_free, slot.generation));
        }
        let index = self.slots.len() as u32;
        (index < self.max).then(|| Handle::new(index, 1))
    }

    /// The handle of the value in a place, if there is one.
    pub fn at(&self, index: u32) -> Option<Handle> {
        match self.slots.get(index as usize) {
            Some(Slot { generation, content: Content::Used(_) }) => {
                Some(Handle::new(index, *generation))
            }
            _ => None,
        }
    }

    /// The value, unless it is gone.
    pub fn get(&self, handle: Handle) -> Option<&T> {
        match self.slots.get(handle.index() as usize) {
            Some(Slot { generation, content: Content::Used(value) })
                if *generation == handle.generation() =>
            {
                Some(value)
            }
            _ => None,
        }
    }

    /// The value, unless it is gone.
    pub fn get_mut(&mut self, handle: Handle) -> Option<&mut T> {
        match self.slots.get_mut(handle.index() as usize) {
            Some(Slot { generation, content: Content::Used(value) })
                if *generation == handle.generation() =>
            {
                Some(value)
            }
            _ => None,
        }
    }

    /// Takes the value out; its handle is stale from now on.
    pub fn remove(&mut self, handle: Handle) -> Option<T> {
        self.get(handle)?;
        let slot = &mut self.slots[handle.index() as usize];
        slot.generation = slot.generation.checked_add(1).unwrap_or(1);
        let free = Content::Free { next: self.first_free };
        let Content::Used(value) = core::mem::replace(&mut slot.content, free) else {
            return None;
        };
        self.first_free = handle.index();
        self.len -= 1;
        Some(value)
    }

    /// Takes every value out, in order of index. All handles are stale from now on.
    pub fn drain(&mut self) -> impl Iterator<Item = (Handle, T)> + '_ {
        let mut index = 0;
        core::iter::from_fn(move || {
            while let Some(slot) = self.slots.get(index as usize) {
                let handle = Handle::new(index, slot.generation);
                index += 1;
                if let Some(value) = self.remove(handle) {
                    return Some((handle, value));
                }
            }
            None
        })
    }

    /// Visits every value in order of index.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter(self.slots.iter().enumerate())
    }

    /// Visits every value in order of index.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Handle, &mut T)> {
        self.slots.iter_mut().enumerate().filter_map(|(index, slot)| match &mut slot.content {
            Content::Used(value) => Some((Handle::new(index as u32, slot.generation), value)),
            Content::Free { .. } => None,
        })
    }

    /// Values present.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// No value present.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The next insertion will be refused.
    pub const fn is_full(&self) -> bool {
        self.len == self.max
    }
}

impl<'a, T> IntoIterator for &'a Slab<T> {
    type Item = (Handle, &'a T);
    type IntoIter = Iter<'a, T>;
    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

/// See [`Slab::iter`].
#[derive(Debug)]
pub struct Iter<'a, T>(Enumerate<slice::Iter<'a, Slot<T>>>);

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = (Handle, &'a T);
    fn next(&mut self) -> Option<Self::Item> {
        self.0.by_ref().find_map(|(index, slot)| match &slot.content {
            Content::Used(value) => Some((Handle::new(index as u32, slot.generation), value)),
            Content::Free { .. } => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stale_and_foreign_handles_find_nothing() {
        let mut slab = Slab::new(2);
        let a = slab.insert("a").unwrap();
        assert_ne!(a.raw(), 0);
        assert_eq!(slab.remove(a), Some("a"));
        let b = slab.insert("b").unwrap();
        assert_eq!(b.index(), a.index());
        assert_eq!(slab.get(a), None);
        assert_eq!(slab.remove(a), None);
        assert_eq!(slab.get(b), Some(&"b"));
        assert_eq!([0, 1].map(|index| slab.at(index)), [Some(b), None]);
        for raw in [0, 1, u64::MAX, b.raw() ^ (1 << 32), b.raw() + 1] {
            assert_eq!(slab.get(Handle::from_raw(raw)), None);
        }
    }

    #[test]
    fn full_table_returns_the_value() {
        let mut slab = Slab::with_capacity(usize::MAX, 2);
        slab.insert(1).unwrap();
        let second = slab.insert(2).unwrap();
        assert!(slab.is_full());
        assert_eq!(slab.next_handle(), None);
        assert_eq!(slab.insert(3), Err(3));
        slab.remove(second);
        assert!(slab.insert(3).is_ok());
        assert_eq!(Slab::new(0).insert(()), Err(()));
    }

    #[test]
    fn generations_wrap_past_zero() {
        let mut slab = Slab::new(1);
        let first = slab.insert(0).unwrap();
        slab.remove(first);
        slab.slots[0].generation = u32::MAX;
        let last = slab.insert(1).unwrap();
        slab.remove(last);
        let next = slab.insert(2).unwrap();
        assert_eq!(next.generation(), 1);
        assert_eq!(slab.get(last), None);
    }

    proptest! {
        #[test]
        fn agrees_with_a_map(script in prop::collection::vec((0u8..4, any::<prop::sample::Index>()), 0..200)) {
            let mut slab = Slab::new(16);
            let mut live: Vec<(Handle, usize)> = Vec::new();
            let mut dead: Vec<Handle> = Vec::new();
            for (step, (action, pick)) in script.into_iter().enumerate() {
                match action {
                    0 | 1 => {
                        let promised = slab.next_handle();
                        match slab.insert(step) {
                            Ok(handle) => {
                                prop_assert_eq!(promised, Some(handle));
                                prop_assert!(live.len() < 16 && !dead.contains(&handle));
                                live.push((handle, step));
                            }
                            Err(_) => prop_assert!(live.len() == 16 && promised.is_none()),
                        }
                    }
                    2 if !live.is_empty() => {
                        let (handle, value) = live.swap_remove(pick.index(live.len()));
                        prop_assert_eq!(slab.remove(handle), Some(value));
                        dead.push(handle);
                    }
                    3 if !live.is_empty() => {
                        let at = pick.index(live.len());
                        *slab.get_mut(live[at].0).unwrap() += 1000;
                        live[at].1 += 1000;
                    }
                    _ => {}
                }
                prop_assert_eq!(slab.len(), live.len());
                prop_assert!(dead.iter().all(|&h| slab.get(h).is_none()));
                prop_assert!(live.iter().all(|(h, v)| slab.get(*h) == Some(v)));
            }
            live.sort_by_key(|(h, _)| h.index());
            let seen: Vec<_> = slab.iter().map(|(h, v)| (h, *v)).collect();
            prop_assert_eq!(&seen, &live);
            let drained: Vec<_> = slab.drain().collect();
            prop_assert_eq!(drained, live);
            prop_assert!(slab.is_empty());
        }
    }
}
