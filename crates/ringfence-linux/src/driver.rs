//! The driver: executes an approved run.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use ringfence_gate::{ApprovedRun, DriverError, DriverOutput, OsSandboxDriverTrait, RunParts, identity};
use ringfence_plan::linux::{Groundwork, PRIVATE, Target, UsualView};
use ringfence_plan::{HostFacts, LaunchPlan, LinuxPlan};
use ringfence_types::{LayerReport, Linux, SandboxCommand, UnixPath};
use rustix::event::EventfdFlags;

use crate::covers::Covers;
use crate::desk::Desk;
use crate::egress::Egress;
use crate::facts;
use crate::failure::{fault_error, stream_error};
use crate::io::{Caller, ChildFd, ChildStdio, Clock, Signals, Streams};
use crate::launcher::{self, Foundation, RemoteLauncher, Request, StdStreams};
use crate::running::Running;
use crate::supervise::Supervision;

const PLATFORM: &str = "linux/native";

/// Runs commands in namespaces of their own.
///
/// As a [`OsSandboxDriverTrait`] it serves hosts with any number of threads: each run has a launcher process, so
/// the host has either called [`init`](crate::init) first thing in `main`, or names a binary that does. A
/// single-threaded program can do without by [`Self::run_here`].
#[derive(Clone, Debug, Default)]
pub struct LinuxDriver {
    launcher: Option<PathBuf>,
}

impl LinuxDriver {
    /// A driver whose launcher is this process's own binary.
    pub fn new() -> Self {
        Self::default()
    }

    /// A driver whose launcher is another binary, one that calls [`init`](crate::init) first thing in `main`;
    /// the `ringfence` command is one.
    pub fn with_launcher(binary: impl Into<PathBuf>) -> Self {
        Self { launcher: Some(binary.into()) }
    }

    /// Runs the command with this process as its launcher: no second program is executed. Signals that this
    /// process gets meanwhile are the command's, as for a shell's foreground job.
    ///
    /// When it returns, no process of the command is left, and `hosted` is the box that the kernel still takes down.
    /// One that was begun for another plan is replaced. Only for a process that has no other thread.
    ///
    /// # Errors
    /// As [`OsSandboxDriverTrait::run`].
    pub fn run_here(&self, run: ApprovedRun, hosted: &mut LocalBox) -> Result<DriverOutput, DriverError> {
        let signals = Signals::block()
            .map_err(|errno| DriverError::Io { action: "take over signals", source: errno.into() })?;
        let mask = signals.original_mask();
        self.supervise(run, Some(signals), mask, None, |plan| hosted.fit(plan))
    }

    /// Runs the command with a launcher process, on the calling thread.
    fn run_apart(&self, run: ApprovedRun, cancel: &OwnedFd) -> Result<DriverOutput, DriverError> {
        if self.launcher.is_none() && !launcher::can_launch() {
            return Err(DriverError::Unsupported {
                platform: PLATFORM,
                feature: "launching from this process",
                reason: "call ringfence::init() first thing in main, or name a launcher binary".to_owned(),
            });
        }
        let mut running = None;
        self.supervise(run, None, 0, Some(cancel), |plan| {
            let foundation = Foundation::new(Groundwork::of(plan));
            let launcher = RemoteLauncher::begin(self.launcher.as_ref(), &foundation)?;
            Ok(running.insert(launcher.into()))
        })
    }

    fn supervise<'a>(
        &self,
        run: ApprovedRun,
        signals: Option<Signals>,
        signal_mask: u64,
        cancel: Option<&'a OwnedFd>,
        begin: impl FnOnce(&LinuxPlan) -> launcher::StepResult<&'a mut Running>,
    ) -> Result<DriverOutput, DriverError> {
        // The pinned descriptors stay open until the end of the run.
        let RunParts { mut command, plan, pinned: _pinned, limits, hosts } = run.into_parts();
        let LaunchPlan::Linux(plan) = plan;
        let program = PathBuf::from(&command.program);
        let failed = |fault| fault_error(fault, LayerReport::new(), program.clone());
        let clock = Clock::start(limits.timeout);
        // A launcher starts while the rest is made ready.
        let running = begin(&plan).map_err(failed)?;
        let writable = plan.writable.iter().map(to_path).collect();
        let stdin = std::mem::take(&mut command.stdin);
        let (streams, child) =
            Streams::new(command.stdio, stdin, limits.max_output_bytes, Caller::standard())
                .map_err(stream_error)?;
        let covers = Covers::of(&plan);
        let desk = Desk::new()
            .map_err(|errno| DriverError::Io { action: "make an eventfd", source: errno.into() })?;
        hosts.set_terminal(Arc::new(desk.clone()));
        let egress = plan.network.as_ref().map(|plan| Egress::prepare(plan, hosts)).transpose()?;
        let (request, std_streams) = request(plan, &command, child, signal_mask, &limits.required);
        running.hand_over(&request, &std_streams).map_err(failed)?;
        drop((request, std_streams));
        let supervision = Supervision {
            running,
            streams,
            clock,
            covers,
            egress,
            desk,
            stop_due: None,
            signals,
            cancel: cancel.map(AsFd::as_fd),
            program,
            writable,
        };
        supervision.run()
    }
}

