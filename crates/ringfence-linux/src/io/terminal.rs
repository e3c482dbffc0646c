use std::os::fd::{AsFd, BorrowedFd};

use nix::unistd::{getpgrp, tcgetpgrp};
use rustix::fs::{Mode, OFlags, fcntl_getfl, open};
use rustix::io::Errno;
use rustix::termios::{
    OptionalActions, OutputModes, QueueSelector, Termios, Winsize, tcflush, tcgetattr, tcgetwinsize,
    tcsetattr,
};

use super::caller::is_controlling;
use super::nonblocking::NonBlocking;
use crate::sys::Quiet;

/// The terminal that the caller sits at.
///
/// It is made raw only while this process is in its foreground, and gets its own modes back when the value is
/// dropped, be it by a panic. A terminal that meanwhile belongs to another process group is left alone: its
/// shell has set its own modes by then.
#[derive(Debug)]
pub(crate) struct Terminal {
    tty: NonBlocking,
    readable: bool,
    /// The modes from before, while it is raw.
    saved: Option<Termios>,
}

impl Terminal {
    /// Takes up the terminal behind one of the caller's descriptors. Changes nothing.
    pub(crate) fn new(fd: BorrowedFd<'_>) -> Result<Self, Errno> {
        let mut tty = NonBlocking::shared(fd)?;
        let mut readable = is_readable(&tty)?;
        // Standard output may be open for writing only, while the keyboard is wanted.
        if !readable && is_controlling(fd) {
            let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            if let Ok(own) = open("/dev/tty", flags, Mode::empty()) {
                (tty, readable) = (NonBlocking::own(own)?, true);
            }
        }
        Ok(Self { tty, readable, saved: None })
    }

    /// Whether what is typed can be read through it.
    pub(crate) fn is_readable(&self) -> bool {
        self.readable
    }

    /// Whether it is raw, by [`Self::enter_raw`].
    pub(crate) fn is_raw(&self) -> bool {
        self.saved.is_some()
    }

    /// Whether this process may use it now: its process group is in the foreground, or the terminal is not the
    /// controlling one, so that there is no job control on it.
    ///
    /// A group that was made outside of this PID namespace has number 0; two such groups count as the same.
    pub(crate) fn is_foreground(&self) -> bool {
        tcgetpgrp(&self.tty).is_ok_and(|group| group == getpgrp()) || !is_controlling(self.tty.as_fd())
    }

    /// Its modes; while it is raw, those from before.
    pub(crate) fn modes(&self) -> Result<Termios, Errno> {
        self.saved.clone().map_or_else(|| tcgetattr(&self.tty), Ok)
    }

    /// Whether it puts a carriage return before each line feed that is written.
    pub(crate) fn returns_carriage(&self) -> bool {
        let modes = OutputModes::OPOST | OutputModes::ONLCR;
        !self.is_raw() && tcgetattr(&self.tty).is_ok_and(|own| own.output_modes.contains(modes))
    }

    /// Its size.
    pub(crate) fn size(&self) -> Result<Winsize, Errno> {
        tcgetwinsize(&self.tty)
    }

    /// Makes it raw (termios(3)), so that every key and every byte of output passes as it is; also again, after
    /// someone else has changed it. `false`: it was left alone, because this process is in the background.
    pub(crate) fn enter_raw(&mut self) -> Result<bool, Errno> {
        if !self.is_foreground() {
            self.saved = None;
            return Ok(false);
        }
        let modes = self.modes()?;
        let mut raw = modes.clone();
        raw.make_raw();
        // Between the check and now another group may have become the foreground one: don't be stopped.
        let _quiet = Quiet::new()?;
        tcsetattr(&self.tty, OptionalActions::Now, &raw)?;
        self.saved = Some(modes);
        Ok(true)
    }

    /// Gives the modes back and throws away what was typed and not read: the answers that a program provokes from
    /// a terminal would otherwise be read by the shell as commands.
    pub(crate) fn leave_raw(&mut self) {
        let Some(modes) = self.saved.take() else { return };
        if !self.is_foreground() {
            return;
        }
        // A terminal that is gone has no modes, and nothing better can be done about any other failure.
        let _quiet = Quiet::new();
        let _ = tcflush(&self.tty, QueueSelector::IFlush);
        let _ = tcsetattr(&self.tty, OptionalActions::Now, &modes);
    }

    /// [`Self::leave_raw`], and gives a shared file its flags back, before this process stops.
    pub(crate) fn suspend(&mut self) {
        self.leave_raw();
        self.tty.suspend();
    }

    /// Takes up work again after [`Self::suspend`]; not raw yet.
    pub(crate) fn resume(&self) {
        self.tty.resume();
    }
}

impl AsFd for Terminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tty.as_fd()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.leave_raw();
    }
}

fn is_readable(fd: impl AsFd) -> Result<bool, Errno> {
    Ok(fcntl_getfl(fd)? & OFlags::ACCMODE != OFlags::WRONLY)
}
