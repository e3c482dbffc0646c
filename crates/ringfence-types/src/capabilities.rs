use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Publish;

/// Hosts that a command may reach.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum NetworkPolicy {
    /// No network beyond the box.
    #[default]
    None,
    /// The named hosts only, as [`HostPattern`](crate::HostPattern)s.
    AllowHosts {
        /// Patterns; an empty list equals [`NetworkPolicy::None`].
        hosts: Vec<String>,
    },
    /// Every public address, and the named hosts.
    Public {
        /// Patterns of hosts beyond the public ones.
        #[serde(default)]
        hosts: Vec<String>,
    },
    /// The host's network as it is.
    AllowAll,
}

/// What a command may do with its workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceAccess {
    /// Not even look.
    None,
    /// Read and execute.
    Read,
    /// Read, execute and write.
    #[default]
    Write,
}

/// What a command asks for, or what a session grants, as written by a person or a model.
///
/// Paths may be relative to the workspace and may be symlinks: only the resolved form
/// ([`ResolvedPolicy`](crate::ResolvedPolicy)) is compared and enforced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SandboxCapabilities {
    /// Readable files and trees besides the system's and the workspace.
    pub fs_read: Vec<PathBuf>,
    /// Writable files and trees besides the workspace.
    pub fs_write: Vec<PathBuf>,
    /// Neither readable nor writable. A denial beats a grant of the same or a lesser depth.
    pub fs_deny: Vec<PathBuf>,
    /// Access to the workspace.
    pub workspace: WorkspaceAccess,
    /// Network beyond the box.
    pub network: NetworkPolicy,
    /// Hosts that may not be reached whatever else is allowed, as [`HostPattern`](crate::HostPattern)s.
    pub deny_hosts: Vec<String>,
    /// Hosts whose names may lead to addresses that are not public, such as a mirror within a company, as
    /// [`HostPattern`](crate::HostPattern)s. Nothing is allowed by this alone.
    pub internal_hosts: Vec<String>,
    /// Ports of the host's loopback that the command may connect to, at the same port of the box's own.
    pub loopback_ports: Vec<u16>,
    /// Ports of the host that lead to a server of the command.
    pub publish: Vec<Publish>,
    /// Sockets on the box's own loopback.
    pub loopback: bool,
    /// Whether the command may start processes.
    pub spawn_subprocess: bool,
    /// Listening Unix sockets of the host that the command may connect to.
    pub unix_sockets: Vec<PathBuf>,
    /// Devices by name: `gpu`, `kvm`, `fuse`.
    pub devices: Vec<String>,
    /// Memory limit in MiB; `None` is unlimited.
    pub max_memory_mb: Option<u64>,
    /// Limit of processes and threads; `None` is unlimited.
    pub max_processes: Option<u64>,
    /// Wall-clock limit in seconds; `None` leaves it to the command and the configuration.
    pub timeout_secs: Option<u64>,
}

impl SandboxCapabilities {
    /// Nothing beyond the workspace: no network, no loopback, no processes. The same as `default()`.
    pub fn strict() -> Self {
        Self::default()
    }
}
