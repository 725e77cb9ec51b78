//! SETUP. `fi_open`: objects by name.
//!
//! | name              | object                                                                  |
//! |-------------------|-------------------------------------------------------------------------|
//! | `logging`         | takes an application's log callbacks ([`crate::logging`])                 |
//! | `mr_cache`        | takes an application's memory monitor ([`crate::monitor`])                |
//! | `percale_explain` | what this thread's last discovery rejected, as text (`rdma/percale.h`)  |
//!
//! Others are `ENOSYS`.

use core::{
    ffi::{c_char, c_int, c_void},
    fmt::Write,
};
use std::{ffi::CString, sync::Arc};

use fabric_core::{Errno, Result, attr::Version, discovery};

use crate::{
    abi::{
        Plain,
        constants::FI_CLASS_INTERFACE,
        ext::fid_percale_explain,
        fid::{fi_ops, fid},
    },
    logging, monitor,
    object::{self, CObject, Shell},
    panic::status,
    text,
};

/// `fi_open`. `EINVAL` for attributes, which no object has, and below version 1.13; `EBADFLAGS`
/// for flags.
///
/// # Safety
/// `name` is a terminated text or null, `object` has room for a pointer or is null.
pub(crate) unsafe fn open(
    version: u32,
    name: *const c_char,
    _attr: *mut c_void,
    attr_len: usize,
    flags: u64,
    object: *mut *mut fid,
    context: *mut c_void,
) -> c_int {
    let open = || {
        // SAFETY: the caller passes a terminated text or null.
        let name = unsafe { text::read(name) }?.ok_or(Errno::EINVAL)?;
        if object.is_null() || attr_len != 0 || Version(version) < Version::new(1, 13) {
            return Err(Errno::EINVAL);
        }
        if flags != 0 {
            return Err(Errno::EBADFLAGS);
        }
        let opened = match &*name {
            "logging" => logging::open(context)?,
            "mr_cache" => monitor::open(context),
            "percale_explain" => explain(context)?,
            _ => return Err(Errno::ENOSYS),
        };
        // SAFETY: not null, so the caller has room for a pointer.
        unsafe { object.write(opened) };
        Ok(())
    };
    status(open())
}

/// The object "percale_explain": the text that its head points to.
#[derive(Debug)]
struct Explanation {
    _text: CString,
}

impl CObject for Explanation {
    type Head = fid_percale_explain;
    const CLASS: usize = FI_CLASS_INTERFACE;
}

fn explain(context: *mut c_void) -> Result<*mut fid> {
    let mut lines = String::new();
    for rejection in discovery::last_report() {
        // Names in a report come from hints; a text of C ends at the first zero byte.
        let line = rejection.to_string().replace('\0', "\u{fffd}");
        let _ = writeln!(lines, "{line}");
    }
    let text = CString::new(lines).map_err(|_| Errno::EINVAL)?;
    let mut head = fid_percale_explain { text: text.as_ptr(), ..fid_percale_explain::zeroed() };
    head.fid.ops = (&raw const *OPS).cast_mut();
    Ok(object::open(Arc::new(Explanation { _text: text }), context, head).cast())
}

const OPS: &fi_ops = &fi_ops { close, ..fi_ops::UNSUPPORTED };

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: the caller passes an object that nobody else closes now.
    unsafe { object::close(fid, |shell: &Shell<Explanation>| shell.retire().map(drop)) }
}

#[cfg(test)]
mod tests {
    use core::ffi::CStr;

    use super::*;
    use crate::{
        abi::{
            constants::FI_CLASS_LOG,
            ext::{fi_ops_log, fi_provider, fid_logging},
            info::{fi_fabric_attr, fi_info},
        },
        getinfo,
        info::Hints,
        node::Node,
    };

    fn opened(name: &CStr) -> (c_int, *mut fid) {
        let mut fid = core::ptr::null_mut();
        let null = core::ptr::null_mut();
        let version = Version::new(2, 6).0;
        // SAFETY: a terminated name and room for a pointer.
        let code = unsafe { open(version, name.as_ptr(), null, 0, 0, &raw mut fid, null) };
        (code, fid)
    }

    /// # Safety
    /// `fid` is an object that is open, or was.
    unsafe fn closed(fid: *mut fid) -> c_int {
        // SAFETY: every object has a table.
        unsafe { ((*(*fid).ops).close)(fid) }
    }

