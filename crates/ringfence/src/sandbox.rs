use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use ringfence_types::{SandboxCommand, SandboxOutput};

use crate::audit::Audit;
use crate::error::SandboxError;

/// Runs commands in a box.
///
/// A host's tools hold an `Arc<dyn Sandbox>` and neither know nor choose what is behind it.
#[async_trait]
pub trait Sandbox: Send + Sync + 'static {
    /// Runs one command to its end. Dropping the future ends the command's whole process tree.
    ///
    /// # Errors
    /// A [`SandboxError`] if the command did not run, ran into its time limit, or was ended as a violation. A
    /// program that ran and failed is no error: its status is in the output.
    async fn execute(&self, c: SandboxCommand) -> Result<SandboxOutput, SandboxError>;
}

/// What a switched-off sandbox is: it refuses every command. It never passes one through.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoopSandbox;

#[async_trait]
impl Sandbox for NoopSandbox {
    async fn execute(&self, c: SandboxCommand) -> Result<SandboxOutput, SandboxError> {
        let result = Err(SandboxError::Disabled);
        Audit::start(&c, "none").end(&result);
        result
    }
}

/// A sandbox for a host's own tests: it runs nothing, records every command and returns prepared results.
///
/// ```
/// # use ringfence::{MockSandbox, Sandbox, SandboxCommand, SandboxOutput};
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let sandbox = MockSandbox::new();
/// sandbox.reply(Ok(SandboxOutput { stdout: b"hi\n".to_vec(), exit_code: Some(0), ..Default::default() }));
/// let output = sandbox.execute(SandboxCommand::new("s", "echo").args(["hi"])).await.unwrap();
/// assert_eq!(output.stdout, b"hi\n");
/// assert_eq!(sandbox.take_commands()[0].program, "echo");
/// # });
/// ```
#[derive(Default)]
pub struct MockSandbox {
    commands: Mutex<Vec<SandboxCommand>>,
    replies: Mutex<VecDeque<Result<SandboxOutput, SandboxError>>>,
}

impl MockSandbox {
    /// A sandbox whose commands end with status 0 and no output, as long as no result is prepared.
    pub fn new() -> Self {
        Self::default()
    }

    /// Prepares the result of one command; results are used in the order in which they were prepared.
    pub fn reply(&self, result: Result<SandboxOutput, SandboxError>) {
        lock(&self.replies).push_back(result);
    }

    /// The commands so far, which are then forgotten.
    pub fn take_commands(&self) -> Vec<SandboxCommand> {
        std::mem::take(&mut lock(&self.commands))
    }
}

#[async_trait]
impl Sandbox for MockSandbox {
    async fn execute(&self, c: SandboxCommand) -> Result<SandboxOutput, SandboxError> {
        lock(&self.commands).push(c);
        let success = || Ok(SandboxOutput { exit_code: Some(0), ..SandboxOutput::default() });
        lock(&self.replies).pop_front().unwrap_or_else(success)
    }
}

impl fmt::Debug for MockSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MockSandbox").field("commands", &lock(&self.commands)).finish_non_exhaustive()
    }
}

/// A panic of another thread leaves no half-made state behind these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
