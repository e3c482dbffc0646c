//! What is watched during a run.
//!
//! A mount in the box is gone as soon as a program outside replaces what it lies on: the rule protects the old
//! inode, and the new one is writable. No mount can prevent that, nor a name from appearing in a directory that
//! must stay writable. Both are seen here, at the time, and again by the look after the run.
//!
//! A run starts without inotify(7): the kernel needs several milliseconds to take an instance down, more than
//! most commands last. What happened before it is set is seen when it is, by comparison.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringfence_types::FileId;
use rustix::event::Timespec;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use super::names::NameState;
use super::repositories::Role;
use super::search::Snapshot;
use super::stat::Stat;

/// Most paths that are watched; those nearest to the roots come first. The user's own limit is
/// `fs.inotify.max_user_watches`.
const MAX_WATCHES: usize = 512;
/// Most events taken at once, so that a box that makes them without end can't hold its supervisor up.
const MAX_EVENTS: usize = 1024;
/// Time from the start of a run until inotify is set, or between comparisons without it.
const INTERVAL: Duration = Duration::from_millis(250);

/// What has to be watched while the command runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchList {
    items: Vec<Item>,
    /// Paths beyond the bound.
    skipped: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Item {
    path: PathBuf,
    /// The identity that a mount protects, if one does.
    held: Option<(FileId, bool)>,
    /// Names that may appear in this directory, and the path that is meant.
    names: BTreeMap<OsString, (PathBuf, Appearance)>,
}

/// What appeared during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Appearance {
    /// `.git` directly below a writable root. Harmless until it holds something that is executed.
    Repository,
    /// A name in an existing git directory that git obeys: `commondir`, `config.worktree`, `hooks`, …
    Obeyed,
    /// Another protected name directly below a writable root.
    Name,
    /// A denied path that did not exist.
    Denied,
}

/// What was seen during a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WatchEvent {
    /// A program outside replaced or removed a protected path, so that its mount in the box is gone.
    LostMount {
        /// The protected path.
        path: PathBuf,
    },
    /// Something appeared that no mount could prevent.
    Appeared {
        /// Where.
        path: PathBuf,
        /// What it is.
        what: Appearance,
    },
    /// Events were lost; only the look after the run tells what happened.
    Overflow,
}

impl WatchEvent {
    /// The path whose mount is gone: what the box may write there from now on is no longer what was approved.
    pub fn lost_mount(&self) -> Option<&Path> {
        match self {
            Self::LostMount { path } => Some(path),
            Self::Appeared { .. } | Self::Overflow => None,
        }
    }
}

impl WatchList {
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        let mut list = Builder::default();
        let (roots, repositories) = (&snapshot.roots, &snapshot.repositories);
        for (path, element) in &repositories.elements {
            list.hold(path, &element.stat);
        }
        for (path, git_dir) in repositories.git_dirs.iter().filter(|(path, _)| roots.reach(path)) {
            list.hold(path, &git_dir.stat);
        }
        // Attributes choose among drivers that a protected configuration defines, as `.gitattributes` does.
        for (path, _) in
            repositories.expected.iter().filter(|(_, expected)| expected.role != Role::Attributes)
        {
            list.expect(path, Appearance::Obeyed);
        }
        for root in roots.all() {
            let entry = root.join(".git");
            if roots.reach(&entry) && !matches!(Stat::find(&entry), Ok(Some(_))) {
                list.expect(&entry, Appearance::Repository);
            }
        }
        for name in &snapshot.names {
            match &name.state {
                NameState::Missing => list.expect(&name.path, Appearance::Name),
                NameState::Held(stat) => list.hold(&name.path, stat),
                NameState::Link(target) => {
                    if let Some(stat) = target.stat.as_ref().filter(|_| roots.reach(&target.path)) {
                        list.hold(&target.path, stat);
                    }
                }
                NameState::Tracked => {}
            }
        }
        for path in &snapshot.missing {
            list.expect(path, Appearance::Denied);
        }
        list.finish()
    }

    /// Number of paths that a [`Watch`] watches.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is nothing to watch.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

#[derive(Default)]
struct Builder {
    items: BTreeMap<PathBuf, Item>,
    /// Which paths are directories: many names are expected in one.
    directories: HashMap<PathBuf, bool>,
}

impl Builder {
    fn item(&mut self, path: &Path) -> &mut Item {
        let item = self.items.entry(path.to_path_buf()).or_default();
        item.path = path.to_path_buf();
        item
    }

    fn hold(&mut self, path: &Path, stat: &Stat) {
        self.item(path).held = Some((stat.id.clone(), stat.is_dir()));
    }

    /// Watches the nearest directory that exists for the next component.
    fn expect(&mut self, path: &Path, what: Appearance) {
        for (child, dir) in path.ancestors().zip(path.ancestors().skip(1)) {
            let look = || matches!(Stat::find(dir), Ok(Some(stat)) if stat.is_dir());
            if *self.directories.entry(dir.to_path_buf()).or_insert_with(look) {
                let name = child.file_name().unwrap_or_default().to_os_string();
                self.item(dir).names.insert(name, (path.to_path_buf(), what));
                return;
            }
        }
    }

    fn finish(self) -> WatchList {
        let mut items: Vec<_> = self.items.into_values().collect();
        items.sort_by_key(|item| item.path.components().count());
        let skipped = items.len().saturating_sub(MAX_WATCHES);
        items.truncate(MAX_WATCHES);
        WatchList { items, skipped }
    }
}

