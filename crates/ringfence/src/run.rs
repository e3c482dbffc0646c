use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringfence_gate::SessionPolicy;
use ringfence_types::{EnvVar, HostPattern, NetworkPolicy, ProxySettings, Publish, SniCheck};

use crate::Mode;
use crate::config::{ConfigError, SandboxConfig};
use crate::host::HostEnv;
use crate::packages::{self, Packages, Site};
use crate::profiles::{self, ProfileChoice};
use crate::secrets;

/// What a caller, such as a command line, asks of a session on top of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// Preset; beats that of a profile.
    pub mode: Option<Mode>,
    /// Preset if neither the caller nor a profile names one.
    pub default_mode: Mode,
    /// Profiles; empty is none.
    pub profiles: Vec<ProfileChoice>,
    /// Further readable paths. Relative ones count from the workspace.
    pub read: Vec<PathBuf>,
    /// Further writable paths.
    pub write: Vec<PathBuf>,
    /// Further denied paths.
    pub deny: Vec<PathBuf>,
    /// Unix sockets of the host.
    pub unix_sockets: Vec<PathBuf>,
    /// Devices by name.
    pub devices: Vec<String>,
    /// Network; `None` leaves the preset's, which is none.
    pub network: Option<NetworkPolicy>,
    /// Hosts that may be reached, besides those of profiles. [`NetworkPolicy::None`] beats them.
    pub allow_hosts: Vec<HostPattern>,
    /// Hosts that may not be reached, besides those of profiles.
    pub deny_hosts: Vec<HostPattern>,
    /// Ports of the host's loopback that may be reached.
    pub loopback_ports: Vec<u16>,
    /// Ports of the host that lead into the box.
    pub publish: Vec<Publish>,
    /// What is done about TLS server names that don't fit; `None` leaves the configuration's.
    pub sni: Option<SniCheck>,
    /// Longest run that needs no question; beats that of a profile.
    pub timeout: Option<Duration>,
    /// Takes away the right to start processes.
    pub no_spawn: bool,
    /// Variables: `NAME` passes the host's value, `NAME=value` sets one.
    pub env: Vec<OsString>,
    /// Whether `/`, home directories and system directories may be writable roots.
    pub force_root: bool,
}

/// What sessions may do without asking, and how their boxes are furnished: preset, profiles and options
/// together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionSettings {
    /// The preset in force.
    pub mode: Mode,
    /// Names of the profiles in force.
    pub profiles: Vec<String>,
    /// The package hosts of the profiles that were named.
    pub packages: Packages,
    /// What the gate is told. Its baseline is also what a command asks for that wants all it may have.
    pub policy: SessionPolicy,
    /// Variables for every command; those of the command itself beat them.
    pub env: Vec<EnvVar>,
}

