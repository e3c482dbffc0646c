//! What statx(2) says of a path, and whether that changed since a moment.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use ringfence_types::{FileId, PathKind, ResolvedPath};
use rustix::fs::{AtFlags, CWD, FileType, Statx, StatxFlags, fstatfs, makedev, statx};
use rustix::time::{ClockId, clock_gettime};

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

/// File systems that keep whole seconds, some only even ones.
const COARSE: i64 = 2 * NANOS;
/// How far the clock of another machine may be behind, which stamps the files of a network file system.
const REMOTE: Duration = Duration::from_millis(20);
/// File systems whose files this kernel stamps (statfs(2)).
const LOCAL: [u64; 9] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0x794c_7630, // overlayfs
    0xf2f5_2010, // f2fs
    0x2fc1_2fc1, // zfs
    0xca45_1a4e, // bcachefs
];

/// The clock that the kernel stamps files with: `CLOCK_REALTIME_COARSE`, which it advances once a tick. A stamp is never
/// earlier than what this clock showed before the change; where file systems keep finer stamps, it may be later
/// than what it shows afterwards.
fn stamp_clock() -> i64 {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    now.tv_sec.saturating_mul(NANOS).saturating_add(now.tv_nsec)
}

/// How much earlier than by [`stamp_clock`] a change on this file system may be stamped.
pub(super) fn slack_on(fd: impl AsFd) -> Duration {
    let local = fstatfs(fd).is_ok_and(|fs| LOCAL.contains(&(fs.f_type as u64)));
    if local { Duration::ZERO } else { REMOTE }
}

/// A moment on the clock of stamps, and on one that nobody sets, so that a step of the first is noticed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    stamp: i64,
    wall: SystemTime,
    monotonic: Instant,
    /// How much earlier a change may be stamped.
    slack: Duration,
}

impl Moment {
    pub(super) fn now() -> Self {
        // In this order, and the other way round in `since`, a pause between two clocks only moves the bound down.
        let monotonic = Instant::now();
        Self { monotonic, wall: SystemTime::now(), stamp: stamp_clock(), slack: Duration::ZERO }
    }

    /// The same moment, for files on this file system too: one on another machine makes it less sharp.
    pub(super) fn for_files_on(self, fd: impl AsFd) -> Self {
        Self { slack: self.slack.max(slack_on(fd)), ..self }
    }

    /// Which status changes are not earlier than this moment. If the wall clock was put back since then, so is the
    /// bound.
    pub(super) fn since(self) -> Since {
        let now = SystemTime::now();
        let expected = self.wall + self.monotonic.elapsed();
        let stepped_back = expected.duration_since(now).unwrap_or_default();
        Since(self.stamp.saturating_sub(nanos_of(stepped_back + self.slack)))
    }
}

fn nanos_of(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// A lower bound for status changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Since(i64);

impl Since {
    pub(super) fn at(nanos: i64) -> Self {
        Self(nanos)
    }

    /// This moment, for what is looked at next.
    pub(super) fn now(slack: Duration) -> Self {
        Self(stamp_clock().saturating_sub(nanos_of(slack)))
    }

    /// In nanoseconds since the epoch.
    pub(super) fn bound(self) -> i64 {
        self.0
    }

    /// Whether a status change at `ctime` may be later than the bound. A change in the same tick of the clock, right
    /// before the bound, counts as one.
    pub(super) fn includes(self, ctime: i64) -> bool {
        rounded_up(ctime) >= self.0
    }
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

    /// Waits until the clock of stamps shows a later time than `ctime`: at most a tick.
    fn wait_past(ctime: i64) {
        while stamp_clock() <= ctime {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_change_one_tick_before_is_no_change_since() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..50 {
            std::fs::write(dir.path().join(n.to_string()), "").unwrap();
            let old = Stat::of(dir.path()).unwrap();
            wait_past(old.ctime);
            let moment = Moment::now();
            assert!(!moment.since().includes(old.ctime), "{moment:?} {old:?}");
            // At once, in whatever tick.
            std::fs::write(dir.path().join(format!("new{n}")), "").unwrap();
            let new = Stat::of(dir.path()).unwrap();
            assert!(moment.since().includes(new.ctime), "{moment:?} {new:?}");
            assert_eq!(old.id, new.id);
        }
    }

    #[test]
    fn no_change_is_missed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        for _ in 0..5000 {
            let moment = Moment::now();
            std::fs::write(&file, "").unwrap();
            assert!(moment.since().includes(Stat::of(&file).unwrap().ctime), "{moment:?}");
            std::fs::remove_file(&file).unwrap();
        }
    }

    #[test]
    fn another_machines_clock_may_be_behind() {
        let dir = tempfile::tempdir().unwrap();
        let open = |path: &Path| std::fs::File::open(path).unwrap();
        let moment = Moment::now();
        let stamp = moment.stamp;
        let here = moment.for_files_on(open(dir.path()));
        assert_eq!(here.slack, Duration::ZERO, "this test needs a local file system");
        assert!(!here.since().includes(stamp - 10_000_000));
        // Not one of those that are known to be local.
        let there = here.for_files_on(open(Path::new("/proc")));
        assert!(there.since().includes(stamp - 10_000_000));
        assert!(there.for_files_on(open(dir.path())).since().includes(stamp - 10_000_000), "one of several");
    }

    #[test]
    fn a_clock_that_was_put_back_moves_the_bound() {
        let now = Moment::now();
        let ahead = Duration::from_secs(100);
        let moment = Moment { wall: now.wall + ahead, stamp: now.stamp + nanos_of(ahead), ..now };
        assert!(moment.since().includes(now.stamp));
        assert!(!moment.since().includes(now.stamp - NANOS));
    }

    #[test]
    fn whole_seconds_are_taken_as_late() {
        assert!(Since(5 * NANOS).includes(4 * NANOS));
        assert!(!Since(5 * NANOS).includes(2 * NANOS));
        assert!(!Since(5 * NANOS).includes(4 * NANOS + 1));
    }
}
