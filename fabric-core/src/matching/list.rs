//! HOT. A list with order, removal anywhere, and ids that go stale.

/// A place in a [`List`] and the use of that place, so that a stale id finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeId {
    pub(super) at: u32,
    generation: u32,
}

/// No place.
pub(super) const NONE: u32 = u32::MAX;

/// A doubly linked list in one growing block: order, removal anywhere, no allocation once warm.
pub(super) struct List<T> {
    nodes: Vec<Node<T>>,
    first: u32,
    last: u32,
    free: u32,
    len: usize,
}

/// What [`List::find_or_take`] found.
pub(super) enum Found<T> {
    Taken(T),
    Kept(NodeId),
}

struct Node<T> {
    value: Option<T>,
    next: u32,
    prev: u32,
    generation: u32,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { nodes: Vec::new(), first: NONE, last: NONE, free: NONE, len: 0 }
    }
}

impl<T> List<T> {
    /// Whether there is a place for one more value, or memory for it.
    #[inline]
    pub(super) fn has_place(&mut self) -> bool {
        self.free != NONE || self.nodes.len() < self.nodes.capacity() || self.grow()
    }

    #[cold]
    fn grow(&mut self) -> bool {
        // Rather a little than nothing.
        self.nodes.try_reserve(1).or_else(|_| self.nodes.try_reserve_exact(1)).is_ok()
    }

    #[inline]
    pub(super) fn push_back(&mut self, value: T) -> NodeId {
        let at = if self.free == NONE {
            self.nodes.push(Node { value: None, next: NONE, prev: NONE, generation: 0 });
            // 2^32 - 1 nodes would need more memory than an address space of 2^40 bytes.
            u32::try_from(self.nodes.len() - 1).unwrap_or(NONE - 1)
        } else {
            let at = self.free;
            self.free = self.nodes[at as usize].next;
            at
        };
        let last = self.last;
        let node = &mut self.nodes[at as usize];
        node.value = Some(value);
        node.next = NONE;
        node.prev = last;
        let generation = node.generation;
        match last {
            NONE => self.first = at,
            last => self.nodes[last as usize].next = at,
        }
        self.last = at;
        self.len += 1;
        NodeId { at, generation }
    }

    #[inline]
    pub(super) fn find(&self, mut pick: impl FnMut(&T) -> bool) -> Option<NodeId> {
        let mut at = self.first;
        while at != NONE {
            let node = &self.nodes[at as usize];
            if node.value.as_ref().is_some_and(&mut pick) {
                return Some(NodeId { at, generation: node.generation });
            }
            at = node.next;
        }
        None
    }

    pub(super) fn get(&self, id: NodeId) -> Option<&T> {
        let node = self.nodes.get(id.at as usize)?;
        if node.generation == id.generation { node.value.as_ref() } else { None }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: NodeId) -> Option<&mut T> {
        let node = self.nodes.get_mut(id.at as usize)?;
        if node.generation == id.generation { node.value.as_mut() } else { None }
    }

    #[inline]
    pub(super) fn remove(&mut self, id: NodeId) -> Option<T> {
        let node = self.nodes.get(id.at as usize)?;
        if node.generation != id.generation { None } else { self.take(id.at) }
    }

    /// The first value that `pick` accepts: taken out, unless `keep` wants it to stay.
    #[inline]
    pub(super) fn find_or_take(
        &mut self,
        pick: impl FnMut(&T) -> bool,
        keep: impl FnOnce(&T) -> bool,
    ) -> Option<Found<T>> {
        let id = self.find(pick)?;
        if self.nodes[id.at as usize].value.as_ref().is_some_and(keep) {
            return Some(Found::Kept(id));
        }
        self.take(id.at).map(Found::Taken)
    }

    /// Takes out all values that `pick` accepts, in order.
    pub(super) fn take_all(&mut self, mut pick: impl FnMut(&T) -> bool) -> Vec<T> {
        let mut taken = Vec::new();
        let mut at = self.first;
        while at != NONE {
            let node = &self.nodes[at as usize];
            let next = node.next;
            if node.value.as_ref().is_some_and(&mut pick) {
                taken.extend(self.take(at));
            }
            at = next;
        }
        taken
    }

    #[inline]
    fn take(&mut self, at: u32) -> Option<T> {
        let free = self.free;
        let node = &mut self.nodes[at as usize];
        let value = node.value.take()?;
        let (next, prev) = (node.next, node.prev);
        node.generation = node.generation.wrapping_add(1);
        node.next = free;
        self.free = at;
        match prev {
            NONE => self.first = next,
            prev => self.nodes[prev as usize].next = next,
        }
        match next {
            NONE => self.last = prev,
            next => self.nodes[next as usize].prev = prev,
        }
        self.len -= 1;
        Some(value)
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Places that have been in use at the same time.
    pub(super) const fn places(&self) -> usize {
        self.nodes.len()
    }

    /// The value in a place, with its id.
    pub(super) fn at(&self, at: u32) -> Option<(NodeId, &T)> {
        let node = self.nodes.get(at as usize)?;
        let id = NodeId { at, generation: node.generation };
        node.value.as_ref().map(|value| (id, value))
    }

    /// The values in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (NodeId, &T)> {
        let mut at = self.first;
        std::iter::from_fn(move || {
            let found = self.at(at)?;
            at = self.nodes[at as usize].next;
            Some(found)
        })
    }
}
