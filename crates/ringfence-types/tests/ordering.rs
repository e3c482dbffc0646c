//! `is_within` is a partial order on policies, and it means what it says: what a request within the baseline
//! allows, the baseline allows.
//!
//! Policies are drawn from few names, so that grants, denials and re-openings nest and meet often.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use ringfence_types::{
    DeviceGrant, Excess, HostPattern, Linux, Network, PathKind, PortPattern, Protected, ProxySettings,
    Publish, ResolvedPath, ResolvedPolicy, Rlimits, SniCheck, UnixPath, WorkspaceAccess,
};

fn resolved(path: impl Into<PathBuf>) -> ResolvedPath {
    ResolvedPath { path: path.into(), kind: PathKind::Directory, id: None }
}

/// Every path of up to three components named `a` or `b`.
fn all_paths() -> Vec<PathBuf> {
    let mut paths = vec![PathBuf::from("/")];
    for depth in 1..=3 {
        let parents: Vec<_> =
            paths.iter().filter(|path| path.components().count() == depth).cloned().collect();
        paths.extend(parents.iter().flat_map(|path| ["a", "b"].map(|name| path.join(name))));
    }
    paths
}

fn paths() -> impl Strategy<Value = Vec<ResolvedPath>> {
    prop::collection::vec(prop::sample::select(all_paths()).prop_map(resolved), 0..4)
}

const PATTERNS: [&str; 12] = [
    "a.com",
    "x.a.com",
    "*.a.com",
    "**.a.com",
    "**.x.a.com",
    "*.x.a.com:*",
    "a.com:443",
    "a.com:*",
    "10.0.0.0/8",
    "10.1.0.0/16:22",
    "10.1.2.3",
    "::1",
];

fn hosts() -> impl Strategy<Value = Vec<HostPattern>> {
    let host = prop::sample::select(PATTERNS.to_vec()).prop_map(|text| text.parse::<HostPattern>().unwrap());
    prop::collection::vec(host, 0..4)
}

fn network() -> impl Strategy<Value = Network> {
    prop_oneof![
        1 => Just(Network::None),
        4 => hosts().prop_map(|hosts| Network::AllowHosts { hosts }),
        2 => hosts().prop_map(|hosts| Network::Public { hosts }),
        1 => Just(Network::AllowAll),
    ]
}

fn publish() -> impl Strategy<Value = Vec<Publish>> {
    let all = ["80:80", "81:80", "0.0.0.0:80:80"].map(|text| text.parse().unwrap());
    prop::sample::subsequence(all.to_vec(), 0..=3)
}

fn limit() -> impl Strategy<Value = Option<u64>> {
    prop::option::of(0_u64..3)
}

fn access() -> impl Strategy<Value = WorkspaceAccess> {
    prop::sample::select(vec![WorkspaceAccess::None, WorkspaceAccess::Read, WorkspaceAccess::Write])
}

fn devices() -> impl Strategy<Value = Vec<DeviceGrant>> {
    let grant = |name: &str| DeviceGrant { name: name.to_owned(), nodes: Vec::new() };
    prop::sample::subsequence(vec!["fuse", "gpu", "kvm"], 0..=3)
        .prop_map(move |names| names.into_iter().map(grant).collect())
}

prop_compose! {
    fn files()(
        workspace_access in access(), read in paths(), write in paths(), deny in paths(), unix_sockets in paths(),
    ) -> ResolvedPolicy {
        ResolvedPolicy { workspace_access, read, write, deny, unix_sockets, ..empty() }
    }
}

prop_compose! {
    fn policy()(
        files in files(), (network, deny_hosts, internal_hosts) in (network(), hosts(), hosts()), devices in devices(),
        (loopback_ports, publish) in (prop::sample::subsequence(vec![1_u16, 2, 3], 0..=3), publish()),
        flags in prop::array::uniform4(any::<bool>()),
        limits in prop::array::uniform5(limit()), (log, max_connections) in (any::<bool>(), 1_u32..3),
    ) -> ResolvedPolicy {
        let [loopback, spawn, nested_userns, allow_i386] = flags;
        let [max_memory_mb, max_processes, timeout_secs, open_files, file_size] = limits;
        ResolvedPolicy {
            network, deny_hosts, internal_hosts, loopback_ports, publish, devices, loopback, spawn, max_memory_mb, max_processes, timeout_secs,
            rlimits: Rlimits { open_files, file_size },
            proxy: ProxySettings { sni: if log { SniCheck::Log } else { SniCheck::Strict }, max_connections },
            linux: Linux { nested_userns, allow_i386, ..Linux::default() },
            ..files
        }
    }
}

