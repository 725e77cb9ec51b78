//! Completion queues, counters and event queues.

use core::ffi::CStr;

use fabric_core::{
    Errno,
    api::Endpoint,
    completion::{CqError, Entry},
    lock::{NoLock, SafeLock},
};
use provider_shm::ShmEndpoint;

use super::*;
use crate::{
    abi::{
        attr::{fi_cq_attr, fi_wait_pollfd},
        event::{fi_cq_err_entry, fi_cq_tagged_entry},
        fid::fid_cq,
    },
    object::from_fid,
    shim::payload::CqObject,
};

impl Open {
    pub(super) fn cq(&self, attr: &fi_cq_attr) -> Result<*mut fid_cq, c_int> {
        let (mut cq, mut attr) = (core::ptr::null_mut(), *attr);
        // SAFETY: the domain is open.
        let code = unsafe {
            ((*(*self.domain).ops).cq_open)(self.domain, &raw mut attr, &raw mut cq, NULL)
        };
        if code == 0 { Ok(cq) } else { Err(code) }
    }

    fn trywait<T>(&self, object: *mut T) -> c_int {
        let mut fids = [object.cast::<fid>()];
        // SAFETY: the fabric and the object are open.
        unsafe { ((*(*self.fabric).ops).trywait)(self.fabric, fids.as_mut_ptr(), 1) }
    }
}

/// The queue behind a descriptor.
fn queue<'a, E: Endpoint>(cq: *mut fid_cq) -> &'a CqObject<E> {
    // SAFETY: the queue is open.
    unsafe { from_fid::<CqObject<E>>(cq.cast()) }.unwrap().payload().unwrap()
}

fn read(cq: *mut fid_cq, out: &mut [u64], count: usize) -> isize {
    // SAFETY: the queue is open, and the tests give enough room.
    unsafe { ((*(*cq).ops).read)(cq, out.as_mut_ptr().cast(), count) }
}

fn readable(fd: c_int) -> bool {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor.
    unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
}

fn entry(context: usize) -> Entry {
    Entry { len: 5, data: 6, tag: 7, src: 8, ..Entry::new(context, Flags::RECV | Flags::TAGGED) }
}

#[test]
fn each_format_is_a_prefix() {
    let open = Open::new();
    for (format, words) in [(0, 1), (1, 1), (2, 3), (3, 5), (4, 6)] {
        let cq = open.cq(&fi_cq_attr { format, ..fi_cq_attr::zeroed() }).unwrap();
        let object = queue::<ShmEndpoint<SafeLock>>(cq);
        for context in [1, 2, 3] {
            object.cq.queue().push(entry(context));
        }
        let mut out = [99; 13];
        assert_eq!(read(cq, &mut [], 0), 0);
        assert_eq!(read(cq, &mut out, 2), 2);
        assert_eq!((out[0], out[words], out[2 * words]), (1, 2, 99), "format {format}");
        if let [_, flags, 5, _, 6, 7] = out[..words] {
            assert_eq!(flags, FI_RECV | FI_TAGGED);
        }
        // SAFETY: the queue is open, with room for one entry and one source.
        let code = unsafe {
            let (entries, src) = out.split_at_mut(12);
            ((*(*cq).ops).readfrom)(cq, entries.as_mut_ptr().cast(), 1, src.as_mut_ptr())
        };
        assert_eq!((code, out[0], out[12]), (1, 3, 8));
        assert_eq!(read(cq, &mut out, 1), -11);
        // SAFETY: the queue is open; nulls are refused.
        assert_eq!(unsafe { ((*(*cq).ops).read)(cq, NULL, 1) }, -22);
        assert_eq!(close(cq), 0);
    }
    let refused = |attr: fi_cq_attr| open.cq(&attr).unwrap_err();
    let attr = fi_cq_attr::zeroed();
    assert_eq!(refused(fi_cq_attr { format: 5, ..attr }), -22);
    assert_eq!(refused(fi_cq_attr { wait_obj: FI_WAIT_SET, ..attr }), -22);
    assert_eq!(refused(fi_cq_attr { wait_obj: 7, ..attr }), -22);
    assert_eq!(refused(fi_cq_attr { wait_cond: 2, ..attr }), -22);
    assert_eq!(refused(fi_cq_attr { flags: FI_PEER, ..attr }), -22);
    assert_eq!(refused(fi_cq_attr { flags: FI_MORE, ..attr }), -260);
}

