//! SETUP. Hints and attributes of an application as owned Rust data.

use core::ffi::c_void;

use fabric_core::{
    Errno, Result,
    attr::{DomainAttr, EpAttr, FabricAttr, Info, RxAttr, TxAttr, Version},
    flags::{Flags, Mode, MrMode, Order},
};

use super::{MAX_BYTES, memory::prefix};
use crate::{
    abi::{
        fid::{fid, fid_domain, fid_fabric},
        info::{
            fi_domain_attr, fi_ep_attr, fi_fabric_attr, fi_info, fi_rx_attr, fi_tx_attr, fid_nic,
        },
    },
    node::Node,
    text,
};

/// What an application asks for, with the objects that hints can point to.
///
/// The pointers are the application's and unchecked; null where it gave none.
#[derive(Debug)]
pub struct Hints {
    /// Everything that has a counterpart in Rust.
    pub info: Info,
    /// A connection request to answer, or a passive endpoint whose address to take over.
    pub handle: *mut fid,
    /// Match only what this open domain offers.
    pub domain: *mut fid_domain,
    /// Match only what this open fabric offers.
    pub fabric: *mut fid_fabric,
    /// The network card of a copied offer.
    pub nic: *mut fid_nic,
}

impl Hints {
    /// Reads hints; null is `None`. Only the first of a list counts.
    ///
    /// Keys are left out below version 1.5, which had none. Refused with `EINVAL`: addresses and
    /// keys longer than [`MAX_BYTES`], a key without bytes, names longer than
    /// [`text::MAX_TEXT`]. Refused with `ENOSYS`: an accelerator context of node 1.10.
    ///
    /// # Safety
    /// `hints` is null or an info whose structs have the sizes of `node`, with readable addresses,
    /// keys and names.
    pub unsafe fn read(
        hints: *const fi_info,
        node: Node,
        version: Version,
    ) -> Result<Option<Self>> {
        let sizes = node.sizes();
        // SAFETY: the caller's info has this node's size.
        let Some(raw) = (unsafe { prefix(hints, sizes.info) }) else { return Ok(None) };
        // SAFETY: so has each of its attribute structs.
        let tx = unsafe { prefix(raw.tx_attr, sizes.tx_attr) };
        // SAFETY: as above.
        let rx = unsafe { prefix(raw.rx_attr, sizes.rx_attr) };
        // SAFETY: as above.
        let ep = unsafe { prefix(raw.ep_attr, sizes.ep_attr) };
        // SAFETY: as above.
        let domain = unsafe { prefix(raw.domain_attr, sizes.domain_attr) };
        // SAFETY: as above.
        let mut fabric = unsafe { prefix(raw.fabric_attr, sizes.fabric_attr) };
        if let (Node::V1_0, Some(fabric)) = (node, &mut fabric) {
            // The field lies in what was padding for these callers.
            fabric.api_version = 0;
        }
        let keys = version >= Version::new(1, 5);
        Ok(Some(Self {
            info: Info {
                caps: Flags::from_bits_retain(raw.caps),
                mode: Mode::from_bits_retain(raw.mode),
                addr_format: raw.addr_format,
                // SAFETY: addresses are readable for their length.
                src_addr: unsafe { address(raw.src_addr, raw.src_addrlen) }?,
                // SAFETY: as above.
                dest_addr: unsafe { address(raw.dest_addr, raw.dest_addrlen) }?,
                tx: tx.as_ref().map(read_tx),
                rx: rx.as_ref().map(read_rx),
                // SAFETY: keys are readable for their length.
                ep: ep.map(|ep| unsafe { read_ep(&ep, keys) }).transpose()?,
                // SAFETY: keys and names are readable.
                domain: domain.map(|domain| unsafe { read_domain(&domain, keys) }).transpose()?,
                // SAFETY: names are readable.
                fabric: fabric.map(|fabric| unsafe { read_fabric(&fabric) }).transpose()?,
                // Not looked at: the card is part of what is offered, not of what is asked for.
                nic: None,
            },
            handle: raw.handle,
            domain: domain.map_or(core::ptr::null_mut(), |domain| domain.domain),
            fabric: fabric.map_or(core::ptr::null_mut(), |fabric| fabric.fabric),
            nic: raw.nic,
        }))
    }
}

fn read_tx(raw: &fi_tx_attr) -> TxAttr {
    TxAttr {
        caps: Flags::from_bits_retain(raw.caps),
        mode: Mode::from_bits_retain(raw.mode),
        op_flags: Flags::from_bits_retain(raw.op_flags),
        msg_order: Order::from_bits_retain(raw.msg_order),
        comp_order: raw.comp_order,
        inject_size: raw.inject_size,
        size: raw.size,
        iov_limit: raw.iov_limit,
        rma_iov_limit: raw.rma_iov_limit,
        tclass: raw.tclass,
    }
}

