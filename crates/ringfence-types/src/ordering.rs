use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{HostPattern, Network, Publish, ResolvedPath, ResolvedPolicy, UnixPath, WorkspaceAccess};

/// What the rules of a policy make of one path, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathAccess {
    /// Denied, also where system files are readable.
    Denied,
    /// No rule covers it: readable if it is one of the system's files, else not there.
    Unruled,
    /// Granted.
    Readable,
}

/// The file rules of one policy, indexed by path: a look-up costs a path's depth, not the number of rules.
///
/// The deepest rule that covers a path decides; at equal depth a denial wins. A read grant inside a writable
/// tree takes nothing away.
#[derive(Debug)]
pub struct PathRules<'a> {
    rules: HashMap<&'a Path, Rule>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Rule {
    read: bool,
    write: bool,
    deny: bool,
}

impl<'a> PathRules<'a> {
    fn new(policy: &'a ResolvedPolicy) -> Self {
        let mut rules: HashMap<&Path, Rule> = HashMap::new();
        for path in policy.readable() {
            rules.entry(path).or_default().read = true;
        }
        for path in policy.writable() {
            rules.entry(path).or_default().write = true;
        }
        for path in &policy.deny {
            rules.entry(&path.path).or_default().deny = true;
        }
        Self { rules }
    }

    /// Whether `path` is denied or granted, and whether it may be written.
    pub fn access(&self, path: &Path) -> (PathAccess, bool) {
        let mut access = None;
        for ancestor in path.ancestors() {
            let Some(rule) = self.rules.get(ancestor) else { continue };
            if rule.deny {
                return (access.unwrap_or(PathAccess::Denied), false);
            }
            if rule.write {
                return (PathAccess::Readable, true);
            }
            if rule.read {
                access = Some(PathAccess::Readable);
            }
        }
        (access.unwrap_or(PathAccess::Unruled), false)
    }

    /// Whether `path` is granted.
    pub fn may_read(&self, path: &Path) -> bool {
        self.access(path).0 == PathAccess::Readable
    }

    /// Whether `path` is granted for writing.
    pub fn may_write(&self, path: &Path) -> bool {
        self.access(path).1
    }
}

/// One thing that a request asks for beyond a baseline.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", content = "what", rename_all = "snake_case")]
pub enum Excess {
    /// Another jail root: the two policies can't be compared.
    OtherWorkspace(UnixPath),
    /// More access to the workspace.
    Workspace(WorkspaceAccess),
    /// Reading this tree or file.
    Read(UnixPath),
    /// Writing this tree or file.
    Write(UnixPath),
    /// This denial is not kept.
    Undenied(UnixPath),
    /// Reaching these hosts.
    Host(HostPattern),
    /// Reaching every public address.
    PublicNetwork,
    /// The host's network as it is.
    AllNetwork,
    /// This denial of hosts is not kept.
    UndeniedHost(HostPattern),
    /// Reaching these hosts at addresses that are not public.
    InternalHost(HostPattern),
    /// Connecting to this port of the host's loopback.
    LoopbackPort(u16),
    /// Being reached through this port of the host.
    Publish(Publish),
    /// Sockets on the box's own loopback.
    Loopback,
    /// Starting processes.
    Spawn,
    /// Connecting to this Unix socket.
    UnixSocket(UnixPath),
    /// This device.
    Device(String),
    /// So much memory in MiB; `None` is unlimited.
    Memory(Option<u64>),
    /// So many processes; `None` is unlimited.
    Processes(Option<u64>),
    /// So many seconds; `None` is unlimited.
    Timeout(Option<u64>),
    /// So many open files of each process; `None` is the caller's limit.
    OpenFiles(Option<u64>),
    /// Files of so many bytes; `None` is the caller's limit.
    FileSize(Option<u64>),
    /// TLS connections whose server name is not the host that was allowed.
    ServerNames,
    /// So many connections through the proxy at one time.
    Connections(u32),
    /// Namespaces of its own.
    NestedUserns,
    /// 32-bit programs.
    I386,
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = |f: &mut fmt::Formatter<'_>, what: &str, value: &Option<u64>, unit: &str| match value {
            Some(value) => write!(f, "{what} up to {value}{unit}"),
            None => write!(f, "{what} without limit"),
        };
        match self {
            Self::OtherWorkspace(path) => write!(f, "workspace {path}"),
            Self::Workspace(WorkspaceAccess::Write) => f.write_str("write the workspace"),
            Self::Workspace(_) => f.write_str("read the workspace"),
            Self::Read(path) => write!(f, "read {path}"),
            Self::Write(path) => write!(f, "read and write {path}"),
            Self::Undenied(path) => write!(f, "lift the denial of {path}"),
            Self::Host(host) => write!(f, "connect to {host}"),
            Self::PublicNetwork => f.write_str("connect to every public address"),
            Self::AllNetwork => f.write_str("the host's whole network"),
            Self::UndeniedHost(host) => write!(f, "lift the denial of {host}"),
            Self::InternalHost(host) => write!(f, "connect to {host} at an address that is not public"),
            Self::LoopbackPort(port) => write!(f, "connect to port {port} of the host"),
            Self::Publish(publish) => write!(f, "be reached at {publish}"),
            Self::Loopback => f.write_str("sockets on its own loopback"),
            Self::Spawn => f.write_str("start processes"),
            Self::UnixSocket(path) => write!(f, "connect to the socket {path}"),
            Self::Device(name) => write!(f, "use the device {name}"),
            Self::Memory(value) => limit(f, "memory", value, " MiB"),
            Self::Processes(value) => limit(f, "processes", value, ""),
            Self::Timeout(value) => limit(f, "run", value, " s"),
            Self::OpenFiles(value) => limit(f, "open files", value, ""),
            Self::FileSize(value) => limit(f, "files", value, " bytes"),
            Self::ServerNames => f.write_str("use TLS server names of other hosts"),
            Self::Connections(count) => write!(f, "{count} connections at one time"),
            Self::NestedUserns => f.write_str("create namespaces of its own"),
            Self::I386 => f.write_str("run 32-bit programs"),
        }
    }
}

