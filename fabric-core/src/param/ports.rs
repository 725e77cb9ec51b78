//! SETUP. The ports to listen at, which two variables say together.

use super::known::{TCP_PORT_HIGH, TCP_PORT_LOW};

/// `FI_TCP_PORT_LOW_RANGE` and `FI_TCP_PORT_HIGH_RANGE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpPorts {
    /// First and last port, where the application leaves the choice to us; `None` is the kernel's.
    pub range: Option<(u16, u16)>,
    /// Why what is set is no range.
    pub fault: Option<String>,
}

impl TcpPorts {
    /// What the variables say.
    pub fn in_force() -> Self {
        let port = |size: usize| u16::try_from(size).unwrap_or(0);
        Self::of(port(TCP_PORT_LOW.size()), port(TCP_PORT_HIGH.size()))
    }

    fn of(low: u16, high: u16) -> Self {
        let (first, last) = (TCP_PORT_LOW.name, TCP_PORT_HIGH.name);
        let fault = match (low, high) {
            (0, 0) => None,
            (_, 0) => Some(format!("{first}={low} is of no effect without {last}; using any port")),
            _ if low > high => {
                Some(format!("{first}={low} and {last}={high} are no range; using any port"))
            }
            _ => return Self { range: Some((low.max(1), high)), fault: None },
        };
        Self { range: None, fault }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        assert_eq!(TcpPorts::of(0, 0), TcpPorts { range: None, fault: None });
        assert_eq!(TcpPorts::of(7, 9), TcpPorts { range: Some((7, 9)), fault: None });
        assert_eq!(TcpPorts::of(0, 9).range, Some((1, 9)));
        for (low, high) in [(7, 0), (9, 7)] {
            let ports = TcpPorts::of(low, high);
            assert!(
                ports.range.is_none() && ports.fault.unwrap().contains("FI_TCP_PORT_LOW_RANGE")
            );
        }
    }
}
