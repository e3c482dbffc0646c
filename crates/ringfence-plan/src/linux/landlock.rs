//! Landlock rules, derived from the mount plan so that the two can't disagree: whatever a mount makes visible,
//! Landlock grants with the same access; what mounts take away (masks, pins, seals) needs no rule.

use std::collections::BTreeMap;

use ringfence_types::UnixPath;
use serde::{Deserialize, Serialize};

use super::{Access, MountOp};

/// Landlock part of a plan (landlock(7)).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandlockPlan {
    /// ABI of the kernel that the plan was made for. All rights on files that it knows are
    /// handled, by one ruleset; those on ports are not, since a box has a network of its own.
    pub abi: u32,
    /// Rules on paths as the box sees them; `None` leaves files to the mount plan alone (ABI 1 would forbid
    /// renames across directories, and a nested sandbox could not mount anything).
    pub rules: Option<Vec<LandlockRule>>,
    /// Abstract Unix sockets and signals stay inside (ABI 6).
    pub scoped: bool,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandlockRule {
    /// File or tree inside the box.
    pub path: UnixPath,
    /// What it may be used for.
    pub access: LandlockAccess,
}

/// Rights of a rule; on a file those that apply to files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LandlockAccess {
    /// List directories.
    List,
    /// Read, list and execute.
    ReadExecute,
    /// Every right that the ABI knows.
    All,
}

pub(super) fn plan(abi: u32, mounts: &[MountOp], nested_userns: bool) -> Option<LandlockPlan> {
    (abi >= 1).then(|| LandlockPlan {
        abi,
        rules: (abi >= 2 && !nested_userns).then(|| rules(mounts)),
        scoped: abi >= 6,
    })
}

/// The rules that grant exactly what `mounts` shows; a rule that one above it makes needless is left out.
pub(super) fn rules(mounts: &[MountOp]) -> Vec<LandlockRule> {
    let mut rules: BTreeMap<UnixPath, LandlockAccess> = BTreeMap::new();
    for op in mounts {
        let (path, access) = match op {
            MountOp::HostTree { access } => (UnixPath::from("/"), of(*access)),
            MountOp::EmptyRoot => (UnixPath::from("/"), LandlockAccess::List),
            // A node on a read-only mount is written to all the same.
            MountOp::Bind { at, devices: true, .. } => (at.clone(), LandlockAccess::All),
            MountOp::Bind { at, access, .. } => (at.clone(), of(*access)),
            MountOp::Tmpfs { at, .. }
            | MountOp::Overlay { at, .. }
            | MountOp::Devpts { at }
            | MountOp::Proc { at, .. } => (at.clone(), LandlockAccess::All),
            MountOp::Directory { .. }
            | MountOp::MountPoint { .. }
            | MountOp::Symlink { .. }
            | MountOp::Mask { .. }
            | MountOp::Cover { .. }
            | MountOp::Pin { .. }
            | MountOp::Seal { .. } => continue,
        };
        // A mount comes after those above it.
        let covered = std::iter::successors(Some(path.clone()), UnixPath::parent)
            .any(|above| rules.get(&above).is_some_and(|granted| *granted >= access));
        if !covered {
            rules.insert(path, access);
        }
    }
    rules.into_iter().map(|(path, access)| LandlockRule { path, access }).collect()
}

fn of(access: Access) -> LandlockAccess {
    match access {
        Access::ReadOnly => LandlockAccess::ReadExecute,
        Access::ReadWrite => LandlockAccess::All,
    }
}
