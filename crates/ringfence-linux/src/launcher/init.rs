//! PID 1 of the box: the groundwork, then the plan; steps *idmap*, *loopback* and *init*, and what it does from
//! then on.

use std::convert::Infallible;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};

use ringfence_plan::linux::Identity;
use ringfence_types::{LayerName, LayerStatus, Step};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{DumpableBehavior, Gid, Pid, Signal, Uid, WaitOptions, WaitStatus};
use rustix::pty::OpenptFlags;
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::process::errno;
use super::processors::{Place, Processors};
use super::report::{At, Event, Order, Reporter, StepResult};
use super::table::MountTable;
use super::{Foundation, Request, StdStreams, filesystem, message, network, target};
use crate::sys;

/// Host name inside, also in the box's `/etc/hosts`.
const HOST_NAME: &[u8] = b"ringfence";

/// Sets up the box and starts the target. Returns only if a step fails.
pub(super) fn run(
    foundation: &Foundation,
    control: OwnedFd,
    reporter: &mut Reporter,
    gate: Option<OwnedFd>,
    processors: Option<Processors>,
) -> StepResult<Infallible> {
    // The launcher has one thread, so its end is the end of the process.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).at(Step::Clone)?;
    let groundwork = &foundation.groundwork;
    own_network(groundwork.own_network, reporter)?;
    report_namespaces(reporter);

    foundation.fault_point(Step::Idmap)?;
    idmap(groundwork.identity, gate, reporter)?;

    foundation.fault_point(Step::Loopback)?;
    if groundwork.own_network {
        rustix::system::sethostname(HOST_NAME).on(Step::Loopback, "host name")?;
        sys::loopback_up().on(Step::Loopback, "interface lo")?;
    }

    // The plan's modes are meant as written.
    let umask = rustix::process::umask(Mode::empty());
    let mut files = filesystem::Builder::new(foundation)?;
    files.mount(&groundwork.mounts, reporter)?;

    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).at(Step::Init)?;
    // PID 1 leads the box's session, so that the target's process group isn't orphaned: the kernel lets nobody stop
    // one of those from a terminal, neither the inner one nor, by way of the supervisor, the caller's.
    rustix::process::setsid().on(Step::Init, "session")?;
    let signals = sys::block_all_signals().at(Step::Init)?;
    let ignores_children = sys::keep_ended_children();
    // It bears on what is executed alone, and the target inherits it.
    clear_bounding_set().on(Step::Init, "bounding set")?;
    let ready = eventfd(0, EventfdFlags::CLOEXEC).on(Step::Init, "target")?;
    let become_target = |socket: OwnedFd, reporter: &mut Reporter| {
        rustix::process::umask(umask);
        if ignores_children {
            sys::ignore_ended_children();
        }
        target::run(foundation, &socket, &ready, reporter, processors)
    };
    // A copy of this process takes its time, and nothing is to be done until the plan comes.
    let mut embryo = Embryo::fork(reporter, become_target)?;
    let aside = |target: Pid| {
        if let Some(processors) = processors {
            processors.move_off(Place::of_caller(), Some(target));
        }
    };

    let request = message::receive_request(&control).on(Step::Prepare, "the plan")?;
    // The run was refused, or the supervisor is gone.
    let Some((request, mut streams, plan)) = request else { sys::exit_now(1) };
    if !groundwork.carries(&request.plan) {
        return Err(Errno::INVAL).on(Step::Prepare, "the plan: the box was begun for another");
    }
    network::set_up(request.plan.network.as_ref(), &control, reporter)?;
    reopen_input(&request, &mut streams, &control)?;
    if !request.wants_terminal() {
        embryo.feed(&plan, &streams)?;
        aside(embryo.pid);
    }
    files.mount(&request.plan.mounts[groundwork.mounts.len()..], reporter)?;
    let mounts = files.enter(&request.plan, reporter)?;

    foundation.fault_point(Step::Init)?;
    let mut early = Vec::new();
    if request.plan.network.is_some() {
        go_ahead(&control, &mut early).at(Step::Loopback)?;
    }
    let terminal = request.wants_terminal().then(|| inner_terminal(&control, &mut early)).transpose()?;
    if terminal.is_some() {
        // A session's terminal is that of its leader, and of what the leader forks from then on.
        embryo.dismiss()?;
        embryo = Embryo::fork(reporter, become_target)?;
        embryo.feed(&plan, &streams)?;
    }
    embryo.start(reporter, terminal.as_ref())?;
    aside(embryo.pid);
    drop((streams, plan));
    filesystem::detach_old_root()?;
    let mounts = MountTable::open(mounts).on(Step::Init, "mount table")?;
    // The target has its own copy of the pipe; what goes wrong from here on ends the box.
    let terminal = terminal.map(|terminal| terminal.slave);
    Reaper { target: embryo.pid, control, terminal, signals, mounts }.run(&request, &ready, early)
}

