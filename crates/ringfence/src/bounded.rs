use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::path::Path;

use rustix::buffer::spare_capacity;
use rustix::fs::{Mode, OFlags, RawDir};
use rustix::io::{Errno, retry_on_intr};

/// Read at once of a file that turns out to be longer than it said.
const PIECE: usize = 4 << 10;

/// Whether the last component may be a symlink.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Follow {
    Yes,
    No,
}

/// Why a file was not read.
#[derive(Debug)]
pub(crate) enum ReadError {
    Io(io::Error),
    /// A directory, a pipe, a socket, a device, or a symlink that must not be followed.
    NotRegular,
    TooLarge,
}

/// Reads a regular file of at most `limit` bytes. A pipe, a device or an endless file can neither block nor
/// exhaust the reader.
pub(crate) fn read(path: &Path, follow: Follow, limit: u64) -> Result<Vec<u8>, ReadError> {
    let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    if follow == Follow::No {
        flags |= OFlags::NOFOLLOW;
    }
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        // A symlink with O_NOFOLLOW, a socket.
        Err(Errno::LOOP | Errno::NXIO) => return Err(ReadError::NotRegular),
        Err(errno) => return Err(ReadError::Io(errno.into())),
    };
    let metadata = file.metadata().map_err(ReadError::Io)?;
    if !metadata.is_file() {
        return Err(ReadError::NotRegular);
    }
    let size = metadata.len();
    // One byte of room more than there should be, so that a file that has grown shows.
    let mut bytes = Vec::with_capacity(usize::try_from(size.min(limit) + 1).unwrap_or_default());
    while bytes.len() as u64 <= limit {
        let read = retry_on_intr(|| rustix::io::read(&file, spare_capacity(&mut bytes)));
        if read.map_err(|errno| ReadError::Io(errno.into()))? == 0 || bytes.len() as u64 == size {
            break;
        }
        bytes.reserve(PIECE);
    }
    if bytes.len() as u64 > limit { Err(ReadError::TooLarge) } else { Ok(bytes) }
}

/// Room for the entries of a usual directory.
const BUFFER: usize = 8 << 10;

/// Names the entries of a directory, at most `limit` of them; `false` if there may be more. A missing directory
/// has none.
pub(crate) fn names_in(directory: &Path, limit: usize, mut each: impl FnMut(&[u8])) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = match rustix::fs::open(directory, flags, Mode::empty()) {
        Ok(opened) => opened,
        Err(errno) => return matches!(errno, Errno::NOENT | Errno::NOTDIR),
    };
    let mut buffer = [MaybeUninit::uninit(); BUFFER];
    let mut entries = RawDir::new(opened, &mut buffer);
    let mut count = 0;
    while let Some(entry) = entries.next() {
        let Ok(entry) = entry else { return false };
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        if count == limit {
            return false;
        }
        count += 1;
        each(name);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_has_neither_itself_nor_more_than_its_limit() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), "").unwrap();
        std::fs::write(dir.path().join("b"), "").unwrap();
        let list = |path: &Path, limit| {
            let mut names = Vec::new();
            let complete = names_in(path, limit, |name| names.push(name.to_vec()));
            names.sort();
            (names, complete)
        };
        assert_eq!(list(dir.path(), 2), (vec![b"a".to_vec(), b"b".to_vec()], true));
        assert_eq!((list(dir.path(), 1).0.len(), list(dir.path(), 1).1), (1, false));
        assert_eq!(list(&dir.path().join("absent"), 1), (Vec::new(), true));
        assert_eq!(list(&dir.path().join("a"), 1), (Vec::new(), true), "a file");
    }
}
