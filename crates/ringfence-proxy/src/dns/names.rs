//! Addresses that stand for names.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

use ringfence_types::Host;

/// Finds the host that a destination address stands for.
pub trait Names: Send + Sync {
    /// The host, if the address stands for one.
    fn host(&self, address: IpAddr) -> Option<Host>;

    /// Whether an address is one of those that stand for names, given out or not.
    fn is_synthetic(&self, address: IpAddr) -> bool;
}

/// `198.18.0.0/15`, for benchmarks (RFC 2544): nothing on a real network answers there.
const V4_BASE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
/// The same number of addresses in a unique local network of our own (RFC 4193).
const V6_BASE: Ipv6Addr = Ipv6Addr::new(0xfd52, 0x696e, 0x6766, 0x656e, 0, 0, 0, 0);
const HOST_BITS: u32 = 17;
/// Names that a run may look up; each costs some hundred bytes.
const LIMIT: usize = 16 * 1024;

/// The names of one run. A name keeps its addresses as long as the run lives.
#[derive(Debug, Default)]
pub struct SyntheticNames {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    numbers: HashMap<String, u32>,
    names: Vec<String>,
}

impl SyntheticNames {
    /// The IPv4 network from which addresses are given, and its prefix length in bits.
    pub const V4: (Ipv4Addr, u8) = (V4_BASE, 15);
    /// The IPv6 network from which addresses are given, and its prefix length in bits.
    pub const V6: (Ipv6Addr, u8) = (V6_BASE, 111);

    /// The addresses that stand for a normalised name; `None` if the run has looked up too many.
    pub fn addresses(&self, name: &str) -> Option<(Ipv4Addr, Ipv6Addr)> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let number = match table.numbers.get(name) {
            Some(number) => *number,
            None if table.names.len() >= LIMIT => return None,
            None => {
                table.names.push(name.to_owned());
                // Number 0 is the network's own address.
                let number = u32::try_from(table.names.len()).ok()?;
                table.numbers.insert(name.to_owned(), number);
                number
            }
        };
        Some((
            Ipv4Addr::from_bits(V4_BASE.to_bits() | number),
            Ipv6Addr::from_bits(V6_BASE.to_bits() | u128::from(number)),
        ))
    }
}

impl Names for SyntheticNames {
    fn host(&self, address: IpAddr) -> Option<Host> {
        if !self.is_synthetic(address) {
            return None;
        }
        let number = match address {
            IpAddr::V4(ip) => ip.to_bits() & ((1 << HOST_BITS) - 1),
            IpAddr::V6(ip) => u32::try_from(ip.to_bits() & ((1 << HOST_BITS) - 1)).ok()?,
        };
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        self.table.lock().unwrap_or_else(PoisonError::into_inner).names.get(index).cloned().map(Host::Name)
    }

    fn is_synthetic(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(ip) => ip.to_bits() >> HOST_BITS == V4_BASE.to_bits() >> HOST_BITS,
            IpAddr::V6(ip) => ip.to_bits() >> HOST_BITS == V6_BASE.to_bits() >> HOST_BITS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_its_addresses_and_they_lead_back() {
        let names = SyntheticNames::default();
        let (v4, v6) = names.addresses("a.com").unwrap();
        assert_eq!(names.addresses("a.com"), Some((v4, v6)));
        let other = names.addresses("b.com").unwrap();
        assert_ne!(other.0, v4);
        for (address, name) in [(v4.into(), "a.com"), (v6.into(), "a.com"), (IpAddr::from(other.1), "b.com")]
        {
            assert!(names.is_synthetic(address));
            assert_eq!(names.host(address), Some(Host::Name(name.to_owned())));
        }
    }

    #[test]
    fn other_addresses_stand_for_nothing() {
        let names = SyntheticNames::default();
        names.addresses("a.com").unwrap();
        for (text, synthetic) in [
            ("198.18.0.0", true),
            ("198.19.255.255", true),
            ("198.20.0.1", false),
            ("198.17.0.1", false),
            ("127.0.0.1", false),
            ("fd52:696e:6766:656e::2", true),
            ("fd52:696e:6766:656e:1::1", false),
        ] {
            let address = text.parse().unwrap();
            assert_eq!(names.host(address), None, "{text}");
            assert_eq!(names.is_synthetic(address), synthetic, "{text}");
        }
    }

    #[test]
    fn the_number_of_names_is_bounded() {
        let names = SyntheticNames::default();
        for number in 0..LIMIT {
            assert!(names.addresses(&number.to_string()).is_some());
        }
        assert_eq!(names.addresses("one.more"), None);
        assert!(names.addresses("0").is_some());
    }
}
