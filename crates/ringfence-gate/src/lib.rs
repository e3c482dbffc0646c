//! Stages 2 and 3: the session's workspace, the working directory, and whether the command may have what it
//! asks for.
//!
//! [`Gate::bind`] turns a vetted command into a [`BoundCommand`]: its session's workspace exists, its working
//! directory lies inside it, what it asks for is resolved to canonical paths and identities. [`Gate::permit`]
//! turns that into a [`Permit`]: it is within the session's baseline, within an earlier grant, or somebody has
//! approved it. [`Permit::plan`] makes the [`ApprovedRun`] that a driver executes. Each of these types is
//! constructed by the one function that does the stage's work and by nothing else.
//!
//! The asynchronous parts need no runtime: they run on any executor.

#![forbid(unsafe_code)]

mod approval;
mod bound;
mod config;
mod cwd;
mod driver;
mod files;
mod gate;
pub mod identity;
mod permit;
pub mod protected;
mod resolve;
mod sessions;

pub use approval::{
    ApprovalAction, ApprovalGate, ApprovalOutcome, ApprovalRequester, ApprovalResponse, HostAnswer,
    HostApproval, Occasion, TerminalHolder, TerminalLoan, TerminalRequester,
};
pub use bound::{BindError, BoundCommand};
pub use config::{CacheRequest, GateConfig, Lifetime, SessionPolicy, SessionStart};
pub use cwd::CwdError;
pub use driver::{DriverError, DriverOutput, OsSandboxDriverTrait, RunLimits, RunParts};
pub use gate::{Gate, GateError};
pub use permit::{AfterRun, ApprovedRun, Decision, Permit, PermitError};
pub use resolve::{Pins, ResolveError};
pub use sessions::{SessionError, SessionStore, SessionWorkspace, session_directory};
