//! Steps *mounts*, *proc* and *pivot*: executes the mount plan on a new root, with the mount API that works on
//! descriptors (open_tree(2), move_mount(2), mount_setattr(2), fsopen(2)).
//!
//! A host path is opened once, without following symlinks, compared with what was approved, and mounted by that
//! descriptor. It has to be opened here: a descriptor from outside belongs to the mount namespace outside, and
//! the kernel clones no mount of another namespace.

use std::fs;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use ringfence_gate::identity;
use ringfence_plan::linux::{Access, Identity, MountOp};
use ringfence_types::{FileId, LayerName, LayerStatus, Step, UnixPath};
use rustix::fs::{Mode, OFlags, ResolveFlags, SeekFrom, openat, openat2};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree, unmount,
};

use super::Request;
use super::process::errno;
use super::report::{At, Fault, FaultKind, Reporter, StepResult};
use super::table::mount_id;
use crate::sys::{MountAttr, set_mount_attributes};

/// Parts of `/proc` that are read-only inside.
const PROC_READ_ONLY: [&str; 3] = ["bus", "irq", "sys"];
/// Parts of `/proc` that are covered.
const PROC_MASKED: [&str; 5] = ["kcore", "keys", "kmsg", "sysrq-trigger", "timer_list"];

/// The covers' files: an empty one and a directory, neither of which can be opened, and contents.
struct Scratch {
    mount: OwnedFd,
}

struct Builder<'a> {
    request: &'a Request,
    root: OwnedFd,
    scratch: Scratch,
    covers: usize,
    /// Where something was made last.
    parent: Option<(UnixPath, OwnedFd)>,
    overlay_missing: Option<Errno>,
    /// Numbers of the mounts made.
    made: Vec<u64>,
}

/// Builds the box's file tree and moves into it. Returns the numbers of the mounts that make it.
pub(super) fn build(request: &Request, reporter: &mut Reporter) -> StepResult<Vec<u64>> {
    request.fault_point(Step::Mounts)?;
    let root = root(&request.plan.mounts)?;
    let scratch = Scratch::new(&root, &request.plan.mounts)?;
    let mut builder =
        Builder { request, root, scratch, covers: 0, parent: None, overlay_missing: None, made: Vec::new() };
    for op in &request.plan.mounts {
        builder.mount(op, reporter)?;
    }
    request.fault_point(Step::Pivot)?;
    pivot(&builder.root)?;
    let (status, detail) = match builder.overlay_missing {
        None => (LayerStatus::Enforced, format!("{} mount operations", request.plan.mounts.len())),
        Some(error) => (
            LayerStatus::Enforced,
            format!(
                "{} mount operations; caches are private and start empty ({error})",
                request.plan.mounts.len()
            ),
        ),
    };
    reporter.layer(LayerName::MountNs, status, detail);
    report_protected(request, reporter);
    Ok(builder.made)
}

/// Every protected path is a mount of the plan, and a mount that fails ends the run.
fn report_protected(request: &Request, reporter: &mut Reporter) {
    let plan = &request.plan;
    let (status, detail) = match &plan.protected_incomplete {
        Some(reason) => (LayerStatus::Partial, format!("{} paths; {reason}", plan.protected_count)),
        None => (LayerStatus::Enforced, format!("{} paths", plan.protected_count)),
    };
    reporter.layer(LayerName::Protected, status, detail);
}