/// The target before it has a plan: a copy of PID 1 that waits for it.
struct Embryo {
    pid: Pid,
    socket: OwnedFd,
}

impl Embryo {
    /// Returns in PID 1 only, unless what becomes of the copy fails.
    fn fork(
        reporter: &mut Reporter,
        become_target: impl Fn(OwnedFd, &mut Reporter) -> StepResult<Infallible>,
    ) -> StepResult<Self> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .on(Step::Init, "target")?;
        match sys::fork().on(Step::Init, "target")? {
            Some(pid) => Ok(Self { pid, socket: ours }),
            None => {
                drop(ours);
                become_target(theirs, reporter).map(|never| match never {})
            }
        }
    }

    /// Gives it the plan and its standard streams.
    fn feed(&self, plan: &OwnedFd, streams: &StdStreams) -> StepResult<()> {
        message::pass_request(&self.socket, plan, streams).on(Step::Init, "target")
    }

    /// Lets it go on, in the new root.
    fn start(&self, reporter: &Reporter, terminal: Option<&InnerTerminal>) -> StepResult<()> {
        message::send_start(&self.socket, reporter.layers(), terminal).on(Step::Init, "target")
    }

    /// Ends one that got no plan.
    fn dismiss(self) -> StepResult<()> {
        drop(self.socket);
        rustix::process::waitpid(Some(self.pid), WaitOptions::empty()).map(drop).on(Step::Init, "target")
    }
}

/// The network namespace, which takes the kernel as long as all others together.
fn own_network(wanted: bool, reporter: &mut Reporter) -> StepResult<()> {
    if !wanted {
        reporter.layer(LayerName::NetNs, LayerStatus::NotRequested, "the host's network");
        return Ok(());
    }
    sys::unshare_network().on(Step::Clone, "new network namespace")?;
    reporter.layer(LayerName::NetNs, LayerStatus::Enforced, "own loopback only");
    Ok(())
}

fn report_namespaces(reporter: &mut Reporter) {
    // clone(2) makes all of the namespaces or fails.
    for name in [LayerName::IpcNs, LayerName::UtsNs] {
        reporter.layer(name, LayerStatus::Enforced, "");
    }
    let pid = rustix::process::getpid();
    let status = if pid == Pid::INIT { LayerStatus::Enforced } else { LayerStatus::Missing };
    reporter.layer(LayerName::PidNs, status, "");
    reporter.layer(LayerName::Cgroup, LayerStatus::NotRequested, "no limit asked for");
}

/// One uid and one gid; setgroups denied. Where root switches to the workspace's owner, the supervisor writes the
/// maps, and PID 1 and the target change over at the end.
fn idmap(identity: Identity, gate: Option<OwnedFd>, reporter: &mut Reporter) -> StepResult<()> {
    if let Some(gate) = gate {
        match Order::receive(&gate).at(Step::Idmap)? {
            Some(Order::Go) => {}
            _ => return Err(Errno::PIPE).on(Step::Idmap, "the supervisor"),
        }
    } else {
        for (path, text) in [
            ("/proc/self/setgroups", "deny".to_owned()),
            ("/proc/self/uid_map", format!("{} {} 1", identity.seen_uid, identity.uid)),
            ("/proc/self/gid_map", format!("{} {} 1", identity.seen_gid, identity.gid)),
        ] {
            fs::write(path, text).map_err(errno).on(Step::Idmap, path)?;
        }
    }
    let expected = if identity.switch { 0 } else { identity.seen_uid };
    let mapped = rustix::process::geteuid().as_raw() == expected;
    let status = if mapped { LayerStatus::Enforced } else { LayerStatus::Missing };
    let mut detail = format!("uid {}, gid {}", identity.seen_uid, identity.seen_gid);
    let extra = rustix::process::getgroups().map(|groups| groups.len()).unwrap_or(0);
    if extra > 0 {
        detail.push_str(&format!("; {extra} supplementary groups of the caller remain"));
    }
    reporter.layer(LayerName::UserNs, status, detail);
    Ok(())
}

