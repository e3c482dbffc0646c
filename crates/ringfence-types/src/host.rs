use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Host;
use crate::host_name::{ends_in_number, normalise};

/// Which hosts and ports a rule means, parsed and normalised: lower case, IDNA to ASCII (UTS 46), no trailing
/// dot, one spelling for each IP address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPattern {
    name: Name,
    port: PortPattern,
}

/// The port part of a [`HostPattern`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PortPattern {
    /// None was written: 80 and 443.
    Web,
    /// `:*`.
    Any,
    /// `:N`.
    One(u16),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Name {
    Exact(String),
    /// `*.suffix`: any number of labels below it, not the suffix itself.
    Below(String),
    /// `**.suffix`: the suffix too.
    AtOrBelow(String),
    /// A network; a single address has the full prefix length.
    Net(IpAddr, u8),
}

/// Why a text is no host pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message says it")]
pub enum HostPatternError {
    #[error("host pattern is empty")]
    Empty,
    #[error("host pattern `{0}` holds a scheme or a path, expected only a host and an optional port")]
    Url(String),
    #[error("host pattern `{0}` has an invalid port, expected 1 to 65535 or `*`")]
    Port(String),
    #[error("host pattern `{0}` has an invalid prefix length")]
    Prefix(String),
    #[error("host pattern `{0}` is no valid host name")]
    Name(String),
    #[error("host pattern `{0}` has a wildcard elsewhere than in front, expected `*.suffix` or `**.suffix`")]
    Wildcard(String),
}

impl HostPattern {
    /// Whether every host and port that `other` means is meant by `self`.
    pub fn covers(&self, other: &Self) -> bool {
        self.port.covers(other.port) && self.name.covers(&other.name)
    }

    /// Whether everything that `other` denies is denied by `self`. In a denial no port means every port.
    pub fn covers_denial(&self, other: &Self) -> bool {
        let port = match (self.port, other.port) {
            (PortPattern::Web | PortPattern::Any, _) => true,
            (own, other) => own == other,
        };
        port && self.name.covers(&other.name)
    }

    /// Whether this host and port are meant.
    pub fn matches(&self, host: &Host, port: u16) -> bool {
        self.port.covers(PortPattern::One(port)) && self.matches_host(host)
    }

    /// Whether this host is meant, whatever the port.
    pub fn matches_host(&self, host: &Host) -> bool {
        match (&self.name, host) {
            (Name::Exact(own), Host::Name(name)) => own == name,
            (Name::Below(suffix), Host::Name(name)) => is_below(name, suffix),
            (Name::AtOrBelow(suffix), Host::Name(name)) => name == suffix || is_below(name, suffix),
            (Name::Net(net, length), Host::Ip(ip)) => in_net(*ip, *net, *length),
            _ => false,
        }
    }

    /// The pattern that means one host and one port.
    pub fn exact(host: &Host, port: u16) -> Self {
        let name = match host {
            Host::Name(name) => Name::Exact(name.clone()),
            Host::Ip(ip) => Name::Net(*ip, width(*ip)),
        };
        Self { name, port: PortPattern::One(port) }
    }

    /// The ports that are meant.
    pub fn port(&self) -> PortPattern {
        self.port
    }

    /// The network and its prefix length in bits, if this pattern means addresses.
    pub fn network(&self) -> Option<(IpAddr, u8)> {
        match self.name {
            Name::Net(net, length) => Some((net, length)),
            _ => None,
        }
    }
}

impl PortPattern {
    fn covers(self, other: Self) -> bool {
        match (self, other) {
            (Self::Any, _) => true,
            (Self::Web, Self::One(port)) => port == 80 || port == 443,
            (own, other) => own == other,
        }
    }
}

impl Name {
    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exact(own), Self::Exact(host)) => own == host,
            (Self::Below(suffix), Self::Exact(host) | Self::AtOrBelow(host)) => is_below(host, suffix),
            (Self::Below(suffix), Self::Below(host)) => host == suffix || is_below(host, suffix),
            (Self::AtOrBelow(suffix), Self::Exact(host) | Self::Below(host) | Self::AtOrBelow(host)) => {
                host == suffix || is_below(host, suffix)
            }
            (Self::Net(own, length), Self::Net(net, other)) => length <= other && in_net(*net, *own, *length),
            _ => false,
        }
    }
}

/// Whether `host` ends in `suffix` at a label boundary and is longer.
fn is_below(host: &str, suffix: &str) -> bool {
    host.strip_suffix(suffix).is_some_and(|rest| rest.ends_with('.'))
}

