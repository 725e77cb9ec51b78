//! Two endpoints of one process, opened with the bindings.

use std::{
    env,
    ffi::{CStr, CString},
    ptr::null_mut,
};

use ofi_libfabric_sys::bindgen::*;

/// Panics with the library's words if a call was refused.
#[track_caller]
pub fn ok(status: isize) -> isize {
    if status < 0 {
        // SAFETY: the library's texts are constants.
        let words = unsafe { CStr::from_ptr(fi_strerror(-status as i32)) };
        panic!("{}", words.to_string_lossy());
    }
    status
}

/// A provider's domain, and two endpoints on one queue that know each other.
pub struct Pair {
    pub info: *mut fi_info,
    fabric: *mut fid_fabric,
    pub domain: *mut fid_domain,
    av: *mut fid_av,
    cq: *mut fid_cq,
    pub ends: [*mut fid_ep; 2],
    pub addresses: [fi_addr_t; 2],
}

impl Pair {
    /// Of the provider that the first argument names, at the address that the second one names.
    pub fn open(caps: u64) -> Self {
        let words: Vec<CString> =
            env::args().map(|word| CString::new(word).expect("a word")).collect();
        let [_, provider, rest @ ..] = &words[..] else { panic!("which provider?") };
        let node = rest.first().map_or(std::ptr::null(), |node| node.as_ptr());
        let source = if node.is_null() { 0 } else { u64::from(FI_SOURCE) };
        // SAFETY: structures of the library's own, filled in as the manual pages say; what is opened
        // is closed in `drop`, children first.
        unsafe {
            let hints = fi_allocinfo();
            (*(*hints).ep_attr).type_ = fi_ep_type_FI_EP_RDM;
            (*hints).caps = caps;
            (*(*hints).domain_attr).mr_mode =
                (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY) as i32;
            (*(*hints).fabric_attr).prov_name = libc::strdup(provider.as_ptr());
            let mut pair = Self {
                info: null_mut(),
                fabric: null_mut(),
                domain: null_mut(),
                av: null_mut(),
                cq: null_mut(),
                ends: [null_mut(); 2],
                addresses: [0; 2],
            };
            let version = FI_MAJOR_VERSION << 16 | FI_MINOR_VERSION;
            let found = fi_getinfo(version, node, std::ptr::null(), source, hints, &mut pair.info);
            ok(found as isize);
            fi_freeinfo(hints);
            ok(fi_fabric((*pair.info).fabric_attr, &mut pair.fabric, null_mut()) as isize);
            ok(fi_domain(pair.fabric, pair.info, &mut pair.domain, null_mut()) as isize);
            let mut av_attr = fi_av_attr { type_: fi_av_type_FI_AV_TABLE, ..Default::default() };
            ok(fi_av_open(pair.domain, &mut av_attr, &mut pair.av, null_mut()) as isize);
            let mut cq_attr = fi_cq_attr {
                format: fi_cq_format_FI_CQ_FORMAT_MSG,
                wait_obj: fi_wait_obj_FI_WAIT_UNSPEC,
                ..Default::default()
            };
            ok(fi_cq_open(pair.domain, &mut cq_attr, &mut pair.cq, null_mut()) as isize);
            for (end, address) in pair.ends.iter_mut().zip(&mut pair.addresses) {
                ok(fi_endpoint(pair.domain, pair.info, end, null_mut()) as isize);
                let both = u64::from(FI_TRANSMIT | FI_RECV);
                ok(fi_ep_bind(*end, &mut (*pair.av).fid, 0) as isize);
                ok(fi_ep_bind(*end, &mut (*pair.cq).fid, both) as isize);
                ok(fi_enable(*end) as isize);
                let (mut name, mut len) = ([0u8; 256], 256);
                ok(fi_getname(&mut (**end).fid, name.as_mut_ptr().cast(), &mut len) as isize);
                let name = name.as_ptr().cast();
                assert_eq!(fi_av_insert(pair.av, name, 1, address, 0, null_mut()), 1);
            }
            pair
        }
    }

    /// Waits for one operation, and returns its context.
    pub fn next_done(&self) -> usize {
        let mut done = fi_cq_msg_entry::default();
        // SAFETY: room for one entry of the queue's format.
        let count =
            unsafe { fi_cq_sread(self.cq, (&raw mut done).cast(), 1, std::ptr::null(), 10_000) };
        if count == -(FI_EAVAIL as isize) {
            let mut error = fi_cq_err_entry::default();
            // SAFETY: room for one error entry.
            ok(unsafe { fi_cq_readerr(self.cq, &mut error, 0) });
            ok(-(error.err as isize));
        }
        ok(count);
        done.op_context as usize
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // SAFETY: open objects, children first; each is used no more.
        unsafe {
            for end in self.ends {
                ok(fi_close(&mut (*end).fid) as isize);
            }
            ok(fi_close(&mut (*self.cq).fid) as isize);
            ok(fi_close(&mut (*self.av).fid) as isize);
            ok(fi_close(&mut (*self.domain).fid) as isize);
            ok(fi_close(&mut (*self.fabric).fid) as isize);
            fi_freeinfo(self.info);
        }
    }
}
