//! The parsers that see foreign bytes, for fuzzers and property tests. Nothing here is part of the interface.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::admit::Admission;
use crate::dns::DnsService;
use crate::event::Event;
use crate::http::head::{self, Form};
use crate::limits::Limits;
use crate::policy::EgressPolicy;
use crate::resolve::SystemResolver;
use crate::sni::client_hello::{self, Found};
use crate::socks;
use crate::upstream::Upstream;

/// An accepted head: whether it is CONNECT, host, port, length in bytes.
pub fn head(bytes: &[u8]) -> Option<(bool, String, u16, usize)> {
    let head = head::parse(bytes).ok()?;
    Some((head.form == Form::Connect, head.host.to_string(), head.port, head.length))
}

/// The host and port of a SOCKS client that sends these bytes.
pub async fn socks(bytes: &[u8]) -> Option<(String, u16)> {
    let mut stream = tokio::io::join(bytes, tokio::io::sink());
    socks::request(&mut stream, None).await.ok().map(|(host, port)| (host.to_string(), port))
}

/// What the first bytes of a connection are: `None` if more are needed, else a name for the kind and the server's name.
pub fn client_hello(bytes: &[u8]) -> Option<(&'static str, Option<String>)> {
    match client_hello::find(bytes) {
        Found::Incomplete => None,
        Found::NotTls => Some(("other", None)),
        Found::Malformed(_) => Some(("malformed", None)),
        Found::Hello { name, .. } => Some(("hello", name)),
    }
}

/// A look-up service.
#[allow(missing_debug_implementations, reason = "for tests only")]
pub struct Dns(DnsService);

impl Dns {
    /// One that knows these names.
    pub fn new(policy: EgressPolicy) -> Self {
        let admission = Admission {
            run: "fuzz".into(),
            policy,
            limits: Limits::default(),
            events: Arc::new(|_: &Event| {}),
            questions: None,
            resolver: Arc::new(SystemResolver::default()),
            upstream: Arc::new(Upstream::default()),
            connections: AtomicU64::new(0),
        };
        Self(DnsService { admission: Arc::new(admission), names: Arc::default() })
    }

    /// The answer to a message.
    pub fn answer(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.0.answer(bytes)
    }
}
