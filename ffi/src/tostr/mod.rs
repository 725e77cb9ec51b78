//! SETUP. `fi_tostr`: values and structs of the interface as text.
//!
//! The shape is a small YAML: four spaces a level, `name: value` lines, bit sets as
//! `[ A, B ]` inside structs and `A, B` on their own. Tests and logs of applications parse it, so
//! names, order and spelling are part of the interface. A bit without a name is left out, a value
//! without one is `Unknown`.

mod address;
mod attr;
mod event;
mod info;
mod names;
mod nic;

use core::{
    cell::RefCell,
    ffi::{c_char, c_int, c_void},
    fmt::{self, Write},
};

use crate::{
    abi::constants::*,
    text::{self, MAX_TEXT},
};

/// Room for one text, with its terminator; longer texts are cut.
const BUFFER: usize = 8192;

thread_local! {
    static TEXT: RefCell<Box<[c_char; BUFFER]>> = RefCell::new(Box::new([0; BUFFER]));
}

/// `fi_tostr`: the text stays valid until the thread calls again. Null for null.
///
/// # Safety
/// `data` is null or what `datatype` says, of this release's size.
pub(crate) unsafe fn tostr(data: *const c_void, datatype: fi_type) -> *mut c_char {
    TEXT.try_with(|buffer| {
        let Ok(mut buffer) = buffer.try_borrow_mut() else { return core::ptr::null_mut() };
        // SAFETY: the caller's promise; the buffer has its length.
        unsafe { tostr_r(buffer.as_mut_ptr(), BUFFER, data, datatype) }
    })
    .unwrap_or(core::ptr::null_mut())
}

/// `fi_tostr_r`: writes at most `len` bytes with the terminator, cut where the room ends. Null if
/// there is no room or no data.
///
/// # Safety
/// `buf` is null or writable for `len` bytes, `data` as in [`tostr`].
pub(crate) unsafe fn tostr_r(
    buf: *mut c_char,
    len: usize,
    data: *const c_void,
    datatype: fi_type,
) -> *mut c_char {
    if buf.is_null() || len == 0 || data.is_null() {
        return core::ptr::null_mut();
    }
    let mut text = String::new();
    // SAFETY: the caller's promise; not null.
    let printed = unsafe { print(&mut text, data, datatype) };
    debug_assert!(printed.is_ok(), "writing to a string does not fail");
    // SAFETY: the caller's buffer.
    unsafe { text::write(&text, buf, len) };
    buf
}

