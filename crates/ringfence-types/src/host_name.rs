use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};
use serde::{Deserialize, Serialize};

/// One host that a program wants to reach, parsed and normalised as in [`HostPattern`](crate::HostPattern): lower
/// case, IDNA to ASCII (UTS 46), no trailing dot, one spelling for each IP address.
///
/// What some programs read as an address and others as a name (`127.1`, `0x7f000001`, `2130706433`, an IPv6
/// address with a zone) is no host at all.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// A name of at most 253 bytes.
    Name(String),
    /// An address.
    Ip(IpAddr),
}

/// Why a text is no host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message says it")]
pub enum HostError {
    #[error("host is empty")]
    Empty,
    #[error("`{0}` is no valid host name")]
    Name(String),
    #[error("`{0}` is an ambiguous spelling of an address")]
    AmbiguousAddress(String),
    #[error("`{0}` is an address with a zone, which means nothing on another host")]
    Zone(String),
}

impl Host {
    /// Whether this is `localhost` or a name below it, which always mean the loopback addresses (RFC 6761, 6.3).
    pub fn is_localhost(&self) -> bool {
        matches!(self, Self::Name(name) if name == "localhost" || name.ends_with(".localhost"))
    }
}

impl FromStr for Host {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err(HostError::Empty);
        }
        let bare = match text.strip_prefix('[').map(|rest| rest.strip_suffix(']')) {
            Some(Some(inside)) if inside.contains(':') => inside,
            Some(_) => return Err(HostError::Name(text.to_owned())),
            None => text,
        };
        if let Ok(ip) = bare.parse() {
            return Ok(Self::Ip(ip));
        }
        if bare.contains(':') {
            let zone = bare.split_once('%').is_some_and(|(address, _)| address.parse::<IpAddr>().is_ok());
            let error = if zone { HostError::Zone } else { HostError::Name };
            return Err(error(text.to_owned()));
        }
        match normalise(bare) {
            Some(name) if ends_in_number(&name) => Err(HostError::AmbiguousAddress(text.to_owned())),
            Some(name) => Ok(Self::Name(name)),
            None => Err(HostError::Name(text.to_owned())),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]"),
            Self::Ip(ip) => write!(f, "{ip}"),
        }
    }
}

impl Serialize for Host {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Name(name) => serializer.serialize_str(name),
            Self::Ip(ip) => serializer.collect_str(ip),
        }
    }
}

impl<'de> Deserialize<'de> for Host {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A name in its one spelling, without a trailing dot. Underscores and hyphens in any place are allowed, as they
/// occur in real names; every other ASCII character than letters and digits is not.
pub(crate) fn normalise(name: &str) -> Option<String> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let ascii =
        Uts46::new().to_ascii(name.as_bytes(), AsciiDenyList::URL, Hyphens::Allow, DnsLength::Verify).ok()?;
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    ascii.bytes().all(known).then(|| ascii.into_owned())
}

/// Whether a name could be read as an IPv4 address: its last label is a decimal or hexadecimal number (WHATWG URL,
/// "ends in a number").
pub(crate) fn ends_in_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    let hex = last.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_hexdigit()));
    hex || last.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> String {
        text.parse::<Host>().unwrap_or_else(|error| panic!("{text}: {error}")).to_string()
    }

    #[test]
    fn spellings_of_one_host_are_equal() {
        assert_eq!(host("API.Example.COM."), "api.example.com");
        assert_eq!(host("bücher.example"), "xn--bcher-kva.example");
        assert_eq!(host("bücher。example"), "xn--bcher-kva.example");
        assert_eq!(host("[2001:0DB8::0:1]"), "[2001:db8::1]");
        assert_eq!(host("2001:db8:0:0:0:0:0:1"), "[2001:db8::1]");
        assert_eq!(host("r3---sn-x_y.example.com"), "r3---sn-x_y.example.com");
    }

    #[test]
    fn what_is_no_host_is_refused() {
        let long = format!("{}.example", "a".repeat(64));
        let longer = ["a".repeat(63).as_str(); 4].join(".");
        for text in [
            "",
            ".",
            "..",
            "a..b",
            ".a",
            "a b",
            "a\0b",
            "a/b",
            "a@b",
            "a:b",
            "[a]",
            "[1.2.3.4]",
            "[::1",
            "::1]",
            "a\nb",
            "*.a",
            "a%00",
            "fe80::1%eth0",
            "[fe80::1%1]",
            &long,
            &longer,
        ] {
            assert!(text.parse::<Host>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn an_address_in_disguise_is_refused() {
        for text in [
            "127.1",
            "2130706433",
            "0x7f000001",
            "0x7f.0.0.1",
            "0177.0.0.1",
            "1.2.3.4.5",
            "127.0.0.0x1",
            "0x",
            "１２７.０.０.１",
        ] {
            assert_eq!(text.parse::<Host>(), Err(HostError::AmbiguousAddress(text.to_owned())));
        }
    }

    #[test]
    fn localhost_is_known_with_what_lies_below() {
        assert!(host("a.LocalHost.").parse::<Host>().unwrap().is_localhost());
        assert!(!"notlocalhost".parse::<Host>().unwrap().is_localhost());
    }
}
