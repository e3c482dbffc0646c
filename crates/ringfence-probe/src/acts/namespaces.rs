//! Acts that make or enter namespaces, or change mounts.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::AsRawFd;

use serde_json::{Value, json};

use super::files::done;
use super::{Act, act};
use crate::args::{Args, Failure, Outcome};
use crate::sys::{fork, sys, wait};

pub(super) const ACTS: &[Act] = &[
    act("unshare", "KINDS", |args| done(sys!(libc::SYS_unshare, kinds(args.text(0)?)?))),
    act("clone", "KINDS", clone),
    act("clone3", "KINDS", clone3),
    act("setns", "KIND", |args| setns("self", args.text(0)?)),
    act("setns-of", "PID KIND", |args| setns(args.text(0)?, args.text(1)?)),
    act("chroot", "DIR", |args| done(sys!(libc::SYS_chroot, args.os(0)?))),
    act("pivot-root", "NEW OLD", |args| done(sys!(libc::SYS_pivot_root, args.os(0)?, args.os(1)?))),
    act("mount-bind", "FROM TO", |args| {
        done(sys!(libc::SYS_mount, args.os(0)?, args.os(1)?, 0, libc::MS_BIND, 0))
    }),
    act("mount-fs", "TYPE DIR", |args| {
        done(sys!(libc::SYS_mount, args.os(0)?, args.os(1)?, args.os(0)?, 0, 0))
    }),
    act("remount-writable", "PATH", remount_writable),
    act("umount", "PATH", |args| done(sys!(libc::SYS_umount2, args.os(0)?, libc::MNT_DETACH))),
    act("open-tree", "PATH", |args| done(open_tree(args.os(0)?))),
    act("move-mount", "FROM TO", move_mount),
    act("fsopen", "TYPE", |args| done(sys!(libc::SYS_fsopen, args.os(0)?, 0))),
    act("fsconfig", "TYPE", fsconfig),
    act("fsmount", "TYPE", fsmount),
    act("fspick", "PATH", |args| done(sys!(libc::SYS_fspick, libc::AT_FDCWD, args.os(0)?, 0))),
    act("mount-setattr", "PATH", mount_setattr),
    act("userns-umount", "PATH", userns_umount),
    act("userns-write", "PATH", userns_write),
    act("set-hostname", "NAME", |args| done(sys!(libc::SYS_sethostname, args.os(0)?, args.os(0)?.len()))),
];

/// Flags of `CLONE_NEW*` from names joined by commas.
pub(super) fn kinds(names: &str) -> Result<i64, Failure> {
    const CLONE_NEWTIME: i32 = 0x80;
    names.split(',').try_fold(0, |flags, name| {
        let flag = match name {
            "user" => libc::CLONE_NEWUSER,
            "mnt" => libc::CLONE_NEWNS,
            "pid" => libc::CLONE_NEWPID,
            "net" => libc::CLONE_NEWNET,
            "ipc" => libc::CLONE_NEWIPC,
            "uts" => libc::CLONE_NEWUTS,
            "cgroup" => libc::CLONE_NEWCGROUP,
            "time" => CLONE_NEWTIME,
            _ => return Err(Failure::Usage),
        };
        Ok(flags | i64::from(flag))
    })
}

/// Leaves for new namespaces. A user namespace comes first and maps the caller to root.
pub(super) fn enter_new(names: &str) -> Result<(), Failure> {
    let flags = kinds(names)?;
    let user = i64::from(libc::CLONE_NEWUSER);
    if flags & user != 0 {
        let (uid, gid) = (sys!(libc::SYS_geteuid)?, sys!(libc::SYS_getegid)?);
        sys!(libc::SYS_unshare, user)?;
        fs::write("/proc/self/uid_map", format!("0 {uid} 1"))?;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/gid_map", format!("0 {gid} 1"))?;
    }
    sys!(libc::SYS_unshare, flags & !user)?;
    if flags & i64::from(libc::CLONE_NEWNS) != 0 {
        sys!(libc::SYS_mount, 0, "/", 0, libc::MS_REC | libc::MS_PRIVATE, 0)?;
    }
    Ok(())
}

