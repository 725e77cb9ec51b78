//! Offers as text for people.

use std::fmt::{self, Write};

use percale::{
    Info,
    attr::{AvType, EpType, Progress, ResourceMgmt, Threading},
    discovery::{Names, format_name},
    flags::Flags,
};
use serde::Serialize;

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
            ep_type(info),
            reach(info.caps).to_owned(),
            kinds(info.caps),
        ]);
    }
    columns(&rows)
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
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Value {
    Text(String),
    Number(u64),
    Bits(Vec<String>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
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
    all.put("addr_format", Value::Text(format_name(info.addr_format)));
    all.put(
        "src_addr",
        Value::Text(String::from_utf8_lossy(&info.src_addr).trim_end_matches('\0').to_owned()),
    );
    all.put(
        "dest_addr",
        Value::Text(String::from_utf8_lossy(&info.dest_addr).trim_end_matches('\0').to_owned()),
    );
    if let Some(tx) = &info.tx {
        all.put("tx_attr.caps", bits("FI_", tx.caps));
        all.put("tx_attr.op_flags", bits("FI_", tx.op_flags));
        all.put("tx_attr.msg_order", bits("FI_ORDER_", tx.msg_order));
        all.put("tx_attr.inject_size", Value::Number(tx.inject_size as u64));
        all.put("tx_attr.size", Value::Number(tx.size as u64));
        all.put("tx_attr.iov_limit", Value::Number(tx.iov_limit as u64));
        all.put("tx_attr.rma_iov_limit", Value::Number(tx.rma_iov_limit as u64));
    }
    if let Some(rx) = &info.rx {
        all.put("rx_attr.caps", bits("FI_", rx.caps));
        all.put("rx_attr.op_flags", bits("FI_", rx.op_flags));
        all.put("rx_attr.msg_order", bits("FI_ORDER_", rx.msg_order));
        all.put("rx_attr.size", Value::Number(rx.size as u64));
        all.put("rx_attr.iov_limit", Value::Number(rx.iov_limit as u64));
    }
    if let Some(ep) = &info.ep {
        all.put("ep_attr.type", Value::Text(ep_type(info)));
        all.put("ep_attr.protocol", Value::Number(u64::from(ep.protocol)));
        all.put("ep_attr.protocol_version", Value::Number(u64::from(ep.protocol_version)));
        all.put("ep_attr.max_msg_size", Value::Number(ep.max_msg_size as u64));
        all.put("ep_attr.max_order_raw_size", Value::Number(ep.max_order_raw_size as u64));
        all.put("ep_attr.max_order_war_size", Value::Number(ep.max_order_war_size as u64));
        all.put("ep_attr.max_order_waw_size", Value::Number(ep.max_order_waw_size as u64));
        all.put("ep_attr.mem_tag_format", Value::Text(format!("{:#018x}", ep.mem_tag_format)));
    }
    domain(info, &mut all);
    if let Some(fabric) = &info.fabric {
        all.put("fabric_attr.name", Value::Text(or_dash(fabric.name.clone())));
        all.put("fabric_attr.prov_name", Value::Text(or_dash(fabric.prov_name.clone())));
        all.put("fabric_attr.prov_version", Value::Text(fabric.prov_version.to_string()));
        all.put("fabric_attr.api_version", Value::Text(fabric.api_version.to_string()));
    }
    all.0
}

fn domain(info: &Info, all: &mut Attributes) {
    let Some(domain) = &info.domain else { return };
    all.put("domain_attr.name", Value::Text(or_dash(domain.name.clone())));
    all.put("domain_attr.threading", Value::Text(word(Threading::from_raw(domain.threading))));
    all.put("domain_attr.progress", Value::Text(word(Progress::from_raw(domain.progress))));
    all.put(
        "domain_attr.resource_mgmt",
        Value::Text(word(ResourceMgmt::from_raw(domain.resource_mgmt))),
    );
    all.put("domain_attr.av_type", Value::Text(word(AvType::from_raw(domain.av_type))));
    all.put("domain_attr.mr_mode", bits("FI_MR_", domain.mr_mode));
    all.put("domain_attr.mr_key_size", Value::Number(domain.mr_key_size as u64));
    all.put("domain_attr.cq_data_size", Value::Number(domain.cq_data_size as u64));
    all.put("domain_attr.cq_cnt", Value::Number(domain.cq_cnt as u64));
    all.put("domain_attr.ep_cnt", Value::Number(domain.ep_cnt as u64));
    all.put("domain_attr.max_ep_tx_ctx", Value::Number(domain.max_ep_tx_ctx as u64));
    all.put("domain_attr.max_ep_rx_ctx", Value::Number(domain.max_ep_rx_ctx as u64));
    all.put("domain_attr.mr_iov_limit", Value::Number(domain.mr_iov_limit as u64));
    all.put("domain_attr.caps", bits("FI_", domain.caps));
    all.put("domain_attr.max_cntr_value", Value::Number(domain.max_cntr_value));
}

struct Attributes(Vec<(&'static str, Value)>);

impl Attributes {
    fn put(&mut self, name: &'static str, value: Value) {
        self.0.push((name, value));
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
    fn offers_of_this_build() {
        let infos = percale::discover(None).unwrap();
        let text = brief(&infos);
        assert!(text.lines().count() > infos.len());
        assert!(text.contains("msg tagged rma atomic"), "{text}");
        let text = verbose(&infos);
        assert!(text.contains("ep_attr.max_msg_size") && text.contains("unlimited"), "{text}");
        assert!(columns(&[]).is_empty());
    }
}
