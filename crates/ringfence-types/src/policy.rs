use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{HostPattern, LayerName, ProxySettings, Publish, SandboxCapabilities, UnixPath, WorkspaceAccess};

/// Identity of a file at the time of its approval. An inode number alone is reused at once after an unlink.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileId {
    /// Device, as `makedev(3)` packs it.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Birth time in nanoseconds since the epoch, where the file system keeps one (statx(2), `STATX_BTIME`).
    pub birth: Option<i128>,
    /// File handle, where the file system gives one (name_to_handle_at(2)).
    pub handle: Option<Vec<u8>>,
}

/// What lies at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathKind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link itself. Only pins name one.
    Symlink,
    /// A socket, pipe or device.
    Special,
    /// Nothing yet: the nearest existing ancestor is canonical and no symlink lies below it.
    Missing,
}

/// A canonical absolute path and what was found there.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ResolvedPath {
    /// Absolute, without `.`, `..` or symlinks.
    pub path: PathBuf,
    /// What lies there.
    pub kind: PathKind,
    /// Its identity; `None` if missing.
    #[serde(skip)]
    pub id: Option<Box<FileId>>,
}

impl PartialOrd for FileId {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for FileId {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.dev, self.ino, self.birth, &self.handle).cmp(&(
            other.dev,
            other.ino,
            other.birth,
            &other.handle,
        ))
    }
}

/// Network policy with parsed patterns. An empty host list is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Network {
    /// No network beyond the box.
    #[default]
    None,
    /// The named hosts only.
    AllowHosts {
        /// Sorted, without duplicates.
        hosts: Vec<HostPattern>,
    },
    /// Every public address, and the named hosts.
    Public {
        /// Sorted, without duplicates.
        hosts: Vec<HostPattern>,
    },
    /// The host's network as it is.
    AllowAll,
}

/// What the box may not plant: paths that something outside would run or obey later.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Protected {
    /// Files and directories that are read-only inside writable roots.
    pub read_only: Vec<ResolvedPath>,
    /// Directories and symlinks that must stay where they are: those between a writable root and a protected
    /// path, and `.git` itself.
    pub pins: Vec<ResolvedPath>,
    /// Why the search for them is incomplete, if it is.
    pub incomplete: Option<String>,
}

/// A host cache shown below a private layer, so that what the box writes there never runs outside.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CacheMount {
    /// The host's cache directory, which is also where the box sees it.
    pub at: ResolvedPath,
    /// Private layer of this workspace.
    pub upper: PathBuf,
    /// Scratch directory for overlayfs, on the file system of `upper`.
    pub work: PathBuf,
    /// Variable that moves the cache elsewhere if it cannot be mounted, e.g. `npm_config_cache`.
    pub env: Option<String>,
}

/// Resource limits of each process (setrlimit(2)); `None` leaves the caller's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rlimits {
    /// Open files.
    pub open_files: Option<u64>,
    /// Size of a written file in bytes.
    pub file_size: Option<u64>,
}

/// Who owns the workspace on a Unix system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// A device grant and the nodes that it means on this host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeviceGrant {
    /// `gpu`, `kvm` or `fuse`.
    pub name: String,
    /// Nodes below `/dev`.
    pub nodes: Vec<PathBuf>,
}

/// Settings that only Linux backends read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Linux {
    /// Lets the command create namespaces of its own (Chromium, Bazel, a nested Ringfence). Weakens seccomp and
    /// takes the file rules out of Landlock; reported.
    pub nested_userns: bool,
    /// Lets 32-bit x86 programs run. The same seccomp rows hold for them, but for what `socketcall` takes from
    /// memory, where no filter sees it.
    pub allow_i386: bool,
    /// Size limit of the private temp and of each other private tmpfs, in bytes.
    pub tmp_size: u64,
}

impl Default for Linux {
    fn default() -> Self {
        Self { nested_userns: false, allow_i386: false, tmp_size: 2 << 30 }
    }
}

