//! What was decided, and what came of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ringfence_types::{Denial, DenialKind, DenialSource};
use serde::{Serialize, Serializer};

use crate::policy::{Rule, Wanted};

/// How a client spoke to the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// HTTP CONNECT.
    Connect,
    /// A plain HTTP request with an absolute URL.
    Http,
    /// SOCKS version 5.
    Socks5,
    /// A connection that was redirected without the client's knowledge.
    Transparent,
    /// A look-up.
    Dns,
}

/// When an event is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// At the decision.
    Decision,
    /// When an allowed connection has ended.
    End,
}

/// How an allowed connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// Both sides closed it.
    Closed,
    /// The host's name has no address.
    Unresolved,
    /// No address could be connected to.
    Unreachable,
    /// The time for connecting ran out.
    DialTimeout,
    /// The upstream proxy refused.
    UpstreamRefused,
    /// One side reset it, or answered something else than HTTP.
    Broken,
    /// No byte passed for too long.
    Idle,
    /// The TLS server name was not that of the allowed host.
    ServerName,
    /// The run ended.
    Stopped,
}

/// One decision, or the end of an allowed connection.
#[derive(Clone, Debug, Serialize)]
pub struct Event {
    /// What this event tells.
    pub event: Phase,
    /// The run's name.
    #[serde(serialize_with = "text")]
    pub run: Arc<str>,
    /// Number of the connection within the run; a look-up has 0.
    pub connection: u64,
    /// How the client spoke.
    pub protocol: Protocol,
    /// What it wanted.
    #[serde(flatten)]
    pub wanted: Wanted,
    /// Whether it may.
    pub allowed: bool,
    /// Why.
    #[serde(flatten)]
    pub rule: Rule,
    /// The address that the proxy connected to, at the end of a direct connection.
    pub address: Option<SocketAddr>,
    /// How it ended.
    pub ending: Option<Ending>,
    /// Bytes from the client to the host.
    pub sent: u64,
    /// Bytes from the host to the client.
    pub received: u64,
    /// Time since the decision, in milliseconds in JSON.
    #[serde(rename = "duration_ms", serialize_with = "millis")]
    pub duration: Duration,
}

impl Event {
    /// The refusal that this event tells of, as the output of a run lists it.
    pub fn denial(&self) -> Option<Denial> {
        (!self.allowed).then(|| Denial {
            kind: DenialKind::Connect,
            target: self.wanted.to_string(),
            allow_with: self.rule.allow_with(&self.wanted),
            source: DenialSource::Proxy,
            certain: true,
        })
    }
}

/// Receives every event of a run. It is called on the proxy's threads and must not block.
pub trait EventSink: Send + Sync {
    /// Takes an event.
    fn event(&self, event: &Event);
}

impl<F: Fn(&Event) + Send + Sync> EventSink for F {
    fn event(&self, event: &Event) {
        self(event);
    }
}

/// Bytes that passed.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Traffic {
    pub(crate) fn add_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Both together: it changes whenever anything passes.
    pub(crate) fn total(&self) -> u64 {
        self.sent.load(Ordering::Relaxed).wrapping_add(self.received.load(Ordering::Relaxed))
    }
}

/// An allowed connection. Its end is told when this is dropped, however that comes about.
pub(crate) struct Record {
    event: Box<Event>,
    decided: Instant,
    sink: Arc<dyn EventSink>,
    traffic: Arc<Traffic>,
}

impl Record {
    /// Tells the decision.
    pub(crate) fn start(event: Event, sink: Arc<dyn EventSink>) -> Self {
        sink.event(&event);
        Self { event: Box::new(event), decided: Instant::now(), sink, traffic: Arc::default() }
    }

    pub(crate) fn traffic(&self) -> &Arc<Traffic> {
        &self.traffic
    }

    pub(crate) fn connected(&mut self, address: Option<SocketAddr>) {
        self.event.address = address;
    }

    pub(crate) fn wanted(&self) -> &Wanted {
        &self.event.wanted
    }

    pub(crate) fn end(mut self, ending: Ending) {
        self.event.ending = Some(ending);
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.event.event = Phase::End;
        self.event.ending.get_or_insert(Ending::Stopped);
        self.event.sent = self.traffic.sent.load(Ordering::Relaxed);
        self.event.received = self.traffic.received.load(Ordering::Relaxed);
        self.event.duration = self.decided.elapsed();
        self.sink.event(&self.event);
    }
}

fn text<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

fn millis<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}
