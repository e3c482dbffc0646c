use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Signal, kill_current_process_group};

use crate::sys::{
    block_signals, discard_pending_signal, is_signal_ignored, pending_signals, set_signal_mask, signal_bit,
    signal_fd, signal_this_thread, unblock_signals,
};

/// Size of `struct signalfd_siginfo` (signalfd(2)), which starts with the signal's number.
const RECORD: usize = 128;

/// Where a signal that reaches the supervisor goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// To the program alone: someone meant the process.
    Target,
    /// To the program's process group: what a terminal sends to a job.
    Group,
    /// Nowhere: it concerns the supervisor.
    Own,
}

const RECEIVED: [(Signal, Delivery); 10] = [
    (Signal::TERM, Delivery::Target),
    (Signal::USR1, Delivery::Target),
    (Signal::USR2, Delivery::Target),
    (Signal::INT, Delivery::Group),
    (Signal::QUIT, Delivery::Group),
    (Signal::HUP, Delivery::Group),
    (Signal::TSTP, Delivery::Group),
    (Signal::CONT, Delivery::Own),
    (Signal::WINCH, Delivery::Own),
    (Signal::CHILD, Delivery::Own),
];

impl Delivery {
    /// Where `signal` goes.
    pub(crate) fn of(signal: Signal) -> Self {
        RECEIVED.iter().find(|(received, _)| *received == signal).map_or(Self::Own, |(_, delivery)| *delivery)
    }
}

/// The signals of a command line process, as events. A library never makes one: a host's signals are its own.
///
/// Made before any other thread, which inherits the mask; a thread that let a signal through would swallow it.
/// The mask from before comes back on drop; the child restores [`Self::original_mask`] itself.
#[derive(Debug)]
pub(crate) struct Signals {
    fd: OwnedFd,
    original: u64,
    stop_received: bool,
}

impl Signals {
    /// Blocks the signals and takes them through a descriptor from now on. One that the process was started to
    /// ignore (nohup(1), a background command of a plain script) stays ignored.
    ///
    /// # Errors
    /// Those of signalfd(2): no descriptor or memory left.
    pub(crate) fn block() -> Result<Self, Errno> {
        let mut mask = 0;
        for (signal, _) in RECEIVED {
            if !is_signal_ignored(signal)? {
                mask |= signal_bit(signal);
            }
        }
        let fd = signal_fd(mask)?;
        Ok(Self { fd, original: block_signals(mask)?, stop_received: false })
    }

    /// The mask from before, which the program is to start with (bit n-1 is signal n).
    pub(crate) fn original_mask(&self) -> u64 {
        self.original
    }

    /// The next signal that has come, if any.
    pub(crate) fn next(&mut self) -> Option<Signal> {
        let mut record = [0; RECORD];
        if rustix::io::read(&self.fd, &mut record) != Ok(RECORD) {
            return None;
        }
        let [a, b, c, d, ..] = record;
        let signal = Signal::from_named_raw(i32::from_ne_bytes([a, b, c, d]))?;
        match signal {
            Signal::TSTP => self.stop_received = true,
            Signal::CONT => self.stop_received = false,
            _ => {}
        }
        Some(signal)
    }

    /// Whether a SIGTSTP was received and not followed by a stop yet: then the sender has seen to the rest of this
    /// process's job.
    pub(crate) fn stop_received(&self) -> bool {
        self.stop_received
    }

    /// Stops this process by the default action of `signal` (SIGTSTP, SIGTTIN, SIGTTOU, SIGSTOP), and with it the
    /// rest of its process group if `whole_job`; returns when it is continued. `false`: it was not stopped,
    /// because it ignores the signal or nobody is there to continue it (an orphaned process group).
    pub(crate) fn stop(&mut self, signal: Signal, whole_job: bool) -> Result<bool, Errno> {
        let (own, cont) = (signal_bit(signal), signal_bit(Signal::CONT));
        discard_pending_signal(cont);
        // Blocked, it waits for the moment when the rest of the job has it too. SIGSTOP stops in the first call.
        let mask = block_signals(own)?;
        if whole_job {
            kill_current_process_group(signal)?;
        } else {
            signal_this_thread(signal)?;
        }
        self.stop_received = false;
        unblock_signals(own)?;
        set_signal_mask(mask)?;
        let continued = pending_signals()? & cont != 0;
        discard_pending_signal(cont);
        Ok(continued)
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // Fails for a wrong operation or address only.
        let _ = set_signal_mask(self.original);
    }
}
#[cfg(test)]
mod tests;
