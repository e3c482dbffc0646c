//! The head of a request: read with bounds, parsed by httparse, and refused where two readers could understand it
//! differently (RFC 9112, sections 3.2, 6.1, 6.3 and 11.2).

use std::io;
use std::str;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ringfence_types::{Host, HostError};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::authority;

/// Header fields of a request.
const FIELDS: usize = 100;

/// What a request wants from the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) form: Form,
    pub(crate) host: Host,
    pub(crate) port: u16,
    /// From `Proxy-Authorization: Basic`: `user:password`.
    pub(crate) credentials: Option<Vec<u8>>,
    /// Bytes up to and including the empty line.
    pub(crate) length: usize,
}

/// The form of a request target (RFC 9112, section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `CONNECT host:port`.
    Connect,
    /// `METHOD http://host[:port]/path`.
    Absolute,
}

/// Why a head is not acted upon.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HeadError {
    #[error("the connection ended before the request did")]
    Closed,
    #[error("cannot read the request")]
    Io(#[from] io::Error),
    #[error("the request's head is too large")]
    TooLarge,
    #[error("not an HTTP request: {0}")]
    Syntax(#[from] httparse::Error),
    #[error("a line ends in a bare line feed")]
    BareLineFeed,
    #[error("this is a proxy: the request target must be an absolute URL, or `host:port` with CONNECT")]
    NotForProxy,
    #[error("only http URLs are forwarded; use CONNECT for `{0}`")]
    Scheme(String),
    #[error("the request target holds a malformed host or port")]
    Target,
    #[error("CONNECT needs a port")]
    NoPort,
    #[error("the request target holds user information")]
    UserInfo,
    #[error("{0}")]
    Host(#[from] HostError),
    #[error("the request needs exactly one Host field")]
    HostFields,
    #[error("the Host field names another host than the request target")]
    HostMismatch,
    #[error("more than one Content-Length field")]
    ContentLengths,
    #[error("malformed Content-Length field")]
    ContentLength,
    #[error("both Content-Length and Transfer-Encoding")]
    BothLengths,
    #[error("the only transfer coding of a request is `chunked`, in HTTP/1.1")]
    TransferEncoding,
    #[error("CONNECT has no body")]
    ConnectBody,
    #[error("malformed Proxy-Authorization field")]
    Authorization,
}

/// Reads from `stream` until `buffer` holds a complete head of at most `limit` bytes; what follows it stays there.
pub(crate) async fn read<R: AsyncRead + Unpin>(
    stream: &mut R,
    buffer: &mut Vec<u8>,
    limit: usize,
) -> Result<Head, HeadError> {
    let mut searched = 0;
    loop {
        if let Some(end) = end_of_head(buffer, searched) {
            return if end > limit { Err(HeadError::TooLarge) } else { parse(&buffer[..end]) };
        }
        if buffer.len() >= limit {
            return Err(HeadError::TooLarge);
        }
        // What can't become a request is refused at once, not when its line ends.
        if buffer.first().is_some_and(|byte| !byte.is_ascii_uppercase() && !byte.is_ascii_lowercase()) {
            return Err(HeadError::Syntax(httparse::Error::Token));
        }
        searched = buffer.len().saturating_sub(3);
        buffer.reserve(1024);
        if stream.read_buf(buffer).await? == 0 {
            return Err(HeadError::Closed);
        }
    }
}

/// The position after the first empty line, looked for from `from` on.
fn end_of_head(bytes: &[u8], from: usize) -> Option<usize> {
    bytes[from..].windows(4).position(|four| four == b"\r\n\r\n").map(|at| from + at + 4)
}

/// Parses a complete head.
pub(crate) fn parse(bytes: &[u8]) -> Result<Head, HeadError> {
    let bare =
        bytes.iter().enumerate().any(|(at, &byte)| byte == b'\n' && (at == 0 || bytes[at - 1] != b'\r'));
    if bare {
        return Err(HeadError::BareLineFeed);
    }
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Err(HeadError::Closed),
        Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooLarge),
        Err(error) => return Err(error.into()),
    };
    let (Some(method), Some(target), Some(minor)) = (request.method, request.path, request.version) else {
        return Err(HeadError::Closed);
    };
    let form = if method == "CONNECT" { Form::Connect } else { Form::Absolute };
    let (host, port) = match form {
        Form::Connect => connect_target(target)?,
        Form::Absolute => absolute_target(target)?,
    };
    check_host_field(request.headers, form, minor, &host, port)?;
    check_lengths(request.headers, form, minor)?;
    Ok(Head { form, host, port, credentials: credentials(request.headers)?, length })
}

