use std::mem;

use ringfence_gate::{AfterRun, ApprovedRun, DriverError, DriverOutput};
use ringfence_types::{Denial, ResolvedPolicy, SandboxOutput, Stdio};
use tokio::runtime::Handle;

use super::execution::Execution;
use crate::error::SandboxError;
use crate::floor::OutputFloor;
use crate::guess;

/// What remains to be done once the driver has taken the run: the look at what the box left, and the output.
///
/// Dropped without [`Finish::look`], because the caller dropped the future, it looks all the same.
pub(super) struct Finish {
    backend: &'static str,
    floor: OutputFloor,
    after: Option<AfterRun>,
    /// For guesses; only captured output is searched for them.
    policy: Option<ResolvedPolicy>,
}

/// What the look found.
#[derive(Default)]
struct Look {
    denials: Vec<Denial>,
    violations: Vec<String>,
}

impl Finish {
    pub(super) fn new(run: &ApprovedRun, backend: &'static str, floor: OutputFloor) -> Self {
        let captured = run.command().stdio == Stdio::Capture;
        Self { backend, floor, after: Some(run.after()), policy: captured.then(|| run.policy().clone()) }
    }

    pub(super) async fn look(
        mut self,
        execution: Execution,
        result: Result<DriverOutput, DriverError>,
    ) -> Result<SandboxOutput, SandboxError> {
        let look = match self.after.take() {
            Some(after) if started(&result) => {
                execution.blocking("look at what the command left", move || look(after)).await?
            }
            _ => Look::default(),
        };
        match result {
            Ok(output) => self.judge(output, look, Vec::new()),
            Err(DriverError::Violation { reason, output }) => self.judge(*output, look, vec![reason]),
            Err(DriverError::Timeout { output }) if look.violations.is_empty() => {
                let output = Box::new(self.output(*output, look.denials));
                Err(SandboxError::Timeout { output })
            }
            Err(DriverError::Timeout { output }) => self.judge(*output, look, Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    fn judge(
        &self,
        output: DriverOutput,
        look: Look,
        mut reasons: Vec<String>,
    ) -> Result<SandboxOutput, SandboxError> {
        reasons.extend(look.violations);
        let output = self.output(output, look.denials);
        if reasons.is_empty() {
            Ok(output)
        } else {
            Err(SandboxError::Violation { reasons, output: Box::new(output) })
        }
    }

    fn output(&self, mut run: DriverOutput, found: Vec<Denial>) -> SandboxOutput {
        let mut denials = mem::take(&mut run.denials);
        denials.extend(found);
        if let Some(policy) = &self.policy
            && run.exit_code != Some(0)
        {
            let guesses = guess::from_stderr(&run.stderr, self.backend, policy);
            denials.extend(
                guesses
                    .into_iter()
                    .filter(|guess| {
                        !denials.iter().any(|known| known.kind == guess.kind && known.target == guess.target)
                    })
                    .collect::<Vec<_>>(),
            );
        }
        SandboxOutput {
            truncated: run.dropped_stdout > 0 || run.dropped_stderr > 0,
            stdout: self.floor.apply(run.stdout),
            stderr: self.floor.apply(run.stderr),
            exit_code: run.exit_code,
            signal: run.signal,
            dropped_stdout: run.dropped_stdout,
            dropped_stderr: run.dropped_stderr,
            duration: run.duration,
            backend: self.backend.to_owned(),
            layers: run.layers,
            denials,
            writable: run.writable,
        }
    }
}

impl Drop for Finish {
    fn drop(&mut self) {
        let Some(after) = self.after.take() else { return };
        // The driver's future was dropped before this, which has ended the tree.
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || look(after))),
            Err(_) => drop(look(after)),
        }
    }
}

/// Whether the program may have run.
fn started(result: &Result<DriverOutput, DriverError>) -> bool {
    !matches!(
        result,
        Err(DriverError::Launch { .. }
            | DriverError::NotFound(_)
            | DriverError::NotExecutable { .. }
            | DriverError::RequiredLayer { .. }
            | DriverError::Unsupported { .. })
    )
}

fn look(after: AfterRun) -> Look {
    drop(after);
    Look::default()
}
