use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;

use rustix::io::Errno;
use rustix::process::Signal;

use super::{checked, set_signal_mask};

/// The bit of `signal` in a mask: bit n-1 is signal n.
pub(crate) const fn signal_bit(signal: Signal) -> u64 {
    1 << (signal.as_raw() - 1)
}

/// Blocks the signals of `mask` in this thread and returns the mask from before (rt_sigprocmask(2)).
pub(crate) fn block_signals(mask: u64) -> Result<u64, Errno> {
    change_mask(libc::SIG_BLOCK, mask)
}

/// Lets the signals of `mask` through to this thread and returns the mask from before (rt_sigprocmask(2)).
pub(crate) fn unblock_signals(mask: u64) -> Result<u64, Errno> {
    change_mask(libc::SIG_UNBLOCK, mask)
}

fn change_mask(how: libc::c_int, mask: u64) -> Result<u64, Errno> {
    let mut old: u64 = 0;
    // SAFETY: both masks are 8 bytes, as the size says, and outlive the call.
    checked(unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, how, &raw const mask, &raw mut old, size_of::<u64>())
    })?;
    Ok(old)
}

/// Whether the process ignores `signal` (sigaction(2)). The kernel keeps a blocked signal pending even if it is
/// ignored, so one that is to stay ignored must not be blocked.
pub(crate) fn is_signal_ignored(signal: Signal) -> Result<bool, Errno> {
    let mut current = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action the call only fills `current`, which is read when it succeeded.
    unsafe {
        checked(libc::sigaction(signal.as_raw(), ptr::null(), current.as_mut_ptr()).into())?;
        Ok(current.assume_init().sa_sigaction == libc::SIG_IGN)
    }
}

/// Signals that wait for this thread or for the process (rt_sigpending(2)).
pub(crate) fn pending_signals() -> Result<u64, Errno> {
    let mut pending: u64 = 0;
    // SAFETY: the set is 8 bytes, as the size says, and outlives the call.
    checked(unsafe { libc::syscall(libc::SYS_rt_sigpending, &raw mut pending, size_of::<u64>()) })?;
    Ok(pending)
}

/// Takes one pending signal of `mask` away without waiting (rt_sigtimedwait(2)); nothing happens if none is. They
/// must be blocked in this thread.
pub(crate) fn discard_pending_signal(mask: u64) {
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: set and time outlive the call, the set is 8 bytes, and no information about the signal is asked for.
    // The only failures are that none is pending and that another one came first.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigtimedwait,
            &raw const mask,
            ptr::null_mut::<libc::siginfo_t>(),
            &raw const now,
            size_of::<u64>(),
        )
    };
}

/// A descriptor that delivers the signals of `mask`, close-on-exec and non-blocking (signalfd(2)). They go there
/// as long as every thread blocks them.
pub(crate) fn signal_fd(mask: u64) -> Result<OwnedFd, Errno> {
    let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
    // SAFETY: the mask is 8 bytes, as the size says; -1 asks for a new descriptor.
    let fd =
        checked(unsafe { libc::syscall(libc::SYS_signalfd4, -1, &raw const mask, size_of::<u64>(), flags) })?;
    // SAFETY: the kernel gave a new descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// While it lives, SIGPIPE, SIGTTIN and SIGTTOU don't reach this thread: a write that nobody reads and a terminal
/// that is someone else's are then errors of the call (EPIPE, EIO), whatever the host does about these signals.
#[derive(Debug)]
pub(crate) struct Quiet {
    previous: u64,
    keep_pipe: bool,
}

impl Quiet {
    /// Blocks the three in this thread.
    pub(crate) fn new() -> Result<Self, Errno> {
        let keep_pipe = pending_signals()? & signal_bit(Signal::PIPE) != 0;
        let mask = signal_bit(Signal::PIPE) | signal_bit(Signal::TTIN) | signal_bit(Signal::TTOU);
        Ok(Self { previous: block_signals(mask)?, keep_pipe })
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if !self.keep_pipe {
            // SIGPIPE goes to the thread that wrote, so one that is pending now is ours.
            discard_pending_signal(signal_bit(Signal::PIPE));
        }
        // Fails for a wrong operation or address only.
        let _ = set_signal_mask(self.previous);
    }
}

/// Sends a signal to the calling thread alone (tgkill(2)).
pub(crate) fn signal_this_thread(signal: Signal) -> Result<(), Errno> {
    let (process, thread) = (rustix::process::getpid().as_raw_pid(), rustix::thread::gettid().as_raw_pid());
    // SAFETY: tgkill(2) has no memory-safety preconditions.
    checked(unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal.as_raw()) }).map(drop)
}

#[cfg(test)]
mod tests {
    use rustix::pipe::pipe;

    use super::*;

    #[test]
    fn a_quiet_thread_survives_a_broken_pipe() {
        // In a thread of its own: signal masks belong to threads.
        std::thread::spawn(|| {
            let before = block_signals(0).unwrap();
            let (reader, writer) = pipe().unwrap();
            drop(reader);
            let quiet = Quiet::new().unwrap();
            assert_eq!(rustix::io::write(&writer, b"x"), Err(Errno::PIPE));
            drop(quiet);
            assert_eq!(pending_signals().unwrap() & signal_bit(Signal::PIPE), 0);
            assert_eq!(block_signals(0).unwrap(), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn the_runtime_ignores_broken_pipes_and_nothing_else() {
        assert!(is_signal_ignored(Signal::PIPE).unwrap());
        assert!(!is_signal_ignored(Signal::USR2).unwrap());
    }
}
