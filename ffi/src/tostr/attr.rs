//! SETUP. Attributes of address vectors, completion queues, counters and regions.

use core::fmt::{self, Write};

use super::{
    Pointer, Text,
    names::{self, Bits, of},
};
use crate::abi::attr::{fi_av_attr, fi_cntr_attr, fi_cq_attr, fi_mr_attr};

pub(super) fn av(out: &mut String, attr: &fi_av_attr) -> fmt::Result {
    // SAFETY: the caller of `fi_tostr` promises valid attributes.
    let name = unsafe { Text::read(attr.name) };
    writeln!(out, "fi_av_attr:")?;
    writeln!(out, "    type: {}", of(names::AV_TYPE, attr.r#type))?;
    writeln!(out, "    count: {}", attr.count)?;
    writeln!(out, "    ep_per_node: {}", attr.ep_per_node)?;
    writeln!(out, "    name: {name}")?;
    writeln!(out, "    flags: [ {} ]", Bits(names::AV_FLAGS, attr.flags))
}

pub(super) fn cq(out: &mut String, attr: &fi_cq_attr) -> fmt::Result {
    writeln!(out, "fi_cq_attr:")?;
    writeln!(out, "    size: {}", attr.size)?;
    writeln!(out, "    flags: [ {} ]", Bits(names::CQ_ATTR_FLAGS, attr.flags))?;
    writeln!(out, "    format: {}", of(names::CQ_FORMAT, attr.format))?;
    writeln!(out, "    wait_obj: {}", of(names::WAIT_OBJ, attr.wait_obj))?;
    writeln!(out, "    signaling_vector: {}", attr.signaling_vector)?;
    writeln!(out, "    wait_cond: {}", of(names::CQ_WAIT_COND, attr.wait_cond))
}

pub(super) fn cntr(out: &mut String, attr: &fi_cntr_attr) -> fmt::Result {
    writeln!(out, "fi_cntr_attr:")?;
    writeln!(out, "    events: {}", of(names::CNTR_EVENTS, attr.events))?;
    writeln!(out, "    wait_obj: {}", of(names::WAIT_OBJ, attr.wait_obj))?;
    writeln!(out, "    flags: {:#x}", attr.flags)
}

pub(super) fn mr(out: &mut String, attr: &fi_mr_attr) -> fmt::Result {
    writeln!(out, "fi_mr_attr:")?;
    writeln!(out, "    mr_iov: {}", Pointer(attr.mr_iov))?;
    writeln!(out, "    iov_count: {}", attr.iov_count)?;
    writeln!(out, "    access: [ {} ]", Bits(names::CAPS, attr.access))?;
    writeln!(out, "    offset: {:#x}", attr.offset)?;
    writeln!(out, "    requested_key: {:#x}", attr.requested_key)?;
    writeln!(out, "    context: {}", Pointer(attr.context))?;
    writeln!(out, "    auth_key_size: {}", attr.auth_key_size)?;
    writeln!(out, "    iface: {}", of(names::HMEM_IFACE, attr.iface))
}
