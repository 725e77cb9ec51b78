//! Address vectors.

use core::ffi::{CStr, c_char};

use super::*;
use crate::abi::{
    attr::fi_eq_attr,
    event::{fi_eq_entry, fi_eq_err_entry},
};

impl Open {
    pub(super) fn av(&self, attr: &mut fi_av_attr) -> Result<*mut fid_av, c_int> {
        let mut av = core::ptr::null_mut();
        // SAFETY: the domain is open.
        let code = unsafe { ((*(*self.domain).ops).av_open)(self.domain, attr, &raw mut av, NULL) };
        if code == 0 { Ok(av) } else { Err(code) }
    }

    pub(super) fn eq(&self, wait_obj: u32) -> *mut fid_eq {
        let mut eq = core::ptr::null_mut();
        let mut attr = fi_eq_attr { wait_obj, flags: FI_WRITE, ..fi_eq_attr::zeroed() };
        // SAFETY: the fabric is open.
        let code = unsafe {
            ((*(*self.fabric).ops).eq_open)(self.fabric, &raw mut attr, &raw mut eq, NULL)
        };
        assert_eq!(code, 0);
        eq
    }
}

fn insert(
    av: *mut fid_av,
    texts: &[u8],
    handles: &mut [u64],
    flags: u64,
    ctx: *mut c_void,
) -> c_int {
    let count = handles.len();
    // SAFETY: the vector is open; the texts are terminated, one for each handle.
    unsafe {
        ((*(*av).ops).insert)(av, texts.as_ptr().cast(), count, handles.as_mut_ptr(), flags, ctx)
    }
}

fn lookup(av: *mut fid_av, handle: u64, buf: &mut [u8]) -> (c_int, usize) {
    let mut len = buf.len();
    // SAFETY: the vector is open.
    let code = unsafe { ((*(*av).ops).lookup)(av, handle, buf.as_mut_ptr().cast(), &raw mut len) };
    (code, len)
}

fn remove(av: *mut fid_av, mut handle: u64, flags: u64) -> c_int {
    // SAFETY: the vector is open.
    unsafe { ((*(*av).ops).remove)(av, &raw mut handle, 1, flags) }
}

