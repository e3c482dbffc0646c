use serde::{Deserialize, Serialize};

/// What kind of act was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum DenialKind {
    Read,
    Write,
    Exec,
    Connect,
    Syscall,
    Protected,
    Policy,
}

/// Which mechanism reported the refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum DenialSource {
    Launcher,
    Seccomp,
    Landlock,
    Proxy,
    /// The look for changed protected paths, when the run's tree is dead.
    Watch,
    Policy,
    Stderr,
}

/// One refused act, and what would allow it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Denial {
    /// What kind of act.
    pub kind: DenialKind,
    /// The path, host or call that was refused.
    pub target: String,
    /// The flag or setting that would allow it, if anything would.
    pub allow_with: Option<String>,
    /// Who says so.
    pub source: DenialSource,
    /// False for a guess from error texts.
    pub certain: bool,
}
