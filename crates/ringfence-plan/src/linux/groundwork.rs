//! What nearly every plan begins with, so that a driver can lay it while the plan itself is still being made.

use ringfence_types::{Linux, Owner, UnixPath};
use serde::{Deserialize, Serialize};

use super::{Access, Identity, LinuxPlan, MountOp};

/// `/dev` holds names only; its nodes are mounts.
pub(super) const DEV_SIZE: u64 = 64 << 10;
const DEV_NODES: [&str; 6] = ["full", "null", "random", "tty", "urandom", "zero"];
const DEV_LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("ptmx", "pts/ptmx"),
    ("stderr", "/proc/self/fd/2"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
];

/// What a root that may nest is seen as inside.
const NESTING_ROOT: u32 = 1000;

/// The group that nothing belongs to (`nogroup`, the kernel's overflow id).
const NO_GROUP: u32 = 65534;

/// What a usual run sees of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UsualView {
    /// What every program needs.
    System,
    /// All of the disk but the directories that the box has of its own: those of [`PRIVATE`] that the host has too, or
    /// none where a session keeps them.
    Disk {
        /// Their paths.
        private: Vec<&'static str>,
    },
}

/// Directories that are the box's own where the host has them, with their modes. They come next after the first mounts.
pub const PRIVATE: [(&str, u32); 2] = [("/tmp", 0o1777), ("/run", 0o755)];

/// The first steps of a box: namespaces, identity, and the mounts that depend on nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Groundwork {
    /// Who the command runs as.
    pub identity: Identity,
    /// Whether the box has a network namespace of its own.
    pub own_network: bool,
    /// What is mounted first.
    pub mounts: Vec<MountOp>,
}

impl Groundwork {
    /// What a run begins with that asks for nothing unusual: no network of the host, and not the whole disk to
    /// write to. A wrong guess costs time only: what does not [carry](Self::carries) the plan is thrown away.
    ///
    /// `uid` and `gid` are the caller's own, `owner` is the workspace's.
    pub fn usual(view: &UsualView, linux: &Linux, uid: u32, gid: u32, owner: Option<Owner>) -> Self {
        let identity = Identity::of(uid, gid, owner, linux.nested_userns);
        let mounts = match view {
            UsualView::System => first_mounts(false, linux),
            UsualView::Disk { private } => {
                let mut mounts = first_mounts(true, linux);
                mounts.extend(
                    PRIVATE
                        .into_iter()
                        .filter(|(at, _)| private.contains(at))
                        .map(|(at, mode)| MountOp::Tmpfs { at: at.into(), mode, size: linux.tmp_size }),
                );
                mounts
            }
        };
        Self { identity, own_network: true, mounts }
    }

    /// No more than the namespaces of a plan.
    pub fn of(plan: &LinuxPlan) -> Self {
        Self { identity: plan.identity, own_network: plan.own_network, mounts: Vec::new() }
    }

    /// Whether the plan goes on where this ends.
    pub fn carries(&self, plan: &LinuxPlan) -> bool {
        self.identity == plan.identity
            && self.own_network == plan.own_network
            && plan.mounts.starts_with(&self.mounts)
    }
}

impl Identity {
    /// Root becomes the workspace's owner, so that what the command creates belongs to whom it should.
    pub(super) fn of(uid: u32, gid: u32, owner: Option<Owner>, nested_userns: bool) -> Self {
        let (uid, gid, switch) = match owner {
            Some(owner) if uid == 0 && owner.uid != 0 => {
                // A folder of root's group is no reason to have that group's rights. The group with the user's number
                // may be another's, such as one that may drive containers.
                (owner.uid, if owner.gid == 0 { NO_GROUP } else { owner.gid }, true)
            }
            _ => (uid, gid, false),
        };
        let nests_as_root = uid == 0 && nested_userns;
        let (seen_uid, seen_gid) = if nests_as_root { (NESTING_ROOT, NESTING_ROOT) } else { (uid, gid) };
        Self { uid, gid, seen_uid, seen_gid, switch }
    }
}

/// The root, then a `/dev` and a `/proc` of the box's own.
pub(super) fn first_mounts(shows_the_disk: bool, linux: &Linux) -> Vec<MountOp> {
    let dev = UnixPath::from("/dev");
    let mut ops = Vec::with_capacity(32);
    if shows_the_disk {
        ops.push(MountOp::HostTree { access: Access::ReadOnly });
    } else {
        // It comes with a directory for `/proc`.
        ops.extend([MountOp::EmptyRoot, MountOp::Directory { at: dev.clone(), mode: 0o755 }]);
    }
    ops.push(MountOp::Tmpfs { at: dev.clone(), mode: 0o755, size: DEV_SIZE });
    // Reading and writing a device is no change of its node, which root's box could otherwise make on the host's.
    for name in DEV_NODES {
        let at = dev.join(name);
        ops.push(MountOp::MountPoint { at: at.clone() });
        ops.push(MountOp::Bind { from: at.clone(), at, id: None, access: Access::ReadOnly, devices: true });
    }
    for (name, target) in DEV_LINKS {
        ops.push(MountOp::Symlink { at: dev.join(name), target: target.into() });
    }
    let pts = dev.join("pts");
    ops.push(MountOp::Directory { at: pts.clone(), mode: 0o755 });
    ops.push(MountOp::Devpts { at: pts });
    let shm = dev.join("shm");
    ops.push(MountOp::Directory { at: shm.clone(), mode: 0o755 });
    ops.push(MountOp::Tmpfs { at: shm, mode: 0o1777, size: linux.tmp_size });
    ops.push(MountOp::Proc { at: "/proc".into(), user_namespaces: linux.nested_userns });
    ops
}