/// The first operation makes the root; it is attached over the old one, where it hides nothing from us.
fn root(mounts: &[MountOp]) -> StepResult<OwnedFd> {
    let subject = "/";
    let root = match mounts.first() {
        Some(MountOp::HostTree { access }) => {
            let tree = open_tree(rustix::fs::CWD, "/", clone_flags()).on(Step::Mounts, subject)?;
            let read_only = *access == Access::ReadOnly;
            let attr = MountAttr { read_only, no_devices: true, recursive: true };
            set_mount_attributes(&tree, attr).on(Step::Mounts, subject)?;
            tree
        }
        Some(MountOp::EmptyRoot) => {
            let root = tmpfs(0o755, ROOT_SIZE, None).on(Step::Mounts, subject)?;
            rustix::fs::mkdirat(&root, "proc", Mode::from_raw_mode(0o555)).on(Step::Mounts, "/proc")?;
            root
        }
        _ => return Err(Fault::new(Step::Mounts, Errno::INVAL, Some("a plan without a root".to_owned()))),
    };
    move_mount(&root, "", rustix::fs::CWD, "/", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .on(Step::Mounts, subject)?;
    Ok(root)
}

/// The strict view's root holds directories and mount points only.
const ROOT_SIZE: u64 = 16 << 20;

impl Scratch {
    /// Made at `/proc` of the new root, which the fresh proc will hide: kernels before 6.15 clone a mount only
    /// if it is attached.
    fn new(root: &OwnedFd, mounts: &[MountOp]) -> StepResult<Self> {
        let mount = tmpfs(0o700, ROOT_SIZE, None).on(Step::Mounts, "covers")?;
        let mode = Mode::empty();
        openat(&mount, "file", OFlags::CREATE | OFlags::RDONLY | OFlags::CLOEXEC, mode)
            .on(Step::Mounts, "empty cover")?;
        rustix::fs::mkdirat(&mount, "directory", mode).on(Step::Mounts, "empty cover")?;
        let contents = mounts.iter().filter_map(|op| match op {
            MountOp::Cover { content, .. } => Some(content),
            _ => None,
        });
        for (index, content) in contents.enumerate() {
            let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
            let file = openat(&mount, index.to_string(), flags, Mode::from_raw_mode(0o444))
                .on(Step::Mounts, "cover")?;
            fs::File::from(file).write_all(content.as_bytes()).map_err(errno).on(Step::Mounts, "cover")?;
        }
        set_mount_attributes(&mount, MountAttr { read_only: true, no_devices: true, recursive: false })
            .on(Step::Mounts, "covers")?;
        let at = open_at(root, &"/proc".into(), false).on(Step::Mounts, "/proc")?;
        attach(&mount, &at).on(Step::Mounts, "covers")?;
        Ok(Self { mount })
    }

    fn cover(&self, name: &str) -> Result<OwnedFd, Errno> {
        open_tree(&self.mount, name, clone_flags())
    }
}

impl Builder<'_> {
    fn mount(&mut self, op: &MountOp, reporter: &mut Reporter) -> StepResult<()> {
        match op {
            MountOp::HostTree { .. } | MountOp::EmptyRoot => Ok(()),
            MountOp::Tmpfs { at, mode, size } => {
                let mount = tmpfs(*mode, *size, self.owner()).on(Step::Mounts, at)?;
                self.attach(&mount, at)
            }
            MountOp::Directory { at, mode } => self
                .in_parent(at, |parent, name| {
                    kept(rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(*mode)))
                })
                .on(Step::Mounts, at),
            MountOp::MountPoint { at } => self
                .in_parent(at, |parent, name| {
                    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                    kept(openat(parent, name, flags, Mode::from_raw_mode(0o444)).map(drop))
                })
                .on(Step::Mounts, at),
            MountOp::Symlink { at, target } => self
                .in_parent(at, |parent, name| rustix::fs::symlinkat(target.as_bytes(), parent, name))
                .on(Step::Mounts, at),
            MountOp::Bind { from, at, id, access, devices } => {
                let source = approved(from, id.as_deref())?;
                let tree = open_tree(&source, "", clone_flags() | OpenTreeFlags::AT_EMPTY_PATH)
                    .on(Step::Mounts, from)?;
                let read_only = *access == Access::ReadOnly;
                let attr = MountAttr { read_only, no_devices: !devices, recursive: true };
                set_mount_attributes(&tree, attr).on(Step::Mounts, from)?;
                self.attach(&tree, at)
            }
            MountOp::Overlay { lower, upper, work, at } => match overlay(lower, upper, work) {
                Ok(mount) => self.attach(&mount, at),
                Err(error) => {
                    self.overlay_missing = Some(error);
                    let tree = open_tree(rustix::fs::CWD, upper.as_bytes(), clone_flags())
                        .on(Step::Mounts, upper)?;
                    let attr = MountAttr { read_only: false, no_devices: true, recursive: true };
                    set_mount_attributes(&tree, attr).on(Step::Mounts, upper)?;
                    self.attach(&tree, at)
                }
            },
            MountOp::Mask { at, directory, may_be_gone } => {
                let cover =
                    self.scratch.cover(if *directory { "directory" } else { "file" }).on(Step::Mounts, at)?;
                match open_at(&self.root, at, false) {
                    Err(Errno::NOENT) if *may_be_gone => Ok(()),
                    // A host program may remove its socket, and the cover with it, at any time.
                    Ok(place) if *may_be_gone => attach(&cover, &place).on(Step::Mounts, at),
                    place => self.fix(&cover, &place.on(Step::Mounts, at)?).on(Step::Mounts, at),
                }
            }
            MountOp::Cover { at, .. } => {
                let cover = self.scratch.cover(&self.covers.to_string()).on(Step::Mounts, at)?;
                self.covers += 1;
                self.attach(&cover, at)
            }
            MountOp::Pin { at, id, symlink, read_only } => {
                let place = open_at(&self.root, at, *symlink).on(Step::Mounts, at)?;
                compare(&place, at, id.as_deref())?;
                let tree = open_tree(&place, "", clone_flags() | OpenTreeFlags::AT_EMPTY_PATH)
                    .on(Step::Mounts, at)?;
                if *read_only {
                    let attr = MountAttr { read_only: true, no_devices: true, recursive: true };
                    set_mount_attributes(&tree, attr).on(Step::Mounts, at)?;
                }
                self.fix(&tree, &place).on(Step::Mounts, at)
            }
            MountOp::Devpts { at } => {
                let mount = devpts(self.owner()).on(Step::Mounts, at)?;
                self.attach(&mount, at)
            }
            MountOp::Proc { at } => self.proc(at, reporter),
            MountOp::Seal { at } => {
                let place = open_at(&self.root, at, false).on(Step::Mounts, at)?;
                set_mount_attributes(
                    &place,
                    MountAttr { read_only: true, no_devices: false, recursive: false },
                )
                .on(Step::Mounts, at)
            }
        }
    }

    /// Whose a new file system has to be, if not its maker's.
    fn owner(&self) -> Option<Identity> {
        Some(self.request.plan.identity).filter(|identity| identity.switch)
    }

    fn attach(&mut self, mount: &OwnedFd, at: &UnixPath) -> StepResult<()> {
        if self.parent.as_ref().is_some_and(|(path, _)| path.starts_with(at)) {
            self.parent = None;
        }
        let place = open_at(&self.root, at, false).on(Step::Mounts, at)?;
        self.fix(mount, &place).on(Step::Mounts, at)
    }

    /// Attaches a mount that must stay until the end of the run.
    fn fix(&mut self, mount: &OwnedFd, place: &OwnedFd) -> Result<(), Errno> {
        self.made.push(mount_id(mount)?);
        attach(mount, place)
    }

    /// Calls `make` with the parent directory and the name of a path to be made. What is made together lies
    /// together, so the parent is kept for the next one.
    fn in_parent(
        &mut self,
        at: &UnixPath,
        make: impl FnOnce(&OwnedFd, &[u8]) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let (Some(path), Some(name)) = (at.parent(), at.components().last()) else {
            return Err(Errno::INVAL);
        };
        let parent = match self.parent.take() {
            Some((known, directory)) if known == path => directory,
            _ => open_at(&self.root, &path, false)?,
        };
        let made = make(&parent, name);
        self.parent = Some((path, parent));
        made
    }

    /// Fresh, while the old `/proc` is still there: without one in sight the kernel refuses.
    fn proc(&mut self, at: &UnixPath, reporter: &mut Reporter) -> StepResult<()> {
        self.request.fault_point(Step::Proc)?;
        let (proc, fresh) = match fresh_proc() {
            Ok(proc) => (proc, true),
            Err(error @ (Errno::PERM | Errno::ACCESS)) => {
                // An empty one would break cargo, java, `<(…)` and /dev/stdin.
                let tree = open_tree(rustix::fs::CWD, "/proc", clone_flags()).on(Step::Proc, at)?;
                let attr = MountAttr { read_only: true, no_devices: true, recursive: true };
                set_mount_attributes(&tree, attr).on(Step::Proc, at)?;
                let detail =
                    format!("/proc is the host's, read-only: the kernel refused a fresh one ({error})");
                reporter.layer(LayerName::PidNs, LayerStatus::Partial, detail);
                (tree, false)
            }
            Err(error) => return Err(error).on(Step::Proc, at),
        };
        let place = open_at(&self.root, at, false).on(Step::Proc, at)?;
        self.fix(&proc, &place).on(Step::Proc, at)?;
        if !self.request.plan.nested_userns {
            // After the capabilities are gone this can't be written; it belongs to the writer's user namespace.
            let name = "sys/user/max_user_namespaces";
            match (write_in(&proc, name, b"0"), fresh) {
                (Ok(()), _) => {}
                (Err(error), true) => return Err(error).on(Step::Proc, at.join(name)),
                (Err(_), false) => {
                    let detail = "further user namespaces are refused by seccomp alone";
                    reporter.layer(LayerName::UserNs, LayerStatus::Enforced, detail);
                }
            }
        }
        for name in PROC_READ_ONLY.into_iter().filter(|_| fresh) {
            let Some(tree) = present(open_tree(&proc, name, clone_flags())).on(Step::Proc, at.join(name))?
            else {
                continue;
            };
            let attr = MountAttr { read_only: true, no_devices: true, recursive: true };
            set_mount_attributes(&tree, attr).on(Step::Proc, at.join(name))?;
            let place = open_at(&self.root, &at.join(name), false).on(Step::Proc, at.join(name))?;
            self.fix(&tree, &place).on(Step::Proc, at.join(name))?;
        }
        for name in PROC_MASKED {
            let at = at.join(name);
            let Some(place) = present(open_at(&self.root, &at, false)).on(Step::Proc, &at)? else { continue };
            let cover = self.scratch.cover("file").on(Step::Proc, &at)?;
            self.fix(&cover, &place).on(Step::Proc, &at)?;
        }
        Ok(())
    }
}