    #[test]
    fn unknown_objects_and_bad_arguments() {
        assert_eq!(opened(c"mr_caches").0, -38);
        assert_eq!(opened(c"").0, -38);
        let (mut fid, null) = (core::ptr::null_mut(), core::ptr::null_mut());
        let mut code = |version, name: *const c_char, len, flags| {
            // SAFETY: names are terminated or null.
            unsafe { open(version, name, null, len, flags, &raw mut fid, null) }
        };
        let (new, old) = (Version::new(1, 13).0, Version::new(1, 12).0);
        assert_eq!(code(new, core::ptr::null(), 0, 0), -22);
        assert_eq!(code(new, c"logging".as_ptr(), 1, 0), -22);
        assert_eq!(code(old, c"logging".as_ptr(), 0, 0), -22);
        assert_eq!(code(new, c"logging".as_ptr(), 0, 1), -260);
    }

    #[test]
    fn explains_the_last_discovery() {
        let mut raw = fi_info::zeroed();
        let mut attr = fi_fabric_attr::zeroed();
        attr.prov_name = c"nonesuch".as_ptr().cast_mut();
        raw.fabric_attr = &raw mut attr;
        // SAFETY: a whole info.
        let hints = unsafe { Hints::read(&raw const raw, Node::V1_9, Version::new(2, 6)) };
        let hints = hints.unwrap().unwrap();
        let version = Version::new(2, 6);
        let none = fabric_core::flags::Flags::empty();
        let found = getinfo::getinfo(version, None, None, none, Some(&hints));
        assert!(found.is_err());
        let (code, fid) = opened(c"percale_explain");
        assert_eq!(code, 0);
        // SAFETY: the object is open.
        let text = unsafe { CStr::from_ptr((*fid.cast::<fid_percale_explain>()).text) };
        let text = text.to_str().unwrap();
        assert!(text.contains("nonesuch") && text.ends_with('\n'), "{text}");
        // SAFETY: closed objects stay readable.
        unsafe {
            assert_eq!(closed(fid), 0);
            assert_eq!(closed(fid), -22);
        }
    }

    static SEEN: std::sync::Mutex<Vec<String>> = std::sync::Mutex::new(Vec::new());

    unsafe extern "C" fn note(
        provider: *const fi_provider,
        level: u32,
        _: u32,
        _: *const c_char,
        _: c_int,
        message: *const c_char,
    ) {
        // SAFETY: both are terminated texts.
        let (name, text) = unsafe { (CStr::from_ptr((*provider).name), CStr::from_ptr(message)) };
        SEEN.lock().unwrap().push(format!("{name:?} {level} {text:?}"));
    }

    unsafe extern "C" fn always(_: *const fi_provider, _: u32, _: u32, _: u64) -> c_int {
        1
    }

    #[test]
    fn an_application_takes_the_log_over() {
        let (code, object) = opened(c"logging");
        assert_eq!(code, 0);
        let mut ops = fi_ops_log {
            size: size_of::<fi_ops_log>() - 1,
            enabled: Some(always),
            log: Some(note),
            ..fi_ops_log::zeroed()
        };
        let mut theirs = fid_logging::zeroed();
        theirs.ops = &raw mut ops;
        let theirs: *mut fid_logging = &raw mut theirs;
        // SAFETY: both objects are whole.
        let import = move |flags| unsafe { ((*(*object).ops).bind)(object, theirs.cast(), flags) };
        assert_eq!(import(0), -22, "wrong class");
        // SAFETY: the object is ours.
        unsafe { (*theirs).fid.fclass = FI_CLASS_LOG };
        assert_eq!(import(0), -22, "short table");
        // SAFETY: the table is ours.
        unsafe { (*(*theirs).ops).size = size_of::<fi_ops_log>() };
        assert_eq!(import(1), -22, "flags");
        assert_eq!(import(0), 0);
        assert_eq!(import(0), -114);
        assert_eq!(opened(c"logging").0, -114);
        // SAFETY: the object is open.
        assert_eq!(unsafe { closed(object) }, 0);

        fabric_core::debug!("ffitest", fabric_core::log::Subsys::Mr, "hello {}", 1);
        let line = "\"ffitest\" 3 \"hello 1\"".to_owned();
        assert!(SEEN.lock().unwrap().contains(&line));

        // SAFETY: the object is whole, with a table of the library's.
        unsafe {
            assert_eq!(closed(theirs.cast()), 0);
            assert_eq!(closed(theirs.cast()), -22);
        }
        let count = SEEN.lock().unwrap().len();
        fabric_core::debug!("ffitest", fabric_core::log::Subsys::Mr, "unheard");
        assert_eq!(SEEN.lock().unwrap().len(), count);
    }
}
