//! The supervisor's side of the box's way out: a proxy on a thread of its own that serves the sockets that PID 1 hands
//! out.

mod approver;
mod clients;
mod log;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use ringfence_gate::{DriverError, HostApproval};
use ringfence_plan::linux::NetworkPlan;
use ringfence_proxy::{
    Ask, Background, EgressPolicy, EventSink, Limits, Listener, OriginalDestination, Proxy, ProxyError,
    Reach, Run, SyntheticNames, SystemResolver, Upstream,
};
use ringfence_types::{Connections, Denial, LayerReport, Step};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::launcher::Inlet;
use crate::publish::{self, Carrier, Published};
use approver::Approver;
use clients::Clients;
use log::Log;

/// The gate's own time for an answer is over before the proxy's.
const GRACE: Duration = Duration::from_secs(5);

/// What a run may reach, and the proxy that sees to it once it has started. Dropped, every connection ends.
#[derive(Debug)]
pub(crate) struct Egress {
    policy: EgressPolicy,
    connections: usize,
    upstream: Upstream,
    names: Arc<SyntheticNames>,
    listeners: Vec<Listener>,
    published: Vec<Published>,
    connectors: Vec<OwnedFd>,
    /// Who decides on hosts that the policy does not name.
    approval: Option<HostApproval>,
    clients: Option<Arc<Clients>>,
    log: Arc<Log>,
    proxy: Option<Background>,
    /// Hung up when one of the two has ended.
    ended: Vec<OwnedFd>,
    carrier: Option<Carrier>,
}

impl Egress {
    /// Prepares what the plan says. Nothing is started, so that the process may still clone.
    ///
    /// # Errors
    /// [`DriverError::Launch`] if the host's own proxy can't be used or a published port can't be had.
    pub(crate) fn prepare(plan: &NetworkPlan, approval: HostApproval) -> Result<Self, DriverError> {
        let mut policy = EgressPolicy {
            allow_loopback_ports: plan.loopback_ports.iter().copied().collect(),
            sni: plan.proxy.sni,
            ..EgressPolicy::default()
        };
        if let Some(rules) = &plan.hosts {
            policy.reach = if rules.public { Reach::Public } else { Reach::Listed };
            policy.allow.clone_from(&rules.allow);
            policy.deny.clone_from(&rules.deny);
            policy.internal.clone_from(&rules.internal);
        }
        let upstream = Upstream::from_variables(|name| std::env::var(name).ok()).map_err(|error| {
            DriverError::Launch {
                step: Step::Prepare,
                subject: Some("the host's own proxy".to_owned()),
                hint: Some(error.hint()),
                source: io::Error::other(error),
                layers: LayerReport::new(),
            }
        })?;
        let published = publish::listen(&plan.publish).map_err(|(address, source)| DriverError::Launch {
            step: Step::Prepare,
            subject: Some(format!("published address {address}")),
            source,
            hint: Some("choose another port of the host".to_owned()),
            layers: LayerReport::new(),
        })?;
        Ok(Self {
            policy,
            connections: usize::try_from(plan.proxy.max_connections).unwrap_or(usize::MAX),
            upstream,
            names: Arc::default(),
            listeners: Vec::new(),
            published,
            connectors: Vec::new(),
            approval: (plan.hosts.is_some() && approval.can_ask()).then_some(approval),
            clients: None,
            log: Arc::default(),
            proxy: None,
            ended: Vec::new(),
            carrier: None,
        })
    }

    /// Takes a socket of the box.
    pub(crate) fn add(&mut self, inlet: Inlet, socket: OwnedFd) {
        if self.approval.is_some() && self.clients.is_none() {
            // Without it a question does not say which program wants the connection.
            let clients = Clients::of(&socket)
                .inspect_err(|error| tracing::debug!(%error, "cannot tell the box's network namespace"));
            self.clients = clients.ok().map(Arc::new);
        }
        let names = Arc::clone(&self.names);
        let transparent = |socket: OwnedFd, names, destination| Listener::Transparent {
            socket: socket.into(),
            destination,
            names,
        };
        let listener = match inlet {
            Inlet::Proxy => Listener::Proxy { socket: socket.into(), credentials: None },
            Inlet::Redirected => transparent(socket, names, OriginalDestination::Redirected),
            Inlet::Direct => transparent(socket, names, OriginalDestination::LocalAddress),
            Inlet::DnsUdp => Listener::DnsUdp { socket: socket.into(), names },
            Inlet::DnsTcp => Listener::DnsTcp { socket: socket.into(), names },
            Inlet::Connector => return self.connectors.push(socket),
        };
        self.listeners.push(listener);
    }

    /// Serves the box's sockets. Only after the clone: this starts threads.
    ///
    /// # Errors
    /// A socket, thread or runtime that can't be used.
    pub(crate) fn start(&mut self) -> Result<(), ProxyError> {
        if !self.published.is_empty() {
            let (published, connectors) =
                (std::mem::take(&mut self.published), std::mem::take(&mut self.connectors));
            let life = self.lifeline()?;
            self.carrier = Some(Carrier::start(published, connectors, life).map_err(ProxyError::Thread)?);
        }
        if self.listeners.is_empty() {
            return Ok(());
        }
        // This process is the box's supervisor: the command's own limit was set before.
        let mut limits = self.limits();
        if let Some(files) = limits.fit_open_files() {
            tracing::warn!(
                files,
                connections = limits.connections,
                "fewer connections at one time than configured"
            );
        }
        let proxy = Proxy::new(Arc::new(SystemResolver::default()), std::mem::take(&mut self.upstream));
        let run = Run {
            name: "box".to_owned(),
            policy: std::mem::take(&mut self.policy),
            limits,
            events: Arc::clone(&self.log) as Arc<dyn EventSink>,
            ask: self.approval.take().map(|approval| {
                Arc::new(Approver { approval, clients: self.clients.take() }) as Arc<dyn Ask>
            }),
            listeners: std::mem::take(&mut self.listeners),
        };
        self.proxy = Some(Background::start(proxy, run, self.lifeline()?)?);
        Ok(())
    }

    /// Something whose end is told by [`Self::ended`].
    fn lifeline(&mut self) -> Result<OwnedFd, ProxyError> {
        let (ended, life) =
            pipe_with(PipeFlags::CLOEXEC).map_err(|errno| ProxyError::Thread(errno.into()))?;
        self.ended.push(ended);
        Ok(life)
    }

    fn limits(&self) -> Limits {
        let limits = Limits { connections: self.connections, ..Limits::default() };
        match &self.approval {
            Some(approval) => Limits { ask: approval.timeout().saturating_add(GRACE), ..limits },
            None => limits,
        }
    }

    /// What is hung up when something that serves the network has ended.
    pub(crate) fn ended(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.ended.iter().map(AsFd::as_fd)
    }

    /// Ends every connection and question, and says what was refused and what was connected to.
    pub(crate) fn finish(mut self) -> (Vec<Denial>, Connections) {
        drop((self.proxy.take(), self.carrier.take()));
        self.log.take()
    }
}