/// A session's private temp keeps the mount points of its earlier runs. What the box may have put in their place
/// is opened without following symlinks before anything is mounted on it.
fn kept(made: Result<(), Errno>) -> Result<(), Errno> {
    match made {
        Err(Errno::EXIST) => Ok(()),
        made => made,
    }
}

fn write_in(directory: &OwnedFd, name: &str, content: &[u8]) -> Result<(), Errno> {
    let file = openat(directory, name, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, content).map(drop)
}

/// Goes to the working directory, if it is still what was checked.
pub(super) fn enter(path: &UnixPath, id: Option<&FileId>) -> StepResult<()> {
    let directory = open_canonical(rustix::fs::CWD, path.as_bytes(), false).on(Step::Limits, path)?;
    compare(&directory, path, id).map_err(|fault| Fault { step: Step::Limits, ..fault })?;
    rustix::process::fchdir(&directory).on(Step::Limits, path)
}

/// What a kernel doesn't have needs no cover.
fn present<T>(result: Result<T, Errno>) -> Result<Option<T>, Errno> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

fn clone_flags() -> OpenTreeFlags {
    OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW
}

/// Opens a host path and makes sure that it is what was approved.
fn approved(path: &UnixPath, id: Option<&FileId>) -> StepResult<OwnedFd> {
    let source = open_canonical(rustix::fs::CWD, path.as_bytes(), false).map_err(|error| {
        let mut fault = Fault::new(Step::Mounts, error, Some(path.to_string()));
        if id.is_some() && matches!(error, Errno::NOENT | Errno::LOOP | Errno::NOTDIR) {
            fault.kind = FaultKind::Changed;
        }
        fault
    })?;
    compare(&source, path, id)?;
    Ok(source)
}

