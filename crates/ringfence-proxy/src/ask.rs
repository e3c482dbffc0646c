//! Questions about hosts that no rule mentions.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::event::Protocol;
use crate::policy::Wanted;

/// What somebody is asked. Denied hosts and guarded addresses are never asked about; a name is asked about before it
/// is looked up, and refused after all if it leads to a guarded address.
#[derive(Clone, Debug)]
pub struct Question {
    /// The run's name.
    pub run: Arc<str>,
    /// What the client wants to reach.
    pub wanted: Wanted,
    /// How it asked the proxy.
    pub protocol: Protocol,
    /// The client's end of the connection, from which its process can be found.
    pub client: SocketAddr,
}

/// The answer to a [`Question`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The connections that wait for this answer may go on.
    Once {
        /// Who said so.
        by: String,
    },
    /// So may all later ones of the run to the same host and port.
    Session {
        /// Who said so.
        by: String,
    },
    /// They may not.
    No(NoApproval),
}

/// Why a host was not approved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoApproval {
    /// Somebody said no.
    Refused,
    /// Somebody said no earlier.
    Remembered,
    /// Somebody said no so often that nothing is asked for a while.
    Paused,
    /// Nobody answered in time.
    Timeout,
    /// Nobody can be asked.
    Unavailable,
    /// The client went away before there was an answer.
    Abandoned,
}

impl NoApproval {
    /// The reason's name in events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Remembered => "remembered",
            Self::Paused => "paused",
            Self::Timeout => "timeout",
            Self::Unavailable => "unavailable",
            Self::Abandoned => "abandoned",
        }
    }

    /// For the end of a sentence.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Refused => "refused when asked",
            Self::Remembered => "refused earlier",
            Self::Paused => "no more questions for a while after repeated refusals",
            Self::Timeout => "nobody answered in time",
            Self::Unavailable => "nobody can be asked",
            Self::Abandoned => "the client went away before there was an answer",
        }
    }
}

/// Asks somebody. What should hold for longer than the run is for the one who asks to keep.
#[async_trait]
pub trait Ask: Send + Sync {
    /// Waits for the answer, during which the connection is held. The future is dropped when the time of
    /// [`Limits::ask`](crate::Limits::ask) is over or when no client waits any more.
    async fn ask(&self, question: Question) -> Answer;

    /// Whether a program still has this end of a connection that it has stopped sending on: then it may still want
    /// to read. Asked on the proxy's threads, so it must be quick.
    fn has_client(&self, client: SocketAddr) -> bool {
        let _ = client;
        true
    }
}

/// The questions of a run: one at a time for each host and port.
pub(crate) struct Questions {
    ask: Arc<dyn Ask>,
    patience: Duration,
    open: Mutex<HashMap<Wanted, Weak<Open>>>,
    granted: Mutex<HashMap<Wanted, String>>,
}

/// A question that somebody may be looking at. It belongs to the clients that wait; with the last of them it goes.
struct Open {
    answer: watch::Receiver<Option<Answer>>,
    task: JoinHandle<()>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Questions {
    pub(crate) fn new(ask: Arc<dyn Ask>, patience: Duration) -> Self {
        Self { ask, patience, open: Mutex::default(), granted: Mutex::default() }
    }

    /// The answer, which all share who want the same while the question is open. Dropping the future of the last of
    /// them takes the question back.
    pub(crate) async fn answer(&self, question: Question) -> Answer {
        let wanted = question.wanted.clone();
        if let Some(by) = self.granted.lock().unwrap_or_else(PoisonError::into_inner).get(&wanted) {
            return Answer::Session { by: by.clone() };
        }
        let open = self.join(question);
        let mut receiver = open.answer.clone();
        let answer = match receiver.wait_for(Option::is_some).await {
            Ok(answer) => answer.clone(),
            Err(_) => None,
        };
        // Without an answer whoever asked has panicked.
        let answer = answer.unwrap_or(Answer::No(NoApproval::Unavailable));
        if let Answer::Session { by } = &answer {
            self.granted.lock().unwrap_or_else(PoisonError::into_inner).insert(wanted, by.clone());
        }
        answer
    }

    /// The open question about the same, or a new one.
    fn join(&self, question: Question) -> Arc<Open> {
        let mut all = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let same = all.get(&question.wanted).and_then(Weak::upgrade);
        if let Some(open) = same.filter(|open| open.answer.borrow().is_none() && !open.task.is_finished()) {
            return open;
        }
        all.retain(|_, open| open.strong_count() > 0);
        let wanted = question.wanted.clone();
        let (sender, answer) = watch::channel(None);
        let (ask, patience) = (Arc::clone(&self.ask), self.patience);
        let task = tokio::spawn(async move {
            let answer = timeout(patience, ask.ask(question)).await;
            sender.send_replace(Some(answer.unwrap_or(Answer::No(NoApproval::Timeout))));
        });
        let open = Arc::new(Open { answer, task });
        all.insert(wanted, Arc::downgrade(&open));
        open
    }

    pub(crate) fn has_client(&self, client: SocketAddr) -> bool {
        self.ask.has_client(client)
    }
}
