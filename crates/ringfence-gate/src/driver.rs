use std::io;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use ringfence_plan::{HostFacts, LaunchPlan};
use ringfence_types::{Connections, Denial, LayerName, LayerReport, LayerStatus, SandboxCommand, Step};

use crate::{ApprovedRun, HostApproval, Pins};

/// Stage 5: starts the process. The only place where one is started.
#[async_trait]
pub trait OsSandboxDriverTrait: Send + Sync + 'static {
    /// System and mechanism: `linux/native`, `linux/bwrap`, `macos/seatbelt`, `windows/acl`, …
    fn platform(&self) -> &'static str;

    /// What the plan has to know of this host.
    ///
    /// # Errors
    /// [`DriverError::Io`] if the host can't be examined.
    fn facts(&self) -> Result<HostFacts, DriverError>;

    /// Executes the plan, relays I/O and enforces the limits. Dropping the future ends the whole tree.
    ///
    /// # Errors
    /// A [`DriverError`] that says whether the program ran, and which step failed if it did not.
    async fn run(&self, run: ApprovedRun) -> Result<DriverOutput, DriverError>;
}

/// Limits of one run that the driver enforces from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLimits {
    /// Wall clock; `None` is unlimited.
    pub timeout: Option<Duration>,
    /// Output budget in bytes for both streams together; only captured output counts.
    pub max_output_bytes: usize,
    /// Layers that must be fully in force.
    pub required: Vec<LayerName>,
}

/// What a driver takes out of an [`ApprovedRun`].
#[derive(Debug)]
pub struct RunParts {
    /// The command as vetted.
    pub command: SandboxCommand,
    /// The plan made for it.
    pub plan: LaunchPlan,
    /// Descriptors (`O_PATH`) of the approved paths. Held until the end of the run, they keep the inodes from
    /// being reused, so that the identities in the plan stay unambiguous.
    pub pinned: Pins,
    /// Limits.
    pub limits: RunLimits,
    /// Decides on hosts that the running command wants and that the plan does not name.
    pub hosts: HostApproval,
}

/// How a started program ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverOutput {
    /// Captured standard output.
    pub stdout: Vec<u8>,
    /// Captured standard error.
    pub stderr: Vec<u8>,
    /// Exit status, unless a signal ended the program.
    pub exit_code: Option<i32>,
    /// Signal that ended the program.
    pub signal: Option<i32>,
    /// Bytes dropped from the middle of standard output.
    pub dropped_stdout: u64,
    /// Bytes dropped from the middle of standard error.
    pub dropped_stderr: u64,
    /// From the start of the launch to the end of the program.
    pub duration: Duration,
    /// What was enforced, from return values and read-backs.
    pub layers: LayerReport,
    /// What was refused, as far as this driver knows.
    pub denials: Vec<Denial>,
    /// What was connected to by host name or address, allowed or not.
    pub connections: Connections,
    /// Roots that the command could write.
    pub writable: Vec<PathBuf>,
}

/// Why a run did not end by itself.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// A step of the launcher failed; the program did not run.
    #[error("step {step} failed{}", about(.subject))]
    Launch {
        /// Which step.
        step: Step,
        /// The path or object that it worked on.
        subject: Option<String>,
        /// The system's answer.
        source: io::Error,
        /// What to do about it.
        hint: Option<String>,
        /// What was in force by then.
        layers: LayerReport,
    },
    /// The program does not exist inside the box.
    #[error("program {} not found", .0.display())]
    NotFound(PathBuf),
    /// The program exists and can't be executed.
    #[error("program {} is not executable", .program.display())]
    NotExecutable {
        /// As named or as found in `PATH`.
        program: PathBuf,
        /// The system's answer to execve(2).
        source: io::Error,
    },
    /// A required layer is not fully in force; the program did not run.
    #[error("required layer {name} is {}: {detail}", .status.as_str())]
    RequiredLayer {
        /// Which layer.
        name: LayerName,
        /// How far it is in force.
        status: LayerStatus,
        /// Why.
        detail: String,
    },
    /// The wall-clock limit ended the whole tree.
    #[error("timed out after {:.1?}", .output.duration)]
    Timeout {
        /// What it had written.
        output: Box<DriverOutput>,
    },
    /// The run was ended because an enforcement was lost during it.
    #[error("run ended: {reason}")]
    Violation {
        /// What was lost.
        reason: String,
        /// What it had written.
        output: Box<DriverOutput>,
    },
    /// The future was dropped; the whole tree was ended.
    #[error("cancelled")]
    Cancelled,
    /// This driver can't enforce what the plan asks for.
    #[error("{feature} is not supported by {platform}: {reason}")]
    Unsupported {
        /// The driver.
        platform: &'static str,
        /// What was asked.
        feature: &'static str,
        /// Why not.
        reason: String,
    },
    /// The supervisor itself failed.
    #[error("cannot {action}")]
    Io {
        /// What it was doing.
        action: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

fn about(subject: &Option<String>) -> String {
    subject.as_ref().map(|subject| format!(" on {subject}")).unwrap_or_default()
}
