//! The vocabulary of Ringfence: what a command asks for, what it may have, what was enforced, what was refused.
//!
//! Nothing here performs I/O and nothing depends on the operating system that it is compiled for, so every
//! decision that later stages make on these types can be tested on any host.

#![forbid(unsafe_code)]

mod bytes;
mod capabilities;
mod command;
mod connection;
mod denial;
mod egress;
mod host;
mod host_name;
mod layers;
mod ordering;
mod output;
mod policy;
mod publish;
mod session;
mod step;

pub use bytes::{Encoded, UnixPath};
pub use capabilities::{NetworkPolicy, SandboxCapabilities, WorkspaceAccess};
pub use command::{EnvVar, SandboxCommand, Stdin, StdinStream, Stdio};
pub use connection::{Connection, Connections};
pub use denial::{Denial, DenialKind, DenialSource};
pub use egress::{ProxySettings, SniCheck};
pub use host::{HostPattern, HostPatternError, PortPattern};
pub use host_name::{Host, HostError};
pub use layers::{Layer, LayerName, LayerReport, LayerStatus, UnknownLayer};
pub use ordering::{Excess, PathAccess, PathRules};
pub use output::SandboxOutput;
pub use policy::{
    CacheMount, DeviceGrant, FileId, Linux, Network, Owner, PathKind, Protected, ResolvedPath,
    ResolvedPolicy, Rlimits,
};
pub use publish::{Publish, PublishError};
pub use session::SessionId;
pub use step::Step;
