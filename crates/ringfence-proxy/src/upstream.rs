//! The proxy that the host itself needs to reach other networks.

mod no_proxy;
mod proxy;
mod socks;

use std::io;
use std::sync::Arc;

use ringfence_types::Host;

use crate::event::Protocol;
use no_proxy::NoProxy;

pub use proxy::UpstreamProxy;
pub(crate) use proxy::Via;

/// Which connections of the proxy itself go through another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upstream {
    plain: Option<Arc<UpstreamProxy>>,
    tunnels: Option<Arc<UpstreamProxy>>,
    except: NoProxy,
}

/// Why a proxy variable can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// Neither an HTTP nor a SOCKS 5 proxy, or one that is spoken to by TLS.
    #[error(
        "{variable} names a proxy of the kind `{scheme}`, only `http`, `socks5` and `socks5h` can be used"
    )]
    Scheme {
        /// The variable.
        variable: &'static str,
        /// What stands before `://`.
        scheme: String,
    },
    /// It is no URL of a proxy. The value may hold a password and is not shown.
    #[error("{variable} is no URL of a proxy")]
    Url {
        /// The variable.
        variable: &'static str,
    },
}

impl UpstreamError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Scheme { variable, scheme } if scheme == "https" => format!(
                "let a forwarder speak TLS: `socat TCP-LISTEN:3128,bind=127.0.0.1,fork,reuseaddr OPENSSL:PROXY:PORT` \
                 with that proxy's host and port, and {variable}=http://127.0.0.1:3128"
            ),
            Self::Scheme { variable, .. } | Self::Url { variable } => format!(
                "set {variable} to the URL of an HTTP or SOCKS 5 proxy, such as http://proxy.example:3128, or unset it"
            ),
        }
    }
}

