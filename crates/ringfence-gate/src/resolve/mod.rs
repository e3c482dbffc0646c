//! From what a request says to what it means on this host: canonical paths, identities, parsed patterns. All
//! I/O that a policy needs is done here; comparing and planning policies is pure.

mod caches;
mod devices;
mod host;
mod path;
mod patterns;
mod pins;
mod roots;

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use ringfence_types::{
    HostPattern, HostPatternError, Network, NetworkPolicy, Owner, PathKind, Protected, ResolvedPath,
    ResolvedPolicy, SandboxCapabilities, WorkspaceAccess,
};
use rustix::fs::FileType;

pub(crate) use host::Host;
pub(crate) use path::{Found, Resolver, open_path};
use patterns::Expander;
pub use pins::Pins;
pub(crate) use pins::RunEnd;

use crate::config::SessionPolicy;
use crate::protected;

/// Why a request could not be resolved.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// A path is empty.
    #[error("path is empty")]
    Empty,
    /// A path holds `..`, whose meaning depends on the symlinks before it.
    #[error("path {} holds `..`", .0.display())]
    ParentComponent(PathBuf),
    /// A path can't be followed.
    #[error("cannot resolve {}", .path.display())]
    Io {
        /// As asked.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A path leads through a symlink to nowhere, so it would mean whatever is put there later.
    #[error("{} leads through the dangling symlink {}", .path.display(), .symlink.display())]
    DanglingSymlink {
        /// As asked.
        path: PathBuf,
        /// The symlink.
        symlink: PathBuf,
    },
    /// Ringfence's own files are never granted.
    #[error("{} belongs to Ringfence itself and cannot be granted", .0.display())]
    RingfenceHome(PathBuf),
    /// A writable root that more than one project shares.
    #[error("{} is too wide to be a writable root", .0.display())]
    DangerousRoot(PathBuf),
    /// A writable root inside a git directory, whose hooks and configuration would lie open.
    #[error("{} lies in the git directory {} and cannot be a writable root", .root.display(), .git.display())]
    InsideGit {
        /// As resolved.
        root: PathBuf,
        /// The git directory.
        git: PathBuf,
    },
    /// A pattern in a denial that has no meaning.
    #[error("pattern {} has no meaning: {reason}", .path.display())]
    Pattern {
        /// As asked.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A pattern that would cost too much to expand. Denying a part of what it stands for would be worse.
    #[error("pattern {} is too wide: it reaches more than {limit} {what}", .path.display())]
    PatternTooWide {
        /// As asked.
        path: PathBuf,
        /// How many.
        limit: usize,
        /// Of what.
        what: &'static str,
    },
    /// A directory that a pattern reaches can be entered and not listed, so that what it hides can't be found.
    #[error("pattern {} reaches {}, which cannot be listed", .path.display(), .directory.display())]
    PatternUnlistable {
        /// As asked.
        path: PathBuf,
        /// The directory.
        directory: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Not a listening socket's path.
    #[error("{} is not a socket", .0.display())]
    NotASocket(PathBuf),
    /// No device of this name can be granted.
    #[error("unknown device `{0}`, expected one of {names}", names = devices::names())]
    UnknownDevice(String),
    /// The host has no such device.
    #[error("this host has no `{0}` device")]
    NoSuchDevice(String),
    /// A host pattern that means nothing.
    #[error(transparent)]
    Host(#[from] HostPatternError),
    /// The private layer of a cache can't be made.
    #[error("cannot create the cache layer {}", .path.display())]
    Cache {
        /// The directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

impl ResolveError {
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Self::RingfenceHome(_) | Self::DangerousRoot(_) | Self::InsideGit { .. })
    }

    /// What can be done about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::DangerousRoot(_) => Some("choose a project directory, or force it (`--force-root`)"),
            Self::InsideGit { .. } => Some("choose the work tree; git itself can write what it needs there"),
            Self::Pattern { .. } => {
                Some("write it as in `**/*.pem`; `\\` before a character takes it as it is")
            }
            Self::PatternTooWide { .. } => {
                Some("let it begin with a narrower directory, or name the directory")
            }
            Self::PatternUnlistable { .. } => Some("deny that directory by its name"),
            Self::ParentComponent(_) => Some("write the path without `..`"),
            Self::RingfenceHome(_) => Some("choose a directory outside of it"),
            Self::Io { .. } => Some("check the path, and that you may search the directories above it"),
            Self::NotASocket(_) => Some("name the socket itself"),
            Self::UnknownDevice(_) | Self::NoSuchDevice(_) => {
                Some("leave it out, or name a device that this host has")
            }
            Self::DanglingSymlink { .. } => Some("create the symlink's target, or grant that path instead"),
            _ => None,
        }
    }
}

/// The jail root of a session.
#[derive(Debug)]
pub(crate) struct Root {
    /// Canonical path, kind and identity.
    pub(crate) path: ResolvedPath,
    /// Who owns it.
    pub(crate) owner: Option<Owner>,
}

/// A resolved request, and the descriptors of what it grants.
#[derive(Debug)]
pub(crate) struct Resolution {
    pub(crate) policy: ResolvedPolicy,
    pub(crate) pins: Pins,
}

/// What a session gives to each of its requests.
#[derive(Debug)]
pub(crate) struct Inherited<'a> {
    /// As written.
    pub(crate) capabilities: &'a SandboxCapabilities,
    /// As resolved when the session started.
    pub(crate) policy: &'a ResolvedPolicy,
}

