//! Every way in which this program fails, with what each says: kind, message, hint, exit status.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use ringfence::SandboxError;
use ringfence::config::ConfigError;
use ringfence_proxy::{ProxyError, UpstreamError};
use ringfence_types::{Denial, LayerReport, SandboxOutput, Step};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::exit::Exit;
use crate::usage::UsageError;

/// Why a command of this program did not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Usage(#[from] UsageError),
    #[error("{option} is not available yet: {missing}")]
    NotAvailable {
        /// As typed.
        option: &'static str,
        /// What is missing.
        missing: &'static str,
        /// What to do instead.
        hint: &'static str,
    },
    #[error("{source}")]
    Sandbox {
        /// Session of the run.
        session: String,
        source: SandboxError,
    },
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("{} already exists", .path.display())]
    ConfigExists { path: PathBuf },
    #[error("cannot write {}", .path.display())]
    WriteConfig { path: PathBuf, source: io::Error },
    #[error("cannot read {}", .path.display())]
    ReadStdinFile { path: PathBuf, source: io::Error },
    #[error("cannot read standard input")]
    Input(#[source] io::Error),
    #[error("cannot determine the current directory")]
    CurrentDir(#[source] io::Error),
    #[error("cannot listen on {address}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    #[error("cannot start waiting for connections and signals")]
    Runtime(#[source] io::Error),
    #[error("cannot write to standard output")]
    Output(#[source] io::Error),
    #[error("the stack may have no more than {kib} KiB")]
    Stack { kib: u64 },
    #[error("internal error: {0}")]
    Panic(String),
}

impl CliError {
    /// `error.kind` in JSON.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Usage(_) => "usage",
            Self::Sandbox { source, .. } => source.kind(),
            Self::NotAvailable { .. } => "unsupported_policy",
            Self::Config(_) | Self::ConfigExists { .. } | Self::WriteConfig { .. } | Self::Upstream(_) => {
                "config"
            }
            Self::Listen { .. }
            | Self::Proxy(_)
            | Self::Runtime(_)
            | Self::ReadStdinFile { .. }
            | Self::Input(_)
            | Self::CurrentDir(_)
            | Self::Output(_)
            | Self::Stack { .. }
            | Self::Panic(_) => "io",
        }
    }

    /// `error.step` in JSON: the launcher's step that failed.
    pub(crate) fn step(&self) -> Option<&'static str> {
        match self {
            Self::Sandbox { source, .. } => source.step().map(Step::name),
            _ => None,
        }
    }

    /// What happened, in one line: the error and what caused it.
    pub(crate) fn message(&self) -> String {
        chain(self)
    }

    /// What to do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        if is_caused_by(self, Errno::FBIG) {
            return Some("the limit of file sizes is too low; raise it (`ulimit -f`)".to_owned());
        }
        if is_caused_by(self, Errno::MFILE) {
            let limit = getrlimit(Resource::Nofile).current;
            let limit = limit.map(|limit| format!(" of {limit} open files")).unwrap_or_default();
            return Some(format!("the limit{limit} is too low; raise it (`ulimit -n`)"));
        }
        match self {
            Self::Config(ConfigError::Read { source, .. })
                if source.kind() == io::ErrorKind::PermissionDenied && is_in_a_box() =>
            {
                Some(
                    "this is a box of Ringfence, which hides Ringfence's own directory; name another for runs inside \
                     with RINGFENCE_HOME"
                        .to_owned(),
                )
            }
            Self::Usage(error) => Some(error.hint().to_owned()),
            Self::NotAvailable { hint, .. } => Some((*hint).to_owned()),
            Self::Sandbox { source, .. } => {
                Some(source.hint().unwrap_or_else(|| general_hint(source).to_owned()))
            }
            Self::Config(ConfigError::Read { .. }) => {
                Some("make it readable, or name another file with --config".to_owned())
            }
            Self::Config(error) => Some(error.hint().unwrap_or_else(|| CONFIG_HINT.to_owned())),
            Self::ConfigExists { .. } => Some("edit it, or name another file with --config".to_owned()),
            Self::WriteConfig { .. } => {
                Some("name another file with --config, or set RINGFENCE_HOME".to_owned())
            }
            Self::ReadStdinFile { .. } => Some("name a file that exists and that you may read".to_owned()),
            Self::Input(_) => Some("check where standard input comes from".to_owned()),
            Self::CurrentDir(_) => {
                Some("change to a directory that exists and that you may search".to_owned())
            }
            Self::Listen { .. } => {
                Some("choose another port with --listen, or leave it out for a free one".to_owned())
            }
            Self::Upstream(error) => Some(error.hint()),
            Self::Proxy(_) | Self::Runtime(_) => {
                Some("raise the limit of open files (`ulimit -n`)".to_owned())
            }
            Self::Stack { .. } => Some("raise the limit of the stack (`ulimit -s`)".to_owned()),
            // Where the text was to go is the caller's affair.
            Self::Output(_) => None,
            Self::Panic(_) => {
                Some("this is a bug: please report it with the command that you ran".to_owned())
            }
        }
    }

    /// Session of the run that failed.
    pub(crate) fn session(&self) -> Option<&str> {
        match self {
            Self::Sandbox { session, .. } => Some(session),
            _ => None,
        }
    }

    /// What was known of a run that was ended, as on a timeout.
    pub(crate) fn output(&self) -> Option<&SandboxOutput> {
        match self {
            Self::Sandbox { source, .. } => source.output(),
            _ => None,
        }
    }

    /// What was refused.
    pub(crate) fn denials(&self) -> Vec<Denial> {
        match self {
            Self::Sandbox { source, .. } => source.denials(),
            _ => Vec::new(),
        }
    }

    /// What was in force when a launch failed.
    pub(crate) fn layers(&self) -> Option<&LayerReport> {
        match self {
            Self::Sandbox { source, .. } => source.layers(),
            _ => None,
        }
    }

    /// The exit status of `run`, `shell` and `explain`.
    pub(crate) fn run_exit(&self) -> Exit {
        match self {
            Self::Sandbox { source: SandboxError::Timeout { .. }, .. } => Exit::Timeout,
            Self::Sandbox { source: SandboxError::NotExecutable(_), .. } => Exit::NotExecutable,
            Self::Sandbox { source: SandboxError::NotFound(_), .. } => Exit::NotFound,
            _ => Exit::Refused,
        }
    }

    /// The exit status of the other commands.
    pub(crate) fn plain_exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            _ => Exit::Negative,
        }
    }
}

