use std::fmt;
use std::io;
use std::net::SocketAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ringfence_types::Host;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::socks::{self, Login};
use super::{UpstreamError, UpstreamFault};
use crate::dial;
use crate::http::authority;
use crate::resolve::Resolve;

/// Bytes of an upstream proxy's reply to CONNECT.
const REPLY_LIMIT: usize = 16 * 1024;

/// A proxy of the host.
#[derive(Clone, PartialEq, Eq)]
pub struct UpstreamProxy {
    pub(super) host: Host,
    pub(super) port: u16,
    kind: Kind,
}

#[derive(Clone, PartialEq, Eq)]
enum Kind {
    /// CONNECT, and plain requests. Holds the value of `Proxy-Authorization`.
    Http { authorization: Option<String> },
    /// SOCKS 5, which gets names (`socks5h`) or addresses (`socks5`), as curl(1) tells them apart.
    Socks { login: Option<Login>, names: bool },
}

/// The way through an upstream proxy that takes a plain request as it is: its `Proxy-Authorization`, if it wants any.
pub(crate) type Via = Option<String>;

impl UpstreamProxy {
    /// Reads the URL that a variable holds: `[http|socks5|socks5h://][user[:password]@]host[:port][/]`.
    pub(super) fn parse(variable: &'static str, value: &str) -> Result<Self, UpstreamError> {
        let malformed = || UpstreamError::Url { variable };
        let (scheme, rest) = match value.split_once("://") {
            Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
            None => ("http".to_owned(), value),
        };
        let default_port = match scheme.as_str() {
            "http" => 80,
            "socks5" | "socks5h" => 1080,
            _ => return Err(UpstreamError::Scheme { variable, scheme }),
        };
        let whole = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (user, place) = whole.rsplit_once('@').map_or((None, whole), |(user, place)| (Some(user), place));
        let (host, port) = authority::split(place).map_err(|_| malformed())?;
        let host = host.parse().map_err(|_| malformed())?;
        let (user, password) = match user {
            Some(user) => {
                let (user, password) = user.split_once(':').unwrap_or((user, ""));
                let both = (percent_decoded(user), percent_decoded(password));
                (both.0.ok_or_else(malformed)?, both.1.ok_or_else(malformed)?)
            }
            None => Default::default(),
        };
        let named = !user.is_empty() || !password.is_empty();
        let kind = if scheme == "http" {
            // A user with a colon would read as another one (RFC 7617, section 2).
            if user.contains(&b':') {
                return Err(malformed());
            }
            let plain = [user, password].join(&b':');
            Kind::Http { authorization: named.then(|| format!("Basic {}", BASE64_STANDARD.encode(plain))) }
        } else {
            let login = named.then(|| Login::new(user, password).ok_or_else(malformed)).transpose()?;
            Kind::Socks { login, names: scheme == "socks5h" }
        };
        Ok(Self { host, port: port.unwrap_or(default_port), kind })
    }

    /// Whether names are looked up by the proxy. If not it gets the address that was checked here.
    pub(crate) fn takes_names(&self) -> bool {
        !matches!(self.kind, Kind::Socks { names: false, .. })
    }

    /// How a plain request goes through as it is; `None` if it needs a tunnel.
    pub(crate) fn takes_requests(&self) -> Option<Via> {
        match &self.kind {
            Kind::Http { authorization } => Some(authorization.clone()),
            Kind::Socks { .. } => None,
        }
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
        match &self.kind {
            Kind::Http { authorization } => {
                let early = self.ask_http(&mut stream, authorization.as_deref(), target, port).await?;
                Ok((stream, early))
            }
            Kind::Socks { login, .. } => {
                let asked = socks::ask(&mut stream, login.as_ref(), target, port).await;
                asked.map_err(|fault| fault.of(&self.host))?;
                Ok((stream, Vec::new()))
            }
        }
    }

    async fn ask_http(
        &self,
        stream: &mut TcpStream,
        authorization: Option<&str>,
        target: &Host,
        port: u16,
    ) -> Result<Vec<u8>, UpstreamFault> {
        let broken = |error| UpstreamFault::Io(self.host.clone(), error);
        let mut request = format!("CONNECT {target}:{port} HTTP/1.1\r\nHost: {target}:{port}\r\n");
        if let Some(value) = authorization {
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
                        Some(200..=299) => Ok(reply.split_off(length)),
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
impl fmt::Debug for UpstreamProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Http { .. } => "http",
            Kind::Socks { names: true, .. } => "socks5h",
            Kind::Socks { names: false, .. } => "socks5",
        };
        write!(f, "UpstreamProxy({kind}://{}:{})", self.host, self.port)
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
