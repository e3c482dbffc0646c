use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A port of the host that leads to a server in the box. Written as `[ADDR:]PORT:PORT`: the host's address, by default
/// its loopback; the host's port; the port in the box.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Publish {
    address: IpAddr,
    host_port: NonZeroU16,
    box_port: NonZeroU16,
}

/// Why a text is no published port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no published port, expected [ADDR:]PORT:PORT with ports from 1 to 65535")]
pub struct PublishError(String);

impl Publish {
    /// Where the host is reached.
    pub fn host(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.host_port.get())
    }

    /// Where the server listens on the box's loopback.
    pub fn box_port(&self) -> u16 {
        self.box_port.get()
    }
}

impl FromStr for Publish {
    type Err = PublishError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (rest, inner) = text.rsplit_once(':')?;
            let (address, outer) = match rest.rsplit_once(':') {
                None => (Ipv4Addr::LOCALHOST.into(), rest),
                Some((address, outer)) => {
                    let bare = match address.strip_prefix('[') {
                        Some(v6) => v6.strip_suffix(']').filter(|v6| v6.contains(':'))?,
                        None if address.contains(':') => return None,
                        None => address,
                    };
                    (bare.parse().ok()?, outer)
                }
            };
            Some(Self { address, host_port: port(outer)?, box_port: port(inner)? })
        };
        parse().ok_or_else(|| PublishError(text.to_owned()))
    }
}

fn port(digits: &str) -> Option<NonZeroU16> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

impl fmt::Display for Publish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host(), self.box_port)
    }
}

impl From<Publish> for String {
    fn from(publish: Publish) -> Self {
        publish.to_string()
    }
}

impl TryFrom<String> for Publish {
    type Error = PublishError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_optional_and_the_loopback_by_default() {
        for (text, shown) in [
            ("8080:80", "127.0.0.1:8080:80"),
            ("0.0.0.0:8080:80", "0.0.0.0:8080:80"),
            ("[::1]:1:65535", "[::1]:1:65535"),
        ] {
            let publish: Publish = text.parse().unwrap();
            assert_eq!(publish.to_string(), shown);
            assert_eq!(publish.to_string().parse(), Ok(publish));
        }
        let publish: Publish = "[::1]:8080:80".parse().unwrap();
        assert_eq!((publish.host().to_string().as_str(), publish.box_port()), ("[::1]:8080", 80));
    }

    #[test]
    fn what_is_no_published_port_is_refused() {
        for text in [
            "",
            "80",
            ":80",
            "80:",
            "0:80",
            "80:0",
            "a:80",
            "80:65536",
            "+1:2",
            "localhost:80:80",
            "::1:80:80",
            "[127.0.0.1]:80:80",
            "[::1:80:80",
            "1:2:3:4",
        ] {
            assert_eq!(text.parse::<Publish>(), Err(PublishError(text.to_owned())), "{text}");
        }
    }
}
