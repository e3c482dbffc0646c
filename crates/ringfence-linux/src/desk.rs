//! Lending the caller's terminal to whoever asks a question on it while the command runs. The supervisor's loop has the
//! terminal; the one who asks waits on another thread.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use async_trait::async_trait;
use ringfence_gate::{TerminalHolder, TerminalLoan};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use tokio::sync::watch;

/// Where the terminal is asked for and given back.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    /// Readable when something has changed for the supervisor.
    bell: Arc<OwnedFd>,
    state: Arc<watch::Sender<State>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// How many want the terminal or have it.
    wanted: usize,
    /// The supervisor has let go of it.
    lent: bool,
}

/// What the supervisor has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Lend,
    TakeBack,
}

impl Desk {
    /// A desk at which nobody waits.
    ///
    /// # Errors
    /// Those of eventfd(2).
    pub(crate) fn new() -> Result<Self, Errno> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { bell: Arc::new(bell), state: Arc::new(watch::Sender::new(State::default())) })
    }

    /// What is to be done, if anything is; to be confirmed with [`Self::done`].
    pub(crate) fn change(&self) -> Option<Change> {
        // Empty when somebody came and went.
        let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
        let State { wanted, lent } = *self.state.borrow();
        match (wanted > 0, lent) {
            (true, false) => Some(Change::Lend),
            (false, true) => Some(Change::TakeBack),
            _ => None,
        }
    }

    /// The supervisor has done it.
    pub(crate) fn done(&self, change: Change) {
        self.state.send_modify(|state| state.lent = change == Change::Lend);
    }

    /// Whether somebody has the terminal for a question.
    pub(crate) fn is_lent(&self) -> bool {
        self.state.borrow().lent
    }

    fn ring(&self) {
        // Fails only if the counter is about to overflow: then it is readable.
        let _ = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
    }
}

impl AsFd for Desk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

#[async_trait]
impl TerminalHolder for Desk {
    async fn lend(&self) -> TerminalLoan {
        self.state.send_modify(|state| state.wanted += 1);
        self.ring();
        let desk = self.clone();
        let loan = TerminalLoan::new(move || {
            desk.state.send_modify(|state| state.wanted -= 1);
            desk.ring();
        });
        // Fails only if the desk is gone, which this one holds.
        let _ = self.state.subscribe().wait_for(|state| state.lent).await;
        loan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_to_give_it_back_ends_the_loan() {
        let desk = Desk::new().unwrap();
        assert_eq!(desk.change(), None);
        let borrow = |desk: &Desk| {
            let desk = desk.clone();
            tokio::spawn(async move { desk.lend().await })
        };
        let (first, second) = (borrow(&desk), borrow(&desk));
        tokio::task::yield_now().await;
        assert_eq!(desk.change(), Some(Change::Lend));
        assert!(!first.is_finished() && !desk.is_lent());
        desk.done(Change::Lend);
        assert!(desk.is_lent());
        let (first, second) = (first.await.unwrap(), second.await.unwrap());
        drop(first);
        assert_eq!(desk.change(), None);
        drop(second);
        assert_eq!(desk.change(), Some(Change::TakeBack));
        desk.done(Change::TakeBack);
        assert_eq!(desk.change(), None);
    }

    #[tokio::test]
    async fn who_gives_up_waiting_leaves_nothing() {
        let desk = Desk::new().unwrap();
        let waiting = tokio::spawn({
            let desk = desk.clone();
            async move { desk.lend().await }
        });
        tokio::task::yield_now().await;
        assert_eq!(desk.change(), Some(Change::Lend));
        waiting.abort();
        assert!(waiting.await.is_err());
        assert_eq!(desk.change(), None);
    }
}
