use std::ffi::OsString;
use std::fmt;
use std::io::Read;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::{SandboxCapabilities, SessionId};

/// One environment variable of the command.
pub type EnvVar = (OsString, OsString);

/// A source that is copied to the command's standard input while its output is drained.
///
/// The lock is never contended: it makes a command `Sync`, so that hooks and approvers can look at one while
/// they wait, whatever the reader is.
pub struct StdinStream(Mutex<Box<dyn Read + Send>>);

impl StdinStream {
    /// Wraps a reader.
    pub fn new(reader: impl Read + Send + 'static) -> Self {
        Self(Mutex::new(Box::new(reader)))
    }

    /// The reader.
    pub fn into_inner(self) -> Box<dyn Read + Send> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for StdinStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StdinStream")
    }
}

/// What the command reads from its standard input.
#[derive(Debug, Default)]
pub enum Stdin {
    /// End of file at once.
    #[default]
    Null,
    /// These bytes, then end of file.
    Bytes(Vec<u8>),
    /// Whatever the reader yields, then end of file. It is read on a thread of its own.
    Stream(StdinStream),
}

/// Where the command's standard streams lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stdio {
    /// Output is collected within the output budget.
    #[default]
    Capture,
    /// The caller's own standard streams; a terminal is relayed through an inner one.
    Inherit,
    /// An inner terminal whatever the caller's streams are; its output goes to the caller's standard output.
    Pty,
}

/// A command to be run, and what it asks for.
///
/// Program, arguments, environment and paths are `OsString`s: bytes that are not text survive end to end.
#[derive(Debug)]
pub struct SandboxCommand {
    /// Session that the command belongs to.
    pub session_id: SessionId,
    /// Name of the tool that asks, for rate limits and the audit.
    pub tool_name: String,
    /// Program, searched in `PATH` inside the box unless it holds a slash.
    pub program: OsString,
    /// Arguments without the program's own name.
    pub args: Vec<OsString>,
    /// Variables set for the command, after the host's were cleared and the allowed ones kept.
    pub env: Vec<EnvVar>,
    /// Standard input.
    pub stdin: Stdin,
    /// What will come from the caller's own standard input or from a stream, as far as the host knows it beforehand:
    /// the command policy reads it if the program executes it. `None` is nothing known; it consumes nothing.
    pub known_stdin: Option<Vec<u8>>,
    /// Standard streams.
    pub stdio: Stdio,
    /// Working directory; `None` is the workspace's root.
    pub cwd: Option<PathBuf>,
    /// What the command asks for.
    pub capabilities: SandboxCapabilities,
    /// Wall-clock limit; beats that of the capabilities and the configured one.
    pub timeout: Option<Duration>,
    /// Why the model wants to run it, shown to whoever approves.
    pub justification: Option<String>,
}

impl SandboxCommand {
    /// A command with no arguments, the strict capabilities and captured output.
    pub fn new(session_id: impl Into<SessionId>, program: impl Into<OsString>) -> Self {
        Self {
            session_id: session_id.into(),
            tool_name: String::from("exec"),
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            stdin: Stdin::Null,
            known_stdin: None,
            stdio: Stdio::Capture,
            cwd: None,
            capabilities: SandboxCapabilities::strict(),
            timeout: None,
            justification: None,
        }
    }

    /// Adds arguments.
    pub fn args<I: IntoIterator<Item = A>, A: Into<OsString>>(mut self, args: I) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets what the command asks for.
    pub fn capabilities(mut self, capabilities: SandboxCapabilities) -> Self {
        self.capabilities = capabilities;
        self
    }
}
