//! SETUP. The functions of libibverbs and librdmacm, found when they are first needed.
//!
//! Nothing is linked: a host without the libraries has a reason for discovery to tell. They are opened
//! for this library alone (`RTLD_LOCAL`), each symbol in its default version. A table is a plain
//! struct of code pointers, so a test can fill one with functions of its own; the data path goes
//! through the device's own table ([`super::abi::ibv_context_ops`]), which such a test owns as well.

use core::ffi::{c_int, c_uint, c_void};
use std::sync::OnceLock;

use dlopen2::raw::Library;

use super::{abi::*, cm_abi::*};

/// Defines a table of C functions.
macro_rules! table {
    (
        $(#[$meta:meta])*
        $name:ident from $soname:literal {
            $(fn $function:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?;)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name {
            $(pub(crate) $function: unsafe extern "C" fn($($arg: $ty),*) $(-> $ret)?,)*
        }

        impl $name {
            const SONAME: &'static str = $soname;

            /// Looks the functions up; the name of the first that is missing otherwise.
            ///
            /// # Safety
            /// `library` is what its name says, with the documented signatures.
            unsafe fn of(library: &Library) -> Result<Self, &'static str> {
                Ok(Self {
                    $(
                        // SAFETY: the caller's promise.
                        $function: unsafe { library.symbol(stringify!($function)) }
                            .map_err(|_| stringify!($function))?,
                    )*
                })
            }
        }
    };
}

table! {
    /// Of libibverbs.
    Ibverbs from "libibverbs.so.1" {
        fn ibv_fork_init() -> c_int;
        fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device;
        fn ibv_free_device_list(list: *mut *mut ibv_device);
        fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context;
        fn ibv_close_device(context: *mut ibv_context) -> c_int;
        fn ibv_query_device(context: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int;
        fn ibv_query_port(context: *mut ibv_context, port: u8, attr: *mut ibv_port_attr) -> c_int;
        fn ibv_query_gid(
            context: *mut ibv_context,
            port: u8,
            index: c_int,
            gid: *mut ibv_gid,
        ) -> c_int;
        fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd;
        fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int;
        fn ibv_reg_mr(
            pd: *mut ibv_pd,
            addr: *mut c_void,
            length: usize,
            access: c_int,
        ) -> *mut ibv_mr;
        fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int;
        fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel;
        fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int;
        fn ibv_create_cq(
            context: *mut ibv_context,
            cqe: c_int,
            cq_context: *mut c_void,
            channel: *mut ibv_comp_channel,
            comp_vector: c_int,
        ) -> *mut ibv_cq;
        fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int;
        fn ibv_get_cq_event(
            channel: *mut ibv_comp_channel,
            cq: *mut *mut ibv_cq,
            cq_context: *mut *mut c_void,
        ) -> c_int;
        fn ibv_ack_cq_events(cq: *mut ibv_cq, count: c_uint);
        fn ibv_create_srq(pd: *mut ibv_pd, attr: *mut ibv_srq_init_attr) -> *mut ibv_srq;
        fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int;
        fn ibv_create_qp(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp;
        fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int;
        fn ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int;
        fn ibv_query_pkey(
            context: *mut ibv_context,
            port: u8,
            index: c_int,
            pkey: *mut u16,
        ) -> c_int;
        fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah;
        fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int;
        fn ibv_attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
        fn ibv_detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
        fn ibv_get_async_event(context: *mut ibv_context, event: *mut ibv_async_event) -> c_int;
        fn ibv_ack_async_event(event: *mut ibv_async_event);
    }
}

table! {
    /// Of librdmacm.
    Rdmacm from "librdmacm.so.1" {
        fn rdma_get_devices(count: *mut c_int) -> *mut *mut ibv_context;
        fn rdma_create_event_channel() -> *mut rdma_event_channel;
        fn rdma_destroy_event_channel(channel: *mut rdma_event_channel);
        fn rdma_get_cm_event(
            channel: *mut rdma_event_channel,
            event: *mut *mut rdma_cm_event,
        ) -> c_int;
        fn rdma_ack_cm_event(event: *mut rdma_cm_event) -> c_int;
        fn rdma_create_id(
            channel: *mut rdma_event_channel,
            id: *mut *mut rdma_cm_id,
            context: *mut c_void,
            ps: c_uint,
        ) -> c_int;
        fn rdma_destroy_id(id: *mut rdma_cm_id) -> c_int;
        fn rdma_migrate_id(id: *mut rdma_cm_id, channel: *mut rdma_event_channel) -> c_int;
        fn rdma_bind_addr(id: *mut rdma_cm_id, address: *mut libc::sockaddr) -> c_int;
        fn rdma_resolve_addr(
            id: *mut rdma_cm_id,
            source: *mut libc::sockaddr,
            dest: *mut libc::sockaddr,
            timeout_ms: c_int,
        ) -> c_int;
        fn rdma_resolve_route(id: *mut rdma_cm_id, timeout_ms: c_int) -> c_int;
        fn rdma_create_qp(
            id: *mut rdma_cm_id,
            pd: *mut ibv_pd,
            attr: *mut ibv_qp_init_attr,
        ) -> c_int;
        fn rdma_destroy_qp(id: *mut rdma_cm_id);
        fn rdma_listen(id: *mut rdma_cm_id, backlog: c_int) -> c_int;
        fn rdma_connect(id: *mut rdma_cm_id, param: *mut rdma_conn_param) -> c_int;
        fn rdma_accept(id: *mut rdma_cm_id, param: *mut rdma_conn_param) -> c_int;
        fn rdma_reject(id: *mut rdma_cm_id, data: *const c_void, len: u8) -> c_int;
        fn rdma_disconnect(id: *mut rdma_cm_id) -> c_int;
        fn rdma_join_multicast(
            id: *mut rdma_cm_id,
            address: *mut libc::sockaddr,
            context: *mut c_void,
        ) -> c_int;
        fn rdma_leave_multicast(id: *mut rdma_cm_id, address: *mut libc::sockaddr) -> c_int;
    }
}

/// Both.
pub(crate) struct Tables {
    pub(crate) ibv: Ibverbs,
    pub(crate) cm: Rdmacm,
}

/// Why there are no tables.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Missing {
    /// The dynamic linker's reason.
    #[error("{soname}: {reason}")]
    Library { soname: &'static str, reason: String },
    /// An old one.
    #[error("{soname} has no function {function}")]
    Function { soname: &'static str, function: &'static str },
}

/// The tables of this host, opened when first asked for and kept: an application may hold objects of
/// theirs until it ends.
pub(crate) fn tables() -> Result<&'static Tables, &'static Missing> {
    static TABLES: OnceLock<Result<Tables, Missing>> = OnceLock::new();
    TABLES.get_or_init(load).as_ref()
}

fn load() -> Result<Tables, Missing> {
    let verbs = open(Ibverbs::SONAME)?;
    let cm = open(Rdmacm::SONAME)?;
    let missing = |soname| move |function| Missing::Function { soname, function };
    let tables = Tables {
        // SAFETY: sonames name one interface each for ever (ibv_*(3), rdma_*(3)).
        ibv: unsafe { Ibverbs::of(&verbs) }.map_err(missing(Ibverbs::SONAME))?,
        // SAFETY: as above.
        cm: unsafe { Rdmacm::of(&cm) }.map_err(missing(Rdmacm::SONAME))?,
    };
    // Their code stays mapped, and so do the threads and handlers that it may have.
    core::mem::forget((verbs, cm));
    Ok(tables)
}

fn open(soname: &'static str) -> Result<Library, Missing> {
    Library::open(soname)
        .map_err(|error| Missing::Library { soname, reason: reason(&error, soname) })
}

/// What the dynamic linker says, without the name that stands in front of it anyway.
fn reason(error: &dlopen2::Error, soname: &str) -> String {
    let text = match error {
        dlopen2::Error::OpeningLibraryError(error) => error.to_string(),
        other => other.to_string(),
    };
    let text = text.strip_prefix(soname).unwrap_or(&text);
    text.trim_start_matches(':').trim().to_owned()
}
