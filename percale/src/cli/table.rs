//! Offers as text for people.

use std::fmt::{self, Write};

use percale::{
    Info,
    attr::{
        AvType, EpType, Nic, Progress, ResourceMgmt, SHARED_CONTEXT, Threading, addr_format,
        protocol,
    },
    discovery::{Names, format_name},
    flags::Flags,
};
use provider_tcp::address::SocketAddress;
use provider_verbs::DatagramAddress;
use serde::{Serialize, Serializer};

/// Columns that are as wide as their widest cell; the last one is not padded.
pub(super) fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (i, cell) in row.iter().enumerate() {
            if i + 1 == row.len() {
                text.push_str(cell);
            } else {
                let _ = write!(text, "{cell:<width$}  ", width = widths[i]);
            }
        }
        text.push('\n');
    }
    text
}

/// One line an offer.
pub(super) fn brief(infos: &[Info]) -> String {
    let head = ["PROVIDER", "FABRIC", "DOMAIN", "ENDPOINT", "REACHES", "CAN"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for info in infos {
        let fabric = info.fabric.clone().unwrap_or_default();
        rows.push(vec![
            or_dash(fabric.prov_name),
            or_dash(fabric.name),
            or_dash(info.domain.as_ref().and_then(|d| d.name.clone())),
            endpoint(info),
            reach(info.caps).to_owned(),
            kinds(info.caps),
        ]);
    }
    columns(&rows)
}

/// What each offer is limited to.
pub(super) fn limits(infos: &[Info]) -> String {
    const HEAD: [&str; 15] = [
        "PROVIDER",
        "DOMAIN",
        "ENDPOINT",
        "MESSAGE",
        "INJECT",
        "SENDS",
        "RECEIVES",
        "IOV",
        "RMA IOV",
        "MR IOV",
        "REGIONS",
        "ENDPOINTS",
        "CQS",
        "CQ DATA",
        "KEY",
    ];
    let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
    for info in infos {
        let fabric = info.fabric.clone().unwrap_or_default();
        let domain = info.domain.clone().unwrap_or_default();
        let (tx, rx) = (info.tx.clone().unwrap_or_default(), info.rx.clone().unwrap_or_default());
        let message = info.ep.as_ref().map_or(0, |ep| ep.max_msg_size);
        let mut row = vec![or_dash(fabric.prov_name), or_dash(domain.name), endpoint(info)];
        let amounts = [
            message,
            tx.inject_size,
            tx.size,
            rx.size,
            tx.iov_limit.min(rx.iov_limit),
            tx.rma_iov_limit,
            domain.mr_iov_limit,
            // None is stated.
            if domain.mr_cnt == 0 { usize::MAX } else { domain.mr_cnt },
            domain.ep_cnt,
            domain.cq_cnt,
            domain.cq_data_size,
            domain.mr_key_size,
        ];
        row.extend(amounts.map(|amount| Value::Number(amount as u64).to_string()));
        // Domains with the same limits share a row.
        match rows.iter_mut().find(|told| told[0] == row[0] && told[2..] == row[2..]) {
            Some(told) if told[1].split(", ").any(|name| name == row[1]) => {}
            Some(told) => told[1] = format!("{}, {}", told[1], row[1]),
            None => rows.push(row),
        }
    }
    columns(&rows)
        + "\nMESSAGE, INJECT, CQ DATA and KEY are bytes; SENDS and RECEIVES are operations of one \
           endpoint, of which hints may ask for more.\n"
}

/// Every attribute.
pub(super) fn verbose(infos: &[Info]) -> String {
    let blocks = infos.iter().map(|info| {
        let mut rows = Vec::new();
        for (name, value) in attributes(info) {
            rows.push(vec![format!("  {name}"), value.to_string()]);
        }
        let fabric = info.fabric.clone().unwrap_or_default();
        format!("{} ({})\n{}", or_dash(fabric.prov_name), ep_type(info), columns(&rows))
    });
    blocks.collect::<Vec<_>>().join("\n")
}

/// The value of an attribute; a list of names in JSON for a set of bits.
pub(super) enum Value {
    Text(String),
    Number(u64),
    Bits(Vec<String>),
}

/// The largest whole number that every reader of JSON keeps.
const EXACT: u64 = (1 << 53) - 1;

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => to.serialize_str(text),
            Self::Number(number) if *number > EXACT => to.collect_str(number),
            Self::Number(number) => to.serialize_u64(*number),
            Self::Bits(names) => to.collect_seq(names),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) if text.is_empty() => f.write_str("-"),
            Self::Text(text) => f.write_str(text),
            Self::Number(u64::MAX) => f.write_str("unlimited"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Bits(names) if names.is_empty() => f.write_str("-"),
            Self::Bits(names) => f.write_str(&names.join(" ")),
        }
    }
}

