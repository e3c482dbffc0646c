use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Instant;

use ringfence_gate::{ApprovalOutcome, Decision, PermitError};
use ringfence_types::{
    Connections, Denial, LayerReport, NetworkPolicy, SandboxCapabilities, SandboxCommand, SandboxOutput,
    SessionId, UnixPath,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::error::SandboxError;

/// Target of the audit's `tracing` events.
pub const AUDIT_TARGET: &str = "capability_ledger";

/// Collects the audit record of one command and writes it exactly once: when the command ends, or when this
/// value is dropped without an end because the caller dropped the future.
///
/// The event's fields: `session`, `tool`, `program`, `argv_sha256`, `cwd`, `requested` and `effective` (JSON),
/// `decision`, `by`, `backend`, `outcome` (`exited`, `signalled`, `cancelled` or an error's kind), `exit_code`,
/// `signal`, `rules` (of the command policy, by name), `duration_ms`, `stdout_bytes`, `stderr_bytes`, `layers`, `denials` and `connections` (JSON: those to each host and port together, see [`Connections`]), `error`. Those that
/// don't apply are absent.
pub(crate) struct Audit {
    record: Option<Record>,
}

struct Record {
    start: Instant,
    session: SessionId,
    tool: String,
    program: String,
    argv_sha256: String,
    cwd: Option<PathBuf>,
    requested: String,
    effective: Option<String>,
    decision: Option<&'static str>,
    by: Option<String>,
    /// Names of rules of the command policy, with commas.
    rules: Option<String>,
    backend: &'static str,
}

/// How a command ended, as far as the record says.
#[derive(Default)]
struct End<'a> {
    outcome: &'a str,
    exit_code: Option<i32>,
    signal: Option<i32>,
    bytes: Option<(u64, u64)>,
    layers: Option<&'a LayerReport>,
    denials: &'a [Denial],
    connections: Option<&'a Connections>,
    error: Option<String>,
}

impl Audit {
    pub(crate) fn start(command: &SandboxCommand, backend: &'static str) -> Self {
        // Without a listener the record would cost time and reach nobody.
        if !tracing::enabled!(target: AUDIT_TARGET, tracing::Level::WARN) {
            return Self { record: None };
        }
        Self {
            record: Some(Record {
                start: Instant::now(),
                session: command.session_id.clone(),
                tool: command.tool_name.clone(),
                program: shown(&command.program),
                argv_sha256: argv_digest(command),
                cwd: command.cwd.clone(),
                requested: capabilities(&command.capabilities),
                effective: None,
                decision: None,
                by: None,
                rules: None,
                backend,
            }),
        }
    }

    /// The working directory is canonical now.
    pub(crate) fn bound(&mut self, cwd: &Path) {
        if let Some(record) = &mut self.record {
            record.cwd = Some(cwd.to_path_buf());
        }
    }

    /// The command passed the hooks; these rules of the command policy let it run and want it recorded.
    pub(crate) fn vetted(&mut self, rules: &[String]) {
        if let Some(record) = &mut self.record
            && !rules.is_empty()
        {
            record.rules = Some(rules.join(","));
        }
    }

    pub(crate) fn permitted(&mut self, decision: &Decision, effective: &SandboxCapabilities) {
        let Some(record) = &mut self.record else { return };
        record.effective = Some(capabilities(effective));
        let (word, by) = match decision {
            Decision::Baseline => ("baseline", None),
            Decision::Grant { by } => ("grant", Some(by)),
            Decision::Approved { outcome: ApprovalOutcome::ApprovedOnce, by } => ("approved_once", Some(by)),
            Decision::Approved { by, .. } => ("approved", Some(by)),
        };
        record.decision = Some(word);
        record.by = by.cloned();
    }

    pub(crate) fn refused(&mut self, error: &PermitError) {
        let Some(record) = &mut self.record else { return };
        let word = match error {
            PermitError::Timeout { .. } => "timeout",
            PermitError::Unavailable { .. } => "unavailable",
            _ => "denied",
        };
        record.decision = Some(word);
        record.by = Some(error.by().to_owned());
    }

    /// Writes the record.
    pub(crate) fn end(mut self, result: &Result<SandboxOutput, SandboxError>) {
        match result {
            Ok(output) => {
                let outcome = if output.signal.is_some() { "signalled" } else { "exited" };
                self.write(&End { outcome, ..End::of(output) });
            }
            Err(error) => {
                self.vetted(error.rules());
                let denials = error.denials();
                self.write(&End {
                    outcome: error.kind(),
                    error: Some(error.message()),
                    layers: error.layers(),
                    denials: &denials,
                    ..error.output().map_or_else(End::default, End::of)
                });
            }
        }
    }

