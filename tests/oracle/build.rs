//! Writes down what is to be asked of rdma-sys: for each struct its size and fields, and each number.

#[path = "src/declared.rs"]
mod declared;

use std::{env, fmt::Write as _, fs, path::Path};

/// How rdma-sys has what C has in a union without a name.
const UNIONS: &[(&str, &str)] = &[
    ("ibv_wc.imm_data", "imm_data_invalidated_rkey_union"),
    ("ibv_send_wr.imm_data", "imm_data_invalidated_rkey_union"),
    ("rdma_addr.src_storage", "src_addr_union"),
    ("rdma_addr.dst_storage", "dst_addr_union"),
];

/// Where rdma-sys has the numbers that begin so. Of those in an enumeration without a name it has none.
const PLACES: &[(&str, &str)] = &[
    ("IBV_TRANSPORT_", "ibv_transport_type::{}"),
    ("IBV_LINK_LAYER_", ""),
    ("IBV_PORT_", "ibv_port_state::{}"),
    ("IBV_ATOMIC_", "ibv_atomic_cap::{}"),
    ("IBV_ACCESS_", "ibv_access_flags::{}.0"),
    ("IBV_ODP_SUPPORT_", "ibv_odp_transport_cap_bits::{}.0"),
    ("IBV_ODP_", "ibv_odp_general_caps::{}.0"),
    ("IBV_QPT_", "ibv_qp_type::{}"),
    ("IBV_QPS_", "ibv_qp_state::{}"),
    ("IBV_QP_", "ibv_qp_attr_mask::{}.0"),
    ("IBV_WR_", "ibv_wr_opcode::{}"),
    ("IBV_SEND_", "ibv_send_flags::{}.0"),
    ("IBV_WC_RECV_", "ibv_wc_opcode::{}"),
    ("IBV_WC_WITH_IMM", "ibv_wc_flags::{}.0"),
    ("IBV_WC_GRH", "ibv_wc_flags::{}.0"),
    ("IBV_WC_", "ibv_wc_status::{}"),
    ("IBV_EVENT_", "ibv_event_type::{}"),
    ("RDMA_PS_", "rdma_port_space::{}"),
    ("RDMA_CM_EVENT_", "rdma_cm_event_type::{}"),
];

fn main() {
    let mut text = String::from("pub fn told() -> Vec<(String, i64, usize)> {\n    vec![\n");
    for each in declared::structs() {
        let name = each.name;
        writeln!(text, "        size::<rdma_sys::{name}>({name:?}),").unwrap();
        for (field, ..) in each.fields() {
            let full = format!("{name}.{field}");
            let theirs = UNIONS.iter().find(|(ours, _)| *ours == full).map_or(field, |(_, it)| it);
            writeln!(text, "        field!({name}, {theirs}, {full:?}),").unwrap();
        }
    }
    for (name, _) in declared::numbers() {
        let place = PLACES.iter().find(|(start, _)| name.starts_with(start));
        let (_, place) = place.unwrap_or_else(|| panic!("where does rdma-sys have {name}?"));
        if place.is_empty() {
            continue;
        }
        let place = place.replace("{}", name);
        writeln!(text, "        ({name:?}.to_owned(), rdma_sys::{place} as i64, 0),").unwrap();
    }
    text.push_str("    ]\n}\n");
    let folder = env::var_os("OUT_DIR").expect("cargo names it");
    fs::write(Path::new(&folder).join("told.rs"), text).expect("write what is asked");
    println!("cargo::rerun-if-changed=src/declared.rs");
}
