use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ringfence_plan::{HostFacts, LaunchPlan, ProfileError};
use ringfence_types::{Excess, ResolvedPolicy, SandboxCapabilities, SandboxCommand, SessionId};

use crate::approval::{ApprovalGate, ApprovalOutcome, HostApproval};
use crate::bound::{BindError, BoundCommand, Resolved};
use crate::driver::{RunLimits, RunParts};
use crate::protected::{self, Findings, Pending, Quarantined, Snapshot};
use crate::resolve::{Host, RunEnd};
use crate::sessions::SessionWorkspace;

/// Why a command may have what it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The session's baseline covers it.
    Baseline,
    /// An earlier approval for the session covers it.
    Grant {
        /// Who gave it.
        by: String,
    },
    /// Somebody was asked.
    Approved {
        /// For how long.
        outcome: ApprovalOutcome,
        /// Who said so.
        by: String,
    },
}

/// Why a command may not have what it asks for.
#[derive(Debug, thiserror::Error)]
pub enum PermitError {
    /// Somebody refused.
    #[error("refused by {by}{}: {}", because(.reason), list(.excess))]
    Denied {
        /// What the request asks for beyond the baseline.
        excess: Vec<Excess>,
        /// Who refused.
        by: String,
        /// Why.
        reason: Option<String>,
    },
    /// The same was refused earlier in the session.
    #[error("refused earlier in this session: {}", list(.excess))]
    Remembered {
        /// What the request asks for beyond the baseline.
        excess: Vec<Excess>,
    },
    /// Three refusals in a row: nothing more is asked for a while.
    #[error("no more questions for {} s after repeated refusals: {}", .retry_after.as_secs(), list(.excess))]
    BreakerOpen {
        /// What the request asks for beyond the baseline.
        excess: Vec<Excess>,
        /// When the next question is let through.
        retry_after: Duration,
    },
    /// Nobody answered in time.
    #[error("approval timed out: {}", list(.excess))]
    Timeout {
        /// What the request asks for beyond the baseline.
        excess: Vec<Excess>,
        /// Whose time was over.
        by: String,
    },
    /// Nobody can be asked.
    #[error("nobody can be asked{}: {}", because(.reason), list(.excess))]
    Unavailable {
        /// What the request asks for beyond the baseline.
        excess: Vec<Excess>,
        /// Why not.
        reason: Option<String>,
    },
    /// Approved for all sessions, which needs the grant store.
    #[error("an approval for all sessions needs the grant store, which is not built yet: {}", list(.excess))]
    NoGrantStore {
        /// What the request asks for beyond the baseline.
        excess: Vec<Excess>,
        /// Who approved.
        by: String,
    },
    /// What was approved is not what is there now.
    #[error("{} changed while approval was awaited", .path.display())]
    Changed {
        /// What the request asks for beyond the baseline.
        excess: Vec<Excess>,
        /// What changed.
        path: std::path::PathBuf,
    },
    /// What was approved can't be bound any more.
    #[error("after approval was awaited: {source}")]
    Rebind {
        /// What the request asks for beyond the baseline.
        excess: Vec<Excess>,
        /// The check that fails now.
        source: Box<BindError>,
    },
}

fn list(excess: &[Excess]) -> String {
    const SHOWN: usize = 5;
    let mut text: Vec<String> = excess.iter().take(SHOWN).map(ToString::to_string).collect();
    if excess.len() > SHOWN {
        text.push(format!("{} more", excess.len() - SHOWN));
    }
    text.join(", ")
}

fn because(reason: &Option<String>) -> String {
    reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default()
}

impl PermitError {
    /// What the request asks for beyond the baseline.
    pub fn excess(&self) -> &[Excess] {
        match self {
            Self::Denied { excess, .. }
            | Self::Remembered { excess }
            | Self::BreakerOpen { excess, .. }
            | Self::Timeout { excess, .. }
            | Self::Unavailable { excess, .. }
            | Self::NoGrantStore { excess, .. }
            | Self::Changed { excess, .. }
            | Self::Rebind { excess, .. } => excess,
        }
    }

    /// Who decided, for the audit.
    pub fn by(&self) -> &str {
        match self {
            Self::Denied { by, .. } | Self::Timeout { by, .. } | Self::NoGrantStore { by, .. } => by,
            _ => "gate",
        }
    }
}

/// A command that may have what it asks for. Only [`Gate::permit`](crate::Gate::permit) makes one.
#[derive(Debug)]
pub struct Permit {
    bound: BoundCommand,
    decision: Decision,
    limits: RunLimits,
    host: Arc<Host>,
    approval: Arc<ApprovalGate>,
}

