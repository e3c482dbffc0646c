//! The proxy that the host itself needs to reach other networks.

mod no_proxy;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ringfence_types::Host;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::dial;
use crate::event::Protocol;
use crate::http::authority;
use crate::resolve::Resolve;
use no_proxy::NoProxy;

/// Bytes of an upstream proxy's reply to CONNECT.
const REPLY_LIMIT: usize = 16 * 1024;

/// Which connections of the proxy itself go through another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upstream {
    plain: Option<Arc<UpstreamProxy>>,
    tunnels: Option<Arc<UpstreamProxy>>,
    except: NoProxy,
}

/// An HTTP proxy of the host.
#[derive(Clone, PartialEq, Eq)]
pub struct UpstreamProxy {
    host: Host,
    port: u16,
    /// Value of `Proxy-Authorization`.
    authorization: Option<String>,
}

/// Why a proxy variable can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// Only HTTP proxies can be spoken to.
    #[error("{variable} names a proxy of the kind `{scheme}`, only `http` can be used")]
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
}

const PLAIN: [&str; 2] = ["http_proxy", "HTTP_PROXY"];
const TUNNELS: [&str; 2] = ["https_proxy", "HTTPS_PROXY"];
const ALL: [&str; 2] = ["all_proxy", "ALL_PROXY"];
const EXCEPT: [&str; 2] = ["no_proxy", "NO_PROXY"];

impl Upstream {
    /// From the variables `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy`, in lower case first, then in upper
    /// case, as curl(1) reads them. `variable` gives the value of one.
    ///
    /// # Errors
    /// A value that names no HTTP proxy.
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

impl UpstreamProxy {
    fn parse(variable: &'static str, value: &str) -> Result<Self, UpstreamError> {
        let malformed = || UpstreamError::Url { variable };
        let rest = match value.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            Some((scheme, _)) => return Err(UpstreamError::Scheme { variable, scheme: scheme.to_owned() }),
            None => value,
        };
        let whole = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (user, place) = whole.rsplit_once('@').map_or((None, whole), |(user, place)| (Some(user), place));
        let (host, port) = authority::split(place).map_err(|_| malformed())?;
        let host = host.parse().map_err(|_| malformed())?;
        let authorization = match user {
            Some(user) => {
                let plain = percent_decoded(user).ok_or_else(malformed)?;
                let plain = if plain.contains(&b':') { plain } else { [plain, vec![b':']].concat() };
                Some(format!("Basic {}", BASE64_STANDARD.encode(plain)))
            }
            None => None,
        };
        Ok(Self { host, port: port.unwrap_or(80), authorization })
    }

    /// Value of `Proxy-Authorization`, if the proxy wants one.
    pub(crate) fn authorization(&self) -> Option<&str> {
        self.authorization.as_deref()
    }

    /// Connects to the proxy itself, whose address nobody in the box has chosen.
    pub(crate) async fn connect(&self, resolver: &dyn Resolve) -> Result<TcpStream, UpstreamFault> {
        let addresses = match &self.host {
            Host::Ip(ip) => vec![*ip],
            Host::Name(name) => resolver
                .resolve(name)
                .await
                .map_err(|error| UpstreamFault::Resolve(self.host.clone(), error))?,
        };
        let addresses: Vec<_> = addresses.into_iter().map(|ip| SocketAddr::new(ip, self.port)).collect();
        dial::connect(&addresses).await.map_err(|error| UpstreamFault::Connect(self.host.clone(), error))
    }

    /// Asks for a tunnel; gives it with what has already come through it.
    pub(crate) async fn tunnel(
        &self,
        mut stream: TcpStream,
        target: &Host,
        port: u16,
    ) -> Result<(TcpStream, Vec<u8>), UpstreamFault> {
        let broken = |error| UpstreamFault::Io(self.host.clone(), error);
        let mut request = format!("CONNECT {target}:{port} HTTP/1.1\r\nHost: {target}:{port}\r\n");
        if let Some(value) = &self.authorization {
            request.push_str(&format!("Proxy-Authorization: {value}\r\n"));
        }
        request.push_str("\r\n");
        stream.write_all(request.as_bytes()).await.map_err(broken)?;
        let mut reply = Vec::with_capacity(1024);
        loop {
            if stream.read_buf(&mut reply).await.map_err(broken)? == 0 {
                return Err(broken(io::ErrorKind::UnexpectedEof.into()));
            }
            let mut headers = [httparse::EMPTY_HEADER; 64];
            let mut response = httparse::Response::new(&mut headers);
            match response.parse(&reply) {
                Ok(httparse::Status::Complete(length)) => {
                    return match response.code {
                        Some(200..=299) => Ok((stream, reply.split_off(length))),
                        Some(code) => Err(UpstreamFault::Status(self.host.clone(), code)),
                        None => Err(UpstreamFault::Reply(self.host.clone())),
                    };
                }
                Ok(httparse::Status::Partial) if reply.len() < REPLY_LIMIT => {}
                _ => return Err(UpstreamFault::Reply(self.host.clone())),
            }
        }
    }
}

/// Without the password.
impl std::fmt::Debug for UpstreamProxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UpstreamProxy({}:{})", self.host, self.port)
    }
}

fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let value = digit(bytes.next()?)? * 16 + digit(bytes.next()?)?;
                u8::try_from(value).ok()?
            }
            other => other,
        });
    }
    Some(decoded)
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
        let expected = format!("Basic {}", BASE64_STANDARD.encode("us@er:p:w"));
        assert_eq!(proxy.authorization(), Some(expected.as_str()));
        assert_eq!(format!("{proxy:?}"), "UpstreamProxy(p:1)");
    }

    #[test]
    fn other_kinds_are_refused() {
        let error = upstream(&[("HTTPS_PROXY", "socks5://p:1")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "HTTPS_PROXY names a proxy of the kind `socks5`, only `http` can be used"
        );
        for value in ["http://", "http://p:x", "http://p:0", "http://u%4@p", "http://a b"] {
            assert_eq!(
                upstream(&[("HTTP_PROXY", value)]),
                Err(UpstreamError::Url { variable: "HTTP_PROXY" }),
                "{value}"
            );
        }
    }
}