    fn write(&mut self, end: &End<'_>) {
        let Some(record) = self.record.take() else { return };
        let json = |value: Value| value.to_string();
        let layers = end.layers.map(|layers| json(json!(layers)));
        let denials = (!end.denials.is_empty()).then(|| json(json!(end.denials)));
        let connections = end.connections.filter(|all| !all.is_empty()).map(|all| json(json!(all)));
        let cwd = record.cwd.as_deref().map(|cwd| UnixPath::from(cwd).to_string());
        // A macro's level is fixed where it is written.
        macro_rules! event {
            ($level:expr) => {
                tracing::event!(
                    target: AUDIT_TARGET,
                    $level,
                    session = record.session.as_str(),
                    tool = record.tool,
                    program = record.program,
                    argv_sha256 = record.argv_sha256,
                    cwd,
                    requested = record.requested,
                    effective = record.effective,
                    decision = record.decision,
                    by = record.by,
                    backend = record.backend,
                    outcome = end.outcome,
                    exit_code = end.exit_code,
                    signal = end.signal,
                    rules = record.rules,
                    duration_ms = u64::try_from(record.start.elapsed().as_millis()).unwrap_or(u64::MAX),
                    stdout_bytes = end.bytes.map(|bytes| bytes.0),
                    stderr_bytes = end.bytes.map(|bytes| bytes.1),
                    layers,
                    denials,
                    connections,
                    error = end.error,
                )
            };
        }
        if end.error.is_none() && end.outcome != CANCELLED {
            event!(tracing::Level::INFO);
        } else {
            event!(tracing::Level::WARN);
        }
    }
}

const CANCELLED: &str = "cancelled";

impl Drop for Audit {
    fn drop(&mut self) {
        self.write(&End { outcome: CANCELLED, ..End::default() });
    }
}

impl<'a> End<'a> {
    fn of(output: &'a SandboxOutput) -> Self {
        Self {
            exit_code: output.exit_code,
            signal: output.signal,
            bytes: Some((
                output.stdout.len() as u64 + output.dropped_stdout,
                output.stderr.len() as u64 + output.dropped_stderr,
            )),
            layers: Some(&output.layers),
            denials: &output.denials,
            connections: Some(&output.connections),
            ..Self::default()
        }
    }
}

/// SHA-256 over program and arguments, each followed by a NUL byte, as in /proc/PID/cmdline (proc(5)).
fn argv_digest(command: &SandboxCommand) -> String {
    let mut digest = Sha256::new();
    for part in std::iter::once(&command.program).chain(&command.args) {
        digest.update(part.as_encoded_bytes());
        digest.update([0]);
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn shown(text: &OsStr) -> String {
    UnixPath::new(text.as_encoded_bytes()).to_string()
}

/// Paths that are not UTF-8 have no JSON form of their own.
fn capabilities(capabilities: &SandboxCapabilities) -> String {
    let paths = |list: &[PathBuf]| list.iter().map(|path| UnixPath::from(path.as_path())).collect::<Vec<_>>();
    let network = match &capabilities.network {
        NetworkPolicy::None => json!("none"),
        NetworkPolicy::AllowHosts { hosts } => json!(hosts),
        NetworkPolicy::Public { hosts } => json!({"public": true, "hosts": hosts}),
        NetworkPolicy::AllowAll => json!("all"),
    };
    json!({
        "fs_read": paths(&capabilities.fs_read),
        "fs_write": paths(&capabilities.fs_write),
        "fs_deny": paths(&capabilities.fs_deny),
        "workspace": capabilities.workspace,
        "network": network,
        "deny_hosts": capabilities.deny_hosts,
        "internal_hosts": capabilities.internal_hosts,
        "loopback_ports": capabilities.loopback_ports,
        "publish": capabilities.publish,
        "loopback": capabilities.loopback,
        "spawn_subprocess": capabilities.spawn_subprocess,
        "unix_sockets": paths(&capabilities.unix_sockets),
        "devices": capabilities.devices,
        "max_memory_mb": capabilities.max_memory_mb,
        "max_processes": capabilities.max_processes,
        "timeout_secs": capabilities.timeout_secs,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn paths_that_are_not_text_are_recorded() {
        let path = PathBuf::from(OsString::from_vec(b"/a\n\xff".to_vec()));
        let capabilities = capabilities(&SandboxCapabilities { fs_read: vec![path], ..Default::default() });
        let value: Value = serde_json::from_str(&capabilities).unwrap();
        assert_eq!(value["fs_read"][0], "/a\\n\\xff");
        assert_eq!(value["workspace"], "write");
    }

    #[test]
    fn the_digest_tells_arguments_apart() {
        let of = |args: &[&str]| argv_digest(&SandboxCommand::new("s", "p").args(args.iter().copied()));
        assert_eq!(of(&["a b"]), of(&["a b"]));
        assert_ne!(of(&["a b"]), of(&["a", "b"]));
        assert_ne!(of(&[""]), of(&[]));
    }
}
