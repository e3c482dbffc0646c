use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most descriptors that one request holds.
const PER_REQUEST: usize = 512;

/// Descriptors (`O_PATH`) of approved paths.
///
/// While one is held its inode can't be reused, so that the identity in the plan stays unambiguous. Their
/// number is bounded; identity alone, with birth time and file handle, carries the rest.
#[derive(Debug, Default)]
pub struct Pins {
    fds: Vec<OwnedFd>,
    budget: Option<Arc<PinBudget>>,
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
        Self { fds: Vec::new(), budget: Some(Arc::clone(budget)) }
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
}
