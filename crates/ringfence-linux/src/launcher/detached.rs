//! Mounts that are not attached yet: new file systems (fsopen(2)) and copies of the host's (open_tree(2)).

use std::os::fd::{AsRawFd, OwnedFd};

use ringfence_plan::linux::{Access, Identity};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, OpenTreeFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen, open_tree,
};

use crate::sys::{MountAttr, set_mount_attributes};

/// The strict view's root holds directories and mount points only.
pub(super) const ROOT_SIZE: u64 = 16 << 20;

/// For a clone of a mount with all below it.
pub(super) fn clone_flags() -> OpenTreeFlags {
    OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW
}

/// The whole disk.
pub(super) fn host_tree(access: Access) -> Result<OwnedFd, Errno> {
    let tree = open_tree(rustix::fs::CWD, "/", clone_flags())?;
    let read_only = access == Access::ReadOnly;
    set_mount_attributes(&tree, MountAttr { read_only, no_devices: true, recursive: true })?;
    Ok(tree)
}

/// The strict view's root.
pub(super) fn empty_root() -> Result<OwnedFd, Errno> {
    let root = tmpfs(0o755, ROOT_SIZE, None)?;
    rustix::fs::mkdirat(&root, "proc", Mode::from_raw_mode(0o555))?;
    Ok(root)
}

/// `mode` is that of its root, `size` its limit in bytes.
pub(super) fn tmpfs(mode: u32, size: u64, owner: Option<Identity>) -> Result<OwnedFd, Errno> {
    let fs = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&fs, "size", size.to_string())?;
    fsconfig_set_string(&fs, "mode", format!("{mode:o}"))?;
    give_to(&fs, owner)?;
    fsconfig_create(&fs)?;
    detached(&fs, MountAttrFlags::MOUNT_ATTR_NODEV)
}

/// The mount of a file system that has its settings, `nosuid` and whatever `attributes` add.
fn detached(fs: &OwnedFd, attributes: MountAttrFlags) -> Result<OwnedFd, Errno> {
    fsmount(fs, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_NOSUID | attributes)
}

/// What the box makes for itself belongs to whom the command runs as.
fn give_to(fs: &OwnedFd, owner: Option<Identity>) -> Result<(), Errno> {
    let Some(owner) = owner else { return Ok(()) };
    fsconfig_set_string(fs, "uid", owner.uid.to_string())?;
    fsconfig_set_string(fs, "gid", owner.gid.to_string())
}

pub(super) fn devpts(owner: Option<Identity>) -> Result<OwnedFd, Errno> {
    let fs = fsopen("devpts", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&fs, "ptmxmode", "0666")?;
    fsconfig_set_string(&fs, "mode", "0620")?;
    give_to(&fs, owner)?;
    fsconfig_create(&fs)?;
    detached(&fs, MountAttrFlags::MOUNT_ATTR_NOEXEC)
}

pub(super) fn fresh_proc() -> Result<OwnedFd, Errno> {
    let fs = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&fs)?;
    detached(&fs, MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC)
}

/// Takes directories by descriptor: a path may lead elsewhere by now, is limited to 255 bytes (fsconfig(2)), and would be
/// split at colons.
pub(super) fn overlay(lower: &OwnedFd, upper: &OwnedFd, work: &OwnedFd) -> Result<OwnedFd, Errno> {
    let link = |directory: &OwnedFd| format!("/proc/self/fd/{}", directory.as_raw_fd());
    let fs = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&fs, "lowerdir", link(lower))?;
    fsconfig_set_string(&fs, "upperdir", link(upper))?;
    fsconfig_set_string(&fs, "workdir", link(work))?;
    // The marks of overlayfs as an unprivileged user may write them.
    fsconfig_set_flag(&fs, "userxattr")?;
    fsconfig_create(&fs)?;
    detached(&fs, MountAttrFlags::MOUNT_ATTR_NODEV)
}
