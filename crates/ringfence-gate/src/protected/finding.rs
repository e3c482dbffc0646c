use std::path::{Path, PathBuf};

use ringfence_types::{Denial, DenialKind, DenialSource, FileId, UnixPath};

use super::repositories::Executing;
use super::roots::Roots;

/// What a run left behind, or what happened to protected paths meanwhile.
#[derive(Debug)]
pub struct Findings {
    /// In the order in which a person would look at them: by path.
    pub list: Vec<Finding>,
    /// What could not be looked at.
    pub incomplete: Vec<String>,
    pub(super) roots: Roots,
}

/// One thing found after a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where.
    pub path: PathBuf,
    /// What.
    pub kind: FindingKind,
    /// Identity of what is to be moved.
    pub(super) id: Option<FileId>,
    /// For a configuration: variables that were there before the run and stay.
    pub(super) keep: Vec<Executing>,
    /// For a configuration: whether its repository needs one.
    pub(super) rewrite: bool,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingKind {
    /// A hook that git would run. Offends.
    Hook,
    /// A git configuration that makes something run. Offends.
    Configuration {
        /// Its variables that do.
        keys: Vec<String>,
    },
    /// A git configuration that can't be read or understood, so that nobody knows what it runs. Offends.
    UnreadableConfiguration,
    /// A file that leads git to another directory's hooks and configuration. Offends.
    Redirection,
    /// A symlink in the place of git's hooks, configuration or redirection. Offends.
    Link,
    /// A directory that the run left so that nobody can look into it. Offends.
    Hidden,
    /// A new git directory whose permissions don't let anybody tell what is in it. Offends.
    Closed,
    /// A program outside replaced, moved or removed a protected path, so that no mount in the box covered it.
    LostMount,
    /// A protected path changed in place. The mount held, so a program outside did it, or a hard link.
    Changed,
    /// Another protected name appeared directly below a writable root.
    NewName,
    /// A protected name that git tracks, and that is therefore writable, changed.
    TrackedName,
    /// A denied path that did not exist appeared. Offends: no mount can cover what is not there.
    DeniedAppeared,
}

impl FindingKind {
    /// Whether it has to be moved away and makes the run a violation.
    pub fn offends(&self) -> bool {
        match self {
            Self::Hook
            | Self::Configuration { .. }
            | Self::UnreadableConfiguration
            | Self::Redirection
            | Self::Link
            | Self::Closed
            | Self::Hidden
            | Self::DeniedAppeared => true,
            Self::LostMount | Self::Changed | Self::NewName | Self::TrackedName => false,
        }
    }

    /// What it is, in a few words.
    pub fn describe(&self) -> String {
        match self {
            Self::Hook => "git hook".into(),
            Self::Configuration { keys } => {
                format!("git configuration that runs programs ({})", keys.join(", "))
            }
            Self::UnreadableConfiguration => "git configuration that can't be read".into(),
            Self::Redirection => "redirection of a git directory".into(),
            Self::Link => "symlink in a git directory".into(),
            Self::Closed => "git directory that can't be looked into".into(),
            Self::Hidden => "directory made unreadable".into(),
            Self::LostMount => "protected path replaced, moved or removed from outside during the run".into(),
            Self::Changed => "protected path changed from outside during the run".into(),
            Self::NewName => "new file that programs outside obey".into(),
            Self::TrackedName => {
                "changed file that programs outside obey, writable because git tracks it".into()
            }
            Self::DeniedAppeared => "denied path that appeared during the run".into(),
        }
    }
}

impl Finding {
    pub(super) fn new(path: &Path, kind: FindingKind) -> Self {
        Self { path: path.to_path_buf(), kind, id: None, keep: Vec::new(), rewrite: false }
    }

    /// As the run's output and audit list it. It is certain: the path was seen.
    pub fn denial(&self) -> Denial {
        Denial {
            kind: DenialKind::Protected,
            target: UnixPath::from(self.path.as_path()).to_string(),
            allow_with: None,
            source: DenialSource::Watch,
            certain: true,
        }
    }
}

impl Findings {
    /// Whether something has to be moved away, which makes the run a violation.
    pub fn violation(&self) -> bool {
        self.list.iter().any(|finding| finding.kind.offends())
    }

    /// All findings as denials.
    pub fn denials(&self) -> Vec<Denial> {
        self.list.iter().map(Finding::denial).collect()
    }
}
