//! What statx(2) says of a path, and whether that changed since a moment.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ringfence_types::{FileId, PathKind, ResolvedPath};
use rustix::fs::{AtFlags, CWD, FileType, Statx, StatxFlags, makedev, statx};

const NANOS: i64 = 1_000_000_000;

/// A path's status, its final component not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) kind: PathKind,
    pub(super) id: FileId,
    /// Status change in nanoseconds since the epoch. Nobody can set it, unlike the modification time.
    pub(super) ctime: i64,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mode: u32,
    pub(super) size: u64,
}

impl Stat {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        Self::at(CWD, path)
    }

    /// `name` below `dir`; an empty name is `dir` itself.
    pub(super) fn at(dir: impl AsFd, name: impl rustix::path::Arg) -> io::Result<Self> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT;
        Ok(Self::new(&statx(dir, name, flags, StatxFlags::BASIC_STATS | StatxFlags::BTIME)?))
    }

    /// [`Self::of`], with `None` if there is nothing.
    pub(super) fn find(path: &Path) -> io::Result<Option<Self>> {
        found(Self::of(path))
    }

    fn new(statx: &Statx) -> Self {
        let kind = match FileType::from_raw_mode(statx.stx_mode.into()) {
            FileType::Directory => PathKind::Directory,
            FileType::RegularFile => PathKind::File,
            FileType::Symlink => PathKind::Symlink,
            _ => PathKind::Special,
        };
        let birth = StatxFlags::from_bits_retain(statx.stx_mask).contains(StatxFlags::BTIME).then(|| {
            i128::from(statx.stx_btime.tv_sec) * i128::from(NANOS) + i128::from(statx.stx_btime.tv_nsec)
        });
        Self {
            kind,
            id: FileId {
                dev: makedev(statx.stx_dev_major, statx.stx_dev_minor),
                ino: statx.stx_ino,
                birth,
                handle: None,
            },
            ctime: nanos(statx),
            uid: statx.stx_uid,
            gid: statx.stx_gid,
            mode: statx.stx_mode.into(),
            size: statx.stx_size,
        }
    }

    pub(super) fn is_dir(&self) -> bool {
        self.kind == PathKind::Directory
    }

    /// The path with this status, as policies keep it.
    pub(super) fn resolved(&self, path: &Path) -> ResolvedPath {
        ResolvedPath { path: path.to_path_buf(), kind: self.kind, id: Some(Box::new(self.id.clone())) }
    }
}

pub(super) fn nanos(statx: &Statx) -> i64 {
    statx.stx_ctime.tv_sec.saturating_mul(NANOS).saturating_add(statx.stx_ctime.tv_nsec.into())
}

/// Nothing there, or no directory on the way, is no error.
pub(super) fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The kernel stamps files with a clock that it advances once a tick, at most every 10 ms.
const TICK: Duration = Duration::from_millis(20);
/// File systems that keep whole seconds, some only even ones.
const COARSE: i64 = 2 * NANOS;

/// A moment on both clocks, so that a step of the wall clock is noticed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    wall: SystemTime,
    monotonic: Instant,
}

impl Moment {
    pub(super) fn now() -> Self {
        Self { wall: SystemTime::now(), monotonic: Instant::now() }
    }

    /// Which status changes are later than this moment. If the wall clock was put back since then, so is the
    /// bound.
    pub(super) fn since(self) -> Since {
        let expected = self.wall + self.monotonic.elapsed();
        let stepped_back = expected.duration_since(SystemTime::now()).unwrap_or_default();
        Since(epoch_nanos(self.wall - TICK - stepped_back))
    }
}

fn epoch_nanos(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// A lower bound for status changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Since(i64);

impl Since {
    pub(super) fn at(nanos: i64) -> Self {
        Self(nanos)
    }

    /// In nanoseconds since the epoch.
    pub(super) fn bound(self) -> i64 {
        self.0
    }

    /// Whether a status change at `ctime` may be later than the bound.
    pub(super) fn includes(self, ctime: i64) -> bool {
        rounded_up(ctime) >= self.0
    }
}

/// Whether a change right after one at `ctime` could carry the same stamp, if it is looked at now.
pub(super) fn is_racy(ctime: i64) -> bool {
    rounded_up(ctime) >= epoch_nanos(SystemTime::now() - TICK)
}

fn rounded_up(ctime: i64) -> i64 {
    if ctime % NANOS == 0 { ctime.saturating_add(COARSE) } else { ctime }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/", &link).unwrap();
        assert_eq!(Stat::of(&link).unwrap().kind, PathKind::Symlink);
        assert_eq!(Stat::find(&dir.path().join("none")).unwrap(), None);
        assert_eq!(Stat::find(&link.join("etc/passwd/none")).unwrap(), None);
    }

    #[test]
    fn changes_are_told_from_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let old = Stat::of(dir.path()).unwrap();
        std::thread::sleep(TICK * 2);
        let moment = Moment::now();
        assert!(!moment.since().includes(old.ctime));
        assert!(!is_racy(old.ctime));
        std::fs::write(dir.path().join("new"), "").unwrap();
        let new = Stat::of(dir.path()).unwrap();
        assert!(moment.since().includes(new.ctime));
        assert!(is_racy(new.ctime));
        assert_eq!(old.id, new.id);
    }

    #[test]
    fn a_clock_that_was_put_back_moves_the_bound() {
        let moment = Moment { wall: SystemTime::now() + Duration::from_secs(100), monotonic: Instant::now() };
        let now = epoch_nanos(SystemTime::now());
        assert!(moment.since().includes(now + 1));
    }

    #[test]
    fn whole_seconds_are_taken_as_late() {
        assert!(Since(5 * NANOS).includes(4 * NANOS));
        assert!(!Since(5 * NANOS).includes(2 * NANOS));
        assert!(!Since(5 * NANOS).includes(4 * NANOS + 1));
    }
}