fn compare(file: &OwnedFd, path: &UnixPath, id: Option<&FileId>) -> StepResult<()> {
    let Some(approved) = id else { return Ok(()) };
    let found = identity::of_fd(file).map_err(errno).on(Step::Mounts, path)?;
    if found == *approved {
        return Ok(());
    }
    let mut fault = Fault::new(Step::Mounts, Errno::STALE, Some(path.to_string()));
    fault.kind = FaultKind::Changed;
    Err(fault)
}

/// Opens a place of the box.
fn open_at(root: &OwnedFd, at: &UnixPath, symlink: bool) -> Result<OwnedFd, Errno> {
    open_canonical(root, relative(at), symlink)
}

/// A path of the box as seen from its root.
fn relative(at: &UnixPath) -> &[u8] {
    match at.as_bytes().strip_prefix(b"/").unwrap_or(at.as_bytes()) {
        b"" => b".",
        relative => relative,
    }
}

/// Opens a path that has no symlink on the way, and none at its end unless one is meant: with `O_NOFOLLOW` the
/// kernel opens that symlink itself, without it the symlink is an error (openat2(2), `RESOLVE_NO_SYMLINKS`).
fn open_canonical(root: impl AsFd, path: &[u8], symlink: bool) -> Result<OwnedFd, Errno> {
    let mut flags = OFlags::PATH | OFlags::CLOEXEC;
    if symlink {
        flags |= OFlags::NOFOLLOW;
    }
    openat2(root, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS)
}

