//! SOCKS version 5 (RFC 1928) with user and password (RFC 1929). CONNECT only.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str;

use ringfence_types::{Host, HostError};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::admit::Refusal;
use crate::credentials::Credentials;

pub(crate) const VERSION: u8 = 5;

pub(crate) const NO_AUTHENTICATION: u8 = 0;
pub(crate) const USER_AND_PASSWORD: u8 = 2;
const NO_METHOD: u8 = 0xff;
pub(crate) const CONNECT: u8 = 1;

/// Codes of the reply (RFC 1928, section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Code {
    Succeeded = 0,
    Failure = 1,
    NotAllowed = 2,
    NetworkUnreachable = 3,
    HostUnreachable = 4,
    Refused = 5,
    CommandNotSupported = 7,
    AddressTypeNotSupported = 8,
}

/// Why a client's request is not acted upon.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SocksError {
    #[error("cannot read the request")]
    Io(#[from] io::Error),
    #[error("the greeting is not of SOCKS version 5")]
    Greeting,
    #[error("the client offers no way to say who it is that would do")]
    NoMethod,
    #[error("wrong user or password")]
    Credentials,
    #[error("malformed request")]
    Malformed,
    #[error("only CONNECT is supported")]
    Command,
    #[error("unknown type of address")]
    AddressType,
    #[error("{0}")]
    Host(#[from] HostError),
}

impl SocksError {
    /// The code that the client gets, if it has come so far as to expect one.
    pub(crate) fn code(&self) -> Option<Code> {
        match self {
            Self::Io(_) | Self::Greeting | Self::NoMethod | Self::Credentials => None,
            Self::Malformed => Some(Code::Failure),
            Self::Command => Some(Code::CommandNotSupported),
            Self::AddressType => Some(Code::AddressTypeNotSupported),
            Self::Host(_) => Some(Code::HostUnreachable),
        }
    }
}

impl From<&Refusal> for Code {
    fn from(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::Denied { .. } => Self::NotAllowed,
            Refusal::Dial { source, .. } => match source.kind() {
                io::ErrorKind::ConnectionRefused => Self::Refused,
                io::ErrorKind::NetworkUnreachable => Self::NetworkUnreachable,
                _ => Self::HostUnreachable,
            },
            Refusal::Upstream { .. } => Self::Failure,
            _ => Self::HostUnreachable,
        }
    }
}

/// Talks to a client up to its request, of which not a byte too much is read.
pub(crate) async fn request<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    credentials: Option<&Credentials>,
) -> Result<(Host, u16), SocksError> {
    let [version, methods] = bytes(stream).await?;
    if version != VERSION {
        return Err(SocksError::Greeting);
    }
    let mut offered = vec![0; methods.into()];
    stream.read_exact(&mut offered).await?;
    let method = if credentials.is_some() { USER_AND_PASSWORD } else { NO_AUTHENTICATION };
    if !offered.contains(&method) {
        stream.write_all(&[VERSION, NO_METHOD]).await?;
        return Err(SocksError::NoMethod);
    }
    stream.write_all(&[VERSION, method]).await?;
    if let Some(credentials) = credentials {
        authenticate(stream, credentials).await?;
    }
    let [version, command, reserved, kind] = bytes(stream).await?;
    if version != VERSION || reserved != 0 {
        return Err(SocksError::Malformed);
    }
    let host = address(stream, kind).await?;
    let port = u16::from_be_bytes(bytes(stream).await?);
    if command != CONNECT {
        return Err(SocksError::Command);
    }
    if port == 0 { Err(SocksError::Malformed) } else { Ok((host?, port)) }
}

/// The reply. The address that the proxy is bound to is nobody's business.
pub(crate) fn reply(code: Code) -> [u8; 10] {
    [VERSION, code as u8, 0, 1, 0, 0, 0, 0, 0, 0]
}

async fn authenticate<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    credentials: &Credentials,
) -> Result<(), SocksError> {
    let [version, length] = bytes(stream).await?;
    let mut user = vec![0; length.into()];
    stream.read_exact(&mut user).await?;
    let [length] = bytes(stream).await?;
    let mut password = vec![0; length.into()];
    stream.read_exact(&mut password).await?;
    let good = version == 1 && credentials.are(&[user, vec![b':'], password].concat());
    stream.write_all(&[1, u8::from(!good)]).await?;
    if good { Ok(()) } else { Err(SocksError::Credentials) }
}

