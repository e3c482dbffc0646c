use std::time::{Duration, Instant};

use rustix::event::Timespec;

/// How long output is still read after the program has ended: a process that has got hold of a pipe and lives
/// outside the box's tree can't hold up the result for longer.
const DRAIN: Duration = Duration::from_secs(2);

/// The two limits in time of a run. It starts to count when it is made, before the first byte of input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: Instant,
    deadline: Option<Instant>,
    drain: Option<Instant>,
}

impl Clock {
    /// Starts counting. A timeout beyond what an [`Instant`] can express is none.
    pub(crate) fn start(timeout: Option<Duration>) -> Self {
        let started = Instant::now();
        Self { started, deadline: timeout.and_then(|timeout| started.checked_add(timeout)), drain: None }
    }

    /// Time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// The program has ended: from now on only the drain is limited.
    pub(crate) fn exited(&mut self) {
        self.deadline = None;
        self.drain = Some(Instant::now() + DRAIN);
    }

    /// The drain is over and what remains to be written has no limit of its own.
    pub(crate) fn drained(&mut self) {
        self.drain = None;
    }

    /// Whether the wall-clock limit is reached.
    pub(crate) fn timed_out(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    /// Whether the drain took too long.
    pub(crate) fn drain_is_over(&self) -> bool {
        self.drain.is_some_and(|drain| drain <= Instant::now())
    }

    /// How long a poll(2) may wait so that neither limit is passed; `None` is without end.
    pub(crate) fn poll_timeout(&self) -> Option<Timespec> {
        let next = self.deadline.into_iter().chain(self.drain).min()?;
        let left = next.saturating_duration_since(Instant::now());
        Some(Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_limit_poll_waits_for_ever() {
        let clock = Clock::start(None);
        assert_eq!(clock.poll_timeout(), None);
        assert!(!clock.timed_out());
    }

    #[test]
    fn a_limit_that_is_reached_does_not_wait() {
        let clock = Clock::start(Some(Duration::ZERO));
        assert!(clock.timed_out());
        assert_eq!(clock.poll_timeout(), Some(Timespec { tv_sec: 0, tv_nsec: 0 }));
    }

    #[test]
    fn an_absurd_limit_is_none() {
        assert_eq!(Clock::start(Some(Duration::MAX)).poll_timeout(), None);
    }

    #[test]
    fn the_drain_replaces_the_limit() {
        let mut clock = Clock::start(Some(Duration::ZERO));
        clock.exited();
        assert!(!clock.timed_out());
        assert!(!clock.drain_is_over());
        let wait = clock.poll_timeout().unwrap();
        assert!(wait.tv_sec < 2 || (wait.tv_sec, wait.tv_nsec) == (2, 0));
        clock.drained();
        assert_eq!(clock.poll_timeout(), None);
    }
}