impl SessionSettings {
    /// Resolves preset, profiles and options for a workspace. Reads the workspace's directory (for `auto`), the
    /// secrets' directories, the mount table, and for named profiles the configuration of their tools.
    ///
    /// # Errors
    /// [`ConfigError`] if a profile is unknown, extends itself or contradicts another.
    pub fn resolve(
        config: &SandboxConfig,
        host: &HostEnv,
        workspace: &Path,
        options: &RunOptions,
    ) -> Result<Self, ConfigError> {
        let selected = profiles::select(config, host, workspace, &options.profiles)?;
        let mode = options.mode.or(selected.mode).unwrap_or(options.default_mode);
        let mut grants = Grants::new(workspace);
        grants.read.extend(selected.read);
        grants.write.extend(selected.write);
        grants.deny.extend(selected.deny);
        grants.read(&options.read);
        grants.write(&options.write);
        grants.deny(&options.deny);
        let secrets::Found { paths: secrets, incomplete } =
            if mode == Mode::FullAccess { secrets::Found::default() } else { secrets::find(host) };

        // Whoever asks for no network or for all of it has no use for single hosts.
        let by_host = !matches!(options.network, Some(NetworkPolicy::None | NetworkPolicy::AllowAll));
        let mut packages = Packages::default();
        if by_host && !selected.named.is_empty() {
            let site = Site { workspace, writable: &grants.write, hidden: &secrets };
            packages = packages::find(host, site, &selected.named);
        }

        let mut capabilities = mode.capabilities(&grants.without_named(secrets));
        if mode == Mode::Strict {
            capabilities.fs_read.extend(selected.tool_reads);
        }
        capabilities.fs_read.append(&mut grants.read);
        capabilities.fs_write.append(&mut grants.write);
        capabilities.fs_deny.append(&mut grants.deny);
        capabilities.unix_sockets = selected.unix_sockets;
        capabilities.unix_sockets.extend(options.unix_sockets.iter().map(|path| workspace.join(path)));
        capabilities.devices = selected.devices;
        capabilities.devices.extend(options.devices.iter().cloned());
        // Rounded up, as that of a command is.
        let seconds = |limit: Duration| limit.as_secs().saturating_add(u64::from(limit.subsec_nanos() > 0));
        capabilities.timeout_secs = options.timeout.or(selected.timeout).map(seconds);
        let named: Vec<&HostPattern> =
            selected.allow_hosts.iter().chain(&options.allow_hosts).chain(packages.hosts()).collect();
        capabilities.internal_hosts = packages.hosts().map(ToString::to_string).collect();
        capabilities.loopback_ports.clone_from(&options.loopback_ports);
        capabilities.loopback_ports.extend(packages.loopback_ports());
        let base = options.network.as_ref().unwrap_or(&capabilities.network);
        capabilities.network = with_hosts(base, options.network.is_some(), named.iter().copied());
        let hosts: Vec<HostPattern> = named.into_iter().cloned().collect();
        let public = matches!(capabilities.network, NetworkPolicy::Public { .. });
        packages.settle(public, &hosts, &capabilities.loopback_ports);
        let denied = selected.deny_hosts.iter().chain(&options.deny_hosts);
        capabilities.deny_hosts = denied.map(ToString::to_string).collect();
        capabilities.publish.clone_from(&options.publish);
        capabilities.spawn_subprocess &= !options.no_spawn;
        for list in [&mut capabilities.fs_read, &mut capabilities.fs_write, &mut capabilities.fs_deny] {
            list.sort();
            list.dedup();
        }

        let mut env = selected.env;
        env.extend(packages.env.iter().cloned());
        env.extend(options.env.iter().filter_map(|entry| variable(entry, host)));
        let policy = SessionPolicy {
            baseline: capabilities,
            force_root: options.force_root || mode == Mode::FullAccess,
            deny_incomplete: incomplete.into_iter().map(PathBuf::from).collect(),
            // Where the rest of the disk is shown, the home directory is too.
            private_home: host.home().filter(|_| mode == Mode::Strict),
            // `read-only` writes nothing that outlives the run; `full-access` has the caches themselves.
            caches: match mode {
                Mode::Strict | Mode::WorkspaceWrite => selected.caches,
                Mode::ReadOnly | Mode::FullAccess => Vec::new(),
            },
            rlimits: selected.rlimits,
            proxy: ProxySettings { sni: options.sni.unwrap_or(config.proxy.sni), ..config.proxy },
            linux: config.linux.clone(),
        };
        Ok(Self { mode, profiles: selected.names, packages, policy, env })
    }
}

/// A network with the named hosts. A host implies its network, unless none was `asked` for by that word.
fn with_hosts<'a>(
    network: &NetworkPolicy,
    asked: bool,
    named: impl Iterator<Item = &'a HostPattern>,
) -> NetworkPolicy {
    let mut named: Vec<String> = named.map(ToString::to_string).collect();
    match network {
        NetworkPolicy::AllowAll => NetworkPolicy::AllowAll,
        NetworkPolicy::None if asked || named.is_empty() => NetworkPolicy::None,
        NetworkPolicy::None => NetworkPolicy::AllowHosts { hosts: named },
        NetworkPolicy::AllowHosts { hosts } => {
            named.extend(hosts.iter().cloned());
            NetworkPolicy::AllowHosts { hosts: named }
        }
        NetworkPolicy::Public { hosts } => {
            named.extend(hosts.iter().cloned());
            NetworkPolicy::Public { hosts: named }
        }
    }
}

/// `NAME=value`, or `NAME` with the host's value; `None` if the host has none.
pub(crate) fn variable(entry: &OsString, host: &HostEnv) -> Option<EnvVar> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let bytes = entry.as_bytes();
    match bytes.iter().position(|&byte| byte == b'=') {
        Some(at) => {
            let part = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
            Some((part(&bytes[..at]), part(&bytes[at + 1..])))
        }
        None => host.var_os(entry).map(|value| (entry.clone(), value.to_owned())),
    }
}

/// Paths that a person named, as opposed to those of a preset.
struct Grants<'a> {
    workspace: &'a Path,
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    deny: Vec<PathBuf>,
}

impl<'a> Grants<'a> {
    fn new(workspace: &'a Path) -> Self {
        Self { workspace, read: Vec::new(), write: Vec::new(), deny: Vec::new() }
    }

    fn read(&mut self, paths: &[PathBuf]) {
        self.read.extend(paths.iter().map(|path| self.workspace.join(path)));
    }

    fn write(&mut self, paths: &[PathBuf]) {
        self.write.extend(paths.iter().map(|path| self.workspace.join(path)));
    }

    fn deny(&mut self, paths: &[PathBuf]) {
        self.deny.extend(paths.iter().map(|path| self.workspace.join(path)));
    }

    /// The secrets but those that were granted by their own name: at equal depth a denial would win.
    fn without_named(&self, secrets: Vec<PathBuf>) -> Vec<PathBuf> {
        let named = |secret: &PathBuf| self.read.contains(secret) || self.write.contains(secret);
        secrets.into_iter().filter(|secret| !named(secret)).collect()
    }
}

#[cfg(test)]
mod tests;