#[test]
fn error_entries() {
    let open = Open::with(|attr| attr.threading = FI_THREAD_DOMAIN);
    let cq = open.cq(&fi_cq_attr::zeroed()).unwrap();
    let object = queue::<ShmEndpoint<NoLock>>(cq);
    let push = || {
        let error = CqError { olen: 3, ..CqError::new(entry(4), Errno::ETRUNC) };
        object.cq.queue().push_error(error.data(b"peer"));
    };
    let mut out = fi_cq_err_entry::zeroed();
    // SAFETY: the queue is open, the entry whole.
    let readerr = |out: &mut fi_cq_err_entry, flags| unsafe {
        ((*(*cq).ops).readerr)(cq, &raw mut *out, flags)
    };
    assert_eq!(readerr(&mut out, 0), -11);
    push();
    assert_eq!(read(cq, &mut [0], 1), -259);
    assert_eq!(readerr(&mut out, 1), -260);
    assert_eq!(readerr(&mut out, 0), 1);
    assert_eq!((out.err, out.olen, out.tag, out.src_addr), (265, 3, 7, 8));
    assert_eq!(out.err_data_size, 4);
    // SAFETY: the library's buffer lives until the next error is read.
    let lent = unsafe { core::slice::from_raw_parts(out.err_data.cast::<u8>(), 4) };
    assert_eq!(lent, b"peer");

    let mut own = [0u8; 3];
    (out.err_data, out.err_data_size) = (own.as_mut_ptr().cast(), 3);
    push();
    assert_eq!((readerr(&mut out, 0), out.err_data_size, &own), (1, 3, b"pee"));

    let mut buf = [1; 8];
    // SAFETY: the queue is open, the buffer has this length.
    let text = unsafe { ((*(*cq).ops).strerror)(cq, 265, NULL, buf.as_mut_ptr(), 8) };
    // SAFETY: both are terminated.
    let (text, cut) = unsafe { (CStr::from_ptr(text), CStr::from_ptr(buf.as_ptr())) };
    assert_eq!((text, cut), (c"Truncation error", c"Truncat"));
    assert_eq!(close(cq), 0);
}

#[test]
fn an_older_caller_has_a_shorter_error_entry() {
    use fabric_core::attr::Version;
    for (version, size) in [(Version::new(1, 4), 72), (Version::new(1, 17), 80)] {
        let mut out = [fi_cq_err_entry::zeroed()];
        // SAFETY: plain bytes.
        let bytes = unsafe {
            let bytes = core::slice::from_raw_parts_mut(out.as_mut_ptr().cast::<u8>(), 88);
            bytes[size..].fill(0xee);
            bytes[72..80.min(size).max(72)].fill(0);
            super::super::cq::write_error(
                CqError::new(entry(4), Errno::EIO),
                version,
                bytes.as_mut_ptr().cast(),
                &mut Box::default(),
            );
            bytes
        };
        assert!(bytes[size..].iter().all(|byte| *byte == 0xee), "{version:?}");
        assert_eq!(out[0].err, 5);
    }
}

#[test]
fn sleeping_on_completions() {
    let open = Open::new();
    let attr = fi_cq_attr { wait_obj: FI_WAIT_FD, format: 4, ..fi_cq_attr::zeroed() };
    let cq = open.cq(&attr).unwrap();
    let (mut fd, mut kind) = (-1 as c_int, 0u32);
    assert_eq!(control(cq, FI_GETWAIT, &mut fd), 0);
    assert_eq!(control(cq, FI_GETWAITOBJ, &mut kind), 0);
    assert_eq!((fd >= 0, kind), (true, FI_WAIT_FD));
    assert_eq!(open.trywait(cq), 0);
    assert!(!readable(fd));
    queue::<ShmEndpoint<SafeLock>>(cq).cq.queue().push(entry(1));
    assert!(readable(fd));
    assert_eq!(open.trywait(cq), -11);
    let mut out = fi_cq_tagged_entry::zeroed();
    // SAFETY: the queue is open, with room for one entry.
    let mut sread =
        |timeout| unsafe { ((*(*cq).ops).sread)(cq, (&raw mut out).cast(), 1, NULL, timeout) };
    assert_eq!(sread(-1), 1);
    assert_eq!(sread(1), -11);
    // SAFETY: the queue is open.
    assert_eq!(unsafe { ((*(*cq).ops).signal)(cq) }, 0);
    assert_eq!(sread(-1), -11, "woken");
    assert_eq!(close(cq), 0);

    let attr = fi_cq_attr { wait_obj: FI_WAIT_POLLFD, ..attr };
    let cq = open.cq(&attr).unwrap();
    let mut fds = [libc::pollfd { fd: -1, events: 0, revents: 0 }];
    let mut answer = fi_wait_pollfd { nfds: 1, fd: fds.as_mut_ptr(), ..fi_wait_pollfd::zeroed() };
    assert_eq!(control(cq, FI_GETWAIT, &mut answer), 0);
    assert!(fds[0].fd >= 0 && fds[0].events == libc::POLLIN);
    assert_eq!(close(cq), 0);

    let cq = open.cq(&fi_cq_attr::zeroed()).unwrap();
    assert_eq!(control(cq, FI_GETWAIT, &mut fd), -61);
    assert_eq!(open.trywait(open.domain), -22);
    assert_eq!(open.trywait(core::ptr::null_mut::<fid>()), -22);
    assert_eq!(close(cq), 0);
    assert_eq!(open.trywait(cq), -22, "closed");
}

