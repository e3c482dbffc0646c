//! PID 1 of the box: steps *idmap*, *loopback* and *init*, and what it does from then on.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};

use ringfence_types::{LayerName, LayerStatus, Step};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Pid, Signal, WaitOptions, WaitStatus};
use rustix::pty::OpenptFlags;
use rustix::thread::CapabilitySets;

use super::process::errno;
use super::report::{At, Event, Order, Reporter, StepResult};
use super::{Request, StdStreams, filesystem, target};
use crate::sys;

/// Host name inside, also in the box's `/etc/hosts`.
const HOST_NAME: &[u8] = b"ringfence";

/// Sets up the box and starts the target. Returns only if a step fails.
pub(super) fn run(
    request: &Request,
    streams: StdStreams,
    control: OwnedFd,
    reporter: &mut Reporter,
    gate: Option<OwnedFd>,
) -> StepResult<std::convert::Infallible> {
    // The launcher has one thread, so its end is the end of the process.
    let follow_launcher = || rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    follow_launcher().at(Step::Clone)?;
    report_namespaces(request, reporter);

    request.fault_point(Step::Idmap)?;
    idmap(request, gate, reporter)?;
    // A change of identity clears the signal.
    follow_launcher().at(Step::Idmap)?;

    // The plan's modes are meant as written.
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    filesystem::build(request, reporter)?;

    request.fault_point(Step::Loopback)?;
    if request.plan.own_network {
        rustix::system::sethostname(HOST_NAME).on(Step::Loopback, "host name")?;
        sys::loopback_up().on(Step::Loopback, "interface lo")?;
    }
    rustix::process::umask(umask);

    request.fault_point(Step::Init)?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).at(Step::Init)?;
    let terminal = if request.wants_terminal() { Some(inner_terminal(&control)?) } else { None };
    let all_signals = sys::block_all_signals().at(Step::Init)?;
    match sys::fork().on(Step::Init, "target")? {
        None => {
            drop(control);
            target::run(request, streams, terminal, reporter)
        }
        Some(pid) => {
            drop((streams, terminal));
            // The target has its own copy of the pipe; what goes wrong from here on ends the box.
            reap(request, pid, &control, reporter, all_signals)
        }
    }
}

fn report_namespaces(request: &Request, reporter: &mut Reporter) {
    // clone(2) makes all of the namespaces or fails.
    for name in [LayerName::IpcNs, LayerName::UtsNs] {
        reporter.layer(name, LayerStatus::Enforced, "");
    }
    let pid = rustix::process::getpid();
    let status = if pid == Pid::INIT { LayerStatus::Enforced } else { LayerStatus::Missing };
    reporter.layer(LayerName::PidNs, status, "");
    if request.plan.own_network {
        reporter.layer(LayerName::NetNs, LayerStatus::Enforced, "own loopback only");
    } else {
        reporter.layer(LayerName::NetNs, LayerStatus::NotRequested, "the host's network");
    }
    reporter.layer(LayerName::Cgroup, LayerStatus::NotRequested, "no limit asked for");
    reporter.layer(LayerName::Proxy, LayerStatus::NotRequested, "no host named");
}

/// One uid and one gid, each mapped to itself; setgroups denied.
fn idmap(request: &Request, gate: Option<OwnedFd>, reporter: &mut Reporter) -> StepResult<()> {
    let identity = request.plan.identity;
    if let Some(gate) = gate {
        match Order::receive(&gate).at(Step::Idmap)? {
            Some(Order::Go) => {}
            _ => return Err(Errno::PIPE).on(Step::Idmap, "the supervisor"),
        }
        let (uid, gid) = (rustix::process::Uid::from_raw(identity.uid), rustix::process::Gid::from_raw(identity.gid));
        rustix::thread::set_thread_res_gid(gid, gid, gid).on(Step::Idmap, format!("gid {}", identity.gid))?;
        rustix::thread::set_thread_res_uid(uid, uid, uid).on(Step::Idmap, format!("uid {}", identity.uid))?;
    } else {
        for (path, text) in [
            ("/proc/self/setgroups", "deny".to_owned()),
            ("/proc/self/uid_map", format!("{0} {0} 1", identity.uid)),
            ("/proc/self/gid_map", format!("{0} {0} 1", identity.gid)),
        ] {
            fs::write(path, text).map_err(errno).on(Step::Idmap, path)?;
        }
    }
    let extra = rustix::process::getgroups().map(|groups| groups.len()).unwrap_or(0);
    let own = rustix::process::geteuid().as_raw() == identity.uid;
    let status = if own { LayerStatus::Enforced } else { LayerStatus::Missing };
    let detail = match extra {
        0 => format!("uid {}, gid {}", identity.uid, identity.gid),
        _ => format!("uid {}, gid {}; {extra} supplementary groups of the caller remain", identity.uid, identity.gid),
    };
    reporter.layer(LayerName::UserNs, status, detail);
    Ok(())
}

