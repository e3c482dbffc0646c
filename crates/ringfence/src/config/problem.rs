use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a configuration can't be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message says it")]
pub enum ConfigError {
    #[error("home directory is unknown: HOME is not set and the password file has no entry for this user")]
    NoHome,
    #[error("RINGFENCE_HOME is the relative path {}, expected an absolute one", .0.display())]
    RelativeHome(PathBuf),
    #[error("cannot read configuration {}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("configuration {} is no regular file", .0.display())]
    NotRegular(PathBuf),
    #[error("configuration {} is larger than {limit} bytes", .path.display())]
    TooLarge { path: PathBuf, limit: u64 },
    #[error("configuration {} is not UTF-8", .0.display())]
    NotUtf8(PathBuf),
    #[error("configuration {}: {}", .path.display(), summary(.problems))]
    Invalid { path: PathBuf, problems: Vec<Problem> },
    #[error("unknown profile `{name}`, expected one of {}", .known.join(", "))]
    UnknownProfile { name: String, known: Vec<String>, nearest: Option<String> },
    #[error("profile `{}` extends itself: {}", .0.first().map_or("", String::as_str), .0.join(" -> "))]
    ProfileCycle(Vec<String>),
    #[error("profiles `{first}` and `{second}` name different modes: {} and {}", .modes.0, .modes.1)]
    ModesDiffer { first: String, second: String, modes: (crate::Mode, crate::Mode) },
    #[error("there is no sandbox for this system yet")]
    NoDriver,
    #[error(transparent)]
    Gate(#[from] ringfence_gate::GateError),
    #[error("path `{0}` starts with `~`, but the home directory is unknown")]
    TildeWithoutHome(String),
}

impl ConfigError {
    /// What to do about it, apart from the message.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoHome => Some("set RINGFENCE_HOME to a directory for configuration and state".into()),
            Self::RelativeHome(_) => Some("give RINGFENCE_HOME as an absolute path".into()),
            Self::Read { .. } => None,
            Self::NotRegular(_) | Self::NotUtf8(_) | Self::TooLarge { .. } => {
                Some("replace it with a TOML text; `ringfence init` writes a commented one".into())
            }
            Self::Invalid { problems, .. } if problems.len() > 1 => {
                Some("`ringfence config check` lists every problem".into())
            }
            Self::Invalid { problems, .. } => problems.first().and_then(Problem::hint),
            Self::UnknownProfile { nearest: Some(nearest), .. } => Some(format!("did you mean `{nearest}`?")),
            Self::UnknownProfile { name, .. } => Some(format!(
                "name one of these, auto or none, or write [profile.{name}] into the configuration"
            )),
            Self::ProfileCycle(_) => Some("remove one `extends` of the cycle".into()),
            Self::NoDriver => Some("run it on Linux".into()),
            Self::Gate(_) => Some("set RINGFENCE_HOME to a directory of your own".into()),
            Self::ModesDiffer { .. } => Some("choose with --mode".into()),
            Self::TildeWithoutHome(_) => Some("write the absolute path".into()),
        }
    }
}

fn summary(problems: &[Problem]) -> String {
    match problems {
        [] => String::from("invalid"),
        [only] => only.to_string(),
        [first, rest @ ..] => format!("{first} (and {} more)", rest.len()),
    }
}

/// One problem of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line, counted from 1.
    pub line: usize,
    /// Dotted name of the key, e.g. `sandbox.linux.tmp_size`; empty for a syntax error.
    pub key: String,
    /// What is wrong with it.
    pub kind: ProblemKind,
}

/// What is wrong with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// The text is no TOML.
    Syntax(String),
    /// No such key.
    UnknownKey {
        /// The known key of the same table that it resembles most.
        nearest: Option<String>,
    },
    /// The value has another type.
    WrongType {
        /// What the key holds, e.g. `a boolean`.
        expected: &'static str,
        /// TOML type of the value.
        found: &'static str,
    },
    /// The value has the right type and can't be used.
    Invalid {
        /// What the key holds.
        expected: String,
    },
    /// The key belongs to a feature that this version doesn't have.
    NotAvailable {
        /// The feature.
        feature: &'static str,
    },
    /// A workspace's own file may only narrow what the user's configuration allows.
    Loosens {
        /// What would have been accepted.
        allowed: String,
    },
}

impl Problem {
    /// What to do about it, apart from the message.
    pub fn hint(&self) -> Option<String> {
        match &self.kind {
            ProblemKind::UnknownKey { nearest } => {
                nearest.as_ref().map(|key| format!("did you mean `{key}`?"))
            }
            ProblemKind::NotAvailable { .. } => Some("remove the key".into()),
            ProblemKind::Loosens { .. } => {
                Some("set it in the user's own configuration, not in the workspace".into())
            }
            ProblemKind::Syntax(_) | ProblemKind::WrongType { .. } | ProblemKind::Invalid { .. } => None,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, key, kind } = self;
        match kind {
            ProblemKind::Syntax(message) => write!(f, "line {line}: {message}"),
            ProblemKind::UnknownKey { nearest: Some(nearest) } => {
                write!(f, "line {line}: unknown key `{key}`, the nearest known one is `{nearest}`")
            }
            ProblemKind::UnknownKey { nearest: None } => write!(f, "line {line}: unknown key `{key}`"),
            ProblemKind::WrongType { expected, found } => {
                write!(f, "line {line}: `{key}` expects {expected}, found {found}")
            }
            ProblemKind::Invalid { expected } => write!(f, "line {line}: `{key}` expects {expected}"),
            ProblemKind::NotAvailable { feature } => {
                write!(f, "line {line}: `{key}` needs {feature}, which is not available yet")
            }
            ProblemKind::Loosens { allowed } => {
                write!(f, "line {line}: `{key}` in a workspace's own file may only tighten: {allowed}")
            }
        }
    }
}
