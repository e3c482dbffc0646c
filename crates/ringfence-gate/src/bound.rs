use std::path::Path;
use std::sync::Arc;

use ringfence_types::{ResolvedPolicy, SandboxCapabilities, SandboxCommand};

use crate::cwd::{self, CwdError};
use crate::protected::{self, ProtectedError};
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
    pub(crate) search: protected::Search,
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
        let search = protected::search(settings, &host.home, &policy)?;
        policy.protected.read_only.extend_from_slice(&search.protected.read_only);
        policy.protected.pins.extend_from_slice(&search.protected.pins);
        policy.protected.incomplete.clone_from(&search.protected.incomplete);
        cwd::check_protected(&policy.workspace, &policy.cwd, &policy.protected)?;
        Ok(Self { policy, pins, search })
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

    /// Puts what holds now in the place of what held when the command was bound.
    pub(crate) fn refresh(&mut self, resolved: Resolved) {
        self.resolved = resolved;
    }

    pub(crate) fn into_parts(self) -> (SandboxCommand, Arc<SessionWorkspace>, Resolved) {
        (self.command, self.session, self.resolved)
    }
}
