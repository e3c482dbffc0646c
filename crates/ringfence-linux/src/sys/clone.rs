use std::os::fd::{FromRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::Pid;

use super::checked;

/// Which side of a clone(2) this is.
#[derive(Debug)]
pub(crate) enum CloneOutcome {
    /// The caller goes on, with the child's number and its pidfd, close-on-exec.
    Parent(Pid, OwnedFd),
    /// The copy.
    Child,
}

/// Starts a copy of this process in the new namespaces that `flags` names.
///
/// clone3(2) where it works, else clone(2): container runtimes answer clone3 with ENOSYS or EPERM, because
/// their seccomp filters can't look at its flags.
///
/// Must be called with no other thread running ([`is_single_threaded`]): the copy has only the calling one, and a lock
/// that another thread held would stay held in it.
pub(crate) fn clone_with_pidfd(flags: u64) -> Result<CloneOutcome, Errno> {
    debug_assert!(is_single_threaded(), "cloned with other threads running");
    let mut pidfd: libc::c_int = -1;
    let flags = flags | libc::CLONE_PIDFD as u64;
    let args = libc::clone_args {
        flags,
        pidfd: (&raw mut pidfd) as u64,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: libc::SIGCHLD as u64,
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: 0,
    };
    // SAFETY: `args` is a valid clone_args of the size passed, `pidfd` outlives the call, and without CLONE_VM
    // and with stack 0 the child runs on its own copy of this stack, like after fork(2).
    let mut returned =
        checked(unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<libc::clone_args>()) });
    if matches!(returned, Err(Errno::NOSYS | Errno::PERM)) {
        let flags = flags | libc::SIGCHLD as u64;
        // SAFETY: as above; clone(2) stores the pidfd through its third argument on both architectures.
        returned = checked(unsafe { libc::syscall(libc::SYS_clone, flags, 0, &raw mut pidfd, 0, 0) });
    }
    Ok(match Pid::from_raw(returned? as i32) {
        None => CloneOutcome::Child,
        // SAFETY: the kernel stored a new descriptor that nothing else owns.
        Some(pid) => CloneOutcome::Parent(pid, unsafe { OwnedFd::from_raw_fd(pidfd) }),
    })
}

/// fork(2) without the C library's handlers. `None` is the child. No other thread may be running.
pub(crate) fn fork() -> Result<Option<Pid>, Errno> {
    debug_assert!(is_single_threaded(), "forked with other threads running");
    // SAFETY: with no flags but the exit signal and stack 0 this is fork(2); the process has one thread.
    let pid = checked(unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) })?;
    Ok(Pid::from_raw(pid as i32))
}

/// Gives this process a network namespace of its own (unshare(2)). Other threads would keep the old one.
pub(crate) fn unshare_network() -> Result<(), Errno> {
    debug_assert!(is_single_threaded(), "unshared with other threads running");
    // SAFETY: CLONE_NEWNET changes no memory of this process.
    checked(unsafe { libc::unshare(libc::CLONE_NEWNET) }.into()).map(drop)
}

/// Whether the calling thread is the only one. One that was joined counts until the kernel has taken it down, which is
/// waited for.
///
/// Where `/proc` can't say, nothing can be begun anyway.
pub(crate) fn is_single_threaded() -> bool {
    const PATIENCE: u32 = 1000;
    (0..PATIENCE).any(|_| {
        // Two links of any directory's own, and one for each thread.
        let single = rustix::fs::stat("/proc/self/task").map_or(true, |found| found.st_nlink <= 3);
        if !single {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        single
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_thread_is_noticed() {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || stopped.recv());
        assert!(!is_single_threaded());
        drop(stop);
        assert!(other.join().unwrap().is_err());
    }
}
