use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, fcntl_getfl, fcntl_setfl, fstat, open};
use rustix::io::{Errno, fcntl_dupfd_cloexec};

/// A descriptor on which nothing blocks, for a file that may be shared with other programs.
///
/// `O_NONBLOCK` belongs to the open file, so setting it on the caller's terminal would change it for the caller's
/// shell as well, for good if this process is killed. The file is opened anew where that is possible; else the
/// flag is set on the shared one and taken back on drop.
#[derive(Debug)]
pub(crate) struct NonBlocking {
    fd: OwnedFd,
    /// The flags to restore, where the file is shared.
    restore: Option<OFlags>,
}

impl NonBlocking {
    /// For a descriptor that nobody else has.
    pub(crate) fn own(fd: OwnedFd) -> Result<Self, Errno> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self { fd, restore: None })
    }

    /// For one of the caller's descriptors.
    pub(crate) fn shared(fd: BorrowedFd<'_>) -> Result<Self, Errno> {
        let kind = FileType::from_raw_mode(fstat(fd)?.st_mode);
        let copy = fcntl_dupfd_cloexec(fd, 3)?;
        // Regular files don't block, and the file position must stay shared.
        if matches!(kind, FileType::RegularFile | FileType::Directory | FileType::BlockDevice) {
            return Ok(Self { fd: copy, restore: None });
        }
        let flags = fcntl_getfl(&copy)?;
        if let Some(fd) = reopen(&copy, kind, flags) {
            return Ok(Self { fd, restore: None });
        }
        let shared = Self { fd: copy, restore: (!flags.contains(OFlags::NONBLOCK)).then_some(flags) };
        shared.resume();
        Ok(shared)
    }

    /// Gives the file its own flags back, before this process stops.
    pub(crate) fn suspend(&self) {
        if let Some(flags) = self.restore {
            // The file exists and the flags were its own: there is no error that could be acted on.
            let _ = fcntl_setfl(&self.fd, flags);
        }
    }

    /// Takes up work again after [`Self::suspend`].
    pub(crate) fn resume(&self) {
        if let Some(flags) = self.restore {
            // As above.
            let _ = fcntl_setfl(&self.fd, flags | OFlags::NONBLOCK);
        }
    }
}

impl AsFd for NonBlocking {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for NonBlocking {
    fn drop(&mut self) {
        self.suspend();
    }
}

/// Opens the file behind `fd` once more (proc(5), `/proc/self/fd`). `None` if that is not possible: sockets,
/// another user's terminal, no `/proc`.
fn reopen(fd: &OwnedFd, kind: FileType, flags: OFlags) -> Option<OwnedFd> {
    // A pseudo-terminal's master would become a new pair.
    if kind == FileType::CharacterDevice && rustix::pty::ptsname(fd, Vec::new()).is_ok() {
        return None;
    }
    let access = flags & OFlags::ACCMODE;
    // Both directions of a terminal are of use; a pipe has only one per descriptor.
    let wanted = if kind == FileType::CharacterDevice { [OFlags::RDWR, access] } else { [access, access] };
    let extra = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let opened = wanted.into_iter().find_map(|access| open(&path, access | extra, Mode::empty()).ok())?;
    let (new, old) = (fstat(&opened).ok()?, fstat(fd).ok()?);
    ((new.st_dev, new.st_ino) == (old.st_dev, old.st_ino)).then_some(opened)
}

#[cfg(test)]
mod tests {
    use rustix::fs::CWD;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use rustix::pipe::pipe;

    use super::*;

    fn is_nonblocking(fd: impl AsFd) -> bool {
        fcntl_getfl(fd).unwrap().contains(OFlags::NONBLOCK)
    }

    #[test]
    fn a_pipe_of_the_caller_keeps_its_flags() {
        let (reader, writer) = pipe().unwrap();
        for end in [&reader, &writer] {
            let own = NonBlocking::shared(end.as_fd()).unwrap();
            assert!(is_nonblocking(&own));
            assert!(!is_nonblocking(end));
        }
    }

    #[test]
    fn a_socket_gets_its_flags_back() {
        let (socket, _peer) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        let own = NonBlocking::shared(socket.as_fd()).unwrap();
        assert!(is_nonblocking(&socket));
        own.suspend();
        assert!(!is_nonblocking(&socket));
        own.resume();
        assert!(is_nonblocking(&socket));
        drop(own);
        assert!(!is_nonblocking(&socket));
    }

    #[test]
    fn a_socket_that_was_non_blocking_stays_so() {
        let (socket, _peer) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK, None).unwrap();
        drop(NonBlocking::shared(socket.as_fd()).unwrap());
        assert!(is_nonblocking(&socket));
    }

    #[test]
    fn a_file_keeps_its_position() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "abc").unwrap();
        let file = rustix::fs::openat(CWD, &path, OFlags::RDONLY, Mode::empty()).unwrap();
        let mut byte = [0; 1];
        rustix::io::read(&file, &mut byte).unwrap();
        rustix::io::read(NonBlocking::shared(file.as_fd()).unwrap(), &mut byte).unwrap();
        assert_eq!(byte, *b"b");
        rustix::io::read(&file, &mut byte).unwrap();
        assert_eq!(byte, *b"c");
    }

    #[test]
    fn a_master_is_not_replaced_by_a_new_pair() {
        let master =
            rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY).unwrap();
        let name = rustix::pty::ptsname(&master, Vec::new()).unwrap();
        let own = NonBlocking::shared(master.as_fd()).unwrap();
        assert_eq!(rustix::pty::ptsname(&own, Vec::new()).unwrap(), name);
        drop(own);
        assert!(!is_nonblocking(&master));
    }
}
