//! The launcher as a process of its own, for hosts that are libraries' users: many threads, much memory.
//!
//! The host starts its own binary again (posix_spawn(3): the cost doesn't grow with its memory). What the new
//! process has to do comes over a socket that is its standard input; PID 1 inherits that socket and receives the
//! plan through it. Neither argv nor the environment carries any of it.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use ringfence_types::Step;
use rustix::io::Errno;

use super::Foundation;
use super::message::{dev_null, receive_foundation, send_foundation};
use super::process::{BoxEnds, Parent, begin_with, channels, errno};
use super::report::{At, Reporter, StepResult};
use crate::sys;

/// The launcher's whole argv. It only says what the process is.
const NAME: &str = "ringfence-launcher";

static INITIALISED: AtomicBool = AtomicBool::new(false);

/// Lets this binary serve as the launcher. To be called first thing in `main`, before any thread is started: in
/// a process that was started as the launcher it does not return.
pub fn init() {
    INITIALISED.store(true, Ordering::Relaxed);
    let mut arguments = std::env::args_os();
    if arguments.next().is_some_and(|name| name == NAME) && arguments.next().is_none() && is_our_socket() {
        serve();
    }
}

/// Whether this process's binary can serve as the launcher.
pub(crate) fn can_launch() -> bool {
    INITIALISED.load(Ordering::Relaxed)
}

fn is_our_socket() -> bool {
    rustix::net::sockopt::socket_type(rustix::stdio::stdin())
        .is_ok_and(|kind| kind == rustix::net::SocketType::SEQPACKET)
}

/// A launcher process, seen from the host.
#[derive(Debug)]
pub(crate) struct RemoteLauncher {
    pub(crate) child: Child,
    /// As in [`Launched`](super::Launched).
    pub(crate) control: OwnedFd,
    /// As in [`Launched`](super::Launched).
    pub(crate) set_up: OwnedFd,
}

impl RemoteLauncher {
    /// Starts `binary` (else this process's own) as the launcher of a box, which it begins.
    pub(crate) fn begin(binary: Option<&PathBuf>, foundation: &Foundation) -> StepResult<Self> {
        let (control, set_up, ends) = channels()?;
        let mut child = Command::new(binary.map_or_else(|| PathBuf::from("/proc/self/exe"), Clone::clone))
            .arg0(NAME)
            .env_clear()
            .stdin(Stdio::from(ends.control))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(errno)
            .on(Step::Prepare, "the launcher")?;
        if let Err(fault) =
            send_foundation(&control, foundation, ends.set_up.as_fd()).on(Step::Prepare, "the launcher")
        {
            let _ = child.kill();
            let _ = child.wait();
            return Err(fault);
        }
        Ok(Self { child, control, set_up })
    }
}

/// The launcher process: begins the box, waits for it, ends.
fn serve() -> ! {
    let status = match receive() {
        Ok((foundation, ends)) => {
            // The box's end of the pipe has to close when the program starts; this copy is for our own faults.
            let report = rustix::io::fcntl_dupfd_cloexec(&ends.set_up, 3);
            match begin_with(&foundation, ends, Parent::Waits) {
                Ok(init) => {
                    drop(report);
                    init.wait();
                    0
                }
                Err(fault) => {
                    if let Ok(pipe) = report {
                        Reporter::new(pipe).fault(fault);
                    }
                    1
                }
            }
        }
        Err(_) => 2,
    };
    sys::exit_now(status)
}

fn receive() -> Result<(Foundation, BoxEnds), Errno> {
    let control = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let (foundation, set_up) = receive_foundation(&control)?;
    // The socket must end with PID 1, not with this process.
    rustix::stdio::dup2_stdin(dev_null()?)?;
    Ok((foundation, BoxEnds { control, set_up }))
}
