//! Tries a backend for real: a minimal run in a process of its own, so that whatever hangs can be ended.

use std::io::{self, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use ringfence_types::Layer;
use serde::Deserialize;

/// How long a probe may take.
pub(super) const LIMIT: Duration = Duration::from_millis(500);

/// Why a probe failed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Failure {
    pub(super) step: Option<String>,
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Outcome {
    /// What was in force; as far as the run came, if it failed.
    pub(super) layers: Vec<Layer>,
    pub(super) failure: Option<Failure>,
}

/// The parts of `run --json` that matter here.
#[derive(Debug, Deserialize)]
struct Report {
    exit_code: Option<i32>,
    layers: Vec<Layer>,
    error: Option<Failure>,
}

/// Runs `true` in the default box, in an empty workspace, by way of `ringfence` (this very binary). A trial that
/// takes too long gets a second chance: the host may just be busy.
pub(super) fn default_run(ringfence: &Path, workspace: &Path) -> Outcome {
    let trial = || {
        let mut command = Command::new(ringfence);
        command.args(["run", "--json", "--ask", "never", "--workspace"]).arg(workspace).args(["--", "true"]);
        answer(command)
    };
    let answer = match trial() {
        Err(error) if error.kind() == io::ErrorKind::TimedOut => trial(),
        answer => answer,
    };
    match answer {
        Ok(stdout) => understand(&stdout),
        Err(error) => failed(error.to_string()),
    }
}

fn understand(stdout: &[u8]) -> Outcome {
    match serde_json::from_slice::<Report>(stdout) {
        Err(_) => failed("the run ended without a report".to_owned()),
        Ok(Report { layers, error: Some(failure), .. }) => Outcome { layers, failure: Some(failure) },
        Ok(Report { layers, error: None, exit_code: Some(0) }) => Outcome { layers, failure: None },
        Ok(Report { layers, .. }) => Outcome { layers, ..failed("`true` failed inside the box".to_owned()) },
    }
}

pub(super) fn failed(message: String) -> Outcome {
    Outcome { layers: Vec::new(), failure: Some(Failure { step: None, message, hint: None }) }
}

/// Standard output of a process that ends within [`LIMIT`].
fn answer(mut command: Command) -> io::Result<Vec<u8>> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let stdout = child.stdout.take();
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.map_or(Ok(0), |mut stdout| stdout.read_to_end(&mut bytes));
        // The receiver is gone if the time was up.
        let _ = send.send(read.map(|_| bytes));
    });
    let answer = receive.recv_timeout(LIMIT);
    // Ends a process that took too long, and reaps either.
    let _ = child.kill();
    child.wait()?;
    answer.unwrap_or_else(|_| {
        let text = format!("no answer within {} ms", LIMIT.as_millis());
        Err(io::Error::new(io::ErrorKind::TimedOut, text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn understands_reports() {
        let works = understand(
            br#"{"exit_code":0,"layers":[{"name":"seccomp","status":"enforced","detail":"x"}],"error":null}"#,
        );
        assert_eq!((works.layers.len(), works.failure), (1, None));
        let refused = understand(
            br#"{"exit_code":null,"layers":[],"error":{"kind":"launch","step":"clone","message":"m","hint":null}}"#,
        );
        let expected = Failure { step: Some("clone".to_owned()), message: "m".to_owned(), hint: None };
        assert_eq!(refused.failure, Some(expected));
        assert!(understand(br#"{"exit_code":1,"layers":[],"error":null}"#).failure.is_some());
        assert!(understand(b"").failure.is_some());
    }
}
