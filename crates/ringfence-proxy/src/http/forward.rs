//! A plain request, forwarded: hyper reads the client's message and writes a new one, so that nothing of its framing
//! gets past the proxy.

use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;
use ringfence_types::Host;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::reply::{Reply, close_gently};
use crate::admit::{Admission, Dialled};
use crate::event::Ending;
use crate::io::Io;
use crate::server::reset;
use crate::tunnel::{Tunnel, idle_for};

type Body = BoxBody<Bytes, hyper::Error>;
/// The two halves of an upgrade: the client's and the host's.
type Upgrades = Arc<Mutex<Option<(OnUpgrade, OnUpgrade)>>>;

/// Fields that concern one connection only (RFC 9110, section 7.6.1), and those that are meant for a proxy.
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    // hyper itself tells the client to go on.
    header::EXPECT,
];
const HOP_BY_HOP_OLD: [&str; 2] = ["keep-alive", "proxy-connection"];

/// Forwards one request, of which `early` was read already, and its response. The client's connection ends with it:
/// each head is checked before anybody acts upon it, and hyper would read the next one by itself.
pub(crate) async fn run(
    admission: &Admission,
    client: TcpStream,
    early: Vec<u8>,
    host: Host,
    port: u16,
    dialled: Dialled,
) {
    let Dialled { stream, early: from_host, plain_through, record } = dialled;
    let traffic = Arc::clone(record.traffic());
    let to_host = TokioIo::new(Io::host(stream, from_host, Arc::clone(&traffic)));
    let handshake = hyper::client::conn::http1::Builder::new()
        .max_buf_size(64 * 1024)
        .handshake::<_, Body>(to_host)
        .await;
    let (sender, connection) = match handshake {
        Ok(pair) => pair,
        Err(_) => {
            let _ = Reply::bad_gateway(record.wanted()).send(client).await;
            return record.end(Ending::Broken);
        }
    };
    let exchange = Exchange {
        sender: Arc::new(Mutex::new(Some(sender))),
        upgrades: Upgrades::default(),
        failed: Arc::default(),
        rewrite: Rewrite { host, port, authorization: plain_through },
    };
    let (upgrades, failed) = (Arc::clone(&exchange.upgrades), Arc::clone(&exchange.failed));
    let answer = async {
        let service = service_fn(move |request| exchange.clone().answer(request));
        let mut server = hyper::server::conn::http1::Builder::new()
            .keep_alive(false)
            .half_close(true)
            .max_buf_size(admission.limits.head.max(8192) + 1024)
            .serve_connection(TokioIo::new(Io::client(client, early)), service)
            .with_upgrades();
        let result = poll_fn(|cx| std::pin::Pin::new(&mut server).poll(cx)).await;
        let pair = upgrades.lock().unwrap_or_else(PoisonError::into_inner).take();
        match pair {
            Some((from_client, from_host)) => match (from_client.await, from_host.await) {
                (Ok(client), Ok(host)) => upgraded(client, host, &traffic, admission).await,
                _ => Ending::Broken,
            },
            None => {
                let whole = result.is_ok();
                if let Some(parts) = server.into_parts() {
                    let client = parts.io.into_inner().into_parts().0;
                    match result {
                        Ok(()) => close_gently(client).await,
                        // A response that broke off must not look complete.
                        Err(_) => reset(client),
                    }
                }
                let good = whole && !failed.load(Ordering::Relaxed);
                if good { Ending::Closed } else { Ending::Broken }
            }
        }
    };
    // The host's side is driven beside the client's, and outlives it never.
    let drive = async {
        let _ = pin!(connection.with_upgrades()).await;
        pending::<()>().await
    };
    let ending = tokio::select! {
        ending = answer => ending,
        () = drive => Ending::Broken,
        () = idle_for(record.traffic(), admission.limits.idle) => Ending::Idle,
    };
    record.end(ending);
}

#[derive(Clone)]
struct Exchange {
    sender: Arc<Mutex<Option<SendRequest<Body>>>>,
    upgrades: Upgrades,
    /// Whether the host did not answer as it should.
    failed: Arc<AtomicBool>,
    rewrite: Rewrite,
}

#[derive(Clone)]
struct Rewrite {
    host: Host,
    port: u16,
    /// For an upstream proxy that takes the request as it is: its credentials, if it wants any.
    authorization: Option<Option<String>>,
}

impl Exchange {
    async fn answer(self, mut request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut sender) = sender else { return Ok(failure(StatusCode::BAD_REQUEST)) };
        let from_client = hyper::upgrade::on(&mut request);
        let upgrade = upgrade_wanted(request.headers());
        let Some(request) = self.rewrite.request(request, upgrade.clone()) else {
            return Ok(failure(StatusCode::BAD_REQUEST));
        };
        let Ok(mut response) = sender.send_request(request).await else {
            return Ok(self.bad_gateway());
        };
        let switched = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        if switched && upgrade.is_none() {
            return Ok(self.bad_gateway());
        }
        let from_host = hyper::upgrade::on(&mut response);
        let protocol = response.headers().get(header::UPGRADE).cloned();
        // With both, the chunks have told the length (RFC 9112, section 6.3).
        if response.headers().contains_key(header::TRANSFER_ENCODING) {
            response.headers_mut().remove(header::CONTENT_LENGTH);
        }
        remove_hop_by_hop(response.headers_mut());
        if switched {
            set_upgrade(response.headers_mut(), protocol);
            *self.upgrades.lock().unwrap_or_else(PoisonError::into_inner) = Some((from_client, from_host));
        } else {
            let via = via(response.version());
            response.headers_mut().append(header::VIA, via);
        }
        Ok(response.map(BodyExt::boxed))
    }

    fn bad_gateway(&self) -> Response<Body> {
        self.failed.store(true, Ordering::Relaxed);
        failure(StatusCode::BAD_GATEWAY)
    }
}

