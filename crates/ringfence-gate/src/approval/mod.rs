//! Asking somebody about what leaves the baseline.

mod action;
mod connection;
mod flight;
mod refusals;
mod terminal;
mod timer;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ringfence_types::{Excess, HostPattern, ResolvedPolicy, SessionId};

pub use action::{ApprovalAction, Occasion};
pub use connection::{HostAnswer, HostApproval, TerminalHolder, TerminalLoan};
pub(crate) use refusals::Refusals;
use refusals::{Admission, Fingerprint};
pub use terminal::TerminalRequester;

use crate::bound::BoundCommand;
use crate::resolve::Host;
use crate::sessions::{Grant, SessionWorkspace};
use flight::Flights;

/// How a question ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApprovalOutcome {
    /// Approved for the rest of the session: the same or a narrower request then passes.
    Approved,
    /// Approved for this one run.
    ApprovedOnce,
    /// Approved for all sessions. There is no store for such grants yet, so the answer is refused as one that
    /// can't be kept; whoever asks should not offer it.
    ApprovedAlways,
    /// Refused.
    Denied,
    /// Nobody answered in time.
    Timeout,
    /// Nobody can be asked.
    Unavailable,
}

impl ApprovalOutcome {
    /// Whether somebody agreed.
    pub fn is_approved(self) -> bool {
        matches!(self, Self::Approved | Self::ApprovedOnce | Self::ApprovedAlways)
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalResponse {
    /// How the question ended.
    pub outcome: ApprovalOutcome,
    /// Who answered, for the audit.
    pub by: String,
    /// Why it was refused, or why nobody can be asked.
    pub reason: Option<String>,
}

impl ApprovalResponse {
    /// An answer without a reason.
    pub fn new(outcome: ApprovalOutcome, by: impl Into<String>) -> Self {
        Self { outcome, by: by.into(), reason: None }
    }

    /// Adds a reason.
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }
}

/// Asks somebody.
#[async_trait]
pub trait ApprovalRequester: Send + Sync {
    /// Asks, and waits for the answer. The future is dropped when the gate's own timeout is over or the command
    /// is given up: what was shown has to go away then.
    async fn request_approval(&self, a: &ApprovalAction) -> ApprovalResponse;

    /// Whether it asks on the controlling terminal. Whoever relays that to a running command then lets go of it for
    /// the question.
    fn uses_terminal(&self) -> bool {
        false
    }
}

/// Decides on requests that neither the baseline nor an earlier grant covers, by asking.
///
/// Concurrent requests that look the same share one question. What has been refused is not asked again in its
/// session, and three refusals in a row stop all questions of the session for five minutes.
pub struct ApprovalGate {
    requester: RwLock<Option<Arc<dyn ApprovalRequester>>>,
    timeout: Duration,
    flights: Flights<Question, Answer>,
}

/// What makes two concurrent requests the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Question {
    /// Everything that the question shows but the justification, and the identity of every path.
    Start {
        session: SessionId,
        tool_name: String,
        program: OsString,
        args: Vec<OsString>,
        cwd: PathBuf,
        policy: Box<ResolvedPolicy>,
    },
    /// What a refusal is remembered by.
    Connection { session: SessionId, program: OsString, host: HostPattern },
}

/// How the gate decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Somebody was asked, or tried to be.
    Response(ApprovalResponse),
    /// An approval for the session that was given a moment ago covers it.
    Granted {
        /// Who gave it.
        by: String,
    },
    /// The same was refused before.
    Remembered,
    /// The breaker is open for so long.
    BreakerOpen(Duration),
}