/// A watch in force. Poll [`Self::fd`] for reading and call [`Self::drain`] when it is ready.
#[derive(Debug)]
pub struct Watch {
    timer: OwnedFd,
    inotify: Option<OwnedFd>,
    items: Vec<Item>,
    /// Items by watch descriptor: two paths may be one inode.
    by_descriptor: HashMap<i32, Vec<usize>>,
    reported: BTreeSet<WatchEvent>,
    pending: Vec<WatchEvent>,
    unwatched: usize,
}

impl Watch {
    /// Starts to watch; `None` if there is nothing to watch. What is to be seen during the first quarter of a
    /// second is seen at its end.
    ///
    /// # Errors
    /// The system's answer to timerfd_create(2). That the user has too many inotify instances
    /// (`fs.inotify.max_user_instances`) is no error: everything is compared four times a second instead.
    pub fn new(list: &WatchList) -> io::Result<Option<Self>> {
        Self::with_interval(list, INTERVAL)
    }

    /// [`Self::new`] with another time than a quarter of a second.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_interval(list: &WatchList, interval: Duration) -> io::Result<Option<Self>> {
        if list.is_empty() {
            return Ok(None);
        }
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let interval = Timespec::try_from(interval).map_err(|_| io::ErrorKind::InvalidInput)?;
        let times = Itimerspec { it_interval: interval, it_value: interval };
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &times)?;
        Ok(Some(Self {
            timer,
            inotify: None,
            items: list.items.clone(),
            by_descriptor: HashMap::new(),
            reported: BTreeSet::new(),
            pending: Vec::new(),
            unwatched: list.skipped,
        }))
    }

    /// Readable when there is something to [`Self::drain`]. It may be another one after each call of that.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_ref().unwrap_or(&self.timer).as_fd()
    }

    /// How many paths are not watched: more than a run watches, or more than the user may
    /// (`fs.inotify.max_user_watches`). The look after the run covers them.
    pub fn unwatched(&self) -> usize {
        self.unwatched
    }

    /// What happened since the last call. Never blocks; each event is reported once.
    pub fn drain(&mut self) -> Vec<WatchEvent> {
        let mut expirations = [0; 8];
        if self.inotify.is_none() && rustix::io::read(&self.timer, &mut expirations).is_ok() {
            self.set();
            self.compare();
        }
        self.events();
        std::mem::take(&mut self.pending)
    }

    /// Sets the inotify watches. Without an instance, the timer goes on.
    fn set(&mut self) {
        let Ok(fd) = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC) else { return };
        for (at, item) in self.items.iter().enumerate() {
            let mut flags = WatchFlags::DONT_FOLLOW | WatchFlags::MASK_ADD;
            if let Some((_, is_dir)) = item.held {
                flags |= WatchFlags::MOVE_SELF | WatchFlags::DELETE_SELF;
                // The inode of a replaced file lives on in the box's mount; what changes is its link count.
                flags.set(WatchFlags::ATTRIB, !is_dir);
            }
            flags.set(WatchFlags::CREATE | WatchFlags::MOVED_TO, !item.names.is_empty());
            match inotify::add_watch(&fd, &item.path, flags) {
                Ok(descriptor) => self.by_descriptor.entry(descriptor).or_default().push(at),
                // What is gone is reported by the comparison.
                Err(Errno::NOENT) => {}
                Err(_) => self.unwatched += 1,
            }
        }
        self.inotify = Some(fd);
    }

    /// Compares everything with what it was before the run.
    fn compare(&mut self) {
        for at in 0..self.items.len() {
            self.gone(at);
            for (path, what) in self.items[at].names.values().cloned().collect::<Vec<_>>() {
                if matches!(Stat::find(&path), Ok(Some(_))) {
                    self.report(WatchEvent::Appeared { path, what });
                }
            }
        }
    }

    fn events(&mut self) {
        let Some(fd) = &self.inotify else { return };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut raw = Vec::new();
        let mut overflow = false;
        let mut reader = inotify::Reader::new(fd, &mut buffer);
        while raw.len() < MAX_EVENTS {
            match reader.next() {
                Ok(event) => {
                    overflow |= event.events().contains(ReadFlags::QUEUE_OVERFLOW);
                    let name =
                        event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()).to_os_string());
                    raw.push((event.wd(), name));
                }
                Err(Errno::INTR) => {}
                // Empty, or broken: the look after the run does not depend on events.
                Err(_) => break,
            }
        }
        if overflow {
            self.report(WatchEvent::Overflow);
        }
        raw.sort();
        raw.dedup();
        for (descriptor, name) in raw {
            for at in self.by_descriptor.get(&descriptor).cloned().unwrap_or_default() {
                match &name {
                    Some(name) => self.appeared(at, name),
                    None => self.gone(at),
                }
            }
        }
    }

    fn appeared(&mut self, at: usize, name: &OsStr) {
        let Some((path, what)) = self.items[at].names.get(name).cloned() else { return };
        // A directory on the way to what is meant may have appeared without it.
        if path.file_name() == Some(name) || matches!(Stat::find(&path), Ok(Some(_))) {
            self.report(WatchEvent::Appeared { path, what });
        }
    }

    /// Something happened to the watched path itself: it is lost if another inode is there, or none.
    fn gone(&mut self, at: usize) {
        let item = &self.items[at];
        let Some((held, _)) = &item.held else { return };
        let now = Stat::find(&item.path).ok().flatten();
        if now.is_none_or(|now| now.id != *held) {
            let path = item.path.clone();
            self.report(WatchEvent::LostMount { path });
        }
    }

    fn report(&mut self, event: WatchEvent) {
        if self.reported.insert(event.clone()) {
            self.pending.push(event);
        }
    }
}
