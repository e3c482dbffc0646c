//! What Landlock grants is never less than what the mounts show, and what is denied shows nowhere.

use std::collections::BTreeMap;

use proptest::prelude::*;
use ringfence_plan::linux::{Access, LandlockAccess, LinuxPlan, MountOp, PASSAGE};
use ringfence_types::{Network, PathKind, Protected, ResolvedPolicy, UnixPath};

use crate::fixture::{dir, plan, strict, workspace_write};

/// What a mount plan makes of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shown {
    read: bool,
    write: bool,
    /// Whether it is the host's.
    host: bool,
}

const NOTHING: Shown = Shown { read: false, write: false, host: false };

/// Replays the plan: the last mount that covers a path decides, and a seal takes writing away.
fn shown(plan: &LinuxPlan, path: &UnixPath) -> Shown {
    let mut table: BTreeMap<usize, (UnixPath, Shown)> = BTreeMap::new();
    for (order, op) in plan.mounts.iter().enumerate() {
        let all = Shown { read: true, write: true, host: false };
        let of = |access: Access| Shown { read: true, write: access == Access::ReadWrite, host: true };
        let (at, view) = match op {
            MountOp::HostTree { access } => ("/".into(), of(*access)),
            MountOp::EmptyRoot => ("/".into(), all),
            MountOp::Tmpfs { at, mode, .. } => (at.clone(), if *mode == PASSAGE { NOTHING } else { all }),
            MountOp::Bind { at, access, .. } => (at.clone(), of(*access)),
            MountOp::Overlay { at, .. } | MountOp::Devpts { at } | MountOp::Proc { at, .. } => {
                (at.clone(), all)
            }
            MountOp::Mask { at, .. } => (at.clone(), NOTHING),
            MountOp::Cover { at, .. } => (at.clone(), Shown { read: true, write: false, host: false }),
            MountOp::Pin { at, read_only: true, .. } => (at.clone(), of(Access::ReadOnly)),
            MountOp::Pin { read_only: false, .. } => continue,
            MountOp::Seal { at } => {
                for (mounted, view) in table.values_mut() {
                    if mounted == at {
                        view.write = false;
                    }
                }
                continue;
            }
            MountOp::Directory { .. } | MountOp::MountPoint { .. } | MountOp::Symlink { .. } => continue,
        };
        // A mount hides what was mounted below its place.
        table.retain(|_, (mounted, _)| !mounted.starts_with(&at) || *mounted == at);
        table.insert(order, (at, view));
    }
    table
        .into_iter()
        .filter(|(_, (at, _))| path.starts_with(at))
        .max_by_key(|(order, (at, _))| (at.depth(), *order))
        .map_or(NOTHING, |(_, (_, view))| view)
}

fn granted(plan: &LinuxPlan, path: &UnixPath) -> Option<LandlockAccess> {
    let rules = plan.landlock.as_ref().unwrap().rules.as_ref().unwrap();
    rules.iter().filter(|rule| path.starts_with(&rule.path)).map(|rule| rule.access).max()
}

/// What a network by host replaces by the box's own.
const NETWORK_FILES: [&str; 2] = ["/etc/nsswitch.conf", "/run/systemd/resolve/stub-resolv.conf"];

fn paths() -> Vec<String> {
    let names = ["", "/a", "/a/b", "/a/b/c", "/a/.git", "/a/.git/hooks", "/d"];
    ["/home/u/project", "/home/u/other", "/srv", "/tmp/x"]
        .iter()
        .flat_map(|root| names.iter().map(move |name| format!("{root}{name}")))
        .chain(
            ["/usr/bin/x", "/etc", "/etc/hosts", "/tmp", "/run/x", "/run/systemd", "/nix/store/x"]
                .map(String::from),
        )
        .chain(NETWORK_FILES.map(String::from))
        .collect()
}

fn policies() -> impl Strategy<Value = ResolvedPolicy> {
    let some = || prop::collection::vec(prop::sample::select(paths()), 0..5);
    let network = prop::sample::select(vec![
        Network::None,
        Network::AllowHosts { hosts: Vec::new() },
        Network::AllowAll,
    ]);
    let base = (any::<bool>(), network);
    (base, some(), some(), some(), some()).prop_map(|((whole, network), read, write, deny, protected)| {
        let mut policy = if whole { workspace_write() } else { strict() };
        policy.network = network;
        let dirs = |paths: Vec<String>| paths.iter().map(|path| dir(path)).collect::<Vec<_>>();
        policy.read.extend(dirs(read));
        policy.write.extend(dirs(write));
        policy.deny = dirs(deny);
        policy.deny.retain(|path| {
            !policy.cwd.path.starts_with(&path.path) && path.path != std::path::Path::new("/tmp")
        });
        policy.protected = Protected { read_only: dirs(protected), pins: Vec::new(), incomplete: None };
        policy
    })
}

