//! SETUP. Network cards as C objects that infos own: written, copied and released.

use core::ffi::{c_char, c_int, c_void};

use fabric_core::{
    Errno, Result,
    attr::{Nic, NicDevice, NicLink},
};

use super::{
    dup::{own_text, release},
    memory,
};
use crate::{
    abi::{
        Plain,
        constants::{FI_BUS_PCI, FI_BUS_UNKNOWN, FI_CLASS_NIC, FI_DUP},
        fid::{fi_ops, fid},
        info::{fi_bus_attr, fi_device_attr, fi_link_attr, fi_pci_attr, fid_nic},
    },
    panic::{guard, status},
};

static OPS: fi_ops = fi_ops { close, control, ..fi_ops::UNSUPPORTED };

/// Writes a card into memory that its info owns.
pub(super) fn write(nic: &Nic) -> Result<*mut fid_nic> {
    build(|card| {
        fill_device(&mut card.device_attr, &nic.device)?;
        card.bus_attr = memory::zeroed()?;
        // SAFETY: fresh memory of this type, which nothing else refers to.
        let bus: &mut fi_bus_attr = unsafe { &mut *card.bus_attr };
        bus.bus_type = FI_BUS_UNKNOWN;
        if let Some(pci) = nic.pci {
            bus.bus_type = FI_BUS_PCI;
            bus.attr = fi_pci_attr {
                domain_id: pci.domain,
                bus_id: pci.bus,
                device_id: pci.device,
                function_id: pci.function,
            };
        }
        fill_link(&mut card.link_attr, &nic.link)
    })
}

/// Makes a card; what `fill` has hung into it when it fails is released.
fn build(fill: impl FnOnce(&mut fid_nic) -> Result<()>) -> Result<*mut fid_nic> {
    let raw = memory::zeroed::<fid_nic>()?;
    // SAFETY: fresh memory of this type, which nothing else refers to.
    let card = unsafe { &mut *raw };
    card.fid.fclass = FI_CLASS_NIC;
    card.fid.ops = (&raw const OPS).cast_mut();
    if let Err(errno) = fill(card) {
        // SAFETY: every pointer in it is null or its own.
        unsafe { free(raw) };
        return Err(errno);
    }
    Ok(raw)
}

fn fill_device(slot: &mut *mut fi_device_attr, device: &NicDevice) -> Result<()> {
    *slot = memory::zeroed()?;
    // SAFETY: fresh memory of this type, which nothing else refers to.
    let raw = unsafe { &mut **slot };
    for (field, text) in [
        (&mut raw.name, &device.name),
        (&mut raw.device_id, &device.device_id),
        (&mut raw.device_version, &device.device_version),
        (&mut raw.vendor_id, &device.vendor_id),
        (&mut raw.driver, &device.driver),
        (&mut raw.firmware, &device.firmware),
    ] {
        *field = memory::text(text.as_deref())?;
    }
    Ok(())
}

fn fill_link(slot: &mut *mut fi_link_attr, link: &NicLink) -> Result<()> {
    *slot = memory::zeroed()?;
    // SAFETY: fresh memory of this type, which nothing else refers to.
    let raw = unsafe { &mut **slot };
    (raw.mtu, raw.speed, raw.state) = (link.mtu, link.speed, link.state as u32);
    raw.address = memory::text(link.address.as_deref())?;
    raw.network_type = memory::text(link.network_type.as_deref())?;
    Ok(())
}

/// A copy of one of our cards, which an application may have changed.
///
/// # Safety
/// `nic` is a card of ours; what is in it is null or valid.
unsafe fn copy(nic: *const fid_nic) -> Result<*mut fid_nic> {
    // SAFETY: the caller's promise.
    let source = unsafe { &*nic };
    build(|card| {
        // SAFETY: the caller's promise.
        unsafe {
            block(&mut card.device_attr, source.device_attr, |raw| {
                [
                    &raw mut raw.name,
                    &raw mut raw.device_id,
                    &raw mut raw.device_version,
                    &raw mut raw.vendor_id,
                    &raw mut raw.driver,
                    &raw mut raw.firmware,
                ]
            })?;
            block(&mut card.bus_attr, source.bus_attr, |_| [])?;
            block(&mut card.link_attr, source.link_attr, |raw| {
                [&raw mut raw.address, &raw mut raw.network_type]
            })
        }
    })
}

