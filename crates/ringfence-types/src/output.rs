use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Connections, Denial, LayerReport};

/// The result of a command that was started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxOutput {
    /// Standard output, at most the output budget.
    pub stdout: Vec<u8>,
    /// Standard error, at most the output budget.
    pub stderr: Vec<u8>,
    /// The program's own exit status; `None` if a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended the program.
    pub signal: Option<i32>,
    /// Whether anything was dropped from either stream.
    pub truncated: bool,
    /// Bytes dropped from the middle of standard output.
    pub dropped_stdout: u64,
    /// Bytes dropped from the middle of standard error.
    pub dropped_stderr: u64,
    /// From the start of the launch to the end of the program.
    pub duration: Duration,
    /// Name of the backend that ran it, e.g. `linux/native`.
    pub backend: String,
    /// What was enforced.
    pub layers: LayerReport,
    /// What was refused, as far as it is known. An empty list does not mean that nothing was.
    pub denials: Vec<Denial>,
    /// What it connected to by host name or address, allowed or not.
    #[serde(default)]
    pub connections: Connections,
    /// Paths that the command could write.
    pub writable: Vec<PathBuf>,
}
