//! Egress by host name: a proxy whose clients reach the hosts that a policy allows, and nothing else.
//!
//! A [`Run`] has listeners, a policy, a sink for [`Event`]s and somebody to ask. The listeners take clients that speak
//! HTTP CONNECT, plain HTTP or SOCKS 5, told apart by the first byte; connections that were redirected without the
//! client's knowledge; and the look-ups that go with them. [`Proxy::start`] serves a run on the caller's tokio runtime,
//! [`Background::start`] on a thread of its own. The end of either ends every connection.
//!
//! Each connection goes through the same steps, whatever its client speaks: the lists are asked, then somebody, then
//! the resolver, once; the guard drops every address that is not public and not listed itself; the connection goes to
//! an address that has passed. TLS is not opened; its server name is compared with the host that was allowed.

#![forbid(unsafe_code)]

mod admit;
mod ask;
mod background;
mod client;
mod credentials;
mod dial;
mod dns;
mod error;
mod event;
#[doc(hidden)]
pub mod fuzzing;
mod guard;
mod hangup;
mod http;
mod io;
mod limits;
mod policy;
mod resolve;
mod server;
mod sni;
mod socks;
mod transparent;
mod tunnel;
mod upstream;

pub use ask::{Answer, Ask, NoApproval, Question};
pub use background::Background;
pub use credentials::Credentials;
pub use dns::names::{Names, SyntheticNames};
pub use error::ProxyError;
pub use event::{Ending, Event, EventSink, Phase, Protocol};
pub use guard::{AddressKind, classify, embedded_v4};
pub use limits::Limits;
pub use policy::{EgressPolicy, Reach, Rule, Wanted};
pub use resolve::{Resolve, SystemResolver};
pub use ringfence_types::SniCheck;
pub use server::{Listener, Proxy, Run, RunHandle};
pub use transparent::OriginalDestination;
pub use upstream::{Upstream, UpstreamError, UpstreamProxy};