fn connect_target(target: &str) -> Result<(Host, u16), HeadError> {
    if target.contains('@') {
        return Err(HeadError::UserInfo);
    }
    let (host, port) = authority::split(target).map_err(|_| HeadError::Target)?;
    Ok((host.parse()?, port.ok_or(HeadError::NoPort)?))
}

fn absolute_target(target: &str) -> Result<(Host, u16), HeadError> {
    let Some((scheme, rest)) = target.split_once("://") else { return Err(HeadError::NotForProxy) };
    if !scheme.eq_ignore_ascii_case("http") {
        let word = scheme.bytes().all(|b| b.is_ascii_alphanumeric()) && scheme.len() <= 16;
        return Err(if word { HeadError::Scheme(scheme.to_owned()) } else { HeadError::NotForProxy });
    }
    if target.contains(['#', '\\']) {
        return Err(HeadError::Target);
    }
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(HeadError::UserInfo);
    }
    let (host, port) = authority::split(authority).map_err(|_| HeadError::Target)?;
    Ok((host.parse()?, port.unwrap_or(80)))
}

type Fields<'a, 'b> = &'a [httparse::Header<'b>];

fn values<'a, 'b>(
    fields: Fields<'a, 'b>,
    name: &'static str,
) -> impl Iterator<Item = &'b [u8]> + use<'a, 'b> {
    fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
}

/// The Host field says the same as the target; an old client may leave it out, as may one that wants a tunnel, and the
/// latter may leave out the port.
fn check_host_field(fields: Fields, form: Form, minor: u8, host: &Host, port: u16) -> Result<(), HeadError> {
    let mut hosts = values(fields, "host");
    let (first, second) = (hosts.next(), hosts.next());
    if second.is_some() || (first.is_none() && form == Form::Absolute && minor == 1) {
        return Err(HeadError::HostFields);
    }
    let Some(value) = first else { return Ok(()) };
    let text = str::from_utf8(value).map_err(|_| HeadError::HostMismatch)?;
    let (name, own_port) = authority::split(text).map_err(|_| HeadError::HostMismatch)?;
    let same_host = name.parse::<Host>().is_ok_and(|own| own == *host);
    let same_port = match form {
        Form::Connect => own_port.is_none_or(|own| own == port),
        Form::Absolute => own_port.unwrap_or(80) == port,
    };
    if same_host && same_port { Ok(()) } else { Err(HeadError::HostMismatch) }
}

fn check_lengths(fields: Fields, form: Form, minor: u8) -> Result<(), HeadError> {
    let mut lengths = values(fields, "content-length");
    let mut codings = values(fields, "transfer-encoding");
    let (length, coding) = (lengths.next(), codings.next());
    if lengths.next().is_some() {
        return Err(HeadError::ContentLengths);
    }
    if length.is_some() && coding.is_some() {
        return Err(HeadError::BothLengths);
    }
    if length
        .is_some_and(|value| value.is_empty() || value.len() > 19 || !value.iter().all(u8::is_ascii_digit))
    {
        return Err(HeadError::ContentLength);
    }
    if let Some(coding) = coding
        && (minor == 0 || !coding.eq_ignore_ascii_case(b"chunked") || codings.next().is_some())
    {
        return Err(HeadError::TransferEncoding);
    }
    let body = coding.is_some() || length.is_some_and(|value| value.iter().any(|digit| *digit != b'0'));
    if form == Form::Connect && body { Err(HeadError::ConnectBody) } else { Ok(()) }
}

/// `Basic` credentials (RFC 7617).
fn credentials(fields: Fields) -> Result<Option<Vec<u8>>, HeadError> {
    let mut found = values(fields, "proxy-authorization");
    let Some(value) = found.next() else { return Ok(None) };
    let text =
        str::from_utf8(value).ok().filter(|_| found.next().is_none()).ok_or(HeadError::Authorization)?;
    match text.split_once(' ') {
        Some((scheme, encoded)) if scheme.eq_ignore_ascii_case("basic") => {
            BASE64_STANDARD.decode(encoded.trim()).map(Some).map_err(|_| HeadError::Authorization)
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests;
