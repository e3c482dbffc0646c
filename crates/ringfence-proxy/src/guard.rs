//! The address guard: which addresses are not public, in every spelling and embedding.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::Serialize;

/// Why an address is not an ordinary public one (IANA special-purpose address registries; RFC 6890).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names are those of the registries")]
pub enum AddressKind {
    /// `0.0.0.0/8`, `::`: the machine itself, as a destination.
    Unspecified,
    Loopback,
    /// RFC 1918 and unique local addresses (RFC 4193).
    Private,
    LinkLocal,
    /// Behind a carrier's NAT, `100.64.0.0/10` (RFC 6598).
    Shared,
    /// Services that hand out a cloud machine's credentials.
    Metadata,
    Multicast,
    Documentation,
    Benchmarking,
    Reserved,
    /// `fec0::/10`, deprecated (RFC 3879).
    SiteLocal,
    /// `::ffff:0:0/96`.
    V4Mapped,
    /// `::/96`, deprecated (RFC 4291).
    V4Compatible,
    /// `64:ff9b::/96` (RFC 6052) and `64:ff9b:1::/48` (RFC 8215).
    Nat64,
    /// `2002::/16` (RFC 3056) and its relays, `192.88.99.0/24`.
    SixToFour,
    /// `2001::/32` (RFC 4380).
    Teredo,
    /// An interface identifier that holds an IPv4 address (RFC 5214).
    Isatap,
}

impl AddressKind {
    /// Whether such an address leads on to an IPv4 address, which is then what counts.
    pub(crate) fn is_embedding(self) -> bool {
        matches!(
            self,
            Self::V4Mapped | Self::V4Compatible | Self::Nat64 | Self::SixToFour | Self::Teredo | Self::Isatap
        )
    }

    /// The kind in words, as in `a private address`.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Unspecified => "an unspecified address",
            Self::Loopback => "a loopback address",
            Self::Private => "a private address",
            Self::LinkLocal => "a link-local address",
            Self::Shared => "an address behind a carrier's NAT",
            Self::Metadata => "the address of a metadata service",
            Self::Multicast => "a multicast address",
            Self::Documentation => "an address for documentation",
            Self::Benchmarking => "an address for benchmarks",
            Self::Reserved => "a reserved address",
            Self::SiteLocal => "a site-local address",
            Self::V4Mapped => "an IPv4-mapped address",
            Self::V4Compatible => "an IPv4-compatible address",
            Self::Nat64 => "a NAT64 address",
            Self::SixToFour => "a 6to4 address",
            Self::Teredo => "a Teredo address",
            Self::Isatap => "an ISATAP address",
        }
    }
}

type Block4 = (Ipv4Addr, u8, AddressKind);
type Block6 = (Ipv6Addr, u8, AddressKind);

const fn v4(a: u8, b: u8, c: u8, d: u8, length: u8, kind: AddressKind) -> Block4 {
    (Ipv4Addr::new(a, b, c, d), length, kind)
}

const fn v6(head: [u16; 4], length: u8, kind: AddressKind) -> Block6 {
    (Ipv6Addr::new(head[0], head[1], head[2], head[3], 0, 0, 0, 0), length, kind)
}

/// The first block that holds an address counts, so single addresses stand before the blocks around them.
const BLOCKS_V4: &[Block4] = &[
    v4(169, 254, 169, 254, 32, AddressKind::Metadata),
    v4(100, 100, 100, 200, 32, AddressKind::Metadata),
    v4(168, 63, 129, 16, 32, AddressKind::Metadata),
    v4(192, 0, 0, 192, 32, AddressKind::Metadata),
    v4(0, 0, 0, 0, 8, AddressKind::Unspecified),
    v4(10, 0, 0, 0, 8, AddressKind::Private),
    v4(100, 64, 0, 0, 10, AddressKind::Shared),
    v4(127, 0, 0, 0, 8, AddressKind::Loopback),
    v4(169, 254, 0, 0, 16, AddressKind::LinkLocal),
    v4(172, 16, 0, 0, 12, AddressKind::Private),
    v4(192, 0, 0, 0, 24, AddressKind::Reserved),
    v4(192, 0, 2, 0, 24, AddressKind::Documentation),
    v4(192, 88, 99, 0, 24, AddressKind::SixToFour),
    v4(192, 168, 0, 0, 16, AddressKind::Private),
    v4(198, 18, 0, 0, 15, AddressKind::Benchmarking),
    v4(198, 51, 100, 0, 24, AddressKind::Documentation),
    v4(203, 0, 113, 0, 24, AddressKind::Documentation),
    v4(224, 0, 0, 0, 4, AddressKind::Multicast),
    v4(240, 0, 0, 0, 4, AddressKind::Reserved),
];

