//! A write to, and a read from, another endpoint's memory.

use std::ptr::null_mut;

use ofi_libfabric_sys::bindgen::*;
use percale_bindings_client::{Pair, ok};

fn main() {
    let pair = Pair::open(u64::from(FI_MSG | FI_RMA));
    let (text, mut page, mut back) = (*b"written and read", [0u8; 4096], [0u8; 16]);
    let [one, _] = pair.ends;
    let to = pair.addresses[1];
    // SAFETY: the memory outlives its region and the operations, which are waited for.
    unsafe {
        let mut mr = null_mut();
        let rights = u64::from(FI_REMOTE_READ | FI_REMOTE_WRITE);
        let base = page.as_mut_ptr().cast();
        ok(fi_mr_reg(pair.domain, base, page.len(), rights, 0, 7, 0, &mut mr, null_mut()) as isize);
        let virtual_addresses = (*(*pair.info).domain_attr).mr_mode & FI_MR_VIRT_ADDR as i32 != 0;
        let at = if virtual_addresses { base as u64 } else { 0 } + 100;
        let key = fi_mr_key(mr);
        ok(fi_write(one, text.as_ptr().cast(), text.len(), null_mut(), to, at, key, 3 as _));
        assert_eq!(pair.next_done(), 3);
        ok(fi_read(one, back.as_mut_ptr().cast(), back.len(), null_mut(), to, at, key, 4 as _));
        assert_eq!(pair.next_done(), 4);
        ok(fi_close(&mut (*mr).fid) as isize);
    }
    assert_eq!(page[100..116], text);
    println!("{}", String::from_utf8_lossy(&back));
}
