//! SETUP. Endpoint, receive and transmit attributes.

use super::{super::Request, caps, check::Check, domain};
use crate::{
    attr::{EpAttr, Info, SHARED_CONTEXT},
    flags::{Flags, Mode, Order},
};

/// Tag formats below this have a name; the others describe bits.
const NAMED_TAG_FORMATS: u64 = 1 << 16;

/// Checks the hints of the endpoint and echoes into `out` what is echoed.
pub(super) fn fit_endpoint(
    out: &mut Info,
    info: &Info,
    hints: &Info,
    request: &Request<'_>,
    check: &mut Check,
) {
    let granted = out.caps;
    let (Some(have), Some(want), Some(answer)) = (&info.ep, &hints.ep, &mut out.ep) else { return };

    check.same("ep_attr.protocol", want.protocol, have.protocol);
    check.at_most("ep_attr.protocol_version", want.protocol_version, have.protocol_version);
    check.limit("ep_attr.max_msg_size", want.max_msg_size, have.max_msg_size);
    check.limit("ep_attr.msg_prefix_size", want.msg_prefix_size, have.msg_prefix_size);
    check.limit("ep_attr.max_order_raw_size", want.max_order_raw_size, have.max_order_raw_size);
    check.limit("ep_attr.max_order_war_size", want.max_order_war_size, have.max_order_war_size);
    check.limit("ep_attr.max_order_waw_size", want.max_order_waw_size, have.max_order_waw_size);
    if granted.contains(Flags::TAGGED) {
        tags(want.mem_tag_format, have.mem_tag_format, check);
    }
    let domain = info.domain.clone().unwrap_or_default();
    contexts(
        "ep_attr.tx_ctx_cnt",
        want.tx_ctx_cnt,
        domain.max_ep_tx_ctx,
        domain.max_ep_stx_ctx,
        check,
    );
    contexts(
        "ep_attr.rx_ctx_cnt",
        want.rx_ctx_cnt,
        domain.max_ep_rx_ctx,
        domain.max_ep_srx_ctx,
        check,
    );
    if request.at_least(1, 5) {
        domain::key(
            check,
            "ep_attr.auth_key_size",
            want.auth_key_size,
            have.auth_key_size,
            request,
        );
    }

    echo(&mut answer.tx_ctx_cnt, want.tx_ctx_cnt);
    echo(&mut answer.rx_ctx_cnt, want.rx_ctx_cnt);
    if granted.intersects(Flags::RMA | Flags::ATOMIC) {
        data_order(answer, want);
    }
}

fn data_order(answer: &mut EpAttr, want: &EpAttr) {
    echo(&mut answer.max_order_raw_size, want.max_order_raw_size);
    echo(&mut answer.max_order_war_size, want.max_order_war_size);
    echo(&mut answer.max_order_waw_size, want.max_order_waw_size);
}

/// The wish may use the tag bits that the offer has; leading zeros are bits that cannot be used.
fn tags(want: u64, have: u64, check: &mut Check) {
    if want >= NAMED_TAG_FORMATS && want.leading_zeros() < have.leading_zeros() {
        check.refuse(
            "ep_attr.mem_tag_format",
            format_args!("{want:#018x}"),
            format_args!("{have:#018x}"),
            "use no higher tag bits than are offered, or 0",
        );
    }
}

fn contexts(
    attribute: &'static str,
    want: usize,
    most: usize,
    most_shared: usize,
    check: &mut Check,
) {
    if want != SHARED_CONTEXT {
        check.limit(attribute, want, most);
    } else if most_shared == 0 {
        check.refuse(attribute, "FI_SHARED_CONTEXT", most, "use a context of the endpoint's own");
    }
}

