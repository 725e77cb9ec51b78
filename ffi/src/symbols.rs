//! SETUP. The exported functions, each bound to its version node.
//!
//! Every name is a `.symver` alias of an implementation whose name starts with `percale_`; an
//! unversioned export would be invisible to `dlvsym`, which some MPI libraries load us with. The
//! directive binds only a symbol of its own object file, so each stands beside its function in
//! this module. `libfabric.map` declares the nodes, `variadic.c` holds the two exports with
//! variable arguments.

use core::{
    arch::global_asm,
    ffi::{c_char, c_int, c_void},
};

use crate::{
    abi::{
        attr::fi_param,
        constants::{fi_log_level, fi_log_subsys, fi_param_type, fi_type},
        ext::fi_provider,
        fid::{fid, fid_fabric},
        info::{fi_fabric_attr, fi_info},
    },
    entry, info, logging, named,
    node::Node,
    panic::guard,
    params, tostr,
};

/// Discovery, whose structs differ from node to node.
macro_rules! discovery {
    ($($node:ident, $version:literal: $getinfo:ident, $dupinfo:ident, $freeinfo:ident;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $getinfo(
            version: u32,
            node: *const c_char,
            service: *const c_char,
            flags: u64,
            hints: *const fi_info,
            info: *mut *mut fi_info,
        ) -> c_int {
            guard(|| {
                // SAFETY: the caller passes texts, hints of this node's size and room for a
                // pointer, or nulls.
                unsafe { entry::getinfo(Node::$node, version, node, service, flags, hints, info) }
            })
        }
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $dupinfo(info: *const fi_info) -> *mut fi_info {
            // SAFETY: the caller passes an info whose structs have this node's sizes, or null.
            guard(|| unsafe { info::dup(info, Node::$node) })
        }
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $freeinfo(info: *mut fi_info) {
            // SAFETY: the caller gives back a list that this library allocated, or null.
            guard(|| unsafe { info::free(info) });
        }
        global_asm!(
            concat!(".symver ", stringify!($getinfo), ", fi_getinfo", $version),
            concat!(".symver ", stringify!($dupinfo), ", fi_dupinfo", $version),
            concat!(".symver ", stringify!($freeinfo), ", fi_freeinfo", $version),
        );
    )*};
}

discovery! {
    V1_0, "@FABRIC_1.0": percale_getinfo_1_0, percale_dupinfo_1_0, percale_freeinfo_1_0;
    V1_1, "@FABRIC_1.1": percale_getinfo_1_1, percale_dupinfo_1_1, percale_freeinfo_1_1;
    V1_2, "@FABRIC_1.2": percale_getinfo_1_2, percale_dupinfo_1_2, percale_freeinfo_1_2;
    V1_3, "@FABRIC_1.3": percale_getinfo_1_3, percale_dupinfo_1_3, percale_freeinfo_1_3;
    V1_7, "@FABRIC_1.7": percale_getinfo_1_7, percale_dupinfo_1_7, percale_freeinfo_1_7;
    V1_8, "@FABRIC_1.8": percale_getinfo_1_8, percale_dupinfo_1_8, percale_freeinfo_1_8;
    V1_9, "@@FABRIC_1.9": percale_getinfo_1_9, percale_dupinfo_1_9, percale_freeinfo_1_9;
    V1_10, "@FABRIC_1.10": percale_getinfo_1_10, percale_dupinfo_1_10, percale_freeinfo_1_10;
}

/// Everything else: `implementation as "symbol@node": fn(arguments) -> result = body`.
///
/// Each body's contract is that of the C function: pointers are valid as the manual page says.
macro_rules! functions {
    ($($name:ident as $symbol:literal: fn($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty = $body:expr;)*)
    => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($arg: $ty),*) -> $ret {
            // SAFETY: the caller keeps the contract of the manual page, which is the body's.
            #[allow(unused_unsafe, reason = "some bodies are safe functions")]
            guard(|| unsafe { $body })
        }
        global_asm!(concat!(".symver ", stringify!($name), ", ", $symbol));
    )*};
}

