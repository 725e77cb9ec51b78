//! SETUP. Network cards.

use core::{
    ffi::c_char,
    fmt::{self, Write},
};

use super::{
    Text,
    names::{self, of},
};
use crate::{
    abi::{
        constants::FI_BUS_PCI,
        info::{fi_bus_attr, fi_device_attr, fi_link_attr, fid_nic},
    },
    foreign,
};

/// Longest text that a card may give of itself.
const OWN_TEXT: usize = 4096;

/// Prints a card: in its own words if it has any, else from its attributes.
///
/// # Safety
/// `nic` is null or a card.
pub(super) unsafe fn nic(out: &mut String, indent: &str, nic: *const fid_nic) -> fmt::Result {
    if nic.is_null() {
        return writeln!(out, "{indent}nic: (nil)");
    }
    // SAFETY: the caller's promise.
    if let Some(text) = unsafe { own_text(nic) } {
        out.push_str(&text);
        return Ok(());
    }
    // SAFETY: the caller's promise.
    let nic = unsafe { &*nic };
    writeln!(out, "{indent}nic:")?;
    // SAFETY: attributes of a valid card are valid or null.
    match unsafe { nic.device_attr.as_ref() } {
        Some(attr) => device(out, indent, attr)?,
        None => writeln!(out, "{indent}    fi_device_attr: (null)")?,
    }
    // SAFETY: as above.
    match unsafe { nic.bus_attr.as_ref() } {
        Some(attr) => bus(out, indent, attr)?,
        None => writeln!(out, "{indent}    fi_bus_attr: (null)")?,
    }
    // SAFETY: as above.
    match unsafe { nic.link_attr.as_ref() } {
        Some(attr) => link(out, indent, attr),
        None => writeln!(out, "{indent}    fi_link_attr: (null)"),
    }
}

/// # Safety
/// `nic` is a card.
unsafe fn own_text(nic: *const fid_nic) -> Option<String> {
    // SAFETY: a card is an object.
    let tostr = unsafe { foreign::slot(&raw const (*nic).fid, |ops| &raw const (*ops).tostr) }?;
    let mut buffer = vec![0_u8; OWN_TEXT];
    let room = buffer.as_mut_ptr().cast::<c_char>();
    // SAFETY: the card's own function, with the buffer's length less one for a terminator.
    let answer = unsafe { tostr(&raw const (*nic).fid, room, OWN_TEXT - 1) };
    buffer.truncate(buffer.iter().position(|byte| *byte == 0)?);
    (answer == 0).then(|| String::from_utf8_lossy(&buffer).into_owned())
}

fn device(out: &mut String, indent: &str, attr: &fi_device_attr) -> fmt::Result {
    writeln!(out, "{indent}    fi_device_attr:")?;
    for (name, text) in [
        ("name", attr.name),
        ("device_id", attr.device_id),
        ("device_version", attr.device_version),
        ("vendor_id", attr.vendor_id),
        ("driver", attr.driver),
        ("firmware", attr.firmware),
    ] {
        // SAFETY: texts of a valid card are terminated or null.
        writeln!(out, "{indent}        {name}: {}", unsafe { Text::read(text) })?;
    }
    Ok(())
}

fn bus(out: &mut String, indent: &str, bus: &fi_bus_attr) -> fmt::Result {
    writeln!(out, "{indent}    fi_bus_attr:")?;
    writeln!(out, "{indent}        bus_type: {}", of(names::BUS_TYPE, bus.bus_type))?;
    if bus.bus_type == FI_BUS_PCI {
        let pci = bus.attr;
        writeln!(out, "{indent}        fi_pci_attr:")?;
        writeln!(out, "{indent}            domain_id: {}", pci.domain_id)?;
        writeln!(out, "{indent}            bus_id: {}", pci.bus_id)?;
        writeln!(out, "{indent}            device_id: {}", pci.device_id)?;
        writeln!(out, "{indent}            function_id: {}", pci.function_id)?;
    }
    Ok(())
}

fn link(out: &mut String, indent: &str, attr: &fi_link_attr) -> fmt::Result {
    // SAFETY: texts of a valid card are terminated or null.
    let address = unsafe { Text::read(attr.address) };
    // SAFETY: as above.
    let network_type = unsafe { Text::read(attr.network_type) };
    writeln!(out, "{indent}    fi_link_attr:")?;
    writeln!(out, "{indent}        address: {address}")?;
    writeln!(out, "{indent}        mtu: {}", attr.mtu)?;
    writeln!(out, "{indent}        speed: {}", attr.speed)?;
    writeln!(out, "{indent}        state: {}", of(names::LINK_STATE, attr.state))?;
    writeln!(out, "{indent}        network_type: {network_type}")
}
