use std::os::fd::BorrowedFd;

use nix::unistd::tcgetpgrp;
use rustix::fs::{FileType, OFlags, Stat, fcntl_getfl, fstat, major, minor};
use rustix::termios::isatty;

/// The three standard descriptors of whoever runs the command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller<'fd> {
    /// Standard input, output and error.
    pub(crate) fds: [BorrowedFd<'fd>; 3],
}

impl Caller<'static> {
    /// This process's own.
    pub(crate) fn standard() -> Self {
        Self { fds: [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()] }
    }
}

/// What a descriptor of the caller leads to, as far as it decides how the box gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Relayed through the inner terminal: whoever has the outer one can reconfigure it and read what is typed.
    Terminal,
    /// Handed over: pipes, and devices that every box has, which it opens itself.
    Plain,
    /// A regular file.
    Regular,
    /// Relayed byte by byte: a socket can be connected elsewhere, a directory leads out of the box, a device
    /// understands more than reads and writes.
    Opaque,
    /// Closed, or not open in the direction of the stream.
    Unusable,
}

/// Major number of the memory devices, and the minor ones that every box has
/// (Documentation/admin-guide/devices.txt in the kernel's sources).
const MEMORY: u32 = 1;
const MEMORY_DEVICES: [(u32, &str); 5] =
    [(3, "/dev/null"), (5, "/dev/zero"), (7, "/dev/full"), (8, "/dev/random"), (9, "/dev/urandom")];
/// `/dev/tty`, which stands for the controlling terminal.
const CONTROLLING_TERMINAL: (u32, u32) = (5, 0);
/// The master side of every pseudo-terminal.
const PTY_MASTER: (u32, u32) = (5, 2);

/// Where every box has its own node of this device, if it is such a one.
pub(crate) fn memory_device(stat: &Stat) -> Option<&'static str> {
    let is_device = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice;
    let minor = (is_device && major(stat.st_rdev) == MEMORY).then(|| minor(stat.st_rdev))?;
    MEMORY_DEVICES.iter().find(|(known, _)| *known == minor).map(|(_, path)| *path)
}

impl Kind {
    /// Looks at the descriptor that is stream number `stream`.
    pub(crate) fn of(fd: BorrowedFd<'_>, stream: usize) -> Self {
        let (Ok(stat), Ok(flags)) = (fstat(fd), fcntl_getfl(fd)) else { return Self::Unusable };
        let access = flags & OFlags::ACCMODE;
        let wrong = if stream == 0 { OFlags::WRONLY } else { OFlags::RDONLY };
        if flags.contains(OFlags::PATH) {
            return Self::Unusable;
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::CharacterDevice if isatty(fd) => Self::Terminal,
            _ if access == wrong => Self::Unusable,
            FileType::CharacterDevice => {
                if memory_device(&stat).is_some() {
                    Self::Plain
                } else {
                    Self::Opaque
                }
            }
            FileType::Fifo => Self::Plain,
            FileType::RegularFile => Self::Regular,
            _ => Self::Opaque,
        }
    }
}

/// Whether two descriptors lead to the same file.
pub(crate) fn same_file(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> bool {
    let id = |stat: Stat| (stat.st_dev, stat.st_ino);
    matches!((fstat(one), fstat(other)), (Ok(one), Ok(other)) if id(one) == id(other))
}

/// Whether two terminals are the same one. `/dev/tty` is another device than the terminal that it stands for.
pub(crate) fn same_terminal(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> bool {
    let (Ok(first), Ok(second)) = (fstat(one), fstat(other)) else { return false };
    let alias = |stat: &Stat| (major(stat.st_rdev), minor(stat.st_rdev)) == CONTROLLING_TERMINAL;
    if alias(&first) || alias(&second) {
        return is_controlling(one) && is_controlling(other);
    }
    (first.st_dev, first.st_rdev) == (second.st_dev, second.st_rdev)
}

/// Whether a terminal is this process's controlling one. A session has at most one.
///
/// Only the controlling terminal tells its foreground process group (`TIOCGPGRP` in ioctl_tty(2)), and a master
/// side that of its slave. Session numbers say less: 0 stands for every leader outside of this PID namespace.
pub(crate) fn is_controlling(terminal: BorrowedFd<'_>) -> bool {
    let master = fstat(terminal).is_ok_and(|stat| (major(stat.st_rdev), minor(stat.st_rdev)) == PTY_MASTER);
    !master && tcgetpgrp(terminal).is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, OwnedFd};

    use rustix::fs::{CWD, Mode, openat};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};

    use super::*;

    fn open(path: &str, flags: OFlags) -> OwnedFd {
        openat(CWD, path, flags, Mode::empty()).unwrap()
    }

    fn terminal() -> (OwnedFd, OwnedFd) {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        let master = openpt(flags).unwrap();
        unlockpt(&master).unwrap();
        let slave = ioctl_tiocgptpeer(&master, flags).unwrap();
        (master, slave)
    }

    #[test]
    fn only_pipes_and_harmless_devices_are_handed_over() {
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        assert_eq!(Kind::of(reader.as_fd(), 0), Kind::Plain);
        assert_eq!(Kind::of(open("/dev/null", OFlags::RDWR).as_fd(), 1), Kind::Plain);
        assert_eq!(Kind::of(open("/dev/full", OFlags::RDWR).as_fd(), 1), Kind::Plain);
        let (socket, _peer) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        assert_eq!(Kind::of(socket.as_fd(), 0), Kind::Opaque);
        assert_eq!(Kind::of(open("/", OFlags::RDONLY).as_fd(), 0), Kind::Opaque);
        let (_master, slave) = terminal();
        assert_eq!(Kind::of(slave.as_fd(), 2), Kind::Terminal);
    }

    #[test]
    fn files_count_only_in_the_direction_of_the_stream() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        assert_eq!(Kind::of(open(path, OFlags::RDONLY).as_fd(), 0), Kind::Regular);
        assert_eq!(Kind::of(open(path, OFlags::WRONLY).as_fd(), 1), Kind::Regular);
        assert_eq!(Kind::of(open(path, OFlags::WRONLY).as_fd(), 0), Kind::Unusable);
        assert_eq!(Kind::of(open(path, OFlags::RDONLY).as_fd(), 1), Kind::Unusable);
        assert_eq!(Kind::of(open(path, OFlags::PATH).as_fd(), 0), Kind::Unusable);
    }

    #[test]
    fn two_terminals_are_told_apart() {
        let ((master, one), (_other_master, other)) = (terminal(), terminal());
        assert!(same_terminal(one.as_fd(), one.try_clone().unwrap().as_fd()));
        assert!(!same_terminal(one.as_fd(), other.as_fd()));
        assert!(!is_controlling(one.as_fd()));
        assert!(!is_controlling(master.as_fd()));
    }
}