fn attach(mount: &OwnedFd, place: &OwnedFd) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mount, "", place, "", flags)
}

fn tmpfs(mode: u32, size: u64, owner: Option<Identity>) -> Result<OwnedFd, Errno> {
    let fs = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&fs, "size", size.to_string())?;
    fsconfig_set_string(&fs, "mode", format!("{mode:o}"))?;
    give_to(&fs, owner)?;
    fsconfig_create(&fs)?;
    fsmount(
        &fs,
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
    )
}

/// What the box makes for itself belongs to whom the command runs as.
fn give_to(fs: &OwnedFd, owner: Option<Identity>) -> Result<(), Errno> {
    let Some(owner) = owner else { return Ok(()) };
    fsconfig_set_string(fs, "uid", owner.uid.to_string())?;
    fsconfig_set_string(fs, "gid", owner.gid.to_string())
}

fn devpts(owner: Option<Identity>) -> Result<OwnedFd, Errno> {
    let fs = fsopen("devpts", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&fs, "ptmxmode", "0666")?;
    fsconfig_set_string(&fs, "mode", "0620")?;
    give_to(&fs, owner)?;
    fsconfig_create(&fs)?;
    fsmount(
        &fs,
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC,
    )
}

fn fresh_proc() -> Result<OwnedFd, Errno> {
    let fs = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&fs)?;
    let attr = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, attr)
}

fn overlay(lower: &UnixPath, upper: &UnixPath, work: &UnixPath) -> Result<OwnedFd, Errno> {
    let fs = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&fs, "lowerdir", escaped(lower))?;
    fsconfig_set_string(&fs, "upperdir", upper.as_bytes())?;
    fsconfig_set_string(&fs, "workdir", work.as_bytes())?;
    // The marks of overlayfs as an unprivileged user may write them.
    fsconfig_set_flag(&fs, "userxattr")?;
    fsconfig_create(&fs)?;
    fsmount(
        &fs,
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
    )
}

/// overlayfs separates lower directories by colons.
fn escaped(path: &UnixPath) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.as_bytes().len());
    for &byte in path.as_bytes() {
        if matches!(byte, b':' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out
}

/// Opens a regular file anew, read-only and on a read-only mount of its own, at the same position.
pub(super) fn reopen_read_only(file: &OwnedFd) -> Result<OwnedFd, Errno> {
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    let path = rustix::fs::readlink(&link, Vec::new())?;
    let found = open_canonical(rustix::fs::CWD, path.as_bytes(), false)?;
    if identity::of_fd(&found).map_err(errno)? != identity::of_fd(file).map_err(errno)? {
        return Err(Errno::STALE);
    }
    let mount = open_tree(&found, "", clone_flags() | OpenTreeFlags::AT_EMPTY_PATH)?;
    set_mount_attributes(&mount, MountAttr { read_only: true, no_devices: true, recursive: true })?;
    let reopened = format!("/proc/self/fd/{}", mount.as_raw_fd());
    let reopened = rustix::fs::open(reopened, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let position = rustix::fs::seek(file, SeekFrom::Current(0))?;
    rustix::fs::seek(&reopened, SeekFrom::Start(position))?;
    Ok(reopened)
}

/// pivot_root(2) of the new root onto itself puts the old one on top, from where it is detached.
fn pivot(root: &OwnedFd) -> StepResult<()> {
    rustix::process::fchdir(root).on(Step::Pivot, "/")?;
    rustix::process::pivot_root(".", ".").on(Step::Pivot, "/")?;
    unmount(".", UnmountFlags::DETACH).on(Step::Pivot, "the old root")?;
    rustix::process::chdir("/").on(Step::Pivot, "/")
}