/// Empties the bounding set (capabilities(7)) of this thread, which must still have `CAP_SETPCAP`.
fn clear_bounding_set() -> Result<(), Errno> {
    for bit in 0..u64::BITS {
        match rustix::thread::remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit)) {
            Ok(()) => {}
            // The first one that the kernel doesn't know.
            Err(Errno::INVAL) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Becomes the workspace's owner, for good: no other id is left to go back to.
pub(super) fn switch_identity(identity: Identity) -> Result<(), Errno> {
    if !identity.switch {
        return Ok(());
    }
    let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)
}

/// A file that is standard input could be opened again for writing through `/proc/self/fd/0`: the target gets
/// one that it can only read, on a mount that is read-only. A pipe takes its place where that is impossible.
fn reopen_input(request: &Request, streams: &mut StdStreams, control: &OwnedFd) -> StepResult<()> {
    let [Some(input), ..] = &mut streams.fds else { return Ok(()) };
    if !request.input_file {
        return Ok(());
    }
    match (filesystem::reopen_read_only(input), streams.input_pipe.take()) {
        (Ok(file), _) => *input = file,
        (Err(_), Some(pipe)) => {
            *input = pipe;
            Event::InputPiped.send(control, None).at(Step::Mounts)?;
        }
        (Err(error), None) => return Err(error).on(Step::Mounts, "standard input"),
    }
    Ok(())
}

/// The inner terminal's slave, and whether the target starts in its foreground.
pub(super) struct InnerTerminal {
    pub(super) slave: OwnedFd,
    pub(super) foreground: bool,
}

/// A terminal of the box's own devpts; the master goes to the supervisor, which sets size and modes.
fn inner_terminal(control: &OwnedFd, early: &mut Vec<Order>) -> StepResult<InnerTerminal> {
    let path = "/dev/pts/ptmx";
    let open = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let master = rustix::fs::open(path, open, Mode::empty()).on(Step::Init, path)?;
    rustix::pty::unlockpt(&master).on(Step::Init, path)?;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags).on(Step::Init, path)?;
    Event::Terminal.send(control, Some(master.as_fd())).at(Step::Init)?;
    let foreground = go_ahead(control, early).on(Step::Init, "the supervisor")? == Order::Go;
    rustix::process::ioctl_tiocsctty(&slave).on(Step::Init, path)?;
    Ok(InnerTerminal { slave, foreground })
}

/// Waits until the supervisor lets PID 1 go on. What it orders meanwhile is for the target, later.
fn go_ahead(control: &OwnedFd, early: &mut Vec<Order>) -> Result<Order, Errno> {
    loop {
        match Order::receive(control)? {
            Some(order @ (Order::Go | Order::GoBackground)) => return Ok(order),
            Some(order) => early.push(order),
            None => return Err(Errno::PIPE),
        }
    }
}

/// PID 1 from the start of the target on.
struct Reaper {
    target: Pid,
    control: OwnedFd,
    terminal: Option<OwnedFd>,
    signals: OwnedFd,
    mounts: MountTable,
}