/// What went wrong with an upstream proxy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpstreamFault {
    #[error("cannot look up the upstream proxy {0}")]
    Resolve(Host, #[source] io::Error),
    #[error("cannot connect to the upstream proxy {0}")]
    Connect(Host, #[source] io::Error),
    #[error("the upstream proxy {0} closed the connection")]
    Io(Host, #[source] io::Error),
    #[error("the upstream proxy {0} does not answer like one")]
    Reply(Host),
    #[error("the upstream proxy {0} answered {1}")]
    Status(Host, u16),
    #[error("the upstream proxy {0} refused the user and password, or wants some")]
    Login(Host),
    #[error("the upstream proxy {0} answered with SOCKS code {1}")]
    Code(Host, u8),
}

const PLAIN: [&str; 2] = ["http_proxy", "HTTP_PROXY"];
const TUNNELS: [&str; 2] = ["https_proxy", "HTTPS_PROXY"];
const ALL: [&str; 2] = ["all_proxy", "ALL_PROXY"];
const EXCEPT: [&str; 2] = ["no_proxy", "NO_PROXY"];

impl Upstream {
    /// From the variables `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy`, in lower case first, then in upper
    /// case (where curl(1) leaves out `HTTP_PROXY`). `variable` gives the value of one.
    ///
    /// # Errors
    /// A value that names no HTTP or SOCKS 5 proxy.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, UpstreamError> {
        let first = |names: &[&'static str]| {
            names.iter().find_map(|&name| Some((name, variable(name).filter(|value| !value.is_empty())?)))
        };
        let proxy = |names: [&'static str; 2]| match first(&names).or_else(|| first(&ALL)) {
            Some((name, value)) => UpstreamProxy::parse(name, &value).map(|proxy| Some(Arc::new(proxy))),
            None => Ok(None),
        };
        let except = first(&EXCEPT).map(|(_, value)| NoProxy::parse(&value)).unwrap_or_default();
        Ok(Self { plain: proxy(PLAIN)?, tunnels: proxy(TUNNELS)?, except })
    }

    /// The proxy for a connection, if it goes through one. Loopback never does.
    pub(crate) fn for_host(&self, host: &Host, port: u16, protocol: Protocol) -> Option<Arc<UpstreamProxy>> {
        let proxy = if protocol == Protocol::Http { &self.plain } else { &self.tunnels };
        let loopback = host.is_localhost() || matches!(host, Host::Ip(ip) if ip.is_loopback());
        proxy.clone().filter(|_| !loopback && !self.except.matches(host, port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upstream(variables: &[(&str, &str)]) -> Result<Upstream, UpstreamError> {
        let find =
            |name: &str| variables.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned());
        Upstream::from_variables(find)
    }

    fn through(upstream: &Upstream, host: &str, port: u16, protocol: Protocol) -> Option<String> {
        upstream
            .for_host(&host.parse().unwrap(), port, protocol)
            .map(|proxy| format!("{}:{}", proxy.host, proxy.port))
    }

    #[test]
    fn plain_requests_and_tunnels_have_their_own_proxies() {
        let both = upstream(&[("http_proxy", "http://p:3128"), ("HTTPS_PROXY", "q:8080/")]).unwrap();
        assert_eq!(through(&both, "a.com", 80, Protocol::Http).as_deref(), Some("p:3128"));
        assert_eq!(through(&both, "a.com", 443, Protocol::Connect).as_deref(), Some("q:8080"));
        assert_eq!(through(&both, "localhost", 443, Protocol::Connect), None);
        assert_eq!(through(&both, "127.0.0.1", 443, Protocol::Connect), None);
        let all = upstream(&[("ALL_PROXY", "http://p"), ("http_proxy", "")]).unwrap();
        assert_eq!(through(&all, "a.com", 22, Protocol::Socks5).as_deref(), Some("p:80"));
        assert_eq!(through(&all, "a.com", 80, Protocol::Http).as_deref(), Some("p:80"));
        assert_eq!(upstream(&[]), Ok(Upstream::default()));
    }

    #[test]
    fn lower_case_counts_first() {
        let both = upstream(&[("http_proxy", "a"), ("HTTP_PROXY", "b")]).unwrap();
        assert_eq!(through(&both, "a.com", 80, Protocol::Http).as_deref(), Some("a:80"));
    }

    #[test]
    fn user_and_password_are_sent_and_not_shown() {
        let one = upstream(&[("http_proxy", "http://us%40er:p%3Aw@p:1")]).unwrap();
        let proxy = one.plain.unwrap();
        // `us@er:p:w` in Base64.
        assert_eq!(proxy.takes_requests(), Some(Some("Basic dXNAZXI6cDp3".to_owned())));
        assert_eq!(format!("{proxy:?}"), "UpstreamProxy(http://p:1)");
        assert!(upstream(&[("http_proxy", "http://us%3Aer:pw@p:1")]).is_err());
    }

    #[test]
    fn socks_proxies_take_names_or_addresses() {
        let of = |value: &str| upstream(&[("ALL_PROXY", value)]).unwrap().tunnels.unwrap();
        let names = of("socks5h://user:pw@p");
        assert_eq!(format!("{names:?}"), "UpstreamProxy(socks5h://p:1080)");
        assert!(names.takes_names() && names.takes_requests().is_none());
        let addresses = of("SOCKS5://[::1]:9050/");
        assert_eq!(format!("{addresses:?}"), "UpstreamProxy(socks5://[::1]:9050)");
        assert!(!addresses.takes_names());
        let long = format!("socks5://{}@p", "u".repeat(256));
        assert!(matches!(upstream(&[("ALL_PROXY", &long)]), Err(UpstreamError::Url { .. })));
    }

    #[test]
    fn other_kinds_are_refused() {
        let error = upstream(&[("HTTPS_PROXY", "HTTPS://p:1")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "HTTPS_PROXY names a proxy of the kind `https`, only `http`, `socks5` and `socks5h` can be used"
        );
        let hint = error.hint();
        assert!(hint.contains("OPENSSL:") && hint.ends_with("HTTPS_PROXY=http://127.0.0.1:3128"), "{hint}");
        for scheme in ["socks", "socks4", "socks4a", "ftp"] {
            assert!(upstream(&[("ALL_PROXY", &format!("{scheme}://p:1"))]).is_err(), "{scheme}");
        }
        for value in ["http://", "http://p:x", "http://p:0", "http://u%4@p", "http://a b"] {
            assert_eq!(
                upstream(&[("HTTP_PROXY", value)]),
                Err(UpstreamError::Url { variable: "HTTP_PROXY" }),
                "{value}"
            );
        }
    }
}