/// The box of a run that this process launches itself ([`LinuxDriver::run_here`]). Dropped, it ends, and the kernel
/// has taken it down when that returns.
#[derive(Debug, Default)]
pub struct LocalBox {
    begun: Option<Groundwork>,
    running: Option<Running>,
}

impl LocalBox {
    /// Begins a box for a run that is not approved yet, so that the kernel makes its namespaces and first mounts
    /// meanwhile. Nothing of the caller's runs in it, and without [`LinuxDriver::run_here`] nothing will. What can't
    /// be begun is left to the run, which then meets the reason again.
    ///
    /// `shows_the_disk` is whether the command may read all of the disk, `keeps_temp` whether its temporary files
    /// outlive the run. Only for a process that has no other thread; supplementary groups of root are dropped.
    pub fn begin(shows_the_disk: bool, keeps_temp: bool, linux: &Linux, workspace: &Path) -> Self {
        let owner = fs::metadata(workspace).ok().and_then(|found| identity::owner(found.uid(), found.gid()));
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let private = PRIVATE.map(|(path, _)| path).into_iter();
        let view = match shows_the_disk {
            true => UsualView::Disk {
                private: private.filter(|path| !keeps_temp && facts::is_directory(path)).collect(),
            },
            false => UsualView::System,
        };
        let groundwork = Groundwork::usual(&view, linux, uid, gid, owner);
        match launcher::begin(&Foundation::new(groundwork.clone())) {
            Ok(launched) => Self { begun: Some(groundwork), running: Some(launched.into()) },
            Err(_) => Self::default(),
        }
    }

    /// A box on which the plan can go on.
    fn fit(&mut self, plan: &LinuxPlan) -> launcher::StepResult<&mut Running> {
        let begun = self.begun.take().is_some_and(|groundwork| groundwork.carries(plan));
        let running = self.running.take().filter(|_| begun);
        Ok(self.running.insert(match running {
            Some(running) => running,
            None => launcher::begin(&Foundation::new(Groundwork::of(plan)))?.into(),
        }))
    }
}

#[async_trait]
impl OsSandboxDriverTrait for LinuxDriver {
    fn platform(&self) -> &'static str {
        PLATFORM
    }

    fn facts(&self) -> Result<HostFacts, DriverError> {
        facts::gather().map(HostFacts::Linux)
    }

    async fn run(&self, run: ApprovedRun) -> Result<DriverOutput, DriverError> {
        let cancel = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)
            .map_err(|errno| DriverError::Io { action: "make an eventfd", source: errno.into() })?;
        let cancel = Arc::new(cancel);
        let driver = self.clone();
        let ours = CancelOnDrop(Arc::clone(&cancel));
        let result = tokio::task::spawn_blocking(move || driver.run_apart(run, &cancel)).await;
        drop(ours);
        result.unwrap_or_else(|error| {
            Err(DriverError::Io { action: "supervise the run", source: io::Error::other(error) })
        })
    }
}

/// Ends the run when the future that waits for it is dropped.
struct CancelOnDrop(Arc<OwnedFd>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        // Writing 1 to an eventfd that nobody has written to can't fail; after the run nobody reads it.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}

fn request(
    plan: LinuxPlan,
    command: &SandboxCommand,
    child: ChildStdio,
    signal_mask: u64,
    required: &[ringfence_types::LayerName],
) -> (Request, StdStreams) {
    let bytes = |text: &std::ffi::OsString| UnixPath::new(text.as_encoded_bytes());
    let target = Target {
        program: bytes(&command.program),
        argv: std::iter::once(&command.program).chain(&command.args).map(bytes).collect(),
        env: plan.environment(&command.env),
    };
    let mut input_file = false;
    let mut streams = StdStreams::default();
    for (slot, fd) in streams.fds.iter_mut().zip(child.fds) {
        *slot = match fd {
            ChildFd::Descriptor(fd) => Some(fd),
            ChildFd::InputFile { file, pipe } => {
                input_file = true;
                streams.input_pipe = Some(pipe);
                Some(file)
            }
            ChildFd::Terminal => None,
        };
    }
    let request = Request {
        plan,
        target,
        terminal: streams.fds.each_ref().map(Option::is_none),
        input_file,
        required: required.to_vec(),
        signal_mask,
    };
    (request, streams)
}

pub(crate) fn to_path(path: &UnixPath) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::OsStr::from_bytes(path.as_bytes()).into()
}
