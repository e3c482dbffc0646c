use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfence_types::{
    PathKind, ResolvedPath, ResolvedPolicy, SandboxCapabilities, SandboxCommand, WorkspaceAccess,
};

use crate::cwd::{self, CwdError};
use crate::protected::{self, ProtectedError, SearchReport, Snapshot};
use crate::resolve::{Host, Pins, Resolution, ResolveError};
use crate::sessions::{SessionError, SessionWorkspace};

/// A vetted command whose workspace exists, whose working directory lies inside it, and whose request is
/// resolved. Only [`Gate::bind`](crate::Gate::bind) makes one.
#[derive(Debug)]
pub struct BoundCommand {
    command: SandboxCommand,
    session: Arc<SessionWorkspace>,
    resolved: Resolved,
}

/// What a command means on this host at one moment.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) policy: ResolvedPolicy,
    pub(crate) pins: Pins,
    /// For the look after the run; `None` if the whole disk is writable.
    pub(crate) snapshot: Option<Arc<Snapshot>>,
    report: Option<SearchReport>,
}

/// Why a command could not be bound.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each wraps the error of one step")]
pub enum BindError {
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Cwd(#[from] CwdError),
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    #[error(transparent)]
    Protected(#[from] ProtectedError),
}

impl BindError {
    /// Whether the command asks for what is granted to nobody, as opposed to something that failed.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Session(SessionError::Baseline(error)) | Self::Resolve(error) => error.is_refusal(),
            Self::Session(error) => matches!(error, SessionError::RingfenceHome(_)),
            Self::Cwd(_) => true,
            Self::Protected(_) => false,
        }
    }

    /// What can be done about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Session(error) => error.hint(),
            Self::Resolve(error) => error.hint(),
            Self::Cwd(_) | Self::Protected(_) => None,
        }
    }
}

impl BoundCommand {
    pub(crate) fn new(command: SandboxCommand, session: Arc<SessionWorkspace>, resolved: Resolved) -> Self {
        Self { command, session, resolved }
    }
}

impl Resolved {
    /// Resolves what a command asks for, and where it would work, as things are now.
    pub(crate) fn now(
        host: &Host,
        settings: &protected::Settings,
        session: &SessionWorkspace,
        command: &SandboxCommand,
    ) -> Result<Self, BindError> {
        let Resolution { mut policy, pins } = session.resolve(host, &command.capabilities)?;
        policy.cwd = cwd::resolve(&policy.workspace, command.cwd.as_deref())?;
        if let Some(timeout) = command.timeout {
            // The command's own limit counts like one of its capabilities, rounded up.
            let seconds = timeout.as_secs().saturating_add(u64::from(timeout.subsec_nanos() > 0));
            policy.timeout_secs = Some(seconds);
        }
        let mut resolved = Self { policy, pins, snapshot: None, report: None };
        resolved.search(settings, &host.state)?;
        cwd::check_protected(&resolved.policy.workspace, &resolved.policy.cwd, &resolved.policy.protected)?;
        Ok(resolved)
    }

    /// Finds what the box may not plant below the writable roots.
    fn search(&mut self, settings: &protected::Settings, state: &Path) -> Result<(), ProtectedError> {
        let own = &mut self.policy.protected;
        if self.policy.write.iter().any(|path| path.path.parent().is_none()) {
            own.incomplete = Some(String::from("the whole disk is writable"));
            return Ok(());
        }
        let there = |path: &&ResolvedPath| path.kind != PathKind::Missing;
        let mut roots: Vec<PathBuf> =
            self.policy.write.iter().filter(there).map(|path| path.path.clone()).collect();
        if self.policy.workspace_access == WorkspaceAccess::Write {
            roots.push(self.policy.workspace.path.clone());
        }
        let found = protected::search(&roots, &self.policy.deny, settings, Some(state))?;
        own.read_only.extend(found.protected.read_only);
        own.pins.extend(found.protected.pins);
        own.incomplete = found.protected.incomplete;
        self.snapshot = Some(Arc::new(found.snapshot));
        self.report = Some(found.report);
        Ok(())
    }
}

impl BoundCommand {
    /// The command as vetted.
    pub fn command(&self) -> &SandboxCommand {
        &self.command
    }

    /// Its session.
    pub fn session(&self) -> &Arc<SessionWorkspace> {
        &self.session
    }

    /// Canonical working directory.
    pub fn cwd(&self) -> &Path {
        &self.resolved.policy.cwd.path
    }

    /// What the command asks for, as written.
    pub fn requested(&self) -> &SandboxCapabilities {
        &self.command.capabilities
    }

    /// What it would get: the request on canonical paths, with the denials and limits that it inherits.
    pub fn policy(&self) -> &ResolvedPolicy {
        &self.resolved.policy
    }

    /// How thorough the search for protected paths was; `None` if there was none.
    pub fn search_report(&self) -> Option<&SearchReport> {
        self.resolved.report.as_ref()
    }

    /// Puts what holds now in the place of what held when the command was bound.
    pub(crate) fn refresh(&mut self, resolved: Resolved) {
        self.resolved = resolved;
    }

    pub(crate) fn into_parts(self) -> (SandboxCommand, Arc<SessionWorkspace>, Resolved) {
        (self.command, self.session, self.resolved)
    }
}
