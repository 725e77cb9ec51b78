//! SETUP. Operation tables of every object but the data path of endpoints.
//!
//! The last slots of some tables belong to node 1.10, whose argument lists are not final. Only the
//! default functions fill them, which look at no argument.

use core::ffi::{c_char, c_int, c_void};

use super::{
    attr::{
        fi_atomic_attr, fi_av_attr, fi_cntr_attr, fi_cq_attr, fi_eq_attr, fi_mr_attr, fi_poll_attr,
        fi_wait_attr,
    },
    collective::{fi_av_set_attr, fi_collective_attr},
    constants::{fi_addr_t, fi_collective_op, fi_datatype, fi_op},
    event::{fi_cq_err_entry, fi_eq_err_entry},
    fid::{
        fid, fid_av, fid_av_set, fid_cntr, fid_cq, fid_domain, fid_ep, fid_eq, fid_fabric, fid_mc,
        fid_mr, fid_pep, fid_poll, fid_stx, fid_wait,
    },
    info::{fi_info, fi_rx_attr, fi_tx_attr},
    iovec, ops_table,
};

ops_table! {
    /// Fabric operations.
    pub struct fi_ops_fabric {
        domain: fn(
            fabric: *mut fid_fabric,
            info: *mut fi_info,
            domain: *mut *mut fid_domain,
            context: *mut c_void,
        ) -> c_int,
        passive_ep: fn(
            fabric: *mut fid_fabric,
            info: *mut fi_info,
            pep: *mut *mut fid_pep,
            context: *mut c_void,
        ) -> c_int,
        eq_open: fn(
            fabric: *mut fid_fabric,
            attr: *mut fi_eq_attr,
            eq: *mut *mut fid_eq,
            context: *mut c_void,
        ) -> c_int,
        wait_open: fn(
            fabric: *mut fid_fabric,
            attr: *mut fi_wait_attr,
            waitset: *mut *mut fid_wait,
        ) -> c_int,
        trywait: fn(fabric: *mut fid_fabric, fids: *mut *mut fid, count: c_int) -> c_int,
        domain2: fn(
            fabric: *mut fid_fabric,
            info: *mut fi_info,
            domain: *mut *mut fid_domain,
            flags: u64,
            context: *mut c_void,
        ) -> c_int,
    }
}

ops_table! {
    /// Domain operations. `xpu_ctx` belongs to node 1.10.
    pub struct fi_ops_domain {
        av_open: fn(
            domain: *mut fid_domain,
            attr: *mut fi_av_attr,
            av: *mut *mut fid_av,
            context: *mut c_void,
        ) -> c_int,
        cq_open: fn(
            domain: *mut fid_domain,
            attr: *mut fi_cq_attr,
            cq: *mut *mut fid_cq,
            context: *mut c_void,
        ) -> c_int,
        endpoint: fn(
            domain: *mut fid_domain,
            info: *mut fi_info,
            ep: *mut *mut fid_ep,
            context: *mut c_void,
        ) -> c_int,
        scalable_ep: fn(
            domain: *mut fid_domain,
            info: *mut fi_info,
            sep: *mut *mut fid_ep,
            context: *mut c_void,
        ) -> c_int,
        cntr_open: fn(
            domain: *mut fid_domain,
            attr: *mut fi_cntr_attr,
            cntr: *mut *mut fid_cntr,
            context: *mut c_void,
        ) -> c_int,
        poll_open: fn(
            domain: *mut fid_domain,
            attr: *mut fi_poll_attr,
            pollset: *mut *mut fid_poll,
        ) -> c_int,
        stx_ctx: fn(
            domain: *mut fid_domain,
            attr: *mut fi_tx_attr,
            stx: *mut *mut fid_stx,
            context: *mut c_void,
        ) -> c_int,
        srx_ctx: fn(
            domain: *mut fid_domain,
            attr: *mut fi_rx_attr,
            rx_ep: *mut *mut fid_ep,
            context: *mut c_void,
        ) -> c_int,
        query_atomic: fn(
            domain: *mut fid_domain,
            datatype: fi_datatype,
            op: fi_op,
            attr: *mut fi_atomic_attr,
            flags: u64,
        ) -> c_int,
        query_collective: fn(
            domain: *mut fid_domain,
            coll: fi_collective_op,
            attr: *mut fi_collective_attr,
            flags: u64,
        ) -> c_int,
        endpoint2: fn(
            domain: *mut fid_domain,
            info: *mut fi_info,
            ep: *mut *mut fid_ep,
            flags: u64,
            context: *mut c_void,
        ) -> c_int,
        xpu_ctx: fn(domain: *mut fid_domain) -> c_int,
    }
}

