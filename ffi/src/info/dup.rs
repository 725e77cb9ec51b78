//! SETUP. Copies of infos and their release.

use core::ffi::{c_char, c_int, c_void};

use fabric_core::{Errno, Result};

use super::{
    MAX_BYTES,
    memory::{self, prefix},
};
use crate::{
    abi::{
        Plain,
        constants::FI_DUP,
        info::{fi_info, fid_nic},
    },
    foreign,
    node::{Node, Sizes},
    text::MAX_TEXT,
};

/// Copies the first info of a list with everything below it, or, for null, allocates a zeroed one
/// with its five attribute blocks. Null if memory runs out, if an address, key or name is longer
/// than the library accepts, or if the network card refuses to be copied.
///
/// # Safety
/// `info` is null or an info whose structs have the sizes of `node`.
pub unsafe fn dup(info: *const fi_info, node: Node) -> *mut fi_info {
    let sizes = node.sizes();
    // SAFETY: the caller's info has this node's size.
    let source = unsafe { prefix(info, sizes.info) };
    let Ok(copy) = memory::zeroed::<fi_info>() else { return core::ptr::null_mut() };
    // SAFETY: the memory is fresh, zeroed and private to this function.
    let target = unsafe { &mut *copy };
    let result = match source {
        None => allocate_blocks(target),
        // SAFETY: the source is the caller's info of this node.
        Some(source) => unsafe { fill(target, &source, &sizes) },
    };
    if result.is_err() {
        // SAFETY: what has not been reached is null.
        unsafe { free(copy) };
        return core::ptr::null_mut();
    }
    copy
}

/// Releases a list, wherever it came from: discovery, copies, connection requests.
///
/// # Safety
/// `info` is null or the first of a list of this library; pieces that the application replaced are
/// from `malloc`. Nothing refers to the list afterwards.
pub unsafe fn free(mut info: *mut fi_info) {
    while !info.is_null() {
        // SAFETY: the list is the caller's to give up; each info has full size at every node.
        let raw = unsafe { info.read() };
        // SAFETY: attribute blocks of this library have full size.
        if let Some(ep) = unsafe { raw.ep_attr.as_ref() } {
            release(ep.auth_key);
        }
        // SAFETY: as above.
        if let Some(domain) = unsafe { raw.domain_attr.as_ref() } {
            release(domain.auth_key);
            release(domain.name);
        }
        // SAFETY: as above.
        if let Some(fabric) = unsafe { raw.fabric_attr.as_ref() } {
            release(fabric.name);
            release(fabric.prov_name);
        }
        if !raw.nic.is_null() {
            // SAFETY: the card belongs to the info.
            unsafe { close_nic(raw.nic) };
        }
        release(raw.src_addr);
        release(raw.dest_addr);
        release(raw.tx_attr);
        release(raw.rx_attr);
        release(raw.ep_attr);
        release(raw.domain_attr);
        release(raw.fabric_attr);
        release(info);
        info = raw.next;
    }
}

fn allocate_blocks(info: &mut fi_info) -> Result<()> {
    info.tx_attr = memory::zeroed()?;
    info.rx_attr = memory::zeroed()?;
    info.ep_attr = memory::zeroed()?;
    info.domain_attr = memory::zeroed()?;
    info.fabric_attr = memory::zeroed()?;
    Ok(())
}

/// Fills a zeroed info. On failure every pointer in it is null or its own.
///
/// # Safety
/// `source` is a copy of a caller's info whose blocks have `sizes`.
unsafe fn fill(info: &mut fi_info, source: &fi_info, sizes: &Sizes) -> Result<()> {
    info.caps = source.caps;
    info.mode = source.mode;
    info.addr_format = source.addr_format;
    info.handle = source.handle;
    // SAFETY: the caller's blocks have these sizes, keys and addresses their lengths, names end.
    unsafe {
        info.src_addr = bytes(source.src_addr.cast(), source.src_addrlen)?.cast();
        info.src_addrlen = length(info.src_addr, source.src_addrlen);
        info.dest_addr = bytes(source.dest_addr.cast(), source.dest_addrlen)?.cast();
        info.dest_addrlen = length(info.dest_addr, source.dest_addrlen);
        info.tx_attr = block(source.tx_attr, sizes.tx_attr, |_| Ok(()))?;
        info.rx_attr = block(source.rx_attr, sizes.rx_attr, |_| Ok(()))?;
        info.ep_attr =
            block(source.ep_attr, sizes.ep_attr, |ep| own_key(&mut ep.auth_key, ep.auth_key_size))?;
        info.domain_attr = block(source.domain_attr, sizes.domain_attr, |domain| {
            own_key(&mut domain.auth_key, domain.auth_key_size)?;
            own_text(&mut domain.name).inspect_err(|_| release(domain.auth_key))
        })?;
        info.fabric_attr = block(source.fabric_attr, sizes.fabric_attr, |fabric| {
            own_text(&mut fabric.name)?;
            own_text(&mut fabric.prov_name).inspect_err(|_| release(fabric.name))
        })?;
        if !source.nic.is_null() {
            info.nic = dup_nic(source.nic)?;
        }
    }
    Ok(())
}