/// The address, read to its end also if it is no good host, so that the command can be judged first.
async fn address<S: AsyncRead + Unpin>(
    stream: &mut S,
    kind: u8,
) -> Result<Result<Host, SocksError>, SocksError> {
    Ok(match kind {
        1 => Ok(Host::Ip(IpAddr::V4(Ipv4Addr::from_octets(bytes(stream).await?)))),
        4 => Ok(Host::Ip(IpAddr::V6(Ipv6Addr::from_octets(bytes(stream).await?)))),
        3 => {
            let [length] = bytes(stream).await?;
            let mut name = vec![0; length.into()];
            stream.read_exact(&mut name).await?;
            match str::from_utf8(&name) {
                Ok(name) => name.parse().map_err(SocksError::from),
                Err(_) => Err(SocksError::Malformed),
            }
        }
        _ => return Err(SocksError::AddressType),
    })
}

async fn bytes<const N: usize, S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the client gets, and what the proxy makes of it.
    async fn talk(
        sent: &[u8],
        credentials: Option<&Credentials>,
    ) -> (Vec<u8>, Result<(String, u16), SocksError>) {
        let (near, mut far) = tokio::io::duplex(4096);
        let (reader, mut writer) = tokio::io::split(near);
        writer.write_all(sent).await.unwrap();
        writer.shutdown().await.unwrap();
        let result = request(&mut far, credentials).await.map(|(host, port)| (host.to_string(), port));
        drop(far);
        let mut answer = Vec::new();
        tokio::io::AsyncReadExt::take(reader, 4096).read_to_end(&mut answer).await.unwrap();
        (answer, result)
    }

    fn connect(address: &[u8], port: u16) -> Vec<u8> {
        [&[5, 1, 0, 5, 1, 0], address, &port.to_be_bytes()].concat()
    }

    #[tokio::test]
    async fn each_type_of_address_is_read() {
        for (address, host) in [
            (vec![1, 9, 8, 7, 6], "9.8.7.6"),
            ([&[4][..], &Ipv6Addr::LOCALHOST.octets()].concat(), "[::1]"),
            ([&[3, 5][..], b"A.com"].concat(), "a.com"),
            ([&[3, 7][..], b"9.8.7.6"].concat(), "9.8.7.6"),
        ] {
            let (answer, result) = talk(&connect(&address, 443), None).await;
            assert_eq!(result.unwrap(), (host.to_owned(), 443));
            assert_eq!(answer, [5, 0]);
        }
    }

    #[tokio::test]
    async fn what_is_not_supported_has_its_code() {
        let a_com = [&[3, 5][..], b"a.com"].concat();
        let mut bind = connect(&a_com, 443);
        bind[4] = 2;
        let code = async |sent: &[u8]| talk(sent, None).await.1.unwrap_err().code();
        assert_eq!(code(&bind).await, Some(Code::CommandNotSupported));
        assert_eq!(code(&connect(&[9], 443)).await, Some(Code::AddressTypeNotSupported));
        assert_eq!(code(&connect(&a_com, 0)).await, Some(Code::Failure));
        assert_eq!(code(&connect(&[3, 0], 443)).await, Some(Code::HostUnreachable));
        assert_eq!(code(&connect(&[3, 1, 0xff], 443)).await, Some(Code::Failure));
        assert_eq!(code(&connect(&[&[3, 5][..], b"127.1"].concat(), 443)).await, Some(Code::HostUnreachable));
        assert_eq!(code(&[4, 1]).await, None);
    }

    #[tokio::test]
    async fn a_request_that_breaks_off_is_none() {
        let whole = connect(&[&[3, 5][..], b"a.com"].concat(), 443);
        for cut in 0..whole.len() {
            assert!(matches!(talk(&whole[..cut], None).await.1, Err(SocksError::Io(_))), "{cut}");
        }
        assert!(talk(&whole, None).await.1.is_ok());
    }

    #[tokio::test]
    async fn user_and_password_are_asked_for_and_compared() {
        let own = Credentials::new("u", "p");
        let with = |password: &[u8]| {
            let pair = [&[5, 2, 0, 2, 1, 1, b'u', u8::try_from(password.len()).unwrap()], password].concat();
            [pair.as_slice(), &[5, 1, 0, 1, 9, 8, 7, 6, 1, 187]].concat()
        };
        let (answer, result) = talk(&with(b"p"), Some(&own)).await;
        assert_eq!((answer, result.unwrap().1), (vec![5, 2, 1, 0], 443));
        let (answer, result) = talk(&with(b"q"), Some(&own)).await;
        assert!(matches!(result, Err(SocksError::Credentials)));
        assert_eq!(answer, [5, 2, 1, 1]);
        let (answer, result) = talk(&[5, 1, 0], Some(&own)).await;
        assert!(matches!(result, Err(SocksError::NoMethod)));
        assert_eq!(answer, [5, 0xff]);
        assert!(matches!(talk(&[5, 0], None).await.1, Err(SocksError::NoMethod)));
    }
}
