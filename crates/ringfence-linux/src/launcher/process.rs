//! Steps *prepare*, *clone*, the supervisor's part of *idmap*, and the plan's way to PID 1.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use ringfence_plan::linux::Identity;
use ringfence_types::Step;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use super::processors::{Place, Processors};
use super::report::{At, Fault, Order, Reporter, StepResult};
use super::{Foundation, Request, StdStreams, init, message};
use crate::sys::{self, CloneOutcome};

/// PID 1 makes the network namespace itself: that takes as long as all else together, and nobody need wait for it.
const NAMESPACES: u64 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP) as u64;

/// A box that is being set up or runs.
#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) init: Init,
    /// Carries [`Event`](super::Event)s and [`Order`]s. Closing it ends the run.
    pub(crate) control: OwnedFd,
    /// Carries [`SetUp`](super::SetUp) messages until the program starts.
    pub(crate) set_up: OwnedFd,
}

/// PID 1 of a box, to its parent.
#[derive(Debug)]
pub(crate) struct Init {
    pid: Pid,
    pidfd: OwnedFd,
}

/// The ends of the two channels that the box keeps.
#[derive(Debug)]
pub(crate) struct BoxEnds {
    pub(crate) control: OwnedFd,
    pub(crate) set_up: OwnedFd,
}

/// Begins a box: PID 1 lays the groundwork, then waits for [`hand_over`]. Closing the control socket ends it.
///
/// The caller must be single-threaded, and becomes the parent of PID 1.
pub(crate) fn begin(foundation: &Foundation) -> StepResult<Launched> {
    let (control, set_up, ends) = channels()?;
    let init = begin_with(foundation, ends, Parent::Works)?;
    Ok(Launched { init, control, set_up })
}

/// Hands the plan over to a box that was begun for it. What goes wrong from here on comes through the set-up
/// pipe, also that PID 1 is gone.
pub(crate) fn hand_over(control: &OwnedFd, request: &Request, streams: &StdStreams) -> StepResult<()> {
    match message::send_request(control, request, streams) {
        Ok(()) | Err(Errno::PIPE) => Ok(()),
        Err(error) => Err(error).on(Step::Prepare, "the plan"),
    }
}

/// Makes the channels: the supervisor's ends and the box's.
pub(crate) fn channels() -> StepResult<(OwnedFd, OwnedFd, BoxEnds)> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .at(Step::Prepare)?;
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).at(Step::Prepare)?;
    Ok((ours, read, BoxEnds { control: theirs, set_up: write }))
}

/// What the parent of PID 1 does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    Works,
    Waits,
}

/// [`begin`] with channels that exist.
pub(crate) fn begin_with(foundation: &Foundation, ends: BoxEnds, parent: Parent) -> StepResult<Init> {
    prepare(foundation)?;
    foundation.fault_point(Step::Clone)?;
    let identity = foundation.groundwork.identity;
    // Only the parent's copy of this end can tell PID 1 that the maps are written.
    let maps = identity
        .switch
        .then(|| socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None))
        .transpose()
        .at(Step::Prepare)?;
    let processors = Processors::of_caller();
    let needs_its_own = processors.filter(|_| parent == Parent::Works);
    let place = Place::of_caller();
    match sys::clone_with_pidfd(NAMESPACES).on(Step::Clone, "new namespaces")? {
        CloneOutcome::Child => {
            if let Some(processors) = needs_its_own.filter(|_| Place::of_caller() == place) {
                processors.move_off(place, None);
            }
            let gate = maps.map(|(ours, theirs)| {
                drop(ours);
                theirs
            });
            in_the_box(foundation, ends, gate, processors)
        }
        CloneOutcome::Parent(pid, pidfd) => {
            if let Some(processors) = needs_its_own {
                processors.move_off(Place::of_caller(), Some(pid));
            }
            let init = Init { pid, pidfd };
            if let Some((gate, theirs)) = maps {
                drop(theirs);
                let mapped =
                    write_maps(identity, &init.pidfd).and_then(|()| Order::Go.send(&gate).at(Step::Idmap));
                if let Err(fault) = mapped {
                    init.kill();
                    init.wait();
                    return Err(fault);
                }
            }
            Ok(init)
        }
    }
}