fn bits<B>(prefix: &'static str, set: B) -> Value
where
    Names<B>: fmt::Display,
{
    let text = Names(prefix, set).to_string();
    let names = text.split(" | ").filter(|name| *name != "0").map(str::to_owned);
    Value::Bits(names.collect())
}

/// The attributes with their names in the C interface.
pub(super) fn attributes(info: &Info) -> Vec<(&'static str, Value)> {
    let mut all = Attributes(Vec::new());
    all.put("caps", bits("FI_", info.caps));
    all.put("mode", bits("FI_", info.mode));
    all.text("addr_format", format_name(info.addr_format));
    all.text("src_addr", address(info.addr_format, &info.src_addr));
    all.text("dest_addr", address(info.addr_format, &info.dest_addr));
    if let Some(tx) = &info.tx {
        all.put("tx_attr.caps", bits("FI_", tx.caps));
        all.put("tx_attr.mode", bits("FI_", tx.mode));
        all.put("tx_attr.op_flags", bits("FI_", tx.op_flags));
        all.put("tx_attr.msg_order", bits("FI_ORDER_", tx.msg_order));
        all.size("tx_attr.inject_size", tx.inject_size);
        all.size("tx_attr.size", tx.size);
        all.size("tx_attr.iov_limit", tx.iov_limit);
        all.size("tx_attr.rma_iov_limit", tx.rma_iov_limit);
        all.number("tx_attr.tclass", tx.tclass);
    }
    if let Some(rx) = &info.rx {
        all.put("rx_attr.caps", bits("FI_", rx.caps));
        all.put("rx_attr.mode", bits("FI_", rx.mode));
        all.put("rx_attr.op_flags", bits("FI_", rx.op_flags));
        all.put("rx_attr.msg_order", bits("FI_ORDER_", rx.msg_order));
        all.size("rx_attr.size", rx.size);
        all.size("rx_attr.iov_limit", rx.iov_limit);
    }
    if let Some(ep) = &info.ep {
        all.text("ep_attr.type", ep_type(info));
        all.text("ep_attr.protocol", protocol::name(ep.protocol));
        all.number("ep_attr.protocol_version", ep.protocol_version);
        all.size("ep_attr.max_msg_size", ep.max_msg_size);
        all.size("ep_attr.msg_prefix_size", ep.msg_prefix_size);
        all.size("ep_attr.max_order_raw_size", ep.max_order_raw_size);
        all.size("ep_attr.max_order_war_size", ep.max_order_war_size);
        all.size("ep_attr.max_order_waw_size", ep.max_order_waw_size);
        all.text("ep_attr.mem_tag_format", format!("{:#018x}", ep.mem_tag_format));
        all.contexts("ep_attr.tx_ctx_cnt", ep.tx_ctx_cnt);
        all.contexts("ep_attr.rx_ctx_cnt", ep.rx_ctx_cnt);
        all.size("ep_attr.auth_key_size", ep.auth_key_size);
    }
    domain(info, &mut all);
    if let Some(fabric) = &info.fabric {
        all.text("fabric_attr.name", or_dash(fabric.name.clone()));
        all.text("fabric_attr.prov_name", or_dash(fabric.prov_name.clone()));
        all.text("fabric_attr.prov_version", fabric.prov_version.to_string());
        all.text("fabric_attr.api_version", fabric.api_version.to_string());
    }
    if let Some(nic) = &info.nic {
        card(nic, &mut all);
    }
    all.0
}

fn card(nic: &Nic, all: &mut Attributes) {
    let Nic { device, pci, link } = nic.clone();
    for (name, text) in [
        ("nic.device_attr.name", device.name),
        ("nic.device_attr.device_id", device.device_id),
        ("nic.device_attr.device_version", device.device_version),
        ("nic.device_attr.vendor_id", device.vendor_id),
        ("nic.device_attr.driver", device.driver),
        ("nic.device_attr.firmware", device.firmware),
        ("nic.bus_attr.pci", pci.map(|place| place.to_string())),
        ("nic.link_attr.address", link.address),
        ("nic.link_attr.network_type", link.network_type),
        ("nic.link_attr.state", Some(word(Some(link.state)))),
    ] {
        all.text(name, or_dash(text));
    }
    all.size("nic.link_attr.mtu", link.mtu);
    all.size("nic.link_attr.speed", link.speed);
}

fn domain(info: &Info, all: &mut Attributes) {
    let Some(domain) = &info.domain else { return };
    all.text("domain_attr.name", or_dash(domain.name.clone()));
    all.text("domain_attr.threading", word(Threading::from_raw(domain.threading)));
    all.text("domain_attr.control_progress", word(Progress::from_raw(domain.control_progress)));
    all.text("domain_attr.progress", word(Progress::from_raw(domain.progress)));
    all.text("domain_attr.resource_mgmt", word(ResourceMgmt::from_raw(domain.resource_mgmt)));
    all.text("domain_attr.av_type", word(AvType::from_raw(domain.av_type)));
    all.put("domain_attr.mr_mode", bits("FI_MR_", domain.mr_mode));
    all.size("domain_attr.mr_key_size", domain.mr_key_size);
    all.size("domain_attr.cq_data_size", domain.cq_data_size);
    all.size("domain_attr.cq_cnt", domain.cq_cnt);
    all.size("domain_attr.ep_cnt", domain.ep_cnt);
    all.size("domain_attr.tx_ctx_cnt", domain.tx_ctx_cnt);
    all.size("domain_attr.rx_ctx_cnt", domain.rx_ctx_cnt);
    all.size("domain_attr.max_ep_tx_ctx", domain.max_ep_tx_ctx);
    all.size("domain_attr.max_ep_rx_ctx", domain.max_ep_rx_ctx);
    all.size("domain_attr.max_ep_stx_ctx", domain.max_ep_stx_ctx);
    all.size("domain_attr.max_ep_srx_ctx", domain.max_ep_srx_ctx);
    all.size("domain_attr.cntr_cnt", domain.cntr_cnt);
    all.size("domain_attr.mr_iov_limit", domain.mr_iov_limit);
    all.put("domain_attr.caps", bits("FI_", domain.caps));
    all.put("domain_attr.mode", bits("FI_", domain.mode));
    all.size("domain_attr.auth_key_size", domain.auth_key_size);
    all.size("domain_attr.max_err_data", domain.max_err_data);
    all.size("domain_attr.mr_cnt", domain.mr_cnt);
    all.number("domain_attr.tclass", domain.tclass);
    all.size("domain_attr.max_ep_auth_key", domain.max_ep_auth_key);
    all.number("domain_attr.max_group_id", domain.max_group_id);
    all.put("domain_attr.max_cntr_value", Value::Number(domain.max_cntr_value));
    all.put("domain_attr.max_err_cntr_value", Value::Number(domain.max_err_cntr_value));
}

struct Attributes(Vec<(&'static str, Value)>);

impl Attributes {
    fn put(&mut self, name: &'static str, value: Value) {
        self.0.push((name, value));
    }

    fn text(&mut self, name: &'static str, text: String) {
        self.put(name, Value::Text(text));
    }

    fn size(&mut self, name: &'static str, size: usize) {
        self.put(name, Value::Number(size as u64));
    }

    fn contexts(&mut self, name: &'static str, count: usize) {
        match count {
            SHARED_CONTEXT => self.text(name, "FI_SHARED_CONTEXT".to_owned()),
            count => self.size(name, count),
        }
    }

    fn number(&mut self, name: &'static str, number: u32) {
        self.put(name, Value::Number(u64::from(number)));
    }
}

/// Addresses as address vectors print them; those of no format in binary are text already.
fn address(format: u32, bytes: &[u8]) -> String {
    if format == addr_format::IB_UD {
        return DatagramAddress::read(bytes)
            .map_or_else(String::new, |address| address.to_string());
    }
    match SocketAddress::parse(bytes) {
        Ok(address) if format != addr_format::STR => address.to_string(),
        _ => String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned(),
    }
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

fn word<T: fmt::Debug>(value: Option<T>) -> String {
    value.map_or_else(|| "unknown".to_owned(), |v| format!("{v:?}").to_lowercase())
}

fn ep_type(info: &Info) -> String {
    word(EpType::from_raw(info.ep.as_ref().map_or(0, |ep| ep.ep_type)))
}

/// The type of endpoint, and whether it is one that receives from a shared context.
fn endpoint(info: &Info) -> String {
    let shared = info.ep.as_ref().is_some_and(|ep| ep.rx_ctx_cnt == SHARED_CONTEXT);
    if shared { format!("{}, shared rx", ep_type(info)) } else { ep_type(info) }
}

const fn reach(caps: Flags) -> &'static str {
    match (caps.contains(Flags::LOCAL_COMM), caps.contains(Flags::REMOTE_COMM)) {
        (true, true) => "all hosts",
        (true, false) => "this host",
        (false, true) => "other hosts",
        (false, false) => "-",
    }
}

fn kinds(caps: Flags) -> String {
    let kinds = [Flags::MSG, Flags::TAGGED, Flags::RMA, Flags::ATOMIC, Flags::COLLECTIVE];
    let offered = kinds.into_iter().filter(|kind| caps.contains(*kind));
    let names = offered.flat_map(|kind| kind.iter_names().map(|(name, _)| name.to_lowercase()));
    names.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let bytes = [2, 0, 0, 7, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(address(addr_format::SOCKADDR_IN, &bytes), "fi_sockaddr_in://10.0.0.1:7");
        assert_eq!(address(addr_format::STR, b"fi_shm://a\0"), "fi_shm://a");
        assert_eq!(address(addr_format::SOCKADDR_IN, b""), "");
        assert_eq!(address(addr_format::IB_UD, &[0; 32]), "fi_addr_ib_ud://:::0/0/0/0");
    }

    #[test]
    fn offers_of_this_build() {
        let infos = percale::discover(None).unwrap();
        let text = brief(&infos);
        assert!(text.lines().count() > infos.len());
        assert!(text.contains("msg tagged rma atomic"), "{text}");
        let text = verbose(&infos);
        assert!(text.contains("ep_attr.max_msg_size") && text.contains("unlimited"), "{text}");
        assert!(text.contains("FI_SHARED_CONTEXT"), "{text}");
        assert!(columns(&[]).is_empty());
        let text = limits(&infos);
        assert!(text.contains("shm") && text.contains("unlimited"), "{text}");
        let doubled = [&infos[..], &infos].concat();
        assert_eq!(limits(&doubled), text, "what is alike is told once");
    }
}