const BLOCKS_V6: &[Block6] = &[
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), 128, AddressKind::Metadata),
    (Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254), 128, AddressKind::Metadata),
    (Ipv6Addr::LOCALHOST, 128, AddressKind::Loopback),
    (Ipv6Addr::UNSPECIFIED, 128, AddressKind::Unspecified),
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, AddressKind::V4Mapped),
    (Ipv6Addr::UNSPECIFIED, 96, AddressKind::V4Compatible),
    v6([0x64, 0xff9b, 0, 0], 96, AddressKind::Nat64),
    v6([0x64, 0xff9b, 1, 0], 48, AddressKind::Nat64),
    v6([0x2001, 0, 0, 0], 32, AddressKind::Teredo),
    v6([0x2001, 2, 0, 0], 48, AddressKind::Benchmarking),
    v6([0x2001, 0xdb8, 0, 0], 32, AddressKind::Documentation),
    v6([0x2001, 0, 0, 0], 23, AddressKind::Reserved),
    v6([0x2002, 0, 0, 0], 16, AddressKind::SixToFour),
    v6([0x3fff, 0, 0, 0], 20, AddressKind::Documentation),
    v6([0xfc00, 0, 0, 0], 7, AddressKind::Private),
    v6([0xfe80, 0, 0, 0], 10, AddressKind::LinkLocal),
    v6([0xfec0, 0, 0, 0], 10, AddressKind::SiteLocal),
    v6([0xff00, 0, 0, 0], 8, AddressKind::Multicast),
];

/// Global unicast is given out from here alone.
const GLOBAL_UNICAST: Block6 = v6([0x2000, 0, 0, 0], 3, AddressKind::Reserved);

/// What kind of non-public address this is; `None` for an ordinary public one.
pub fn classify(address: IpAddr) -> Option<AddressKind> {
    special_block(address, if address.is_ipv4() { 32 } else { 128 })
}

/// What kind of addresses a whole network holds, if all of them lie in one non-public block.
pub(crate) fn special_block(net: IpAddr, length: u8) -> Option<AddressKind> {
    match net {
        IpAddr::V4(net) => BLOCKS_V4.iter().find_map(|&(block, bits, kind)| {
            (bits <= length && same_prefix(net.to_bits().into(), block.to_bits().into(), 32, bits))
                .then_some(kind)
        }),
        IpAddr::V6(net) => {
            let inside = |block: Ipv6Addr, bits| {
                bits <= length && same_prefix(net.to_bits(), block.to_bits(), 128, bits)
            };
            let listed =
                BLOCKS_V6.iter().find_map(|&(block, bits, kind)| inside(block, bits).then_some(kind));
            let (global, bits, outside) = GLOBAL_UNICAST;
            let isatap = length == 128 && matches!(net.segments(), [_, _, _, _, 0 | 0x200, 0x5efe, _, _]);
            listed
                .or((length >= bits && !inside(global, bits)).then_some(outside))
                .or(isatap.then_some(AddressKind::Isatap))
        }
    }
}

/// The IPv4 address that an IPv6 address of a translation or tunnel leads to. Below the local-use prefix of NAT64
/// (RFC 8215) its position can't be known.
pub fn embedded_v4(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else { return None };
    let segments = address.segments();
    let pair = |at: usize| Ipv4Addr::from_bits(u32::from(segments[at]) << 16 | u32::from(segments[at + 1]));
    match classify(address.into())? {
        AddressKind::Nat64 if segments[2] != 0 => None,
        AddressKind::V4Mapped | AddressKind::V4Compatible | AddressKind::Nat64 | AddressKind::Isatap => {
            Some(pair(6))
        }
        AddressKind::SixToFour => Some(pair(1)),
        AddressKind::Teredo => Some(Ipv4Addr::from_bits(!pair(6).to_bits())),
        _ => None,
    }
}

