//! HOT. `struct fi_ops_atomic`: atomic operations on remote memory.
//!
//! C counts elements, the core bytes; `elements` translates.

mod elements;

use core::ffi::{c_int, c_void};

use fabric_core::{
    Errno, Result,
    api::Endpoint,
    atomic::valid,
    op::{
        AtomicKind::{self, Base, Compare, Fetch},
        AtomicOp, RmaIov, TxMeta,
    },
};

use self::elements::{Elements, RemoteElements, Shape};
use super::args::{call, call_flags, inject as injected, message, transmit};
use crate::abi::{
    constants::{fi_addr_t, fi_datatype, fi_op},
    data_ops::fi_ops_atomic,
    fid::fid_ep,
    msg::{fi_ioc, fi_msg_atomic},
};

/// The table of endpoints of type `E`.
pub(super) const fn table<E: Endpoint>() -> *mut fi_ops_atomic {
    super::table(
        const {
            &fi_ops_atomic {
                write: write::<E>,
                writev: writev::<E>,
                writemsg: writemsg::<E>,
                inject: inject::<E>,
                readwrite: readwrite::<E>,
                readwritev: readwritev::<E>,
                readwritemsg: readwritemsg::<E>,
                compwrite: compwrite::<E>,
                compwritev: compwritev::<E>,
                compwritemsg: compwritemsg::<E>,
                writevalid: writevalid::<E>,
                readwritevalid: readwritevalid::<E>,
                compwritevalid: compwritevalid::<E>,
                ..fi_ops_atomic::UNSUPPORTED
            }
        },
    )
}

/// The local buffers of an operation; what its family lacks is empty.
struct Local {
    operand: Elements,
    compare: Elements,
    result: Elements,
}

/// Posts an operation on `remote`.
///
/// # Safety
/// As for [`Endpoint::atomic`].
#[inline]
unsafe fn post<E: Endpoint>(
    ep: &E,
    shape: Shape,
    local: &Local,
    remote: &[RmaIov],
    meta: TxMeta,
) -> Result<()> {
    let op = AtomicOp {
        meta,
        kind: shape.kind,
        datatype: shape.datatype,
        op: shape.op,
        operand: local.operand.as_slice(),
        compare: local.compare.as_slice(),
        result: local.result.as_slice(),
        remote,
    };
    // SAFETY: the caller's promise.
    unsafe { ep.atomic(&op) }
}

/// Posts an operation on one remote buffer, as long as the local ones.
///
/// # Safety
/// As for [`Endpoint::atomic`].
#[inline]
unsafe fn post_at<E: Endpoint>(
    ep: &E,
    shape: Shape,
    local: &Local,
    (addr, key): (u64, u64),
    meta: TxMeta,
) -> Result<()> {
    let len = if shape.reads() { &local.result } else { &local.operand }.total()?;
    // SAFETY: the caller's promise.
    unsafe { post(ep, shape, local, &[RmaIov { addr, len, key }], meta) }
}

/// Arrays of the call that a `*msg` struct does not hold.
struct Arrays {
    compare: (*const fi_ioc, usize),
    result: (*const fi_ioc, usize),
}

const NO_ARRAY: (*const fi_ioc, usize) = (core::ptr::null(), 0);

/// Posts the operation that `msg` and `arrays` describe.
///
/// # Safety
/// `msg` is null or readable during the call with its arrays, as are `arrays`; the rest as for
/// [`Endpoint::atomic`].
#[inline]
unsafe fn post_msg<E: Endpoint>(
    ep: &E,
    kind: AtomicKind,
    msg: *const fi_msg_atomic,
    arrays: &Arrays,
    flags: u64,
) -> Result<()> {
    // SAFETY: the caller's promise.
    let msg = unsafe { message(msg) }?;
    let shape = Shape::new(kind, msg.datatype, msg.op)?;
    let meta = TxMeta { data: msg.data, ..transmit(msg.addr, msg.context, call_flags(flags)?) };
    // SAFETY: the caller's promise.
    let local = unsafe { local(shape, (msg.msg_iov, msg.iov_count), arrays) }?;
    // SAFETY: the caller's promise.
    let remote = unsafe { RemoteElements::array(shape, msg.rma_iov, msg.rma_iov_count) }?;
    // SAFETY: the caller's promise.
    unsafe { post(ep, shape, &local, remote.as_slice(), meta) }
}

