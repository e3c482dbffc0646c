//! The box's mount table, as PID 1 watches it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

const MOUNT_TABLE: &str = "/proc/self/mountinfo";

/// The table, and the mounts of the plan that must stay in it.
///
/// A mount that goes away takes the protection of what it covered with it, and it does so when a program outside
/// renames another file over that or removes it. The table changes too when the host takes away one of its own
/// mounts and the folder below it; that uncovers nothing of ours.
#[derive(Debug)]
pub(super) struct MountTable {
    file: OwnedFd,
    own: Vec<u64>,
}

/// Number of a mount in the table (statx(2), `STATX_MNT_ID`).
pub(super) fn mount_id(mount: impl AsFd) -> Result<u64, Errno> {
    Ok(rustix::fs::statx(mount, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?.stx_mnt_id)
}

impl MountTable {
    /// `own` are the mounts that must stay.
    pub(super) fn open(mut own: Vec<u64>) -> Result<Self, Errno> {
        own.sort_unstable();
        let file = rustix::fs::open(MOUNT_TABLE, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { file, own })
    }

    /// Has an exceptional condition whenever the table changes (proc_pid_mountinfo(5)).
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Whether one of our mounts is gone. A table that can't be read is taken for that.
    pub(super) fn has_lost(&self) -> bool {
        let mut present = vec![false; self.own.len()];
        let mut ids = Ids::default();
        let mut buffer = [0; 4096];
        let mut offset = 0;
        loop {
            match rustix::io::pread(&self.file, &mut buffer, offset) {
                Ok(0) => return present.contains(&false),
                Ok(length) => {
                    offset += length as u64;
                    ids.feed(&buffer[..length], |id| {
                        if let Ok(at) = self.own.binary_search(&id) {
                            present[at] = true;
                        }
                    });
                }
                Err(Errno::INTR) => {}
                Err(_) => return true,
            }
        }
    }
}

/// Picks the first field of each line out of a text that comes in pieces.
#[derive(Debug, Default)]
struct Ids {
    value: u64,
    past_the_field: bool,
}

impl Ids {
    fn feed(&mut self, piece: &[u8], mut found: impl FnMut(u64)) {
        for &byte in piece {
            match byte {
                b'\n' => *self = Self::default(),
                _ if self.past_the_field => {}
                b'0'..=b'9' => self.value = self.value.wrapping_mul(10).wrapping_add(u64::from(byte - b'0')),
                _ => {
                    self.past_the_field = true;
                    found(self.value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_field_of_each_line_in_whatever_pieces() {
        let text = b"24 1 0:22 / / rw 17\n1203 24 0:5 / /a\\0401 ro\n7 24 0:6 / /b ro\n";
        for size in 1..=text.len() {
            let (mut ids, mut found) = (Ids::default(), Vec::new());
            text.chunks(size).for_each(|piece| ids.feed(piece, |id| found.push(id)));
            assert_eq!(found, [24, 1203, 7], "pieces of {size}");
        }
    }

    #[test]
    fn a_mount_is_present_until_it_is_gone() {
        let root = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let own = mount_id(&root).unwrap();
        assert!(!MountTable::open(vec![own]).unwrap().has_lost());
        assert!(MountTable::open(vec![own, u64::MAX]).unwrap().has_lost());
    }
}
