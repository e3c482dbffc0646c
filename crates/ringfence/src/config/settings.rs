use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ringfence_policy::RateLimitConfig;
use ringfence_types::{Linux, Rlimits};
use serde::{Deserialize, Serialize};

use crate::Mode;

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
    pub protected: ProtectedSettings,
    /// Settings of the Linux backends.
    pub linux: Linux,
    /// Rate limits by category of tool.
    pub rate_limit: RateLimitConfig,
    /// Own profiles, by name. One with a built-in profile's name adds to it.
    pub profiles: BTreeMap<String, Profile>,
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
            protected: ProtectedSettings::default(),
            linux: Linux::default(),
            rate_limit: RateLimitConfig::default(),
            profiles: BTreeMap::new(),
        }
    }
}

/// How much of a git directory is protected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GitProtection {
    /// What git runs or obeys: hooks, config, attributes. Ordinary git work goes on.
    #[default]
    Hooks,
    /// The whole git directory is read-only.
    All,
}

/// `[sandbox.protected]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtectedSettings {
    /// Git directories.
    pub git: GitProtection,
    /// Names that are protected directly below a writable root.
    pub names: Vec<String>,
}

/// Names that programs outside the box obey if they lie directly below a workspace.
pub const PROTECTED_NAMES: [&str; 9] = [
    ".ringfence",
    ".ringfence.toml",
    ".codex",
    ".agents",
    ".claude",
    ".mcp.json",
    ".vscode",
    ".idea",
    ".envrc",
];

impl Default for ProtectedSettings {
    fn default() -> Self {
        Self { git: GitProtection::default(), names: PROTECTED_NAMES.map(String::from).to_vec() }
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
    /// Variables: `NAME` passes the host's value, `NAME=value` sets one.
    pub env: Vec<String>,
    /// Cache directories of the host that are shown below a private layer.
    pub caches: Vec<String>,
    /// Wall-clock limit.
    pub timeout: Option<Duration>,
    /// Limits of each process.
    pub rlimits: Rlimits,
}
