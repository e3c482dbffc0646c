//! Whether what the box's mounts cover is still in its place.
//!
//! PID 1 hears at once of a mount that is gone. A program outside that *renames* a covered path takes the mount
//! along and leaves the old name uncovered, of which no event tells; so the names are looked at now and then.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringfence_plan::LinuxPlan;
use ringfence_plan::linux::MountOp;
use rustix::event::Timespec;

use crate::driver::to_path;

/// How long a covered path may be out of its place unnoticed.
const INTERVAL: Duration = Duration::from_millis(250);
/// Paths looked at in one go, so that many take turns instead of time.
const AT_ONCE: usize = 1000;

/// Covered paths, and what lay there when the run was started.
#[derive(Debug)]
pub(crate) struct Covers {
    paths: VecDeque<(PathBuf, (u64, u64))>,
    due: Instant,
}

impl Covers {
    /// Notes what lies at each denied and protected path of the plan. One that can't be seen can't be watched, nor
    /// can a box of the same user see it.
    pub(crate) fn of(plan: &LinuxPlan) -> Self {
        let covered = plan.mounts.iter().filter_map(|op| match op {
            MountOp::Pin { at, read_only: true, .. } => Some(to_path(at)),
            op => op.denied().map(to_path),
        });
        let paths =
            covered.filter_map(|path| Some((identity(&path)?, path))).map(|(id, path)| (path, id)).collect();
        Self { paths, due: Instant::now() + INTERVAL }
    }

    /// `other`, or less if a look is due before.
    pub(crate) fn timeout(&self, other: Option<Timespec>) -> Option<Timespec> {
        if self.paths.is_empty() {
            return other;
        }
        let left = self.due.saturating_duration_since(Instant::now());
        let own = Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() };
        Some(match other {
            Some(other) if (other.tv_sec, other.tv_nsec) < (own.tv_sec, own.tv_nsec) => other,
            _ => own,
        })
    }

    /// The first path that is not what it was, if a look is due.
    pub(crate) fn missing(&mut self) -> Option<PathBuf> {
        if self.paths.is_empty() || Instant::now() < self.due {
            return None;
        }
        self.due = Instant::now() + INTERVAL;
        for _ in 0..self.paths.len().min(AT_ONCE) {
            let (path, id) = self.paths.pop_front()?;
            if identity(&path) != Some(id) {
                return Some(path);
            }
            self.paths.push_back((path, id));
        }
        None
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(paths: &[&Path]) -> Covers {
        let paths = paths.iter().map(|path| (path.to_path_buf(), identity(path).unwrap())).collect();
        Covers { paths, due: Instant::now() }
    }

    #[test]
    fn a_path_that_is_renamed_or_replaced_is_missing() {
        let directory = tempfile::tempdir().unwrap();
        let [kept, moved] = ["kept", "moved"].map(|name| directory.path().join(name));
        fs::write(&kept, "").unwrap();
        fs::write(&moved, "").unwrap();
        let mut covers = covers(&[&kept, &moved]);
        assert_eq!(covers.missing(), None);
        fs::write(&kept, "changed in place").unwrap();
        fs::rename(&moved, directory.path().join("elsewhere")).unwrap();
        fs::write(&moved, "").unwrap();
        assert_eq!(covers.missing(), None, "no look is due yet");
        covers.due = Instant::now();
        assert_eq!(covers.missing(), Some(moved));
    }

    #[test]
    fn nothing_covered_waits_for_nothing() {
        assert_eq!(covers(&[]).timeout(None), None);
        let some = covers(&[Path::new("/")]);
        assert_eq!(some.timeout(None), Some(Timespec { tv_sec: 0, tv_nsec: 0 }));
    }
}