/// Resolves `request` for a session whose jail root is `root`.
///
/// What a request leaves unsaid it inherits: every denial of the baseline but those of paths that the request
/// names itself (they then count as asked for), and limits. The working directory is the root for now.
pub(crate) fn resolve(
    host: &Host,
    root: &Root,
    session: &SessionPolicy,
    request: &SandboxCapabilities,
    inherited: Option<&Inherited<'_>>,
) -> Result<Resolution, ResolveError> {
    let resolver = Resolver::new(&root.path.path);
    let mut grants =
        Grants { host, root: &root.path.path, resolver: &resolver, pins: Pins::new(&host.budget) };
    let read = grants.list(&request.fs_read, |_| Ok(()))?;
    let mut asked = request.fs_write.clone();
    let mut repositories = Vec::new();
    if request.workspace == WorkspaceAccess::Write {
        // Whoever may write a linked work tree may write its repository, or git could do nothing there.
        repositories = protected::common_dir_grants(&root.path.path);
        asked.extend(repositories.iter().cloned());
    }
    let check = |path: &Path| {
        if !session.force_root && roots::is_dangerous(path, &host.user_homes) {
            return Err(ResolveError::DangerousRoot(path.to_path_buf()));
        }
        match protected::git_dir_around(path).filter(|_| !repositories.iter().any(|own| own == path)) {
            Some(git) => Err(ResolveError::InsideGit { root: path.to_path_buf(), git }),
            None => Ok(()),
        }
    };
    let write = grants.list(&asked, |found| check(&found.path.path))?;
    let unix_sockets = grants.list(&request.unix_sockets, |found| match found.file_type {
        Some(FileType::Socket) => Ok(()),
        _ => Err(ResolveError::NotASocket(found.path.path.clone())),
    })?;
    if request.workspace == WorkspaceAccess::Write {
        check(&root.path.path)?;
    }

    let named: HashSet<&Path> =
        read.iter().chain(&write).chain(&unix_sockets).map(|path| path.path.as_path()).collect();
    let Denials { deny, patterns, linked } = denials(host, &resolver, request, inherited, &named)?;
    let mut devices = request
        .devices
        .iter()
        .map(|name| devices::grant(Path::new("/dev"), name))
        .collect::<Result<Vec<_>, _>>()?;
    devices.sort_by(|a, b| a.name.cmp(&b.name));
    devices.dedup();

    let limit = |own: Option<u64>, of: fn(&ResolvedPolicy) -> Option<u64>| {
        own.or(inherited.and_then(|i| of(i.policy)))
    };
    let mut policy = ResolvedPolicy {
        workspace: root.path.clone(),
        workspace_owner: root.owner,
        workspace_access: request.workspace,
        cwd: root.path.clone(),
        read,
        write,
        deny,
        deny_patterns: patterns,
        deny_linked: linked,
        deny_incomplete: session.deny_incomplete.clone(),
        network: network(&request.network)?,
        deny_hosts: deny_hosts(request, inherited)?,
        internal_hosts: internal_hosts(request)?,
        loopback_ports: set(request.loopback_ports.clone()),
        publish: set(request.publish.clone()),
        loopback: request.loopback,
        spawn: request.spawn_subprocess,
        unix_sockets,
        devices,
        max_memory_mb: limit(request.max_memory_mb, |policy| policy.max_memory_mb),
        max_processes: limit(request.max_processes, |policy| policy.max_processes),
        timeout_secs: limit(request.timeout_secs, |policy| policy.timeout_secs),
        private_home: session.private_home.clone(),
        host_tmpdir: host.tmpdir.clone(),
        session_tmp: None,
        caches: caches::prepare(host, root, &resolver, &session.caches)?,
        protected: Protected::default(),
        rlimits: session.rlimits,
        proxy: session.proxy,
        linux: session.linux.clone(),
    };
    policy.protected = host.own_files(&policy, &resolver);
    Ok(Resolution { policy, pins: grants.pins })
}