fn same_prefix(a: u128, b: u128, width: u32, bits: u8) -> bool {
    (a ^ b).checked_shr(width - u32::from(bits)).unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> Option<AddressKind> {
        classify(text.parse().unwrap())
    }

    #[test]
    fn public_addresses_are_ordinary() {
        for text in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "192.167.0.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "2a00::1",
            "2003::1",
            "3ffe::1",
        ] {
            assert_eq!(kind(text), None, "{text}");
        }
    }

    #[test]
    fn each_block_is_known_to_its_edges() {
        use AddressKind::*;
        for (first, last, expected) in [
            ("0.0.0.0", "0.255.255.255", Unspecified),
            ("10.0.0.0", "10.255.255.255", Private),
            ("100.64.0.0", "100.127.255.255", Shared),
            ("127.0.0.0", "127.255.255.255", Loopback),
            ("169.254.0.0", "169.254.255.255", LinkLocal),
            ("172.16.0.0", "172.31.255.255", Private),
            ("192.0.0.0", "192.0.0.255", Reserved),
            ("192.0.2.0", "192.0.2.255", Documentation),
            ("192.88.99.0", "192.88.99.255", SixToFour),
            ("192.168.0.0", "192.168.255.255", Private),
            ("198.18.0.0", "198.19.255.255", Benchmarking),
            ("198.51.100.0", "198.51.100.255", Documentation),
            ("203.0.113.0", "203.0.113.255", Documentation),
            ("224.0.0.0", "239.255.255.255", Multicast),
            ("240.0.0.0", "255.255.255.255", Reserved),
            ("::2", "::ffff:ffff", V4Compatible),
            ("::ffff:0:0", "::ffff:ffff:ffff", V4Mapped),
            ("64:ff9b::", "64:ff9b::ffff:ffff", Nat64),
            ("64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", Nat64),
            ("100::", "100::1", Reserved),
            ("2001::", "2001:0:ffff:ffff:ffff:ffff:ffff:ffff", Teredo),
            ("2001:2::", "2001:2:0:ffff:ffff:ffff:ffff:ffff", Benchmarking),
            ("2001:10::", "2001:2f::1", Reserved),
            ("2001:db8::", "2001:db8:ffff::1", Documentation),
            ("2002::", "2002:ffff::1", SixToFour),
            ("3fff::", "3fff:fff::1", Documentation),
            ("4000::", "fbff::1", Reserved),
            ("fc00::", "fdff::1", Private),
            ("fe80::", "febf::1", LinkLocal),
            ("fec0::", "feff::1", SiteLocal),
            ("ff00::", "ffff::1", Multicast),
        ] {
            assert_eq!((kind(first), kind(last)), (Some(expected), Some(expected)), "{first} to {last}");
        }
    }

    #[test]
    fn metadata_services_are_told_from_the_blocks_around_them() {
        for text in [
            "169.254.169.254",
            "168.63.129.16",
            "100.100.100.200",
            "192.0.0.192",
            "fd00:ec2::254",
            "fd20:ce::254",
        ] {
            assert_eq!(kind(text), Some(AddressKind::Metadata), "{text}");
        }
    }

    #[test]
    fn an_embedded_address_is_found() {
        for (text, expected) in [
            ("::ffff:127.0.0.1", Some("127.0.0.1")),
            ("::10.0.0.1", Some("10.0.0.1")),
            ("64:ff9b::169.254.169.254", Some("169.254.169.254")),
            ("64:ff9b:1::10.0.0.1", None),
            ("2002:7f00:1::1", Some("127.0.0.1")),
            ("2001:0:1:2:3:4:f5ff:fffe", Some("10.0.0.1")),
            ("2a00::5efe:10.0.0.1", Some("10.0.0.1")),
            ("2a00::200:5efe:10.0.0.1", Some("10.0.0.1")),
            ("2606:4700::1111", None),
            ("10.0.0.1", None),
        ] {
            assert_eq!(embedded_v4(text.parse().unwrap()), expected.map(|ip| ip.parse().unwrap()), "{text}");
            assert_eq!(kind(text).is_none(), text == "2606:4700::1111", "{text}");
        }
    }

    #[test]
    fn a_network_is_special_only_as_a_whole() {
        let block = |text: &str, length| special_block(text.parse().unwrap(), length);
        assert_eq!(block("10.0.0.0", 8), Some(AddressKind::Private));
        assert_eq!(block("10.1.0.0", 16), Some(AddressKind::Private));
        assert_eq!(block("10.0.0.0", 7), None);
        assert_eq!(block("0.0.0.0", 0), None);
        assert_eq!(block("::", 0), None);
        assert_eq!(block("fd00::", 8), Some(AddressKind::Private));
        assert_eq!(block("::ffff:0:0", 96), Some(AddressKind::V4Mapped));
        assert_eq!(block("8000::", 3), Some(AddressKind::Reserved));
        assert_eq!(block("8000::", 1), None);
    }
}
