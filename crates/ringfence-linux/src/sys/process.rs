use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::process::Signal;

use super::{checked, signal_bit, signal_fd};

/// Ends the process at once, without running destructors or handlers that belong to the supervisor.
pub(crate) fn exit_now(status: i32) -> ! {
    // SAFETY: `_exit` has no preconditions.
    unsafe { libc::_exit(status) }
}

/// Marks every descriptor above `last` close-on-exec (close_range(2), Linux 5.11).
pub(crate) fn close_on_exec_above(last: u32) -> Result<(), Errno> {
    close_range(last + 1, u32::MAX, libc::CLOSE_RANGE_CLOEXEC)
}

/// Closes every descriptor but those named. Values that own another one must not be used or dropped afterwards:
/// the caller is about to loop without them or to exit.
pub(crate) fn close_all_but(keep: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut keep: Vec<u32> = keep.iter().map(|fd| fd.as_raw_fd().unsigned_abs()).collect();
    keep.sort_unstable();
    let mut first = 0;
    for fd in keep {
        if fd > first {
            close_range(first, fd - 1, 0)?;
        }
        first = fd + 1;
    }
    close_range(first, u32::MAX, 0)
}

fn close_range(first: u32, last: u32, flags: u32) -> Result<(), Errno> {
    // SAFETY: closing descriptors is memory-safe; that nothing uses them any more is the callers' contract.
    checked(unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) }).map(drop)
}

/// Blocks every signal and gives a signalfd(2) that becomes readable when a child changes state.
pub(crate) fn block_all_signals() -> Result<OwnedFd, Errno> {
    set_signal_mask(u64::MAX)?;
    signal_fd(signal_bit(Signal::CHILD))
}

/// Empties a signalfd.
pub(crate) fn drain_signals(signals: impl AsFd) {
    let mut buffer = [0; 128];
    while rustix::io::read(&signals, &mut buffer).is_ok_and(|read| read > 0) {}
}

/// Sets the calling thread's signal mask (bit n-1 is signal n) and returns the old one (rt_sigprocmask(2)).
pub(crate) fn set_signal_mask(mask: u64) -> Result<u64, Errno> {
    let mut old: u64 = 0;
    // SAFETY: both masks are 8 bytes, as the size says, and outlive the call.
    checked(unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const mask,
            &raw mut old,
            size_of::<u64>(),
        )
    })?;
    Ok(old)
}

/// Undoes what the Rust runtime and this program did to signal dispositions: a broken pipe ends a program.
pub(crate) fn default_sigpipe() {
    // SAFETY: SIG_DFL is a valid disposition, and no handler of ours is replaced.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Whether [`ignore_file_size_signal`] changed what SIGXFSZ does. The box, a copy of the process, has it too.
static SIGXFSZ_ENDED: AtomicBool = AtomicBool::new(false);

/// Ignores SIGXFSZ: a write beyond the limit of file sizes (`RLIMIT_FSIZE`, setrlimit(2)) then fails with EFBIG, which
/// can be reported, and no longer ends the process. The program in the box has the caller's disposition.
///
/// For the start of a process that is all the caller's own, as a command line's is.
pub fn ignore_file_size_signal() {
    // SAFETY: SIG_IGN is a valid disposition, and no handler of ours is replaced.
    let before = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    SIGXFSZ_ENDED.store(before == libc::SIG_DFL, Ordering::Relaxed);
}

/// Undoes [`ignore_file_size_signal`].
pub(crate) fn restore_file_size_signal() {
    if SIGXFSZ_ENDED.load(Ordering::Relaxed) {
        // SAFETY: SIG_DFL is a valid disposition, and no handler of ours is replaced.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
    }
}

/// Makes ended children wait to be asked after, whatever the caller's disposition of SIGCHLD is: one that ignores it would
/// have them vanish (wait(2)). Returns whether it did.
pub(crate) fn keep_ended_children() -> bool {
    // SAFETY: SIG_DFL is a valid disposition, and no handler of ours is replaced.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) == libc::SIG_IGN }
}

/// Undoes [`keep_ended_children`] for a caller that ignored them.
pub(crate) fn ignore_ended_children() {
    // SAFETY: SIG_IGN is a valid disposition, and no handler of ours is replaced.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
}

/// Kills every other process of this PID namespace. Only PID 1 of a box may call it.
pub(crate) fn kill_all() -> Result<(), Errno> {
    if rustix::process::getpid() != rustix::process::Pid::INIT {
        return Err(Errno::PERM);
    }
    // SAFETY: kill(2) has no memory-safety preconditions.
    checked(unsafe { libc::kill(-1, Signal::KILL.as_raw()) }.into()).map(drop)
}

/// Overwrites the arguments and the environment that this process was started with, which `/proc/PID/cmdline`
/// and `/proc/PID/environ` would show.
pub(crate) fn clear_arguments_and_environment() {
    unsafe extern "C" {
        static mut environ: *mut *mut libc::c_char;
        static mut program_invocation_name: *mut libc::c_char;
    }
    // SAFETY: PID 1 of a box has one thread and reads neither any more. `environ` is null or points to a
    // null-terminated array of NUL-terminated strings in writable memory.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            let length = libc::strlen(*entry);
            std::ptr::write_bytes(*entry, 0, length);
            entry = entry.add(1);
        }
    }
    // SAFETY: the C library lets `program_invocation_name` point to argv[0] if there is one, and the kernel puts the
    // strings of argv one after the other in writable memory (execve(2)). A program may have set that pointer to
    // another string, so each argument is written to only where it has been found, and its end leads to the next.
    unsafe {
        let mut at = program_invocation_name;
        for argument in std::env::args_os() {
            let length = argument.len();
            if at.is_null() || CStr::from_ptr(at).to_bytes() != argument.as_bytes() {
                break;
            }
            std::ptr::write_bytes(at, 0, length);
            at = at.add(length + 1);
        }
    }
}