struct Grants<'a> {
    host: &'a Host,
    root: &'a Path,
    resolver: &'a Resolver<'a>,
    pins: Pins,
}

impl Grants<'_> {
    /// Resolves a list of grants: sorted, without duplicates.
    fn list(
        &mut self,
        paths: &[PathBuf],
        check: impl Fn(&Found) -> Result<(), ResolveError>,
    ) -> Result<Vec<ResolvedPath>, ResolveError> {
        let mut list = Vec::with_capacity(paths.len());
        for path in paths {
            let mut found = self.resolver.grant(path)?;
            if self.host.owns(&found.path.path) && !found.path.path.starts_with(self.root) {
                return Err(ResolveError::RingfenceHome(found.path.path));
            }
            check(&found)?;
            if let Some(fd) = found.fd.take() {
                self.pins.hold(fd);
            }
            list.push(found.path);
        }
        Ok(sorted(list))
    }
}

/// What is denied, the patterns among what was asked for, and what that leaves open.
struct Denials {
    deny: Vec<ResolvedPath>,
    patterns: Vec<PathBuf>,
    /// Denied files that have further names.
    linked: Vec<PathBuf>,
}

fn denials(
    host: &Host,
    resolver: &Resolver<'_>,
    request: &SandboxCapabilities,
    inherited: Option<&Inherited<'_>>,
    named: &HashSet<&Path>,
) -> Result<Denials, ResolveError> {
    let grants = named.iter().copied().chain([resolver.base]);
    let mut expander = Expander::new(resolver, &host.home, grants);
    let mut deny = expander.resolve(&request.fs_deny)?;
    if let Some(Inherited { capabilities, policy }) = inherited {
        // A symlink that is re-pointed during the session takes its old target along as denied, and a pattern
        // what it has stood for.
        let asked: HashSet<&PathBuf> = request.fs_deny.iter().collect();
        let now = expander.resolve(capabilities.fs_deny.iter().filter(|path| !asked.contains(path)))?;
        let known: HashSet<&Path> = deny.iter().chain(&now).map(|path| path.path.as_path()).collect();
        let frozen = policy.deny.iter().map(|path| &path.path).filter(|path| !known.contains(path.as_path()));
        let then = frozen.map(|path| resolver.denial(path)).collect::<Result<Vec<_>, _>>()?;
        deny.extend(now.into_iter().chain(then).filter(|path| !named.contains(path.path.as_path())));
    }
    deny.push(ResolvedPath { path: host.home.clone(), kind: PathKind::Directory, id: None });
    let deny = sorted(deny);
    let mut linked = set(resolver.take_linked());
    linked.retain(|path| deny.binary_search_by(|denied| denied.path.cmp(path)).is_ok());
    Ok(Denials { deny, patterns: expander.patterns(), linked })
}

fn sorted(mut list: Vec<ResolvedPath>) -> Vec<ResolvedPath> {
    list.sort();
    list.dedup_by(|a, b| a.path == b.path);
    list
}

fn network(policy: &NetworkPolicy) -> Result<Network, HostPatternError> {
    match policy {
        NetworkPolicy::None => Ok(Network::None),
        NetworkPolicy::AllowAll => Ok(Network::AllowAll),
        NetworkPolicy::AllowHosts { hosts } => {
            let hosts = patterns(hosts)?;
            Ok(if hosts.is_empty() { Network::None } else { Network::AllowHosts { hosts } })
        }
        NetworkPolicy::Public { hosts } => Ok(Network::Public { hosts: patterns(hosts)? }),
    }
}

fn patterns(texts: &[String]) -> Result<Vec<HostPattern>, HostPatternError> {
    Ok(set(texts.iter().map(|text| text.parse()).collect::<Result<Vec<_>, _>>()?))
}

fn internal_hosts(request: &SandboxCapabilities) -> Result<Vec<HostPattern>, HostPatternError> {
    patterns(&request.internal_hosts)
}

/// Denied hosts, those of the session included: a request can't lift them.
fn deny_hosts(
    request: &SandboxCapabilities,
    inherited: Option<&Inherited<'_>>,
) -> Result<Vec<HostPattern>, HostPatternError> {
    let mut denied = patterns(&request.deny_hosts)?;
    denied.extend(inherited.iter().flat_map(|inherited| inherited.policy.deny_hosts.iter().cloned()));
    Ok(set(denied))
}

fn set<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort();
    list.dedup();
    list
}
