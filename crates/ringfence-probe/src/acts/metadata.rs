//! Acts on a file's metadata, by path and through a descriptor that is open for reading only.

use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::time::SystemTime;

use super::files::done;
use super::{Act, act};
use crate::args::{Args, Failure, Outcome};
use crate::sys::sys;

pub(super) const ACTS: &[Act] = &[
    act("chmod", "PATH MODE", |args| {
        done(fs::set_permissions(args.path(0)?, Permissions::from_mode(mode(args)?)))
    }),
    act("chown", "PATH UID GID", |args| {
        done(std::os::unix::fs::chown(args.path(0)?, Some(args.int(1)? as u32), Some(args.int(2)? as u32)))
    }),
    act("utimes", "PATH", |args| done(sys!(libc::SYS_utimensat, libc::AT_FDCWD, args.os(0)?, 0, 0))),
    act("set-xattr", "PATH", |args| {
        done(sys!(libc::SYS_setxattr, args.os(0)?, "user.planted", b"1".to_vec(), 1, 0))
    }),
    act("fd-chmod", "PATH MODE", |args| {
        done(File::open(args.path(0)?)?.set_permissions(Permissions::from_mode(mode(args)?)))
    }),
    act("fd-chown", "PATH UID GID", fd_chown),
    act("fd-utimes", "PATH", |args| {
        done(File::open(args.path(0)?)?.set_times(FileTimes::new().set_modified(SystemTime::UNIX_EPOCH)))
    }),
    act("fd-set-xattr", "PATH", fd_set_xattr),
    act("fd-set-flags", "PATH", fd_set_flags),
    act("opath-chmod", "PATH MODE", opath_chmod),
];

fn mode(args: &Args) -> Result<u32, Failure> {
    u32::from_str_radix(args.text(1)?, 8).map_err(|_| Failure::Usage)
}

fn fd_chown(args: &Args) -> Outcome {
    let (uid, gid) = (args.int(1)? as u32, args.int(2)? as u32);
    done(std::os::unix::fs::fchown(File::open(args.path(0)?)?, Some(uid), Some(gid)))
}

fn fd_set_xattr(args: &Args) -> Outcome {
    let file = File::open(args.path(0)?)?;
    done(sys!(libc::SYS_fsetxattr, file.as_raw_fd(), "user.planted", b"1".to_vec(), 1, 0))
}

/// `FS_IOC_SETFLAGS` with "no dump", which its owner may set (ioctl_iflags(2)).
fn fd_set_flags(args: &Args) -> Outcome {
    const FS_NODUMP_FL: u32 = 0x40;
    const FS_IOC_SETFLAGS: u64 = 0x4008_6602;
    let file = File::open(args.path(0)?)?;
    let flags = u64::from(FS_NODUMP_FL).to_ne_bytes().to_vec();
    done(sys!(libc::SYS_ioctl, file.as_raw_fd(), FS_IOC_SETFLAGS, flags))
}

/// chmod(2) through the magic link of a path descriptor.
fn opath_chmod(args: &Args) -> Outcome {
    let mode = mode(args)?;
    let held = open_path(args)?;
    let magic = format!("/proc/self/fd/{}", held.as_raw_fd());
    done(fs::set_permissions(magic, Permissions::from_mode(mode)))
}

/// The path as an `O_PATH` descriptor, symlinks followed.
pub(super) fn open_path(args: &Args) -> Result<File, Failure> {
    let path = args.path(0)?;
    Ok(OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path)?)
}
