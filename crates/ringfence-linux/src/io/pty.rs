use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::io::{Errno, ioctl_fionbio};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Winsize, tcgetattr, tcsetattr, tcsetwinsize,
};

use super::buffer::{Buffer, Step};
use super::nonblocking::NonBlocking;
use super::terminal::Terminal;
use crate::sys::Quiet;

/// Output under way; small, so that an interrupted program falls silent at once.
const OUTPUT: usize = 16 * 1024;
/// Input under way; a terminal holds 4 KiB itself.
const INPUT: usize = 4 * 1024;
/// Largest number of reads before a stop; other processes of the box may go on writing.
const SETTLE: usize = 64;
/// Size of an inner terminal for which there is no outer one.
const DEFAULT_SIZE: Winsize = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };

/// What of a [`PtyRelay`] is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PtyEnd {
    Master,
    Input,
    Output,
}

/// Where the input of the inner terminal comes from.
#[derive(Debug)]
pub(crate) enum PtyInput {
    /// The outer terminal, while it is raw.
    Keyboard,
    /// Something that ends, passed on as if it were typed.
    Typed(NonBlocking),
    /// Nowhere any more.
    None,
}

impl PtyInput {
    /// What is to be read now.
    fn fd<'a>(&'a self, outer: &'a Option<Terminal>) -> Option<BorrowedFd<'a>> {
        match self {
            Self::Keyboard => {
                outer.as_ref().filter(|outer| outer.is_raw() && outer.is_readable()).map(AsFd::as_fd)
            }
            Self::Typed(input) => Some(input.as_fd()),
            Self::None => None,
        }
    }
}

/// The inner terminal's master side, and the ends that it is relayed to.
///
/// The outer terminal is read and made raw either from the start ("eager") or once the box asks for it, which it
/// does by a background process of the inner terminal that reads or configures it (SIGTTIN, SIGTTOU). Until then
/// the other programs of the caller's pipeline have the keyboard to themselves.
#[derive(Debug)]
pub(crate) struct PtyRelay {
    inner: Option<Inner>,
    outer: Option<Terminal>,
    input: PtyInput,
    output: Option<NonBlocking>,
    output_is_terminal: bool,
    wants_keyboard: bool,
    /// Somebody else has the outer terminal.
    lent: bool,
    downward: Buffer,
    upward: Buffer,
    typed_last: u8,
    /// End-of-file characters still to be typed.
    ends: usize,
}

#[derive(Debug)]
struct Inner {
    master: OwnedFd,
    /// Held until the box is dead: without any open slave the master reports a hang-up, also when the box opens
    /// `/dev/tty` again later.
    slave: Option<OwnedFd>,
    /// The outer terminal's modes are still to be copied.
    modes_due: bool,
}

impl PtyRelay {
    /// A relay that waits for its master. `outer` gives modes and size, and the keys if the input is the keyboard.
    pub(crate) fn new(
        outer: Option<Terminal>,
        input: PtyInput,
        output: NonBlocking,
        output_is_terminal: bool,
        eager: bool,
    ) -> Self {
        Self {
            inner: None,
            outer,
            input,
            output: Some(output),
            output_is_terminal,
            wants_keyboard: eager,
            lent: false,
            downward: Buffer::with_capacity(INPUT),
            upward: Buffer::with_capacity(OUTPUT),
            typed_last: b'\n',
            ends: 0,
        }
    }