/// A terminal of the box's own devpts; the master goes to the supervisor, which sets size and modes.
fn inner_terminal(control: &OwnedFd) -> StepResult<OwnedFd> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let path = "/dev/pts/ptmx";
    let open = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
    let master = rustix::fs::open(path, open, rustix::fs::Mode::empty()).on(Step::Init, path)?;
    rustix::pty::unlockpt(&master).on(Step::Init, path)?;
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags).on(Step::Init, path)?;
    Event::Terminal.send(control, Some(master.as_fd())).at(Step::Init)?;
    match Order::receive(control).at(Step::Init)? {
        Some(Order::Go) => {}
        _ => return Err(Errno::PIPE).on(Step::Init, "the supervisor"),
    }
    // PID 1 leads the terminal's session, so that the target's process group isn't orphaned and can be stopped.
    rustix::process::setsid().at(Step::Init)?;
    rustix::process::ioctl_tiocsctty(&slave).on(Step::Init, path)?;
    Ok(slave)
}

/// Reaps until the target ends, then ends what is left and reports. Never returns.
fn reap(
    request: &Request,
    target: Pid,
    control: &OwnedFd,
    reporter: &mut Reporter,
    signals: OwnedFd,
) -> StepResult<std::convert::Infallible> {
    give_up_rights(request, control, reporter, &signals)?;
    loop {
        let mut fds = [PollFd::new(control, PollFlags::IN), PollFd::new(&signals, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => sys::exit_now(1),
        }
        let [order, child] = [fds[0].revents(), fds[1].revents()];
        if !child.is_empty() {
            sys::drain_signals(&signals);
            collect(target, control);
        }
        if !order.is_empty() {
            match Order::receive(control) {
                Ok(Some(Order::Signal(number))) => signal(number, |signal| {
                    let _ = rustix::process::kill_process(target, signal);
                }),
                Ok(Some(Order::SignalGroup(number))) => signal(number, |signal| {
                    if rustix::process::kill_process_group(target, signal).is_err() {
                        let _ = rustix::process::kill_process(target, signal);
                    }
                }),
                Ok(Some(Order::Go)) => {}
                // The supervisor is gone; the kernel ends the rest of the box with PID 1.
                Ok(None) | Err(_) => sys::exit_now(1),
            }
        }
    }
}

fn signal(number: i32, send: impl FnOnce(Signal)) {
    if let Some(signal) = Signal::from_named_raw(number) {
        send(signal);
    }
}

/// Waits for whatever ended. When the target did, everything else ends too.
fn collect(target: Pid, control: &OwnedFd) {
    let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
    while let Ok(Some((pid, status))) = rustix::process::wait(options) {
        if pid != target {
            continue;
        }
        if let Some(signal) = status.stopping_signal() {
            let _ = Event::Stopped(signal).send(control, None);
        } else {
            end(status, control);
        }
    }
}

fn end(status: WaitStatus, control: &OwnedFd) -> ! {
    // ESRCH: the target was alone.
    let _ = sys::kill_all();
    while rustix::process::wait(WaitOptions::empty()).is_ok() {}
    let event = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Event::Exited(code),
        (None, Some(signal)) => Event::Killed(signal),
        (None, None) => Event::Killed(0),
    };
    let _ = event.send(control, None);
    sys::exit_now(0)
}

/// PID 1 keeps no descriptor but its channel, no environment, no capability and few system calls: otherwise
/// `/proc/1` and ptrace(2) would be ways out.
fn give_up_rights(
    request: &Request,
    control: &OwnedFd,
    reporter: &mut Reporter,
    signals: &OwnedFd,
) -> StepResult<()> {
    sys::clear_environment();
    let _ = reporter;
    sys::close_all_but(&[control.as_fd(), signals.as_fd()]).at(Step::Init)?;
    rustix::thread::set_no_new_privs(true).at(Step::Init)?;
    let none = CapabilitySets { effective: empty(), permitted: empty(), inheritable: empty() };
    rustix::thread::set_capabilities(None, none).at(Step::Init)?;
    target::install(&request.plan.init_seccomp).at(Step::Init)
}

fn empty() -> rustix::thread::CapabilitySet {
    rustix::thread::CapabilitySet::empty()
}
