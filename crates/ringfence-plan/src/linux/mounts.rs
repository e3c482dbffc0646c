//! The mount plan: which parts of the host the box sees, and how.
//!
//! Order: base with `/dev` and `/proc`, private directories, then every grant, denial, protected path and pin from shallow to
//! deep, so that the deepest rule decides; at equal depth a denial wins. A mount point that does not exist is
//! made only inside a private tmpfs, never on the host.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ringfence_types::{
    CacheMount, FileId, Network, PathKind, ResolvedPath, ResolvedPolicy, UnixPath, WorkspaceAccess,
};

use super::facts::{LinuxFacts, RootEntry};
use super::groundwork::{DEV_SIZE, PRIVATE, first_mounts};
use super::network::{NSSWITCH_CONF, RESOLV_CONF};
use super::plan::writes_everything;
use super::{Access, MountOp, PASSAGE};
use crate::ProfileError;

/// The host name inside is `ringfence`.
const HOSTS: &str = "127.0.0.1\tlocalhost ringfence\n::1\tlocalhost ip6-localhost ip6-loopback\n";
/// What is done at a path. The order decides between entries of one path: the last one counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rule {
    Pin { symlink: bool, id: Option<Box<FileId>> },
    Read(Source),
    Write(Source),
    Cache { id: Option<Box<FileId>>, upper: UnixPath, work: UnixPath },
    Protected { symlink: bool, source: Source },
    Deny { directory: bool, may_be_gone: bool },
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Source {
    id: Option<Box<FileId>>,
    directory: bool,
}

impl Source {
    fn of(path: &ResolvedPath) -> Self {
        Self { id: path.id.clone(), directory: path.kind == PathKind::Directory }
    }
}

/// What a path shows once the plan has run up to a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    Read,
    Write,
    /// A tmpfs of ours: mount points can be made, and nothing of the host shows.
    Private,
}

pub(super) struct Mounts<'a> {
    policy: &'a ResolvedPolicy,
    facts: &'a LinuxFacts,
    rules: BTreeMap<UnixPath, Rule>,
    /// Directories that have to become mount points, whatever else is done there.
    pinned: BTreeSet<UnixPath>,
    views: BTreeMap<UnixPath, View>,
    made: BTreeSet<UnixPath>,
    ops: Vec<MountOp>,
    seal: Vec<UnixPath>,
}

impl<'a> Mounts<'a> {
    pub(super) fn plan(
        policy: &'a ResolvedPolicy,
        facts: &'a LinuxFacts,
    ) -> Result<Vec<MountOp>, ProfileError> {
        let mut mounts = Self {
            policy,
            facts,
            rules: BTreeMap::new(),
            pinned: BTreeSet::new(),
            views: BTreeMap::new(),
            made: BTreeSet::new(),
            ops: Vec::new(),
            seal: Vec::new(),
        };
        mounts.base();
        if !writes_everything(policy) {
            mounts.private_directories();
            mounts.system_roots(true);
            mounts.devices();
        }
        mounts.collect()?;
        mounts.pin_ancestors();
        mounts.place();
        mounts.network_files();
        mounts.finish();
        Ok(mounts.ops)
    }

    /// The whole disk where `/` is granted, else an empty tmpfs with the system's read roots; in it a `/dev` and a
    /// `/proc` of the box's own.
    fn base(&mut self) {
        let root = UnixPath::from("/");
        let linux = &self.policy.linux;
        if writes_everything(self.policy) {
            self.ops.push(MountOp::HostTree { access: Access::ReadWrite });
            self.views.insert(root, View::Write);
            // Binding the host's own again gives it back its devices, which the base has not.
            let dev = UnixPath::from("/dev");
            self.bind(&dev, None, Access::ReadWrite, true);
            self.views.insert(dev, View::Write);
            self.ops.push(MountOp::Proc { at: "/proc".into(), user_namespaces: linux.nested_userns });
            return;
        }
        let shows_the_disk = self.policy.may_read(Path::new("/"));
        self.ops = first_mounts(shows_the_disk, linux);
        self.views.insert(root.clone(), if shows_the_disk { View::Read } else { View::Private });
        self.views.insert("/dev".into(), View::Private);
        self.views.insert("/dev/shm".into(), View::Private);
        if !shows_the_disk {
            self.made.extend(["/dev".into(), "/proc".into()]);
            self.seal.push(root);
            self.system_roots(false);
            if self.present("/sys") {
                let at = UnixPath::from("/sys");
                self.mount_point(&at, true);
                self.bind(&at, None, Access::ReadOnly, false);
                self.views.insert(at, View::Read);
            }
        }
        self.seal.push("/dev".into());
    }