fn empty() -> ResolvedPolicy {
    ResolvedPolicy {
        workspace: resolved("/a/b"),
        workspace_owner: None,
        workspace_access: WorkspaceAccess::None,
        cwd: resolved("/a/b"),
        read: Vec::new(),
        write: Vec::new(),
        deny: Vec::new(),
        deny_patterns: Vec::new(),
        deny_linked: Vec::new(),
        deny_incomplete: Vec::new(),
        network: Network::None,
        deny_hosts: Vec::new(),
        internal_hosts: Vec::new(),
        loopback_ports: Vec::new(),
        publish: Vec::new(),
        loopback: false,
        spawn: false,
        unix_sockets: Vec::new(),
        devices: Vec::new(),
        max_memory_mb: None,
        max_processes: None,
        timeout_secs: None,
        private_home: None,
        host_tmpdir: None,
        session_tmp: None,
        caches: Vec::new(),
        protected: Protected::default(),
        rlimits: Rlimits::default(),
        proxy: ProxySettings::default(),
        linux: Linux::default(),
    }
}

/// A policy made from another by taking grants away and adding denials: it allows no more.
fn narrowed(policy: ResolvedPolicy) -> impl Strategy<Value = ResolvedPolicy> {
    let subset = |list: &[ResolvedPath]| prop::sample::subsequence(list.to_vec(), 0..=list.len());
    let lists = (subset(&policy.read), subset(&policy.write), subset(&policy.unix_sockets));
    (lists, paths(), any::<bool>(), access()).prop_map(move |(lists, denied, off, access)| {
        let mut policy = policy.clone();
        (policy.read, policy.write, policy.unix_sockets) = lists;
        policy.deny.extend(denied);
        policy.workspace_access = policy.workspace_access.min(access);
        if off {
            policy.network = Network::None;
            policy.loopback_ports.clear();
            policy.publish.clear();
            policy.spawn = false;
            policy.devices.clear();
            policy.max_memory_mb = Some(0);
        }
        policy
    })
}

/// Two policies: unrelated, one narrowed, or one that differs in one respect, which alone decides.
fn pair() -> impl Strategy<Value = (ResolvedPolicy, ResolvedPolicy)> {
    prop_oneof![
        (policy(), policy()),
        policy().prop_flat_map(|base| (narrowed(base.clone()), Just(base))),
        (policy(), policy(), 0..4).prop_map(|(base, other, respect)| (replaced(&base, other, respect), base)),
    ]
}

