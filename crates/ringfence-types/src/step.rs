use std::fmt;

use serde::{Deserialize, Serialize};

/// The steps of the native Linux launcher. An error names its step. They run in this order but for *loopback*, which begins
/// before the mounts, and *init*, whose process is the one that all from *loopback* to *pivot* run in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the launcher's documentation describes each step")]
pub enum Step {
    Prepare,
    Clone,
    Idmap,
    Mounts,
    Proc,
    Pivot,
    Loopback,
    Init,
    Limits,
    Caps,
    Landlock,
    Seccomp,
    Exec,
}

impl Step {
    /// All steps in order.
    pub const ALL: [Self; 13] = [
        Self::Prepare,
        Self::Clone,
        Self::Idmap,
        Self::Mounts,
        Self::Proc,
        Self::Pivot,
        Self::Loopback,
        Self::Init,
        Self::Limits,
        Self::Caps,
        Self::Landlock,
        Self::Seccomp,
        Self::Exec,
    ];

    /// The step's name in errors and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Clone => "clone",
            Self::Idmap => "idmap",
            Self::Mounts => "mounts",
            Self::Proc => "proc",
            Self::Pivot => "pivot",
            Self::Loopback => "loopback",
            Self::Init => "init",
            Self::Limits => "limits",
            Self::Caps => "caps",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Exec => "exec",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