impl ResolvedPolicy {
    /// The file rules, indexed.
    pub fn rules(&self) -> PathRules<'_> {
        PathRules::new(self)
    }

    /// Whether everything that `self` allows is allowed by `baseline`, and every denial of `baseline` is kept.
    ///
    /// The conjunction of the monotonic checks of [`Self::beyond`], hence a partial order on policies that
    /// differ only in spelling (see the property tests).
    pub fn is_within(&self, baseline: &Self) -> bool {
        self.beyond(baseline).is_empty()
    }

    /// What `self` allows beyond `baseline`, sorted; empty if it is within.
    ///
    /// Files are compared by what the rules make of each path: denied, unruled (the system's files remain
    /// readable), granted. That can change only where a rule of either policy lies, so those paths are all that
    /// has to be looked at. Pure: both policies hold canonical paths.
    pub fn beyond(&self, baseline: &Self) -> Vec<Excess> {
        let mut excess = BTreeSet::new();
        if self.workspace.path != baseline.workspace.path {
            excess.insert(Excess::OtherWorkspace(shown(&self.workspace.path)));
        }
        if self.workspace_access > baseline.workspace_access {
            excess.insert(Excess::Workspace(self.workspace_access));
        }
        self.files_beyond(baseline, &mut excess);
        self.network.beyond(&baseline.network, &mut excess);
        if self.network.reaches_anything() {
            let kept = |denied: &HostPattern| self.deny_hosts.iter().any(|own| own.covers_denial(denied));
            let lifted = baseline.deny_hosts.iter().filter(|denied| !kept(denied));
            excess.extend(lifted.cloned().map(Excess::UndeniedHost));
            if baseline.network != Network::AllowAll {
                let (own, base) = (self.proxy, baseline.proxy);
                excess.extend((own.sni > base.sni).then_some(Excess::ServerNames));
                let more = own.max_connections > base.max_connections;
                excess.extend(more.then_some(Excess::Connections(own.max_connections)));
            }
        }
        if self.network.is_by_host() && baseline.network != Network::AllowAll {
            let known = |host: &&HostPattern| baseline.internal_hosts.iter().any(|base| base.covers(host));
            let internal = self.internal_hosts.iter().filter(|host| !known(host));
            excess.extend(internal.cloned().map(Excess::InternalHost));
        }
        let ports = self.loopback_ports.iter().filter(|port| !baseline.loopback_ports.contains(port));
        excess.extend(ports.copied().map(Excess::LoopbackPort));
        let published = self.publish.iter().filter(|own| !baseline.publish.contains(own));
        excess.extend(published.copied().map(Excess::Publish));
        for socket in beyond_list(&self.unix_sockets, &baseline.unix_sockets) {
            excess.insert(Excess::UnixSocket(shown(socket)));
        }
        let devices =
            |device: &&crate::DeviceGrant| baseline.devices.iter().all(|base| base.name != device.name);
        excess.extend(self.devices.iter().filter(devices).map(|device| Excess::Device(device.name.clone())));

        let flags = [
            (self.loopback, baseline.loopback, Excess::Loopback),
            (self.spawn, baseline.spawn, Excess::Spawn),
            (self.linux.nested_userns, baseline.linux.nested_userns, Excess::NestedUserns),
            (self.linux.allow_i386, baseline.linux.allow_i386, Excess::I386),
        ];
        excess.extend(flags.into_iter().filter(|(own, base, _)| own > base).map(|(.., excess)| excess));

        let (own, base) = (&self.rlimits, &baseline.rlimits);
        let mut limit = |own: Option<u64>, base: Option<u64>, named: fn(Option<u64>) -> Excess| {
            if !limit_within(own, base) {
                excess.insert(named(own));
            }
        };
        limit(self.max_memory_mb, baseline.max_memory_mb, Excess::Memory);
        limit(self.max_processes, baseline.max_processes, Excess::Processes);
        limit(self.timeout_secs, baseline.timeout_secs, Excess::Timeout);
        limit(own.open_files, base.open_files, Excess::OpenFiles);
        limit(own.file_size, base.file_size, Excess::FileSize);
        excess.into_iter().collect()
    }

    fn files_beyond(&self, baseline: &Self, excess: &mut BTreeSet<Excess>) {
        if self.read == baseline.read
            && self.write == baseline.write
            && self.deny == baseline.deny
            && self.workspace_access <= baseline.workspace_access
        {
            return;
        }
        let (own, base) = (self.rules(), baseline.rules());
        for path in own.rules.keys().chain(base.rules.keys()) {
            let ((access, writes), (base_access, base_writes)) = (own.access(path), base.access(path));
            if access <= base_access && writes <= base_writes {
                continue;
            }
            let named = own.rules.get(path).is_some_and(|rule| rule.read);
            let lifts_denial = !named && base.rules.get(path).is_some_and(|rule| rule.deny);
            excess.insert(match () {
                () if lifts_denial || access == PathAccess::Unruled => Excess::Undenied(shown(path)),
                () if *path == self.workspace.path => Excess::Workspace(self.workspace_access),
                () if writes && !base_writes => Excess::Write(shown(path)),
                () => Excess::Read(shown(path)),
            });
        }
    }
}

