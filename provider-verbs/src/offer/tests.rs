//! What is offered, in the book.

#[allow(unreachable_pub, reason = "a module of the suites, which have no device")]
#[path = "../../../tests/src/offers.rs"]
mod table;

use std::sync::Arc;

use fabric_core::attr::SHARED_CONTEXT;

use super::*;
use crate::{datagram::DatagramAddress, sys::mock};

#[test]
fn offers_are_those_of_the_code() {
    let context = mock::device(mock::RXE);
    let (attr, port) = (context.attr().unwrap(), context.port(1).unwrap());
    let limits = Limits::of(false, &attr, &port, known::VERBS_INLINE_SIZE.size() as u32);
    let device = Arc::new(Device { name: "rxe0".to_owned(), ..Device::mock(limits) });
    let source = "10.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into();
    let end = End { device: &device, source: Some(source), dest: None };
    let everything = Info {
        caps: Flags::all(),
        ep: Some(EpAttr { rx_ctx_cnt: SHARED_CONTEXT, ..EpAttr::default() }),
        ..Info::default()
    };
    let (plain, asked) =
        (Request::default(), Request { hints: Some(&everything), ..Request::default() });
    let both = |make: fn(&End<'_>, &Request<'_>) -> Info| table::Offer {
        plain: make(&end, &plain),
        asked: make(&end, &asked),
    };
    table::check(
        "verbs.md",
        &[
            both(offer),
            both(|end, asks| rdm::layered(offer(end, asks), asks)),
            table::Offer { plain: datagrams(&device, &plain), asked: datagrams(&device, &asked) },
        ],
    );
}

fn datagrams(device: &Arc<Device>, asks: &Request<'_>) -> Info {
    datagram::offer(device, DatagramAddress::default(), None, asks)
}

/// Messages wait for their receives, but on iWARP; and data with writes takes receives, so that programs
/// that do not know that have none.
#[test]
fn what_a_connection_waits_for() {
    let source = "10.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into();
    for (mock, managed, data) in [
        (mock::RXE, ResourceMgmt::Enabled, [4, 0, 4]),
        (mock::SIW, ResourceMgmt::Disabled, [0, 0, 0]),
    ] {
        let context = mock::device(mock);
        let (attr, port) = (context.attr().unwrap(), context.port(1).unwrap());
        let device = Device::mock(Limits::of(mock.iwarp, &attr, &port, mock.inline));
        let end = End { device: &device, source: Some(source), dest: None };
        let knowing = Info { mode: Mode::RX_CQ_DATA, ..Info::default() };
        let hints = [None, Some(Info::default()), Some(knowing)];
        for (hints, data) in hints.iter().zip(data) {
            let request = Request { hints: hints.as_ref(), ..Request::default() };
            let offered = offer(&end, &request);
            let expects = offered.mode.contains(Mode::RX_CQ_DATA);
            let layered = rdm::layered(offered.clone(), &request).domain.unwrap();
            assert_eq!(layered.resource_mgmt, ResourceMgmt::Enabled as u32);
            let domain = offered.domain.unwrap();
            assert_eq!((domain.resource_mgmt, domain.cq_data_size), (managed as u32, data));
            assert_eq!(expects, data != 0);
        }
    }
}
