//! What tests share: callers, temporary workspaces, runs of the binary, a terminal, fakes, and the gate that
//! turns a missing tool into a printed skip or, where the environment says so, into a failure.

#![forbid(unsafe_code)]
#![allow(clippy::print_stderr, reason = "what a test skips must be seen")]

mod binaries;
mod caller;
mod fixture;
mod invocation;
mod listing;
mod needs;
mod processes;
mod terminal;

pub use binaries::Binaries;
pub use caller::{Caller, UNPRIVILEGED_ID};
pub use fixture::Fixture;
pub use invocation::{Finished, Invocation, Probed, Running};
pub use listing::{Entry, Listing};
pub use needs::{MUST_HAVE, met};
pub use processes::{end_all, with_token};
pub use terminal::Terminal;