impl Network {
    /// `None` ⊆ `AllowHosts` ⊆ `AllowAll`, `None` ⊆ `Public` ⊆ `AllowAll`; host lists by pattern subsumption. Every
    /// pattern of names is within `Public`: a name leads to public addresses only, unless those are listed too. One
    /// of addresses is not, as it may mean others.
    pub fn is_within(&self, baseline: &Self) -> bool {
        let mut excess = BTreeSet::new();
        self.beyond(baseline, &mut excess);
        excess.is_empty()
    }

    fn beyond(&self, baseline: &Self, excess: &mut BTreeSet<Excess>) {
        let (known, public) = match baseline {
            Self::AllowAll => return,
            Self::Public { hosts } => (hosts.as_slice(), true),
            Self::AllowHosts { hosts } => (hosts.as_slice(), false),
            Self::None => (&[][..], false),
        };
        if *self == Self::AllowAll {
            excess.insert(Excess::AllNetwork);
        }
        if matches!(self, Self::Public { .. }) && !public {
            excess.insert(Excess::PublicNetwork);
        }
        let covered = |host: &&HostPattern| {
            known.iter().any(|pattern| pattern.covers(host)) || (public && host.network().is_none())
        };
        excess.extend(self.hosts().iter().filter(|host| !covered(host)).cloned().map(Excess::Host));
    }

    /// Whether there is any host that may be reached.
    pub fn reaches_anything(&self) -> bool {
        matches!(self, Self::Public { .. } | Self::AllowAll) || !self.hosts().is_empty()
    }

    /// The hosts that are named.
    pub fn hosts(&self) -> &[HostPattern] {
        match self {
            Self::AllowHosts { hosts } | Self::Public { hosts } => hosts,
            Self::None | Self::AllowAll => &[],
        }
    }

    /// Whether connections are decided on one by one.
    pub fn is_by_host(&self) -> bool {
        matches!(self, Self::AllowHosts { .. } | Self::Public { .. })
    }
}

fn shown(path: &Path) -> UnixPath {
    UnixPath::from(path)
}

fn beyond_list<'a>(own: &'a [ResolvedPath], base: &[ResolvedPath]) -> impl Iterator<Item = &'a PathBuf> {
    let known: BTreeSet<&Path> = base.iter().map(|path| path.path.as_path()).collect();
    own.iter().map(|path| &path.path).filter(move |path| !known.contains(path.as_path()))
}

/// No limit is the largest.
fn limit_within(own: Option<u64>, baseline: Option<u64>) -> bool {
    match (own, baseline) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(own), Some(base)) => own <= base,
    }
}
