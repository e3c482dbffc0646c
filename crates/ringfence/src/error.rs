use std::error::Error as _;
use std::fmt::Display;
use std::io;

use ringfence_gate::{BindError, DriverError, PermitError};
use ringfence_plan::ProfileError;
use ringfence_policy::HookDenied;
use ringfence_types::{
    Denial, DenialKind, DenialSource, Excess, LayerReport, SandboxOutput, Step, WorkspaceAccess,
};

use crate::config::ConfigError;

/// Why a command did not run, or did not end by itself. One variant for each step of the pipeline that failed;
/// each keeps the error of its stage as its source.
///
/// `Display` gives one line without the sources; [`SandboxError::message`] has them too.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// A hook refused the command.
    #[error("refused by policy")]
    PolicyDenied(#[source] HookDenied),
    /// The session has used up its allowance of such calls.
    #[error("too many calls")]
    RateLimited(#[source] HookDenied),
    /// The working directory lies outside the workspace or in a protected place.
    #[error("capability denied")]
    CwdDenied(#[source] BindError),
    /// The command asks for more than it may have.
    #[error("capability denied")]
    CapabilityDenied(#[source] PermitError),
    /// Nobody answered in time.
    #[error("approval timed out")]
    ApprovalTimeout(#[source] PermitError),
    /// Nobody can be asked.
    #[error("approval unavailable")]
    ApprovalUnavailable(#[source] PermitError),
    /// The session, its workspace or a path of the request can't be used.
    #[error("cannot prepare the command")]
    Bind(#[source] BindError),
    /// The policy can't be kept on this host.
    #[error("cannot plan the box")]
    Profile(#[source] ProfileError),
    /// The policy asks for something that is not available.
    #[error("policy not supported")]
    UnsupportedPolicy(#[source] ProfileError),
    /// The driver can't enforce what the plan asks for.
    #[error("policy not supported")]
    UnsupportedByDriver(#[source] DriverError),
    /// A step of the launch failed, or a required layer is missing; the program did not run.
    #[error("cannot launch the box")]
    Launch(#[source] DriverError),
    /// There is no such program inside the box.
    #[error("cannot run the program")]
    NotFound(#[source] DriverError),
    /// The program can't be executed.
    #[error("cannot run the program")]
    NotExecutable(#[source] DriverError),
    /// The wall-clock limit ended the whole tree.
    #[error("timed out after {:.1?}", .output.duration)]
    Timeout {
        /// What had been written and enforced by then.
        output: Box<SandboxOutput>,
    },
    /// The run was ended, or its result refused, because an enforcement was lost or something was planted.
    #[error("violation: {}", .reasons.join("; "))]
    Violation {
        /// What happened, one line each.
        reasons: Vec<String>,
        /// What had been written and enforced by then.
        output: Box<SandboxOutput>,
    },
    /// The supervisor itself failed.
    #[error("cannot supervise the command")]
    Driver(#[source] DriverError),
    /// The sandbox is switched off; nothing runs without one.
    #[error("sandbox disabled")]
    Disabled,
    /// A thread that did blocking work for the command ended early.
    #[error("cannot {action}")]
    Io {
        /// What it was doing.
        action: &'static str,
        /// Why it ended.
        source: io::Error,
    },
    /// The configuration can't be used.
    #[error("cannot use the configuration")]
    Config(#[from] ConfigError),
}

impl SandboxError {
    /// The error's name in JSON and in the audit.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::PolicyDenied(_) => "policy_denied",
            Self::RateLimited(_) => "rate_limited",
            Self::CwdDenied(_) | Self::CapabilityDenied(_) => "capability_denied",
            Self::Bind(error) if error.is_refusal() => "capability_denied",
            Self::ApprovalTimeout(_) => "approval_timeout",
            Self::ApprovalUnavailable(_) => "approval_unavailable",
            Self::Profile(_) => "profile",
            Self::UnsupportedPolicy(_) | Self::UnsupportedByDriver(_) => "unsupported_policy",
            Self::Launch(_) => "launch",
            Self::NotFound(_) => "not_found",
            Self::NotExecutable(_) => "not_executable",
            Self::Timeout { .. } => "timeout",
            Self::Violation { .. } => "violation",
            Self::Disabled => "disabled",
            Self::Bind(_) | Self::Driver(_) | Self::Io { .. } => "io",
            Self::Config(_) => "config",
        }
    }

    /// The launcher's step that failed, if it was one.
    pub fn step(&self) -> Option<Step> {
        match self {
            Self::Launch(DriverError::Launch { step, .. }) => Some(*step),
            Self::NotFound(_) | Self::NotExecutable(_) => Some(Step::Exec),
            _ => None,
        }
    }

    /// The error and its sources in one line.
    pub fn message(&self) -> String {
        let mut message = self.to_string();
        let mut source = self.source();
        while let Some(error) = source {
            message.push_str(": ");
            message.push_str(&error.to_string());
            source = error.source();
        }
        message
    }

    /// What to do about it, apart from the message.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::CapabilityDenied(error)
            | Self::ApprovalUnavailable(error)
            | Self::ApprovalTimeout(error) => {
                let flags: Vec<String> =
                    denials_of(error).into_iter().filter_map(|denial| denial.allow_with).collect();
                (!flags.is_empty()).then(|| format!("allow it with {}", flags.join(" ")))
            }
            Self::CwdDenied(_) => Some("choose a working directory inside the workspace".into()),
            Self::Bind(error) => error.hint().map(Into::into),
            Self::PolicyDenied(_) if !self.rules().is_empty() => {
                Some("`ringfence check --explain` shows where the rule matched".into())
            }
            Self::RateLimited(_) => Some("wait, or raise the limit in [sandbox.rate_limit]".into()),
            Self::Launch(DriverError::Launch { hint, .. }) => hint.clone(),
            Self::Launch(DriverError::RequiredLayer { .. }) => {
                Some("`ringfence doctor` says what is missing".into())
            }
            Self::Profile(ProfileError::MissingGrant(_)) => {
                Some("make it first, or grant the directory that it is to lie in".into())
            }
            Self::NotFound(error) => Some(missing_program(error)),
            Self::NotExecutable(_) => Some("check its mode and its interpreter".into()),
            Self::Timeout { .. } => Some("raise the limit with --timeout".into()),
            Self::Disabled => Some("set `enabled = true` in [sandbox]".into()),
            Self::Config(error) => error.hint(),
            _ => None,
        }
    }

    /// What was written and enforced, if the program had been started.
    pub fn output(&self) -> Option<&SandboxOutput> {
        match self {
            Self::Timeout { output } | Self::Violation { output, .. } => Some(output),
            _ => None,
        }
    }

    /// Names of the rules of the command policy that refused the command.
    pub fn rules(&self) -> &[String] {
        match self {
            Self::PolicyDenied(HookDenied::PolicyDenied { rules, .. }) => rules,
            _ => &[],
        }
    }

    /// What was refused, as far as this error says.
    pub fn denials(&self) -> Vec<Denial> {
        match self {
            Self::CapabilityDenied(error)
            | Self::ApprovalTimeout(error)
            | Self::ApprovalUnavailable(error) => denials_of(error),
            Self::Timeout { output } | Self::Violation { output, .. } => output.denials.clone(),
            Self::PolicyDenied(_) => self.rules().iter().map(|rule| by_rule(rule)).collect(),
            _ => Vec::new(),
        }
    }

    /// What was in force when it happened.
    pub fn layers(&self) -> Option<&LayerReport> {
        match self {
            Self::Launch(DriverError::Launch { layers, .. }) => Some(layers),
            Self::Timeout { output } | Self::Violation { output, .. } => Some(&output.layers),
            _ => None,
        }
    }

    /// Exit status of a command line that ends with this error: 124 for a timeout, 126 and 127 as shells have
    /// it, 125 otherwise.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Timeout { .. } => 124,
            Self::NotExecutable(_) => 126,
            Self::NotFound(_) => 127,
            _ => 125,
        }
    }
}

impl From<HookDenied> for SandboxError {
    fn from(error: HookDenied) -> Self {
        match error {
            HookDenied::PolicyDenied { .. } => Self::PolicyDenied(error),
            HookDenied::RateLimited { .. } => Self::RateLimited(error),
        }
    }
}

impl From<BindError> for SandboxError {
    fn from(error: BindError) -> Self {
        match error {
            BindError::Cwd(_) => Self::CwdDenied(error),
            _ => Self::Bind(error),
        }
    }
}

impl From<PermitError> for SandboxError {
    fn from(error: PermitError) -> Self {
        match error {
            PermitError::Timeout { .. } => Self::ApprovalTimeout(error),
            PermitError::Unavailable { .. } => Self::ApprovalUnavailable(error),
            _ => Self::CapabilityDenied(error),
        }
    }
}

impl From<ProfileError> for SandboxError {
    fn from(error: ProfileError) -> Self {
        match error {
            ProfileError::Unsupported { .. } => Self::UnsupportedPolicy(error),
            _ => Self::Profile(error),
        }
    }
}

impl From<DriverError> for SandboxError {
    /// Of errors that carry no output: those with one become [`SandboxError::Timeout`] and
    /// [`SandboxError::Violation`] in the pipeline, which completes the output.
    fn from(error: DriverError) -> Self {
        match error {
            DriverError::Launch { .. } | DriverError::RequiredLayer { .. } => Self::Launch(error),
            DriverError::NotFound(_) => Self::NotFound(error),
            DriverError::NotExecutable { .. } => Self::NotExecutable(error),
            DriverError::Unsupported { .. } => Self::UnsupportedByDriver(error),
            DriverError::Timeout { .. }
            | DriverError::Violation { .. }
            | DriverError::Cancelled
            | DriverError::Io { .. } => Self::Driver(error),
        }
    }
}

fn by_rule(rule: &str) -> Denial {
    Denial {
        kind: DenialKind::Policy,
        target: rule.to_owned(),
        allow_with: None,
        source: DenialSource::Policy,
        certain: true,
    }
}

fn denials_of(error: &PermitError) -> Vec<Denial> {
    error.excess().iter().map(denial).collect()
}

/// What was asked for too much, and the option of the command line that would allow it.
fn denial(excess: &Excess) -> Denial {
    let (kind, target, allow_with) = match excess {
        Excess::Read(path) | Excess::Undenied(path) => {
            (DenialKind::Read, path.to_string(), Some(flag("read", path)))
        }
        Excess::Write(path) => (DenialKind::Write, path.to_string(), Some(flag("write", path))),
        Excess::UnixSocket(path) => (DenialKind::Connect, path.to_string(), Some(flag("unix-socket", path))),
        Excess::Host(host) => (DenialKind::Connect, host.to_string(), Some(flag("allow-host", host))),
        Excess::LoopbackPort(port) => {
            (DenialKind::Connect, excess.to_string(), Some(flag("allow-loopback", port)))
        }
        Excess::Publish(publish) => (DenialKind::Policy, excess.to_string(), Some(flag("publish", publish))),
        Excess::PublicNetwork => (DenialKind::Connect, excess.to_string(), Some("--net public".into())),
        Excess::AllNetwork => (DenialKind::Connect, excess.to_string(), Some("--net all".into())),
        Excess::Device(name) => (DenialKind::Policy, excess.to_string(), Some(format!("--device {name}"))),
        Excess::Spawn | Excess::Loopback | Excess::Workspace(WorkspaceAccess::Write) => {
            (DenialKind::Policy, excess.to_string(), Some("--mode workspace-write".into()))
        }
        _ => (DenialKind::Policy, excess.to_string(), None),
    };
    Denial { kind, target, allow_with, source: DenialSource::Policy, certain: true }
}

/// `--name value`, quoted for a POSIX shell where it must be.
pub(crate) fn flag(name: &str, value: impl Display) -> String {
    let value = value.to_string();
    let plain = value.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c));
    if plain && !value.is_empty() {
        format!("--{name} {value}")
    } else {
        format!("--{name} '{}'", value.replace('\'', r"'\''"))
    }
}
/// Commands that only a shell has, of those that people type most.
const BUILTINS: [&str; 17] = [
    ".", "alias", "bg", "cd", "eval", "exec", "exit", "export", "fg", "jobs", "popd", "pushd", "set",
    "source", "ulimit", "umask", "unset",
];

/// What is meant by a name that no program has: shells and command lines use more than names of programs.
fn missing_program(error: &DriverError) -> String {
    const EXISTS: &str = "it must exist, and be readable, inside the box";
    let DriverError::NotFound(program) = error else { return EXISTS.to_owned() };
    let Some(name) = program.to_str() else { return EXISTS.to_owned() };
    let variable =
        |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if BUILTINS.contains(&name) {
        return format!("`{name}` is a command of the shell: `sh -c '{name} …'`");
    }
    if let Some((key, _)) = name.split_once('=')
        && variable(key)
    {
        return format!("a variable is set with `--env {key}=VALUE`, or by a shell: `sh -c '{key}=VALUE …'`");
    }
    if name.contains(|c: char| c.is_whitespace() || "|&;<>()$`\\\"'*?".contains(c)) {
        // A long or quoted one is no good as an example.
        let fits = name.len() <= 60 && !name.contains(|c: char| c == '\'' || c.is_control());
        let line = if fits { name } else { "…" };
        return format!("for a shell to read it: `sh -c '{line}'`; as a program {EXISTS}");
    }
    EXISTS.to_owned()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn what_only_a_shell_understands_is_given_to_one() {
        let hint = |name: &str| {
            SandboxError::NotFound(DriverError::NotFound(PathBuf::from(name))).hint().unwrap_or_default()
        };
        for (name, expected) in [
            ("cd", "`sh -c 'cd …'`"),
            ("ls -l", "`sh -c 'ls -l'`"),
            ("ls|wc", "`sh -c 'ls|wc'`"),
            ("echo 'a'", "`sh -c '…'`"),
            ("a\nb", "`sh -c '…'`"),
            ("CC=clang", "`--env CC=VALUE`"),
        ] {
            assert!(hint(name).contains(expected), "{name}: {}", hint(name));
        }
        for name in ["lss", "./a-b.sh", "/opt/x=y/z"] {
            assert!(!hint(name).contains("sh -c"), "{name}: {}", hint(name));
        }
    }
}
