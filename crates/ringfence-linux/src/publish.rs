//! Ports of the host that lead to a server in the box.
//!
//! A connection into the box needs a socket that was made there. PID 1 makes a number of them beforehand; one that has
//! served is disconnected and serves again (connect(2), `AF_UNSPEC`). So PID 1 needs no rights later, and the number
//! of connections at one time is bounded. A server may listen at one family's loopback only: each is tried.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ringfence_types::Publish;
use rustix::io::Errno;
use rustix::net::{AddressFamily, sockopt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::sys;

/// Between two looks at what the box has not taken yet, and after an error of accept(2) that may pass.
const PAUSE: Duration = Duration::from_millis(20);
/// A server that has ended its side may take so long to read the rest.
const LINGER: Duration = Duration::from_secs(60);

/// A listener of the host's, and the port in the box that it leads to.
pub(crate) type Published = (TcpListener, u16);

/// Listens where the plan says.
///
/// # Errors
/// The first port that can't be had.
pub(crate) fn listen(plan: &[Publish]) -> Result<Vec<Published>, (SocketAddr, io::Error)> {
    let bind = |publish: &Publish| {
        let listener = TcpListener::bind(publish.host()).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        listener.map(|listener| (listener, publish.box_port())).map_err(|error| (publish.host(), error))
    };
    plan.iter().map(bind).collect()
}

/// A thread that carries the connections. Dropping it ends them and waits for the thread.
#[derive(Debug)]
pub(crate) struct Carrier {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Carrier {
    /// Serves the listeners with sockets of the box. Should one of them fail, all end. `life` is dropped when they have, for
    /// whatever reason.
    ///
    /// # Errors
    /// A thread or runtime that can't be had.
    pub(crate) fn start(
        published: Vec<Published>,
        sockets: Vec<OwnedFd>,
        life: impl Send + 'static,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listeners = {
            let _inside = runtime.enter();
            let take = |(listener, port)| Ok((tokio::net::TcpListener::from_std(listener)?, port));
            published.into_iter().map(take).collect::<io::Result<Vec<_>>>()?
        };
        let (stop, stopped) = oneshot::channel();
        let pools = Arc::new(Pools::of(sockets)?);
        let serve = move || {
            let _life = life;
            runtime.block_on(async {
                let mut serving = JoinSet::new();
                for (listener, port) in listeners {
                    serving.spawn(accept(listener, port, Arc::clone(&pools)));
                }
                tokio::select! {
                    // A dropped sender means the same as a message.
                    _ = stopped => {}
                    _ = serving.join_next() => {}
                }
                serving.shutdown().await;
            });
        };
        let thread = thread::Builder::new().name("ringfence-publish".to_owned()).spawn(serve)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sockets of the box by family, in the order in which they are tried.
#[derive(Debug)]
struct Pools(Vec<(SocketAddr, Pool)>);

/// Sockets of one family that are not in use.
#[derive(Debug)]
struct Pool {
    free: Semaphore,
    sockets: Mutex<Vec<OwnedFd>>,
}

impl Pools {
    fn of(sockets: Vec<OwnedFd>) -> io::Result<Self> {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for socket in sockets {
            let is_v6 = sockopt::socket_domain(&socket)? == AddressFamily::INET6;
            if is_v6 { v6.push(socket) } else { v4.push(socket) }
        }
        let pool =
            |sockets: Vec<_>| Pool { free: Semaphore::new(sockets.len()), sockets: Mutex::new(sockets) };
        let families =
            [(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), v4), ((Ipv6Addr::LOCALHOST, 0).into(), v6)];
        let there = families.into_iter().filter(|(_, sockets)| !sockets.is_empty());
        Ok(Self(there.map(|(loopback, sockets)| (loopback, pool(sockets))).collect()))
    }

    /// Carries one connection to whichever loopback a server listens at.
    async fn carry(&self, client: TcpStream, port: u16) -> io::Result<()> {
        let mut refused = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for (loopback, pool) in &self.0 {
            let Some(socket) = pool.take().await else { continue };
            let result = match connect(&socket, SocketAddr::new(loopback.ip(), port)).await {
                Ok(server) => carry(client, server, &socket).await,
                Err(error) => {
                    refused = error;
                    pool.give_back(socket);
                    continue;
                }
            };
            pool.give_back(socket);
            return result;
        }
        // The client sees a reset, as if nobody listened.
        client.set_zero_linger()?;
        Err(refused)
    }
}

impl Pool {
    async fn take(&self) -> Option<OwnedFd> {
        self.free.acquire().await.ok()?.forget();
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Takes back a socket that has served, or could not. One that can't be disconnected is of no more use; the number
    /// in use stays bounded.
    fn give_back(&self, socket: OwnedFd) {
        if rustix::net::connect_unspec(&socket).is_err() {
            return;
        }
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner).push(socket);
        self.free.add_permits(1);
    }
}

/// Accepts as many connections at one time as there are sockets of a family; further ones wait in the kernel.
async fn accept(listener: tokio::net::TcpListener, port: u16, pools: Arc<Pools>) {
    let most = pools.0.iter().map(|(_, pool)| pool.free.available_permits()).min().unwrap_or(0);
    let mut connections = JoinSet::new();
    loop {
        let client = tokio::select! {
            accepted = listener.accept(), if connections.len() < most => match accepted {
                Ok((client, _)) => client,
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    tracing::error!(%error, port, "the listener of a published port is of no more use");
                    return;
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot accept a connection to a published port");
                    sleep(PAUSE).await;
                    continue;
                }
            },
            Some(_) = connections.join_next() => continue,
            else => return,
        };
        let pools = Arc::clone(&pools);
        connections.spawn(async move {
            if let Err(error) = pools.carry(client, port).await {
                tracing::debug!(%error, port, "a connection to a published port broke off");
            }
        });
    }
}

async fn connect(socket: &OwnedFd, server: SocketAddr) -> io::Result<TcpStream> {
    TcpSocket::from_std_stream(std::net::TcpStream::from(socket.try_clone()?)).connect(server).await
}

/// Carries one connection to the server in the box, in both directions to their ends.
async fn carry(mut client: TcpStream, mut server: TcpStream, socket: &OwnedFd) -> io::Result<()> {
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    // The server has ended its side and may still read; disconnecting would take the rest from it.
    let all_taken = async {
        while sys::unsent_bytes(socket).is_ok_and(|bytes| bytes > 0) {
            sleep(PAUSE).await;
        }
    };
    timeout(LINGER, all_taken).await.map_err(|_| Errno::TIMEDOUT.into())
}