ops_table! {
    /// Memory registration of a domain.
    pub struct fi_ops_mr {
        reg: fn(
            fid: *mut fid,
            buf: *const c_void,
            len: usize,
            access: u64,
            offset: u64,
            requested_key: u64,
            flags: u64,
            mr: *mut *mut fid_mr,
            context: *mut c_void,
        ) -> c_int,
        regv: fn(
            fid: *mut fid,
            iov: *const iovec,
            count: usize,
            access: u64,
            offset: u64,
            requested_key: u64,
            flags: u64,
            mr: *mut *mut fid_mr,
            context: *mut c_void,
        ) -> c_int,
        regattr: fn(
            fid: *mut fid,
            attr: *const fi_mr_attr,
            flags: u64,
            mr: *mut *mut fid_mr,
        ) -> c_int,
    }
}

ops_table! {
    /// Endpoint operations. `export_xpu` belongs to node 1.10.
    pub struct fi_ops_ep {
        cancel: fn(fid: *mut fid, context: *mut c_void) -> isize,
        getopt: fn(
            fid: *mut fid,
            level: c_int,
            optname: c_int,
            optval: *mut c_void,
            optlen: *mut usize,
        ) -> c_int,
        setopt: fn(
            fid: *mut fid,
            level: c_int,
            optname: c_int,
            optval: *const c_void,
            optlen: usize,
        ) -> c_int,
        tx_ctx: fn(
            sep: *mut fid_ep,
            index: c_int,
            attr: *mut fi_tx_attr,
            tx_ep: *mut *mut fid_ep,
            context: *mut c_void,
        ) -> c_int,
        rx_ctx: fn(
            sep: *mut fid_ep,
            index: c_int,
            attr: *mut fi_rx_attr,
            rx_ep: *mut *mut fid_ep,
            context: *mut c_void,
        ) -> c_int,
        rx_size_left: fn(ep: *mut fid_ep) -> isize,
        tx_size_left: fn(ep: *mut fid_ep) -> isize,
        export_xpu: fn(ep: *mut fid_ep) -> c_int,
    }
}

ops_table! {
    /// Connection management.
    pub struct fi_ops_cm {
        setname: fn(fid: *mut fid, addr: *mut c_void, addrlen: usize) -> c_int,
        getname: fn(fid: *mut fid, addr: *mut c_void, addrlen: *mut usize) -> c_int,
        getpeer: fn(ep: *mut fid_ep, addr: *mut c_void, addrlen: *mut usize) -> c_int,
        connect: fn(
            ep: *mut fid_ep,
            addr: *const c_void,
            param: *const c_void,
            paramlen: usize,
        ) -> c_int,
        listen: fn(pep: *mut fid_pep) -> c_int,
        accept: fn(ep: *mut fid_ep, param: *const c_void, paramlen: usize) -> c_int,
        reject: fn(
            pep: *mut fid_pep,
            handle: *mut fid,
            param: *const c_void,
            paramlen: usize,
        ) -> c_int,
        shutdown: fn(ep: *mut fid_ep, flags: u64) -> c_int,
        join: fn(
            ep: *mut fid_ep,
            addr: *const c_void,
            flags: u64,
            mc: *mut *mut fid_mc,
            context: *mut c_void,
        ) -> c_int,
    }
}

ops_table! {
    /// Address vector operations. `lookup2` belongs to node 1.10.
    pub struct fi_ops_av {
        insert: fn(
            av: *mut fid_av,
            addr: *const c_void,
            count: usize,
            fi_addr: *mut fi_addr_t,
            flags: u64,
            context: *mut c_void,
        ) -> c_int,
        insertsvc: fn(
            av: *mut fid_av,
            node: *const c_char,
            service: *const c_char,
            fi_addr: *mut fi_addr_t,
            flags: u64,
            context: *mut c_void,
        ) -> c_int,
        insertsym: fn(
            av: *mut fid_av,
            node: *const c_char,
            nodecnt: usize,
            service: *const c_char,
            svccnt: usize,
            fi_addr: *mut fi_addr_t,
            flags: u64,
            context: *mut c_void,
        ) -> c_int,
        remove: fn(av: *mut fid_av, fi_addr: *mut fi_addr_t, count: usize, flags: u64) -> c_int,
        lookup: fn(
            av: *mut fid_av,
            fi_addr: fi_addr_t,
            addr: *mut c_void,
            addrlen: *mut usize,
        ) -> c_int,
        straddr: fn(
            av: *mut fid_av,
            addr: *const c_void,
            buf: *mut c_char,
            len: *mut usize,
        ) -> *const c_char,
        av_set: fn(
            av: *mut fid_av,
            attr: *mut fi_av_set_attr,
            av_set: *mut *mut fid_av_set,
            context: *mut c_void,
        ) -> c_int,
        insert_auth_key: fn(
            av: *mut fid_av,
            auth_key: *const c_void,
            auth_key_size: usize,
            fi_addr: *mut fi_addr_t,
            flags: u64,
        ) -> c_int,
        lookup_auth_key: fn(
            av: *mut fid_av,
            addr: fi_addr_t,
            auth_key: *mut c_void,
            auth_key_size: *mut usize,
        ) -> c_int,
        set_user_id: fn(
            av: *mut fid_av,
            fi_addr: fi_addr_t,
            user_id: fi_addr_t,
            flags: u64,
        ) -> c_int,
        lookup2: fn(av: *mut fid_av) -> c_int,
    }
}