impl Reaper {
    /// Reaps until the target ends, then ends what is left and reports. Returns only if a step fails.
    fn run(&self, request: &Request, ready: &OwnedFd, early: Vec<Order>) -> StepResult<Infallible> {
        self.give_up_rights(request, ready)?;
        early.into_iter().for_each(|order| self.obey(order));
        loop {
            let mut fds = [
                PollFd::new(&self.control, PollFlags::IN),
                PollFd::new(&self.signals, PollFlags::IN),
                PollFd::from_borrowed_fd(self.mounts.as_fd(), PollFlags::PRI),
            ];
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => sys::exit_now(1),
            }
            let [order, child, mounts] = fds.each_ref().map(PollFd::revents);
            // Nothing inside can mount or unmount, and no mount of ours hears of the host's.
            if !mounts.is_empty() && self.mounts.has_lost() {
                self.end_with(Event::MountLost);
            }
            if !child.is_empty() {
                sys::drain_signals(&self.signals);
                self.collect();
            }
            if !order.is_empty() {
                match Order::receive(&self.control) {
                    Ok(Some(order)) => self.obey(order),
                    // The supervisor is gone; the kernel ends the rest of the box with PID 1.
                    Ok(None) | Err(_) => sys::exit_now(1),
                }
            }
        }
    }

    /// PID 1 keeps no descriptor but its channels, no environment, no capability and few system calls:
    /// otherwise `/proc/1` and ptrace(2) would be ways out.
    ///
    /// The program starts after that: PID 1 has no rights by then that it could take over.
    fn give_up_rights(&self, request: &Request, ready: &OwnedFd) -> StepResult<()> {
        sys::clear_arguments_and_environment();
        let mut keep = vec![self.control.as_fd(), self.signals.as_fd(), self.mounts.as_fd(), ready.as_fd()];
        keep.extend(self.terminal.as_ref().map(AsFd::as_fd));
        sys::close_all_but(&keep).at(Step::Init)?;
        rustix::thread::set_no_new_privs(true).at(Step::Init)?;
        switch_identity(request.plan.identity).at(Step::Init)?;
        // A change of identity clears it.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).at(Step::Init)?;
        let none = CapabilitySet::empty();
        let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
        rustix::thread::set_capabilities(None, none).at(Step::Init)?;
        // So does it that PID 1 is not dumpable, where fs.suid_dumpable says so (proc_sys_fs(5)).
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).at(Step::Init)?;
        target::install(&request.plan.init_seccomp).at(Step::Init)?;
        rustix::io::write(ready, &1_u64.to_ne_bytes()).at(Step::Init)?;
        Ok(())
    }

    fn obey(&self, order: Order) {
        match order {
            Order::Signal(number) => signal(number, |signal| {
                let _ = rustix::process::kill_process(self.target, signal);
            }),
            Order::SignalGroup(number) => signal(number, |signal| self.signal_group(signal)),
            Order::Continue { foreground } => {
                if let Some(terminal) = &self.terminal {
                    let group = if foreground { self.target } else { Pid::INIT };
                    // Fails if the group is gone, and then nobody needs the terminal.
                    let _ = rustix::termios::tcsetpgrp(terminal, group);
                }
                self.signal_group(Signal::CONT);
            }
            Order::Go | Order::GoBackground => {}
        }
    }

    /// The target leads its group from before its exec on; until then it is alone.
    fn signal_group(&self, signal: Signal) {
        if rustix::process::kill_process_group(self.target, signal).is_err() {
            let _ = rustix::process::kill_process(self.target, signal);
        }
    }

    /// Waits for whatever ended. When the target did, everything else ends too.
    fn collect(&self) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG | WaitOptions::UNTRACED)
        {
            if pid != self.target {
                continue;
            }
            match status.stopping_signal() {
                Some(signal) => {
                    let _ = Event::Stopped(signal).send(&self.control, None);
                }
                None => self.end(status),
            }
        }
    }

    fn end(&self, status: WaitStatus) -> ! {
        self.end_with(match status.exit_status() {
            Some(code) => Event::Exited(code),
            None => Event::Killed(status.terminating_signal().unwrap_or(0)),
        })
    }

    /// Ends what is left of the box, then says why.
    fn end_with(&self, event: Event) -> ! {
        // ESRCH: the target was alone.
        let _ = sys::kill_all();
        while rustix::process::wait(WaitOptions::empty()).is_ok() {}
        let _ = event.send(&self.control, None);
        sys::exit_now(0)
    }
}

fn signal(number: i32, send: impl FnOnce(Signal)) {
    if let Some(signal) = Signal::from_named_raw(number) {
        send(signal);
    }
}