functions! {
    percale_version as "fi_version@@FABRIC_1.0": fn() -> u32 = entry::version();
    percale_strerror as "fi_strerror@@FABRIC_1.0":
        fn(errnum: c_int) -> *const c_char = entry::strerror(errnum);
    percale_tostr as "fi_tostr@@FABRIC_1.0":
        fn(data: *const c_void, datatype: fi_type) -> *mut c_char = tostr::tostr(data, datatype);
    percale_tostr_r as "fi_tostr_r@@FABRIC_1.4":
        fn(buf: *mut c_char, len: usize, data: *const c_void, datatype: fi_type) -> *mut c_char
        = tostr::tostr_r(buf, len, data, datatype);

    percale_fabric_1_0 as "fi_fabric@FABRIC_1.0":
        fn(attr: *mut fi_fabric_attr, fabric: *mut *mut fid_fabric, context: *mut c_void) -> c_int
        = entry::fabric(Node::V1_0, attr, fabric, context);
    percale_fabric_1_1 as "fi_fabric@@FABRIC_1.1":
        fn(attr: *mut fi_fabric_attr, fabric: *mut *mut fid_fabric, context: *mut c_void) -> c_int
        = entry::fabric(Node::V1_1, attr, fabric, context);
    percale_fabric2 as "fi_fabric2@@FABRIC_1.8":
        fn(
            info: *mut fi_info,
            fabric: *mut *mut fid_fabric,
            flags: u64,
            context: *mut c_void,
        ) -> c_int = entry::fabric2(info, fabric, flags, context);
    percale_open as "fi_open@@FABRIC_1.5":
        fn(
            version: u32,
            name: *const c_char,
            attr: *mut c_void,
            attr_len: usize,
            flags: u64,
            object: *mut *mut fid,
            context: *mut c_void,
        ) -> c_int = named::open(version, name, attr, attr_len, flags, object, context);

    percale_getparams as "fi_getparams@@FABRIC_1.0":
        fn(params: *mut *mut fi_param, count: *mut c_int) -> c_int
        = params::list(params, count);
    percale_freeparams as "fi_freeparams@@FABRIC_1.0":
        fn(params: *mut fi_param) -> () = params::free(params);
    percale_param_get as "fi_param_get@@FABRIC_1.0":
        fn(provider: *mut fi_provider, name: *const c_char, value: *mut c_void) -> c_int
        = params::get(provider, name, value);

    percale_log_enabled as "fi_log_enabled@@FABRIC_1.0":
        fn(prov: *const fi_provider, level: fi_log_level, subsys: fi_log_subsys) -> c_int
        = logging::enabled(prov, level, subsys);
    percale_log_ready as "fi_log_ready@@FABRIC_1.6":
        fn(
            prov: *const fi_provider,
            level: fi_log_level,
            subsys: fi_log_subsys,
            showtime: *mut u64,
        ) -> c_int = logging::ready(prov, level, subsys, showtime);
}

/// The part of `fi_log` behind the formatting.
#[unsafe(no_mangle)]
unsafe extern "C" fn percale_log_text(
    prov: *const fi_provider,
    level: fi_log_level,
    subsys: fi_log_subsys,
    func: *const c_char,
    line: c_int,
    text: *const c_char,
) {
    // SAFETY: the caller keeps the contract of `fi_log`; `text` is a terminated buffer.
    guard(|| unsafe { logging::log(prov, level, subsys, func, line, text) });
}

/// The part of `fi_param_define` behind the formatting.
#[unsafe(no_mangle)]
unsafe extern "C" fn percale_param_define_text(
    provider: *const fi_provider,
    name: *const c_char,
    datatype: fi_param_type,
    help: *const c_char,
) -> c_int {
    // SAFETY: the caller keeps the contract of `fi_param_define`; `help` is a terminated buffer.
    guard(|| unsafe { params::define(provider, name, datatype, help) })
}
