//! Ringfence runs a command that nobody has vetted so that it can touch only what it was granted.

#![forbid(unsafe_code)]

mod bounded;
pub mod config;
mod host;
mod nearest;
mod presets;
pub mod profiles;
mod run;
pub mod secrets;

pub use config::SandboxConfig;
pub use host::HostEnv;
pub use presets::{Mode, UnknownMode};
pub use run::{RunOptions, SessionSettings};