#[test]
fn kinds_and_flags() {
    let open = Open::new();
    for kind in [FI_AV_UNSPEC, FI_AV_MAP, FI_AV_TABLE] {
        let mut attr = fi_av_attr { r#type: kind, ..fi_av_attr::zeroed() };
        let av = open.av(&mut attr).unwrap();
        assert_eq!(attr.r#type, FI_AV_TABLE);
        assert_eq!(close(av), 0);
    }
    let refused = |attr: fi_av_attr| open.av(&mut { attr }).unwrap_err();
    let attr = fi_av_attr::zeroed();
    assert_eq!(refused(fi_av_attr { r#type: 3, ..attr }), -22);
    assert_eq!(refused(fi_av_attr { name: c"shared".as_ptr(), ..attr }), -38);
    assert_eq!(refused(fi_av_attr { flags: FI_MORE, ..attr }), -260);
    assert_eq!(refused(fi_av_attr { flags: FI_PEER, ..attr }), -22);
}

#[test]
fn insert_look_up_remove() {
    let open = Open::new();
    let av = open.av(&mut fi_av_attr::zeroed()).unwrap();
    let mut one = [9];
    assert_eq!(insert(av, b"fi_shm://a\0", &mut one, 0, NULL), 1);
    let mut three = [9; 3];
    let mut errors = [9 as c_int; 3];
    let context = errors.as_mut_ptr().cast();
    assert_eq!(insert(av, b"fi_shm://b\0bad/name\0c\0", &mut three, FI_SYNC_ERR, context), 2);
    assert_eq!((one, three), ([0], [1, FI_ADDR_NOTAVAIL, 2]));
    assert_eq!(errors, [0, 22, 0]);
    assert_eq!(insert(av, b"d\0", &mut one, FI_SYNC_ERR, NULL), -22);
    assert_eq!(insert(av, b"d\0", &mut one, FI_PEEK, NULL), -260);

    let mut buf = [0; 32];
    assert_eq!(lookup(av, 1, &mut buf), (0, 11));
    assert_eq!(&buf[..11], b"fi_shm://b\0");
    let mut short = [7; 4];
    assert_eq!(lookup(av, 1, &mut short[..3]), (0, 11));
    assert_eq!(&short, b"fi_\x07");
    assert_eq!(lookup(av, 5, &mut buf).0, -22);

    assert_eq!(remove(av, 1, 1), -260);
    assert_eq!(remove(av, 1, 0), 0);
    assert_eq!(remove(av, 1, 0), -22);
    assert_eq!(insert(av, b"e\0", &mut one, 0, NULL), 1);
    assert_eq!(one, [1], "the lowest free index");
    assert_eq!(close(av), 0);
    assert_eq!(insert(av, b"e\0", &mut one, 0, NULL), -22);
}

#[test]
fn names_and_texts() {
    let open = Open::new();
    let av = open.av(&mut fi_av_attr::zeroed()).unwrap();
    // SAFETY: the vector is open.
    let ops = unsafe { &*(*av).ops };
    let mut handles = [9u64; 6];
    let out = handles.as_mut_ptr();
    let (node, service) = (c"n08".as_ptr(), c"1".as_ptr());
    let null = core::ptr::null::<c_char>();
    // SAFETY: terminated texts or null; the array is long enough.
    unsafe {
        assert_eq!((ops.insertsvc)(av, node, service, out, 0, NULL), 1);
        assert_eq!((ops.insertsvc)(av, null, null, out, 0, NULL), -22);
        assert_eq!((ops.insertsym)(av, node, 3, service, 2, out, 0, NULL), 6);
        assert_eq!((ops.insertsym)(av, node, usize::MAX, service, 2, out, 0, NULL), -22);
        assert_eq!((ops.insertsym)(av, null, 1, service, 1, out, 0, NULL), -22);
    }
    assert_eq!(handles, [0, 1, 2, 3, 4, 5], "the first pair is the one of before");
    let mut buf = [0; 32];
    assert_eq!(lookup(av, 5, &mut buf), (0, 15));
    assert_eq!(&buf[..15], b"fi_shm://n10:2\0");

    let (mut text, mut len) = ([1 as c_char; 8], 8);
    // SAFETY: a terminated address, room for `len` bytes.
    let told = unsafe {
        (ops.straddr)(av, c"fi_shm://abc".as_ptr().cast(), text.as_mut_ptr(), &raw mut len)
    };
    assert_eq!((told, len), (text.as_ptr(), 13));
    // SAFETY: the text is terminated within the buffer.
    assert_eq!(unsafe { CStr::from_ptr(told) }, c"fi_shm:");
    assert_eq!(close(av), 0);
}

#[test]
fn ids_of_the_application() {
    let open = Open::new();
    let av = open.av(&mut fi_av_attr::zeroed()).unwrap();
    let mut ids = [500];
    assert_eq!(insert(av, b"a\0", &mut ids, FI_AV_USER_ID, NULL), 1);
    assert_eq!(ids, [0]);
    // SAFETY: the vector is open.
    let set = |av: *mut fid_av, flags| unsafe { ((*(*av).ops).set_user_id)(av, 0, 7, flags) };
    assert_eq!(set(av, 0), -22, "ids came with the insertions");
    assert_eq!(close(av), 0);

    let mut attr = fi_av_attr { flags: FI_AV_USER_ID, ..fi_av_attr::zeroed() };
    let av = open.av(&mut attr).unwrap();
    assert_eq!(insert(av, b"a\0", &mut ids, FI_AV_USER_ID, NULL), -22);
    assert_eq!(insert(av, b"a\0", &mut ids, 0, NULL), 1);
    assert_eq!((set(av, 1), set(av, 0)), (-260, 0));
    assert_eq!(close(av), 0);
}

#[test]
fn insertions_as_events() {
    let open = Open::new();
    let mut attr = fi_av_attr { flags: FI_EVENT, ..fi_av_attr::zeroed() };
    let av = open.av(&mut attr).unwrap();
    let eq = open.eq(FI_WAIT_NONE);
    let (mut handles, context) = ([9; 2], core::ptr::dangling_mut::<c_void>());
    assert_eq!(insert(av, b"a\0", &mut handles[..1], 0, context), -261);
    assert_eq!(bind(av, open.domain, 0), -22);
    assert_eq!(bind(av, eq, 1), -260);
    assert_eq!(bind(av, eq, 0), 0);
    assert_eq!(bind(av, eq, 0), -22);
    assert_eq!(insert(av, b"a\0bad/name\0", &mut handles, 0, context), 0);
    assert_eq!(handles, [0, FI_ADDR_NOTAVAIL]);

    let mut event = 99;
    let mut entry = fi_eq_entry::zeroed();
    let mut error = fi_eq_err_entry::zeroed();
    // SAFETY: the queue is open, the variables have room.
    let mut read =
        || unsafe { ((*(*eq).ops).read)(eq, &raw mut event, (&raw mut entry).cast(), 24, 0) };
    assert_eq!(read(), -259);
    // SAFETY: as above.
    assert_eq!(unsafe { ((*(*eq).ops).readerr)(eq, &raw mut error, 0) }, 48);
    assert_eq!((error.data, error.err, error.fid), (1, 22, av.cast()));
    assert_eq!(read(), 24);
    assert_eq!(read(), -11);
    assert_eq!((event, entry.data, entry.context), (FI_AV_COMPLETE, 1, context));
    assert_eq!(close(eq), -16, "the vector reports there");
    assert_eq!(close(av), 0);
    assert_eq!(close(eq), 0);
}
