//! HOT. Atomic operations on peers' memory.

use bytemuck::Pod;
use fabric_core::{
    Errno,
    atomic::{atomic_op, datatype},
    op::{AtomicKind, RmaIov},
};

use super::{Endpoint, Outgoing};
use crate::{
    address::Peer,
    dispatch::{EndpointCalls, Provider},
    op::{Fetching, Op, Parked, Request, Sending},
    region::Remote,
};

/// A type of elements: integers of 8 to 64 bits, `f32` and `f64`. Programs do not implement it.
pub trait Element: Pod + Send {
    /// The number of the type in the C interface.
    #[doc(hidden)]
    const DATATYPE: u32;
}

macro_rules! elements {
    ($($element:ty => $datatype:ident),* $(,)?) => {
        $(
            impl Element for $element {
                const DATATYPE: u32 = datatype::$datatype;
            }
        )*
    };
}

elements! {
    i8 => INT8, u8 => UINT8, i16 => INT16, u16 => UINT16, i32 => INT32, u32 => UINT32,
    i64 => INT64, u64 => UINT64, f32 => FLOAT, f64 => DOUBLE,
}

/// How elements change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Change {
    /// To the smaller of both.
    Min,
    /// To the larger of both.
    Max,
    /// To the sum.
    Sum,
    /// To the product.
    Product,
    /// To the bits of either; integers only.
    Or,
    /// To the bits of both; integers only.
    And,
    /// To the bits of one and not the other; integers only.
    Xor,
    /// To the operand.
    Write,
}

impl Change {
    const fn raw(self) -> u32 {
        match self {
            Self::Min => atomic_op::MIN,
            Self::Max => atomic_op::MAX,
            Self::Sum => atomic_op::SUM,
            Self::Product => atomic_op::PROD,
            Self::Or => atomic_op::BOR,
            Self::And => atomic_op::BAND,
            Self::Xor => atomic_op::BXOR,
            Self::Write => atomic_op::ATOMIC_WRITE,
        }
    }
}

impl<P: Provider> Endpoint<P> {
    /// Adds to one element and fetches what was there.
    pub fn fetch_add<T: Element>(
        &self,
        peer: Peer,
        remote: Remote,
        value: T,
    ) -> Op<P, Fetching<T>> {
        self.to(peer).fetch(Change::Sum, remote, vec![value])
    }

    /// Puts `new` in the place of one element if that is `expected`, and fetches what was there.
    pub fn compare_swap<T: Element>(
        &self,
        peer: Peer,
        remote: Remote,
        expected: T,
        new: T,
    ) -> Op<P, Fetching<T>> {
        self.to(peer).compare_swap(remote, vec![expected], vec![new])
    }
}

impl<P: Provider> Outgoing<'_, P> {
    /// Changes elements at the start of the peer's memory, each with its operand.
    pub fn change<T: Element>(
        self,
        how: Change,
        remote: Remote,
        operands: Vec<T>,
    ) -> Op<P, Sending<Vec<T>>> {
        let mut buffer = Parked::new(operands);
        let operation = (AtomicKind::Base, T::DATATYPE, how.raw());
        let request =
            self.elements::<T>(operation, remote, buffer.get_mut().len()).map(|(peer, remote)| {
                Request::atomic(peer, operation, (buffer.get_mut(), &(), &mut ()), remote)
            });
        self.start(request, Sending(buffer))
    }

    /// Changes elements as [`Outgoing::change`] and fetches what was there.
    pub fn fetch<T: Element>(
        self,
        how: Change,
        remote: Remote,
        operands: Vec<T>,
    ) -> Op<P, Fetching<T>> {
        let operation = (AtomicKind::Fetch, T::DATATYPE, how.raw());
        self.fetching(operation, remote, operands, Vec::new())
    }

    /// Fetches elements, each whole.
    pub fn load<T: Element>(self, remote: Remote) -> Op<P, Fetching<T>> {
        let operation = (AtomicKind::Fetch, T::DATATYPE, atomic_op::ATOMIC_READ);
        self.fetching(operation, remote, Vec::new(), Vec::new())
    }

    /// Puts each new value in the place of an element that is as expected, and fetches what was there.
    pub fn compare_swap<T: Element>(
        self,
        remote: Remote,
        expected: Vec<T>,
        new: Vec<T>,
    ) -> Op<P, Fetching<T>> {
        let operation = (AtomicKind::Compare, T::DATATYPE, atomic_op::CSWAP);
        self.fetching(operation, remote, new, expected)
    }

    fn fetching<T: Element>(
        self,
        operation: (AtomicKind, u32, u32),
        remote: Remote,
        operands: Vec<T>,
        compare: Vec<T>,
    ) -> Op<P, Fetching<T>> {
        let (kind, _, op) = operation;
        let count = if op == atomic_op::ATOMIC_READ {
            remote.len() / size_of::<T>()
        } else {
            operands.len()
        };
        let unequal = kind == AtomicKind::Compare && compare.len() != count;
        let mut checked = self.elements::<T>(operation, remote, count);
        if unequal {
            checked = Err(Errno::EINVAL);
        }
        let len = if checked.is_ok() { count * size_of::<T>() } else { 0 };
        // Exactly as much room as there are elements: it is what the operation fetches.
        let mut result = Parked::new(vec![T::zeroed(); len / size_of::<T>()].into_boxed_slice());
        let mut operands = Parked::new((operands, compare));
        let request = checked.map(|(peer, remote)| {
            let (operand, compare) = operands.get_mut();
            let buffers = (&*operand, &*compare, result.get_mut());
            Request::atomic(peer, operation, buffers, remote)
        });
        self.start(request, Fetching { operands, result })
    }

    /// What the provider calls the peer, and the memory of so many elements.
    fn elements<T: Element>(
        &self,
        (kind, datatype, op): (AtomicKind, u32, u32),
        remote: Remote,
        count: usize,
    ) -> Result<(u64, RmaIov), Errno> {
        fabric_core::atomic::valid(kind, datatype, op)?;
        let len = count.checked_mul(size_of::<T>()).ok_or(Errno::EINVAL)?;
        if count == 0 || len > remote.len() {
            return Err(Errno::EINVAL);
        }
        if len > self.endpoint.calls.atomic_limit() {
            return Err(Errno::EMSGSIZE);
        }
        Ok((self.index()?, RmaIov { len, ..remote.iov() }))
    }
}