    /// What every program needs of the host: first what lies elsewhere, then what lies `in_private` directories, which
    /// hide it from the view of the whole disk too.
    fn system_roots(&mut self, in_private: bool) {
        for entry in &self.facts.system {
            let (RootEntry::Directory(path) | RootEntry::Symlink { path, .. }) = entry;
            let is_hidden = PRIVATE.iter().any(|(own, _)| path.starts_with(own));
            let is_shown = in_private && self.view(&path.as_path().into()) != View::Private;
            if is_hidden != in_private || is_shown {
                continue;
            }
            match entry {
                RootEntry::Directory(path) => {
                    let at = UnixPath::from(path.as_path());
                    self.mount_point(&at, true);
                    self.bind(&at, None, Access::ReadOnly, false);
                    self.views.insert(at, View::Read);
                }
                RootEntry::Symlink { path, target } => {
                    self.parents(&path.as_path().into());
                    self.ops.push(MountOp::Symlink {
                        at: path.as_path().into(),
                        target: target.as_path().into(),
                    });
                }
            }
        }
    }

    /// Before any root, or a workspace below `/tmp` would disappear.
    fn private_directories(&mut self) {
        let size = self.policy.linux.tmp_size;
        if self.present("/tmp") {
            let at = UnixPath::from("/tmp");
            self.mount_point(&at, true);
            match &self.policy.session_tmp {
                Some(path) => self.ops.push(MountOp::Bind {
                    from: path.as_path().into(),
                    at: at.clone(),
                    id: None,
                    access: Access::ReadWrite,
                    devices: false,
                }),
                None => self.ops.push(MountOp::Tmpfs { at: at.clone(), mode: 0o1777, size }),
            }
            self.views.insert(at, View::Private);
        }
        if self.present("/run") {
            self.tmpfs("/run".into(), 0o755, size);
        }
        if let Some(at) = self.policy.host_tmpdir.as_deref() {
            let inside_a_root = self.policy.writable().any(|root| at.starts_with(root));
            let at = UnixPath::from(at);
            if !inside_a_root && at.depth() > 0 && self.view(&at) != View::Private {
                self.tmpfs(at, 0o1777, size);
            }
        }
        if let Some(home) = self.policy.private_home.as_deref() {
            self.tmpfs(home.into(), 0o700, size);
        }
    }

    /// The nodes that were granted by name.
    fn devices(&mut self) {
        for grant in &self.policy.devices {
            for node in &grant.nodes {
                let at = UnixPath::from(node.as_path());
                self.mount_point(&at, false);
                self.bind(&at, None, Access::ReadOnly, true);
            }
        }
    }

    /// Brings the policy's paths into one table by path.
    fn collect(&mut self) -> Result<(), ProfileError> {
        let policy = self.policy;
        let workspace = std::slice::from_ref(&policy.workspace);
        let (reads, writes): (&[ResolvedPath], &[ResolvedPath]) = match policy.workspace_access {
            WorkspaceAccess::None => (&[], &[]),
            WorkspaceAccess::Read => (workspace, &[]),
            WorkspaceAccess::Write => (&[], workspace),
        };
        let rules = policy.rules();
        // A read grant inside a writable tree takes nothing away.
        for path in policy.read.iter().chain(reads).filter(|path| !rules.may_write(&path.path)) {
            self.grant(path, Rule::Read)?;
        }
        for path in policy.write.iter().chain(writes) {
            self.grant(path, Rule::Write)?;
        }
        for path in &policy.unix_sockets {
            self.grant(path, Rule::Write)?;
        }
        for CacheMount { at, upper, work, .. } in &policy.caches {
            if at.kind == PathKind::Directory {
                let (upper, work) = (upper.as_path().into(), work.as_path().into());
                let rule = Rule::Cache { id: at.id.clone(), upper, work };
                self.rule(&at.path, rule);
            }
        }
        for pin in &policy.protected.pins {
            self.rule(&pin.path, Rule::Pin { symlink: pin.kind == PathKind::Symlink, id: pin.id.clone() });
        }
        for path in &policy.protected.read_only {
            if path.kind != PathKind::Missing {
                let symlink = path.kind == PathKind::Symlink;
                self.rule(&path.path, Rule::Protected { symlink, source: Source::of(path) });
            }
        }
        let granted = |socket: &Path| policy.unix_sockets.iter().any(|path| path.path == socket);
        for socket in self.facts.sockets.iter().filter(|socket| !granted(socket)) {
            if !writes_everything(policy) {
                self.rule(socket, Rule::Deny { directory: false, may_be_gone: true });
            }
        }
        for path in &policy.deny {
            if path.kind != PathKind::Missing {
                let directory = path.kind == PathKind::Directory;
                self.rule(&path.path, Rule::Deny { directory, may_be_gone: false });
            }
        }
        Ok(())
    }