/// Copies a block, then lets `own` replace the caller's pointers in it by copies; if that fails,
/// `own` has released what it made.
///
/// # Safety
/// `source` is null or readable for `size` bytes.
unsafe fn block<T: Plain>(
    source: *const T,
    size: usize,
    own: impl FnOnce(&mut T) -> Result<()>,
) -> Result<*mut T> {
    // SAFETY: the caller's promise.
    let Some(mut copy) = (unsafe { prefix(source, size) }) else {
        return Ok(core::ptr::null_mut());
    };
    let target = memory::zeroed::<T>()?;
    if let Err(errno) = own(&mut copy) {
        release(target);
        return Err(errno);
    }
    // SAFETY: the memory is fresh and of this type.
    unsafe { target.write(copy) };
    Ok(target)
}

/// # Safety
/// `key` is null or readable for `size` bytes.
unsafe fn own_key(key: &mut *mut u8, size: usize) -> Result<()> {
    // All ones: keys live in the address vector.
    let size = if size == usize::MAX { 0 } else { size };
    // SAFETY: the caller's promise.
    *key = unsafe { bytes(*key, size) }?;
    Ok(())
}

/// # Safety
/// `text` is null or ends within the readable bytes.
pub(super) unsafe fn own_text(text: &mut *mut c_char) -> Result<()> {
    if text.is_null() {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    let len = unsafe { libc::strnlen(*text, MAX_TEXT + 1) };
    if len > MAX_TEXT {
        return Err(Errno::EINVAL);
    }
    // SAFETY: `strnlen` has found the terminator behind `len` bytes.
    *text = memory::bytes(unsafe { core::slice::from_raw_parts((*text).cast(), len + 1) })?.cast();
    Ok(())
}

/// # Safety
/// `source` is null or readable for `len` bytes.
unsafe fn bytes(source: *const u8, len: usize) -> Result<*mut u8> {
    if source.is_null() || len == 0 {
        return Ok(core::ptr::null_mut());
    }
    if len > MAX_BYTES {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the caller's promise.
    memory::bytes(unsafe { core::slice::from_raw_parts(source, len) })
}

fn length(addr: *const c_void, len: usize) -> usize {
    if addr.is_null() { 0 } else { len }
}

/// Asks a card to copy itself; a card that cannot is left out of the copy.
///
/// # Safety
/// `nic` is a card.
unsafe fn dup_nic(nic: *mut fid_nic) -> Result<*mut fid_nic> {
    let mut copy: *mut fid_nic = core::ptr::null_mut();
    // SAFETY: `nic` is an object.
    let Some(control) =
        (unsafe { foreign::slot(&raw const (*nic).fid, |ops| &raw const (*ops).control) })
    else {
        return Ok(copy);
    };
    // SAFETY: the card's own function, called as `FI_DUP` asks.
    let answer: c_int =
        unsafe { control(&raw mut (*nic).fid, FI_DUP, (&raw mut copy).cast::<c_void>()) };
    match answer {
        0 => Ok(copy),
        answer if answer == -Errno::ENOSYS.get() => Ok(core::ptr::null_mut()),
        answer => Err(Errno::new(answer.saturating_neg())),
    }
}

/// # Safety
/// `nic` is a card that nothing uses afterwards.
unsafe fn close_nic(nic: *mut fid_nic) {
    // SAFETY: `nic` is an object.
    let close = unsafe { foreign::slot(&raw const (*nic).fid, |ops| &raw const (*ops).close) };
    if let Some(close) = close {
        // SAFETY: the card's own function.
        unsafe { close(&raw mut (*nic).fid) };
    }
}

pub(super) fn release<T>(memory: *mut T) {
    // SAFETY: every caller in this module passes memory from `malloc`, or null.
    unsafe { libc::free(memory.cast()) };
}
