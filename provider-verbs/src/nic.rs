//! SETUP. What is told of the card behind a port, as its driver and the kernel's lists have it.

use std::{fs, path::Path};

use fabric_core::attr::{LinkState, Nic, NicDevice, NicLink, PciAddress};

use crate::sys::abi::{
    IBV_LINK_LAYER_ETHERNET, IBV_LINK_LAYER_INFINIBAND, IBV_PORT_ACTIVE, IBV_PORT_DOWN,
    ibv_device_attr, ibv_port_attr,
};

/// The card of a device, and its port.
pub(crate) fn nic(name: &str, device: &ibv_device_attr, port: &ibv_port_attr) -> Nic {
    let place = Path::new("/sys/class/infiniband").join(name).join("device");
    let link = |file: &str| {
        let target = fs::read_link(place.join(file)).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    };
    let on = fs::canonicalize(&place).ok();
    let pci = on.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    Nic {
        device: NicDevice {
            name: Some(name.to_owned()),
            device_id: Some(format!("{:#06x}", device.vendor_part_id)),
            device_version: Some(device.hw_ver.to_string()),
            vendor_id: Some(format!("{:#06x}", device.vendor_id)),
            driver: link("driver"),
            firmware: text(&device.fw_ver),
        },
        pci: pci.and_then(PciAddress::parse),
        link: NicLink {
            // InfiniBand's own; RoCE's is that of its network interface.
            address: (port.link_layer == IBV_LINK_LAYER_INFINIBAND)
                .then(|| format!("{:#x}", port.lid)),
            mtu: 128 << port.active_mtu.clamp(1, 5),
            speed: lanes(port.active_width).saturating_mul(lane(port.active_speed)),
            state: match port.state {
                IBV_PORT_ACTIVE => LinkState::Up,
                IBV_PORT_DOWN => LinkState::Down,
                _ => LinkState::Unknown,
            },
            network_type: match port.link_layer {
                IBV_LINK_LAYER_ETHERNET => Some("Ethernet".to_owned()),
                IBV_LINK_LAYER_INFINIBAND => Some("InfiniBand".to_owned()),
                _ => None,
            },
        },
    }
}

/// Bytes up to a zero, if there are any.
fn text(bytes: &[core::ffi::c_char]) -> Option<String> {
    let bytes: Vec<u8> =
        bytes.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// What the code of a width stands for.
const fn lanes(code: u8) -> usize {
    match code {
        1 => 1,
        16 => 2,
        2 => 4,
        4 => 8,
        8 => 12,
        _ => 0,
    }
}

/// Bits per second of a lane, by the code of its speed.
const fn lane(code: u8) -> usize {
    match code {
        1 => 2_500_000_000,
        2 => 5_000_000_000,
        4 | 8 => 10_000_000_000,
        16 => 14_000_000_000,
        32 => 25_000_000_000,
        64 => 50_000_000_000,
        128 => 100_000_000_000,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_port_says() {
        let mut device = ibv_device_attr::zeroed();
        let mut port = ibv_port_attr::zeroed();
        for (to, from) in device.fw_ver.iter_mut().zip(b"16.35.2000") {
            *to = *from as core::ffi::c_char;
        }
        (device.vendor_id, device.vendor_part_id, device.hw_ver) = (0x2c9, 4123, 0);
        (port.state, port.active_mtu, port.lid) = (IBV_PORT_ACTIVE, 5, 17);
        (port.active_width, port.active_speed) = (2, 64);
        port.link_layer = IBV_LINK_LAYER_INFINIBAND;
        let told = nic("there-is-no-such-device", &device, &port);
        assert_eq!(told.device.device_id.as_deref(), Some("0x101b"));
        assert_eq!(told.device.vendor_id.as_deref(), Some("0x02c9"));
        assert_eq!(told.device.firmware.as_deref(), Some("16.35.2000"));
        assert_eq!((told.device.driver, told.pci), (None, None));
        let NicLink { address, mtu, speed, state, network_type } = told.link;
        assert_eq!((mtu, speed, state), (4096, 200_000_000_000, LinkState::Up));
        assert_eq!(
            (address.as_deref(), network_type.as_deref()),
            (Some("0x11"), Some("InfiniBand"))
        );
        assert_eq!(text(&ibv_device_attr::zeroed().fw_ver), None);
    }
}
