//! A message from one endpoint to another.

use std::ptr::null_mut;

use ofi_libfabric_sys::bindgen::*;
use percale_bindings_client::{Pair, ok};

fn main() {
    let pair = Pair::open(u64::from(FI_MSG));
    let (text, mut room) = (*b"through the bindings", [0u8; 64]);
    let [one, two] = pair.ends;
    // FI_ADDR_UNSPEC, a cast, which bindgen does not translate.
    let any = fi_addr_t::MAX;
    // SAFETY: both buffers outlive their operations, which are waited for.
    unsafe {
        ok(fi_recv(two, room.as_mut_ptr().cast(), room.len(), null_mut(), any, 1 as _));
        let to = pair.addresses[1];
        ok(fi_send(one, text.as_ptr().cast(), text.len(), null_mut(), to, 2 as _));
    }
    let mut done = [pair.next_done(), pair.next_done()];
    done.sort_unstable();
    assert_eq!(done, [1, 2]);
    println!("{}", String::from_utf8_lossy(&room[..text.len()]));
}
