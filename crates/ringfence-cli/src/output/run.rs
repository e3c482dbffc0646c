use std::fmt::Write as _;

use ringfence_types::{Denial, DenialKind, DenialSource, Encoded, LayerReport, SandboxOutput, UnixPath};
use serde::Serialize;

use super::{ERROR, ErrorReport, HINT, one_line};
use crate::error::CliError;

/// The object of `run --json`.
#[derive(Debug, Default, Serialize)]
pub(crate) struct RunReport {
    exit_code: Option<i32>,
    signal: Option<i32>,
    stdout: String,
    stdout_encoding: &'static str,
    stderr: String,
    stderr_encoding: &'static str,
    truncated: bool,
    dropped_stdout: u64,
    dropped_stderr: u64,
    duration_ms: u64,
    session: Option<String>,
    backend: Option<String>,
    layers: LayerReport,
    denials: Vec<Denial>,
    writable: Vec<String>,
    error: Option<ErrorReport>,
}

impl RunReport {
    /// A run that ended by itself.
    pub(crate) fn finished(session: Option<&str>, output: &SandboxOutput) -> Self {
        let (stdout, stderr) = (Encoded::new(&output.stdout), Encoded::new(&output.stderr));
        Self {
            exit_code: output.exit_code,
            signal: output.signal,
            stdout: stdout.text,
            stdout_encoding: stdout.encoding,
            stderr: stderr.text,
            stderr_encoding: stderr.encoding,
            truncated: output.truncated,
            dropped_stdout: output.dropped_stdout,
            dropped_stderr: output.dropped_stderr,
            duration_ms: u64::try_from(output.duration.as_millis()).unwrap_or(u64::MAX),
            session: session.map(str::to_owned),
            backend: Some(output.backend.clone()),
            layers: output.layers.clone(),
            denials: output.denials.clone(),
            writable: output.writable.iter().map(|path| text(path)).collect(),
            error: None,
        }
    }

    /// A run that was refused, failed, or was ended; with what is known of it by then.
    pub(crate) fn failed(error: &CliError) -> Self {
        let session = error.session();
        let partial = match error.output() {
            Some(output) => Self::finished(session, output),
            None => Self {
                stdout_encoding: "utf-8",
                stderr_encoding: "utf-8",
                session: session.map(str::to_owned),
                layers: error.layers().cloned().unwrap_or_default(),
                denials: error.denials(),
                ..Self::default()
            },
        };
        Self { exit_code: None, error: Some(error.into()), ..partial }
    }
}

/// A path as it is if it is text; else with `\xNN` for other bytes.
fn text(path: &std::path::Path) -> String {
    path.to_str().map_or_else(|| UnixPath::from(path).to_string(), str::to_owned)
}

/// What was refused or found for certain, and what to do about it. Guesses are left to JSON.
pub(crate) fn denial_lines(denials: &[Denial]) -> String {
    let mut out = String::new();
    for denial in denials.iter().filter(|denial| denial.certain) {
        let target = one_line(&denial.target);
        let (said, hint) = match (denial.kind, denial.source) {
            // Found afterwards: it was not refused, and is there.
            (DenialKind::Protected, DenialSource::Watch) => (
                format!("protected path appeared or changed: {target}"),
                Some("look at it before a program outside obeys it".to_owned()),
            ),
            (kind, _) => (
                format!("{} refused: {target}", act(kind)),
                denial.allow_with.as_deref().map(|flag| format!("{} would allow it", one_line(flag))),
            ),
        };
        let _ = writeln!(out, "{ERROR}ringfence:{ERROR:#} {said}");
        if let Some(hint) = hint {
            let _ = writeln!(out, "{HINT}hint:{HINT:#} {hint}");
        }
    }
    out
}

fn act(kind: DenialKind) -> &'static str {
    match kind {
        DenialKind::Read => "reading",
        DenialKind::Write => "writing",
        DenialKind::Exec => "executing",
        DenialKind::Connect => "connecting",
        DenialKind::Syscall => "system call",
        DenialKind::Protected => "changing a protected path",
        DenialKind::Policy => "by the command policy",
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::usage::UsageError;

    fn denial(certain: bool, allow_with: Option<&str>) -> Denial {
        Denial {
            kind: DenialKind::Write,
            target: "/etc/a\nb".to_owned(),
            allow_with: allow_with.map(str::to_owned),
            source: DenialSource::Launcher,
            certain,
        }
    }

    #[test]
    fn only_what_is_certain_is_said() {
        let text =
            denial_lines(&[denial(true, Some("--write /etc")), denial(false, None), denial(true, None)]);
        assert_eq!(
            anstream::adapter::strip_str(&text).to_string(),
            "ringfence: writing refused: /etc/a\\nb\nhint: --write /etc would allow it\n\
             ringfence: writing refused: /etc/a\\nb\n"
        );
        let watched =
            Denial { kind: DenialKind::Protected, source: DenialSource::Watch, ..denial(true, None) };
        assert_eq!(
            anstream::adapter::strip_str(&denial_lines(&[watched])).to_string(),
            "ringfence: protected path appeared or changed: /etc/a\\nb\n\
             hint: look at it before a program outside obeys it\n"
        );
    }

    /// The keys of page 0.3 and no others, in that order, whether the run worked or not.
    #[test]
    fn the_object_has_its_keys_also_on_an_error() {
        let keys = [
            "exit_code",
            "signal",
            "stdout",
            "stdout_encoding",
            "stderr",
            "stderr_encoding",
            "truncated",
            "dropped_stdout",
            "dropped_stderr",
            "duration_ms",
            "session",
            "backend",
            "layers",
            "denials",
            "writable",
            "error",
        ];
        let output = SandboxOutput {
            stdout: b"ok".to_vec(),
            stderr: b"\xff".to_vec(),
            exit_code: Some(3),
            writable: vec![PathBuf::from("/a\nb")],
            ..SandboxOutput::default()
        };
        let error = CliError::Usage(UsageError::new("m", "h"));
        for report in [RunReport::finished(Some("s"), &output), RunReport::failed(&error)] {
            let text = serde_json::to_string(&report).unwrap();
            let at: Vec<_> = keys.iter().map(|key| text.find(&format!("\"{key}\":")).unwrap()).collect();
            assert!(at.is_sorted(), "{text}");
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value.as_object().unwrap().len(), keys.len());
        }
        let value = serde_json::to_value(RunReport::finished(Some("s"), &output)).unwrap();
        assert_eq!(value["stdout"], "ok");
        assert_eq!((&value["stderr"], &value["stderr_encoding"]), (&"/w==".into(), &"base64".into()));
        assert_eq!(value["writable"][0], "/a\nb");
        let value = serde_json::to_value(RunReport::failed(&error)).unwrap();
        assert_eq!(
            value["error"],
            serde_json::json!({"kind": "usage", "step": null, "message": "m", "hint": "h"})
        );
        assert!(value["exit_code"].is_null());
    }
}