/// Checks the hints of the receive side and echoes into `out` what is echoed.
pub(super) fn fit_rx(out: &mut Info, info: &Info, hints: &Info, check: &mut Check) {
    let granted = out.caps;
    let (Some(have), Some(answer)) = (&info.rx, &mut out.rx) else { return };
    let wish = hints.rx.as_ref().map_or(Flags::empty(), |rx| caps::rx_wish(rx.caps));
    answer.caps = side_caps(wish, have.caps, granted);
    let Some(want) = &hints.rx else {
        answer.op_flags &= Flags::COMPLETION;
        return;
    };

    check.subset("rx_attr.caps", "FI_", wish, have.caps);
    check.duties("rx_attr.mode", side_mode(want.mode, hints.mode), have.mode);
    check.subset("rx_attr.op_flags", "FI_", want.op_flags, have.op_flags);
    check.subset("rx_attr.msg_order", "FI_ORDER_", want.msg_order, narrowed(have.msg_order));
    check.retired("rx_attr.comp_order", want.comp_order);
    check.retired("rx_attr.total_buffered_recv", want.total_buffered_recv as u64);
    check.limit("rx_attr.size", want.size, have.size);
    check.limit("rx_attr.iov_limit", want.iov_limit, have.iov_limit);

    answer.op_flags = want.op_flags;
    echo(&mut answer.size, want.size);
    echo(&mut answer.iov_limit, want.iov_limit);
}

/// Checks the hints of the transmit side and echoes into `out` what is echoed.
pub(super) fn fit_tx(out: &mut Info, info: &Info, hints: &Info, check: &mut Check) {
    let granted = out.caps;
    let (Some(have), Some(answer)) = (&info.tx, &mut out.tx) else { return };
    let wish = hints.tx.as_ref().map_or(Flags::empty(), |tx| caps::tx_wish(tx.caps));
    answer.caps = side_caps(wish, have.caps, granted);
    let Some(want) = &hints.tx else {
        answer.op_flags &= Flags::COMPLETION;
        return;
    };

    check.subset("tx_attr.caps", "FI_", wish, have.caps);
    check.duties("tx_attr.mode", side_mode(want.mode, hints.mode), have.mode);
    check.subset("tx_attr.op_flags", "FI_", want.op_flags, have.op_flags);
    check.subset("tx_attr.msg_order", "FI_ORDER_", want.msg_order, narrowed(have.msg_order));
    check.retired("tx_attr.comp_order", want.comp_order);
    check.limit("tx_attr.inject_size", want.inject_size, have.inject_size);
    check.limit("tx_attr.size", want.size, have.size);
    check.limit("tx_attr.iov_limit", want.iov_limit, have.iov_limit);
    check.limit("tx_attr.rma_iov_limit", want.rma_iov_limit, have.rma_iov_limit);

    answer.op_flags = want.op_flags;
    echo(&mut answer.inject_size, want.inject_size);
    echo(&mut answer.size, want.size);
    echo(&mut answer.iov_limit, want.iov_limit);
    echo(&mut answer.rma_iov_limit, want.rma_iov_limit);
    if want.tclass != 0 {
        answer.tclass = want.tclass;
    }
}

/// The general orders hold for one-sided and for atomic operations in particular.
fn narrowed(order: Order) -> Order {
    const GENERAL: [(Order, Order); 4] = [
        (Order::RAR, Order::RMA_RAR.union(Order::ATOMIC_RAR)),
        (Order::RAW, Order::RMA_RAW.union(Order::ATOMIC_RAW)),
        (Order::WAR, Order::RMA_WAR.union(Order::ATOMIC_WAR)),
        (Order::WAW, Order::RMA_WAW.union(Order::ATOMIC_WAW)),
    ];
    GENERAL
        .into_iter()
        .filter(|(general, _)| order.contains(*general))
        .fold(order, |all, (_, narrow)| all | narrow)
}

/// A side never has more than the whole.
fn side_caps(wish: Flags, offered: Flags, granted: Flags) -> Flags {
    caps::granted(wish, offered) & granted
}

/// A side without a mode of its own has that of the whole.
fn side_mode(side: Mode, whole: Mode) -> Mode {
    if side.is_empty() { whole } else { side }
}

fn echo(answer: &mut usize, want: usize) {
    if want != 0 {
        *answer = want;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn general_orders_cover_the_narrow_ones() {
        let all = narrowed(Order::WAW | Order::SAS);
        assert_eq!(all, Order::WAW | Order::SAS | Order::RMA_WAW | Order::ATOMIC_WAW);
        assert!(!narrowed(Order::RMA_RAR).contains(Order::RAR));
    }
}
