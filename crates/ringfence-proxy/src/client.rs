//! Clients that know that they speak to a proxy: the first byte tells how.

use std::net::SocketAddr;
use std::sync::Arc;

use ringfence_types::Host;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::admit::{Admission, Dialled, Refusal};
use crate::credentials::Credentials;
use crate::event::{Ending, Protocol, Record};
use crate::http::forward;
use crate::http::head::{self, Form, Head, HeadError};
use crate::http::reply::{Reply, close_gently};
use crate::sni::SniGate;
use crate::socks::{self, Code, SocksError};
use crate::tunnel::Tunnel;

/// The whole answer to CONNECT.
const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// Serves one connection to its end.
pub(crate) async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    credentials: Option<Credentials>,
    admission: Arc<Admission>,
) {
    // What is needed until there is a tunnel lies in a box of its own, so that an idle tunnel does not carry it along.
    let opening = Box::pin(open(stream, peer, credentials, Arc::clone(&admission)));
    if let Some((tunnel, record)) = opening.await {
        let end = tunnel.run(record.traffic(), admission.limits.idle).await;
        record.end(end.into());
    }
}

async fn open(
    stream: TcpStream,
    peer: SocketAddr,
    credentials: Option<Credentials>,
    admission: Arc<Admission>,
) -> Option<(Tunnel, Record)> {
    let mut first = [0];
    match timeout(admission.limits.handshake, stream.peek(&mut first)).await {
        Ok(Ok(1)) if first[0] == socks::VERSION => {
            open_socks(stream, peer, credentials.as_ref(), admission).await
        }
        Ok(Ok(1)) => open_http(stream, peer, credentials.as_ref(), admission).await,
        // Nothing was asked, so nothing is answered.
        _ => None,
    }
}

async fn open_socks(
    mut stream: TcpStream,
    peer: SocketAddr,
    credentials: Option<&Credentials>,
    admission: Arc<Admission>,
) -> Option<(Tunnel, Record)> {
    let request = timeout(admission.limits.handshake, socks::request(&mut stream, credentials)).await;
    let (host, port) = match request {
        Ok(Ok(target)) => target,
        Ok(Err(error)) => {
            tracing::debug!(%error, "refused a SOCKS client");
            if let Some(code) = error.code() {
                let _ = stream.write_all(&socks::reply(code)).await;
            }
            if !matches!(error, SocksError::Io(_)) {
                close_gently(stream).await;
            }
            return None;
        }
        Err(_) => return None,
    };
    match connect(&admission, Protocol::Socks5, &stream, peer, host, port).await {
        Ok((dialled, sni)) => {
            if stream.write_all(&socks::reply(Code::Succeeded)).await.is_err() {
                dialled.record.end(Ending::Broken);
                return None;
            }
            Some(tunnel(stream, Vec::new(), dialled, sni))
        }
        Err(refusal) => {
            if stream.write_all(&socks::reply(Code::from(&refusal))).await.is_ok() {
                close_gently(stream).await;
            }
            None
        }
    }
}

async fn open_http(
    mut stream: TcpStream,
    peer: SocketAddr,
    credentials: Option<&Credentials>,
    admission: Arc<Admission>,
) -> Option<(Tunnel, Record)> {
    let mut buffer = Vec::new();
    let limits = &admission.limits;
    let head = match timeout(limits.handshake, head::read(&mut stream, &mut buffer, limits.head)).await {
        Ok(Ok(head)) => head,
        Ok(Err(error)) => {
            refuse_head(stream, &error).await;
            return None;
        }
        Err(_) => {
            let _ = Reply::timeout().send(stream).await;
            return None;
        }
    };
    let Head { form, host, port, credentials: given, length } = head;
    if credentials.is_some_and(|own| !given.is_some_and(|given| own.are(&given))) {
        let _ = Reply::unauthorized().send(stream).await;
        return None;
    }
    let protocol = if form == Form::Connect { Protocol::Connect } else { Protocol::Http };
    let (dialled, sni) = match connect(&admission, protocol, &stream, peer, host.clone(), port).await {
        Ok(dialled) => dialled,
        Err(refusal) => {
            let _ = Reply::for_refusal(&refusal).send(stream).await;
            return None;
        }
    };
    if form == Form::Absolute {
        Box::pin(forward::run(&admission, stream, buffer, host, port, dialled)).await;
        return None;
    }
    if stream.write_all(ESTABLISHED).await.is_err() {
        dialled.record.end(Ending::Broken);
        return None;
    }
    Some(tunnel(stream, buffer.split_off(length), dialled, sni))
}

async fn refuse_head(stream: TcpStream, error: &HeadError) {
    tracing::debug!(%error, "refused an HTTP client");
    if let Some(reply) = Reply::for_head(error) {
        let _ = reply.send(stream).await;
    }
}

/// Decides and dials, for a connection that is held meanwhile.
pub(crate) async fn connect(
    admission: &Arc<Admission>,
    protocol: Protocol,
    client: &TcpStream,
    peer: SocketAddr,
    host: Host,
    port: u16,
) -> Result<(Dialled, SniGate), Refusal> {
    let connection = admission.next_connection();
    let admitted = admission.admit(connection, protocol, client, peer, host.clone(), port).await?;
    let dialled = admission.dial(admitted, protocol).await?;
    Ok((dialled, SniGate { admission: Arc::clone(admission), connection, protocol, host, port }))
}

/// The tunnel between a client and what was dialled for it.
pub(crate) fn tunnel(
    client: TcpStream,
    from_client: Vec<u8>,
    dialled: Dialled,
    sni: SniGate,
) -> (Tunnel, Record) {
    let Dialled { stream, early, record, .. } = dialled;
    (Tunnel { client, host: stream, from_client, from_host: early, sni: Some(sni) }, record)
}
