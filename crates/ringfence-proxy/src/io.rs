use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::event::Traffic;

/// A connection as hyper gets it: what was read before comes first, and what passes to a host is counted.
pub(crate) struct Io {
    stream: TcpStream,
    early: Bytes,
    traffic: Option<Arc<Traffic>>,
}

impl Io {
    /// A client's connection of which `early` was read already.
    pub(crate) fn client(stream: TcpStream, early: Vec<u8>) -> Self {
        Self { stream, early: early.into(), traffic: None }
    }

    /// A host's connection of which `early` was read already.
    pub(crate) fn host(stream: TcpStream, early: Vec<u8>, traffic: Arc<Traffic>) -> Self {
        Self { stream, early: early.into(), traffic: Some(traffic) }
    }

    /// The connection, and what was read and not taken.
    pub(crate) fn into_parts(self) -> (TcpStream, Bytes) {
        (self.stream, self.early)
    }
}

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        if self.early.is_empty() {
            std::task::ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        } else {
            let count = self.early.len().min(buf.remaining());
            buf.put_slice(&self.early.split_to(count));
        }
        if let Some(traffic) = &self.traffic {
            traffic.add_received(buf.filled().len() - before);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Io {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let count = std::task::ready!(Pin::new(&mut self.stream).poll_write(cx, buf))?;
        if let Some(traffic) = &self.traffic {
            traffic.add_sent(count);
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