impl Rewrite {
    /// The request as the host gets it; `None` if it has no form there.
    fn request(&self, request: Request<Incoming>, upgrade: Option<HeaderValue>) -> Option<Request<Body>> {
        let (mut parts, body) = request.into_parts();
        let authority = match self.port {
            80 => self.host.to_string(),
            port => format!("{}:{port}", self.host),
        };
        let path = match parts.uri.path_and_query().map_or("/", |path| path.as_str()) {
            "/" | "" if parts.method == Method::OPTIONS && !parts.uri.to_string().ends_with('/') => "*",
            "" => "/",
            path => path,
        };
        remove_hop_by_hop(&mut parts.headers);
        parts.headers.insert(header::HOST, HeaderValue::from_str(&authority).ok()?);
        parts.headers.append(header::VIA, via(parts.version));
        set_upgrade(&mut parts.headers, upgrade);
        parts.uri = match &self.authorization {
            None => path.parse().ok()?,
            Some(credentials) => {
                if let Some(value) = credentials {
                    let mut value = HeaderValue::from_str(value).ok()?;
                    value.set_sensitive(true);
                    parts.headers.insert(header::PROXY_AUTHORIZATION, value);
                }
                let path = if path == "*" { "" } else { path };
                format!("http://{authority}{path}").parse::<Uri>().ok()?
            }
        };
        parts.version = Version::HTTP_11;
        Some(Request::from_parts(parts, body.boxed()))
    }
}

fn via(version: Version) -> HeaderValue {
    HeaderValue::from_static(if version == Version::HTTP_10 { "1.0 ringfence" } else { "1.1 ringfence" })
}

/// The protocol that a client wants to change to.
fn upgrade_wanted(headers: &HeaderMap) -> Option<HeaderValue> {
    let named = connection_options(headers).any(|option| option.eq_ignore_ascii_case("upgrade"));
    headers.get(header::UPGRADE).filter(|_| named).cloned()
}

fn set_upgrade(headers: &mut HeaderMap, protocol: Option<HeaderValue>) {
    if let Some(protocol) = protocol {
        headers.insert(header::UPGRADE, protocol);
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    }
}

fn connection_options(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::CONNECTION).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// Removes the fields of one connection, those included that `Connection` names. The message's own framing and target
/// stay, whatever it says.
fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = connection_options(headers)
        .filter_map(|option| option.parse().ok())
        .filter(|name| *name != header::CONTENT_LENGTH && *name != header::HOST)
        .collect();
    for name in HOP_BY_HOP.iter().chain(&named) {
        headers.remove(name);
    }
    for name in HOP_BY_HOP_OLD {
        headers.remove(name);
    }
}

fn failure(status: StatusCode) -> Response<Body> {
    let text = format!("ringfence: {}\n", status.canonical_reason().unwrap_or_default().to_lowercase());
    let body = Full::new(Bytes::from(text)).map_err(|never: Infallible| match never {}).boxed();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

/// The connection after an upgrade, for instance of a WebSocket.
async fn upgraded(
    client: Upgraded,
    host: Upgraded,
    traffic: &Arc<crate::event::Traffic>,
    admission: &Admission,
) -> Ending {
    let (Ok(client), Ok(host)) = (client.downcast::<TokioIo<Io>>(), host.downcast::<TokioIo<Io>>()) else {
        return Ending::Broken;
    };
    let (host_stream, from_host) = host.io.into_inner().into_parts();
    let (mut client_stream, early) = client.io.into_inner().into_parts();
    // What hyper read of the host's side has been counted.
    if client_stream.write_all(&host.read_buf).await.is_err() {
        return Ending::Broken;
    }
    let from_client = [client.read_buf, early].concat();
    let tunnel = Tunnel {
        client: client_stream,
        host: host_stream,
        from_client,
        from_host: from_host.into(),
        sni: None,
    };
    tunnel.run(traffic, admission.limits.idle).await.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_one_connection_are_removed() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Own"),
            ("connection", "content-length, host"),
            ("keep-alive", "5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "Basic x"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("x-own", "1"),
            ("x-other", "2"),
            ("content-length", "3"),
            ("host", "a.com"),
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        assert_eq!(upgrade_wanted(&headers), None);
        remove_hop_by_hop(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-length", "host", "x-other"]);
    }

    #[test]
    fn an_upgrade_needs_both_fields() {
        let mut headers = HeaderMap::new();
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        assert_eq!(upgrade_wanted(&headers), None);
        headers.insert(header::CONNECTION, HeaderValue::from_static("keep-alive, Upgrade"));
        assert_eq!(upgrade_wanted(&headers), Some(HeaderValue::from_static("websocket")));
    }
}