/// A policy on canonical paths: what is compared, approved, planned and enforced.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ResolvedPolicy {
    /// The jail root.
    pub workspace: ResolvedPath,
    /// Owner of the jail root, on Unix.
    pub workspace_owner: Option<Owner>,
    /// Access to the jail root.
    pub workspace_access: WorkspaceAccess,
    /// Working directory, at or below the jail root.
    pub cwd: ResolvedPath,
    /// Readable files and trees.
    pub read: Vec<ResolvedPath>,
    /// Writable files and trees.
    pub write: Vec<ResolvedPath>,
    /// Denied files and trees.
    pub deny: Vec<ResolvedPath>,
    /// Absolute patterns that were expanded into `deny`. What appears later they don't cover. They decide nothing
    /// themselves: policies are compared by the paths that they stood for.
    pub deny_patterns: Vec<PathBuf>,
    /// Denied files that had further names (hard links), by which they may be reached. They decide nothing
    /// themselves. Sorted.
    pub deny_linked: Vec<PathBuf>,
    /// Entries of the secrets list that stand for more than was looked for, so that not all of it is in `deny`.
    /// They decide nothing themselves.
    pub deny_incomplete: Vec<PathBuf>,
    /// Network beyond the box.
    pub network: Network,
    /// Hosts that may not be reached whatever `network` says; without a port on every port. Sorted, without
    /// duplicates.
    pub deny_hosts: Vec<HostPattern>,
    /// Hosts of `network` whose names may lead to private addresses and the like. Sorted, without duplicates.
    pub internal_hosts: Vec<HostPattern>,
    /// Ports of the host's loopback that the box may reach. Sorted, without duplicates.
    pub loopback_ports: Vec<u16>,
    /// Ports of the host that lead into the box. Sorted, without duplicates.
    pub publish: Vec<Publish>,
    /// Sockets on the box's own loopback.
    pub loopback: bool,
    /// Whether processes may be started.
    pub spawn: bool,
    /// Connectable Unix sockets of the host.
    pub unix_sockets: Vec<ResolvedPath>,
    /// Devices by name.
    pub devices: Vec<DeviceGrant>,
    /// MiB; `None` is unlimited.
    pub max_memory_mb: Option<u64>,
    /// `None` is unlimited.
    pub max_processes: Option<u64>,
    /// Seconds; `None` leaves it to the command and the configuration.
    pub timeout_secs: Option<u64>,

    /// A private writable `HOME` at this path.
    pub private_home: Option<PathBuf>,
    /// The host's temp directory as named by its `TMPDIR`, replaced by the private one.
    pub host_tmpdir: Option<PathBuf>,
    /// The session's temp directory on disk, shown at `/tmp`; `None` gives a tmpfs that ends with the run.
    pub session_tmp: Option<PathBuf>,
    /// Cache overlays.
    pub caches: Vec<CacheMount>,
    /// What the box may not plant.
    pub protected: Protected,
    /// Limits of each process.
    pub rlimits: Rlimits,
    /// The proxy of a network by host name.
    pub proxy: ProxySettings,
    /// Linux only.
    pub linux: Linux,
}

impl ResolvedPolicy {
    /// Whether `path` itself may be read. The deepest rule that covers it decides; at equal depth deny wins.
    /// System files, which every policy may read, are not considered.
    pub fn may_read(&self, path: &Path) -> bool {
        let granted = deepest(self.readable(), path);
        granted.is_some() && granted > deepest(paths(&self.deny), path)
    }

    /// Whether `path` itself may be written, by the rule of [`Self::may_read`].
    pub fn may_write(&self, path: &Path) -> bool {
        let granted = deepest(self.writable(), path);
        granted.is_some() && granted > deepest(paths(&self.deny), path)
    }

    /// Layers that keep this policy only in part whatever a driver does, and why.
    pub fn shortfalls(&self) -> Vec<(LayerName, String)> {
        let denials = self.pattern_gap().into_iter().chain(self.link_gap()).chain(self.secrets_gap());
        let denials = denials.map(|gap| (LayerName::MountNs, gap));
        let everything = self.writable().any(|root| root.parent().is_none());
        let temp = (self.session_tmp.is_some() && !everything).then(|| {
            (
                LayerName::Rlimits,
                String::from("the session's private temp lies on disk, without a size limit"),
            )
        });
        denials.chain(temp).collect()
    }

