//! Launch plans for Linux: mounts in order, Landlock rules, seccomp filters, identity and environment.

mod facts;
mod groundwork;
mod landlock;
mod mounts;
pub mod network;
mod plan;
pub mod seccomp;

use std::ffi::OsString;

use ringfence_types::{FileId, Rlimits, UnixPath};
use serde::{Deserialize, Serialize};

pub use facts::{LinuxFacts, RootEntry, SYSTEM_ROOTS};
pub use groundwork::{Groundwork, PRIVATE, UsualView};
pub use landlock::{LandlockAccess, LandlockPlan, LandlockRule};
pub use network::{HostRules, NetworkPlan};
pub use plan::linux;

/// Everything that a Linux driver does for one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinuxPlan {
    /// Who the command runs as.
    pub identity: Identity,
    /// Whether the box has a network namespace of its own; false only for `AllowAll`.
    pub own_network: bool,
    /// What that namespace has besides its empty loopback, if anything.
    pub network: Option<NetworkPlan>,
    /// What to mount, in this order, onto a root that starts empty.
    pub mounts: Vec<MountOp>,
    /// Whether the fresh `/proc` allows the box to make user namespaces of its own.
    pub nested_userns: bool,
    /// Landlock ruleset, if the kernel has a usable one.
    pub landlock: Option<LandlockPlan>,
    /// Filter of the command.
    pub seccomp: seccomp::Program,
    /// Filter of PID 1.
    pub init_seccomp: seccomp::Program,
    /// What the socket gate lets through.
    pub socket_gate: seccomp::SocketGate,
    /// Limits of each process.
    pub rlimits: Rlimits,
    /// Working directory.
    pub cwd: UnixPath,
    /// What was found there; the launcher refuses anything else.
    pub cwd_id: Option<Box<FileId>>,
    /// The workspace, if it is to be writable.
    pub workspace: Option<UnixPath>,
    /// Host variables that pass, which the command may override.
    pub env_host: Vec<(EnvBytes, EnvBytes)>,
    /// Variables that Ringfence sets, which the command can't override.
    pub env_forced: Vec<(EnvBytes, EnvBytes)>,
    /// Roots that the command can write on the host.
    pub writable: Vec<UnixPath>,
    /// Why the search for protected paths is incomplete, if it is; `None` if it is complete.
    pub protected_incomplete: Option<String>,
    /// Number of protected paths.
    pub protected_count: u32,
}

/// Permissions of the tmpfs that covers a denied directory with a part that is open again: passing through is allowed,
/// listing is not.
pub const PASSAGE: u32 = 0o111;

/// One name or value of the environment, as bytes.
pub type EnvBytes = UnixPath;

/// Who the command runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// User id of the command.
    pub uid: u32,
    /// Group id of the command.
    pub gid: u32,
    /// User id that the command sees: the same, but for a root that may nest. A namespace below one without
    /// capabilities can't map uid 0 (user_namespaces(7), `CAP_SETFCAP`), so there root is seen as another.
    pub seen_uid: u32,
    /// Group id that the command sees.
    pub seen_gid: u32,
    /// Whether the caller is root and becomes the workspace's owner.
    pub switch: bool,
}

/// Access of a bind mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Read and execute.
    ReadOnly,
    /// Everything that the file's mode allows.
    ReadWrite,
}

