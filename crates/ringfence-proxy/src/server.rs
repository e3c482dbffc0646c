//! Listeners, connections, and the run that they belong to.

use std::fmt;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::admit::Admission;
use crate::ask::{Ask, Questions};
use crate::client;
use crate::credentials::Credentials;
use crate::dns::DnsService;
use crate::dns::names::{Names, SyntheticNames};
use crate::error::ProxyError;
use crate::event::EventSink;
use crate::limits::Limits;
use crate::policy::EgressPolicy;
use crate::resolve::{Resolve, SystemResolver};
use crate::transparent::OriginalDestination;
use crate::upstream::Upstream;

/// `EBADF`, which has no kind of its own.
const BAD_DESCRIPTOR: i32 = 9;
/// After an error of accept(2) that may pass, such as a lack of descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// What all runs of a process share: the resolver and the host's own proxy.
#[derive(Clone)]
pub struct Proxy {
    resolver: Arc<dyn Resolve>,
    upstream: Arc<Upstream>,
}

/// A socket on which clients of a run come in. The sockets may belong to another network namespace: a socket stays in
/// the one in which it was created. `From<OwnedFd>` makes each of them from a descriptor that was handed over.
pub enum Listener {
    /// Clients that know that they speak to a proxy.
    Proxy {
        /// The listening socket.
        socket: std::net::TcpListener,
        /// What the clients must know, where others than the run's can reach the socket.
        credentials: Option<Credentials>,
    },
    /// Connections that were redirected without the clients' knowledge.
    Transparent {
        /// The listening socket.
        socket: std::net::TcpListener,
        /// Where the client wanted to go.
        destination: OriginalDestination,
        /// The names that addresses stand for.
        names: Arc<dyn Names>,
    },
    /// Look-ups by UDP.
    DnsUdp {
        /// The bound socket.
        socket: std::net::UdpSocket,
        /// Gives the addresses that stand for names.
        names: Arc<SyntheticNames>,
    },
    /// Look-ups by TCP.
    DnsTcp {
        /// The listening socket.
        socket: std::net::TcpListener,
        /// Gives the addresses that stand for names.
        names: Arc<SyntheticNames>,
    },
}

/// Whom the proxy serves, and what they may do.
pub struct Run {
    /// The run's name, in every event.
    pub name: String,
    /// What may be reached.
    pub policy: EgressPolicy,
    /// Bounds.
    pub limits: Limits,
    /// Receives every decision.
    pub events: Arc<dyn EventSink>,
    /// Decides about hosts that no rule mentions; without it they are refused.
    pub ask: Option<Arc<dyn Ask>>,
    /// Where clients come in. All share the policy; listeners with another one belong to another run.
    pub listeners: Vec<Listener>,
}

/// A run that is being served. Dropping it ends every connection soon, [`RunHandle::stop`] before it returns.
#[must_use = "the run ends when this is dropped"]
pub struct RunHandle {
    stop: watch::Sender<bool>,
    listeners: JoinSet<()>,
}

impl Default for Proxy {
    fn default() -> Self {
        Self::new(Arc::new(SystemResolver::default()), Upstream::default())
    }
}

impl Proxy {
    /// A proxy that looks names up with `resolver` and connects through `upstream`.
    pub fn new(resolver: Arc<dyn Resolve>, upstream: Upstream) -> Self {
        Self { resolver, upstream: Arc::new(upstream) }
    }

    /// Serves a run's listeners, on the tokio runtime of the caller.
    ///
    /// # Errors
    /// A socket that can't be used; nothing is served then.
    pub fn start(&self, run: Run) -> Result<RunHandle, ProxyError> {
        let limits = run.limits.clone();
        let admission = Arc::new(Admission {
            run: run.name.into(),
            policy: run.policy,
            events: run.events,
            questions: run.ask.map(|ask| Questions::new(ask, limits.ask)),
            resolver: Arc::clone(&self.resolver),
            upstream: Arc::clone(&self.upstream),
            connections: AtomicU64::new(0),
            limits,
        });
        let (stop, stopped) = watch::channel(false);
        let places = Arc::new(Semaphore::new(admission.limits.connections));
        let served: Vec<Served> = run
            .listeners
            .into_iter()
            .map(|listener| Served::new(listener, &admission))
            .collect::<Result<_, _>>()?;
        let mut listeners = JoinSet::new();
        for served in served {
            listeners.spawn(served.run(Arc::clone(&places), stopped.clone()));
        }
        Ok(RunHandle { stop, listeners })
    }
}

impl RunHandle {
    /// Waits until a listener fails, which none does of its own accord: its socket has become useless, or it has
    /// panicked. The others still serve; what to make of that is the caller's to say.
    pub async fn failed(&mut self) {
        if self.listeners.join_next().await.is_none() {
            // A run without listeners has nothing that could fail.
            std::future::pending::<()>().await;
        }
    }