    /// What the expansion of patterns leaves open; `None` without patterns.
    fn pattern_gap(&self) -> Option<String> {
        let what = "denied by pattern is what existed at the start, not what appears later";
        Some(format!("{what}: {}", some_of(&self.deny_patterns)?))
    }

    /// Denied files that other names lead to as well.
    fn link_gap(&self) -> Option<String> {
        let what = "denied files that have other names too, which are not covered";
        Some(format!("{what}: {}", some_of(&self.deny_linked)?))
    }

    /// Secrets that nobody looked for.
    fn secrets_gap(&self) -> Option<String> {
        let what = "secrets of which there are too many to look for";
        Some(format!("{what}: {}", some_of(&self.deny_incomplete)?))
    }

    /// Roots of all that may be written.
    pub fn writable(&self) -> impl Iterator<Item = &Path> {
        let workspace =
            (self.workspace_access == WorkspaceAccess::Write).then_some(self.workspace.path.as_path());
        workspace.into_iter().chain(paths(&self.write))
    }

    /// Roots of all that may be read, besides the system's.
    pub fn readable(&self) -> impl Iterator<Item = &Path> {
        let workspace =
            (self.workspace_access >= WorkspaceAccess::Read).then_some(self.workspace.path.as_path());
        workspace.into_iter().chain(paths(&self.read)).chain(paths(&self.write))
    }
}

/// A request's paths before they were resolved, for messages.
impl From<&ResolvedPolicy> for SandboxCapabilities {
    fn from(policy: &ResolvedPolicy) -> Self {
        let list = |paths: &[ResolvedPath]| paths.iter().map(|path| path.path.clone()).collect();
        Self {
            fs_read: list(&policy.read),
            fs_write: list(&policy.write),
            fs_deny: list(&policy.deny),
            workspace: policy.workspace_access,
            network: match &policy.network {
                Network::None => crate::NetworkPolicy::None,
                Network::AllowHosts { hosts } => crate::NetworkPolicy::AllowHosts {
                    hosts: hosts.iter().map(ToString::to_string).collect(),
                },
                Network::Public { hosts } => {
                    crate::NetworkPolicy::Public { hosts: hosts.iter().map(ToString::to_string).collect() }
                }
                Network::AllowAll => crate::NetworkPolicy::AllowAll,
            },
            deny_hosts: policy.deny_hosts.iter().map(ToString::to_string).collect(),
            internal_hosts: policy.internal_hosts.iter().map(ToString::to_string).collect(),
            loopback_ports: policy.loopback_ports.clone(),
            publish: policy.publish.clone(),
            loopback: policy.loopback,
            spawn_subprocess: policy.spawn,
            unix_sockets: list(&policy.unix_sockets),
            devices: policy.devices.iter().map(|device| device.name.clone()).collect(),
            max_memory_mb: policy.max_memory_mb,
            max_processes: policy.max_processes,
            timeout_secs: policy.timeout_secs,
        }
    }
}

/// The first of these paths and the number of the others; `None` without any.
fn some_of(paths: &[PathBuf]) -> Option<String> {
    const SHOWN: usize = 3;
    let shown = |path: &PathBuf| UnixPath::from(path.as_path()).to_string();
    let mut names: Vec<String> = paths.iter().take(SHOWN).map(shown).collect();
    if paths.len() > SHOWN {
        names.push(format!("{} more", paths.len() - SHOWN));
    }
    (!names.is_empty()).then(|| names.join(", "))
}

fn paths(list: &[ResolvedPath]) -> impl Iterator<Item = &Path> {
    list.iter().map(|path| path.path.as_path())
}

/// Number of components of the deepest of `roots` that covers `path`.
fn deepest<'a>(roots: impl Iterator<Item = &'a Path>, path: &Path) -> Option<usize> {
    roots.filter(|root| path.starts_with(root)).map(|root| root.components().count()).max()
}
