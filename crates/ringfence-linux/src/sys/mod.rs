//! The only foreign calls of this crate: each wrapper is safe to call, checks the return
//! value and names the system call's manual page.

mod clone;
mod exec;
mod filter;
mod mount;
mod net;
mod process;
mod signal;
mod start;

pub(crate) use clone::{CloneOutcome, clone_with_pidfd, fork, is_single_threaded, unshare_network};
pub(crate) use exec::execve;
pub(crate) use filter::{Instruction, install_filter, landlock_abi};
pub(crate) use mount::{MountAttr, set_mount_attributes};
pub(crate) use net::{loopback_up, network_namespace, unsent_bytes};
pub(crate) use process::{
    block_all_signals, clear_arguments_and_environment, close_all_but, close_on_exec_above, default_sigpipe,
    drain_signals, exit_now, ignore_ended_children, keep_ended_children, kill_all, restore_file_size_signal,
    set_signal_mask,
};
use rustix::io::Errno;
pub(crate) use signal::{
    Quiet, block_signals, discard_pending_signal, is_signal_ignored, pending_signals, signal_bit, signal_fd,
    signal_this_thread, unblock_signals,
};

pub use process::ignore_file_size_signal;
pub use start::stdout_was_closed;

/// Turns a libc-style return value into a result.
fn checked(returned: libc::c_long) -> Result<libc::c_long, Errno> {
    if returned < 0 {
        // SAFETY: `__errno_location` returns a valid pointer to this thread's errno.
        Err(Errno::from_raw_os_error(unsafe { *libc::__errno_location() }))
    } else {
        Ok(returned)
    }
}