#[test]
fn counters() {
    let open = Open::new();
    let cntr = open.cntr(FI_WAIT_FD);
    // SAFETY: the counter is open.
    let ops = unsafe { &*(*cntr).ops };
    let mut fd = -1 as c_int;
    assert_eq!(control(cntr, FI_GETWAIT, &mut fd), 0);
    // SAFETY: the counter is open.
    unsafe {
        assert_eq!(((ops.set)(cntr, 5), (ops.add)(cntr, 2), (ops.read)(cntr)), (0, 0, 7));
        assert_eq!(((ops.seterr)(cntr, 3), (ops.adderr)(cntr, 1), (ops.readerr)(cntr)), (0, 0, 4));
        assert_eq!((ops.wait)(cntr, 7, -1), 0);
        assert_eq!((ops.wait)(cntr, 8, 1), -110);
        assert_eq!(open.trywait(cntr), 0);
        assert!(!readable(fd));
        (ops.add)(cntr, 1);
        assert!(readable(fd));
        assert_eq!(open.trywait(cntr), -11);
    }
    assert_eq!(close(cntr), 0);
    // SAFETY: closed objects refuse through their tables.
    unsafe {
        let ops = &*(*cntr).ops;
        assert_eq!(((ops.read)(cntr), (ops.add)(cntr, 1)), (0, -22));
    }

    let cntr = open.cntr(FI_WAIT_NONE);
    // SAFETY: the counter is open.
    assert_eq!(unsafe { ((*(*cntr).ops).wait)(cntr, 1, 0) }, -38);
    assert_eq!(close(cntr), 0);
}

#[test]
fn events_of_the_application() {
    let mut open = Open::new();
    let eq = open.eq(FI_WAIT_FD);
    // SAFETY: the queue is open.
    let ops = unsafe { &*(*eq).ops };
    let mut fd = -1 as c_int;
    assert_eq!(control(eq, FI_GETWAIT, &mut fd), 0);
    assert_eq!(open.trywait(eq), 0);
    let (mut event, mut buf) = (0, [0u8; 8]);
    let (number, room) = (&raw mut event, buf.as_mut_ptr().cast::<c_void>());
    let data = b"payload".as_ptr().cast();
    // SAFETY: the queue is open, buffers have the lengths given.
    unsafe {
        assert_eq!((ops.sread)(eq, number, room, 8, 1, 0), -11);
        assert_eq!((ops.write)(eq, 100, data, 7, 1), -260);
        assert_eq!((ops.write)(eq, 100, core::ptr::null(), 7, 0), -22);
        assert_eq!((ops.write)(eq, 100, data, 1 << 20, 0), -22);
        assert_eq!((ops.write)(eq, 100, data, 7, 0), 7);
        assert!(readable(fd));
        assert_eq!(open.trywait(eq), -11);
        assert_eq!((ops.read)(eq, core::ptr::null_mut(), room, 8, 0), -22);
        assert_eq!((ops.read)(eq, number, room, 3, FI_PEEK), 3);
        assert_eq!((ops.sread)(eq, number, room, 8, -1, 0), 7);
        assert_eq!((ops.read)(eq, number, room, 8, 0), -11);
    }
    assert_eq!((event, &buf[..7]), (100, b"payload".as_slice()));
    assert_eq!(bind(open.domain, eq, FI_REG_MR), -260);
    assert_eq!(bind(open.domain, eq, 0), 0);
    assert_eq!(close(eq), -16, "the domain is bound to it");
    let plain = open.eq(FI_WAIT_NONE);
    // SAFETY: the queue is open.
    assert_eq!(unsafe { ((*(*plain).ops).sread)(plain, number, room, 8, 0, 0) }, -38);
    assert_eq!(close(plain), 0);
    assert_eq!(close(core::mem::replace(&mut open.domain, core::ptr::null_mut())), 0);
    assert_eq!(close(eq), 0);
}
