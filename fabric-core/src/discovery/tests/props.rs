//! Whatever the hints are: no panic, and an answer satisfies them.

use proptest::prelude::*;

use super::*;
use crate::{
    attr::{DomainAttr, EpAttr, RxAttr, TxAttr},
    flags::{Mode, MrMode, Order},
};

/// Numbers around the limits of the offers; mostly "any".
fn number() -> impl Strategy<Value = usize> {
    prop_oneof![8 => Just(0), 3 => 0..5_usize, 1 => Just(1024), 1 => any::<usize>()]
}

fn word() -> impl Strategy<Value = u32> {
    prop_oneof![4 => Just(0), 4 => 0..7_u32, 1 => any::<u32>()]
}

/// Mostly bits that the offers know.
fn bits(known: u64) -> impl Strategy<Value = u64> {
    prop_oneof![3 => Just(0), 5 => any::<u64>().prop_map(move |b| b & known), 1 => any::<u64>()]
}

prop_compose! {
    fn tx()(caps in bits(0xb0a_0000_0001_3f1e), mode in bits(1 << 59), op in bits(0x1f00_0000),
            order in bits(0xff_0000_01ff), n in prop::array::uniform4(number())) -> TxAttr {
        TxAttr {
            caps: Flags::from_bits_retain(caps),
            mode: Mode::from_bits_retain(mode),
            op_flags: Flags::from_bits_retain(op),
            msg_order: Order::from_bits_retain(order),
            inject_size: n[0],
            size: n[1],
            iov_limit: n[2],
            rma_iov_limit: n[3],
            ..TxAttr::default()
        }
    }
}

prop_compose! {
    fn domain()(e in prop::array::uniform4(word()), mr in bits(0xfff), key in number(),
                data in number(), ctx in number(), auth in number()) -> DomainAttr {
        DomainAttr {
            threading: e[0],
            progress: e[1],
            resource_mgmt: e[2],
            av_type: e[3],
            mr_mode: MrMode::from_bits_retain(mr as u32),
            mr_key_size: key,
            cq_data_size: data,
            max_ep_tx_ctx: ctx,
            auth_key_size: if auth < 1024 { 0 } else { auth },
            ..DomainAttr::default()
        }
    }
}

prop_compose! {
    fn any_hints()(caps in bits(0xb0a_0000_0001_3f1e), mode in bits((1 << 59) | (1 << 55)),
                   format in prop_oneof![4 => Just(0), 2 => Just(9), 1 => any::<u32>()],
                   tx in prop::option::of(tx()), domain in prop::option::of(domain()),
                   rx_size in prop::option::of(number()), ep_type in word(), tag in any::<u64>(),
                   name in prop::option::weighted(0.2, ".{0,12}")) -> Info {
        let mut hints = hints();
        hints.caps = Flags::from_bits_retain(caps);
        hints.mode = Mode::from_bits_retain(mode);
        hints.addr_format = format;
        hints.tx = tx;
        hints.rx = rx_size.map(|size| RxAttr { size, ..RxAttr::default() });
        hints.ep = Some(EpAttr { ep_type, mem_tag_format: tag, ..EpAttr::default() });
        hints.domain = domain;
        hints.fabric.as_mut().unwrap().prov_name = name;
        hints
    }
}

fn echoed(want: usize, got: usize) -> bool {
    want == 0 || want == got
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn an_answer_satisfies_the_hints(
        wish in any_hints(),
        needs in any::<bool>(),
        minor in 0..23_u16,
    ) {
        let version = Version::new(1, minor);
        let request = Request { version, hints: Some(&wish), ..Request::default() };
        let offer = if needs { needy() } else { shm() };
        match satisfy(&offer, &request) {
            Err(reasons) => prop_assert!(!reasons.is_empty()),
            Ok(info) => {
                prop_assert!(info.caps.contains(wish.caps));
                prop_assert!(offer.caps.contains(info.caps));
                prop_assert!(wish.mode.contains(info.mode));
                let (tx, rx) = (info.tx.unwrap(), info.rx.unwrap());
                prop_assert!(info.caps.contains(tx.caps | rx.caps));
                let domain = info.domain.unwrap();
                if let Some(want) = &wish.domain {
                    prop_assert!(minor < 5 || want.mr_mode.contains(domain.mr_mode));
                    prop_assert!(want.threading == 0 || want.threading == domain.threading);
                    prop_assert!(want.progress == 0 || want.progress == domain.progress);
                    prop_assert!(want.av_type == 0 || want.av_type == domain.av_type);
                    prop_assert!(want.cq_data_size <= domain.cq_data_size);
                }
                if let Some(want) = &wish.tx {
                    prop_assert_eq!(want.op_flags, tx.op_flags);
                    prop_assert!(tx.msg_order.contains(want.msg_order));
                    prop_assert!(echoed(want.inject_size, tx.inject_size));
                    prop_assert!(echoed(want.size, tx.size));
                    prop_assert!(echoed(want.iov_limit, tx.iov_limit));
                }
                prop_assert_eq!(info.fabric.unwrap().api_version, version);
            }
        }
    }

    #[test]
    fn filters_never_panic(text in ".{0,30}", name in ".{0,12}") {
        let filter = ProviderFilter::parse(&text);
        if filter.shows(&name) {
            prop_assert!(filter.may_offer(name.split(';').next().unwrap_or_default()));
        }
        let _ = NameWish::parse(&text).takes(&name);
    }
}
