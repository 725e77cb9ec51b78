//! SETUP. Addresses as the URIs that `fi_getinfo` and `fi_av_insert` accept.

use core::{
    ffi::c_void,
    fmt::{self, Write},
    net::Ipv6Addr,
};

use provider_tcp::address::SocketAddress;
use provider_verbs::DatagramAddress;

use crate::{abi::constants::*, info::MAX_BYTES};

/// The text of an address; `(null)` without one, hexadecimal bytes for formats that no provider
/// here uses.
///
/// # Safety
/// `addr` is null or readable for `len` bytes.
pub(crate) unsafe fn text(format: u32, addr: *const c_void, len: usize) -> String {
    if addr.is_null() {
        return "(null)".into();
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { core::slice::from_raw_parts(addr.cast::<u8>(), len.min(MAX_BYTES)) };
    let mut out = String::new();
    let printed = print(&mut out, format, bytes);
    debug_assert!(printed.is_ok(), "writing to a string does not fail");
    out
}

fn print(out: &mut String, format: u32, bytes: &[u8]) -> fmt::Result {
    let known = match format {
        FI_SOCKADDR | FI_SOCKADDR_IP | FI_SOCKADDR_IN | FI_SOCKADDR_IN6 | FI_SOCKADDR_IB => {
            socket_address(out, bytes)?
        }
        FI_ADDR_STR => {
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            out.push_str(&String::from_utf8_lossy(&bytes[..end]));
            Some(())
        }
        FI_ADDR_IB_UD => ib_ud(out, bytes)?,
        _ => None,
    };
    match known {
        Some(()) => Ok(()),
        None => other(out, format, bytes),
    }
}

/// Prints by the address family in the first two bytes; `None` if it is unknown or the address is
/// too short for it.
fn socket_address(out: &mut String, bytes: &[u8]) -> Result<Option<()>, fmt::Error> {
    let Some(family) = array(bytes, 0).map(u16::from_ne_bytes) else { return Ok(None) };
    match i32::from(family) {
        libc::AF_INET | libc::AF_INET6 => {
            let Ok(address) = SocketAddress::parse(bytes) else { return Ok(None) };
            write!(out, "{address}")?;
        }
        libc::AF_IB => {
            let (Some(pkey), Some(gid), Some(sid), Some(scope)) =
                (array(bytes, 2), array::<16>(bytes, 8), array(bytes, 24), array::<8>(bytes, 40))
            else {
                return Ok(None);
            };
            let gid = Ipv6Addr::from(gid);
            let pkey = u16::from_be_bytes(pkey);
            let port_space = (u64::from_be_bytes(sid) >> 16) & 0xfff;
            write!(out, "fi_sockaddr_ib://[{gid}]:{pkey:#x}:{port_space:#x}:{:#x}", scope[7])?;
        }
        _ => return Ok(None),
    }
    Ok(Some(()))
}

/// The address of a queue pair of datagrams.
fn ib_ud(out: &mut String, bytes: &[u8]) -> Result<Option<()>, fmt::Error> {
    let Some(address) = DatagramAddress::read(bytes) else { return Ok(None) };
    write!(out, "{address}")?;
    Ok(Some(()))
}

/// Formats of providers that are not here, and addresses that are shorter than their format.
fn other(out: &mut String, format: u32, bytes: &[u8]) -> fmt::Result {
    out.push_str(match format {
        FI_ADDR_PSMX => "fi_addr_psmx://",
        FI_ADDR_GNI => "fi_addr_gni://",
        FI_ADDR_BGQ => "fi_addr_bgq://",
        FI_ADDR_MLX => "fi_addr_mlx://",
        FI_ADDR_PSMX2 => "fi_addr_psmx2://",
        FI_ADDR_IB_UD => "fi_addr_ib_ud://",
        FI_ADDR_EFA => "fi_addr_efa://",
        FI_ADDR_PSMX3 => "fi_addr_psmx3://",
        FI_ADDR_OPX => "fi_addr_opx://",
        FI_ADDR_CXI => "fi_addr_cxi://",
        FI_ADDR_UCX => "fi_addr_ucx://",
        _ => "",
    });
    if !bytes.is_empty() {
        out.push_str("0x");
    }
    bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}