impl Permit {
    pub(crate) fn new(
        bound: BoundCommand,
        decision: Decision,
        limits: RunLimits,
        host: Arc<Host>,
        approval: Arc<ApprovalGate>,
    ) -> Self {
        Self { bound, decision, limits, host, approval }
    }

    /// The command and its session.
    pub fn bound(&self) -> &BoundCommand {
        &self.bound
    }

    /// Why it may run.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Limits that the driver will enforce from outside.
    pub fn limits(&self) -> &RunLimits {
        &self.limits
    }

    /// What it gets, for the audit.
    pub fn effective(&self) -> SandboxCapabilities {
        self.bound.policy().into()
    }

    /// Stage 4: makes the launch plan for a host.
    ///
    /// # Errors
    /// [`ProfileError`] if the policy can't be kept on such a host.
    pub fn plan(self, f: &HostFacts) -> Result<ApprovedRun, ProfileError> {
        let plan = match f {
            HostFacts::Linux(facts) => LaunchPlan::Linux(ringfence_plan::linux(self.bound.policy(), facts)?),
        };
        let Self { bound, decision, limits, host, approval } = self;
        let (command, session, resolved) = bound.into_parts();
        Ok(ApprovedRun { command, session, resolved, decision, limits, plan, host, approval })
    }
}

/// A planned run. Only [`Permit::plan`] makes one.
#[derive(Debug)]
pub struct ApprovedRun {
    command: SandboxCommand,
    session: Arc<SessionWorkspace>,
    resolved: Resolved,
    decision: Decision,
    limits: RunLimits,
    plan: LaunchPlan,
    host: Arc<Host>,
    approval: Arc<ApprovalGate>,
}

impl ApprovedRun {
    /// The plan.
    pub fn plan(&self) -> &LaunchPlan {
        &self.plan
    }

    /// The command as vetted.
    pub fn command(&self) -> &SandboxCommand {
        &self.command
    }

    /// The policy that was planned.
    pub fn policy(&self) -> &ResolvedPolicy {
        &self.resolved.policy
    }

    /// Why it may run.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Limits that the driver enforces from outside, and the layers that must be in force.
    pub fn limits(&self) -> &RunLimits {
        &self.limits
    }

    /// What has to be done when the tree is dead. To be taken before a driver takes the run.
    /// It leaves a note for the next start, which looks instead if this process dies before.
    pub fn after(&self) -> AfterRun {
        let mut after = AfterRun {
            session: Arc::clone(&self.session),
            snapshot: self.resolved.snapshot.clone(),
            host: Arc::clone(&self.host),
            end: self.resolved.pins.end(),
            pending: None,
        };
        if let Some(snapshot) = &after.snapshot {
            let pending = Pending::begin(snapshot, &after.directory(), &self.host.state);
            after.pending = pending.unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot note that a run is under way: a crash would hide what it plants");
                None
            });
        }
        after
    }

    /// Takes the run apart, for a driver.
    pub fn into_parts(self) -> RunParts {
        let Resolved { pins, policy, .. } = self.resolved;
        let hosts = HostApproval::new(self.approval, self.session, &self.command, policy);
        RunParts { command: self.command, plan: self.plan, pinned: pins, limits: self.limits, hosts }
    }
}

/// What has to be done after a run: the look for what it planted. As long as it lives, its session counts as in
/// use.
#[derive(Debug)]
pub struct AfterRun {
    session: Arc<SessionWorkspace>,
    snapshot: Option<Arc<Snapshot>>,
    host: Arc<Host>,
    end: Arc<RunEnd>,
    /// Gone with this value: there is nothing left to look at then.
    pending: Option<Pending>,
}

impl AfterRun {
    /// The session.
    pub fn session(&self) -> &SessionId {
        self.session.id()
    }

    /// Blocks until the run's tree is dead. A driver whose future was dropped ends it, but not at once.
    pub fn wait(&self) {
        self.end.wait();
    }

    /// Looks for what the run left behind, once its tree is dead.
    /// `None` if nothing was protected, because the whole disk was writable.
    pub fn look(&self) -> Option<Findings> {
        Some(protected::final_look(self.snapshot.as_ref()?))
    }

    /// Moves what offends into the session's quarantine, below Ringfence's home.
    pub fn quarantine(&self, findings: &Findings) -> Quarantined {
        protected::quarantine(findings, &self.directory(), &self.host.state)
    }

    fn directory(&self) -> PathBuf {
        self.host.home.join("quarantine").join(self.session.id().directory_name())
    }
}
