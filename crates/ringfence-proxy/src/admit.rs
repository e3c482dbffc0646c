//! From what a client wants to a connection: lists, question, look-up, guard, dial. Every entrance to the proxy goes
//! through [`Admission::admit`], which alone makes an [`Admitted`], without which nothing is dialled.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ringfence_types::Host;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::ask::{Answer, NoApproval, Question, Questions};
use crate::dial;
use crate::event::{Ending, Event, EventSink, Phase, Protocol, Record};
use crate::hangup;
use crate::limits::Limits;
use crate::policy::{EgressPolicy, Judgement, Rule, Wanted};
use crate::resolve::Resolve;
use crate::upstream::{Upstream, UpstreamFault, UpstreamProxy, Via};

/// What all connections of a run share.
pub(crate) struct Admission {
    pub(crate) run: Arc<str>,
    pub(crate) policy: EgressPolicy,
    pub(crate) limits: Limits,
    pub(crate) events: Arc<dyn EventSink>,
    pub(crate) questions: Option<Questions>,
    pub(crate) resolver: Arc<dyn Resolve>,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) connections: AtomicU64,
}

/// A connection that may be made, and where to.
pub(crate) struct Admitted {
    route: Route,
    host: Host,
    port: u16,
    pub(crate) record: Record,
}

enum Route {
    /// To one of these addresses, each of which was checked.
    Direct(Vec<SocketAddr>),
    /// Through the host's own proxy, to a checked address or to a listed name.
    Upstream(Arc<UpstreamProxy>, Host),
}

/// A connection to the host that was wanted.
pub(crate) struct Dialled {
    pub(crate) stream: TcpStream,
    /// What the upstream proxy sent after its reply.
    pub(crate) early: Vec<u8>,
    /// Set if the stream leads to an upstream proxy that takes the plain request as it is.
    pub(crate) plain_through: Option<Via>,
    pub(crate) record: Record,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("{}", .rule.explain(.wanted))]
    Denied { wanted: Wanted, rule: Rule },
    #[error("{host} has no address")]
    NoAddress { host: Host },
    #[error("cannot look up {host}")]
    Resolve { host: Host, source: io::Error },
    #[error("the look-up of {host} took too long")]
    ResolveTimeout { host: Host },
    #[error("cannot connect to {wanted}")]
    Dial { wanted: Wanted, source: io::Error },
    #[error("connecting to {wanted} took too long")]
    DialTimeout { wanted: Wanted },
    #[error("cannot reach {wanted} through the upstream proxy")]
    Upstream { wanted: Wanted, source: UpstreamFault },
}

impl Refusal {
    fn ending(&self) -> Ending {
        match self {
            Self::Denied { .. } => Ending::Stopped,
            Self::NoAddress { .. } | Self::Resolve { .. } | Self::ResolveTimeout { .. } => Ending::Unresolved,
            Self::Dial { .. } => Ending::Unreachable,
            Self::DialTimeout { .. } => Ending::DialTimeout,
            Self::Upstream { .. } => Ending::UpstreamRefused,
        }
    }
}

/// Does something when it is dropped, unless it is told not to.
struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> OnDrop<F> {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(act) = self.0.take() {
            act();
        }
    }
}

impl Admission {
    /// A number for the next connection.
    pub(crate) fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Decides, and tells the decision. `client` is the connection that is held meanwhile.
    ///
    /// # Errors
    /// Why the connection may not be made, or why the host has no address.
    pub(crate) async fn admit(
        &self,
        connection: u64,
        protocol: Protocol,
        client: &TcpStream,
        peer: SocketAddr,
        host: Host,
        port: u16,
    ) -> Result<Admitted, Refusal> {
        let wanted = Wanted { host: host.clone(), port: Some(port) };
        let decided = |rule: Rule| self.event(connection, protocol, wanted.clone(), rule);
        let denied = |rule: Rule| {
            self.events.event(&decided(rule.clone()));
            Refusal::Denied { wanted: wanted.clone(), rule }
        };
        let rule = match self.policy.judge(&host, port) {
            Judgement::Allowed(rule) => rule,
            Judgement::Denied(rule) => return Err(denied(rule)),
            Judgement::Unlisted => {
                let Some(questions) = &self.questions else { return Err(denied(Rule::NotListed)) };
                let question =
                    Question { run: Arc::clone(&self.run), wanted: wanted.clone(), protocol, client: peer };
                // A client of the proxy itself has no use for an answer once it has ended its sending.
                let still_there = || protocol == Protocol::Transparent && questions.has_client(peer);
                // The run may end first.
                let abandoned = || {
                    denied(Rule::NotApproved { reason: NoApproval::Abandoned });
                };
                let held = OnDrop(Some(abandoned));
                let answer = tokio::select! {
                    answer = questions.answer(question) => answer,
                    () = hangup::gone(client, still_there) => Answer::No(NoApproval::Abandoned),
                };
                held.disarm();
                match answer {
                    Answer::Once { by } | Answer::Session { by } => Rule::Asked { by },
                    Answer::No(reason) => return Err(denied(Rule::NotApproved { reason })),
                }
            }
        };
        let upstream = self.upstream.for_host(&host, port, protocol);
        let allowed = |rule| Record::start(decided(rule), Arc::clone(&self.events));
        let addresses = match self.look_up(&host).await {
            Ok(addresses) => addresses,
            // A network that needs a proxy often has no public names. Only what was named may go unchecked.
            Err(_) if rule != Rule::Public && upstream.as_ref().is_some_and(|proxy| proxy.takes_names()) => {
                Vec::new()
            }
            Err(refusal) => {
                allowed(rule).end(refusal.ending());
                return Err(refusal);
            }
        };
        let mut checked = Vec::with_capacity(addresses.len());
        let mut refused = None;
        for address in &addresses {
            match self.policy.check_address(&host, *address, port) {
                Ok(()) => checked.push(SocketAddr::new(*address, port)),
                Err(rule) => refused = refused.or(Some(rule)),
            }
        }
        if let (true, Some(refused)) = (checked.is_empty(), refused) {
            return Err(denied(refused));
        }
        let route = match upstream {
            Some(proxy) if rule == Rule::Public || !proxy.takes_names() => {
                Route::Upstream(proxy, Host::Ip(checked[0].ip()))
            }
            Some(proxy) => Route::Upstream(proxy, host.clone()),
            None => Route::Direct(checked),
        };
        Ok(Admitted { route, host, port, record: allowed(rule) })
    }