    /// Ends every connection of the run. When this returns all are closed and all their events are sent.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        while self.listeners.join_next().await.is_some() {}
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("upstream", &self.upstream).finish_non_exhaustive()
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("name", &self.name).field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Proxy { socket, .. } => f.debug_tuple("Proxy").field(socket).finish(),
            Self::Transparent { socket, .. } => f.debug_tuple("Transparent").field(socket).finish(),
            Self::DnsUdp { socket, .. } => f.debug_tuple("DnsUdp").field(socket).finish(),
            Self::DnsTcp { socket, .. } => f.debug_tuple("DnsTcp").field(socket).finish(),
        }
    }
}

impl fmt::Debug for RunHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunHandle").field("listeners", &self.listeners.len()).finish_non_exhaustive()
    }
}

/// What is done with a connection.
#[derive(Clone)]
enum Service {
    Proxy(Option<Credentials>),
    Transparent(OriginalDestination, Arc<dyn Names>),
    Dns(Arc<DnsService>),
}

/// A listener in the hands of the runtime.
enum Served {
    Tcp(TcpListener, Service, Arc<Admission>),
    Udp(UdpSocket, Arc<DnsService>),
}

impl Served {
    fn new(listener: Listener, admission: &Arc<Admission>) -> Result<Self, ProxyError> {
        let dns = |names| Arc::new(DnsService { admission: Arc::clone(admission), names });
        let tcp = |socket: std::net::TcpListener, service| {
            socket.set_nonblocking(true).map_err(ProxyError::Listener)?;
            let listener = TcpListener::from_std(socket).map_err(ProxyError::Listener)?;
            Ok(Self::Tcp(listener, service, Arc::clone(admission)))
        };
        match listener {
            Listener::Proxy { socket, credentials } => tcp(socket, Service::Proxy(credentials)),
            Listener::Transparent { socket, destination, names } => {
                tcp(socket, Service::Transparent(destination, names))
            }
            Listener::DnsTcp { socket, names } => tcp(socket, Service::Dns(dns(names))),
            Listener::DnsUdp { socket, names } => {
                socket.set_nonblocking(true).map_err(ProxyError::Listener)?;
                let socket = UdpSocket::from_std(socket).map_err(ProxyError::Listener)?;
                Ok(Self::Udp(socket, dns(names)))
            }
        }
    }

    async fn run(self, places: Arc<Semaphore>, mut stopped: watch::Receiver<bool>) {
        let stop = async move {
            // The handle is gone without a word only when this task is being aborted.
            let _ = stopped.wait_for(|stop| *stop).await;
        };
        match self {
            Self::Udp(socket, dns) => tokio::select! {
                () = stop => {}
                () = dns.serve_udp(socket) => {}
            },
            Self::Tcp(listener, service, admission) => {
                let mut connections = JoinSet::new();
                tokio::select! {
                    () = stop => {}
                    () = accept(listener, service, admission, places, &mut connections) => {}
                }
                connections.shutdown().await;
            }
        }
    }
}

/// Accepts for ever. Beyond the run's number of connections the kernel holds further ones back.
async fn accept(
    listener: TcpListener,
    service: Service,
    admission: Arc<Admission>,
    places: Arc<Semaphore>,
    connections: &mut JoinSet<()>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let (stream, peer) = match accepted {
            Ok(pair) => pair,
            Err(error) if is_lasting(&error) => {
                tracing::error!(%error, "a listener is of no more use");
                return;
            }
            Err(error) => {
                tracing::debug!(%error, "cannot accept a connection");
                sleep(PAUSE).await;
                continue;
            }
        };
        let place = loop {
            tokio::select! {
                place = Arc::clone(&places).acquire_owned() => break place,
                Some(_) = connections.join_next() => {}
            }
        };
        let Ok(place) = place else { return };
        let (service, admission) = (service.clone(), Arc::clone(&admission));
        connections.spawn(async move {
            serve(stream, peer, service, admission).await;
            drop(place);
        });
    }
}

/// Whether an error of accept(2) is one of the socket itself: it is closed, or listens no more.
fn is_lasting(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidInput || error.raw_os_error() == Some(BAD_DESCRIPTOR)
}

async fn serve(stream: TcpStream, peer: SocketAddr, service: Service, admission: Arc<Admission>) {
    let _ = stream.set_nodelay(true);
    match service {
        Service::Proxy(credentials) => client::serve(stream, peer, credentials, admission).await,
        Service::Transparent(destination, names) => {
            crate::transparent::serve(stream, peer, &destination, &*names, admission).await;
        }
        Service::Dns(dns) => {
            if dns.serve_tcp(stream).await.is_err() {
                tracing::trace!("a look-up broke off");
            }
        }
    }
}

/// Ends a connection so that the other side sees a reset: nothing was refused in words.
pub(crate) fn reset(stream: TcpStream) {
    let socket = SockRef::from(&stream);
    if socket.set_linger(Some(Duration::ZERO)).is_err() {
        let _ = socket.shutdown(Shutdown::Both);
    }
}