impl fmt::Debug for ApprovalGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApprovalGate").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl ApprovalGate {
    /// A gate that asks `requester`; without one every question is answered `Unavailable` at once.
    pub fn new(requester: Option<Arc<dyn ApprovalRequester>>) -> Self {
        Self {
            requester: RwLock::new(requester),
            timeout: Duration::from_secs(300),
            flights: Flights::default(),
        }
    }

    /// Sets how long the gate waits for an answer (default 300 s), whatever the requester does.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Names whom to ask from now on.
    pub fn set_requester(&self, requester: Option<Arc<dyn ApprovalRequester>>) {
        *self.requester.write().unwrap_or_else(PoisonError::into_inner) = requester;
    }

    pub(crate) fn has_requester(&self) -> bool {
        self.requester.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// How long the gate waits for an answer.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Decides on a command whose request leaves the baseline by `excess`.
    pub(crate) async fn decide(&self, host: &Host, bound: &BoundCommand, excess: &[Excess]) -> Answer {
        let fingerprint = Fingerprint::new(bound.command(), excess);
        let command = bound.command();
        let question = Question::Start {
            session: command.session_id.clone(),
            tool_name: command.tool_name.clone(),
            program: command.program.clone(),
            args: command.args.clone(),
            cwd: bound.cwd().to_path_buf(),
            policy: Box::new(bound.policy().clone()),
        };
        loop {
            let ask = || self.ask(host, bound, excess, &fingerprint);
            let (answer, asked) = self.flights.share(&question, ask).await;
            // Approved once is approved for one run: who only listened has to ask for itself.
            let once = match &answer {
                Answer::Response(response) => response.outcome == ApprovalOutcome::ApprovedOnce,
                _ => false,
            };
            if asked || !once {
                return answer;
            }
        }
    }

    async fn ask(
        &self,
        host: &Host,
        bound: &BoundCommand,
        excess: &[Excess],
        fingerprint: &Fingerprint,
    ) -> Answer {
        let session = bound.session();
        // An answer to the same may have come since this request was compared with the grants.
        if let Some(by) = session.within_grant(bound.policy()) {
            return Answer::Granted { by };
        }
        let action = ApprovalAction::new(bound.command(), bound.cwd().to_path_buf(), excess.to_vec());
        let answer = self.put(session, fingerprint, &action, None).await;
        if let Answer::Response(response) = &answer
            && response.outcome == ApprovalOutcome::Approved
        {
            session.grant(Grant::new(bound.policy().clone(), excess, response.by.clone(), host));
        }
        answer
    }

    /// Puts a question, unless the session remembers the answer or has had enough of refusals. `terminal` is whoever
    /// has the terminal now.
    async fn put(
        &self,
        session: &SessionWorkspace,
        fingerprint: &Fingerprint,
        action: &ApprovalAction,
        terminal: Option<&dyn TerminalHolder>,
    ) -> Answer {
        if session.refusals().remembers(fingerprint) {
            return Answer::Remembered;
        }
        let requester = self.requester.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(requester) = requester else {
            return Answer::Response(unavailable("no approver is set up"));
        };
        let admission = match session.refusals().admit(Instant::now()) {
            Ok(admission) => admission,
            Err(left) => return Answer::BreakerOpen(left),
        };
        let mut asking = Asking { session, admission, fingerprint, outcome: None };
        let terminal = terminal.filter(|_| requester.uses_terminal());
        // Who holds the terminal may be as slow as who answers.
        let response = async {
            let _loan = match terminal {
                Some(holder) => Some(holder.lend().await),
                None => None,
            };
            requester.request_approval(action).await
        };
        let response = match timer::within(self.timeout, response).await {
            Ok(Some(response)) => response,
            Ok(None) => ApprovalResponse::new(ApprovalOutcome::Timeout, "gate"),
            Err(error) => unavailable(&format!("the time for an answer can't be kept: {error}")),
        };
        asking.outcome = Some(response.outcome);
        Answer::Response(response)
    }
}

fn unavailable(reason: &str) -> ApprovalResponse {
    ApprovalResponse::new(ApprovalOutcome::Unavailable, "gate").because(reason)
}

/// A question under way; however it ends, given up included, the session takes note.
struct Asking<'a> {
    session: &'a SessionWorkspace,
    admission: Admission,
    fingerprint: &'a Fingerprint,
    outcome: Option<ApprovalOutcome>,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.session.refusals().settle(&self.admission, self.fingerprint, self.outcome, Instant::now());
    }
}
