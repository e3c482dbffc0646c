//! Steps *mounts*, *proc* and *pivot*: executes the mount plan on a new root, with the mount API that works on
//! descriptors (open_tree(2), move_mount(2), mount_setattr(2), fsopen(2)).
//!
//! A host path is opened once, without following symlinks, compared with what was approved, and mounted by that
//! descriptor. It has to be opened here: a descriptor from outside belongs to the mount namespace outside, and
//! the kernel clones no mount of another namespace.

mod proc;

use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use ringfence_gate::identity;
use ringfence_plan::LinuxPlan;
use ringfence_plan::linux::{Access, Identity, MountOp};
use ringfence_types::{FileId, LayerName, LayerStatus, Step, UnixPath};
use rustix::fs::{Mode, OFlags, ResolveFlags, SeekFrom, openat, openat2};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, UnmountFlags, move_mount, open_tree, unmount};

use super::Foundation;
use super::detached::{ROOT_SIZE, clone_flags, devpts, empty_root, host_tree, overlay, tmpfs};
use super::process::errno;
use super::report::{At, Fault, FaultKind, Reporter, StepResult};
use super::table::mount_id;
use crate::sys::{MountAttr, set_mount_attributes};

const DEV: &str = "/dev";

/// Builds the box's file tree.
pub(super) struct Builder<'a> {
    foundation: &'a Foundation,
    /// Comes with the first operation.
    tree: Option<Tree>,
    /// Where something was made last.
    parent: Option<(UnixPath, OwnedFd)>,
    overlay_missing: Option<Errno>,
    /// Numbers of the mounts made.
    made: Vec<u64>,
    /// Numbers of those that deny.
    masks: HashSet<u64>,
}

/// Every protected path is a mount of the plan, and a mount that fails ends the run.
fn report_protected(plan: &LinuxPlan, reporter: &mut Reporter) {
    let (status, detail) = match &plan.protected_incomplete {
        Some(reason) => (LayerStatus::Partial, format!("{} paths; {reason}", plan.protected_count)),
        None => (LayerStatus::Enforced, format!("{} paths", plan.protected_count)),
    };
    reporter.layer(LayerName::Protected, status, detail);
}

/// Whether the box has a `/tmp` of its own, as it should unless it has all of the host's.
fn has_private_temp(plan: &LinuxPlan) -> bool {
    plan.mounts.iter().any(|op| match op {
        MountOp::Tmpfs { at, .. } | MountOp::Bind { at, .. } => *at == "/tmp".into(),
        MountOp::HostTree { access } => *access == Access::ReadWrite,
        _ => false,
    })
}

struct Tree {
    root: OwnedFd,
    scratch: Scratch,
}

impl Tree {
    /// The root is attached over the old one, where it hides nothing from us.
    fn new(root: OwnedFd) -> Result<Self, Errno> {
        move_mount(&root, "", rustix::fs::CWD, "/", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
        let scratch = Scratch::new(&open_canonical(&root, b"proc", false)?)?;
        Ok(Self { root, scratch })
    }
}

/// What covers are made of: an empty file and a directory, neither of which can be opened, and contents.
///
/// Kernels before 6.15 clone a mount only if it is attached, so both views of it lie at the new root's `/proc`, which
/// the fresh proc will hide.
struct Scratch {
    writable: OwnedFd,
    read_only: OwnedFd,
    contents: usize,
}

impl Scratch {
    fn new(place: &OwnedFd) -> Result<Self, Errno> {
        let writable = tmpfs(0o700, ROOT_SIZE, None)?;
        let mode = Mode::empty();
        openat(&writable, "file", OFlags::CREATE | OFlags::RDONLY | OFlags::CLOEXEC, mode)?;
        rustix::fs::mkdirat(&writable, "directory", mode)?;
        attach(&writable, place)?;
        let read_only = open_tree(&writable, "", clone_flags() | OpenTreeFlags::AT_EMPTY_PATH)?;
        set_mount_attributes(&read_only, MountAttr { read_only: true, no_devices: true, recursive: false })?;
        attach(&read_only, place)?;
        Ok(Self { writable, read_only, contents: 0 })
    }

    fn cover(&self, name: &str) -> Result<OwnedFd, Errno> {
        open_tree(&self.read_only, name, clone_flags())
    }

    fn cover_with(&mut self, content: &str) -> Result<OwnedFd, Errno> {
        let name = self.contents.to_string();
        self.contents += 1;
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = openat(&self.writable, name.as_str(), flags, Mode::from_raw_mode(0o444))?;
        fs::File::from(file).write_all(content.as_bytes()).map_err(errno)?;
        self.cover(&name)
    }
}

impl<'a> Builder<'a> {
    /// Begins a file tree.
    pub(super) fn new(foundation: &'a Foundation) -> StepResult<Self> {
        foundation.fault_point(Step::Mounts)?;
        Ok(Self {
            foundation,
            tree: None,
            parent: None,
            overlay_missing: None,
            made: Vec::new(),
            masks: HashSet::new(),
        })
    }

