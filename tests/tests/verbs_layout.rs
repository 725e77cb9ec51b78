//! The structs and numbers of libibverbs and librdmacm that provider-verbs is written with are those
//! of the headers: a C program is written from them, compiled and run.
//!
//! Needs gcc and the headers (Debian: libibverbs-dev, librdmacm-dev), and fails without them.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use provider_verbs::sys::{
    abi::{self, Layout},
    cm_abi,
};

struct Defined {
    name: &'static str,
    size: usize,
    fields: &'static [(&'static str, usize, usize)],
}

fn defined<T: Layout>() -> Defined {
    Defined { name: T::NAME, size: T::SIZE, fields: T::FIELDS }
}

macro_rules! structs {
    ($($module:ident: $($name:ident),*;)*) => { vec![$($(defined::<$module::$name>()),*),*] };
}

macro_rules! constants {
    ($($module:ident: $($name:ident),*;)*) => {
        vec![$($((stringify!($name), $module::$name as i64)),*),*]
    };
}

fn structs() -> Vec<Defined> {
    structs! {
        abi: ibv_device, ibv_context_ops, ibv_context, ibv_pd, ibv_mr, ibv_comp_channel, ibv_cq,
            ibv_srq, ibv_qp, ibv_wc, ibv_sge, ibv_recv_wr, ibv_send_wr, ibv_device_attr,
            ibv_port_attr, ibv_qp_cap, ibv_qp_init_attr, ibv_srq_attr, ibv_srq_init_attr,
            ibv_global_route, ibv_ah_attr, ibv_ah, ibv_qp_attr, ibv_async_event;
        cm_abi: rdma_event_channel, rdma_ib_addr, rdma_addr, rdma_route, rdma_cm_id,
            rdma_conn_param, rdma_cm_event;
    }
}

fn constants() -> Vec<(&'static str, i64)> {
    constants! {
        abi: IBV_TRANSPORT_IWARP, IBV_LINK_LAYER_INFINIBAND, IBV_LINK_LAYER_ETHERNET, IBV_PORT_DOWN,
            IBV_PORT_ACTIVE, IBV_ATOMIC_NONE,
            IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_READ,
            IBV_ACCESS_REMOTE_ATOMIC, IBV_QPT_RC, IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_INIT,
            IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_STATE, IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_QKEY,
            IBV_QP_SQ_PSN, IBV_QP_MIN_RNR_TIMER, IBV_WR_RDMA_WRITE,
            IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_READ,
            IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_SEND_FENCE,
            IBV_SEND_SIGNALED, IBV_SEND_INLINE, IBV_WC_SUCCESS, IBV_WC_LOC_LEN_ERR,
            IBV_WC_LOC_QP_OP_ERR, IBV_WC_LOC_PROT_ERR, IBV_WC_WR_FLUSH_ERR, IBV_WC_LOC_ACCESS_ERR,
            IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_OP_ERR,
            IBV_WC_RETRY_EXC_ERR, IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_REM_ABORT_ERR,
            IBV_WC_RESP_TIMEOUT_ERR, IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_WITH_IMM, IBV_WC_GRH,
            IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR,
            IBV_EVENT_DEVICE_FATAL, IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR, IBV_EVENT_SRQ_ERR,
            IBV_EVENT_QP_LAST_WQE_REACHED, IBV_EVENT_PATH_MIG_ERR, IBV_EVENT_SM_CHANGE;
        cm_abi: RDMA_PS_TCP, RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ADDR_ERROR,
            RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_ROUTE_ERROR,
            RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_CONNECT_ERROR,
            RDMA_CM_EVENT_UNREACHABLE, RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_ESTABLISHED,
            RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_DEVICE_REMOVAL;
    }
}

/// What the headers say, in the words of [`own`].
fn program() -> String {
    let mut text = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/verbs.h>\n\
         #include <rdma/rdma_cma.h>\n\n\
         #define SIZE(s) printf(#s \" %zu\\n\", sizeof(struct s))\n\
         #define FIELD(s, f) printf(#s \".\" #f \" %zu %zu\\n\", offsetof(struct s, f), \
         sizeof(((struct s *)0)->f))\n\
         #define NUMBER(n) printf(#n \" %lld\\n\", (long long)(n))\n\nint main(void)\n{\n",
    );
    for each in structs() {
        writeln!(text, "\tSIZE({});", each.name).unwrap();
        for (field, ..) in named(&each) {
            writeln!(text, "\tFIELD({}, {field});", each.name).unwrap();
        }
    }
    for (name, _) in constants() {
        writeln!(text, "\tNUMBER({name});").unwrap();
    }
    text + "\treturn 0;\n}\n"
}

/// What the Rust side says.
fn own() -> String {
    let mut text = String::new();
    for each in structs() {
        writeln!(text, "{} {}", each.name, each.size).unwrap();
        for (field, offset, size) in named(&each) {
            writeln!(text, "{}.{field} {offset} {size}", each.name).unwrap();
        }
    }
    for (name, value) in constants() {
        writeln!(text, "{name} {value}").unwrap();
    }
    text
}

/// Fields with a leading `_` stand for several, or for what the headers hide; the offsets of those
/// behind them tell of their size.
fn named(each: &Defined) -> impl Iterator<Item = (&'static str, usize, usize)> + use<> {
    each.fields.iter().copied().filter(|(field, ..)| !field.starts_with('_'))
}

fn compile(source: &Path, binary: &Path) {
    let compiled = Command::new("gcc")
        .args(["-std=gnu99", "-Wall", "-Werror"])
        .arg(source)
        .arg("-o")
        .arg(binary)
        .output()
        .expect("run gcc");
    let complaints = String::from_utf8_lossy(&compiled.stderr);
    assert!(
        compiled.status.success(),
        "gcc refuses it; are libibverbs-dev and librdmacm-dev installed?\n{complaints}"
    );
}

#[test]
fn layouts_and_numbers_are_those_of_the_headers() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (source, binary) = (folder.join("verbs_layout.c"), folder.join("verbs_layout"));
    fs::write(&source, program()).expect("write the program");
    compile(&source, &binary);
    let said = Command::new(&binary).output().expect("run the program");
    let said = String::from_utf8(said.stdout).expect("text");
    let own = own();
    let differing: Vec<(&str, &str)> =
        own.lines().zip(said.lines()).filter(|(own, said)| own != said).collect();
    assert!(differing.is_empty(), "(here, in the headers): {differing:#?}");
    assert_eq!(own.lines().count(), said.lines().count());
    assert!(own.lines().count() > 250, "{}", own.lines().count());
}
