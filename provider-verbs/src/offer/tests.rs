//! What is offered, in the book.

#[allow(unreachable_pub, reason = "a module of the suites, which have no device")]
#[path = "../../../tests/src/offers.rs"]
mod table;

use fabric_core::attr::SHARED_CONTEXT;

use super::*;
use crate::sys::mock;

#[test]
fn offers_are_those_of_the_code() {
    let context = mock::device(mock::RXE);
    let (attr, port) = (context.attr().unwrap(), context.port(1).unwrap());
    let limits = Limits::of(false, &attr, &port, known::VERBS_INLINE_SIZE.size() as u32);
    let device = Device { name: "rxe0".to_owned(), ..Device::mock(limits) };
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
        &[both(offer), both(|end, asks| rdm::layered(offer(end, asks), asks))],
    );
}