    /// Takes the master of the inner terminal, which must be unlocked: gives it modes and size of the outer one.
    /// Returns whether the program is to start in the inner terminal's foreground.
    ///
    /// In the background the outer one has its shell's modes, for editing a line perhaps, so they are copied when
    /// this process gets to the foreground.
    pub(crate) fn attach(&mut self, master: OwnedFd) -> Result<bool, Errno> {
        ioctl_fionbio(&master, true)?;
        let slave =
            ioctl_tiocgptpeer(&master, OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        let mut modes_due = self.outer.is_some();
        if let Some(outer) = self.outer.as_ref().filter(|outer| outer.is_foreground()) {
            tcsetattr(&master, OptionalActions::Now, &outer.modes()?)?;
            modes_due = false;
        }
        self.inner = Some(Inner { master, slave: Some(slave), modes_due });
        self.resize()?;
        self.take_keyboard()
    }

    /// The outer terminal's size becomes the inner one's.
    pub(crate) fn resize(&self) -> Result<(), Errno> {
        let Some(inner) = &self.inner else { return Ok(()) };
        match self.outer.as_ref().map_or(Ok(DEFAULT_SIZE), Terminal::size) {
            Ok(size) => tcsetwinsize(&inner.master, size),
            // The terminal is gone and has no size.
            Err(Errno::IO) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether a person types the input.
    pub(crate) fn has_keyboard(&self) -> bool {
        matches!(self.input, PtyInput::Keyboard)
    }

    /// The box asks for the keyboard. `false`: this process is in the background and has to be stopped first.
    pub(crate) fn demand_keyboard(&mut self) -> Result<bool, Errno> {
        self.wants_keyboard = true;
        self.take_keyboard()
    }

    /// Nobody will ever bring this process to the foreground: the box's input is at its end.
    pub(crate) fn give_up_keyboard(&mut self) {
        self.end_input();
    }

    /// Leaves the caller's terminal as it was found, before this process stops. What the stopped program has
    /// written comes first: an editor leaves its screen with that.
    pub(crate) fn suspend(&mut self) {
        self.settle();
        self.outer.iter_mut().for_each(Terminal::suspend);
        self.output.iter().for_each(NonBlocking::suspend);
    }

    /// Lets go of the outer terminal, with what the program has written so far on it.
    pub(crate) fn lend(&mut self) {
        self.settle();
        self.outer.iter_mut().for_each(Terminal::leave_raw);
        self.lent = true;
    }

    /// Takes the outer terminal up again. The program learns of two new sizes, the second of which is the one before
    /// (SIGWINCH): whatever draws its screen draws it anew.
    pub(crate) fn take_back(&mut self) -> Result<(), Errno> {
        self.lent = false;
        self.take_keyboard()?;
        if let (Some(inner), Some(outer)) = (&self.inner, &self.outer)
            && let Ok(size) = outer.size()
        {
            let other = Winsize { ws_row: size.ws_row.checked_sub(1).unwrap_or(DEFAULT_SIZE.ws_row), ..size };
            tcsetwinsize(&inner.master, other)?;
        }
        self.resize()
    }

    fn settle(&mut self) {
        // Without it, a write in the background could stop this process halfway.
        let Ok(_quiet) = Quiet::new() else { return };
        for _ in 0..SETTLE {
            self.read_master();
            if self.write_output() != Step::Moved {
                return;
            }
        }
    }

    /// Goes on after a stop. Returns whether the program is to be in the inner terminal's foreground.
    pub(crate) fn resume(&mut self) -> Result<bool, Errno> {
        self.outer.iter().for_each(Terminal::resume);
        self.output.iter().for_each(NonBlocking::resume);
        self.resize()?;
        self.take_keyboard()
    }

    fn take_keyboard(&mut self) -> Result<bool, Errno> {
        let (PtyInput::Keyboard, Some(outer)) = (&self.input, &mut self.outer) else {
            return Ok(true);
        };
        if self.lent {
            return Ok(self.wants_keyboard && outer.is_foreground());
        }
        let taken = self.wants_keyboard
            && match outer.enter_raw() {
                // The terminal is gone; a signal says so as well.
                Err(Errno::IO) => false,
                taken => taken?,
            };
        if let Some(inner) = self.inner.as_mut().filter(|inner| taken && inner.modes_due) {
            tcsetattr(&inner.master, OptionalActions::Now, &outer.modes()?)?;
            inner.modes_due = false;
        }
        Ok(taken)
    }

    /// Names what this relay waits for.
    pub(crate) fn interest<'a>(&'a self, push: &mut dyn FnMut(PtyEnd, BorrowedFd<'a>, PollFlags)) {
        if let Some(inner) = &self.inner {
            let mut events = PollFlags::empty();
            events.set(PollFlags::IN, self.upward.has_room() && !self.lent);
            events.set(PollFlags::OUT, !self.downward.is_empty());
            if !events.is_empty() {
                push(PtyEnd::Master, inner.master.as_fd(), events);
            }
            if let Some(input) = self.input.fd(&self.outer).filter(|_| self.downward.has_room()) {
                push(PtyEnd::Input, input, PollFlags::IN);
            }
        }
        if let Some(output) = self.output.as_ref().filter(|_| !self.upward.is_empty() && !self.lent) {
            push(PtyEnd::Output, output.as_fd(), PollFlags::OUT);
        }
    }

    /// Moves what can be moved without waiting, at most one buffer each way, so that neither direction starves
    /// the other. `true`: the caller's side is gone, and with it the inner terminal.
    pub(crate) fn handle(&mut self, end: PtyEnd, ready: PollFlags) -> Result<bool, Errno> {
        let _quiet = Quiet::new()?;
        match end {
            PtyEnd::Input => {
                if self.read_input(ready)? {
                    return Ok(self.hang_up());
                }
            }
            PtyEnd::Master if !(ready - PollFlags::OUT).is_empty() => self.read_master(),
            PtyEnd::Master | PtyEnd::Output => {}
        }
        self.type_ends();
        if let Some(inner) = self.inner.as_ref().filter(|_| !self.downward.is_empty())
            && self.downward.drain(&inner.master) == Step::Ended
        {
            self.downward.clear();
        }
        Ok(self.write_output() == Step::Ended && self.hang_up())
    }

    /// `true`: the outer terminal is gone.
    fn read_input(&mut self, ready: PollFlags) -> Result<bool, Errno> {
        let Some(input) = self.input.fd(&self.outer).filter(|_| self.downward.has_room()) else {
            return Ok(false);
        };
        let step = self.downward.fill(input);
        self.typed_last = self.downward.last().unwrap_or(self.typed_last);
        match (&self.input, step) {
            (_, Step::Moved | Step::Blocked) => {}
            (PtyInput::Keyboard, Step::Ended) if ready.intersects(PollFlags::HUP | PollFlags::ERR) => {
                return Ok(true);
            }
            // The terminal was given to someone else: wait until the box asks again.
            (PtyInput::Keyboard, Step::Ended)
                if self.outer.as_ref().is_some_and(|outer| !outer.is_foreground()) =>
            {
                self.take_keyboard()?;
            }
            (_, Step::Ended) => self.end_input(),
        }
        Ok(false)
    }

    fn end_input(&mut self) {
        self.input = PtyInput::None;
        // In the middle of a line the first one only ends the read, as a person's Ctrl-D does (termios(3), VEOF).
        self.ends = if self.typed_last == b'\n' { 1 } else { 2 };
    }

    /// Types what ends the input, if the program reads lines; raw input has no end of file.
    fn type_ends(&mut self) {
        let Some(inner) = self.inner.as_ref().filter(|_| self.ends > 0 && self.downward.has_room()) else {
            return;
        };
        match tcgetattr(&inner.master) {
            Ok(modes) if modes.local_modes.contains(LocalModes::ICANON) => {
                let end = modes.special_codes[SpecialCodeIndex::VEOF];
                while self.ends > 0 && self.downward.push(&[end]) == 1 {
                    self.ends -= 1;
                }
            }
            Ok(_) | Err(_) => self.ends = 0,
        }
    }

    fn read_master(&mut self) {
        let Some(inner) = self.inner.as_ref().filter(|_| self.upward.has_room()) else { return };
        let mut step = self.upward.fill(&inner.master);
        if self.upward.last() == Some(b'\r') && self.upward.has_room() && step == Step::Moved {
            // The line feed that goes with it.
            step = self.upward.fill(&inner.master);
        }
        // EIO: no slave is open any more, and all that was written has been read.
        if step == Step::Ended {
            self.inner = None;
        }
    }

    fn write_output(&mut self) -> Step {
        let Some(output) = self.output.as_ref().filter(|_| !self.upward.is_empty() && !self.lent) else {
            return Step::Blocked;
        };
        match &self.outer {
            // Both the inner terminal and the outer one, which isn't raw, process what the program writes.
            Some(outer) if self.output_is_terminal && outer.returns_carriage() => {
                self.upward.drain_to_line_discipline(output)
            }
            _ => self.upward.drain(output),
        }
    }

    /// Closes the master: to the box its terminal is gone, as if a window had been closed.
    fn hang_up(&mut self) -> bool {
        let first = self.inner.take().is_some();
        self.output = None;
        self.input = PtyInput::None;
        self.upward.clear();
        first
    }

    /// The box is dead: no more input; what it wrote is still read.
    pub(crate) fn exited(&mut self) {
        self.input = PtyInput::None;
        self.downward.clear();
        self.ends = 0;
        // Keys have their usual meaning again for whoever waits until a pipe is read.
        if let Some(outer) = self.outer.as_mut().filter(|_| !self.output_is_terminal) {
            outer.leave_raw();
        }
        if let Some(inner) = &mut self.inner {
            inner.slave = None;
        }
    }

    /// Reads no more; what was read is still written.
    pub(crate) fn stop_reading(&mut self) {
        self.inner = None;
    }

    /// Whether the inner terminal is closed and all of its output written.
    pub(crate) fn is_done(&self) -> bool {
        self.inner.is_none() && self.upward.is_empty()
    }
}

#[cfg(test)]
pub(crate) mod tests;