fn replaced(base: &ResolvedPolicy, other: ResolvedPolicy, respect: i32) -> ResolvedPolicy {
    let base = base.clone();
    match respect {
        0 => ResolvedPolicy { read: other.read, write: other.write, deny: other.deny, ..base },
        1 => ResolvedPolicy {
            network: other.network,
            deny_hosts: other.deny_hosts,
            internal_hosts: other.internal_hosts,
            loopback_ports: other.loopback_ports,
            publish: other.publish,
            proxy: other.proxy,
            ..base
        },
        2 => ResolvedPolicy { devices: other.devices, unix_sockets: other.unix_sockets, ..base },
        _ => ResolvedPolicy {
            max_memory_mb: other.max_memory_mb,
            rlimits: other.rlimits,
            loopback: other.loopback,
            spawn: other.spawn,
            ..base
        },
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Access {
    Denied,
    Unruled,
    Readable,
}

/// What the rules make of a path, decided the slow way: the deepest rule that covers it, denials first.
fn model(policy: &ResolvedPolicy, path: &Path) -> (Access, bool) {
    let depth = |roots: &[ResolvedPath]| {
        let covering = roots.iter().filter(|root| path.starts_with(&root.path));
        covering.map(|root| root.path.components().count()).max()
    };
    let workspace = |access| match policy.workspace_access >= access {
        true => depth(std::slice::from_ref(&policy.workspace)),
        false => None,
    };
    let write = depth(&policy.write).max(workspace(WorkspaceAccess::Write));
    let read = depth(&policy.read).max(write).max(workspace(WorkspaceAccess::Read));
    let deny = depth(&policy.deny);
    let access = match (read, deny) {
        (None, None) => Access::Unruled,
        (read, deny) if read > deny => Access::Readable,
        _ => Access::Denied,
    };
    (access, write > deny)
}

/// Endpoints that a network policy lets a command reach, of those that the drawn patterns talk about.
fn reaches(policy: &ResolvedPolicy) -> BTreeSet<(&'static str, u16)> {
    let denied = |host: &str, port: u16| {
        policy.deny_hosts.iter().any(|pattern| {
            let port_hit = !matches!(pattern.port(), PortPattern::One(own) if own != port);
            port_hit && pattern.matches_host(&host.parse().unwrap())
        })
    };
    let hosts = ["a.com", "x.a.com", "y.x.a.com", "b.com", "10.1.2.3", "10.2.0.1", "[::1]"];
    let endpoints = hosts.into_iter().flat_map(|host| [22, 80, 443].map(|port| (host, port)));
    endpoints
        .filter(|(host, port)| {
            let one: HostPattern = format!("{host}:{port}").parse().unwrap();
            let listed = |hosts: &[HostPattern]| hosts.iter().any(|pattern| pattern.covers(&one));
            match &policy.network {
                Network::None => false,
                Network::AllowAll => true,
                Network::AllowHosts { hosts } => listed(hosts),
                // No address of this world is public.
                Network::Public { hosts } => one.network().is_none() || listed(hosts),
            }
        })
        .filter(|(host, port)| !denied(host, *port))
        .collect()
}

/// Those of them that may lead to addresses which are not public.
fn leads_inside(policy: &ResolvedPolicy) -> BTreeSet<(&'static str, u16)> {
    let named = |(host, port): &(&str, u16)| {
        let one: HostPattern = format!("{host}:{port}").parse().unwrap();
        policy.network == Network::AllowAll || policy.internal_hosts.iter().any(|own| own.covers(&one))
    };
    reaches(policy).into_iter().filter(named).collect()
}

/// Everything that a policy allows in the small world of these tests: policies that mean the same differ only in
/// spelling.
fn meaning(policy: &ResolvedPolicy) -> impl PartialEq + std::fmt::Debug + use<> {
    let files: Vec<_> = all_paths().iter().map(|path| model(policy, path)).collect();
    let sockets: BTreeSet<PathBuf> = policy.unix_sockets.iter().map(|path| path.path.clone()).collect();
    let devices: BTreeSet<String> = policy.devices.iter().map(|device| device.name.clone()).collect();
    let limits = (policy.max_memory_mb, policy.max_processes, policy.timeout_secs, policy.rlimits);
    let flags = (policy.loopback, policy.spawn, policy.linux.nested_userns, policy.linux.allow_i386);
    let ports: BTreeSet<_> = policy.loopback_ports.iter().copied().collect();
    let published: BTreeSet<_> = policy.publish.iter().copied().collect();
    let network = (reaches(policy), leads_inside(policy), ports, published);
    (files, policy.workspace_access, network, sockets, devices, limits, flags)
}

fn no_more(own: Option<u64>, base: Option<u64>) -> bool {
    base.is_none_or(|base| own.is_some_and(|own| own <= base))
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn reflexive(policy in policy()) {
        prop_assert!(policy.is_within(&policy));
        let mut respelled = policy.clone();
        let lists = [&mut respelled.read, &mut respelled.write, &mut respelled.deny, &mut respelled.unix_sockets];
        for list in lists {
            list.reverse();
            list.extend_from_within(..);
        }
        prop_assert!(policy.is_within(&respelled) && respelled.is_within(&policy), "order and repetition mean nothing");
    }

    #[test]
    fn transitive(
        (a, b, c) in policy()
            .prop_flat_map(|c| (narrowed(c.clone()), Just(c)))
            .prop_flat_map(|(b, c)| (narrowed(b.clone()), Just(b), Just(c))),
        (x, y, z) in (files(), files(), files()),
    ) {
        prop_assert!(!(a.is_within(&b) && b.is_within(&c)) || a.is_within(&c));
        prop_assert!(!(x.is_within(&y) && y.is_within(&z)) || x.is_within(&z));
    }

    #[test]
    fn taking_away_stays_within((narrow, base) in policy().prop_flat_map(|base| (narrowed(base.clone()), Just(base)))) {
        prop_assert_eq!(narrow.beyond(&base), []);
    }

    #[test]
    fn antisymmetric_up_to_spelling((a, b) in pair()) {
        if a.is_within(&b) && b.is_within(&a) {
            prop_assert_eq!(meaning(&a), meaning(&b));
        }
    }

    /// Nothing that the request allows is refused by the baseline, and what the baseline denies the request
    /// denies.
    #[test]
    fn within_allows_no_more((request, baseline) in pair()) {
        if !request.is_within(&baseline) {
            return Ok(());
        }
        for path in all_paths() {
            let (own, base) = (model(&request, &path), model(&baseline, &path));
            prop_assert!(own.0 <= base.0 && own.1 <= base.1, "{path:?}: {own:?} within {base:?}");
        }
        prop_assert!(reaches(&request).is_subset(&reaches(&baseline)));
        prop_assert!(leads_inside(&request).is_subset(&leads_inside(&baseline)));
        prop_assert!(request.loopback_ports.iter().all(|port| baseline.loopback_ports.contains(port)));
        prop_assert!(request.publish.iter().all(|own| baseline.publish.contains(own)));
        prop_assert!(no_more(request.max_memory_mb, baseline.max_memory_mb));
        prop_assert!(no_more(request.max_processes, baseline.max_processes));
        prop_assert!(no_more(request.timeout_secs, baseline.timeout_secs));
        prop_assert!(no_more(request.rlimits.file_size, baseline.rlimits.file_size));
        prop_assert!(request.spawn <= baseline.spawn && request.loopback <= baseline.loopback);
        prop_assert!(request.workspace_access <= baseline.workspace_access);
        prop_assert!(request.unix_sockets.iter().all(|socket| baseline.unix_sockets.contains(socket)));
        prop_assert!(request.devices.iter().all(|device| baseline.devices.contains(device)));
    }

    /// A request for files that means no more is within, however it is spelled.
    #[test]
    fn files_that_mean_no_more_are_within((request, baseline) in prop_oneof![
        (files(), files()),
        files().prop_flat_map(|base| (narrowed(base.clone()), Just(base))),
    ]) {
        let files = all_paths().iter().all(|path| {
            let (own, base) = (model(&request, path), model(&baseline, path));
            own.0 <= base.0 && own.1 <= base.1
        });
        let sockets = request.unix_sockets.iter().all(|path| baseline.unix_sockets.contains(path));
        let rest = request.workspace_access <= baseline.workspace_access
            && no_more(request.max_memory_mb, baseline.max_memory_mb);
        prop_assert_eq!(request.is_within(&baseline), files && sockets && rest);
    }

    #[test]
    fn the_index_agrees_with_the_lists(policy in files()) {
        let rules = policy.rules();
        for path in all_paths() {
            let (access, writes) = model(&policy, &path);
            prop_assert_eq!(rules.may_read(&path), access == Access::Readable);
            prop_assert_eq!(policy.may_read(&path), access == Access::Readable);
            prop_assert_eq!(rules.may_write(&path), writes);
            prop_assert_eq!(policy.may_write(&path), writes);
        }
    }

    #[test]
    fn what_is_named_is_what_is_missing((request, baseline) in pair()) {
        let excess = request.beyond(&baseline);
        prop_assert!(excess.is_sorted());
        let paths = excess.iter().filter_map(|excess| match excess {
            Excess::Read(path) | Excess::Write(path) | Excess::Undenied(path) => Some(path),
            _ => None,
        });
        let paths: Vec<_> = paths.collect();
        prop_assert_eq!(paths.len(), paths.iter().collect::<BTreeSet<_>>().len(), "each once: {:?}", excess);
        let verdicts = |path: &UnixPath| {
            let path = Path::new(std::str::from_utf8(path.as_bytes()).unwrap());
            (model(&request, path), model(&baseline, path))
        };
        for excess in excess {
            match excess {
                Excess::Read(path) | Excess::Undenied(path) => {
                    let (own, base) = verdicts(&path);
                    prop_assert!(own.0 > base.0, "{}", path);
                }
                Excess::Write(path) => {
                    let (own, base) = verdicts(&path);
                    prop_assert!(own.1 && !base.1, "{}", path);
                }
                _ => {}
            }
        }
    }
}

fn with(change: impl FnOnce(&mut ResolvedPolicy)) -> ResolvedPolicy {
    let mut policy = empty();
    change(&mut policy);
    policy
}

#[test]
fn a_denial_is_kept_only_if_it_is_named() {
    let baseline = with(|policy| {
        policy.read = vec![resolved("/")];
        policy.deny = vec![resolved("/etc/shadow")];
    });
    let silent = with(|policy| policy.read = vec![resolved("/usr")]);
    let shadow = Excess::Undenied("/etc/shadow".into());
    assert_eq!(silent.beyond(&baseline), [shadow], "system files are readable without a grant");
    assert!(with(|policy| policy.deny = vec![resolved("/etc")]).is_within(&baseline));
}

#[test]
fn a_denial_may_be_reopened_only_where_the_baseline_does() {
    let baseline = with(|policy| {
        policy.read = vec![resolved("/"), resolved("/h/.docker/contexts")];
        policy.deny = vec![resolved("/h/.docker")];
    });
    let request = |reopened: &str| {
        with(|policy| {
            policy.read = vec![resolved("/h"), resolved(reopened)];
            policy.deny = vec![resolved("/h/.docker")];
        })
    };
    assert!(request("/h/.docker/contexts/x").is_within(&baseline));
    let config = Excess::Read("/h/.docker/config.json".into());
    assert_eq!(request("/h/.docker/config.json").beyond(&baseline), [config]);
}

#[test]
fn writing_does_not_follow_from_reading() {
    let baseline = with(|policy| policy.read = vec![resolved("/d")]);
    let request = with(|policy| policy.write = vec![resolved("/d/x")]);
    assert_eq!(request.beyond(&baseline), [Excess::Write("/d/x".into())]);
    let reads = with(|policy| policy.read = vec![resolved("/d/x")]);
    assert!(reads.is_within(&baseline));
    assert!(reads.is_within(&with(|policy| policy.write = vec![resolved("/d")])), "but reading from writing");
}

#[test]
fn components_are_not_prefixes_of_text() {
    let baseline = with(|policy| policy.read = vec![resolved("/data")]);
    assert!(!with(|policy| policy.read = vec![resolved("/database")]).is_within(&baseline));
}

#[test]
fn another_workspace_is_not_compared() {
    let other = with(|policy| policy.workspace = resolved("/b"));
    assert_eq!(other.beyond(&empty()), [Excess::OtherWorkspace("/b".into())]);
}

#[test]
fn ten_thousand_grants_are_compared_by_index() {
    let many = |prefix: &str| -> Vec<_> {
        (0..10_000).map(|n| resolved(format!("/{prefix}/{}/{n}", n % 100))).collect()
    };
    let baseline = with(|policy| {
        policy.read = many("r");
        policy.deny = many("d");
    });
    let request = with(|policy| {
        policy.read = many("r").into_iter().rev().collect();
        policy.deny = many("d");
        policy.deny.push(resolved("/r/5/5"));
    });
    assert!(request.is_within(&baseline));
    assert_eq!(baseline.beyond(&request), [Excess::Read("/r/5/5".into())]);
}
