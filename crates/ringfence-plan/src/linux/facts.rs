use std::path::PathBuf;

use ringfence_types::UnixPath;

use super::seccomp::Arch;

/// What the Linux driver found on its host.
#[derive(Clone, Debug)]
pub struct LinuxFacts {
    /// Effective user id of the caller.
    pub uid: u32,
    /// Effective group id of the caller.
    pub gid: u32,
    /// Processor architecture.
    pub arch: Arch,
    /// Landlock ABI of the running kernel; 0 if it has none (landlock(7)).
    pub landlock_abi: u32,
    /// System directories and symlinks that exist at the root: `/usr`, `/bin`, `/etc`, …
    pub system: Vec<RootEntry>,
    /// Which of `/proc`, `/run`, `/sys` and `/tmp` are directories; a symlink to one is none.
    pub present: Vec<PathBuf>,
    /// Canonical paths of pathname sockets that can be connected or sent to (`/proc/net/unix`).
    pub sockets: Vec<PathBuf>,
    /// Canonical path of `/etc/resolv.conf`, if there is one.
    pub resolv_conf: Option<PathBuf>,
    /// Canonical path of `/etc/nsswitch.conf`, if there is one.
    pub nsswitch: Option<PathBuf>,
    /// Canonical path of `/etc/hosts`, if there is one.
    pub hosts_file: Option<PathBuf>,
    /// The caller's environment.
    pub env: Vec<(UnixPath, UnixPath)>,
}

/// One system entry at the root of the file tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootEntry {
    /// A directory.
    Directory(PathBuf),
    /// A symlink such as `/bin -> usr/bin`.
    Symlink {
        /// Where it lies.
        path: PathBuf,
        /// What it holds.
        target: PathBuf,
    },
}

/// System read roots of the strict view (spec: `/bin /sbin /usr /etc /lib… /nix/store /run/current-system/sw`).
pub const SYSTEM_ROOTS: [&str; 10] = [
    "/bin",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/run/current-system/sw",
    "/sbin",
    "/usr",
];