proptest! {
    #[test]
    fn landlock_grants_what_the_mounts_show(policy in policies()) {
        let plan = plan(&policy);
        for text in paths() {
            let path = UnixPath::from(text.as_str());
            let view = shown(&plan, &path);
            let access = granted(&plan, &path);
            if view.write {
                prop_assert_eq!(access, Some(LandlockAccess::All), "{} {:?}", path, plan.mounts);
            } else if view.read {
                prop_assert!(access >= Some(LandlockAccess::List), "{} {:?}", path, plan.mounts);
            }
        }
    }

    #[test]
    fn the_mounts_show_what_the_policy_says(policy in policies()) {
        let plan = plan(&policy);
        for text in paths() {
            let path = UnixPath::from(text.as_str());
            let view = shown(&plan, &path);
            let host = std::path::Path::new(&text);
            let denied = policy.deny.iter().map(|deny| &deny.path).filter(|deny| host.starts_with(deny)).max();
            let opened = policy.readable().filter(|grant| host.starts_with(grant)).max();
            // No deeper grant opens it again.
            if denied.is_some() && denied.map(|path| path.as_path()) >= opened {
                prop_assert!(!view.host, "{} {:#?}", path, plan.mounts);
            }
            if view.write && view.host {
                prop_assert!(policy.may_write(host), "{} is writable {:#?}", path, plan.mounts);
            }
            if policy.protected.read_only.iter().any(|own| own.path == host) {
                prop_assert!(!view.write || !view.host, "{} {:#?}", path, plan.mounts);
            }
        }
    }

    #[test]
    fn grants_are_shown(policy in policies()) {
        let plan = plan(&policy);
        for text in paths() {
            let (path, host) = (UnixPath::from(text.as_str()), std::path::Path::new(&text));
            let protected = policy.protected.read_only.iter().any(|own| host.starts_with(&own.path));
            let view = shown(&plan, &path);
            // These are the box's own even where the whole disk is readable.
            let private = ["/tmp", "/run", "/etc/hosts", "/etc/nsswitch.conf"].iter().any(|private| host.starts_with(private));
            let read = view.read && (view.host || private);
            prop_assert!(read || !policy.may_read(host), "{} {:#?}", path, plan.mounts);
            if policy.network.is_by_host() && NETWORK_FILES.contains(&text.as_str()) {
                continue;
            }
            prop_assert!(view.write && view.host || protected || !policy.may_write(host), "{} {:#?}", path, plan.mounts);
        }
    }

    /// Whatever is taken away inside a writable root can't be moved out of the way.
    #[test]
    fn every_ancestor_of_a_denial_is_a_mount_point(policy in policies()) {
        let plan = plan(&policy);
        let mount_points: Vec<&UnixPath> = plan.mounts.iter().filter_map(|op| match op {
            MountOp::Pin { at, .. } | MountOp::Bind { at, .. } | MountOp::Mask { at, .. } | MountOp::Tmpfs { at, .. } => Some(at),
            _ => None,
        }).collect();
        for op in &plan.mounts {
            let at = match op {
                MountOp::Mask { at, .. } | MountOp::Pin { at, read_only: true, .. } => at,
                _ => continue,
            };
            let mut parent = at.parent();
            while let Some(ancestor) = parent {
                let view = shown(&plan, &ancestor);
                if !view.write || !view.host || ancestor.depth() == 0 {
                    break;
                }
                prop_assert!(mount_points.contains(&&ancestor), "{} above {} {:#?}", ancestor, at, plan.mounts);
                parent = ancestor.parent();
            }
        }
    }
}

/// Every way in which grants and denials can lie inside each other, against a model of three lines: the deepest
/// rule decides, at one depth the denial, and a read grant takes no writing away.
#[test]
fn rules_inside_each_other_are_decided_by_the_deepest() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Rule {
        Nothing,
        Read,
        Write,
        Deny,
        ReadAndDeny,
    }
    use Rule::{Deny, Nothing, Read, ReadAndDeny, Write};
    const RULES: [Rule; 5] = [Nothing, Read, Write, Deny, ReadAndDeny];
    const DEPTH: u32 = 4;
    for (base, outside) in [(strict(), Nothing), (workspace_write(), Read)] {
        for case in 0..RULES.len().pow(DEPTH) {
            let mut policy = base.clone();
            let chain: Vec<Rule> =
                (0..DEPTH).map(|level| RULES[case / RULES.len().pow(level) % RULES.len()]).collect();
            let at = |level: usize| format!("/srv{}", "/x".repeat(level));
            for (level, rule) in chain.iter().enumerate() {
                let list = match rule {
                    Nothing => continue,
                    Read => vec![&mut policy.read],
                    Write => vec![&mut policy.write],
                    Deny => vec![&mut policy.deny],
                    ReadAndDeny => vec![&mut policy.read, &mut policy.deny],
                };
                list.into_iter().for_each(|list| list.push(dir(&at(level))));
            }
            let plan = plan(&policy);
            let (mut read, mut write) = (outside == Read, false);
            for (level, rule) in chain.iter().enumerate() {
                (read, write) = match rule {
                    Nothing => (read, write),
                    Read => (true, write),
                    Write => (true, true),
                    Deny | ReadAndDeny => (false, false),
                };
                for path in [at(level), format!("{}/beside", at(level))] {
                    let view = shown(&plan, &path.as_str().into());
                    let of_host = (view.host && view.read, view.host && view.write);
                    assert_eq!(of_host, (read, write), "{path} by {chain:?}: {:#?}", plan.mounts);
                    let path = std::path::Path::new(&path);
                    let allowed = (policy.may_read(path), policy.may_write(path));
                    assert_eq!(allowed, (read, write), "{} by {chain:?}", path.display());
                }
            }
        }
    }
}

#[test]
fn old_kernels_get_no_file_rules_that_would_break_renames() {
    let mut facts = crate::fixture::facts();
    facts.landlock_abi = 1;
    let plan = ringfence_plan::linux::linux(&strict(), &facts).unwrap();
    assert_eq!(plan.landlock.unwrap().rules, None);
    facts.landlock_abi = 0;
    assert_eq!(ringfence_plan::linux::linux(&strict(), &facts).unwrap().landlock, None);
}

#[test]
fn a_missing_denial_is_not_mounted() {
    let mut policy = workspace_write();
    policy.deny = vec![crate::fixture::path("/home/u/project/.env", PathKind::Missing)];
    let plan = plan(&policy);
    assert!(!plan.mounts.iter().any(|op| matches!(op, MountOp::Mask { .. })));
}