    /// Goes on with the mount plan.
    pub(super) fn mount(&mut self, ops: &[MountOp], reporter: &mut Reporter) -> StepResult<()> {
        ops.iter().try_for_each(|op| self.mount_one(op, reporter))
    }

    /// Moves into the tree. Returns the numbers of the mounts that make it.
    pub(super) fn enter(self, plan: &LinuxPlan, reporter: &mut Reporter) -> StepResult<Vec<u64>> {
        self.foundation.fault_point(Step::Pivot)?;
        pivot(self.root().on(Step::Pivot, "/")?)?;
        let mut detail = format!("{} mount operations", plan.mounts.len());
        if let Some(error) = self.overlay_missing {
            detail.push_str(&format!("; caches are private, without what the host's hold ({error})"));
        }
        if !has_private_temp(plan) {
            detail.push_str("; no private /tmp: the host's is no directory");
        }
        reporter.layer(LayerName::MountNs, LayerStatus::Enforced, detail);
        report_protected(plan, reporter);
        Ok(self.made)
    }

    /// A plan's first operation makes it.
    fn root(&self) -> Result<&OwnedFd, Errno> {
        self.tree.as_ref().map(|tree| &tree.root).ok_or(Errno::INVAL)
    }

    fn scratch(&mut self) -> Result<&mut Scratch, Errno> {
        self.tree.as_mut().map(|tree| &mut tree.scratch).ok_or(Errno::INVAL)
    }

    fn begin(&mut self, root: Result<OwnedFd, Errno>) -> Result<(), Errno> {
        self.tree = Some(Tree::new(root?)?);
        Ok(())
    }

