//! SETUP. Matching one offer against hints, and shaping the offer into the answer.
//!
//! Zero in a hint means "any", except in `mode` and `mr_mode`, where a missing bit is a duty that
//! the application does not take on. Checks run in the order endpoint type, capabilities, mode,
//! address format, fabric, domain, endpoint, receive side, transmit side; all of them run, so that
//! a report tells everything that is wrong at once.

mod caps;
mod check;
mod domain;
mod mr;
mod sides;

use check::Check;

use super::{
    NameWish, Names, Rejection, Request,
    rejection::{format_name, type_name},
};
use crate::{
    attr::{API_VERSION, EpType, FabricAttr, Info, addr_format},
    flags::{Flags, Mode},
};

/// Matches `offer` against the request. The answer echoes the hints where the interface says so
/// (depths, limits, operation flags, threading, progress, address vector type) and holds no duty
/// that the hints did not take on.
pub fn satisfy(offer: &Info, request: &Request<'_>) -> Result<Info, Vec<Rejection>> {
    let mut info = complete(offer);
    if let Some(hints) = request.hints {
        let mut check = Check::of(&info);
        info = fit(info, hints, request, &mut check);
        check.verdict()?;
        addresses(&mut info, hints, request);
    } else {
        take_all(&mut info, request);
    }
    finish(&mut info, request);
    Ok(info)
}

/// Every attribute present, as callers may rely on.
fn complete(offer: &Info) -> Info {
    let mut info = offer.clone();
    info.tx.get_or_insert_default();
    info.rx.get_or_insert_default();
    info.ep.get_or_insert_default();
    info.domain.get_or_insert_default();
    info.fabric.get_or_insert_default();
    info
}

fn fit(info: Info, hints: &Info, request: &Request<'_>, check: &mut Check) -> Info {
    let mut out = info.clone();
    endpoint_type(&info, hints, check);
    caps::check(&info, hints, check);
    check.duties("mode", hints.mode, info.mode);
    format(&info, hints, check);
    if let (Some(have), Some(want)) = (&info.fabric, &hints.fabric) {
        fabric(have, want, check);
    }

    out.caps = caps::granted(hints.caps, info.caps);
    let duty = mr::resolve(&info, hints, request, out.caps, check);
    out.caps = duty.caps;
    out.mode = info.mode | duty.mode;
    domain::fit(&mut out, &info, hints, request, check);
    out.domain.get_or_insert_default().mr_mode = duty.mr_mode;
    sides::fit_endpoint(&mut out, &info, hints, request, check);
    sides::fit_rx(&mut out, &info, hints, check);
    sides::fit_tx(&mut out, &info, hints, check);
    out
}

fn endpoint_type(info: &Info, hints: &Info, check: &mut Check) {
    let have = info.ep.as_ref().map_or(0, |ep| ep.ep_type);
    let want = hints.ep.as_ref().map_or(0, |ep| ep.ep_type);
    if want != EpType::Unspec as u32 && want != have {
        let fix = match EpType::from_raw(want) {
            Some(_) => "ask for the offered type, or for another provider".to_owned(),
            None => "use FI_EP_MSG, FI_EP_DGRAM or FI_EP_RDM".to_owned(),
        };
        check.refuse("ep_attr.type", type_name(want), type_name(have), fix);
    }
}

fn format(info: &Info, hints: &Info, check: &mut Check) {
    let (want, have) = (hints.addr_format, info.addr_format);
    let ip = matches!(have, addr_format::SOCKADDR_IN | addr_format::SOCKADDR_IN6);
    let fits = match want {
        addr_format::UNSPEC => true,
        addr_format::SOCKADDR => {
            ip || matches!(have, addr_format::SOCKADDR | addr_format::SOCKADDR_IB)
        }
        addr_format::SOCKADDR_IP => ip || have == addr_format::SOCKADDR_IP,
        _ => want == have,
    };
    if !fits {
        check.refuse(
            "addr_format",
            format_name(want),
            format_name(have),
            "use FI_FORMAT_UNSPEC, or the offered format",
        );
    }
}

fn fabric(have: &FabricAttr, want: &FabricAttr, check: &mut Check) {
    check.name("fabric_attr.name", want.name.as_deref(), have.name.as_deref());
    if let Some(wish) = &want.prov_name {
        let name = have.prov_name.as_deref().unwrap_or_default();
        if !NameWish::parse(wish).takes(name) {
            check.refuse(
                "fabric_attr.prov_name",
                wish,
                name,
                "use the offered name, or leave it out",
            );
        }
    }
    if want.prov_version > have.prov_version {
        check.refuse(
            "fabric_attr.prov_version",
            want.prov_version,
            have.prov_version,
            "ask for the offered version or an older one, or 0",
        );
    }
    if want.api_version > API_VERSION {
        check.refuse(
            "fabric_attr.api_version",
            want.api_version,
            API_VERSION,
            "ask for the offered version or an older one, or 0",
        );
    }
}

/// The answer to NULL hints: everything, with the provider's own duties. Operation flags are
/// those that a program can take as its defaults: a level of completion or multi-receive is a
/// choice that only the program can make.
fn take_all(info: &mut Info, request: &Request<'_>) {
    let duty = mr::unasked(info, request);
    info.mode |= duty.mode;
    if let Some(domain) = &mut info.domain {
        domain.mr_mode = duty.mr_mode;
    }
    default_op_flags(info, true, true);
}

fn default_op_flags(info: &mut Info, tx: bool, rx: bool) {
    if let Some(tx_attr) = info.tx.as_mut().filter(|_| tx) {
        tx_attr.op_flags &= Flags::COMPLETION;
    }
    if let Some(rx_attr) = info.rx.as_mut().filter(|_| rx) {
        rx_attr.op_flags &= Flags::COMPLETION;
    }
}

/// Addresses of the hints go into the answer where node and service did not say otherwise.
fn addresses(info: &mut Info, hints: &Info, request: &Request<'_>) {
    let unnamed = request.node.is_none() && request.service.is_none();
    if !request.names_source() && !hints.src_addr.is_empty() {
        info.src_addr.clone_from(&hints.src_addr);
    }
    if (unnamed || request.names_source()) && !hints.dest_addr.is_empty() {
        info.dest_addr.clone_from(&hints.dest_addr);
    }
}

fn finish(info: &mut Info, request: &Request<'_>) {
    if let Some(fabric) = &mut info.fabric {
        fabric.api_version = request.version;
    }
    if let Some(domain) = &mut info.domain {
        domain.control_progress = domain.progress;
        for largest in [&mut domain.max_cntr_value, &mut domain.max_err_cntr_value] {
            if *largest == 0 {
                *largest = u64::MAX;
            }
        }
    }
}

impl Check {
    /// Each required bit must be among those that the application takes on.
    fn duties(&mut self, attribute: &'static str, taken: Mode, required: Mode) {
        if !taken.contains(required) {
            let missing = Names("FI_", required.difference(taken));
            self.refuse(
                attribute,
                Names("FI_", taken),
                Names("FI_", required),
                format!("add {missing} if the program follows that rule"),
            );
        }
    }
}
