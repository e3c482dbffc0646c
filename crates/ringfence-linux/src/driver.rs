//! The driver: executes an approved run.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use ringfence_gate::{ApprovedRun, DriverError, DriverOutput, OsSandboxDriverTrait, RunParts};
use ringfence_plan::linux::Target;
use ringfence_plan::{HostFacts, LaunchPlan, LinuxPlan};
use ringfence_types::{LayerReport, SandboxCommand, UnixPath};
use rustix::event::EventfdFlags;

use crate::covers::Covers;
use crate::facts;
use crate::io::{Caller, ChildFd, ChildStdio, Clock, Signals, Streams};
use crate::launcher::{self, RemoteLauncher, Request, StdStreams};
use crate::supervise::{Supervision, fault_error, stream_error};

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
    /// Only for a process that has no other thread.
    ///
    /// # Errors
    /// As [`OsSandboxDriverTrait::run`].
    pub fn run_here(&self, run: ApprovedRun) -> Result<DriverOutput, DriverError> {
        let signals = Signals::block()
            .map_err(|errno| DriverError::Io { action: "take over signals", source: errno.into() })?;
        let mask = signals.original_mask();
        self.supervise(run, Some(signals), mask, None, |request, streams| {
            launcher::launch(request, streams).map(Into::into)
        })
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
        self.supervise(run, None, 0, Some(cancel), |request, streams| {
            RemoteLauncher::start(self.launcher.as_ref(), request, &streams).map(Into::into)
        })
    }

    fn supervise(
        &self,
        run: ApprovedRun,
        signals: Option<Signals>,
        signal_mask: u64,
        cancel: Option<&OwnedFd>,
        launch: impl FnOnce(&Request, StdStreams) -> launcher::StepResult<crate::supervise::Running>,
    ) -> Result<DriverOutput, DriverError> {
        // The pinned descriptors stay open until the end of the run.
        let RunParts { mut command, plan, pinned: _pinned, limits } = run.into_parts();
        let LaunchPlan::Linux(plan) = plan;
        let clock = Clock::start(limits.timeout);
        let writable = plan.writable.iter().map(to_path).collect();
        let stdin = std::mem::take(&mut command.stdin);
        let (streams, child) =
            Streams::new(command.stdio, stdin, limits.max_output_bytes, Caller::standard())
                .map_err(stream_error)?;
        let program = PathBuf::from(&command.program);
        let covers = Covers::of(&plan);
        let (request, std_streams) = request(plan, &command, child, signal_mask, &limits.required);
        let running = launch(&request, std_streams)
            .map_err(|fault| fault_error(fault, LayerReport::new(), program.clone()))?;
        drop(request);
        let supervision = Supervision {
            running,
            streams,
            clock,
            covers,
            signals,
            cancel: cancel.map(AsFd::as_fd),
            program,
            writable,
        };
        supervision.run()
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
            ChildFd::Descriptor(fd) | ChildFd::OutputFile(fd) => Some(fd),
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
        #[cfg(feature = "fault-injection")]
        fail_at: launcher::injected_fault(),
    };
    (request, streams)
}

pub(crate) fn to_path(path: &UnixPath) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::OsStr::from_bytes(path.as_bytes()).into()
}