ops_table! {
    /// Completion queue operations. `export_xpu` belongs to node 1.10.
    pub struct fi_ops_cq {
        read: fn(cq: *mut fid_cq, buf: *mut c_void, count: usize) -> isize,
        readfrom: fn(
            cq: *mut fid_cq,
            buf: *mut c_void,
            count: usize,
            src_addr: *mut fi_addr_t,
        ) -> isize,
        readerr: fn(cq: *mut fid_cq, buf: *mut fi_cq_err_entry, flags: u64) -> isize,
        sread: fn(
            cq: *mut fid_cq,
            buf: *mut c_void,
            count: usize,
            cond: *const c_void,
            timeout: c_int,
        ) -> isize,
        sreadfrom: fn(
            cq: *mut fid_cq,
            buf: *mut c_void,
            count: usize,
            src_addr: *mut fi_addr_t,
            cond: *const c_void,
            timeout: c_int,
        ) -> isize,
        signal: fn(cq: *mut fid_cq) -> c_int,
        strerror: fn(
            cq: *mut fid_cq,
            prov_errno: c_int,
            err_data: *const c_void,
            buf: *mut c_char,
            len: usize,
        ) -> *const c_char,
        export_xpu: fn(cq: *mut fid_cq) -> c_int,
    }
}

ops_table! {
    /// Counter operations. `export_xpu` belongs to node 1.10.
    pub struct fi_ops_cntr {
        read: fn(cntr: *mut fid_cntr) -> u64,
        readerr: fn(cntr: *mut fid_cntr) -> u64,
        add: fn(cntr: *mut fid_cntr, value: u64) -> c_int,
        set: fn(cntr: *mut fid_cntr, value: u64) -> c_int,
        wait: fn(cntr: *mut fid_cntr, threshold: u64, timeout: c_int) -> c_int,
        adderr: fn(cntr: *mut fid_cntr, value: u64) -> c_int,
        seterr: fn(cntr: *mut fid_cntr, value: u64) -> c_int,
        export_xpu: fn(cntr: *mut fid_cntr) -> c_int,
    }
}

ops_table! {
    /// Event queue operations.
    pub struct fi_ops_eq {
        read: fn(
            eq: *mut fid_eq,
            event: *mut u32,
            buf: *mut c_void,
            len: usize,
            flags: u64,
        ) -> isize,
        readerr: fn(eq: *mut fid_eq, buf: *mut fi_eq_err_entry, flags: u64) -> isize,
        write: fn(eq: *mut fid_eq, event: u32, buf: *const c_void, len: usize, flags: u64) -> isize,
        sread: fn(
            eq: *mut fid_eq,
            event: *mut u32,
            buf: *mut c_void,
            len: usize,
            timeout: c_int,
            flags: u64,
        ) -> isize,
        strerror: fn(
            eq: *mut fid_eq,
            prov_errno: c_int,
            err_data: *const c_void,
            buf: *mut c_char,
            len: usize,
        ) -> *const c_char,
    }
}

ops_table! {
    /// Wait set operations.
    pub struct fi_ops_wait {
        wait: fn(waitset: *mut fid_wait, timeout: c_int) -> c_int,
    }
}

ops_table! {
    /// Poll set operations.
    pub struct fi_ops_poll {
        poll: fn(pollset: *mut fid_poll, context: *mut *mut c_void, count: c_int) -> c_int,
        poll_add: fn(pollset: *mut fid_poll, event_fid: *mut fid, flags: u64) -> c_int,
        poll_del: fn(pollset: *mut fid_poll, event_fid: *mut fid, flags: u64) -> c_int,
    }
}

const _: () = assert!(size_of::<fi_ops_fabric>() == 56);
const _: () = assert!(size_of::<fi_ops_domain>() == 104);
const _: () = assert!(size_of::<fi_ops_ep>() == 72);
const _: () = assert!(size_of::<fi_ops_cm>() == 80);
const _: () = assert!(size_of::<fi_ops_av>() == 96);
const _: () = assert!(size_of::<fi_ops_cq>() == 72);
const _: () = assert!(size_of::<fi_ops_cntr>() == 72);
const _: () = assert!(size_of::<fi_ops_eq>() == 48);
