use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Most descriptors that one request holds.
const PER_REQUEST: usize = 512;

/// Descriptors (`O_PATH`) of approved paths.
///
/// While one is held its inode can't be reused, so that the identity in the plan stays unambiguous. Their
/// number is bounded; identity alone, with birth time and file handle, carries the rest.
///
/// A driver drops them when the run's tree is dead and no earlier: what is done after a run waits for that.
#[derive(Debug, Default)]
pub struct Pins {
    fds: Vec<OwnedFd>,
    budget: Option<Arc<PinBudget>>,
    end: Arc<RunEnd>,
}

/// The end of a run: its [`Pins`] are gone.
#[derive(Debug, Default)]
pub(crate) struct RunEnd {
    over: Mutex<bool>,
    changed: Condvar,
}

impl RunEnd {
    /// Blocks until the run is over.
    pub(crate) fn wait(&self) {
        let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_while(over, |over| !*over));
    }

    fn set(&self) {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }
}

/// How many descriptors all requests of one gate may hold together.
#[derive(Debug)]
pub(crate) struct PinBudget {
    free: AtomicUsize,
}

impl PinBudget {
    /// A quarter of the descriptors that the process may have open (`RLIMIT_NOFILE`, getrlimit(2)), so that
    /// many runs at once leave the host and the drivers enough of them.
    pub(crate) fn of_process() -> Arc<Self> {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        Self::new(limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX)) / 4)
    }

    fn new(free: usize) -> Arc<Self> {
        Arc::new(Self { free: AtomicUsize::new(free) })
    }

    fn take(&self) -> bool {
        self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| free.checked_sub(1)).is_ok()
    }
}

impl Pins {
    /// No descriptors yet, and no more than `budget` has left.
    pub(crate) fn new(budget: &Arc<PinBudget>) -> Self {
        Self { fds: Vec::new(), budget: Some(Arc::clone(budget)), end: Arc::default() }
    }

    /// What says that these are gone.
    pub(crate) fn end(&self) -> Arc<RunEnd> {
        Arc::clone(&self.end)
    }

    /// Holds the descriptor as far as the budget goes; else closes it.
    pub(crate) fn hold(&mut self, fd: OwnedFd) {
        if let Some(budget) = &self.budget
            && self.fds.len() < PER_REQUEST
            && budget.take()
        {
            self.fds.push(fd);
        }
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.free.fetch_add(self.fds.len(), Ordering::Relaxed);
        }
        self.end.set();
    }
}

impl Deref for Pins {
    type Target = [OwnedFd];

    fn deref(&self) -> &[OwnedFd] {
        &self.fds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor() -> OwnedFd {
        std::fs::File::open("/").unwrap().into()
    }

    #[test]
    fn the_budget_is_shared_and_given_back() {
        let budget = PinBudget::new(3);
        let mut first = Pins::new(&budget);
        let mut second = Pins::new(&budget);
        (0..2).for_each(|_| first.hold(descriptor()));
        (0..2).for_each(|_| second.hold(descriptor()));
        assert_eq!((first.len(), second.len()), (2, 1));
        drop(first);
        second.hold(descriptor());
        assert_eq!(second.len(), 2);
    }

    #[test]
    fn one_request_holds_no_more_than_its_share() {
        let budget = PinBudget::new(usize::MAX);
        let mut pins = Pins::new(&budget);
        (0..PER_REQUEST + 5).for_each(|_| pins.hold(descriptor()));
        assert_eq!(pins.len(), PER_REQUEST);
    }

    #[test]
    fn the_end_of_a_run_is_the_end_of_its_pins() {
        let pins = Pins::new(&PinBudget::new(1));
        let end = pins.end();
        let (sender, receiver) = std::sync::mpsc::channel();
        let waiting = std::thread::spawn(move || {
            end.wait();
            sender.send(()).unwrap();
        });
        assert!(receiver.recv_timeout(std::time::Duration::from_millis(20)).is_err(), "too early");
        drop(pins);
        receiver.recv().unwrap();
        waiting.join().unwrap();
    }
}
