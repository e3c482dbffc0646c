//! Stage 4: launch plans as pure data.
//!
//! A plan says everything that a driver will do, in order. Making one performs no I/O and depends on no `cfg`
//! of the host, so the plans of every system are made and tested on every system; drivers only execute them.

#![forbid(unsafe_code)]

mod error;
pub mod linux;

use serde::{Deserialize, Serialize};

pub use error::ProfileError;
pub use linux::{LinuxFacts, LinuxPlan, linux};

/// What a driver knows of its host, gathered before a plan is made.
#[derive(Clone, Debug)]
pub enum HostFacts {
    /// Facts of a Linux host.
    Linux(LinuxFacts),
}

/// A launch plan for one operating system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchPlan {
    /// For the Linux backends.
    Linux(LinuxPlan),
}

/// A launch plan as hosts see it: opaque, to be printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct OsSandboxProfile(LaunchPlan);

impl From<LaunchPlan> for OsSandboxProfile {
    fn from(plan: LaunchPlan) -> Self {
        Self(plan)
    }
}
