//! The C structs and numbers of `fabric::abi` against the tables of record in `tests/abi`.

use std::{
    collections::{HashMap, HashSet},
    fs,
    path::Path,
};

use fabric::abi::{self, Layout, constants};
use fabric_core::Errno;

/// Offset and size by `struct` or `struct.field`.
type Table = HashMap<String, (usize, usize)>;

/// Structs of the headers that this library has no use for.
const OMITTED_PREFIXES: [&str; 6] =
    ["fi_profile_", "fid_profile", "fi_peer_", "fid_peer_", "fi_ops_srx_", "fi_ops_transfer_"];
const OMITTED: [&str; 4] =
    ["fi_ops_av_owner", "fi_ops_av_set_owner", "fi_ops_cq_owner", "fi_ops_cntr_owner"];

/// Second names of slots that Rust knows under their first.
const ALIASES: [&str; 2] = ["fi_domain_attr.data_progress", "fi_mr_attr.dmabuf"];

/// Structs that callers allocate: these stay at their 2.6 size.
const CALLER_ALLOCATED: [&str; 2] = ["fi_cq_attr", "fi_cntr_attr"];

struct Defined {
    name: &'static str,
    size: usize,
    fields: &'static [(&'static str, usize, usize)],
}

fn defined<T: Layout>() -> Defined {
    Defined { name: T::NAME, size: size_of::<T>(), fields: T::FIELDS }
}

macro_rules! structs {
    ($($module:ident: $($name:ident),*;)*) => {
        vec![$($(defined::<abi::$module::$name>()),*),*]
    };
}

fn structs() -> Vec<Defined> {
    structs! {
        attr: fi_av_attr, fi_cq_attr, fi_cntr_attr, fi_eq_attr, fi_wait_attr, fi_poll_attr,
            fi_mr_attr, fi_mr_dmabuf, fi_mr_auth_key, fi_mr_modify, fi_mr_raw_attr, fi_mr_map_raw,
            fi_atomic_attr, fi_param, fi_mutex_cond, fi_wait_pollfd;
        collective: fi_av_set_attr, fi_ops_av_set, fi_collective_attr, fi_collective_addr,
            fi_msg_collective, fi_ops_collective;
        data_ops: fi_ops_msg, fi_ops_tagged, fi_ops_rma, fi_ops_atomic;
        event: fi_cq_entry, fi_cq_msg_entry, fi_cq_data_entry, fi_cq_tagged_entry,
            fi_cq_err_entry, fi_eq_entry, fi_eq_err_entry, fi_eq_cm_entry;
        ext: fi_provider, fid_logging, fi_ops_log, fid_mem_monitor, fi_ops_mem_monitor,
            fi_ops_mem_notify, fi_hmem_override_ops;
        fid: fid, fi_ops, fid_fabric, fid_domain, fid_ep, fid_pep, fid_stx, fid_av, fid_av_set,
            fid_cq, fid_cntr, fid_eq, fid_wait, fid_poll, fid_mr, fid_mc, fi_alias, fi_fid_var,
            fi_fid_export;
        info: fi_info, fi_tx_attr, fi_rx_attr, fi_ep_attr, fi_domain_attr, fi_fabric_attr,
            fid_nic, fi_device_attr, fi_bus_attr, fi_pci_attr, fi_link_attr;
        msg: fi_msg, fi_msg_tagged, fi_msg_rma, fi_rma_iov, fi_ioc, fi_rma_ioc, fi_msg_atomic, fi_msg_fetch,
            fi_msg_compare, fi_context, fi_context2, fi_recv_context;
        ops: fi_ops_fabric, fi_ops_domain, fi_ops_mr, fi_ops_ep, fi_ops_cm, fi_ops_av, fi_ops_cq,
            fi_ops_cntr, fi_ops_eq, fi_ops_wait, fi_ops_poll;
        trigger: fi_trigger_threshold, fi_trigger_var, fi_trigger_xpu, fi_triggered_context,
            fi_triggered_context2, fi_deferred_work, fi_op_msg, fi_op_tagged, fi_op_rma,
            fi_op_atomic, fi_op_fetch_atomic, fi_op_compare_atomic, fi_op_cntr;
    }
}

