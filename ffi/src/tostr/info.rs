//! SETUP. `fi_info` and its attribute blocks.

use core::fmt::{self, Write};

use fabric_core::attr::Version;

use super::{
    Pointer, Text, address, mr_mode_bits,
    names::{self, Bits},
    nic,
};
use crate::abi::info::{
    fi_domain_attr, fi_ep_attr, fi_fabric_attr, fi_info, fi_rx_attr, fi_tx_attr,
};

/// One level of indentation.
pub(super) const INDENT: &str = "    ";

/// Prints an info without its successors.
pub(super) fn info(out: &mut String, info: &fi_info) -> fmt::Result {
    writeln!(out, "fi_info:")?;
    writeln!(out, "    caps: [ {} ]", Bits(names::CAPS, info.caps))?;
    writeln!(out, "    mode: [ {} ]", Bits(names::MODE, info.mode))?;
    writeln!(out, "    addr_format: {}", names::of(names::ADDR_FORMAT, info.addr_format))?;
    writeln!(out, "    src_addrlen: {}", info.src_addrlen)?;
    writeln!(out, "    dest_addrlen: {}", info.dest_addrlen)?;
    // SAFETY: the caller of `fi_tostr` promises a valid info: addresses readable for their length.
    let src_addr = unsafe { address::text(info.addr_format, info.src_addr, info.src_addrlen) };
    // SAFETY: as above.
    let dest_addr = unsafe { address::text(info.addr_format, info.dest_addr, info.dest_addrlen) };
    writeln!(out, "    src_addr: {src_addr}")?;
    writeln!(out, "    dest_addr: {dest_addr}")?;
    writeln!(out, "    handle: {}", Pointer(info.handle))?;
    // SAFETY: blocks of a valid info are valid or null.
    block(out, "fi_tx_attr", unsafe { info.tx_attr.as_ref() }, tx_attr)?;
    // SAFETY: as above.
    block(out, "fi_rx_attr", unsafe { info.rx_attr.as_ref() }, rx_attr)?;
    // SAFETY: as above.
    block(out, "fi_ep_attr", unsafe { info.ep_attr.as_ref() }, ep_attr)?;
    // SAFETY: as above.
    block(out, "fi_domain_attr", unsafe { info.domain_attr.as_ref() }, domain_attr)?;
    // SAFETY: as above.
    block(out, "fi_fabric_attr", unsafe { info.fabric_attr.as_ref() }, fabric_attr)?;
    // SAFETY: the card of a valid info is valid or null.
    unsafe { nic::nic(out, INDENT, info.nic) }
}

fn block<T>(
    out: &mut String,
    name: &str,
    block: Option<&T>,
    print: impl FnOnce(&mut String, &str, &T) -> fmt::Result,
) -> fmt::Result {
    match block {
        Some(block) => print(out, INDENT, block),
        None => writeln!(out, "{INDENT}{name}: (null)"),
    }
}

pub(super) fn tx_attr(out: &mut String, indent: &str, attr: &fi_tx_attr) -> fmt::Result {
    writeln!(out, "{indent}fi_tx_attr:")?;
    writeln!(out, "{indent}    caps: [ {} ]", Bits(names::CAPS, attr.caps))?;
    writeln!(out, "{indent}    mode: [ {} ]", Bits(names::MODE, attr.mode))?;
    writeln!(out, "{indent}    op_flags: [ {} ]", Bits(names::OP_FLAGS, attr.op_flags))?;
    writeln!(out, "{indent}    msg_order: [ {} ]", Bits(names::ORDER, attr.msg_order))?;
    writeln!(out, "{indent}    inject_size: {}", attr.inject_size)?;
    writeln!(out, "{indent}    size: {}", attr.size)?;
    writeln!(out, "{indent}    iov_limit: {}", attr.iov_limit)?;
    writeln!(out, "{indent}    rma_iov_limit: {}", attr.rma_iov_limit)?;
    writeln!(out, "{indent}    tclass: {:#x}", attr.tclass)
}

pub(super) fn rx_attr(out: &mut String, indent: &str, attr: &fi_rx_attr) -> fmt::Result {
    writeln!(out, "{indent}fi_rx_attr:")?;
    writeln!(out, "{indent}    caps: [ {} ]", Bits(names::CAPS, attr.caps))?;
    writeln!(out, "{indent}    mode: [ {} ]", Bits(names::MODE, attr.mode))?;
    writeln!(out, "{indent}    op_flags: [ {} ]", Bits(names::OP_FLAGS, attr.op_flags))?;
    writeln!(out, "{indent}    msg_order: [ {} ]", Bits(names::ORDER, attr.msg_order))?;
    writeln!(out, "{indent}    size: {}", attr.size)?;
    writeln!(out, "{indent}    iov_limit: {}", attr.iov_limit)
}

