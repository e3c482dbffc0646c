//! The target, between fork and exec: steps *limits*, *caps*, *landlock*, *seccomp* and *exec*.

use std::convert::Infallible;
use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use ringfence_plan::LinuxPlan;
use ringfence_plan::linux::{LandlockAccess, LandlockPlan, MountOp, seccomp};
use ringfence_types::{LayerName, LayerReport, LayerStatus, Step, UnixPath};
use rustix::fs::{Access, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::init::{InnerTerminal, switch_identity};
use super::processors::Processors;
use super::report::{At, Fault, FaultKind, Reporter, StepResult};
use super::{Foundation, Request, StdStreams, filesystem, message};
use crate::io::memory_device;
use crate::sys;

/// Waits for a plan, then becomes its program. Returns only if a step fails.
pub(super) fn run(
    foundation: &Foundation,
    socket: &OwnedFd,
    ready: &OwnedFd,
    reporter: &mut Reporter,
    processors: Option<Processors>,
) -> StepResult<Infallible> {
    // The change of roots takes along who stands in the old one.
    rustix::process::chdir("/").at(Step::Init)?;
    let request = message::receive_request(socket).on(Step::Init, "the plan")?;
    let Some((request, streams, _)) = request else { sys::exit_now(0) };
    let request = &request;
    let start = message::receive_start(socket).on(Step::Init, "the start")?;
    let Some(message::Start { layers, terminal }) = start else { sys::exit_now(0) };
    reporter.resume(layers);
    // PID 1 may have been on its way to another processor when it was copied.
    if let Some(processors) = processors {
        processors.allow_all(None);
    }

    foundation.fault_point(Step::Limits)?;
    session(terminal.as_ref())?;
    filesystem::enter(&request.plan.cwd, request.plan.cwd_id.as_deref())?;
    standard_streams(streams, terminal)?;
    limits(request, reporter)?;

    foundation.fault_point(Step::Caps)?;
    drop_capabilities(request, reporter)?;
    check_workspace(request)?;

    foundation.fault_point(Step::Landlock)?;
    restrict_files(request, reporter)?;

    foundation.fault_point(Step::Seccomp)?;
    restrict_calls(request, reporter)?;

    foundation.fault_point(Step::Exec)?;
    check_required(request, reporter)?;
    await_init(ready)?;
    sys::default_sigpipe();
    sys::restore_file_size_signal();
    sys::set_signal_mask(request.signal_mask).at(Step::Exec)?;
    reporter.send_layers();
    Err(exec(request))
}

/// Waits until PID 1 has given up its rights. If it can't, the kernel ends this process with it.
fn await_init(ready: &OwnedFd) -> StepResult<()> {
    loop {
        match rustix::io::read(ready, &mut [0; size_of::<u64>()]) {
            Err(Errno::INTR) => {}
            read => return read.map(drop).at(Step::Exec),
        }
    }
}

/// A process group of its own in PID 1's session, in the foreground of the inner terminal if it is to start there.
fn session(terminal: Option<&InnerTerminal>) -> StepResult<()> {
    rustix::process::setpgid(None, None).on(Step::Limits, "process group")?;
    match terminal.filter(|terminal| terminal.foreground) {
        None => Ok(()),
        // Every signal is blocked still, so taking the foreground can't stop us.
        Some(terminal) => rustix::termios::tcsetpgrp(&terminal.slave, rustix::process::getpid())
            .on(Step::Limits, "terminal"),
    }
}

fn standard_streams(streams: StdStreams, terminal: Option<InnerTerminal>) -> StepResult<()> {
    let terminal = terminal.as_ref().map(|terminal| terminal.slave.as_fd());
    let mut sources = Vec::with_capacity(3);
    for stream in &streams.fds {
        let Some(source) = stream.as_ref().map(AsFd::as_fd).or(terminal) else {
            return Err(Errno::BADF).on(Step::Limits, "standard streams");
        };
        // Out of the way first: a source may itself be one of 0, 1 and 2.
        let source = rustix::io::fcntl_dupfd_cloexec(source, 3).on(Step::Limits, "standard streams")?;
        sources.push(own_device(source).on(Step::Limits, "standard streams")?);
    }
    let [stdin, stdout, stderr] = [&sources[0], &sources[1], &sources[2]];
    rustix::stdio::dup2_stdin(stdin)
        .and_then(|()| rustix::stdio::dup2_stdout(stdout))
        .and_then(|()| rustix::stdio::dup2_stderr(stderr))
        .on(Step::Limits, "standard streams")
}

/// The box's own node in the place of the host's, whose mode root could change through a descriptor.
fn own_device(source: OwnedFd) -> Result<OwnedFd, Errno> {
    let Some(path) = memory_device(&rustix::fs::fstat(&source)?) else { return Ok(source) };
    let flags = rustix::fs::fcntl_getfl(&source)? & (OFlags::RWMODE | OFlags::NONBLOCK | OFlags::APPEND);
    let own = rustix::fs::open(path, flags | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    // It may have got the number of a closed standard stream.
    rustix::io::fcntl_dupfd_cloexec(own, 3)
}

fn limits(request: &Request, reporter: &mut Reporter) -> StepResult<()> {
    let limits = request.plan.rlimits;
    // With 0, a core handler behind a pipe would still run; 1 is the value that stops it (core(5)).
    let all = [
        (Resource::Core, "core", Some(1)),
        (Resource::Nofile, "open files", limits.open_files),
        (Resource::Fsize, "file size", limits.file_size),
    ];
    let core_ceiling = rustix::process::getrlimit(Resource::Core).maximum.unwrap_or(u64::MAX);
    let mut detail = Vec::new();
    for (resource, name, value) in all {
        let Some(value) = value else { continue };
        let ceiling = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let value = value.min(ceiling);
        let limit = Rlimit { current: Some(value), maximum: Some(value) };
        rustix::process::setrlimit(resource, limit).on(Step::Limits, name)?;
        detail.push(format!("{name} {value}"));
    }
    let (status, detail) = rlimits_report(core_ceiling, &detail);
    reporter.layer(LayerName::Rlimits, status, detail);
    Ok(())
}

/// A hard limit of 0 can't be raised to 1, so that a core handler behind a pipe (core(5)) runs outside when a program of the
/// box crashes.
fn rlimits_report(core_ceiling: u64, set: &[String]) -> (LayerStatus, String) {
    let set = set.join(", ");
    match core_ceiling {
        0 => (
            LayerStatus::Partial,
            format!(
                "{set}; the caller's hard limit of core size is 0, which starts a core handler behind a pipe"
            ),
        ),
        _ => (LayerStatus::Enforced, set),
    }
}

/// no_new_privs, the ambient set and all others, and the identity. The bounding set is PID 1's, which is empty.
fn drop_capabilities(request: &Request, reporter: &mut Reporter) -> StepResult<()> {
    rustix::thread::set_no_new_privs(true).on(Step::Caps, "no_new_privs")?;
    rustix::thread::clear_ambient_capability_set().on(Step::Caps, "ambient set")?;
    let identity = request.plan.identity;
    switch_identity(identity).on(Step::Caps, "identity")?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, none).on(Step::Caps, "capability sets")?;
    let left = rustix::thread::capabilities(None).on(Step::Caps, "capability sets")?;
    let own = rustix::process::getuid() == rustix::process::geteuid()
        && rustix::process::geteuid().as_raw() == identity.seen_uid;
    if left != none || !own || !rustix::thread::no_new_privs().at(Step::Caps)? {
        return Err(Errno::PERM).on(Step::Caps, "capability sets");
    }
    reporter.layer(LayerName::Caps, LayerStatus::Enforced, "none held, none to be gained");
    Ok(())
}

/// Root without capabilities obeys mode bits: a workspace that it can't write would fail in odd ways later.
fn check_workspace(request: &Request) -> StepResult<()> {
    if request.plan.identity.uid != 0 {
        return Ok(());
    }
    if let Some(root) = &request.plan.workspace {
        let written = rustix::fs::access(root.as_bytes(), Access::WRITE_OK);
        if let Err(error @ Errno::ACCESS) = written {
            return Err(error).on(Step::Caps, root);
        }
    }
    Ok(())
}

fn restrict_files(request: &Request, reporter: &mut Reporter) -> StepResult<()> {
    let Some(plan) = &request.plan.landlock else {
        reporter.layer(LayerName::Landlock, LayerStatus::Missing, "the kernel has no Landlock");
        return Ok(());
    };
    let (usual, detail) = landlock_coverage(plan, request.plan.nested_userns);
    if usual == LayerStatus::Missing {
        reporter.layer(LayerName::Landlock, usual, detail);
        return Ok(());
    }
    let status = match landlock(plan)? {
        RulesetStatus::FullyEnforced => usual,
        RulesetStatus::PartiallyEnforced => LayerStatus::Partial,
        RulesetStatus::NotEnforced => return Err(Errno::OPNOTSUPP).at(Step::Landlock),
    };
    reporter.layer(LayerName::Landlock, status, detail);
    Ok(())
}

/// How much of Landlock the plan has once its ruleset is in force, and what it has not.
fn landlock_coverage(plan: &LandlockPlan, nested_userns: bool) -> (LayerStatus, String) {
    /// Rights that kernels may lack, with the ABI that brought them (landlock(7)). That of ABI 9 is the socket gate's.
    const LATER: [(u32, &str); 3] =
        [(3, "truncation"), (5, "ioctl on devices"), (6, "scopes of abstract sockets and signals")];
    let abi = plan.abi;
    let files = match &plan.rules {
        Some(rules) => format!("{} rules", rules.len()),
        None if nested_userns => "no file rules: nested namespaces".to_owned(),
        None => "no file rules: this ABI forbids renames across directories".to_owned(),
    };
    let lacks: Vec<_> = LATER.iter().filter(|(since, _)| abi < *since).map(|(_, right)| *right).collect();
    let status = match &plan.rules {
        None if !plan.scoped => LayerStatus::Missing,
        Some(_) if lacks.is_empty() => LayerStatus::Enforced,
        _ => LayerStatus::Partial,
    };
    let lacks = match lacks.is_empty() {
        true => String::new(),
        false => format!("; this kernel has no right for {}", lacks.join(", ")),
    };
    (status, format!("ABI {abi}, {files}{lacks}"))
}

fn landlock(plan: &LandlockPlan) -> StepResult<RulesetStatus> {
    let abi = ABI::from(i32::try_from(plan.abi).unwrap_or(i32::MAX));
    let mut ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    if plan.rules.is_some() {
        ruleset = ruleset.handle_access(AccessFs::from_all(abi)).map_err(ruleset_error)?;
    }
    if plan.scoped {
        ruleset = ruleset.scope(Scope::from_all(abi)).map_err(ruleset_error)?;
    }
    let mut created = ruleset.create().map_err(ruleset_error)?;
    for rule in plan.rules.iter().flatten() {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match rustix::fs::open(rule.path.as_bytes(), flags, Mode::empty()) {
            // What the target can't reach needs no leave.
            Err(Errno::ACCESS) => continue,
            file => file.on(Step::Landlock, &rule.path)?,
        };
        let mode = rustix::fs::fstat(&file).on(Step::Landlock, &rule.path)?.st_mode;
        let mut access = match rule.access {
            LandlockAccess::List => AccessFs::ReadDir.into(),
            LandlockAccess::ReadExecute => AccessFs::from_read(abi),
            LandlockAccess::All => AccessFs::from_all(abi),
        };
        if FileType::from_raw_mode(mode) != FileType::Directory {
            access &= AccessFs::from_file(abi);
        }
        created = created.add_rule(PathBeneath::new(&file, access)).map_err(ruleset_error)?;
    }
    for stream in [rustix::stdio::stdout(), rustix::stdio::stderr(), rustix::stdio::stdin()] {
        if let Some(access) = stream_access(stream, abi).filter(|_| plan.rules.is_some()) {
            created = created.add_rule(PathBeneath::new(stream, access)).map_err(ruleset_error)?;
        }
    }
    // no_new_privs is set already.
    let status = created.no_new_privs(false).restrict_self().map_err(ruleset_error)?;
    Ok(status.ruleset)
}

/// A standard stream that is a regular file may lie outside the grants; programs that open it again by
/// `/dev/stdout` may do so with the mode that it has.
fn stream_access(stream: std::os::fd::BorrowedFd<'_>, abi: ABI) -> Option<landlock::BitFlags<AccessFs>> {
    let mode = rustix::fs::fstat(stream).ok()?.st_mode;
    if FileType::from_raw_mode(mode) != FileType::RegularFile {
        return None;
    }
    let flags = rustix::fs::fcntl_getfl(stream).ok()?;
    let read =
        AccessFs::from_read(abi) & AccessFs::from_file(abi) & !landlock::BitFlags::from(AccessFs::Execute);
    let write = AccessFs::from_write(abi) & AccessFs::from_file(abi);
    Some(match flags & OFlags::RWMODE {
        OFlags::WRONLY => write,
        OFlags::RDWR => read | write,
        _ => read,
    })
}

fn ruleset_error(error: RulesetError) -> Fault {
    Fault::new(Step::Landlock, last_errno(&error), Some(error.to_string()))
}

/// The system's error number, wherever in the chain it is.
fn last_errno(error: &(dyn std::error::Error + 'static)) -> Errno {
    let mut source = Some(error);
    while let Some(error) = source {
        if let Some(errno) = error.downcast_ref::<std::io::Error>().and_then(Errno::from_io_error) {
            return errno;
        }
        source = error.source();
    }
    Errno::INVAL
}

fn restrict_calls(request: &Request, reporter: &mut Reporter) -> StepResult<()> {
    install(&request.plan.seccomp).at(Step::Seccomp)?;
    let rows = request.plan.seccomp.rows().len();
    let nested = if request.plan.nested_userns { ", nested namespaces allowed" } else { "" };
    let i386 = match request.plan.seccomp.filter() {
        seccomp::Filter::Command(policy) if policy.allow_i386 => ", i386 programs allowed",
        _ => "",
    };
    reporter.layer(LayerName::Seccomp, LayerStatus::Enforced, format!("{rows} rows{nested}{i386}"));
    let (status, detail) = socket_gate(&request.plan);
    reporter.layer(LayerName::SocketGate, status, detail);
    Ok(())
}

/// How far the host's sockets are out of reach. Until Landlock has a right for it (ABI 9), those in folders that show can
/// only be masked, and one that is bound later can't.
fn socket_gate(plan: &LinuxPlan) -> (LayerStatus, String) {
    let gate = match plan.socket_gate {
        seccomp::SocketGate::UnixOnly => "Unix sockets only",
        seccomp::SocketGate::LoopbackOnly => "the box's own loopback",
        seccomp::SocketGate::ProxyRouted => "the box's own loopback, and its proxy",
        seccomp::SocketGate::Unrestricted => {
            return (LayerStatus::NotRequested, "all of the host's network".to_owned());
        }
    };
    if plan.landlock.as_ref().is_some_and(|landlock| landlock.abi >= 9 && landlock.rules.is_some()) {
        return (LayerStatus::Enforced, gate.to_owned());
    }
    let is_masked = |op: &&MountOp| matches!(op, MountOp::Mask { may_be_gone: true, .. });
    let masks = match plan.mounts.iter().filter(is_masked).count() {
        0 => String::new(),
        masked => format!("; {masked} host sockets only masked"),
    };
    let later = "host sockets that are bound later in a visible folder can be reached";
    (LayerStatus::Partial, format!("{gate}{masks}; {later}"))
}

/// The last moment at which a missing layer can keep the program from starting.
fn check_required(request: &Request, reporter: &Reporter) -> StepResult<()> {
    let mut report = LayerReport::new();
    for layer in reporter.layers() {
        report.record(layer.name, layer.status, layer.detail.clone());
    }
    let Some((name, status)) = report.first_unmet(&request.required) else { return Ok(()) };
    let detail = report.get(name).map(|layer| layer.detail.clone()).unwrap_or_default();
    let mut fault = Fault::new(Step::Exec, Errno::OPNOTSUPP, Some(detail));
    fault.kind = FaultKind::Required(name, status);
    Err(fault)
}

/// Installs a filter for this thread; no_new_privs must be set.
pub(super) fn install(program: &seccomp::Program) -> Result<(), Errno> {
    let mut code: Vec<sys::Instruction> = program
        .instructions()
        .iter()
        .map(|i| sys::Instruction { code: i.code, jt: i.jt, jf: i.jf, k: i.k })
        .collect();
    sys::install_filter(&mut code)
}

/// execve(2), with the search of execvp(3): a name without a slash is looked up in the box's `PATH`, and a file
/// that is no program the kernel knows is given to `/bin/sh`.
fn exec(request: &Request) -> Fault {
    let target = &request.target;
    let fail = |errno: Errno, kind| Fault {
        step: Step::Exec,
        errno: errno.raw_os_error(),
        subject: Some(target.program.to_string()),
        kind,
    };
    let (Ok(argv), Ok(env)) = (strings(&target.argv), strings(&target.env)) else {
        return fail(Errno::INVAL, FaultKind::Failed);
    };
    let program = target.program.as_bytes();
    let mut worst = Errno::NOENT;
    for candidate in candidates(program, &target.env) {
        let Ok(path) = CString::new(candidate.clone()) else { return fail(Errno::INVAL, FaultKind::Failed) };
        match sys::execve(&path, &argv, &env) {
            Errno::NOENT | Errno::NOTDIR if !exists(&candidate) => {}
            // A directory of `PATH` that can't be searched has no program for us.
            Errno::ACCESS if !program.contains(&b'/') && !exists(&candidate) => {}
            Errno::NOEXEC if !is_text(&candidate) => return fail(Errno::NOEXEC, FaultKind::NotExecutable),
            Errno::NOEXEC => {
                let mut script = vec![c"sh".to_owned(), path];
                script.extend(argv.iter().skip(1).cloned());
                return fail(sys::execve(c"/bin/sh", &script, &env), FaultKind::NotExecutable);
            }
            error if program.contains(&b'/') => return fail(error, kind(error)),
            // Goes on as execvp(3) does; what was found decides if nothing better is.
            error => worst = error,
        }
    }
    fail(worst, if worst == Errno::NOENT { FaultKind::NotFound } else { kind(worst) })
}

fn kind(error: Errno) -> FaultKind {
    match error {
        Errno::TOOBIG | Errno::NOMEM | Errno::AGAIN => FaultKind::Failed,
        _ => FaultKind::NotExecutable,
    }
}

/// A script whose interpreter is missing exists all the same.
fn exists(path: &[u8]) -> bool {
    rustix::fs::lstat(path).is_ok()
}

/// Whether a file that is no program may be a script without `#!`: shells ask whether its start has no NUL.
fn is_text(path: &[u8]) -> bool {
    let mut start = [0; 128];
    let read = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .and_then(|file| rustix::io::read(&file, &mut start[..]));
    read.is_ok_and(|read| !start[..read].contains(&0) && !start.starts_with(b"\x7fELF"))
}

fn candidates(program: &[u8], env: &[UnixPath]) -> Vec<Vec<u8>> {
    if program.contains(&b'/') {
        return vec![program.to_vec()];
    }
    let path = env.iter().rev().find_map(|entry| entry.as_bytes().strip_prefix(b"PATH="));
    let path = OsStr::from_bytes(path.unwrap_or(b"/usr/local/bin:/usr/bin:/bin"));
    std::env::split_paths(path)
        .map(|directory| {
            let directory = directory.into_os_string();
            let mut bytes = if directory.is_empty() { b".".to_vec() } else { directory.as_bytes().to_vec() };
            bytes.push(b'/');
            bytes.extend_from_slice(program);
            bytes
        })
        .collect()
}

fn strings(list: &[UnixPath]) -> Result<Vec<CString>, std::ffi::NulError> {
    list.iter().map(|text| CString::new(text.as_bytes())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn landlock_is_partial_below_the_rights_that_are_handled_elsewhere() {
        let coverage = |abi, rules: bool, nested| {
            let rules = rules.then(Vec::new);
            landlock_coverage(&LandlockPlan { abi, rules, scoped: abi >= 6 }, nested)
        };
        let said = |abi| coverage(abi, true, false);
        assert_eq!(said(7), (LayerStatus::Enforced, "ABI 7, 0 rules".to_owned()));
        assert_eq!(said(6).0, LayerStatus::Enforced);
        for (abi, lacks) in [
            (5, "no right for scopes of abstract sockets and signals"),
            (4, "no right for ioctl on devices, scopes"),
            (2, "no right for truncation, ioctl on devices, scopes"),
        ] {
            let (status, detail) = said(abi);
            assert!(status == LayerStatus::Partial && detail.contains(lacks), "{abi}: {detail}");
        }
        // A box that may nest has no file rules, and before ABI 6 nothing else either: that is no fault of the kernel alone.
        let nested = |abi| coverage(abi, false, true);
        assert!(nested(5).0 == LayerStatus::Missing && nested(5).1.contains("nested namespaces"));
        assert_eq!(nested(7).0, LayerStatus::Partial);
        assert_eq!(coverage(1, false, false).0, LayerStatus::Missing);
    }

    #[test]
    fn a_hard_limit_that_cannot_stop_core_handlers_is_reported() {
        let set = ["core 0".to_owned()];
        assert_eq!(rlimits_report(1, &set).0, LayerStatus::Enforced);
        let (status, detail) = rlimits_report(0, &set);
        assert!(status == LayerStatus::Partial && detail.starts_with("core 0; "), "{detail}");
    }
}