/// Copies a block and the texts that it points to.
///
/// # Safety
/// `source` is null or valid, and so are its texts.
unsafe fn block<T: Plain, const N: usize>(
    slot: &mut *mut T,
    source: *const T,
    texts: impl FnOnce(&mut T) -> [*mut *mut c_char; N],
) -> Result<()> {
    if source.is_null() {
        return Ok(());
    }
    *slot = memory::zeroed()?;
    // SAFETY: fresh memory of this type; the source is valid by the caller's promise.
    let raw = unsafe {
        slot.write(source.read());
        &mut **slot
    };
    let texts = texts(raw);
    let mut outcome = Ok(());
    for text in texts {
        // SAFETY: a field of the fresh block.
        let text = unsafe { &mut *text };
        // What cannot be copied any more must not be released as the copy's own.
        // SAFETY: the caller's promise.
        let copied = if outcome.is_ok() { unsafe { own_text(text) } } else { Err(Errno::ENOMEM) };
        if copied.is_err() {
            *text = core::ptr::null_mut();
        }
        outcome = outcome.and(copied);
    }
    outcome
}

/// # Safety
/// `nic` is a card of ours that nothing uses afterwards; what an application put into it is from
/// `malloc`.
unsafe fn free(nic: *mut fid_nic) {
    // SAFETY: the caller's promise.
    let card = unsafe { &*nic };
    // SAFETY: as above.
    if let Some(device) = unsafe { card.device_attr.as_ref() } {
        let fi_device_attr { name, device_id, device_version, vendor_id, driver, firmware } =
            *device;
        for text in [name, device_id, device_version, vendor_id, driver, firmware] {
            release(text);
        }
    }
    // SAFETY: as above.
    if let Some(link) = unsafe { card.link_attr.as_ref() } {
        release(link.address);
        release(link.network_type);
    }
    release(card.device_attr);
    release(card.bus_attr);
    release(card.link_attr);
    release(nic);
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    guard(|| {
        // SAFETY: the call came through a card's table.
        unsafe { free(fid.cast()) };
        0
    })
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    guard(|| {
        status(match command {
            FI_DUP if arg.is_null() => Err(Errno::EINVAL),
            // SAFETY: the call came through a card's table, with room for a pointer.
            FI_DUP => unsafe {
                copy(fid.cast()).map(|copy| arg.cast::<*mut fid_nic>().write(copy))
            },
            _ => Err(Errno::ENOSYS),
        })
    })
}

#[cfg(test)]
mod tests {
    use core::ffi::CStr;

    use fabric_core::attr::{Info, LinkState, PciAddress};

    use super::*;
    use crate::{
        abi::info::fi_info,
        info::{
            dup::{dup, free},
            write_list,
        },
        node::Node,
    };

    fn info() -> Info {
        let device = NicDevice {
            name: Some("mlx5_0".to_owned()),
            firmware: Some("16.35".to_owned()),
            ..NicDevice::default()
        };
        let link = NicLink {
            mtu: 4096,
            speed: 200_000_000_000,
            state: LinkState::Up,
            network_type: Some("InfiniBand".to_owned()),
            ..NicLink::default()
        };
        let pci = Some(PciAddress { domain: 1, bus: 2, device: 3, function: 4 });
        Info { nic: Some(Nic { device, pci, link }), ..Info::default() }
    }

    /// # Safety
    /// `info` is an info of ours with a card.
    unsafe fn assert_is_the_card(info: *const fi_info) {
        // SAFETY: cards of ours are complete.
        unsafe {
            let nic = &*(*info).nic;
            assert_eq!(nic.fid.fclass, FI_CLASS_NIC);
            let device = &*nic.device_attr;
            assert_eq!(CStr::from_ptr(device.name), c"mlx5_0");
            assert_eq!(CStr::from_ptr(device.firmware), c"16.35");
            assert!(device.driver.is_null());
            let bus = &*nic.bus_attr;
            assert_eq!((bus.bus_type, bus.attr.bus_id, bus.attr.function_id), (FI_BUS_PCI, 2, 4));
            let link = &*nic.link_attr;
            assert_eq!((link.mtu, link.speed, link.state), (4096, 200_000_000_000, 2));
            assert_eq!(CStr::from_ptr(link.network_type), c"InfiniBand");
            assert!(link.address.is_null());
        }
    }

    #[test]
    fn cards_are_written_and_copied_with_their_info() {
        let first = write_list(&[info()]).unwrap();
        // SAFETY: the list is this test's own.
        unsafe {
            assert_is_the_card(first);
            let copy = dup(first, Node::V1_10);
            free(first);
            assert_is_the_card(copy);
            // Callers whose infos have no cards.
            let old = dup(copy, Node::V1_0);
            assert!((*old).nic.is_null());
            free(old);
            let nic = (*copy).nic;
            assert_eq!(control(nic.cast(), FI_DUP, core::ptr::null_mut()), -22);
            assert_eq!(control(nic.cast(), 0, core::ptr::null_mut()), -38);
            free(copy);
        }
    }
}
