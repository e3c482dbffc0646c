//! Step *proc*: the box's own `/proc`.

use std::os::fd::OwnedFd;

use ringfence_types::{LayerName, LayerStatus, Step, UnixPath};
use rustix::fs::{FileType, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::open_tree;

use super::{Builder, attach, attach_in};
use crate::launcher::detached::{clone_flags, fresh_proc};
use crate::launcher::report::{At, Reporter, StepResult};
use crate::sys::{MountAttr, set_mount_attributes};

/// Parts of `/proc` that are read-only inside.
const PROC_READ_ONLY: [&str; 3] = ["bus", "irq", "sys"];
/// Parts of `/proc` that are covered.
const PROC_MASKED: [&str; 5] = ["kcore", "keys", "kmsg", "sysrq-trigger", "timer_list"];

impl Builder<'_> {
    /// Fresh, while the old `/proc` is still there: without one in sight the kernel refuses.
    pub(super) fn proc(
        &mut self,
        at: &UnixPath,
        user_namespaces: bool,
        reporter: &mut Reporter,
    ) -> StepResult<()> {
        self.foundation.fault_point(Step::Proc)?;
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
        let place = self.open(at, false).on(Step::Proc, at)?;
        self.fix(&proc, &place).on(Step::Proc, at)?;
        if !user_namespaces {
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
        let as_root = self.foundation.groundwork.identity.uid == 0;
        if fresh && as_root && !user_namespaces {
            // The files beside the processes' directories are the machine's: their owner, root, changes mode and owner
            // for every instance of proc, and needs no capability for that.
            let attr = MountAttr { read_only: true, no_devices: true, recursive: false };
            set_mount_attributes(&proc, attr).on(Step::Proc, at)?;
        } else if fresh {
            let names = if as_root { machine_files(&proc).on(Step::Proc, at)? } else { Vec::new() };
            let names = PROC_READ_ONLY.into_iter().map(str::as_bytes).chain(names.iter().map(Vec::as_slice));
            for name in names {
                read_only_in(&proc, name).on(Step::Proc, at.join(name))?;
            }
        }
        for name in PROC_MASKED {
            // Looked for first: the kernel takes a millisecond to drop a mount that finds no place.
            let made = openat(&proc, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
                .and_then(|place| attach(&self.cover("file")?, &place));
            unless_absent(made).on(Step::Proc, at.join(name))?;
        }
        Ok(())
    }
}

/// Makes a part of `/proc` read-only. These names are the kernel's own; nobody puts another in their place.
fn read_only_in(proc: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    let made = open_tree(proc, name, clone_flags()).and_then(|tree| {
        set_mount_attributes(&tree, MountAttr { read_only: true, no_devices: true, recursive: true })?;
        attach_in(&tree, proc, name)
    });
    unless_absent(made)
}

/// What lies in `/proc` beside the processes' directories and is read-only or covered by no other rule.
fn machine_files(proc: &OwnedFd) -> Result<Vec<Vec<u8>>, Errno> {
    let directory = openat(proc, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        let covered = PROC_READ_ONLY.iter().chain(&PROC_MASKED).any(|known| known.as_bytes() == name);
        // Those beginning with a dot are the directory and its parent; symlinks lead to a process's own.
        let own = name.starts_with(b".") || name.iter().all(u8::is_ascii_digit);
        if !own && !covered && entry.file_type() != FileType::Symlink {
            names.push(name.to_vec());
        }
    }
    Ok(names)
}

fn write_in(directory: &OwnedFd, name: &str, content: &[u8]) -> Result<(), Errno> {
    let file = openat(directory, name, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, content).map(drop)
}

/// What a kernel doesn't have needs no cover.
fn unless_absent(made: Result<(), Errno>) -> Result<(), Errno> {
    match made {
        Err(Errno::NOENT) => Ok(()),
        made => made,
    }
}
