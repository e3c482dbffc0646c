//! Ringfence runs a command that nobody has vetted so that it can touch only what it was granted.
//!
//! ```no_run
//! use ringfence::{HostEnv, SandboxCommand, SandboxConfig, SandboxParts, build_sandbox};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // First thing in main: lets this binary serve as the launcher of its own boxes.
//!     ringfence::init();
//!     tokio::runtime::Runtime::new()?.block_on(async {
//!         let config = SandboxConfig::new(HostEnv::current().ringfence_home()?);
//!         let sandbox = build_sandbox(config, SandboxParts::default())?;
//!         let output = sandbox.execute(SandboxCommand::new("demo", "id").args(["-u"])).await?;
//!         assert_eq!(output.exit_code, Some(0));
//!         Ok(())
//!     })
//! }
//! ```
//!
//! # The path of a command
//!
//! 1. **Hooks** ([`SandboxBeforeHook`]): the command policy, the rate limit, then the host's own.
//! 2. **Session and working directory**: each session has a workspace, its jail root; the working directory
//!    lies inside it.
//! 3. **Capabilities** ([`SandboxCapabilities`]): what lies within the session's baseline, or within an earlier
//!    grant, passes. For anything else an [`ApprovalRequester`] is asked; without one it is refused.
//! 4. **Profile**: a launch plan is made, without any I/O ([`WorkspaceSandbox::explain`] shows it).
//! 5. **Run**: the driver executes the plan ([`OsSandboxDriverTrait`]; on Linux `LinuxDriver`). Afterwards
//!    Ringfence looks for what the command left behind that something outside would run.
//! 6. **Audit**: one `tracing` event with the target [`AUDIT_TARGET`] for every exit, refusals and dropped
//!    futures included.
//!
//! No stage can be skipped: each takes a value that only the stage before it can make.
//!
//! # What a session may do
//!
//! Without further ado sessions are `strict`: system files to read, the workspace to write, no network, no
//! processes. [`SessionSettings::resolve`] turns a preset ([`Mode`]), ecosystem profiles ([`profiles`]), and
//! further options into the baseline of sessions; a command that wants all of that asks for
//! `settings.policy.baseline`. See `examples/agent_tool.rs`.
//!
//! # What is promised
//!
//! - A command runs with every layer that was required, or not at all. [`SandboxOutput::layers`] says which
//!   were in force; that is read back, never assumed.
//! - Dropping the future of [`Sandbox::execute`] ends the command's whole process tree.
//! - A program's own failure is no error: [`SandboxError`] means that it did not run, ran out of time, or was
//!   ended as a violation.
//! - [`SandboxOutput::denials`] is what is known of what was refused. An empty list doesn't say that nothing
//!   was.
//!
//! What the boundary is and what it is not: `SECURITY.md`.
//!
//! # Runtimes
//!
//! The default driver needs tokio, either of its runtimes, for [`Sandbox::execute`]. A program without any
//! runtime uses [`WorkspaceSandbox::run_blocking`].

#![forbid(unsafe_code)]

mod audit;
mod bounded;
pub mod config;
mod context;
mod error;
mod floor;
mod guess;
mod host;
mod nearest;
pub mod packages;
mod pipeline;
mod presets;
pub mod profiles;
mod run;
mod sandbox;
pub mod secrets;

pub use audit::AUDIT_TARGET;
pub use config::{ConfigError, SandboxConfig};
pub use context::{SESSION_ID, current_session, invoke_with_session_trace, spawn_in_session};
pub use error::SandboxError;
pub use floor::OutputFloor;
pub use host::HostEnv;
pub use pipeline::{Explanation, SandboxParts, WorkspaceSandbox, build_sandbox};
pub use presets::{Mode, UnknownMode};
pub use run::{RunOptions, SessionSettings};
pub use sandbox::{MockSandbox, NoopSandbox, Sandbox};

pub use ringfence_gate::{
    ApprovalAction, ApprovalGate, ApprovalOutcome, ApprovalRequester, ApprovalResponse, ApprovedRun,
    CacheRequest, DriverError, DriverOutput, HostAnswer, HostApproval, Lifetime, Occasion,
    OsSandboxDriverTrait, Pins, RunLimits, RunParts, SessionPolicy, SessionStart, TerminalHolder,
    TerminalLoan, TerminalRequester, session_directory,
};
#[cfg(target_os = "linux")]
pub use ringfence_linux::{LinuxDriver, LocalBox, ignore_file_size_signal, init, stdout_was_closed};

pub use ringfence_plan::{HostFacts, LaunchPlan, OsSandboxProfile};
pub use ringfence_policy::{CommandPolicyConfig, CommandPolicyHook, command_policy};
pub use ringfence_policy::{HookContext, HookDecision, RateLimitConfig, RateLimitHook, SandboxBeforeHook};
pub use ringfence_types::{
    Connection, Connections, Denial, DenialKind, DenialSource, Excess, HostPattern, Layer, LayerName,
    LayerReport, LayerStatus, NetworkPolicy, SandboxCapabilities, SandboxCommand, SandboxOutput, SessionId,
    Stdin, StdinStream, Stdio, Step, WorkspaceAccess,
};
