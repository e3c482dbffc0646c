use std::error::Error as _;
use std::mem;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use ringfence_gate::protected::{Moved, Quarantined};
use ringfence_gate::{AfterRun, ApprovedRun, DriverError, DriverOutput};
use ringfence_types::{Denial, LayerName, LayerStatus, ResolvedPolicy, SandboxOutput, Stdio, UnixPath};

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
    /// What the driver can't know about layers.
    shortfalls: Vec<(LayerName, String)>,
}

/// What the look found.
#[derive(Default)]
struct Look {
    denials: Vec<Denial>,
    /// Why the run is a violation, one line each.
    violations: Vec<String>,
    /// What could not be looked at.
    incomplete: Vec<String>,
}

impl Finish {
    pub(super) fn new(run: &ApprovedRun, backend: &'static str, floor: OutputFloor) -> Self {
        let captured = run.command().stdio == Stdio::Capture;
        let policy = captured.then(|| run.policy().clone());
        Self { backend, floor, after: Some(run.after()), policy, shortfalls: run.policy().shortfalls() }
    }

    pub(super) async fn look(
        mut self,
        execution: Execution,
        result: Result<DriverOutput, DriverError>,
    ) -> Result<SandboxOutput, SandboxError> {
        let after = self.after.take();
        let (mut output, mut reasons, end) = match result {
            Ok(output) => (output, Vec::new(), End::Exit),
            Err(DriverError::Violation { reason, output }) => (*output, vec![reason], End::Exit),
            Err(DriverError::Timeout { output }) => (*output, Vec::new(), End::Timeout),
            Err(error) if may_have_run(&error) => (DriverOutput::default(), Vec::new(), End::Failed(error)),
            Err(error) => return Err(error.into()),
        };
        let look = move || after.map(|after| look(&after)).unwrap_or_default();
        let look = execution.blocking("look at what the command left", look).await?;
        for detail in look.incomplete {
            output.layers.record(LayerName::Protected, LayerStatus::Partial, detail);
        }
        for (layer, detail) in mem::take(&mut self.shortfalls) {
            output.layers.record(layer, LayerStatus::Partial, detail);
        }
        reasons.extend(look.violations);
        if let (false, End::Failed(error)) = (reasons.is_empty(), &end) {
            reasons.insert(0, error.to_string());
        }
        let output = self.output(output, look.denials);
        match end {
            _ if !reasons.is_empty() => Err(SandboxError::Violation { reasons, output: Box::new(output) }),
            End::Exit => Ok(output),
            End::Timeout => Err(SandboxError::Timeout { output: Box::new(output) }),
            End::Failed(error) => Err(error.into()),
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
            connections: run.connections,
            writable: run.writable,
        }
    }
}

impl Drop for Finish {
    fn drop(&mut self) {
        let Some(after) = self.after.take() else { return };
        let after = Arc::new(after);
        let own = Arc::clone(&after);
        // A thread outlives a runtime that is shut down meanwhile; a blocking task might never start.
        let thread = thread::Builder::new().name("ringfence-look".into()).spawn(move || look_alone(&own));
        if thread.is_err() {
            look_alone(&after);
        }
    }
}

/// The look after a run whose caller has gone.
fn look_alone(after: &AfterRun) {
    for violation in look(after).violations {
        tracing::warn!(session = after.session().as_str(), violation, "after a cancelled run");
    }
}

/// How the driver's part ended.
enum End {
    Exit,
    Timeout,
    /// The supervisor itself failed; nobody knows how far the program came.
    Failed(DriverError),
}

fn may_have_run(error: &DriverError) -> bool {
    matches!(error, DriverError::Cancelled | DriverError::Io { .. })
}

/// Finds what the run left behind, and moves away what something outside would run.
fn look(after: &AfterRun) -> Look {
    // A driver whose future was dropped ends the tree, but not at once.
    after.wait();
    let Some(findings) = after.look() else { return Look::default() };
    let mut look =
        Look { denials: findings.denials(), incomplete: findings.incomplete.clone(), ..Look::default() };
    if !findings.violation() {
        return look;
    }
    look.violations.extend(lines(&after.quarantine(&findings)));
    look
}

/// What was moved where, and what could not be.
pub(super) fn lines(quarantined: &Quarantined) -> Vec<String> {
    let shown = |path: &Path| UnixPath::from(path);
    let moved = quarantined
        .moved
        .iter()
        .map(|Moved { from, to, reason, .. }| format!("{reason} {} was moved to {}", shown(from), shown(to)));
    let failed = quarantined
        .failed
        .iter()
        .map(|(path, error)| format!("{} could not be moved away: {error}", shown(path)));
    let unjournaled = quarantined.unjournaled.iter().map(|error| {
        let cause = error.source().map(|source| format!(": {source}")).unwrap_or_default();
        format!("a crash meanwhile would have left the rest in place: {error}{cause}")
    });
    moved.chain(failed).chain(unjournaled).collect()
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::PathBuf;

    use ringfence_gate::protected::QuarantineError;

    use super::*;

    #[test]
    fn a_quarantine_without_a_journal_says_so() {
        let moved = Moved {
            from: PathBuf::from("/w/hook"),
            to: PathBuf::from("/q/hook"),
            rewritten: false,
            reason: "git hook".to_owned(),
        };
        let mut quarantined = Quarantined { moved: vec![moved], ..Quarantined::default() };
        assert_eq!(lines(&quarantined), ["git hook /w/hook was moved to /q/hook"]);
        let source = io::Error::from(io::ErrorKind::StorageFull);
        quarantined.unjournaled = Some(QuarantineError::Journal { state: "/s".into(), source });
        let told = lines(&quarantined).pop().unwrap();
        assert!(told.contains("crash") && told.ends_with("no storage space"), "{told}");
    }
}
