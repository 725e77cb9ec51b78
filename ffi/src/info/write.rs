//! SETUP. Offers as C structs in memory that the application owns.

use fabric_core::{
    Result,
    attr::{DomainAttr, EpAttr, FabricAttr, Info, RxAttr, TxAttr},
};

use super::{dup::free, memory, nic};
use crate::abi::{
    Plain,
    info::{fi_domain_attr, fi_ep_attr, fi_fabric_attr, fi_info, fi_rx_attr, fi_tx_attr},
};

/// Writes a list in order, to be released with [`free`]; null for an empty list.
pub fn write_list<'a>(
    infos: impl IntoIterator<Item = &'a Info, IntoIter: DoubleEndedIterator>,
) -> Result<*mut fi_info> {
    let mut first = core::ptr::null_mut();
    for info in infos.into_iter().rev() {
        match write(info) {
            Ok(raw) => {
                // SAFETY: `write` returns a complete info that nothing else refers to.
                unsafe { (*raw).next = first };
                first = raw;
            }
            Err(errno) => {
                // SAFETY: the list so far is complete and still private.
                unsafe { free(first) };
                return Err(errno);
            }
        }
    }
    Ok(first)
}

fn write(info: &Info) -> Result<*mut fi_info> {
    let raw = memory::zeroed::<fi_info>()?;
    // SAFETY: the memory is fresh, zeroed and private to this function.
    let result = fill(unsafe { &mut *raw }, info);
    if let Err(errno) = result {
        // SAFETY: what `fill` has not reached is null.
        unsafe { free(raw) };
        return Err(errno);
    }
    Ok(raw)
}

/// Fills a zeroed info. On failure every pointer in it is null or complete.
fn fill(raw: &mut fi_info, info: &Info) -> Result<()> {
    raw.caps = info.caps.bits();
    raw.mode = info.mode.bits();
    raw.addr_format = info.addr_format;
    raw.src_addr = memory::bytes(&info.src_addr)?.cast();
    raw.src_addrlen = info.src_addr.len();
    raw.dest_addr = memory::bytes(&info.dest_addr)?.cast();
    raw.dest_addrlen = info.dest_addr.len();
    if let Some(tx) = &info.tx {
        fill_tx(block(&mut raw.tx_attr)?, tx);
    }
    if let Some(rx) = &info.rx {
        fill_rx(block(&mut raw.rx_attr)?, rx);
    }
    if let Some(ep) = &info.ep {
        fill_ep(block(&mut raw.ep_attr)?, ep)?;
    }
    if let Some(domain) = &info.domain {
        fill_domain(block(&mut raw.domain_attr)?, domain)?;
    }
    if let Some(fabric) = &info.fabric {
        fill_fabric(block(&mut raw.fabric_attr)?, fabric)?;
    }
    if let Some(card) = &info.nic {
        raw.nic = nic::write(card)?;
    }
    Ok(())
}

/// Hangs a fresh block into `slot` before it is filled, so that a failure leaves nothing behind.
fn block<T: Plain>(slot: &mut *mut T) -> Result<&mut T> {
    *slot = memory::zeroed()?;
    // SAFETY: the memory is fresh, zeroed, and reached through `slot` only.
    Ok(unsafe { &mut **slot })
}

fn fill_tx(raw: &mut fi_tx_attr, tx: &TxAttr) {
    *raw = fi_tx_attr {
        caps: tx.caps.bits(),
        mode: tx.mode.bits(),
        op_flags: tx.op_flags.bits(),
        msg_order: tx.msg_order.bits(),
        comp_order: tx.comp_order,
        inject_size: tx.inject_size,
        size: tx.size,
        iov_limit: tx.iov_limit,
        rma_iov_limit: tx.rma_iov_limit,
        tclass: tx.tclass,
    };
}

fn fill_rx(raw: &mut fi_rx_attr, rx: &RxAttr) {
    *raw = fi_rx_attr {
        caps: rx.caps.bits(),
        mode: rx.mode.bits(),
        op_flags: rx.op_flags.bits(),
        msg_order: rx.msg_order.bits(),
        comp_order: rx.comp_order,
        total_buffered_recv: rx.total_buffered_recv,
        size: rx.size,
        iov_limit: rx.iov_limit,
    };
}

fn fill_ep(raw: &mut fi_ep_attr, ep: &EpAttr) -> Result<()> {
    *raw = fi_ep_attr {
        r#type: ep.ep_type,
        protocol: ep.protocol,
        protocol_version: ep.protocol_version,
        max_msg_size: ep.max_msg_size,
        msg_prefix_size: ep.msg_prefix_size,
        max_order_raw_size: ep.max_order_raw_size,
        max_order_war_size: ep.max_order_war_size,
        max_order_waw_size: ep.max_order_waw_size,
        mem_tag_format: ep.mem_tag_format,
        tx_ctx_cnt: ep.tx_ctx_cnt,
        rx_ctx_cnt: ep.rx_ctx_cnt,
        auth_key_size: ep.auth_key_size,
        ..fi_ep_attr::zeroed()
    };
    raw.auth_key = memory::bytes(&ep.auth_key)?;
    Ok(())
}

fn fill_domain(raw: &mut fi_domain_attr, domain: &DomainAttr) -> Result<()> {
    *raw = fi_domain_attr {
        threading: domain.threading,
        control_progress: domain.control_progress,
        progress: domain.progress,
        resource_mgmt: domain.resource_mgmt,
        av_type: domain.av_type,
        mr_mode: domain.mr_mode.bits().cast_signed(),
        mr_key_size: domain.mr_key_size,
        cq_data_size: domain.cq_data_size,
        cq_cnt: domain.cq_cnt,
        ep_cnt: domain.ep_cnt,
        tx_ctx_cnt: domain.tx_ctx_cnt,
        rx_ctx_cnt: domain.rx_ctx_cnt,
        max_ep_tx_ctx: domain.max_ep_tx_ctx,
        max_ep_rx_ctx: domain.max_ep_rx_ctx,
        max_ep_stx_ctx: domain.max_ep_stx_ctx,
        max_ep_srx_ctx: domain.max_ep_srx_ctx,
        cntr_cnt: domain.cntr_cnt,
        mr_iov_limit: domain.mr_iov_limit,
        caps: domain.caps.bits(),
        mode: domain.mode.bits(),
        auth_key_size: domain.auth_key_size,
        max_err_data: domain.max_err_data,
        mr_cnt: domain.mr_cnt,
        tclass: domain.tclass,
        max_ep_auth_key: domain.max_ep_auth_key,
        max_group_id: domain.max_group_id,
        max_cntr_value: domain.max_cntr_value,
        max_err_cntr_value: domain.max_err_cntr_value,
        ..fi_domain_attr::zeroed()
    };
    raw.name = memory::text(domain.name.as_deref())?;
    raw.auth_key = memory::bytes(&domain.auth_key)?;
    Ok(())
}

fn fill_fabric(raw: &mut fi_fabric_attr, fabric: &FabricAttr) -> Result<()> {
    raw.prov_version = fabric.prov_version.0;
    raw.api_version = fabric.api_version.0;
    raw.name = memory::text(fabric.name.as_deref())?;
    raw.prov_name = memory::text(fabric.prov_name.as_deref())?;
    Ok(())
}
