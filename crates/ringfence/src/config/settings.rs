use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringfence_gate::{GateConfig, protected};
use ringfence_policy::{CommandPolicyConfig, RateLimitConfig};
use ringfence_types::{HostPattern, LayerName, Linux, ProxySettings, Rlimits};

use crate::host::HostEnv;
use crate::{Mode, OutputFloor, SessionSettings};

/// Settings of a sandbox: what the configuration files say, on top of the defaults.
///
/// [`SandboxConfig::new`] gives the defaults; [`crate::config::Sources::load`] reads the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxConfig {
    /// Directory for configuration and state (`RINGFENCE_HOME`). No box can see it.
    pub home: PathBuf,
    /// Where sessions get their directories; default `<home>/workspaces`.
    pub workspace_root: PathBuf,
    /// False refuses every command.
    pub enabled: bool,
    /// Wall-clock limit of a command that names none; `None` is unlimited. Default 60 s.
    pub default_timeout: Option<Duration>,
    /// Output budget of one command in bytes, both streams together. Default 1 MiB.
    pub max_output_bytes: usize,
    /// What the box may not plant.
    pub protected: protected::Settings,
    /// Settings of the proxy of a network by host name.
    pub proxy: ProxySettings,
    /// Settings of the Linux backends.
    pub linux: Linux,
    /// Rate limits by category of tool.
    pub rate_limit: RateLimitConfig,
    /// What the command policy does on matches outside its floor.
    pub command_policy: CommandPolicyConfig,
    /// Own profiles, by name. One with a built-in profile's name adds to it.
    pub profiles: BTreeMap<String, Profile>,
    /// Layers that must be fully in force, or nothing runs. Set by the caller, not by a file.
    pub required: Vec<LayerName>,
    /// What is done to captured output. Set by the caller, not by a file.
    pub output: OutputFloor,
    /// How sessions start; `None` is the `strict` preset. Set by the caller, not by a file.
    pub session: Option<SessionSettings>,
}

impl SandboxConfig {
    /// The defaults, with configuration and state in `home`.
    pub fn new(home: impl Into<PathBuf>) -> Self {
        let home = home.into();
        Self {
            workspace_root: home.join("workspaces"),
            home,
            enabled: true,
            default_timeout: Some(Duration::from_secs(60)),
            max_output_bytes: 1 << 20,
            protected: protected::Settings::default(),
            proxy: ProxySettings::default(),
            linux: Linux::default(),
            rate_limit: RateLimitConfig::default(),
            command_policy: CommandPolicyConfig::default(),
            profiles: BTreeMap::new(),
            required: Vec::new(),
            output: OutputFloor::default(),
            session: None,
        }
    }
}

impl SandboxConfig {
    /// What the gate has to know.
    pub(crate) fn gate(&self, host: &HostEnv, session: &SessionSettings) -> GateConfig {
        GateConfig {
            workspace_root: self.workspace_root.clone(),
            session: session.policy.clone(),
            user_homes: host.homes(),
            host_tmpdir: host.path_var("TMPDIR").map(Path::to_path_buf),
            default_timeout: self.default_timeout,
            max_output_bytes: self.max_output_bytes,
            required: self.required.clone(),
            protected: protected::Settings {
                exhaustive: self.protected.exhaustive || self.required.contains(&LayerName::Protected),
                ..self.protected.clone()
            },
            ..GateConfig::new(&self.home)
        }
    }
}

/// `[profile.NAME]`: additions to a preset. Paths are as written: `~/` is the home directory, a relative path
/// counts from the workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Profiles that this one builds on.
    pub extends: Vec<String>,
    /// Preset; that of the command line beats it.
    pub mode: Option<Mode>,
    /// Readable paths.
    pub read: Vec<String>,
    /// Writable paths.
    pub write: Vec<String>,
    /// Denied paths.
    pub deny: Vec<String>,
    /// Unix sockets of the host that may be connected to.
    pub unix_sockets: Vec<String>,
    /// Devices by name.
    pub devices: Vec<String>,
    /// Hosts that may be reached.
    pub allow_hosts: Vec<HostPattern>,
    /// Hosts that may not, whatever else is allowed.
    pub deny_hosts: Vec<HostPattern>,
    /// Variables: `NAME` passes the host's value, `NAME=value` sets one.
    pub env: Vec<String>,
    /// Cache directories of the host that are shown below a private layer.
    pub caches: Vec<String>,
    /// Wall-clock limit.
    pub timeout: Option<Duration>,
    /// Limits of each process.
    pub rlimits: Rlimits,
}