/// The local buffers of a call with arrays.
///
/// # Safety
/// The arrays are readable during the call.
#[inline]
unsafe fn local(shape: Shape, operand: (*const fi_ioc, usize), arrays: &Arrays) -> Result<Local> {
    let array = |(first, count)| {
        // SAFETY: the caller's promise.
        unsafe { Elements::array(shape, first, count) }
    };
    Ok(Local {
        operand: if shape.reads() { Elements::NONE } else { array(operand)? },
        compare: array(arrays.compare)?,
        result: array(arrays.result)?,
    })
}

/// The operand of a call with one buffer.
#[inline]
fn operand(shape: Shape, buf: *const c_void, count: usize) -> Result<Elements> {
    if shape.reads() { Ok(Elements::NONE) } else { Elements::one(shape, buf, count) }
}

/// Whether the endpoint has the operation and on how many elements at once.
///
/// # Safety
/// `ep` as for [`call`]; `count` is null or valid for writing.
unsafe fn query<E: Endpoint>(
    ep: *mut fid_ep,
    kind: AtomicKind,
    datatype: fi_datatype,
    op: fi_op,
    count: *mut usize,
) -> c_int {
    let run = |ep: &E| {
        let size = valid(kind, datatype, op)?;
        if ep.atomic_limit() == 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let payload = E::atomic_payload(kind, datatype, op)?.min(ep.atomic_limit());
        // SAFETY: the caller's promise.
        if let Some(count) = unsafe { count.as_mut() } {
            *count = payload / size;
        }
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call(ep, run) as c_int }
}

// Every function below is called by C through an endpoint's table, so `ep` is null or such an
// endpoint, structs and arrays are readable during the call, and buffers stay valid until the
// operation completes (`fi_atomic(3)`).

unsafe extern "C" fn write<E: Endpoint>(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _desc: *mut c_void,
    dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    // SAFETY: C passes an endpoint of this table.
    unsafe {
        call(ep, |ep: &E| {
            let shape = Shape::new(Base, datatype, op)?;
            let local = Local {
                operand: operand(shape, buf, count)?,
                compare: Elements::NONE,
                result: Elements::NONE,
            };
            let meta = transmit(dest_addr, context, ep.tx_op_flags());
            post_at(ep, shape, &local, (addr, key), meta)
        })
    }
}

unsafe extern "C" fn writev<E: Endpoint>(
    ep: *mut fid_ep,
    iov: *const fi_ioc,
    _desc: *mut *mut c_void,
    count: usize,
    dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let arrays = Arrays { compare: NO_ARRAY, result: NO_ARRAY };
    // SAFETY: C passes an endpoint of this table and readable arrays.
    unsafe {
        call(ep, |ep: &E| {
            let shape = Shape::new(Base, datatype, op)?;
            let local = local(shape, (iov, count), &arrays)?;
            let meta = transmit(dest_addr, context, ep.tx_op_flags());
            post_at(ep, shape, &local, (addr, key), meta)
        })
    }
}

unsafe extern "C" fn writemsg<E: Endpoint>(
    ep: *mut fid_ep,
    msg: *const fi_msg_atomic,
    flags: u64,
) -> isize {
    let arrays = Arrays { compare: NO_ARRAY, result: NO_ARRAY };
    // SAFETY: C passes an endpoint of this table and a readable message.
    unsafe { call(ep, |ep: &E| post_msg(ep, Base, msg, &arrays, flags)) }
}

unsafe extern "C" fn inject<E: Endpoint>(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
) -> isize {
    // SAFETY: C passes an endpoint of this table.
    unsafe {
        call(ep, |ep: &E| {
            let shape = Shape::new(Base, datatype, op)?;
            let local = Local {
                operand: operand(shape, buf, count)?,
                compare: Elements::NONE,
                result: Elements::NONE,
            };
            let meta = injected(dest_addr, ep.tx_op_flags());
            post_at(ep, shape, &local, (addr, key), meta)
        })
    }
}

unsafe extern "C" fn readwrite<E: Endpoint>(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _desc: *mut c_void,
    result: *mut c_void,
    _result_desc: *mut c_void,
    dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    // SAFETY: C passes an endpoint of this table.
    unsafe {
        call(ep, |ep: &E| {
            let shape = Shape::new(Fetch, datatype, op)?;
            let local = Local {
                operand: operand(shape, buf, count)?,
                compare: Elements::NONE,
                result: Elements::one(shape, result, count)?,
            };
            let meta = transmit(dest_addr, context, ep.tx_op_flags());
            post_at(ep, shape, &local, (addr, key), meta)
        })
    }
}