/// Runs the box's side. Neither a panic nor a return may get back into the supervisor's code.
fn in_the_box(
    foundation: &Foundation,
    ends: BoxEnds,
    gate: Option<OwnedFd>,
    processors: Option<Processors>,
) -> ! {
    let BoxEnds { control, set_up } = ends;
    // The copy of the supervisor's end above all: with it open, the end of the supervisor would go unnoticed.
    let mut keep = vec![control.as_fd(), set_up.as_fd()];
    keep.extend(gate.as_ref().map(AsFd::as_fd));
    keep.extend([rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()]);
    let closed = sys::close_all_but(&keep).on(Step::Prepare, "open descriptors");
    let mut reporter = Reporter::new(set_up);
    if let Err(fault) = closed {
        reporter.fault(fault);
        sys::exit_now(1);
    }
    let run = || init::run(foundation, control, &mut reporter, gate, processors);
    let outcome = catch_unwind(AssertUnwindSafe(run));
    let fault = match outcome {
        Ok(Err(fault)) => fault,
        Err(_) => Fault::new(Step::Init, Errno::NOTRECOVERABLE, Some("the launcher panicked".to_owned())),
    };
    reporter.fault(fault);
    sys::exit_now(1)
}

fn prepare(foundation: &Foundation) -> StepResult<()> {
    foundation.fault_point(Step::Prepare)?;
    if !sys::is_single_threaded() {
        return Err(Errno::DEADLK).on(Step::Prepare, "other threads of this process");
    }
    if rustix::process::geteuid().is_root() {
        drop_groups()?;
    }
    sys::close_on_exec_above(2).on(Step::Prepare, "open descriptors")
}

/// Supplementary groups would survive in the box and open what they may read outside, such as `/etc/shadow`.
fn drop_groups() -> StepResult<()> {
    let groups = rustix::process::getgroups().at(Step::Prepare)?;
    if groups.is_empty() {
        return Ok(());
    }
    match rustix::thread::set_thread_groups(&[]) {
        // They are those of the user who made this user namespace. The box reports them as it does for any user.
        Err(Errno::PERM) if setgroups_is_denied() => Ok(()),
        result => result.on(Step::Prepare, "supplementary groups"),
    }
}

/// Whether nobody in this user namespace may change supplementary groups, as in one that an ordinary user made
/// (user_namespaces(7)).
fn setgroups_is_denied() -> bool {
    fs::read_to_string("/proc/self/setgroups").is_ok_and(|setting| setting.trim() == "deny")
}

/// Maps the ids of a target that root switches to, which only a privileged process of the parent namespace may do
/// (user_namespaces(7)).
///
/// Root's own are mapped too: PID 1 needs them to reach what lies in root's directories and to make what the plan
/// says. It gives them up with everything else, and the target never has them.
fn write_maps(identity: Identity, child: &OwnedFd) -> StepResult<()> {
    let pid = seen_pid(child).on(Step::Idmap, "pidfd")?;
    let map = |id: u32| if id == 0 { "0 0 1".to_owned() } else { format!("{id} {id} 1\n0 0 1") };
    for (file, text) in
        [("setgroups", "deny".to_owned()), ("uid_map", map(identity.uid)), ("gid_map", map(identity.gid))]
    {
        let path = format!("/proc/{pid}/{file}");
        fs::write(&path, text).map_err(errno).on(Step::Idmap, path)?;
    }
    Ok(())
}

/// A child's number in the PID namespace that `/proc` shows, which need not be this process's own (`Pid` in
/// proc_pid_fdinfo(5)).
fn seen_pid(pidfd: &OwnedFd) -> Result<u32, Errno> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).map_err(errno)?;
    let pid = info.lines().find_map(|line| line.strip_prefix("Pid:"));
    // 0 and -1 stand for a process that it does not show or that is gone.
    pid.and_then(|pid| pid.trim().parse().ok()).filter(|&pid| pid > 0).ok_or(Errno::SRCH)
}

impl Init {
    /// Ends the box. One that has ended already only needs to be waited for.
    pub(crate) fn kill(&self) {
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL);
    }

    /// Waits for the box, which is ending.
    pub(crate) fn wait(&self) {
        let _ = rustix::process::waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED);
    }

    /// Lets it end beside what the caller does meanwhile.
    pub(crate) fn end_aside(&self) {
        if let Some(processors) = Processors::of_caller() {
            processors.move_off(Place::of_caller(), Some(self.pid));
        }
    }
}

/// The system's error number of an I/O error; every one here comes from a system call.
pub(super) fn errno(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