const CONFIG_HINT: &str = "compare it with what `ringfence init` writes, or name another file with --config";

/// What helps where an error has nothing of its own to say.
fn general_hint(error: &SandboxError) -> &'static str {
    match error {
        SandboxError::Config(_) => CONFIG_HINT,
        SandboxError::Profile(_) => "`ringfence explain` shows what the options and profiles add up to",
        SandboxError::UnsupportedPolicy(_) | SandboxError::UnsupportedByDriver(_) => {
            "leave out the option that asks for it"
        }
        SandboxError::PolicyDenied(_) => "change the command, or the policy that refuses it",
        SandboxError::Violation { .. } => "look at what the command left before anything outside uses it",
        _ => "`ringfence doctor` says what this host can enforce",
    }
}

/// Whether the system's answer, wherever in the chain it is, was this one.
fn is_caused_by(error: &(dyn Error + 'static), cause: Errno) -> bool {
    let errno = match (error.downcast_ref::<io::Error>(), error.downcast_ref::<Errno>()) {
        (Some(error), _) => Errno::from_io_error(error),
        (None, errno) => errno.copied(),
    };
    errno == Some(cause) || error.source().is_some_and(|source| is_caused_by(source, cause))
}

/// Whether the variable is there that every box has.
fn is_in_a_box() -> bool {
    std::env::var_os("RINGFENCE_SANDBOX").is_some()
}

/// An error and its sources, separated by colons. A source that its error already quotes is not repeated.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = match (cause.downcast_ref::<io::Error>(), cause.downcast_ref::<Errno>()) {
            (Some(error), _) => io_text(error),
            (None, Some(errno)) => io_text(&(*errno).into()),
            (None, None) => cause.to_string(),
        };
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// The system's answer in the style of the other messages: `permission denied`, not
/// `Permission denied (os error 13)`.
fn io_text(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error ").next().unwrap_or(&text);
    let mut chars = text.chars();
    match chars.next() {
        Some(first) if chars.clone().next().is_some_and(char::is_lowercase) => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_answer_follows_the_message_in_its_style() {
        let error =
            CliError::WriteConfig { path: PathBuf::from("/x"), source: io::Error::from_raw_os_error(13) };
        assert_eq!(error.message(), "cannot write /x: permission denied");
        let error = CliError::CurrentDir(io::Error::other("RPC failed"));
        assert_eq!(error.message(), "cannot determine the current directory: RPC failed");
    }

    #[test]
    fn a_limit_of_open_files_is_named_wherever_it_was_met() {
        let stream = io::Error::other(ringfence::SandboxError::Io {
            action: "take up standard output",
            source: Errno::MFILE.into(),
        });
        let error = CliError::Input(stream);
        assert!(error.message().ends_with(": too many open files"), "{}", error.message());
        let hint = error.hint().unwrap_or_default();
        assert!(hint.starts_with("the limit") && hint.ends_with("(`ulimit -n`)"), "{hint}");
        let other = CliError::CurrentDir(Errno::ACCESS.into());
        assert!(!other.hint().unwrap_or_default().contains("ulimit"));
    }

    #[test]
    fn usage_errors_have_two_exit_statuses() {
        let error = CliError::Usage(UsageError::new("m", "h"));
        assert_eq!((error.run_exit(), error.plain_exit()), (Exit::Refused, Exit::Usage));
    }
}