/// One step of the mount plan. Paths named `at` are inside the box, `from` on the host; all are canonical, and
/// a symlink on the way is an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MountOp {
    /// The whole host tree becomes the root, in one recursive clone.
    HostTree {
        /// Read-only except for `full-access`.
        access: Access,
    },
    /// An empty tmpfs with a directory `/proc` becomes the root; it is sealed at the end.
    EmptyRoot,
    /// A private tmpfs.
    Tmpfs {
        /// Existing directory.
        at: UnixPath,
        /// Permissions of its root.
        mode: u32,
        /// Size limit in bytes.
        size: u64,
    },
    /// A directory inside a private tmpfs; its parent exists.
    Directory {
        /// Where.
        at: UnixPath,
        /// Permissions.
        mode: u32,
    },
    /// An empty file inside a private tmpfs, to be mounted on.
    MountPoint {
        /// Where.
        at: UnixPath,
    },
    /// A symlink inside a private tmpfs.
    Symlink {
        /// Where.
        at: UnixPath,
        /// What it holds.
        target: UnixPath,
    },
    /// A host tree or file, with all that is mounted below it.
    Bind {
        /// Host path.
        from: UnixPath,
        /// Box path.
        at: UnixPath,
        /// What was approved; the launcher refuses anything else.
        id: Option<Box<FileId>>,
        /// Access.
        access: Access,
        /// Whether device nodes work.
        devices: bool,
    },
    /// A host cache below a private layer.
    Overlay {
        /// Host directory, shown below.
        lower: UnixPath,
        /// What was approved there; the launcher refuses anything else.
        id: Option<Box<FileId>>,
        /// Private layer on the host.
        upper: UnixPath,
        /// Scratch directory of overlayfs.
        work: UnixPath,
        /// Box path.
        at: UnixPath,
    },
    /// Nothing can be read or written here: an empty file of mode 000, or a read-only tmpfs of mode 000.
    Mask {
        /// Where.
        at: UnixPath,
        /// What is covered.
        directory: bool,
        /// Whether the path may be gone by now: a socket that nobody listens on any more can't be reached.
        may_be_gone: bool,
    },
    /// A file with this content covers the host's.
    Cover {
        /// Existing file.
        at: UnixPath,
        /// Content.
        content: String,
    },
    /// The path is mounted on itself, so that it can be neither renamed nor removed nor replaced.
    Pin {
        /// Where.
        at: UnixPath,
        /// What was found there; a change since is an error.
        id: Option<Box<FileId>>,
        /// Whether the path is a symlink, pinned as such.
        symlink: bool,
        /// Whether it is also read-only.
        read_only: bool,
    },
    /// A new instance of devpts.
    Devpts {
        /// Where.
        at: UnixPath,
    },
    /// The fresh `/proc` with its masked parts (step *proc*).
    Proc {
        /// Where.
        at: UnixPath,
        /// Whether it allows the box to make user namespaces of its own.
        user_namespaces: bool,
    },
    /// A private tmpfs becomes read-only.
    Seal {
        /// Its mount point.
        at: UnixPath,
    },
}

/// What the launcher needs besides the plan: the program and its surroundings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Program name or path.
    pub program: UnixPath,
    /// Arguments, the program's own name first.
    pub argv: Vec<UnixPath>,
    /// Complete environment as `NAME=value`.
    pub env: Vec<UnixPath>,
}

impl MountOp {
    /// The path, if this denies one that must be there as long as the run lasts.
    pub fn denied(&self) -> Option<&UnixPath> {
        match self {
            Self::Mask { at, may_be_gone: false, .. } | Self::Tmpfs { at, mode: PASSAGE, .. } => Some(at),
            _ => None,
        }
    }
}

impl LinuxPlan {
    /// The complete environment: host variables that pass, then the command's, then the forced ones.
    pub fn environment(&self, command: &[(OsString, OsString)]) -> Vec<UnixPath> {
        let mut all: Vec<(Vec<u8>, Vec<u8>)> = Vec::with_capacity(self.env_host.len() + command.len());
        let host = self.env_host.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let own = command.iter().map(|(name, value)| (name.as_encoded_bytes(), value.as_encoded_bytes()));
        let forced = self.env_forced.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        for (name, value) in host.chain(own).chain(forced) {
            match all.iter_mut().find(|(known, _)| known == name) {
                Some((_, old)) => *old = value.to_vec(),
                None => all.push((name.to_vec(), value.to_vec())),
            }
        }
        all.into_iter().map(|(name, value)| UnixPath::new([name, vec![b'='], value].concat())).collect()
    }
}
