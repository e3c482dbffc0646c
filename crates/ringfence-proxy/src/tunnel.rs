//! Moving bytes between two connections until both directions have ended.

#[cfg(target_os = "linux")]
mod splice;

use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::event::{Ending, Traffic};
use crate::sni::{SniFault, SniGate};

/// Bytes of the buffer that a direction holds while something passes, and only then.
const BUFFER: usize = 16 * 1024;
/// So many full buffers in a row make a bulk transfer.
const BULK: u32 = 8;

/// Two connections and what was read from them before they became a tunnel.
pub(crate) struct Tunnel {
    pub(crate) client: TcpStream,
    pub(crate) host: TcpStream,
    /// From the client, not yet sent on.
    pub(crate) from_client: Vec<u8>,
    /// From the host, not yet sent on.
    pub(crate) from_host: Vec<u8>,
    /// Looks at the first bytes of the client.
    pub(crate) sni: Option<SniGate>,
}

impl From<TunnelEnd> for Ending {
    fn from(end: TunnelEnd) -> Self {
        match end {
            TunnelEnd::Closed => Self::Closed,
            TunnelEnd::Idle => Self::Idle,
            TunnelEnd::Broken => Self::Broken,
            TunnelEnd::ServerName => Self::ServerName,
        }
    }
}

/// How a tunnel ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TunnelEnd {
    /// Both directions ended.
    Closed,
    /// Nothing passed for too long.
    Idle,
    /// One side reset the connection, and so was the other one.
    Broken,
    /// The TLS server name was another one.
    ServerName,
}

#[derive(Clone, Copy)]
enum Direction {
    ToHost,
    ToClient,
}

/// A direction's way through the proxy.
struct Pump<'a> {
    from: &'a TcpStream,
    to: &'a TcpStream,
    traffic: &'a Traffic,
    direction: Direction,
}

impl Tunnel {
    /// Runs until the end. Each direction that ends is ended on the other side alone; a reset resets both.
    pub(crate) async fn run(self, traffic: &Arc<Traffic>, idle: Duration) -> TunnelEnd {
        let Self { client, host, from_client, from_host, sni } = self;
        let up = async {
            let first = match sni {
                Some(gate) => gate.inspect(&client, from_client).await?,
                None => from_client,
            };
            let pump = Pump { from: &client, to: &host, traffic, direction: Direction::ToHost };
            pump.write_all(&first).await?;
            drop(first);
            pump.run().await.map_err(SniFault::from)
        };
        let down = async {
            let pump = Pump { from: &host, to: &client, traffic, direction: Direction::ToClient };
            pump.write_all(&from_host).await?;
            drop(from_host);
            pump.run().await.map_err(SniFault::from)
        };
        let mut cut = Cut { streams: [&client, &host], armed: true };
        let end = tokio::select! {
            result = async { tokio::try_join!(up, down) } => match result {
                Ok(_) => TunnelEnd::Closed,
                Err(SniFault::Io(_)) => TunnelEnd::Broken,
                Err(SniFault::Refused(_)) => TunnelEnd::ServerName,
            },
            () = idle_for(traffic, idle) => TunnelEnd::Idle,
        };
        cut.armed = end != TunnelEnd::Closed;
        end
    }
}

/// A transfer that is cut, by the end of the run too, must not look complete: both sides see a reset.
struct Cut<'a> {
    streams: [&'a TcpStream; 2],
    armed: bool,
}

impl Drop for Cut<'_> {
    fn drop(&mut self) {
        for stream in self.streams.into_iter().filter(|_| self.armed) {
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
        }
    }
}

/// Returns when nothing has passed for the given time.
pub(crate) async fn idle_for(traffic: &Traffic, idle: Duration) {
    let mut seen = traffic.total();
    loop {
        sleep(idle).await;
        let now = traffic.total();
        if now == seen {
            return;
        }
        seen = now;
    }
}

impl Pump<'_> {
    async fn run(&self) -> io::Result<()> {
        loop {
            self.from.readable().await?;
            match self.buffered().await? {
                Progress::Paused => {}
                Progress::Bulk =>
                {
                    #[cfg(target_os = "linux")]
                    if splice::run(self).await? == Progress::Ended {
                        return self.end();
                    }
                }
                Progress::Ended => return self.end(),
            }
        }
    }

    /// Copies what is there, with a buffer that lives no longer.
    async fn buffered(&self) -> io::Result<Progress> {
        let mut buffer = Vec::with_capacity(BUFFER);
        let mut full = 0;
        loop {
            buffer.clear();
            match self.from.try_read_buf(&mut buffer) {
                Ok(0) => return Ok(Progress::Ended),
                Ok(count) => {
                    self.write_all(&buffer).await?;
                    full = if count == BUFFER { full + 1 } else { 0 };
                    if full == BULK {
                        return Ok(Progress::Bulk);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Progress::Paused),
                Err(error) => return Err(error),
            }
        }
    }

    async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.to.try_write(bytes) {
                Ok(count) => {
                    self.count(count);
                    bytes = &bytes[count..];
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.to.writable().await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn count(&self, bytes: usize) {
        match self.direction {
            Direction::ToHost => self.traffic.add_sent(bytes),
            Direction::ToClient => self.traffic.add_received(bytes),
        }
    }

    /// Half-close. A side that has gone already is no fault: its own direction tells.
    fn end(&self) -> io::Result<()> {
        match SockRef::from(self.to).shutdown(Shutdown::Write) {
            Err(error) if error.kind() != io::ErrorKind::NotConnected => Err(error),
            _ => Ok(()),
        }
    }
}

/// What stopped a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Nothing more is there at the moment.
    Paused,
    /// Much is there.
    Bulk,
    /// The sender has ended this direction.
    Ended,
}
