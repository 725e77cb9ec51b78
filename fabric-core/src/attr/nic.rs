//! SETUP. The network card behind an offer (`fi_nic(3)`). What is not known is `None`, or zero.

/// `fid_nic`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nic {
    /// What the card is.
    pub device: NicDevice,
    /// Where it sits, if that is a PCI bus.
    pub pci: Option<PciAddress>,
    /// Its port.
    pub link: NicLink,
}

/// `fi_device_attr`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicDevice {
    /// The system's name for it.
    pub name: Option<String>,
    /// The vendor's number of the product.
    pub device_id: Option<String>,
    /// The version of the product.
    pub device_version: Option<String>,
    /// The vendor.
    pub vendor_id: Option<String>,
    /// The kernel's driver.
    pub driver: Option<String>,
    /// The version of the firmware.
    pub firmware: Option<String>,
}

/// `fi_pci_attr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PciAddress {
    /// Domain.
    pub domain: u16,
    /// Bus.
    pub bus: u8,
    /// Device.
    pub device: u8,
    /// Function.
    pub function: u8,
}

/// `fi_link_attr`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicLink {
    /// The address on the link.
    pub address: Option<String>,
    /// Bytes of a packet at most.
    pub mtu: usize,
    /// Bits per second.
    pub speed: usize,
    /// Whether it is up.
    pub state: LinkState,
    /// What kind of network it is.
    pub network_type: Option<String>,
}

/// `fi_link_state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum LinkState {
    /// Not known, or not a link that has one.
    #[default]
    Unknown = 0,
    /// Down.
    Down = 1,
    /// Up.
    Up = 2,
}

impl PciAddress {
    /// Parses the kernel's spelling, `0000:3b:00.1`.
    pub fn parse(text: &str) -> Option<Self> {
        let (rest, function) = text.rsplit_once('.')?;
        let mut parts = rest.split(':');
        let mut next = || u32::from_str_radix(parts.next()?, 16).ok();
        let (domain, bus, device) = (next()?, next()?, next()?);
        Some(Self {
            domain: u16::try_from(domain).ok()?,
            bus: u8::try_from(bus).ok()?,
            device: u8::try_from(device).ok()?,
            function: u8::from_str_radix(function, 16).ok()?,
        })
    }
}

/// The kernel's spelling.
impl core::fmt::Display for PciAddress {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_on_a_bus() {
        let place = PciAddress { domain: 1, bus: 0x3b, device: 0x1f, function: 7 };
        assert_eq!(PciAddress::parse("0001:3b:1f.7"), Some(place));
        assert_eq!(place.to_string(), "0001:3b:1f.7");
        for text in ["", "3b:00.0", "0000:3b:00", "0000:3b:00.x", "10000:3b:00.0", "virtio0"] {
            assert_eq!(PciAddress::parse(text), None, "{text}");
        }
    }
}
