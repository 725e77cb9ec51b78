//! HOT. What is received: posted receives, multi-receive buffers and messages that wait, from the
//! post to the completion. Every protocol has one; where a waiting message's bytes are (`B`) is
//! the protocol's.
//!
//! Rules: `fi_msg(3)` and `fi_tagged(3)` for matching, peek, claim and discard; `FI_MULTI_RECV` in
//! `fi_msg(3)` for buffers that take many messages.

mod multi;

use self::multi::MultiBuffer;
use crate::{
    Errno, Result,
    completion::{CqError, Entry, Report},
    flags::Flags,
    lock::Lock,
    matching::{Key, Matched, Matcher, PeerId, PostedId, Want},
    mem::Buffers,
    op::RecvOp,
    slab::{Handle, Slab},
};

/// A posted receive, or the place of one message in a multi-receive buffer.
#[derive(Clone, Copy, Debug)]
pub struct Receive {
    /// Where the bytes go.
    pub buffers: Buffers,
    /// The application's context.
    pub context: usize,
    /// Effective operation flags.
    pub flags: Flags,
    /// The multi-receive buffer that the place is in.
    multi: Option<Handle>,
    /// Address that the completion reports; zero outside multi-receive buffers.
    base: usize,
}

impl Receive {
    /// Takes no bytes.
    const NOWHERE: Self =
        Self { buffers: Buffers::EMPTY, context: 0, flags: Flags::empty(), multi: None, base: 0 };

    /// Of one message, into all of `buffers`.
    #[inline]
    const fn whole(op: &RecvOp<'_>, buffers: Buffers) -> Self {
        Self { buffers, context: op.context, flags: op.flags, multi: None, base: 0 }
    }
}

/// A message that waits for its receive.
#[derive(Debug)]
pub struct Waiting<B> {
    /// Bytes of the message.
    pub len: usize,
    /// Remote CQ data.
    pub data: Option<u64>,
    /// Where the bytes are.
    pub body: B,
}

/// What every received message says of itself.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// What it is matched by.
    pub key: Key,
    /// Bytes of the message.
    pub len: usize,
    /// Remote CQ data.
    pub data: Option<u64>,
}

impl Arrival {
    /// Of a message that waited.
    pub const fn of<B>(key: Key, waiting: &Waiting<B>) -> Self {
        Self { key, len: waiting.len, data: waiting.data }
    }

    #[inline]
    fn flags(&self) -> Flags {
        let data = if self.data.is_some() { Flags::REMOTE_CQ_DATA } else { Flags::empty() };
        Flags::RECV | kind(self.key.tagged) | data
    }

    /// The completion entry, with the sender as the application knows it.
    #[inline]
    pub fn entry(&self, context: usize, src: u64) -> Entry {
        Entry {
            context,
            flags: self.flags().bits(),
            len: self.len,
            buf: 0,
            data: self.data.unwrap_or(0),
            tag: self.key.tag,
            src,
        }
    }
}

const fn kind(tagged: bool) -> Flags {
    if tagged { Flags::TAGGED } else { Flags::MSG }
}

/// What a receive that no message matched says of itself.
fn unmatched(want: &Want, context: usize) -> Entry {
    Entry { tag: want.tag, ..Entry::new(context, Flags::RECV | kind(want.tagged)) }
}

/// What is left to do after [`Inbox::post`].
#[derive(Debug)]
pub enum Posted<B> {
    /// Nothing: the receive waits, or a peek has been answered.
    Done,
    /// Give this message to this receive.
    Met(Key, Waiting<B>, Receive),
    /// A multi-receive buffer waits; ask [`Inbox::next_for_buffer`] until there is no more.
    Buffer(Buffer),
    /// A peek has seen this message: [`Inbox::answer_peek`].
    Seen(Arrival),
    /// The message is not wanted: let go of its bytes, then [`Inbox::answer_peek`] if a peek has
    /// discarded it, else [`Inbox::answer_discard`].
    Dropped {
        /// What it was matched by.
        key: Key,
        /// The message.
        waiting: Waiting<B>,
        /// Whether a peek found it.
        peeked: bool,
    },
}

/// A multi-receive buffer that has just been posted.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    want: Want,
    posted: PostedId,
    handle: Handle,
}

/// Receives and messages of one endpoint or shared receive context.
#[derive(Debug)]
pub struct Inbox<B> {
    matcher: Matcher<Receive, Waiting<B>>,
    multi: Slab<MultiBuffer>,
    /// Multi-receive buffers with less room are given back; of buffers posted from now on.
    pub min_multi_recv: usize,
}

