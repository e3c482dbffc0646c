//! Questions about hosts that no rule mentions.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::event::Protocol;
use crate::policy::Wanted;

/// What somebody is asked. Denied hosts and guarded addresses are never asked about.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The connections that wait for this answer may go on.
    Once,
    /// So may all later ones of the run to the same host and port.
    Session,
    /// They may not.
    No,
}

/// Asks somebody. What should hold for longer than the run is for the one who asks to keep.
#[async_trait]
pub trait Ask: Send + Sync {
    /// Holds the connection until there is an answer. The proxy gives up after the limit of the run.
    async fn ask(&self, question: Question) -> Answer;
}

/// The questions of a run: one at a time for each host and port.
pub(crate) struct Questions {
    ask: Arc<dyn Ask>,
    patience: Duration,
    pending: Mutex<HashMap<Wanted, Arc<OnceCell<Answer>>>>,
    granted: Mutex<HashSet<Wanted>>,
}

impl Questions {
    pub(crate) fn new(ask: Arc<dyn Ask>, patience: Duration) -> Self {
        Self { ask, patience, pending: Mutex::default(), granted: Mutex::default() }
    }

    /// Whether the answer is yes. Whoever asks while a question is open shares its answer; if the one who put it goes
    /// away, the next one puts it again.
    pub(crate) async fn approved(&self, question: Question) -> bool {
        let wanted = question.wanted.clone();
        if self.granted.lock().unwrap_or_else(PoisonError::into_inner).contains(&wanted) {
            return true;
        }
        let cell = {
            let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(pending.entry(wanted.clone()).or_default())
        };
        let ask = || async { timeout(self.patience, self.ask.ask(question)).await.unwrap_or(Answer::No) };
        let answer = *cell.get_or_init(ask).await;
        if answer == Answer::Session {
            self.granted.lock().unwrap_or_else(PoisonError::into_inner).insert(wanted.clone());
        }
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.get(&wanted).is_some_and(|open| Arc::ptr_eq(open, &cell)) {
            pending.remove(&wanted);
        }
        answer != Answer::No
    }
}
