use std::path::PathBuf;
use std::time::Duration;

use ringfence_types::{LayerName, Linux, ProxySettings, Rlimits, SandboxCapabilities};

use crate::protected;

/// What the gate is told by its host, once.
#[derive(Clone, Debug)]
pub struct GateConfig {
    /// `RINGFENCE_HOME`: state, caches and the default workspaces. No box reads or writes it, the workspaces
    /// below `workspace_root` excepted. Created with mode 0700.
    pub home: PathBuf,
    /// Where the directories of sessions lie that have no directory of the host's choice.
    pub workspace_root: PathBuf,
    /// How sessions start unless the host says otherwise.
    pub session: SessionPolicy,
    /// The caller's home directories, which are no writable roots, nor are their ancestors.
    pub user_homes: Vec<PathBuf>,
    /// The host's `TMPDIR`, which the box sees as its private temp.
    pub host_tmpdir: Option<PathBuf>,
    /// Programs that no box may write, wherever they lie: the `ringfence` binary.
    pub executables: Vec<PathBuf>,
    /// Wall-clock limit where neither the command nor its capabilities name one.
    pub default_timeout: Option<Duration>,
    /// Output budget in bytes for both streams together.
    pub max_output_bytes: usize,
    /// Layers that must be fully in force.
    pub required: Vec<LayerName>,
    /// What the box may not plant, and how long the search for it may take.
    pub protected: protected::Settings,
    /// How long a session may be idle before whoever drives the gate drops it from memory
    /// ([`SessionStore::evict_idle`](crate::SessionStore::evict_idle)).
    pub idle: Duration,
}

impl GateConfig {
    /// The library's defaults: strict sessions below `home/workspaces`, 60 s, 1 MiB of output, the running
    /// program protected.
    pub fn new(home: impl Into<PathBuf>) -> Self {
        let home = home.into();
        Self {
            workspace_root: home.join("workspaces"),
            home,
            session: SessionPolicy::default(),
            user_homes: Vec::new(),
            host_tmpdir: None,
            executables: std::env::current_exe().into_iter().collect(),
            default_timeout: Some(Duration::from_secs(60)),
            max_output_bytes: 1 << 20,
            required: Vec::new(),
            protected: protected::Settings::default(),
            idle: Duration::from_secs(3600),
        }
    }
}

/// What a session grants without a question, and how its boxes are furnished. Frozen when the session starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionPolicy {
    /// What a command may have without a question.
    pub baseline: SandboxCapabilities,
    /// Whether `/`, home directories and system directories may be writable roots.
    pub force_root: bool,
    /// What was to be denied and could not be looked for to its end, such as entries of the secrets list.
    pub deny_incomplete: Vec<PathBuf>,
    /// A private writable `HOME` at this path.
    pub private_home: Option<PathBuf>,
    /// Host caches to be shown below a private layer of the workspace.
    pub caches: Vec<CacheRequest>,
    /// Limits of each process.
    pub rlimits: Rlimits,
    /// The proxy of a network by host name.
    pub proxy: ProxySettings,
    /// Settings that only Linux backends read.
    pub linux: Linux,
}

/// A host cache to be shown below a private layer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CacheRequest {
    /// The host's cache directory; it need not exist.
    pub at: PathBuf,
    /// Variable that moves the cache elsewhere if it can't be mounted.
    pub env: Option<String>,
}

/// How long a session lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Lifetime {
    /// One run: its private temp is in memory and ends with it.
    Run,
    /// Until it is ended: its commands share a private temp on disk.
    #[default]
    Session,
}

/// How one session starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionStart {
    /// A directory of the host's choice as the jail root, instead of the session's own.
    pub directory: Option<PathBuf>,
    /// Policy instead of the configured one.
    pub policy: Option<SessionPolicy>,
    /// How long it lasts.
    pub lifetime: Lifetime,
}
