//! On which processors the processes of a start run.
//!
//! The kernel often lets a new or woken process begin where the one runs that made or woke it, and brings it to an idle
//! processor milliseconds later, at a tick of its clock (sched(7)). Supervisor, PID 1 and target, which are meant to
//! work side by side, would take turns on one processor until the start is over.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// The processors that the caller may run on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Processors(CpuSet);

/// The one that a process runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(usize);

impl Place {
    pub(super) fn of_caller() -> Self {
        Self(sched_getcpu())
    }
}

impl Processors {
    /// `None`: there is only one, or the kernel doesn't say, and then nothing is moved.
    pub(super) fn of_caller() -> Option<Self> {
        sched_getaffinity(None).ok().filter(|all| all.count() > 1).map(Self)
    }

    /// Moves `process`, or the caller, off a processor that somebody else needs. One that runs elsewhere stays there.
    ///
    /// Nothing depends on it, so errors don't count.
    pub(super) fn move_off(&self, place: Place, process: Option<Pid>) {
        let mut others = self.0;
        others.unset(place.0);
        let _ = sched_setaffinity(process, &others);
        self.allow_all(process);
    }

    /// Lets `process`, or the caller, run on all of them.
    pub(super) fn allow_all(&self, process: Option<Pid>) {
        let _ = sched_setaffinity(process, &self.0);
    }
}
