//! Identity of files: what was approved is what is mounted.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use ringfence_types::FileId;
use rustix::fs::{AtFlags, CWD, Statx, StatxFlags};

/// The identity of what a descriptor refers to (statx(2)). Works on `O_PATH` descriptors.
///
/// There is no file handle in it: birth time in nanoseconds tells a reused inode number from the old one, and
/// while a descriptor of the approved file is held its number is not reused at all.
///
/// # Errors
/// The system's answer to statx(2).
pub fn of_fd(fd: impl AsFd) -> io::Result<FileId> {
    Ok(of_stat(&rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::INO | StatxFlags::BTIME)?))
}

/// The identity in what statx(2) has said. It must have been asked for inode number and birth time.
pub(crate) fn of_stat(stat: &Statx) -> FileId {
    let birth = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
    FileId {
        dev: rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor),
        ino: stat.stx_ino,
        birth: birth
            .then(|| i128::from(stat.stx_btime.tv_sec) * 1_000_000_000 + i128::from(stat.stx_btime.tv_nsec)),
        handle: None,
    }
}

/// The identity of what lies at a canonical path: a symlink at its end is not followed.
///
/// # Errors
/// The system's answer to statx(2).
pub fn of_path(path: &Path) -> io::Result<FileId> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    Ok(of_stat(&rustix::fs::statx(CWD, path, flags, StatxFlags::INO | StatxFlags::BTIME)?))
}