    fn grant(&mut self, path: &ResolvedPath, rule: fn(Source) -> Rule) -> Result<(), ProfileError> {
        if path.kind == PathKind::Missing {
            let below_a_root =
                self.policy.writable().any(|root| path.path.starts_with(root) && root != path.path);
            return if below_a_root { Ok(()) } else { Err(ProfileError::MissingGrant(path.path.clone())) };
        }
        let source = Source { id: path.id.clone(), directory: path.kind == PathKind::Directory };
        self.rule(&path.path, rule(source));
        Ok(())
    }

    /// The strongest rule of a path stays; of two denials, the one that must be there.
    fn rule(&mut self, path: &Path, rule: Rule) {
        let path = UnixPath::from(path);
        if path.depth() == 0 {
            return;
        }
        let known = self.rules.entry(path).or_insert_with(|| rule.clone());
        let must_be_there = matches!(rule, Rule::Deny { may_be_gone: false, .. });
        if *known < rule || must_be_there {
            *known = rule;
        }
    }

    /// What the rules alone, without the base, make of a path; `None` where none covers it.
    fn ruled(&self, path: &UnixPath) -> Option<View> {
        path.ancestors().find_map(|at| match self.rules.get(at)? {
            Rule::Read(_) | Rule::Protected { .. } => Some(View::Read),
            Rule::Write(_) | Rule::Cache { .. } => Some(View::Write),
            Rule::Deny { .. } => Some(View::Private),
            Rule::Pin { .. } => None,
        })
    }

    /// Every directory between a writable root and a path that is taken away becomes a mount point, so that it
    /// can't be renamed and another put in its place (rename(2) and rmdir(2) give EBUSY).
    fn pin_ancestors(&mut self) {
        let full = writes_everything(self.policy);
        let restricted: Vec<UnixPath> = self
            .rules
            .iter()
            .filter(|(_, rule)| matches!(rule, Rule::Deny { .. } | Rule::Protected { .. }))
            .map(|(path, _)| path.clone())
            .collect();
        for path in restricted {
            let mut at = path.parent();
            while let Some(ancestor) = at {
                let writable = match self.ruled(&ancestor) {
                    Some(view) => view == View::Write,
                    None => full,
                };
                if !writable || ancestor.depth() == 0 {
                    break;
                }
                at = ancestor.parent();
                self.rules.entry(ancestor.clone()).or_insert(Rule::Pin { symlink: false, id: None });
                self.pinned.insert(ancestor);
            }
        }
    }

    /// Emits the table from shallow to deep.
    fn place(&mut self) {
        let mut rules: Vec<_> = std::mem::take(&mut self.rules).into_iter().collect();
        let reopened: BTreeSet<UnixPath> = rules
            .iter()
            .filter(|(_, rule)| matches!(rule, Rule::Read(_) | Rule::Write(_) | Rule::Cache { .. }))
            .flat_map(|(path, _)| path.ancestors().skip(1).map(UnixPath::new))
            .collect();
        rules.sort_by_cached_key(|(path, _)| path.depth());
        for (at, rule) in rules {
            let view = self.view(&at);
            match rule {
                Rule::Read(source) => {
                    if view == View::Private {
                        self.place_bind(at, source, Access::ReadOnly);
                    }
                }
                Rule::Write(source) => {
                    if view != View::Write {
                        self.place_bind(at, source, Access::ReadWrite);
                    } else if self.pinned.contains(&at) {
                        self.ops.push(MountOp::Pin { at, id: source.id, symlink: false, read_only: false });
                    }
                }
                Rule::Cache { id, upper, work } => {
                    if view == View::Read {
                        self.ops.push(MountOp::Overlay {
                            lower: at.clone(),
                            id,
                            upper,
                            work,
                            at: at.clone(),
                        });
                        self.views.insert(at, View::Write);
                    } else if self.pinned.contains(&at) {
                        self.ops.push(MountOp::Pin { at, id, symlink: false, read_only: false });
                    }
                }
                Rule::Pin { symlink, id } => {
                    if view == View::Write {
                        self.ops.push(MountOp::Pin { at, id, symlink, read_only: false });
                    }
                }
                Rule::Protected { symlink, source } => {
                    if view == View::Write {
                        self.ops.push(MountOp::Pin {
                            at: at.clone(),
                            id: source.id,
                            symlink,
                            read_only: true,
                        });
                        self.views.insert(at, View::Read);
                    } else if view == View::Private && self.granted(&at) {
                        self.place_bind(at, source, Access::ReadOnly);
                    }
                }
                Rule::Deny { directory, may_be_gone } => {
                    if view == View::Private {
                        continue;
                    }
                    if directory && reopened.contains(&at) {
                        self.ops.push(MountOp::Tmpfs { at: at.clone(), mode: PASSAGE, size: DEV_SIZE });
                        self.seal.push(at.clone());
                    } else {
                        self.ops.push(MountOp::Mask { at: at.clone(), directory, may_be_gone });
                    }
                    self.views.insert(at, View::Private);
                }
            }
        }
    }