/// # Safety
/// `data` is not null and what `datatype` says.
unsafe fn print(out: &mut String, data: *const c_void, datatype: fi_type) -> fmt::Result {
    /// Reads the caller's value as what the type says it is.
    macro_rules! read {
        ($ty:ty) => {
            // SAFETY: the caller promises a value of the named type.
            unsafe { &*data.cast::<$ty>() }
        };
    }
    let named = |table: names::Enum| names::of(table, *read!(u32));
    let text = match datatype {
        FI_TYPE_INFO => return info::info(out, read!(crate::abi::info::fi_info)),
        FI_TYPE_TX_ATTR => return info::tx_attr(out, "", read!(crate::abi::info::fi_tx_attr)),
        FI_TYPE_RX_ATTR => return info::rx_attr(out, "", read!(crate::abi::info::fi_rx_attr)),
        FI_TYPE_EP_ATTR => return info::ep_attr(out, "", read!(crate::abi::info::fi_ep_attr)),
        FI_TYPE_DOMAIN_ATTR => {
            return info::domain_attr(out, "", read!(crate::abi::info::fi_domain_attr));
        }
        FI_TYPE_FABRIC_ATTR => {
            return info::fabric_attr(out, "", read!(crate::abi::info::fi_fabric_attr));
        }
        FI_TYPE_AV_ATTR => return attr::av(out, read!(crate::abi::attr::fi_av_attr)),
        FI_TYPE_CQ_ATTR => return attr::cq(out, read!(crate::abi::attr::fi_cq_attr)),
        FI_TYPE_MR_ATTR => return attr::mr(out, read!(crate::abi::attr::fi_mr_attr)),
        FI_TYPE_CNTR_ATTR => return attr::cntr(out, read!(crate::abi::attr::fi_cntr_attr)),
        FI_TYPE_CQ_ERR_ENTRY => {
            // SAFETY: the caller promises an error entry.
            return unsafe { event::cq_err_entry(out, data.cast()) };
        }
        FI_TYPE_FID => return writeln!(out, "fid: {}", Pointer(data)),

        FI_TYPE_VERSION => VERSION_TEXT,
        FI_TYPE_EP_TYPE => named(names::EP_TYPE),
        FI_TYPE_ADDR_FORMAT => named(names::ADDR_FORMAT),
        FI_TYPE_THREADING => named(names::THREADING),
        FI_TYPE_PROGRESS => named(names::PROGRESS),
        FI_TYPE_PROTOCOL => named(names::PROTOCOL),
        FI_TYPE_AV_TYPE => named(names::AV_TYPE),
        FI_TYPE_ATOMIC_TYPE => named(names::DATATYPE),
        FI_TYPE_ATOMIC_OP => named(names::OP),
        FI_TYPE_EQ_EVENT => named(names::EQ_EVENT),
        FI_TYPE_OP_TYPE => named(names::OP_TYPE),
        FI_TYPE_COLLECTIVE_OP => named(names::COLLECTIVE_OP),
        FI_TYPE_HMEM_IFACE => named(names::HMEM_IFACE),
        FI_TYPE_CQ_FORMAT => named(names::CQ_FORMAT),
        FI_TYPE_LOG_LEVEL => named(names::LOG_LEVEL),
        FI_TYPE_LOG_SUBSYS => named(names::LOG_SUBSYS),
        FI_TYPE_CQ_WAIT_COND => named(names::CQ_WAIT_COND),
        FI_TYPE_WAIT_OBJ => named(names::WAIT_OBJ),

        FI_TYPE_CAPS => return write!(out, "{}", names::Bits(names::CAPS, *read!(u64))),
        FI_TYPE_OP_FLAGS => return write!(out, "{}", names::Bits(names::OP_FLAGS, *read!(u64))),
        FI_TYPE_MSG_ORDER => return write!(out, "{}", names::Bits(names::ORDER, *read!(u64))),
        FI_TYPE_MODE => return write!(out, "{}", names::Bits(names::MODE, *read!(u64))),
        FI_TYPE_CQ_EVENT_FLAGS => {
            return write!(out, "{}", names::Bits(names::CQ_FLAGS, *read!(u64)));
        }
        FI_TYPE_MR_MODE => {
            return write!(out, "{}", names::Bits(names::MR_MODE, mr_mode_bits(*read!(c_int))));
        }
        _ => "Unknown type",
    };
    out.write_str(text)
}

/// The interface's version first, for those who parse it, then whose it is.
const VERSION_TEXT: &str = concat!("2.6.0 (percale ", env!("CARGO_PKG_VERSION"), ")");

fn mr_mode_bits(mode: c_int) -> u64 {
    mode.cast_unsigned().into()
}

/// A pointer as `printf` writes it.
struct Pointer<T>(*const T);

impl<T> fmt::Display for Pointer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_null() { f.write_str("(nil)") } else { write!(f, "{:#x}", self.0.addr()) }
    }
}

/// A text of the application, or `(null)`.
struct Text(Option<String>);

impl Text {
    /// # Safety
    /// `text` is null or ends within the readable bytes.
    unsafe fn read(text: *const c_char) -> Self {
        // SAFETY: the caller's promise.
        let read = unsafe { text::read(text) };
        Self(read.unwrap_or_else(|_| Some(format!("(longer than {MAX_TEXT} bytes)"))))
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_deref().unwrap_or("(null)"))
    }
}

#[cfg(test)]
mod tests;