/// Bits of an address.
fn width(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

fn in_net(address: IpAddr, net: IpAddr, length: u8) -> bool {
    match (address, net) {
        (IpAddr::V4(a), IpAddr::V4(n)) => {
            mask(a.to_bits().into(), 32, length) == mask(n.to_bits().into(), 32, length)
        }
        (IpAddr::V6(a), IpAddr::V6(n)) => mask(a.to_bits(), 128, length) == mask(n.to_bits(), 128, length),
        _ => false,
    }
}

fn mask(bits: u128, width: u8, length: u8) -> u128 {
    let host_bits = u32::from(width - length.min(width));
    bits.checked_shr(host_bits).unwrap_or(0)
}

impl FromStr for HostPattern {
    type Err = HostPatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Err(HostPatternError::Empty);
        }
        if trimmed.contains("://") || trimmed.contains(['@', '?', '#']) {
            return Err(HostPatternError::Url(text.to_owned()));
        }
        let (host, port) = split_port(trimmed).ok_or_else(|| HostPatternError::Port(text.to_owned()))?;
        let port = match port {
            None => PortPattern::Web,
            Some("*") => PortPattern::Any,
            Some(digits) => match digits.parse() {
                Ok(port) if port != 0 && digits.bytes().all(|b| b.is_ascii_digit()) => PortPattern::One(port),
                _ => return Err(HostPatternError::Port(text.to_owned())),
            },
        };
        Ok(Self { name: parse_name(host, text)?, port })
    }
}

/// Splits `host:port`, `[v6]:port`, a bare `v6` and `v6/length`.
fn split_port(text: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, tail) = rest.split_once(']')?;
        return match tail.strip_prefix(':') {
            Some(port) => Some((host, Some(port))),
            None if tail.is_empty() => Some((host, None)),
            None => None,
        };
    }
    match text.split_once(':') {
        Some((_, rest)) if rest.contains(':') => Some((text, None)),
        Some((host, port)) => Some((host, Some(port))),
        None => Some((text, None)),
    }
}

fn parse_name(host: &str, whole: &str) -> Result<Name, HostPatternError> {
    let (address, length) = match host.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (host, None),
    };
    if let Ok(ip) = address.parse::<IpAddr>() {
        let width = width(ip);
        let length = match length {
            None => width,
            Some(digits) => digits
                .parse()
                .ok()
                .filter(|length| *length <= width)
                .ok_or_else(|| HostPatternError::Prefix(whole.to_owned()))?,
        };
        return Ok(Name::Net(network_of(ip, length), length));
    }
    if length.is_some() {
        return Err(HostPatternError::Url(whole.to_owned()));
    }
    let ascii = |name: &str| {
        if name.contains('*') {
            return Err(HostPatternError::Wildcard(whole.to_owned()));
        }
        normalise(name)
            .filter(|name| !ends_in_number(name))
            .ok_or_else(|| HostPatternError::Name(whole.to_owned()))
    };
    if let Some(suffix) = host.strip_prefix("**.") {
        ascii(suffix).map(Name::AtOrBelow)
    } else if let Some(suffix) = host.strip_prefix("*.") {
        ascii(suffix).map(Name::Below)
    } else {
        ascii(host).map(Name::Exact)
    }
}

fn network_of(ip: IpAddr, length: u8) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => {
            IpAddr::V4((ip.to_bits() & u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0)).into())
        }
        IpAddr::V6(ip) => {
            IpAddr::V6((ip.to_bits() & u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)).into())
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.name, self.port) {
            (Name::Exact(name), _) => write!(f, "{name}")?,
            (Name::Below(name), _) => write!(f, "*.{name}")?,
            (Name::AtOrBelow(name), _) => write!(f, "**.{name}")?,
            (Name::Net(IpAddr::V6(ip), 128), PortPattern::Web) => write!(f, "{ip}")?,
            (Name::Net(IpAddr::V6(ip), 128), _) => write!(f, "[{ip}]")?,
            (Name::Net(IpAddr::V6(ip), length), _) => write!(f, "[{ip}/{length}]")?,
            (Name::Net(ip, 32), _) => write!(f, "{ip}")?,
            (Name::Net(ip, length), _) => write!(f, "{ip}/{length}")?,
        }
        match self.port {
            PortPattern::Web => Ok(()),
            PortPattern::Any => f.write_str(":*"),
            PortPattern::One(port) => write!(f, ":{port}"),
        }
    }
}

impl Serialize for HostPattern {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HostPattern {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> HostPattern {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn spellings_of_one_host_are_equal() {
        assert_eq!(pattern("Example.COM."), pattern("example.com"));
        assert_eq!(pattern("bücher.example"), pattern("xn--bcher-kva.example"));
        assert_eq!(pattern("[2001:0db8::0:1]:443"), pattern("[2001:db8::1]:443"));
        assert_eq!(pattern("10.1.2.3/8"), pattern("10.0.0.0/8"));
    }