    /// Whether the path is itself a root of the policy.
    fn granted(&self, at: &UnixPath) -> bool {
        self.policy.readable().any(|root| UnixPath::from(root) == *at)
    }

    fn place_bind(&mut self, at: UnixPath, source: Source, access: Access) {
        self.mount_point(&at, source.directory);
        self.ops.push(MountOp::Bind {
            from: at.clone(),
            at: at.clone(),
            id: source.id,
            access,
            devices: false,
        });
        // The new mount hides whatever was mounted below its place.
        let below = at.join("");
        let hidden: Vec<_> = self
            .views
            .range(below.clone()..)
            .map(|(known, _)| known.clone())
            .take_while(|known| known.as_bytes().starts_with(below.as_bytes()))
            .collect();
        for path in hidden {
            self.views.remove(&path);
        }
        self.views.insert(at, if access == Access::ReadOnly { View::Read } else { View::Write });
    }

    /// Names resolve inside as they should: the box's own hosts, and the host's resolver if it is reachable.
    fn network_files(&mut self) {
        if self.policy.network != Network::AllowAll {
            let hosts = self.facts.hosts_file.as_deref().map(UnixPath::from);
            // Where it is granted or denied, that counts.
            if let Some(at) = hosts.filter(|at| self.view(at) == View::Read) {
                self.ops.push(MountOp::Cover { at, content: HOSTS.to_owned() });
            }
            if self.policy.network.is_by_host() {
                self.cover(self.facts.resolv_conf.as_deref(), RESOLV_CONF);
                self.cover(self.facts.nsswitch.as_deref(), NSSWITCH_CONF);
            }
        } else if let Some(path) = &self.facts.resolv_conf {
            let at = UnixPath::from(path.as_path());
            if self.view(&at) == View::Private && !self.is_denied(path) {
                self.mount_point(&at, false);
                self.bind(&at, None, Access::ReadOnly, false);
            }
        }
    }

    /// Puts content of ours in the place of a file of the host's, also where that does not show, unless it is denied.
    fn cover(&mut self, file: Option<&Path>, content: &str) {
        let Some(file) = file.filter(|file| !self.is_denied(file)) else { return };
        let at = UnixPath::from(file);
        self.mount_point(&at, false);
        self.ops.push(MountOp::Cover { at, content: content.to_owned() });
    }

    /// Whether a denial decides about the path.
    fn is_denied(&self, path: &Path) -> bool {
        self.policy.deny.iter().any(|deny| path.starts_with(&deny.path)) && !self.policy.may_read(path)
    }

    fn finish(&mut self) {
        let seals = std::mem::take(&mut self.seal);
        self.ops.extend(seals.into_iter().rev().map(|at| MountOp::Seal { at }));
    }

    fn present(&self, path: &str) -> bool {
        self.facts.present.iter().any(|known| known == Path::new(path))
    }

    /// What shows at `path`: the view of the nearest mount above it.
    fn view(&self, path: &UnixPath) -> View {
        path.ancestors().find_map(|at| self.views.get(at).copied()).unwrap_or(View::Private)
    }

    fn tmpfs(&mut self, at: UnixPath, mode: u32, size: u64) {
        self.mount_point(&at, true);
        self.ops.push(MountOp::Tmpfs { at: at.clone(), mode, size });
        self.views.insert(at, View::Private);
    }

    fn bind(&mut self, at: &UnixPath, id: Option<Box<FileId>>, access: Access, devices: bool) {
        self.ops.push(MountOp::Bind { from: at.clone(), at: at.clone(), id, access, devices });
    }

    /// Makes the mount point and the directories above it where they lie in a private tmpfs; elsewhere they
    /// exist on the host, or the mount fails.
    fn mount_point(&mut self, at: &UnixPath, directory: bool) {
        if self.view(at) != View::Private || self.views.contains_key(at) {
            return;
        }
        self.parents(at);
        if self.made.insert(at.clone()) {
            self.ops.push(match directory {
                true => MountOp::Directory { at: at.clone(), mode: 0o755 },
                false => MountOp::MountPoint { at: at.clone() },
            });
        }
    }

    fn parents(&mut self, at: &UnixPath) {
        let missing: Vec<&[u8]> = at
            .ancestors()
            .skip(1)
            .take_while(|parent| !self.views.contains_key(*parent) && !self.made.contains(*parent))
            .collect();
        for parent in missing.into_iter().rev().map(UnixPath::new) {
            self.made.insert(parent.clone());
            self.ops.push(MountOp::Directory { at: parent, mode: 0o755 });
        }
    }
}