unsafe extern "C" fn readwritev<E: Endpoint>(
    ep: *mut fid_ep,
    iov: *const fi_ioc,
    _desc: *mut *mut c_void,
    count: usize,
    resultv: *mut fi_ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let arrays = Arrays { compare: NO_ARRAY, result: (resultv, result_count) };
    // SAFETY: C passes an endpoint of this table and readable arrays.
    unsafe {
        call(ep, |ep: &E| {
            let shape = Shape::new(Fetch, datatype, op)?;
            let local = local(shape, (iov, count), &arrays)?;
            let meta = transmit(dest_addr, context, ep.tx_op_flags());
            post_at(ep, shape, &local, (addr, key), meta)
        })
    }
}

unsafe extern "C" fn readwritemsg<E: Endpoint>(
    ep: *mut fid_ep,
    msg: *const fi_msg_atomic,
    resultv: *mut fi_ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> isize {
    let arrays = Arrays { compare: NO_ARRAY, result: (resultv, result_count) };
    // SAFETY: C passes an endpoint of this table, a readable message and array.
    unsafe { call(ep, |ep: &E| post_msg(ep, Fetch, msg, &arrays, flags)) }
}

unsafe extern "C" fn compwrite<E: Endpoint>(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _desc: *mut c_void,
    compare: *const c_void,
    _compare_desc: *mut c_void,
    result: *mut c_void,
    _result_desc: *mut c_void,
    dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    // SAFETY: C passes an endpoint of this table.
    unsafe {
        call(ep, |ep: &E| {
            let shape = Shape::new(Compare, datatype, op)?;
            let local = Local {
                operand: operand(shape, buf, count)?,
                compare: Elements::one(shape, compare, count)?,
                result: Elements::one(shape, result, count)?,
            };
            let meta = transmit(dest_addr, context, ep.tx_op_flags());
            post_at(ep, shape, &local, (addr, key), meta)
        })
    }
}

unsafe extern "C" fn compwritev<E: Endpoint>(
    ep: *mut fid_ep,
    iov: *const fi_ioc,
    _desc: *mut *mut c_void,
    count: usize,
    comparev: *const fi_ioc,
    _compare_desc: *mut *mut c_void,
    compare_count: usize,
    resultv: *mut fi_ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let arrays = Arrays { compare: (comparev, compare_count), result: (resultv, result_count) };
    // SAFETY: C passes an endpoint of this table and readable arrays.
    unsafe {
        call(ep, |ep: &E| {
            let shape = Shape::new(Compare, datatype, op)?;
            let local = local(shape, (iov, count), &arrays)?;
            let meta = transmit(dest_addr, context, ep.tx_op_flags());
            post_at(ep, shape, &local, (addr, key), meta)
        })
    }
}

unsafe extern "C" fn compwritemsg<E: Endpoint>(
    ep: *mut fid_ep,
    msg: *const fi_msg_atomic,
    comparev: *const fi_ioc,
    _compare_desc: *mut *mut c_void,
    compare_count: usize,
    resultv: *mut fi_ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> isize {
    let arrays = Arrays { compare: (comparev, compare_count), result: (resultv, result_count) };
    // SAFETY: C passes an endpoint of this table, a readable message and arrays.
    unsafe { call(ep, |ep: &E| post_msg(ep, Compare, msg, &arrays, flags)) }
}

unsafe extern "C" fn writevalid<E: Endpoint>(
    ep: *mut fid_ep,
    datatype: fi_datatype,
    op: fi_op,
    count: *mut usize,
) -> c_int {
    // SAFETY: C passes an endpoint of this table and null or a place for the count.
    unsafe { query::<E>(ep, Base, datatype, op, count) }
}

unsafe extern "C" fn readwritevalid<E: Endpoint>(
    ep: *mut fid_ep,
    datatype: fi_datatype,
    op: fi_op,
    count: *mut usize,
) -> c_int {
    // SAFETY: C passes an endpoint of this table and null or a place for the count.
    unsafe { query::<E>(ep, Fetch, datatype, op, count) }
}

unsafe extern "C" fn compwritevalid<E: Endpoint>(
    ep: *mut fid_ep,
    datatype: fi_datatype,
    op: fi_op,
    count: *mut usize,
) -> c_int {
    // SAFETY: C passes an endpoint of this table and null or a place for the count.
    unsafe { query::<E>(ep, Compare, datatype, op, count) }
}