    fn mount_one(&mut self, op: &MountOp, reporter: &mut Reporter) -> StepResult<()> {
        match op {
            MountOp::HostTree { access } => self.begin(host_tree(*access)).on(Step::Mounts, "/"),
            MountOp::EmptyRoot => self.begin(empty_root()).on(Step::Mounts, "/"),
            MountOp::Tmpfs { at, mode, size } => {
                let mount = tmpfs(*mode, *size, self.owner()).on(Step::Mounts, at)?;
                if op.denied().is_some() {
                    self.forget_parents_below(at);
                    let place = self.open(at, false).on(Step::Mounts, at)?;
                    return self.deny(&mount, &place, at);
                }
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
                let tree = match id {
                    // Only root makes names in the host's `/dev`.
                    None if *devices => open_tree(rustix::fs::CWD, from.as_bytes(), clone_flags()),
                    id => {
                        let source = approved(from, id.as_deref())?;
                        open_tree(&source, "", clone_flags() | OpenTreeFlags::AT_EMPTY_PATH)
                    }
                };
                let tree = tree.on(Step::Mounts, from)?;
                let read_only = *access == Access::ReadOnly;
                let attr = MountAttr { read_only, no_devices: !devices, recursive: true };
                set_mount_attributes(&tree, attr).on(Step::Mounts, from)?;
                self.attach(&tree, at)
            }
            MountOp::Overlay { lower, id, upper, work, at } => {
                let lower = approved(lower, id.as_deref())?;
                let (layer, work) = (approved(upper, None)?, approved(work, None)?);
                let mount = match overlay(&lower, &layer, &work) {
                    Ok(mount) => mount,
                    Err(error) => {
                        self.overlay_missing = Some(error);
                        let tree = open_tree(&layer, "", clone_flags() | OpenTreeFlags::AT_EMPTY_PATH)
                            .on(Step::Mounts, upper)?;
                        let attr = MountAttr { read_only: false, no_devices: true, recursive: true };
                        set_mount_attributes(&tree, attr).on(Step::Mounts, upper)?;
                        tree
                    }
                };
                self.attach(&mount, at)
            }
            MountOp::Mask { at, directory, may_be_gone } => {
                let cover = self.cover(if *directory { "directory" } else { "file" }).on(Step::Mounts, at)?;
                match self.open(at, false) {
                    Err(Errno::NOENT) if *may_be_gone => Ok(()),
                    // A host program may remove its socket, and the cover with it, at any time.
                    Ok(place) if *may_be_gone => attach(&cover, &place).on(Step::Mounts, at),
                    place => self.deny(&cover, &place.on(Step::Mounts, at)?, at),
                }
            }
            MountOp::Cover { at, content } => {
                let cover =
                    self.scratch().and_then(|scratch| scratch.cover_with(content)).on(Step::Mounts, at)?;
                self.attach(&cover, at)
            }
            MountOp::Pin { at, id, symlink, read_only } => {
                let place = self.open(at, *symlink).on(Step::Mounts, at)?;
                compare(&place, at, id.as_deref())?;
                let tree = open_tree(&place, "", clone_flags() | OpenTreeFlags::AT_EMPTY_PATH)
                    .on(Step::Mounts, at)?;
                if *read_only {
                    let attr = MountAttr { read_only: true, no_devices: true, recursive: true };
                    set_mount_attributes(&tree, attr).on(Step::Mounts, at)?;
                }
                self.fix(&tree, &place).map(drop).on(Step::Mounts, at)
            }
            MountOp::Devpts { at } => {
                let mount = devpts(self.owner()).on(Step::Mounts, at)?;
                self.attach(&mount, at)
            }
            MountOp::Proc { at, user_namespaces } => self.proc(at, *user_namespaces, reporter),
            MountOp::Seal { at } => {
                let place = self.open(at, false).on(Step::Mounts, at)?;
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
        Some(self.foundation.groundwork.identity).filter(|identity| identity.switch)
    }

    fn attach(&mut self, mount: &OwnedFd, at: &UnixPath) -> StepResult<()> {
        // Nobody outside reaches the box's own `/dev`: what was just made there needs neither a look for symlinks nor
        // a watch.
        if let (Some((parent, directory)), Some(name)) = (&self.parent, at.components().last())
            && parent.starts_with(&DEV.into())
            && at.parent().as_ref() == Some(parent)
        {
            return attach_in(mount, directory, name).on(Step::Mounts, at);
        }
        self.forget_parents_below(at);
        let place = self.open(at, false).on(Step::Mounts, at)?;
        self.fix(mount, &place).map(drop).on(Step::Mounts, at)
    }

    /// A mount hides what was made below its place.
    fn forget_parents_below(&mut self, at: &UnixPath) {
        if self.parent.as_ref().is_some_and(|(path, _)| path.starts_with(at)) {
            self.parent = None;
        }
    }

    fn cover(&mut self, name: &str) -> Result<OwnedFd, Errno> {
        self.scratch().and_then(|scratch| scratch.cover(name))
    }

    /// Opens a place of the box.
    fn open(&self, at: &UnixPath, symlink: bool) -> Result<OwnedFd, Errno> {
        open_canonical(self.root()?, relative(at), symlink)
    }

    /// Attaches a mask. A place that has one already is another denied file's, which somebody outside renames to and
    /// fro: then one of the two would stay open.
    fn deny(&mut self, mask: &OwnedFd, place: &OwnedFd, at: &UnixPath) -> StepResult<()> {
        if self.masks.contains(&mount_id(place).on(Step::Mounts, at)?) {
            return Err(changed(at));
        }
        let mask = self.fix(mask, place).on(Step::Mounts, at)?;
        self.masks.insert(mask);
        Ok(())
    }

    /// Attaches a mount that must stay until the end of the run. Returns its number.
    fn fix(&mut self, mount: &OwnedFd, place: &OwnedFd) -> Result<u64, Errno> {
        let id = mount_id(mount)?;
        self.made.push(id);
        attach(mount, place)?;
        Ok(id)
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
            _ => self.open(&path, false)?,
        };
        let made = make(&parent, name);
        self.parent = Some((path, parent));
        made
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

/// Goes to the working directory, if it is still what was checked.
pub(super) fn enter(path: &UnixPath, id: Option<&FileId>) -> StepResult<()> {
    let directory = open_canonical(rustix::fs::CWD, path.as_bytes(), false).on(Step::Limits, path)?;
    compare(&directory, path, id).map_err(|fault| Fault { step: Step::Limits, ..fault })?;
    rustix::process::fchdir(&directory).on(Step::Limits, path)
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
    Err(changed(path))
}

fn changed(path: &UnixPath) -> Fault {
    let mut fault = Fault::new(Step::Mounts, Errno::STALE, Some(path.to_string()));
    fault.kind = FaultKind::Changed;
    fault
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

/// Attaches a mount below a directory where nobody else can make names. A symlink is not followed.
fn attach_in(mount: &OwnedFd, directory: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    move_mount(mount, "", directory, name, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
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

/// pivot_root(2) of the new root onto itself puts the old one on top of it, where no path leads.
fn pivot(root: &OwnedFd) -> StepResult<()> {
    rustix::process::fchdir(root).on(Step::Pivot, "/")?;
    rustix::process::pivot_root(".", ".").on(Step::Pivot, "/")
}

/// Detaches the old root, which the working directory is covered by since [`pivot`]. The kernel takes its time for
/// that, so the target is made meanwhile.
pub(super) fn detach_old_root() -> StepResult<()> {
    unmount(".", UnmountFlags::DETACH).on(Step::Pivot, "the old root")?;
    rustix::process::chdir("/").on(Step::Pivot, "/")
}
