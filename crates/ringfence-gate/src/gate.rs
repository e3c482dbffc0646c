use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ringfence_policy::VettedCommand;
use ringfence_types::{ResolvedPath, ResolvedPolicy, SandboxCommand};

use crate::approval::{Answer, ApprovalGate, ApprovalOutcome, ApprovalResponse};
use crate::bound::{BindError, BoundCommand, Resolved};
use crate::config::GateConfig;
use crate::driver::RunLimits;
use crate::permit::{Decision, Permit, PermitError};
use crate::protected::{self, QuarantineError, Quarantined};
use crate::resolve::Host;
use crate::sessions::SessionStore;

/// Stages 2 and 3 for all sessions of one host.
#[derive(Debug)]
pub struct Gate {
    config: GateConfig,
    host: Arc<Host>,
    sessions: SessionStore,
    approval: Arc<ApprovalGate>,
    recovered: Vec<Quarantined>,
}

/// Why there is no gate.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// The directory for state can't be had.
    #[error("cannot use {} as Ringfence's home", .path.display())]
    Home {
        /// `RINGFENCE_HOME`.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// What a run that crashed had begun to move away can't be looked at.
    #[error(transparent)]
    Recover(#[from] QuarantineError),
}

impl GateError {
    /// What can be done about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Home { .. } | Self::Recover(_) => {
                Some("set `RINGFENCE_HOME` to a directory that you can write")
            }
        }
    }
}

impl Gate {
    /// A gate with no session yet. Creates the configured home, and finishes what runs that crashed had begun
    /// to move into quarantine.
    ///
    /// # Errors
    /// [`GateError`] if the home can't be created or read.
    pub fn new(config: GateConfig, approval: ApprovalGate) -> Result<Self, GateError> {
        let home = |source| GateError::Home { path: config.home.clone(), source };
        let host = Arc::new(Host::new(&config).map_err(home)?);
        let recovered = protected::recover(&host.state)?;
        let workspaces = config.workspace_root.clone();
        let sessions = SessionStore::new(Arc::clone(&host), workspaces, config.session.clone());
        Ok(Self { config, host, sessions, approval: Arc::new(approval), recovered })
    }

    /// Stage 2: enters the command's session, proves that its working directory lies inside the workspace,
    /// resolves what it asks for, and finds what its box may not plant. Blocks on file I/O.
    ///
    /// # Errors
    /// [`BindError`] of the first check that fails.
    pub fn bind(&self, vetted: VettedCommand) -> Result<BoundCommand, BindError> {
        let command = vetted.into_command();
        let session = self.sessions.open(&command.session_id)?;
        let resolved = Resolved::now(&self.host, &self.config.protected, &session, &command)?;
        Ok(BoundCommand::new(command, session, resolved))
    }

    /// Stage 3: within the baseline there is no question, nor within an earlier grant of the session; else
    /// somebody is asked. Waits only then, and afterwards resolves everything again: what was approved is what
    /// runs, or nothing.
    ///
    /// # Errors
    /// [`PermitError`] if the command may not have what it asks for.
    pub async fn permit(&self, mut bound: BoundCommand) -> Result<Permit, PermitError> {
        let excess = bound.policy().beyond(bound.session().baseline());
        if excess.is_empty() {
            return Ok(self.permitted(bound, Decision::Baseline));
        }
        if let Some(by) = bound.session().within_grant(bound.policy()) {
            return Ok(self.permitted(bound, Decision::Grant { by }));
        }
        let decision = match self.approval.decide(&self.host, &bound, &excess).await {
            Answer::Granted { by } => Decision::Grant { by },
            Answer::Remembered => return Err(PermitError::Remembered { excess }),
            Answer::BreakerOpen(retry_after) => return Err(PermitError::BreakerOpen { excess, retry_after }),
            Answer::Response(ApprovalResponse { outcome, by, reason }) => match outcome {
                ApprovalOutcome::Approved | ApprovalOutcome::ApprovedOnce => {
                    Decision::Approved { outcome, by }
                }
                ApprovalOutcome::ApprovedAlways => return Err(PermitError::NoGrantStore { excess, by }),
                ApprovalOutcome::Denied => return Err(PermitError::Denied { excess, by, reason }),
                ApprovalOutcome::Timeout => return Err(PermitError::Timeout { excess, by }),
                ApprovalOutcome::Unavailable => return Err(PermitError::Unavailable { excess, reason }),
            },
        };
        let now = Resolved::now(&self.host, &self.config.protected, bound.session(), bound.command());
        let now =
            now.map_err(|source| PermitError::Rebind { excess: excess.clone(), source: Box::new(source) })?;
        if let Some(path) = changed(bound.policy(), &now.policy) {
            return Err(PermitError::Changed { excess, path });
        }
        bound.refresh(now);
        Ok(self.permitted(bound, decision))
    }

    fn permitted(&self, bound: BoundCommand, decision: Decision) -> Permit {
        let limits = RunLimits {
            timeout: self.timeout(bound.command(), bound.policy()),
            max_output_bytes: self.config.max_output_bytes,
            required: self.config.required.clone(),
        };
        Permit::new(bound, decision, limits, Arc::clone(&self.host), Arc::clone(&self.approval))
    }

    /// The command's limit, else that of its capabilities, else the configured one.
    fn timeout(&self, command: &SandboxCommand, policy: &ResolvedPolicy) -> Option<Duration> {
        command.timeout.or(policy.timeout_secs.map(Duration::from_secs)).or(self.config.default_timeout)
    }

    /// The sessions.
    pub fn sessions(&self) -> &SessionStore {
        &self.sessions
    }

    /// Who is asked.
    pub fn approval(&self) -> &ApprovalGate {
        &self.approval
    }

    /// What was moved into quarantine for runs that had crashed.
    pub fn recovered(&self) -> &[Quarantined] {
        &self.recovered
    }

    /// What the gate was told.
    pub fn config(&self) -> &GateConfig {
        &self.config
    }
}

/// The first granted path that is another file, or leads elsewhere, than when the question was asked.
fn changed(shown: &ResolvedPolicy, now: &ResolvedPolicy) -> Option<PathBuf> {
    let granted = |policy: &ResolvedPolicy| -> Vec<ResolvedPath> {
        let single = [&policy.workspace, &policy.cwd];
        let lists = [&policy.read, &policy.write, &policy.unix_sockets];
        single.into_iter().chain(lists.into_iter().flatten()).cloned().collect()
    };
    let (shown, now) = (granted(shown), granted(now));
    let differs = shown.iter().zip(&now).find(|(shown, now)| shown != now).map(|(shown, _)| shown);
    let differs = differs.or_else(|| shown.get(now.len())).or_else(|| now.get(shown.len()));
    differs.map(|path| path.path.clone())
}