/// Receive attributes.
pub fn read_rx(raw: &fi_rx_attr) -> RxAttr {
    RxAttr {
        caps: Flags::from_bits_retain(raw.caps),
        mode: Mode::from_bits_retain(raw.mode),
        op_flags: Flags::from_bits_retain(raw.op_flags),
        msg_order: Order::from_bits_retain(raw.msg_order),
        comp_order: raw.comp_order,
        total_buffered_recv: raw.total_buffered_recv,
        size: raw.size,
        iov_limit: raw.iov_limit,
    }
}

/// # Safety
/// The key is readable for its length.
unsafe fn read_ep(raw: &fi_ep_attr, keys: bool) -> Result<EpAttr> {
    if !raw.xpu_ctx.is_null() {
        return Err(Errno::ENOSYS);
    }
    let auth_key_size = if keys { raw.auth_key_size } else { 0 };
    Ok(EpAttr {
        ep_type: raw.r#type,
        protocol: raw.protocol,
        protocol_version: raw.protocol_version,
        max_msg_size: raw.max_msg_size,
        msg_prefix_size: raw.msg_prefix_size,
        max_order_raw_size: raw.max_order_raw_size,
        max_order_war_size: raw.max_order_war_size,
        max_order_waw_size: raw.max_order_waw_size,
        mem_tag_format: raw.mem_tag_format,
        tx_ctx_cnt: raw.tx_ctx_cnt,
        rx_ctx_cnt: raw.rx_ctx_cnt,
        // SAFETY: the caller's promise.
        auth_key: unsafe { key(raw.auth_key, auth_key_size) }?,
        auth_key_size,
    })
}

/// # Safety
/// The key is readable for its length, the name up to its terminator.
unsafe fn read_domain(raw: &fi_domain_attr, keys: bool) -> Result<DomainAttr> {
    let auth_key_size = if keys { raw.auth_key_size } else { 0 };
    Ok(DomainAttr {
        // SAFETY: the caller's promise.
        name: unsafe { text::read(raw.name) }?,
        threading: raw.threading,
        control_progress: raw.control_progress,
        progress: raw.progress,
        resource_mgmt: raw.resource_mgmt,
        av_type: raw.av_type,
        mr_mode: MrMode::from_bits_retain(raw.mr_mode.cast_unsigned()),
        mr_key_size: raw.mr_key_size,
        cq_data_size: raw.cq_data_size,
        cq_cnt: raw.cq_cnt,
        ep_cnt: raw.ep_cnt,
        tx_ctx_cnt: raw.tx_ctx_cnt,
        rx_ctx_cnt: raw.rx_ctx_cnt,
        max_ep_tx_ctx: raw.max_ep_tx_ctx,
        max_ep_rx_ctx: raw.max_ep_rx_ctx,
        max_ep_stx_ctx: raw.max_ep_stx_ctx,
        max_ep_srx_ctx: raw.max_ep_srx_ctx,
        cntr_cnt: raw.cntr_cnt,
        mr_iov_limit: raw.mr_iov_limit,
        caps: Flags::from_bits_retain(raw.caps),
        mode: Mode::from_bits_retain(raw.mode),
        // SAFETY: the caller's promise.
        auth_key: unsafe { key(raw.auth_key, auth_key_size) }?,
        auth_key_size,
        max_err_data: raw.max_err_data,
        mr_cnt: raw.mr_cnt,
        tclass: raw.tclass,
        max_ep_auth_key: raw.max_ep_auth_key,
        max_group_id: raw.max_group_id,
        max_cntr_value: raw.max_cntr_value,
        max_err_cntr_value: raw.max_err_cntr_value,
    })
}

/// Reads fabric attributes; errors as those of [`Hints::read`].
///
/// # Safety
/// The names are null or readable up to their terminators.
pub unsafe fn read_fabric(raw: &fi_fabric_attr) -> Result<FabricAttr> {
    Ok(FabricAttr {
        // SAFETY: the caller's promise.
        name: unsafe { text::read(raw.name) }?,
        // SAFETY: the caller's promise.
        prov_name: unsafe { text::read(raw.prov_name) }?,
        prov_version: Version(raw.prov_version),
        api_version: Version(raw.api_version),
    })
}

/// # Safety
/// `addr` is null or readable for `len` bytes.
unsafe fn address(addr: *const c_void, len: usize) -> Result<Vec<u8>> {
    if addr.is_null() || len == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the caller's promise.
    unsafe { copy(addr.cast(), len) }
}

/// # Safety
/// `key` is null or readable for `size` bytes.
unsafe fn key(key: *const u8, size: usize) -> Result<Vec<u8>> {
    match size {
        // All ones: keys live in the address vector.
        0 | usize::MAX => Ok(Vec::new()),
        _ if key.is_null() => Err(Errno::EINVAL),
        // SAFETY: the caller's promise.
        _ => unsafe { copy(key, size) },
    }
}

/// # Safety
/// `bytes` is readable for `len` bytes.
unsafe fn copy(bytes: *const u8, len: usize) -> Result<Vec<u8>> {
    if len > MAX_BYTES {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { core::slice::from_raw_parts(bytes, len) }.to_vec())
}
