//! Tables of what providers offer, for the book.
//!
//! `PERCALE_WRITE=1 cargo test offers` puts them into the pages; otherwise the tests compare.

use std::{env, fmt::Write, fs, path::Path};

use fabric_core::{
    attr::{EpType, Info, Progress, addr_format, protocol},
    discovery::Names,
    flags::Flags,
};

/// What a provider offers for one type of endpoint: without being asked, and to who asks for all.
#[derive(Debug)]
pub struct Offer {
    /// With no hints.
    pub plain: Info,
    /// With hints that want everything.
    pub asked: Info,
}

const BEGIN: &str = "<!-- offers: begin -->\n";
const END: &str = "<!-- offers: end -->";

/// Compares the table in a page of the book with the code's offers, or writes it.
///
/// # Panics
/// If they differ.
pub fn check(page: &str, offers: &[Offer]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src").join(page);
    let text = fs::read_to_string(&path).expect("the page");
    let (before, rest) = text.split_once(BEGIN).expect("a place for the table");
    let (there, after) = rest.split_once(END).expect("the end of the table");
    let table = table(offers);
    if env::var_os("PERCALE_WRITE").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).expect("the page");
    } else {
        assert_eq!(there, table, "{page}: PERCALE_WRITE=1 writes it anew");
    }
}

/// What is told of an offer.
type Fact = fn(&Offer) -> String;

const FACTS: [(&str, Fact); 17] = [
    ("capabilities", |offer| bits(Names("FI_", shown(offer.plain.caps)))),
    ("for who asks", |offer| bits(Names("FI_", shown(offer.asked.caps) - offer.plain.caps))),
    ("duties (`mode`)", |offer| bits(Names("FI_", offer.plain.mode))),
    ("memory (`mr_mode`)", |offer| domain(offer, |domain| bits(Names("FI_MR_", domain.mr_mode)))),
    ("order (`FI_ORDER_`)", |offer| tx(offer, |tx| bits(Names("", tx.msg_order)))),
    ("largest message", |offer| {
        let largest = offer.plain.ep.as_ref().map_or(0, |ep| ep.max_msg_size);
        if largest >= usize::MAX / 2 { "any".to_owned() } else { bytes(largest) }
    }),
    ("largest inject", |offer| tx(offer, |tx| bytes(tx.inject_size))),
    ("outstanding operations", |offer| tx(offer, |tx| tx.size.to_string())),
    ("posted receives", |offer| offer.plain.rx.as_ref().map_or(0, |rx| rx.size).to_string()),
    ("pieces of a buffer", |offer| tx(offer, |tx| tx.iov_limit.to_string())),
    ("remote ranges", |offer| tx(offer, |tx| tx.rma_iov_limit.to_string())),
    ("data with a message", |offer| domain(offer, |domain| bytes(domain.cq_data_size))),
    ("bytes of a key", |offer| domain(offer, |domain| domain.mr_key_size.to_string())),
    ("progress", |offer| {
        domain(offer, |domain| match Progress::from_raw(domain.progress) {
            Some(Progress::Auto) => "automatic".to_owned(),
            _ => "manual; automatic for who asks".to_owned(),
        })
    }),
    ("shared receive contexts", |offer| {
        domain(offer, |domain| if domain.max_ep_srx_ctx == 0 { "no" } else { "yes" }.to_owned())
    }),
    ("addresses", |offer| match offer.plain.addr_format {
        addr_format::SOCKADDR_IN | addr_format::SOCKADDR_IN6 => "IPv4, IPv6".to_owned(),
        addr_format::IB_UD => "`FI_ADDR_IB_UD`".to_owned(),
        _ => "text".to_owned(),
    }),
    ("protocol", |offer| {
        format!("`{}`", protocol::name(offer.plain.ep.as_ref().map_or(0, |ep| ep.protocol)))
    }),
];

fn table(offers: &[Offer]) -> String {
    let mut table = String::from("| |");
    for offer in offers {
        let ep_type = offer.plain.ep.as_ref().and_then(|ep| EpType::from_raw(ep.ep_type));
        let name = match ep_type {
            Some(EpType::Msg) => "FI_EP_MSG",
            Some(EpType::Dgram) => "FI_EP_DGRAM",
            _ => "FI_EP_RDM",
        };
        let provider = offer.plain.fabric.as_ref().and_then(|fabric| fabric.prov_name.as_deref());
        let _ = write!(table, " `{}`, `{name}` |", provider.unwrap_or_default());
    }
    table += "\n|---|";
    table += &"---|".repeat(offers.len());
    for (title, fact) in FACTS {
        let _ = write!(table, "\n| {title} |");
        for offer in offers {
            let _ = write!(table, " {} |", fact(offer));
        }
    }
    table + "\n"
}

/// Without the directions, which are said by what they are directions of.
fn shown(caps: Flags) -> Flags {
    let directions = Flags::SEND | Flags::RECV | Flags::READ | Flags::WRITE;
    caps - directions - Flags::REMOTE_READ - Flags::REMOTE_WRITE
}

fn bits(names: impl std::fmt::Display) -> String {
    match names.to_string() {
        none if none == "0" => "none".to_owned(),
        names => format!("`{}`", names.replace(" | ", "`, `")),
    }
}

fn bytes(count: usize) -> String {
    match count {
        0 => "none".to_owned(),
        count if count >= 1 << 20 && count % (1 << 20) == 0 => format!("{} MiB", count >> 20),
        count if count >= 1 << 10 && count % (1 << 10) == 0 => format!("{} KiB", count >> 10),
        count => format!("{count} B"),
    }
}

fn domain(offer: &Offer, fact: impl Fn(&fabric_core::attr::DomainAttr) -> String) -> String {
    offer.plain.domain.as_ref().map_or_else(String::new, fact)
}

fn tx(offer: &Offer, fact: impl Fn(&fabric_core::attr::TxAttr) -> String) -> String {
    offer.plain.tx.as_ref().map_or_else(String::new, fact)
}