fn clone(args: &Args) -> Outcome {
    let child = fork(kinds(args.text(0)?)? as i32, || 0)?;
    Ok(json!(libc::WEXITSTATUS(wait(child)?)))
}

/// clone3(2), whose flags lie in memory where a filter can't see them.
fn clone3(args: &Args) -> Outcome {
    const FIELDS: usize = 8;
    let mut clone_args = [0_u64; FIELDS];
    clone_args[0] = kinds(args.text(0)?)? as u64;
    clone_args[4] = libc::SIGCHLD as u64;
    let bytes: Vec<u8> = clone_args.iter().flat_map(|field| field.to_ne_bytes()).collect();
    let child = sys!(libc::SYS_clone3, bytes, FIELDS * 8)?;
    if child == 0 {
        std::process::exit(0);
    }
    wait(child as i32)?;
    Ok(Value::Null)
}

fn setns(process: &str, kind: &str) -> Outcome {
    let namespace = File::open(format!("/proc/{process}/ns/{kind}"))?;
    done(sys!(libc::SYS_setns, namespace.as_raw_fd(), 0))
}

fn remount_writable(args: &Args) -> Outcome {
    let flags = libc::MS_REMOUNT | libc::MS_BIND;
    done(sys!(libc::SYS_mount, 0, args.os(0)?, 0, flags, 0))
}

const OPEN_TREE_CLONE: i64 = 1;

fn open_tree(path: &OsStr) -> std::io::Result<i64> {
    sys!(libc::SYS_open_tree, libc::AT_FDCWD, path, OPEN_TREE_CLONE)
}

/// A clone of FROM mounted on TO. Without a clone to move, the call is still made.
fn move_mount(args: &Args) -> Outcome {
    const MOVE_MOUNT_F_EMPTY_PATH: i64 = 4;
    let target = args.os(1)?;
    let tree = open_tree(args.os(0)?).unwrap_or(-1);
    done(sys!(libc::SYS_move_mount, tree, "", libc::AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH))
}

const FSCONFIG_CMD_CREATE: i64 = 6;

fn fsconfig(args: &Args) -> Outcome {
    let context = sys!(libc::SYS_fsopen, args.os(0)?, 0).unwrap_or(-1);
    done(sys!(libc::SYS_fsconfig, context, FSCONFIG_CMD_CREATE, 0, 0, 0))
}

fn fsmount(args: &Args) -> Outcome {
    let context = sys!(libc::SYS_fsopen, args.os(0)?, 0).unwrap_or(-1);
    if context >= 0 {
        sys!(libc::SYS_fsconfig, context, FSCONFIG_CMD_CREATE, 0, 0, 0)?;
    }
    done(sys!(libc::SYS_fsmount, context, 0, 0))
}

/// mount_setattr(2) that clears the read-only flag.
fn mount_setattr(args: &Args) -> Outcome {
    const MOUNT_ATTR_RDONLY: u64 = 1;
    let attributes: Vec<u8> =
        [0, MOUNT_ATTR_RDONLY, 0, 0].iter().flat_map(|field: &u64| field.to_ne_bytes()).collect();
    let size = attributes.len();
    done(sys!(libc::SYS_mount_setattr, libc::AT_FDCWD, args.os(0)?, 0, attributes, size))
}

/// Undoes a mask from a user namespace of one's own, then reads what it hid.
fn userns_umount(args: &Args) -> Outcome {
    let path = args.path(0)?;
    enter_new("user,mnt")?;
    sys!(libc::SYS_umount2, path.as_os_str(), libc::MNT_DETACH)?;
    if path.is_dir() {
        return Ok(json!(fs::read_dir(path)?.count()));
    }
    Ok(json!(String::from_utf8_lossy(&fs::read(path)?)))
}

/// Makes a read-only mount writable from a user namespace of one's own, then writes there.
fn userns_write(args: &Args) -> Outcome {
    enter_new("user,mnt")?;
    sys!(libc::SYS_mount, 0, args.os(0)?, 0, libc::MS_REMOUNT | libc::MS_BIND, 0)?;
    done(fs::write(args.path(0)?.join("planted"), b"planted\n"))
}
