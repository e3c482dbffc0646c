//! A box that was started: how it goes on with its plan, and how it ends.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags};

use crate::launcher::{self, Init, Launched, RemoteLauncher, Request, StdStreams, StepResult};

/// How long a box may take to end once its channel is closed, before its launcher is killed.
const END: Duration = Duration::from_secs(2);

/// A started box, by either kind of launcher. Dropped, it ends, and is waited for.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) control: OwnedFd,
    pub(crate) set_up: File,
    process: Process,
    life: Life,
}

#[derive(Debug)]
enum Process {
    /// PID 1 is our child.
    Init(Init),
    /// The launcher is our child; it waits for PID 1.
    Launcher(Child),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Alive,
    /// PID 1 has said that no other process is left, and ends too.
    Ending,
    Over,
}

impl From<Launched> for Running {
    fn from(Launched { init, control, set_up }: Launched) -> Self {
        Self { control, set_up: set_up.into(), process: Process::Init(init), life: Life::Alive }
    }
}

impl From<RemoteLauncher> for Running {
    fn from(RemoteLauncher { child, control, set_up }: RemoteLauncher) -> Self {
        Self { control, set_up: set_up.into(), process: Process::Launcher(child), life: Life::Alive }
    }
}

impl Running {
    /// Lets the box go on with its plan.
    pub(crate) fn hand_over(&self, request: &Request, streams: &StdStreams) -> StepResult<()> {
        launcher::hand_over(&self.control, request, streams)
    }

    /// Ends the whole tree and waits until it is dead.
    pub(crate) fn end(&mut self) {
        match &self.process {
            Process::Init(init) => init.kill(),
            // PID 1 ends at the end of file, and the kernel ends its namespace; killing the launcher alone would
            // not wait for that.
            Process::Launcher(_) => {
                let _ = rustix::net::shutdown(&self.control, rustix::net::Shutdown::Both);
            }
        }
        self.wait();
    }

    /// The tree is dead but for PID 1, which the kernel takes down, and the namespaces with it, while the rest is done.
    pub(crate) fn let_end(&mut self) {
        self.life = Life::Ending;
        if let Process::Init(init) = &self.process {
            init.end_aside();
        }
    }

    /// Waits until the tree, which is ending, is dead.
    pub(crate) fn wait(&mut self) {
        self.life = Life::Over;
        match &mut self.process {
            Process::Init(init) => init.wait(),
            Process::Launcher(child) => {
                if !ends_by(child, Instant::now() + END) {
                    let _ = child.kill();
                }
                let _ = child.wait();
            }
        }
    }
}

/// Whether a child ends before the deadline, whatever signals this thread gets meanwhile.
fn ends_by(child: &mut Child, deadline: Instant) -> bool {
    const WITHOUT_PIDFD: Duration = Duration::from_millis(10);
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pidfd = pid.and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
    loop {
        // One that somebody else has waited for has ended too.
        if !matches!(child.try_wait(), Ok(None)) {
            return true;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        match &pidfd {
            Some(pidfd) => {
                let left = Timespec::try_from(left).ok();
                // However it returns, the child is looked at.
                let _ = poll(&mut [PollFd::new(pidfd, PollFlags::IN)], left.as_ref());
            }
            None => std::thread::sleep(left.min(WITHOUT_PIDFD)),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        match self.life {
            Life::Alive => self.end(),
            Life::Ending => self.wait(),
            Life::Over => {}
        }
    }
}
