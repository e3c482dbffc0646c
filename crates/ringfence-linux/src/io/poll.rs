use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// The descriptors of one turn of a poll(2) loop, each with the caller's own name for it.
///
/// It borrows the descriptors; what was ready is returned by value, so that their owners can be changed then.
#[derive(Debug)]
pub(crate) struct PollSet<'fd, T> {
    tokens: Vec<T>,
    fds: Vec<PollFd<'fd>>,
}

impl<'fd, T> PollSet<'fd, T> {
    pub(crate) fn new() -> Self {
        Self { tokens: Vec::new(), fds: Vec::new() }
    }

    /// Waits for `events` on `fd`. Errors and hang-ups are reported whether asked for or not, so a descriptor
    /// whose hang-up is known and not acted on must be left out.
    pub(crate) fn push(&mut self, token: T, fd: BorrowedFd<'fd>, events: PollFlags) {
        self.tokens.push(token);
        self.fds.push(PollFd::from_borrowed_fd(fd, events));
    }

    /// Waits until something is ready or `timeout` is over (`None`: for ever), and returns what is ready: nothing
    /// after a timeout or an interruption.
    ///
    /// # Errors
    /// poll(2)'s, but EINTR.
    pub(crate) fn wait(mut self, timeout: Option<Timespec>) -> Result<Vec<(T, PollFlags)>, Errno> {
        match poll(&mut self.fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        }
        let ready = self.tokens.into_iter().zip(self.fds.iter().map(PollFd::revents));
        Ok(ready.filter(|(_, flags)| !flags.is_empty()).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn only_what_is_ready_is_returned() {
        let (quiet, _quiet_writer) = rustix::pipe::pipe().unwrap();
        let (ready, writer) = rustix::pipe::pipe().unwrap();
        rustix::io::write(&writer, b"x").unwrap();
        let mut set = PollSet::new();
        set.push("quiet", quiet.as_fd(), PollFlags::IN);
        set.push("ready", ready.as_fd(), PollFlags::IN);
        assert_eq!(set.wait(None).unwrap(), [("ready", PollFlags::IN)]);
    }

    #[test]
    fn a_timeout_returns_nothing() {
        let (quiet, _writer) = rustix::pipe::pipe().unwrap();
        let mut set = PollSet::new();
        set.push((), quiet.as_fd(), PollFlags::IN);
        assert_eq!(set.wait(Some(Timespec { tv_sec: 0, tv_nsec: 1 })).unwrap(), []);
    }
}
