//! SETUP. The names that `fi_av_insertsym` stands for: nodes and services counted upwards.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{Errno, Result};

/// Names `(node, service)` of `nodes` consecutive nodes and, for each, `services` consecutive
/// services, in the order of insertion.
///
/// A node is an IP address, or a name that ends in a number; leading zeros keep its width. A
/// service is a number. `EINVAL` for anything else, for a count of zero, and for numbers that
/// leave their range; nothing is named then.
pub fn symmetric_names(
    node: &str,
    nodes: usize,
    service: &str,
    services: usize,
) -> Result<impl Iterator<Item = (String, String)>> {
    let first = Node::parse(node)?;
    let port: u16 = service.parse().map_err(|_| Errno::EINVAL)?;
    let last = |count: usize| count.checked_sub(1).ok_or(Errno::EINVAL);
    first.plus(last(nodes)?).ok_or(Errno::EINVAL)?;
    let last_port = u16::try_from(last(services)?).ok().and_then(|n| port.checked_add(n));
    let ports = port..=last_port.ok_or(Errno::EINVAL)?;

    let node = move |index| first.plus(index);
    Ok((0..nodes)
        .filter_map(node)
        .flat_map(move |node| ports.clone().map(move |port| (node.clone(), port.to_string()))))
}

/// A node that can be counted from.
enum Node {
    V4(u32),
    V6(u128),
    Name { stem: String, number: u64, width: usize },
}

impl Node {
    fn parse(text: &str) -> Result<Self> {
        match text.parse() {
            Ok(IpAddr::V4(address)) => return Ok(Self::V4(address.to_bits())),
            Ok(IpAddr::V6(address)) => return Ok(Self::V6(address.to_bits())),
            Err(_) => {}
        }
        let stem = text.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = &text[stem.len()..];
        let number = digits.parse().map_err(|_| Errno::EINVAL)?;
        if stem.is_empty() {
            return Err(Errno::EINVAL);
        }
        Ok(Self::Name { stem: stem.to_owned(), number, width: digits.len() })
    }

    /// The node so many further on, unless there is none.
    fn plus(&self, count: usize) -> Option<String> {
        let count = count as u64;
        Some(match self {
            Self::V4(bits) => {
                Ipv4Addr::from_bits(bits.checked_add(count.try_into().ok()?)?).to_string()
            }
            Self::V6(bits) => Ipv6Addr::from_bits(bits.checked_add(count.into())?).to_string(),
            Self::Name { stem, number, width } => {
                format!("{stem}{:0width$}", number.checked_add(count)?, width = *width)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(node: &str, nodes: usize, service: &str, services: usize) -> Result<Vec<String>> {
        let names = symmetric_names(node, nodes, service, services)?;
        Ok(names.map(|(node, service)| format!("{node}/{service}")).collect())
    }

    #[test]
    fn counts_nodes_then_services() {
        assert_eq!(
            names("node09", 2, "4000", 2).unwrap(),
            ["node09/4000", "node09/4001", "node10/4000", "node10/4001"]
        );
        assert_eq!(names("10.0.0.255", 2, "1", 1).unwrap(), ["10.0.0.255/1", "10.0.1.0/1"]);
        assert_eq!(names("fe80::ffff", 2, "1", 1).unwrap(), ["fe80::ffff/1", "fe80::1:0/1"]);
        assert_eq!(names("n99", 2, "65535", 1).unwrap(), ["n99/65535", "n100/65535"]);
    }

    #[test]
    fn refuses_what_cannot_be_counted() {
        for (node, nodes, service, services) in [
            ("host", 1, "1", 1),
            ("", 1, "1", 1),
            ("123456789012345678901", 1, "1", 1),
            ("17", 1, "1", 1),
            ("n1", 0, "1", 1),
            ("n1", 1, "1", 0),
            ("n1", 1, "http", 1),
            ("n1", 1, "65535", 2),
            ("n1", 1, "1", usize::MAX),
            ("255.255.255.255", 2, "1", 1),
            ("1.1.1.1", usize::MAX, "1", 1),
            ("n18446744073709551615", 2, "1", 1),
        ] {
            assert_eq!(names(node, nodes, service, services), Err(Errno::EINVAL), "{node}");
        }
    }

    #[test]
    fn huge_counts_cost_nothing_until_used() {
        assert_eq!(symmetric_names("n0", usize::MAX, "1", 60_000).unwrap().take(3).count(), 3);
    }
}
