//! SETUP. Domain attributes.

use super::{super::Request, check::Check};
use crate::attr::{AvType, DomainAttr, Info, Progress, ResourceMgmt, Threading};

/// Checks the hints of the domain and echoes into `out` what is echoed.
pub(super) fn fit(
    out: &mut Info,
    info: &Info,
    hints: &Info,
    request: &Request<'_>,
    check: &mut Check,
) {
    let granted = out.caps;
    let (Some(have), Some(answer)) = (&info.domain, &mut out.domain) else { return };
    answer.caps = have.caps & granted;
    let Some(want) = &hints.domain else { return };

    check.name("domain_attr.name", want.name.as_deref(), have.name.as_deref());
    behaviour(have, want, check);
    check.limit("domain_attr.mr_key_size", want.mr_key_size, have.mr_key_size);
    check.limit("domain_attr.cq_data_size", want.cq_data_size, have.cq_data_size);
    check.limit("domain_attr.cq_cnt", want.cq_cnt, have.cq_cnt);
    check.limit("domain_attr.ep_cnt", want.ep_cnt, have.ep_cnt);
    check.limit("domain_attr.tx_ctx_cnt", want.tx_ctx_cnt, have.tx_ctx_cnt);
    check.limit("domain_attr.rx_ctx_cnt", want.rx_ctx_cnt, have.rx_ctx_cnt);
    check.limit("domain_attr.max_ep_tx_ctx", want.max_ep_tx_ctx, have.max_ep_tx_ctx);
    check.limit("domain_attr.max_ep_rx_ctx", want.max_ep_rx_ctx, have.max_ep_rx_ctx);
    shared_contexts(have, want, check);
    if request.at_least(1, 5) {
        since_1_5(have, want, request, check);
    }
    if request.at_least(2, 5) {
        let most = |offered: u64| if offered == 0 { u64::MAX } else { offered };
        check.at_most("domain_attr.max_cntr_value", want.max_cntr_value, most(have.max_cntr_value));
        check.at_most(
            "domain_attr.max_err_cntr_value",
            want.max_err_cntr_value,
            most(have.max_err_cntr_value),
        );
    }

    echo(&mut answer.threading, want.threading);
    echo(&mut answer.progress, want.progress);
    echo(&mut answer.av_type, want.av_type);
    if request.at_least(1, 9) {
        echo(&mut answer.tclass, want.tclass);
    }
}

/// The three ranked fields, and the kind of address vector.
fn behaviour(have: &DomainAttr, want: &DomainAttr, check: &mut Check) {
    ranked(check, "domain_attr.threading", want.threading, have.threading, |raw| {
        Some(match Threading::from_raw(raw)? {
            Threading::Safe => (1, "FI_THREAD_SAFE"),
            Threading::Completion => (2, "FI_THREAD_COMPLETION"),
            Threading::Domain => (3, "FI_THREAD_DOMAIN"),
            Threading::Unspec => (4, "FI_THREAD_UNSPEC"),
            Threading::Fid => (-1, "FI_THREAD_FID (retired)"),
            Threading::Endpoint => (-1, "FI_THREAD_ENDPOINT (retired)"),
        })
    });
    ranked(check, "domain_attr.progress", want.progress, have.progress, |raw| {
        Some(match Progress::from_raw(raw)? {
            Progress::Auto => (1, "FI_PROGRESS_AUTO"),
            Progress::Manual => (2, "FI_PROGRESS_MANUAL"),
            Progress::ControlUnified => (3, "FI_PROGRESS_CONTROL_UNIFIED"),
            Progress::Unspec => (4, "FI_PROGRESS_UNSPEC"),
        })
    });
    ranked(check, "domain_attr.resource_mgmt", want.resource_mgmt, have.resource_mgmt, |raw| {
        Some(match ResourceMgmt::from_raw(raw)? {
            ResourceMgmt::Enabled => (1, "FI_RM_ENABLED"),
            ResourceMgmt::Disabled => (2, "FI_RM_DISABLED"),
            ResourceMgmt::Unspec => (3, "FI_RM_UNSPEC"),
        })
    });
    // FI_AV_MAP is served as a table, so both kinds fit every provider.
    if AvType::from_raw(want.av_type).is_none() {
        let fix = "use FI_AV_TABLE, or FI_AV_UNSPEC";
        check.refuse("domain_attr.av_type", want.av_type, have.av_type, fix);
    }
}

/// Programs state these generously and never use them, so an excess is told, not refused.
fn shared_contexts(have: &DomainAttr, want: &DomainAttr, check: &Check) {
    let excess = [
        ("max_ep_stx_ctx", want.max_ep_stx_ctx, have.max_ep_stx_ctx),
        ("max_ep_srx_ctx", want.max_ep_srx_ctx, have.max_ep_srx_ctx),
    ];
    for (name, wanted, offered) in excess {
        if wanted > offered {
            crate::info!(
                check.provider(),
                crate::log::Subsys::Core,
                "domain_attr.{name}: wanted {wanted}, offered {offered}; not refused for that"
            );
        }
    }
}

fn since_1_5(have: &DomainAttr, want: &DomainAttr, request: &Request<'_>, check: &mut Check) {
    // An offer of zero states no limit for these two.
    if have.cntr_cnt != 0 {
        check.limit("domain_attr.cntr_cnt", want.cntr_cnt, have.cntr_cnt);
    }
    if have.mr_cnt != 0 {
        check.limit("domain_attr.mr_cnt", want.mr_cnt, have.mr_cnt);
    }
    check.limit("domain_attr.mr_iov_limit", want.mr_iov_limit, have.mr_iov_limit);
    check.subset("domain_attr.caps", "FI_", want.caps, have.caps);
    check.duties("domain_attr.mode", want.mode, have.mode);
    check.limit("domain_attr.max_err_data", want.max_err_data, have.max_err_data);
    key(check, "domain_attr.auth_key_size", want.auth_key_size, have.auth_key_size, request);
    if request.at_least(1, 20) {
        check.limit("domain_attr.max_ep_auth_key", want.max_ep_auth_key, have.max_ep_auth_key);
    }
}

/// Authorisation keys must have the offered size; none is always fine.
pub(super) fn key(
    check: &mut Check,
    attribute: &'static str,
    wanted: usize,
    offered: usize,
    request: &Request<'_>,
) {
    if wanted == 0 || wanted == offered {
        return;
    }
    if wanted == usize::MAX && request.at_least(1, 20) {
        check.refuse(
            attribute,
            "FI_AV_AUTH_KEY",
            offered,
            "keys of the address vector need hardware",
        );
    } else {
        check.refuse(attribute, wanted, offered, "use the offered size, or 0 for no key");
    }
}

/// An application that serialises more than the provider needs fits; one that serialises less
/// does not. Values without a rank fit nothing.
fn ranked(
    check: &mut Check,
    attribute: &'static str,
    want: u32,
    have: u32,
    rank: impl Fn(u32) -> Option<(i32, &'static str)>,
) {
    let of = |raw: u32| match rank(raw) {
        Some((rank, name)) => (rank, name.to_owned()),
        None => (-1, raw.to_string()),
    };
    let (wanted, offered) = (of(want), of(have));
    if wanted.0 < offered.0 {
        let fix = format!("use {}, or leave it unspecified", offered.1);
        check.refuse(attribute, wanted.1, offered.1, fix);
    }
}

fn echo(answer: &mut u32, want: u32) {
    if want != 0 {
        *answer = want;
    }
}
