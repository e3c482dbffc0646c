//! The supervisor's side of the box's way out: a proxy on a thread of its own that serves the sockets that PID 1 hands
//! out.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use ringfence_gate::DriverError;
use ringfence_plan::linux::NetworkPlan;
use ringfence_proxy::{
    Background, EgressPolicy, Event, EventSink, Limits, Listener, OriginalDestination, Proxy, ProxyError,
    Reach, Run, SyntheticNames, SystemResolver, Upstream,
};
use ringfence_types::{Denial, LayerReport, Step};

use crate::launcher::Inlet;
use crate::publish::{self, Carrier, Published};

/// Refusals that are listed; a command may cause any number of them.
const LISTED: usize = 100;

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
    refused: Arc<Refused>,
    proxy: Option<Background>,
    carrier: Option<Carrier>,
}

impl Egress {
    /// Prepares what the plan says. Nothing is started, so that the process may still clone.
    ///
    /// # Errors
    /// [`DriverError::Io`] if the host's own proxy can't be used, [`DriverError::Launch`] if a published port can't
    /// be had.
    pub(crate) fn prepare(plan: &NetworkPlan) -> Result<Self, DriverError> {
        let mut policy = EgressPolicy {
            allow_loopback_ports: plan.loopback_ports.iter().copied().collect(),
            sni: plan.proxy.sni,
            ..EgressPolicy::default()
        };
        if let Some(rules) = &plan.hosts {
            policy.reach = if rules.public { Reach::Public } else { Reach::Listed };
            policy.allow.clone_from(&rules.allow);
            policy.deny.clone_from(&rules.deny);
        }
        let upstream = Upstream::from_variables(|name| std::env::var(name).ok()).map_err(|error| {
            DriverError::Io { action: "use the host's own proxy", source: io::Error::other(error) }
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
            refused: Arc::default(),
            proxy: None,
            carrier: None,
        })
    }

    /// Takes a socket of the box.
    pub(crate) fn add(&mut self, inlet: Inlet, socket: OwnedFd) {
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
            self.carrier = Some(Carrier::start(published, connectors).map_err(ProxyError::Thread)?);
        }
        if self.listeners.is_empty() {
            return Ok(());
        }
        // This process is the box's supervisor: the command's own limit was set before.
        let mut limits = Limits { connections: self.connections, ..Limits::default() };
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
            events: Arc::clone(&self.refused) as Arc<dyn EventSink>,
            ask: None,
            listeners: std::mem::take(&mut self.listeners),
        };
        self.proxy = Some(Background::start(proxy, run)?);
        Ok(())
    }

    /// Ends every connection, and says what was refused.
    pub(crate) fn finish(mut self) -> Vec<Denial> {
        drop((self.proxy.take(), self.carrier.take()));
        self.refused.take()
    }
}

/// Collects refusals, each once.
#[derive(Debug, Default)]
struct Refused(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    targets: HashSet<String>,
    denials: Vec<Denial>,
}

impl Refused {
    fn take(&self) -> Vec<Denial> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut seen.denials)
    }
}

impl EventSink for Refused {
    fn event(&self, event: &Event) {
        tracing::debug!(
            target: "ringfence::proxy",
            wanted = %event.wanted,
            rule = event.rule.name(),
            allowed = event.allowed,
            sent = event.sent,
            received = event.received,
            "{:?}",
            event.event
        );
        let Some(denial) = event.denial() else { return };
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.denials.len() < LISTED && seen.targets.insert(denial.target.clone()) {
            seen.denials.push(denial);
        }
    }
}