pub(super) fn ep_attr(out: &mut String, indent: &str, attr: &fi_ep_attr) -> fmt::Result {
    writeln!(out, "{indent}fi_ep_attr:")?;
    writeln!(out, "{indent}    type: {}", names::of(names::EP_TYPE, attr.r#type))?;
    writeln!(out, "{indent}    protocol: {}", names::of(names::PROTOCOL, attr.protocol))?;
    writeln!(out, "{indent}    protocol_version: {}", attr.protocol_version)?;
    writeln!(out, "{indent}    max_msg_size: {}", attr.max_msg_size)?;
    writeln!(out, "{indent}    msg_prefix_size: {}", attr.msg_prefix_size)?;
    writeln!(out, "{indent}    max_order_raw_size: {}", attr.max_order_raw_size)?;
    writeln!(out, "{indent}    max_order_war_size: {}", attr.max_order_war_size)?;
    writeln!(out, "{indent}    max_order_waw_size: {}", attr.max_order_waw_size)?;
    writeln!(out, "{indent}    mem_tag_format: {:#018x}", attr.mem_tag_format)?;
    writeln!(out, "{indent}    tx_ctx_cnt: {}", attr.tx_ctx_cnt)?;
    writeln!(out, "{indent}    rx_ctx_cnt: {}", attr.rx_ctx_cnt)?;
    writeln!(out, "{indent}    auth_key_size: {}", attr.auth_key_size)
}

pub(super) fn domain_attr(out: &mut String, indent: &str, attr: &fi_domain_attr) -> fmt::Result {
    // SAFETY: the caller of `fi_tostr` promises valid attributes.
    let name = unsafe { Text::read(attr.name) };
    let resource_mgmt = names::of(names::RESOURCE_MGMT, attr.resource_mgmt);
    let mr_mode = Bits(names::MR_MODE, mr_mode_bits(attr.mr_mode));
    writeln!(out, "{indent}fi_domain_attr:")?;
    writeln!(out, "{indent}    domain: {}", Pointer(attr.domain))?;
    writeln!(out, "{indent}    name: {name}")?;
    writeln!(out, "{indent}    threading: {}", names::of(names::THREADING, attr.threading))?;
    writeln!(out, "{indent}    progress: {}", names::of(names::PROGRESS, attr.progress))?;
    writeln!(out, "{indent}    resource_mgmt: {resource_mgmt}")?;
    writeln!(out, "{indent}    av_type: {}", names::of(names::AV_TYPE, attr.av_type))?;
    writeln!(out, "{indent}    mr_mode: [ {mr_mode} ]")?;
    writeln!(out, "{indent}    mr_key_size: {}", attr.mr_key_size)?;
    writeln!(out, "{indent}    cq_data_size: {}", attr.cq_data_size)?;
    writeln!(out, "{indent}    cq_cnt: {}", attr.cq_cnt)?;
    writeln!(out, "{indent}    ep_cnt: {}", attr.ep_cnt)?;
    writeln!(out, "{indent}    tx_ctx_cnt: {}", attr.tx_ctx_cnt)?;
    writeln!(out, "{indent}    rx_ctx_cnt: {}", attr.rx_ctx_cnt)?;
    writeln!(out, "{indent}    max_ep_tx_ctx: {}", attr.max_ep_tx_ctx)?;
    writeln!(out, "{indent}    max_ep_rx_ctx: {}", attr.max_ep_rx_ctx)?;
    writeln!(out, "{indent}    max_ep_stx_ctx: {}", attr.max_ep_stx_ctx)?;
    writeln!(out, "{indent}    max_ep_srx_ctx: {}", attr.max_ep_srx_ctx)?;
    writeln!(out, "{indent}    cntr_cnt: {}", attr.cntr_cnt)?;
    writeln!(out, "{indent}    mr_iov_limit: {}", attr.mr_iov_limit)?;
    writeln!(out, "{indent}    caps: [ {} ]", Bits(names::CAPS, attr.caps))?;
    writeln!(out, "{indent}    mode: [ {} ]", Bits(names::MODE, attr.mode))?;
    writeln!(out, "{indent}    auth_key_size: {}", attr.auth_key_size)?;
    writeln!(out, "{indent}    max_err_data: {}", attr.max_err_data)?;
    writeln!(out, "{indent}    mr_cnt: {}", attr.mr_cnt)?;
    writeln!(out, "{indent}    tclass: {:#x}", attr.tclass)?;
    writeln!(out, "{indent}    max_ep_auth_key: {}", attr.max_ep_auth_key)?;
    writeln!(out, "{indent}    max_group_id: {}", attr.max_group_id)?;
    writeln!(out, "{indent}    max_cntr_value: {}", attr.max_cntr_value)?;
    writeln!(out, "{indent}    max_err_cntr_value: {}", attr.max_err_cntr_value)
}

pub(super) fn fabric_attr(out: &mut String, indent: &str, attr: &fi_fabric_attr) -> fmt::Result {
    // SAFETY: the caller of `fi_tostr` promises valid attributes.
    let name = unsafe { Text::read(attr.name) };
    // SAFETY: as above.
    let prov_name = unsafe { Text::read(attr.prov_name) };
    writeln!(out, "{indent}fi_fabric_attr:")?;
    writeln!(out, "{indent}    name: {name}")?;
    writeln!(out, "{indent}    prov_name: {prov_name}")?;
    writeln!(out, "{indent}    prov_version: {}", Version(attr.prov_version))?;
    writeln!(out, "{indent}    api_version: {}", Version(attr.api_version))
}
