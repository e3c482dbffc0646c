//! Ringfence runs a command that nobody has vetted so that it can touch only what it was granted.

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
    CacheRequest, DriverError, DriverOutput, Lifetime, OsSandboxDriverTrait, SessionPolicy, SessionStart,
    TerminalRequester, session_directory,
};
#[cfg(target_os = "linux")]
pub use ringfence_linux::{LinuxDriver, init};

pub use ringfence_plan::{HostFacts, LaunchPlan, OsSandboxProfile};
pub use ringfence_policy::{HookContext, HookDecision, RateLimitConfig, RateLimitHook, SandboxBeforeHook};
pub use ringfence_types::{
    Denial, DenialKind, DenialSource, Excess, HostPattern, Layer, LayerName, LayerReport, LayerStatus,
    NetworkPolicy, SandboxCapabilities, SandboxCommand, SandboxOutput, SessionId, Stdin, StdinStream, Stdio,
    Step, WorkspaceAccess,
};