    #[test]
    fn display_parses_back() {
        for text in [
            "a.com",
            "*.a.com:*",
            "**.a.com:8080",
            "10.0.0.0/8",
            "::1",
            "[::1]:80",
            "[fd00::/8]:*",
            "1.2.3.4:22",
        ] {
            assert_eq!(pattern(&pattern(text).to_string()), pattern(text), "{text}");
        }
    }

    #[test]
    fn wildcards_cover_at_label_boundaries() {
        assert!(pattern("*.a.com").covers(&pattern("x.a.com")));
        assert!(pattern("*.a.com").covers(&pattern("x.y.a.com")));
        assert!(!pattern("*.a.com").covers(&pattern("a.com")));
        assert!(!pattern("*.a.com").covers(&pattern("xa.com")));
        assert!(!pattern("*.a.com").covers(&pattern("**.a.com")));
        assert!(pattern("**.a.com").covers(&pattern("a.com")));
        assert!(pattern("**.a.com").covers(&pattern("*.b.a.com")));
    }

    #[test]
    fn ports_and_networks_are_compared() {
        assert!(pattern("a.com").covers(&pattern("a.com:443")));
        assert!(!pattern("a.com").covers(&pattern("a.com:22")));
        assert!(!pattern("a.com:443").covers(&pattern("a.com")));
        assert!(pattern("a.com:*").covers(&pattern("a.com")));
        assert!(pattern("10.0.0.0/8").covers(&pattern("10.1.0.0/16")));
        assert!(!pattern("10.1.0.0/16").covers(&pattern("10.0.0.0/8")));
        assert!(pattern("0.0.0.0/0").covers(&pattern("9.9.9.9")));
        assert!(!pattern("::/0").covers(&pattern("9.9.9.9")));
    }

    #[test]
    fn hosts_and_ports_are_matched() {
        let matches = |text: &str, host: &str, port| pattern(text).matches(&host.parse().unwrap(), port);
        assert!(matches("a.com", "A.com.", 443) && matches("a.com", "a.com", 80));
        assert!(!matches("a.com", "a.com", 22) && matches("a.com:22", "a.com", 22));
        assert!(matches("*.a.com:*", "x.y.a.com", 1) && !matches("*.a.com:*", "a.com", 1));
        assert!(matches("**.a.com", "a.com", 443) && !matches("**.a.com", "ba.com", 443));
        assert!(matches("10.0.0.0/8", "10.9.8.7", 443) && !matches("10.0.0.0/8", "11.0.0.0", 443));
        assert!(matches("[2001:db8::1]:443", "2001:0db8::0001", 443));
        assert!(!matches("1.2.3.4", "::ffff:1.2.3.4", 443));
    }

    #[test]
    fn an_exact_pattern_means_its_host_and_port_only() {
        for (host, shown) in [("a.com", "a.com:8443"), ("1.2.3.4", "1.2.3.4:8443"), ("::1", "[::1]:8443")] {
            let host: Host = host.parse().unwrap();
            let exact = HostPattern::exact(&host, 8443);
            assert_eq!(exact.to_string(), shown);
            assert_eq!(pattern(shown), exact);
            assert!(exact.matches(&host, 8443) && !exact.matches(&host, 443));
        }
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for text in [
            "",
            " ",
            "https://a.com",
            "a.com/x",
            "a.com:0",
            "a.com:99999",
            "a.com:+1",
            "*",
            "a.*.com",
            "10.0.0.0/33",
            "user@a.com",
            "1.2.3",
            "0x7f.1",
            "a.0x7f",
            "a b",
        ] {
            assert!(text.parse::<HostPattern>().is_err(), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn matching_and_covering_agree(
            (text, other) in ("[a*.]{0,4}[ab]\\.[ab](:[*]|:80|:22)?", "[a*.]{0,4}[ab]\\.[ab](:[*]|:80|:22)?"),
            host in "([ab]\\.){0,3}[ab]",
            port in proptest::sample::select(vec![22u16, 80, 443, 8080]),
        ) {
            if let (Ok(own), Ok(other)) = (text.parse::<HostPattern>(), other.parse::<HostPattern>()) {
                let host: Host = host.parse().unwrap();
                proptest::prop_assert_eq!(own.to_string().parse::<HostPattern>(), Ok(own.clone()));
                proptest::prop_assert_eq!(own.matches(&host, port), own.covers(&HostPattern::exact(&host, port)));
                if own.covers(&other) && other.matches(&host, port) {
                    proptest::prop_assert!(own.matches(&host, port));
                }
            }
        }
    }
}