    fn event(&self, connection: u64, protocol: Protocol, wanted: Wanted, rule: Rule) -> Event {
        Event {
            event: Phase::Decision,
            run: Arc::clone(&self.run),
            connection,
            protocol,
            wanted,
            allowed: rule.allows(),
            rule,
            address: None,
            ending: None,
            sent: 0,
            received: 0,
            duration: Duration::ZERO,
        }
    }

    /// Tells what was found out without [`Admission::admit`].
    pub(crate) fn tell(
        &self,
        connection: u64,
        protocol: Protocol,
        wanted: Wanted,
        rule: Rule,
        allowed: bool,
    ) {
        self.events.event(&Event { allowed, ..self.event(connection, protocol, wanted, rule) });
    }

    /// The addresses of a host, at least one.
    async fn look_up(&self, host: &Host) -> Result<Vec<IpAddr>, Refusal> {
        let name = match host {
            Host::Ip(ip) => return Ok(vec![*ip]),
            Host::Name(_) if host.is_localhost() => {
                return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
            }
            Host::Name(name) => name,
        };
        match timeout(self.limits.dial, self.resolver.resolve(name)).await {
            Ok(Ok(addresses)) if addresses.is_empty() => Err(Refusal::NoAddress { host: host.clone() }),
            Ok(Ok(addresses)) => Ok(addresses),
            Ok(Err(source)) => Err(Refusal::Resolve { host: host.clone(), source }),
            Err(_) => Err(Refusal::ResolveTimeout { host: host.clone() }),
        }
    }

    /// Connects to one of the addresses that were checked.
    ///
    /// # Errors
    /// Why there is no connection.
    pub(crate) async fn dial(&self, admitted: Admitted, protocol: Protocol) -> Result<Dialled, Refusal> {
        let Admitted { route, host, port, mut record } = admitted;
        match timeout(self.limits.dial, self.dial_route(&route, protocol, &host, port)).await {
            Ok(Ok((stream, early, plain_through))) => {
                let direct = matches!(route, Route::Direct(_));
                record.connected(direct.then(|| stream.peer_addr().ok()).flatten());
                Ok(Dialled { stream, early, plain_through, record })
            }
            Ok(Err(refusal)) => {
                record.end(refusal.ending());
                Err(refusal)
            }
            Err(_) => {
                let refusal = Refusal::DialTimeout { wanted: record.wanted().clone() };
                record.end(refusal.ending());
                Err(refusal)
            }
        }
    }

    async fn dial_route(
        &self,
        route: &Route,
        protocol: Protocol,
        host: &Host,
        port: u16,
    ) -> Result<(TcpStream, Vec<u8>, Option<Via>), Refusal> {
        let wanted = || Wanted { host: host.clone(), port: Some(port) };
        match route {
            Route::Direct(addresses) => match dial::connect(addresses).await {
                Ok(stream) => Ok((stream, Vec::new(), None)),
                Err(source) => Err(Refusal::Dial { wanted: wanted(), source }),
            },
            Route::Upstream(proxy, target) => {
                let through = |source| Refusal::Upstream { wanted: wanted(), source };
                let stream = proxy.connect(&*self.resolver).await.map_err(through)?;
                // A plain request goes as it is, unless it must lead to the very address that was checked.
                if let Some(via) =
                    proxy.takes_requests().filter(|_| protocol == Protocol::Http && target == host)
                {
                    return Ok((stream, Vec::new(), Some(via)));
                }
                let (stream, early) = proxy.tunnel(stream, target, port).await.map_err(through)?;
                Ok((stream, early, None))
            }
        }
    }
}
