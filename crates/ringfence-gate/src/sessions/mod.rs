//! Sessions: where their commands work, what they may have, how long they last.

mod lock;
mod store;
mod workspace;

use std::io;
use std::path::{Path, PathBuf};

use ringfence_types::SessionId;

pub use store::SessionStore;
pub(crate) use workspace::Grant;
pub use workspace::SessionWorkspace;

use crate::resolve::ResolveError;

/// The directory of a session below the workspace root, unless the host chose another:
/// [`SessionId::directory_name`]. Pure.
pub fn session_directory(workspace_root: &Path, session: &SessionId) -> PathBuf {
    workspace_root.join(session.directory_name())
}

/// Why a session has no workspace.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// It has started before, otherwise.
    #[error("session {0} has already started with another directory or policy")]
    AlreadyStarted(SessionId),
    /// The host's directory does not exist.
    #[error("workspace {} does not exist", .0.display())]
    Missing(PathBuf),
    /// The host's directory is none.
    #[error("workspace {} is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// Something else lies where the session's own directory should.
    #[error("workspace {} is a symlink", .0.display())]
    Symlink(PathBuf),
    /// The session's own directory belongs to somebody else.
    #[error("workspace {} belongs to user {owner}, not to user {caller}", .path.display())]
    ForeignOwner {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The effective user id.
        caller: u32,
    },
    /// The directory is another one than when the session started.
    #[error("workspace {} was replaced since the session started", .0.display())]
    Replaced(PathBuf),
    /// Ringfence's own files are no workspace.
    #[error("{} belongs to Ringfence itself and cannot be a workspace", .0.display())]
    RingfenceHome(PathBuf),
    /// The directory can't be created or entered.
    #[error("cannot use {} as workspace", .path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The session's lock or private temp can't be had.
    #[error("cannot keep the session's state in {}", .path.display())]
    State {
        /// File or directory below Ringfence's home.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The baseline means nothing on this host.
    #[error(transparent)]
    Baseline(ResolveError),
}

/// The only thing that is unsupported is a host without /proc.
const NO_PROC_HINT: &str = "mount it: `mount -t proc proc /proc`";

impl SessionError {
    /// What can be done about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Missing(_) => Some("create it, or name another with `--workspace`"),
            Self::NotADirectory(_) | Self::RingfenceHome(_) => {
                Some("name another directory with `--workspace`")
            }
            Self::Symlink(_) | Self::ForeignOwner { .. } => Some("remove it, or use another session"),
            Self::Replaced(_) => Some("end the session and start it again"),
            Self::Baseline(error) => error.hint(),
            Self::State { .. } => Some("set `RINGFENCE_HOME` to a directory that you can write"),
            Self::Io { source, .. } if source.kind() == io::ErrorKind::Unsupported => Some(NO_PROC_HINT),
            Self::AlreadyStarted(_) | Self::Io { .. } => None,
        }
    }
}