#[test]
fn every_struct_and_field_is_where_c_puts_it() {
    let mut expected = layout("abi-layout.tsv", 0);
    for (name, place) in layout("abi-1.10-delta.tsv", 0) {
        if !CALLER_ALLOCATED.iter().any(|own| name == *own || name.starts_with(&format!("{own}.")))
        {
            expected.insert(name, place);
        }
    }
    for found in structs() {
        assert_eq!(expected.get(found.name), Some(&(0, found.size)), "{}", found.name);
        for (field, offset, size) in found.fields {
            let name = format!("{}.{}", found.name, field.trim_start_matches("r#"));
            assert_eq!(expected.get(&name), Some(&(*offset, *size)), "{name}");
        }
    }
}

#[test]
fn no_struct_or_field_is_missing() {
    let known: HashMap<_, HashSet<_>> = structs()
        .into_iter()
        .map(|s| (s.name, s.fields.iter().map(|f| f.0.trim_start_matches("r#")).collect()))
        .collect();
    for row in rows("abi-layout.tsv") {
        let mut path = row[0].split('.');
        let tag = path.next().expect("a name");
        let field = path.next();
        if OMITTED.contains(&tag)
            || OMITTED_PREFIXES.iter().any(|p| tag.starts_with(p))
            || ALIASES.contains(&row[0].as_str())
            || row[4] == "enum"
            || row[4].starts_with("typedef")
        {
            continue;
        }
        let fields = known.get(tag).unwrap_or_else(|| panic!("{tag} is not defined"));
        assert!(field.is_none_or(|f| fields.contains(f)), "{} is not defined", row[0]);
    }
}

/// Old callers see a prefix of each struct, so older layouts must be prefixes of ours.
#[test]
fn every_older_layout_is_a_prefix() {
    let known: HashMap<_, _> = structs().into_iter().map(|s| (s.name, s)).collect();
    for row in rows("abi-compat-layout.tsv") {
        let (name, offset, size) = (&row[1], number(&row[2]), number(&row[3]));
        let mut path = name.split('.');
        let tag = path.next().expect("a name");
        let Some(found) = known.get(tag) else { panic!("{tag} is not defined") };
        match path.next() {
            None => assert!(size <= found.size, "{name} at node {}", row[0]),
            // Arms of a union: the union itself has its row.
            Some(_) if path.next().is_some() || ALIASES.contains(&name.as_str()) => {}
            Some(field) => assert!(
                found
                    .fields
                    .iter()
                    .any(|f| f.0.trim_start_matches("r#") == field && f.1 == offset && f.2 == size),
                "{name} at node {}",
                row[0]
            ),
        }
    }
}

#[test]
fn every_constant_has_the_value_of_c() {
    let mut expected: HashMap<String, i128> = rows("abi-constants.tsv")
        .into_iter()
        .filter_map(|row| Some((row[0].clone(), row[1].parse().ok()?)))
        .collect();
    for row in rows("abi-1.10-delta.tsv").iter().filter(|row| row[3].starts_with("constant")) {
        expected.insert(row[0].clone(), row[1].parse().expect("a number"));
    }
    for (name, value) in constants::ALL.iter().copied().flatten() {
        assert_eq!(expected.get(*name), Some(value), "{name}");
    }
}

#[test]
fn every_error_number_is_named() {
    for row in rows("abi-constants.tsv").iter().filter(|row| row[4] == "fi_errno.h") {
        let name = row[0].trim_start_matches("FI_");
        let value = row[1].parse().expect("a number");
        if !["SUCCESS", "EWOULDBLOCK", "ERRNO_OFFSET", "ERRNO_MAX"].contains(&name) {
            assert_eq!(Errno::new(value).name(), Some(name));
        }
    }
}

fn layout(file: &str, name: usize) -> Table {
    rows(file)
        .into_iter()
        .filter(|row| !row[name + 2].is_empty())
        .map(|row| (row[name].clone(), (number(&row[name + 1]), number(&row[name + 2]))))
        .collect()
}

fn rows(file: &str) -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/abi").join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines().skip(1).map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

fn number(text: &str) -> usize {
    text.parse().unwrap_or_else(|e| panic!("{text:?}: {e}"))
}