impl<B> Inbox<B> {
    /// An empty one.
    pub fn new(min_multi_recv: usize) -> Self {
        Self { matcher: Matcher::default(), multi: Slab::new(usize::MAX), min_multi_recv }
    }

    /// Posts a receive into `buffers`, which describe `op.iov`, from whom `want` says; or peeks,
    /// claims, discards.
    #[inline]
    pub fn post<L: Lock>(
        &mut self,
        report: &mut Report<L>,
        op: &RecvOp<'_>,
        want: Want,
        buffers: Buffers,
    ) -> Result<Posted<B>> {
        let special = Flags::PEEK | Flags::CLAIM | Flags::DISCARD | Flags::MULTI_RECV;
        if op.flags.intersects(special) {
            return self.post_special(report, op, want, buffers);
        }
        let receive = Receive::whole(op, buffers);
        if self.matcher.waiting_len() != 0
            && let Some((key, waiting)) = self.matcher.take_waiting(&want)
        {
            return Ok(Posted::Met(key, waiting, receive));
        }
        if !self.matcher.has_place_to_post(want.tagged) {
            return Err(Errno::ENOMEM);
        }
        self.matcher.post(want, receive);
        Ok(Posted::Done)
    }

    #[cold]
    fn post_special<L: Lock>(
        &mut self,
        report: &mut Report<L>,
        op: &RecvOp<'_>,
        want: Want,
        buffers: Buffers,
    ) -> Result<Posted<B>> {
        if op.flags.contains(Flags::MULTI_RECV) {
            if op.flags.intersects(Flags::PEEK | Flags::CLAIM | Flags::DISCARD) {
                return Err(Errno::EINVAL);
            }
            return self.post_multi(op, want, buffers);
        }
        if op.flags.contains(Flags::PEEK) {
            return Ok(self.peek(report, op, want));
        }
        if !op.flags.contains(Flags::CLAIM) {
            // Discarding needs a peek or a claim to name the message.
            return Err(Errno::EINVAL);
        }
        let (key, waiting) = self.matcher.take_claimed(op.context).ok_or(Errno::EINVAL)?;
        if op.flags.contains(Flags::DISCARD) {
            return Ok(Posted::Dropped { key, waiting, peeked: false });
        }
        Ok(Posted::Met(key, waiting, Receive::whole(op, buffers)))
    }

    /// Looks among the messages that have been taken in. It makes no progress itself: MPICH keeps
    /// messages to itself outside the fabric, asks here first and receives from there first, so a
    /// peek that took in new messages would name one that its receive then does not get. Whoever
    /// reads the peek's completion makes progress, so that the next peek sees more.
    fn peek<L: Lock>(&mut self, report: &mut Report<L>, op: &RecvOp<'_>, want: Want) -> Posted<B> {
        if op.flags.contains(Flags::DISCARD) {
            if let Some((key, waiting)) = self.matcher.take_waiting(&want) {
                return Posted::Dropped { key, waiting, peeked: true };
            }
        } else {
            let seen = if op.flags.contains(Flags::CLAIM) {
                self.matcher.claim(&want, op.context)
            } else {
                self.matcher.peek_waiting(&want)
            };
            if let Some((key, waiting)) = seen {
                return Posted::Seen(Arrival::of(*key, waiting));
            }
        }
        let entry = unmatched(&want, op.context);
        report.peek_failed(CqError::new(entry, Errno::ENOMSG));
        Posted::Done
    }

    /// Reports the message that a peek has found.
    pub fn answer_peek<L: Lock>(
        report: &mut Report<L>,
        op: &RecvOp<'_>,
        arrival: &Arrival,
        src: u64,
    ) {
        report.peeked(op.flags, arrival.entry(op.context, src));
    }

    /// Reports that a claimed message has been discarded.
    pub fn answer_discard<L: Lock>(
        report: &mut Report<L>,
        op: &RecvOp<'_>,
        arrival: &Arrival,
        src: u64,
    ) {
        report.received(op.flags, Entry { len: 0, ..arrival.entry(op.context, src) });
    }

    /// The receive for a message: the posted one, or a place in its buffer.
    #[inline]
    pub fn take_receive(&mut self, arrival: &Arrival) -> Option<Receive> {
        match self.matcher.match_arrival(&arrival.key, |receive| receive.multi.is_some())? {
            Matched::Taken(receive) => Some(receive),
            Matched::Kept(posted) => {
                let handle = self.matcher.posted_mut(posted)?.multi?;
                Some(self.reserve(posted, handle, arrival.len))
            }
        }
    }

