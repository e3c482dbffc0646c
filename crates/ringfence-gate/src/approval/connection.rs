use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ringfence_types::{Excess, HostPattern, Network, ResolvedPolicy, SandboxCommand};
use tokio::sync::Mutex;

use super::action::visible;
use super::{Answer, ApprovalAction, ApprovalGate, ApprovalOutcome, Fingerprint, Occasion, Question};
use crate::sessions::SessionWorkspace;

/// Most characters of a program's name that are shown.
const PROGRAM: usize = 32;

/// Asks about hosts that a running command wants to reach and that its policy does not name. Comes with an approved
/// run, for the driver; deny rules and guarded addresses are the driver's to refuse without a question. A name need not
/// have been looked up: a look-up would tell a resolver what nobody has approved yet.
///
/// One question of a run is open at a time, so that refusals count before the next one is put.
pub struct HostApproval {
    gate: Arc<ApprovalGate>,
    session: Arc<SessionWorkspace>,
    /// Without what it is fed: everything that a question shows.
    command: SandboxCommand,
    policy: ResolvedPolicy,
    turn: Mutex<()>,
    terminal: OnceLock<Arc<dyn TerminalHolder>>,
}

/// How a question about a host ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostAnswer {
    /// The connections that wait for this answer may be made.
    Once {
        /// Who said so.
        by: String,
    },
    /// So may all others of the session to this host and port.
    Session {
        /// Who said so, now or earlier.
        by: String,
    },
    /// Somebody refused.
    Denied,
    /// The same was refused earlier in the session.
    Remembered,
    /// Nothing is asked for so long, after refusals in a row.
    BreakerOpen(Duration),
    /// Nobody answered in time.
    Timeout,
    /// Nobody can be asked, or the approval is of a kind that can't be kept.
    Unavailable,
}

/// Whoever has the terminal while a command runs.
#[async_trait]
pub trait TerminalHolder: Send + Sync {
    /// Lets go of the terminal: its modes are those from before the command, and nothing is read from or written to
    /// it until the loan is dropped.
    async fn lend(&self) -> TerminalLoan;
}

/// The terminal is somebody else's until this is dropped.
#[must_use = "the terminal goes back when this is dropped"]
pub struct TerminalLoan(Option<Box<dyn FnOnce() + Send>>);

impl TerminalLoan {
    /// A loan whose end calls `give_back`.
    pub fn new(give_back: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(give_back)))
    }
}

impl Drop for TerminalLoan {
    fn drop(&mut self) {
        if let Some(give_back) = self.0.take() {
            give_back();
        }
    }
}

impl fmt::Debug for TerminalLoan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TerminalLoan").finish_non_exhaustive()
    }
}

impl fmt::Debug for HostApproval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostApproval").field("session", self.session.id()).finish_non_exhaustive()
    }
}

impl HostApproval {
    pub(crate) fn new(
        gate: Arc<ApprovalGate>,
        session: Arc<SessionWorkspace>,
        command: &SandboxCommand,
        policy: ResolvedPolicy,
    ) -> Self {
        let mut shown = SandboxCommand::new(command.session_id.clone(), command.program.clone());
        shown.tool_name.clone_from(&command.tool_name);
        shown.args.clone_from(&command.args);
        shown.justification.clone_from(&command.justification);
        Self { gate, session, command: shown, policy, turn: Mutex::const_new(()), terminal: OnceLock::new() }
    }

    /// Whether there is anybody to ask.
    pub fn can_ask(&self) -> bool {
        self.gate.has_requester()
    }

    /// How long an answer is waited for.
    pub fn timeout(&self) -> Duration {
        self.gate.timeout()
    }

    /// Names who has the terminal while the command runs. Only the first call counts.
    pub fn set_terminal(&self, holder: Arc<dyn TerminalHolder>) {
        let _ = self.terminal.set(holder);
    }

