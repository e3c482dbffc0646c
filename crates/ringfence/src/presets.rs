use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use ringfence_types::{SandboxCapabilities, WorkspaceAccess};
use serde::{Deserialize, Serialize};

use crate::nearest::nearest;

/// A preset of capabilities.
///
/// | preset | reads | writes | loopback, spawn | secrets list |
/// |---|---|---|---|---|
/// | `strict` | system files, workspace | workspace, private temp, private `HOME` | no | hidden |
/// | `read-only` | everything else | private temp | yes | denied |
/// | `workspace-write` | everything else | workspace, private temp, caches of the profiles | yes | denied |
/// | `full-access` | everything | everything that the caller may | yes | readable |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The library's default.
    #[default]
    Strict,
    /// Look at everything, change nothing.
    ReadOnly,
    /// The command line's default.
    WorkspaceWrite,
    /// No file rules. Lifetime, process namespace, environment, audit and hooks still apply.
    FullAccess,
}

impl Mode {
    /// All presets, the narrowest first.
    pub const ALL: [Self; 4] = [Self::Strict, Self::ReadOnly, Self::WorkspaceWrite, Self::FullAccess];

    /// The preset's name in configuration and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::ReadOnly => "read-only",
            Self::WorkspaceWrite => "workspace-write",
            Self::FullAccess => "full-access",
        }
    }

    /// The preset as capabilities. `secrets` are the paths that it denies ([`crate::secrets::find`]); `strict`
    /// hides them because nothing of the host but its system files is there, and still denies those among the
    /// system files.
    pub fn capabilities(self, secrets: &[PathBuf]) -> SandboxCapabilities {
        let root = || vec![PathBuf::from("/")];
        let open =
            SandboxCapabilities { loopback: true, spawn_subprocess: true, ..SandboxCapabilities::strict() };
        match self {
            Self::Strict => {
                SandboxCapabilities { fs_deny: secrets.to_vec(), ..SandboxCapabilities::strict() }
            }
            Self::ReadOnly => SandboxCapabilities {
                fs_read: root(),
                fs_deny: secrets.to_vec(),
                workspace: WorkspaceAccess::Read,
                ..open
            },
            Self::WorkspaceWrite => {
                SandboxCapabilities { fs_read: root(), fs_deny: secrets.to_vec(), ..open }
            }
            Self::FullAccess => SandboxCapabilities { fs_write: root(), ..open },
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no preset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown mode `{name}`, expected strict, read-only, workspace-write or full-access{}", did_you_mean(.nearest))]
pub struct UnknownMode {
    /// The text.
    pub name: String,
    /// The preset that it resembles.
    pub nearest: Option<&'static str>,
}

fn did_you_mean(nearest: &Option<&'static str>) -> String {
    nearest.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text).ok_or_else(|| UnknownMode {
            name: text.to_owned(),
            nearest: nearest(text, Self::ALL.map(Self::as_str)),
        })
    }
}
