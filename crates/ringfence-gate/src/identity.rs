//! Identity of files: what was approved is what is mounted.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use ringfence_types::{FileId, Owner};
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

/// The owner of a file by the ids that stat(2) gave; `None` if it has no id in this user namespace, so that nobody
/// here can act as that owner.
pub fn owner(uid: u32, gid: u32) -> Option<Owner> {
    /// What an id without a mapping is shown as (user_namespaces(7), `/proc/sys/kernel/overflowuid`).
    const OVERFLOW: u32 = 65534;
    // Where 65534 is mapped it is an id like any other.
    let maps = (uid == OVERFLOW).then(|| fs::read_to_string("/proc/self/uid_map"));
    let known = !matches!(maps, Some(Ok(maps)) if !is_mapped(&maps, uid));
    known.then_some(Owner { uid, gid })
}

/// Whether a map (first id inside, first id outside, number; user_namespaces(7)) has this id inside.
fn is_mapped(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|field| field.parse().ok()).collect();
        matches!(numbers[..], [first, _, count] if (first..first + count).contains(&id.into()))
    })
}

/// The identity of what lies at a canonical path: a symlink at its end is not followed.
///
/// # Errors
/// The system's answer to statx(2).
pub fn of_path(path: &Path) -> io::Result<FileId> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    Ok(of_stat(&rustix::fs::statx(CWD, path, flags, StatxFlags::INO | StatxFlags::BTIME)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_mapped_where_a_line_covers_it() {
        let all = "         0          0 4294967295\n";
        let own = "         0      12345          1\n";
        let many = "0 1000 1\n1 100000 65536\n";
        for (map, id, mapped) in
            [(all, 65534, true), (own, 65534, false), (own, 0, true), (many, 65534, true), ("", 0, false)]
        {
            assert_eq!(is_mapped(map, id), mapped, "{id} in {map:?}");
        }
    }
}