    /// Whether there is memory to note one more message that waits.
    pub fn can_keep(&mut self, arrival: &Arrival) -> bool {
        self.matcher.has_place_to_wait(arrival.key.tagged)
    }

    /// Keeps a message until its receive is posted.
    pub fn keep(&mut self, arrival: &Arrival, body: B) {
        self.matcher.wait(arrival.key, Waiting { len: arrival.len, data: arrival.data, body });
    }

    /// Ends a receive, exactly once. `Ok` carries the bytes placed; `src` is the sender as the
    /// application knows it.
    #[inline]
    pub fn complete<L: Lock>(
        &mut self,
        report: &mut Report<L>,
        receive: &Receive,
        arrival: &Arrival,
        src: u64,
        outcome: Result<usize>,
    ) {
        let mut entry = arrival.entry(receive.context, src);
        entry.buf = receive.base;
        if let Some(handle) = receive.multi {
            entry.flags |= self.placed(handle).bits();
        }
        match outcome {
            Ok(placed) if placed == arrival.len => report.received(receive.flags, entry),
            Ok(placed) => {
                entry.len = placed;
                let olen = arrival.len - placed;
                let error = CqError { olen, ..CqError::new(entry, Errno::ETRUNC) };
                report.receive_failed(error);
            }
            Err(reason) => {
                entry.len = 0;
                report.receive_failed(CqError::new(entry, reason));
            }
        }
        if let Some(handle) = receive.multi {
            self.release_cancelled(report, handle);
        }
    }

    /// Takes back a posted receive. `true` if there was one.
    pub fn cancel<L: Lock>(&mut self, report: &mut Report<L>, context: usize) -> bool {
        let found = self.matcher.remove_posted_if(|_, receive| receive.context == context);
        let Some((want, receive)) = found else { return false };
        if let Some(handle) = receive.multi {
            self.retire_cancelled(report, handle);
            return true;
        }
        let entry = unmatched(&want, context);
        report.receive_failed(CqError::new(entry, Errno::ECANCELED));
        true
    }

    /// Nobody else can satisfy receives that name a peer that has ended: they fail now. Messages
    /// for which `keep` does not hold are dropped; those that arrived whole can still be received.
    pub fn peer_down<L: Lock>(
        &mut self,
        report: &mut Report<L>,
        peer: PeerId,
        src: u64,
        reason: Errno,
        address: &[u8],
        keep: impl Fn(&B) -> bool,
    ) {
        for (want, receive) in self.matcher.remove_posted_of(peer) {
            let mut entry = Entry { src, ..unmatched(&want, receive.context) };
            if receive.multi.is_some() {
                entry.flags |= Flags::MULTI_RECV.bits();
            }
            report.receive_failed(CqError::new(entry, reason).data(address));
            if let Some(handle) = receive.multi {
                self.multi.remove(handle);
            }
        }
        self.matcher.retain_waiting(|key, waiting| key.peer != peer || keep(&waiting.body));
    }

    /// Fails every posted receive: no message can come any more.
    pub fn fail_all<L: Lock>(&mut self, report: &mut Report<L>, reason: Errno) {
        while let Some((want, receive)) = self.matcher.remove_posted_if(|_, _| true) {
            let mut entry = unmatched(&want, receive.context);
            if receive.multi.is_some() {
                entry.flags |= Flags::MULTI_RECV.bits();
            }
            report.receive_failed(CqError::new(entry, reason));
            if let Some(handle) = receive.multi {
                self.multi.remove(handle);
            }
        }
    }

    /// Peers that receives or messages name, in no order and some more than once. Receives for any
    /// sender name [`crate::matching::ANY_PEER`].
    pub fn peers(&self) -> impl Iterator<Item = PeerId> {
        self.matcher.peers()
    }

    /// Whether a message waits that such a receive would get.
    pub fn has_waiting(&self, want: &Want) -> bool {
        self.matcher.peek_waiting(want).is_some()
    }

    /// Messages that wait, claimed ones included.
    pub fn waiting_len(&self) -> usize {
        self.matcher.waiting_len()
    }

    /// Receives that wait.
    pub fn posted_len(&self) -> usize {
        self.matcher.posted_len()
    }

    /// Multi-receive buffers that have not been given back.
    pub fn buffers_len(&self) -> usize {
        self.multi.len()
    }

    /// Drops everything without a word: the owner is closing.
    pub fn clear(&mut self) {
        self.matcher = Matcher::default();
        self.multi.drain().for_each(drop);
    }
}