    /// Decides on connections to a host and port. `program` finds the name of the program that wants them, as it says,
    /// and is polled only if a question is to be put: a command can make any number of connections.
    pub async fn decide(
        &self,
        host: HostPattern,
        program: impl Future<Output = Option<Vec<u8>>> + Send,
    ) -> HostAnswer {
        let excess = vec![Excess::Host(host.clone())];
        let fingerprint = Fingerprint::new(&self.command, &excess);
        if let Some(answer) = self.refused(&fingerprint) {
            return answer;
        }
        let question = Question::Connection {
            session: self.session.id().clone(),
            program: self.command.program.clone(),
            host: host.clone(),
        };
        let _turn = self.turn.lock().await;
        // What was said while this one waited.
        if let Some(answer) = self.refused(&fingerprint) {
            return answer;
        }
        if let Some(by) = self.granted(&host) {
            return HostAnswer::Session { by };
        }
        let mut action = ApprovalAction::new(&self.command, self.policy.cwd.path.clone(), excess);
        action.occasion = Occasion::Connection { program: program.await.as_deref().and_then(shown) };
        loop {
            let ask = || self.ask(&action, &host, &fingerprint);
            match self.gate.flights.share(&question, ask).await {
                (answer, true) => return answer.into(),
                // Approved once is approved for those who waited for this answer: another run asks for itself.
                (answer, false) => match answer.into() {
                    HostAnswer::Once { .. } => {}
                    answer => return answer,
                },
            }
        }
    }

    /// The refusal that needs no question.
    fn refused(&self, fingerprint: &Fingerprint) -> Option<HostAnswer> {
        let refusals = self.session.refusals();
        if refusals.remembers(fingerprint) {
            return Some(HostAnswer::Remembered);
        }
        refusals.paused(Instant::now()).map(HostAnswer::BreakerOpen)
    }

    /// Who has allowed this host for the session, alone or together with what the command has.
    fn granted(&self, host: &HostPattern) -> Option<String> {
        let session = &self.session;
        session.granted_host(host).or_else(|| session.within_grant(&with_host(&self.policy, host.clone())))
    }

    async fn ask(&self, action: &ApprovalAction, host: &HostPattern, fingerprint: &Fingerprint) -> Answer {
        if let Some(by) = self.granted(host) {
            return Answer::Granted { by };
        }
        let terminal = self.terminal.get().map(|holder| &**holder);
        let answer = self.gate.put(&self.session, fingerprint, action, terminal).await;
        if let Answer::Response(response) = &answer
            && response.outcome == ApprovalOutcome::Approved
        {
            // The host alone: what else this command has may have been approved once.
            self.session.grant_host(host.clone(), response.by.clone());
        }
        answer
    }
}

impl From<Answer> for HostAnswer {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Granted { by } => Self::Session { by },
            Answer::Remembered => Self::Remembered,
            Answer::BreakerOpen(left) => Self::BreakerOpen(left),
            Answer::Response(response) => match response.outcome {
                ApprovalOutcome::ApprovedOnce => Self::Once { by: response.by },
                ApprovalOutcome::Approved => Self::Session { by: response.by },
                ApprovalOutcome::Denied => Self::Denied,
                ApprovalOutcome::Timeout => Self::Timeout,
                ApprovalOutcome::ApprovedAlways | ApprovalOutcome::Unavailable => Self::Unavailable,
            },
        }
    }
}

/// What the command would have asked for to be allowed this host from the start.
fn with_host(policy: &ResolvedPolicy, host: HostPattern) -> ResolvedPolicy {
    let mut policy = policy.clone();
    match &mut policy.network {
        Network::AllowHosts { hosts } | Network::Public { hosts } => {
            hosts.push(host);
            hosts.sort();
            hosts.dedup();
        }
        network @ Network::None => *network = Network::AllowHosts { hosts: vec![host] },
        Network::AllowAll => {}
    }
    policy
}

/// A program's name, which the program chose itself: one short piece of text that hides nothing.
fn shown(name: &[u8]) -> Option<String> {
    let text = visible(&String::from_utf8_lossy(name));
    let cut: String = text.trim().chars().take(PROGRAM).collect();
    (!cut.is_empty()).then_some(cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_programs_name_can_neither_hide_nor_move_anything() {
        assert_eq!(shown(b"curl").unwrap(), "curl");
        assert_eq!(shown(b"\x1b[2Jgit\n").unwrap(), r"\u{1b}[2Jgit\u{a}");
        assert_eq!(shown("\u{202e}lruc".as_bytes()).unwrap(), r"\u{202e}lruc");
        assert_eq!(shown(b"a\xff").unwrap(), "a\u{fffd}");
        assert_eq!(shown(&[b'x'; 100]).unwrap().len(), PROGRAM);
        assert_eq!(shown(b"  "), None);
    }
}
