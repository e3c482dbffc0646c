//! The native launcher: turns a [`LinuxPlan`] into a running command.
//!
//! Three processes take part: the supervisor, which calls [`begin`] and [`hand_over`]; PID 1 of the box, which
//! sets everything up and then reaps; and the target. PID 1 lays the [`Groundwork`] and forks the target while the
//! supervisor still plans; both go on with the plan when it comes. An error names its step:
//!
//! | step | process | what |
//! |---|---|---|
//! | *prepare* | supervisor | supplementary groups dropped (root), channels made, descriptors close-on-exec |
//! | *clone* | supervisor, PID 1 | new user, mount, PID, IPC, UTS and cgroup namespaces; PID 1 adds its network |
//! | *idmap* | PID 1 | one uid, one gid, setgroups denied; root becomes the workspace's owner |
//! | *loopback* | PID 1 | host name set, `lo` up; with the plan, what the proxy serves |
//! | *mounts* | PID 1 | the mount plan, by descriptor, onto a new root: first what the groundwork has of it |
//! | *proc* | PID 1 | a fresh `/proc`, no more user namespaces, its risky parts covered |
//! | *pivot* | PID 1 | the new root becomes the root, the old one is detached |
//! | *init* | PID 1 | non-dumpable, a new session, the target forked; inner terminal; then reaps without rights of its own |
//! | *limits* | target | resource limits, terminal, standard streams, working directory |
//! | *caps* | target | no_new_privs, every capability dropped |
//! | *landlock* | target | one ruleset |
//! | *seccomp* | target | the filter |
//! | *exec* | target | `PATH` searched inside |
//!
//! The end of file on the control socket ends the run; a parent-death signal would fire when the *thread* that
//! made the child ends, so it is used only between single-threaded launcher and PID 1.

mod detached;
mod filesystem;
mod init;
mod message;
mod netlink;
mod network;
mod process;
mod processors;
mod remote;
mod report;
mod table;
mod target;

use std::os::fd::OwnedFd;

use ringfence_plan::LinuxPlan;
use ringfence_plan::linux::{Groundwork, Target};
use ringfence_types::{LayerName, Step};
#[cfg(feature = "fault-injection")]
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

pub(crate) use process::{Init, Launched, begin, hand_over};
pub use remote::init;
pub(crate) use remote::{RemoteLauncher, can_launch};
#[cfg(test)]
pub(crate) use report::Reporter;
pub(crate) use report::{Event, Fault, FaultKind, Inlet, Order, SetUp, SetUpReader, StepResult};

/// What a box is begun with: the launcher's first message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Foundation {
    pub(crate) groundwork: Groundwork,
    /// Step that is to fail.
    #[cfg(feature = "fault-injection")]
    pub(crate) fail_at: Option<Step>,
}

impl Foundation {
    pub(crate) fn new(groundwork: Groundwork) -> Self {
        Self {
            groundwork,
            #[cfg(feature = "fault-injection")]
            fail_at: injected_fault(),
        }
    }

    /// Where a test makes a step fail.
    #[cfg(feature = "fault-injection")]
    pub(crate) fn fault_point(&self, step: Step) -> StepResult<()> {
        if self.fail_at == Some(step) {
            Err(Fault::new(step, Errno::IO, Some("injected fault".to_owned())))
        } else {
            Ok(())
        }
    }

    #[cfg(not(feature = "fault-injection"))]
    #[allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "same shape as with fault injection")]
    pub(crate) fn fault_point(&self, _step: Step) -> StepResult<()> {
        Ok(())
    }
}

/// All else that the launcher needs: its second message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) plan: LinuxPlan,
    pub(crate) target: Target,
    /// Which of the target's standard streams are the inner terminal.
    pub(crate) terminal: [bool; 3],
    /// Standard input is a regular file, to be opened anew.
    pub(crate) input_file: bool,
    /// Layers without which the program does not start.
    pub(crate) required: Vec<LayerName>,
    /// Signal mask of the target (bit n-1 is signal n).
    pub(crate) signal_mask: u64,
}

impl Request {
    pub(crate) fn wants_terminal(&self) -> bool {
        self.terminal.contains(&true)
    }
}

/// What the target's standard streams are made of.
#[derive(Debug, Default)]
pub(crate) struct StdStreams {
    /// Standard input, output and error; `None` is the inner terminal.
    pub(crate) fds: [Option<OwnedFd>; 3],
    /// Takes the place of a file that can't be opened anew as standard input.
    pub(crate) input_pipe: Option<OwnedFd>,
}

/// The step that a test wants to fail.
#[cfg(feature = "fault-injection")]
fn injected_fault() -> Option<Step> {
    let name = std::env::var("RINGFENCE_TEST_FAIL_AT").ok()?;
    Step::ALL.into_iter().find(|step| step.name() == name)
}
