//! Bringing the index of a root's directories up to date, and finding repositories on the way.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, StatxFlags, fstatfs, open, openat, statx};
use rustix::io::Errno;

use super::index::{Mark, Stamp, Tree};
use super::stat::{Since, Stat, nanos, slack_on};

/// File systems that hold no files of anybody: nothing can be planted there, and some have no end.
const PSEUDO: [u64; 16] = [
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x1cd1,      // devpts
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0xf97c_ff8c, // selinuxfs
    0xcafe_4a11, // bpf
    0x6165_676c, // pstore
    0xde5e_81e4, // efivarfs
    0x6265_6570, // configfs
    0x0187,      // autofs
    0x1980_0202, // mqueue
    0x6e73_6673, // nsfs
];

/// Directories to check before the work is worth more than one thread.
const PARALLEL: usize = 1024;

/// A directory whose entries were read, and that holds a repository.
#[derive(Debug)]
pub(super) struct Listed {
    /// Relative to the root.
    pub(super) dir: PathBuf,
    pub(super) ctime: i64,
    /// Whether the directory itself may have come to its place since the bound.
    pub(super) fresh: bool,
    /// Whether the index knew the directory, as one without this mark.
    pub(super) news: bool,
}

/// What bringing an index up to date led to.
#[derive(Debug, Default)]
pub(super) struct Refreshed {
    /// Whether the tree differs from before.
    pub(super) changed: bool,
    /// Whether every directory was looked at.
    pub(super) complete: bool,
    /// Directories looked at.
    pub(super) checked: usize,
    /// Directories known and not looked at; more may lie below them.
    pub(super) left: usize,
    pub(super) listed: Vec<Listed>,
    /// Directories that could not be read.
    pub(super) unreadable: BTreeSet<String>,
    /// Those of them that changed since the bound, relative to the root.
    pub(super) hidden: BTreeSet<PathBuf>,
}

/// What to look at.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    /// Whether the time for it is over; `None` is never.
    pub(super) expired: Option<&'a (dyn Fn() -> bool + Sync)>,
    /// From when on a directory counts as fresh; `None` is never.
    pub(super) since: Option<Since>,
    /// Only the root and what is new in it, beside directories never read.
    pub(super) root_only: bool,
}

/// Looks at the directories of `tree` and reads those again that changed, and new ones below them.
///
/// A directory changed if its inode number or its status change time did, which no program can set. Symlinks
/// are not followed. Mounted file systems are looked into. What lies in a `.git` is not: that is the survey's.
pub(super) fn refresh(root: BorrowedFd<'_>, tree: Tree, scope: Scope<'_>) -> (Tree, Refreshed) {
    Walk { root, scope, tree, known: HashSet::new(), queue: VecDeque::new(), out: Refreshed::default() }.run()
}

/// Opens a root for [`refresh`].
pub(super) fn open_root(root: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(open(root, flags, Mode::empty())?)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Same,
    Changed,
    Gone,
}

/// A directory to be read.
struct Job {
    node: usize,
    /// Whether the index knew it.
    known: bool,
    /// Whether its parent is fresh, or changed so that this may be new in it.
    parent_fresh: bool,
    parent_changed: bool,
}

/// The file system of a root.
#[derive(Clone, Copy)]
struct FileSystem {
    dev: u64,
    slack: Duration,
}

struct Listing {
    stat: Stat,
    /// Whether a change after the look at the directory could carry the same stamp.
    racy: bool,
    mark: Mark,
    /// Names and inode numbers of directories in it.
    children: Vec<(CString, u64)>,
}

struct Walk<'a> {
    root: BorrowedFd<'a>,
    scope: Scope<'a>,
    tree: Tree,
    /// Directories of the index whose parents have to be read again.
    known: HashSet<Vec<u8>>,
    queue: VecDeque<Job>,
    out: Refreshed,
}

impl Walk<'_> {
    fn run(mut self) -> (Tree, Refreshed) {
        let (states, checked) = self.check();
        let unchecked = self.tree.nodes.len() - checked;
        let mut gone = vec![false; self.tree.nodes.len()];
        for (node, state) in &states {
            match state {
                State::Same => {}
                State::Gone => gone[*node] = true,
                State::Changed => {
                    self.queue.push_back(Job {
                        node: *node,
                        known: true,
                        parent_fresh: false,
                        parent_changed: false,
                    });
                }
            }
        }
        self.index_children(&gone);
        let root = self.root;
        let dev = Stat::at(root, c"").map_or(0, |stat| stat.id.dev);
        let home = FileSystem { dev, slack: slack_on(root) };
        let mut buffer = vec![MaybeUninit::uninit(); 1 << 15];
        while !self.queue.is_empty() {
            self.out.changed = true;
            if self.expired() {
                break;
            }
            let Some(job) = self.queue.pop_front() else { break };
            let path = self.tree.c_path(&self.tree.nodes[job.node]).to_owned();
            gone.resize(self.tree.nodes.len(), false);
            match list(root, &path, home, &mut buffer) {
                Ok(listing) => self.take(&job, &path, listing),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => gone[job.node] = true,
                Err(error) => self.unreadable(&job, &path, error),
            }
        }
        gone.resize(self.tree.nodes.len(), false);
        self.out.left = unchecked + self.queue.len();
        self.out.checked = self.tree.nodes.len() - self.out.left;
        self.out.complete = self.out.left == 0;
        // The root stays even if it has gone, so that the tree is never empty.
        if gone.iter().skip(1).any(|&gone| gone) {
            self.out.changed = true;
            let mut at = 0;
            self.tree.nodes.retain(|_| {
                at += 1;
                at == 1 || !gone[at - 1]
            });
        }
        (self.tree, self.out)
    }

    fn expired(&self) -> bool {
        self.scope.expired.is_some_and(|expired| expired())
    }

    /// Compares the directories of the index with what is there. Returns those that differ, and how many were
    /// compared.
    fn check(&self) -> (Vec<(usize, State)>, usize) {
        let nodes = &self.tree.nodes;
        if self.scope.root_only {
            let unread = |&node: &usize| node == 0 || nodes[node].stamp.ctime <= Stamp::UNREAD;
            let differ = (0..nodes.len()).filter(unread).map(|node| (node, self.state(node))).collect();
            return (differ, nodes.len());
        }
        if self.scope.expired.is_some() || nodes.len() < PARALLEL {
            return self.check_range(0..nodes.len());
        }
        let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(4));
        let share = nodes.len().div_ceil(threads);
        let ranges = (0..threads).map(|n| n * share..((n + 1) * share).min(nodes.len()));
        std::thread::scope(|scope| {
            let workers: Vec<_> = ranges.map(|range| scope.spawn(|| self.check_range(range))).collect();
            let mut all = (Vec::new(), 0);
            for worker in workers {
                if let Ok((differ, checked)) = worker.join() {
                    all.0.extend(differ);
                    all.1 += checked;
                }
            }
            all
        })
    }

    fn check_range(&self, range: std::ops::Range<usize>) -> (Vec<(usize, State)>, usize) {
        let mut differ = Vec::new();
        for (done, node) in range.clone().enumerate() {
            if done % 64 == 0 && self.expired() {
                return (differ, done);
            }
            let state = self.state(node);
            if state != State::Same {
                differ.push((node, state));
            }
        }
        (differ, range.len())
    }

    fn state(&self, node: usize) -> State {
        let node = &self.tree.nodes[node];
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        match statx(self.root, self.tree.c_path(node), flags, StatxFlags::CTIME | StatxFlags::INO) {
            Ok(now) if now.stx_ino == node.stamp.ino && nanos(&now) == node.stamp.ctime => State::Same,
            Err(Errno::NOENT | Errno::NOTDIR) => State::Gone,
            // A directory that can't be looked up shows its error when it is read.
            Ok(_) | Err(_) => State::Changed,
        }
    }

    /// Notes the directories in those that will be read again, which are no news there.
    fn index_children(&mut self, gone: &[bool]) {
        let again: BTreeSet<Vec<u8>> =
            self.queue.iter().map(|job| self.tree.path(&self.tree.nodes[job.node]).to_vec()).collect();
        if again.is_empty() {
            return;
        }
        for (at, node) in self.tree.nodes.iter().enumerate().skip(1) {
            let path = self.tree.path(node);
            let parent =
                path.iter().rposition(|&byte| byte == b'/').map_or(b".".as_slice(), |end| &path[..end]);
            if !gone[at] && again.contains(parent) {
                self.known.insert(path.to_vec());
            }
        }
    }

    fn take(&mut self, job: &Job, path: &CStr, listing: Listing) {
        let stat = listing.stat;
        let since = |ctime| self.scope.since.is_some_and(|since| since.includes(ctime));
        let changed = since(stat.ctime);
        // The root is the anchor: that it is the same one is checked elsewhere.
        let same = job.node == 0 || self.tree.nodes[job.node].stamp.ino == stat.id.ino;
        let fresh = job.parent_fresh || ((job.parent_changed || !same) && changed);
        let node = &mut self.tree.nodes[job.node];
        let before = std::mem::replace(&mut node.mark, listing.mark);
        let was = node.stamp;
        let ctime = if listing.racy { Stamp::RACY } else { stat.ctime };
        node.stamp = Stamp { ino: stat.id.ino, ctime };
        if listing.mark.any() {
            self.out.listed.push(Listed {
                dir: PathBuf::from(OsStr::from_bytes(path.to_bytes())),
                ctime: stat.ctime,
                fresh,
                news: job.known && same && was.ctime != Stamp::UNREAD && before != listing.mark,
            });
        }
        for (child, ino) in listing.children {
            let child = join(path, &child);
            if !self.known.contains(&child) {
                let stamp = Stamp { ino, ctime: Stamp::UNREAD };
                let node = self.tree.push(&child, stamp, Mark::default());
                self.queue.push_back(Job {
                    node,
                    known: false,
                    parent_fresh: fresh,
                    parent_changed: changed,
                });
            }
        }
    }

    /// Keeps a directory that can't be read in the index, to be tried again. It matters only if the box, which
    /// has the caller's identity, could open it up.
    fn unreadable(&mut self, job: &Job, path: &CStr, error: Errno) {
        self.tree.nodes[job.node].stamp.ctime = Stamp::UNREAD;
        let stat = Stat::at(self.root, path);
        let path = Path::new(OsStr::from_bytes(path.to_bytes()));
        let own = stat.as_ref().is_ok_and(|stat| stat.uid == rustix::process::geteuid().as_raw());
        if own && stat.is_ok_and(|stat| self.scope.since.is_some_and(|since| since.includes(stat.ctime))) {
            self.out.hidden.insert(path.to_path_buf());
        }
        if error != Errno::ACCESS || own {
            self.out.unreadable.insert(format!("cannot look into {}: {error}", path.display()));
        }
    }
}

fn join(dir: &CStr, name: &CStr) -> Vec<u8> {
    if dir == c"." {
        return name.to_bytes().to_vec();
    }
    [dir.to_bytes(), b"/", name.to_bytes()].concat()
}

/// Reads one directory. Its status is taken before its entries, so that a later change shows.
fn list(
    root: BorrowedFd<'_>,
    path: &CStr,
    home: FileSystem,
    buffer: &mut [MaybeUninit<u8>],
) -> Result<Listing, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = openat(root, path, flags, Mode::empty())?;
    let before = Since::now(home.slack);
    let stat = Stat::at(&dir, c"").map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let foreign = stat.id.dev != home.dev;
    let racy = before.includes(stat.ctime) || foreign && slack_on(&dir) > home.slack;
    // A list of names tells nothing of what git finds here once somebody has opened it up.
    if stat.mode & 0o111 != 0o111 && Stat::at(&dir, c".").is_err() {
        return Err(Errno::ACCESS);
    }
    let mut listing = Listing { stat, racy, mark: Mark::default(), children: Vec::new() };
    if foreign && fstatfs(&dir).is_ok_and(|fs| PSEUDO.contains(&(fs.f_type as u64))) {
        return Ok(listing);
    }
    let (mut head, mut objects, mut refs, mut common) = (false, false, false, false);
    let mut entries = RawDir::new(dir.as_fd(), buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        match name.to_bytes() {
            b"." | b".." => continue,
            b".git" => {
                listing.mark.entry = true;
                continue;
            }
            b"HEAD" => head = true,
            b"objects" => objects = true,
            b"refs" => refs = true,
            b"commondir" => common = true,
            // A file system without case has it as `.git` too.
            other if other.eq_ignore_ascii_case(b".git") => {
                listing.mark.entry |= Stat::at(&dir, c".git").is_ok();
            }
            _ => {}
        }
        let is_dir = match entry.file_type() {
            FileType::Directory => true,
            FileType::Unknown => Stat::at(&dir, name).is_ok_and(|stat| stat.is_dir()),
            _ => false,
        };
        if is_dir {
            listing.children.push((name.to_owned(), entry.ino()));
        }
    }
    listing.mark.bare = head && (objects && refs || common);
    Ok(listing)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Whether the search stops when the time is over at the `calls`th look at the clock.
    fn after(calls: usize) -> impl Fn() -> bool + Sync {
        let count = AtomicUsize::new(0);
        move || count.fetch_add(1, Ordering::Relaxed) >= calls
    }

    #[test]
    fn what_was_not_looked_at_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["a/in", "b", "c", "d"] {
            std::fs::create_dir_all(dir.path().join(path)).unwrap();
        }
        let root = open_root(dir.path()).unwrap();
        let look = |tree, calls| {
            let expired = after(calls);
            refresh(root.as_fd(), tree, Scope { expired: Some(&expired), since: None, root_only: false })
        };
        // One look at the clock is for the comparison with the index, the others are each before a directory.
        let counts = |calls| {
            let (tree, refreshed) = look(Tree::unread(), calls);
            let unread = tree.nodes.iter().filter(|node| node.stamp.ctime == Stamp::UNREAD).count();
            assert_eq!((unread, tree.nodes.len() - unread), (refreshed.left, refreshed.checked), "{calls}");
            assert_eq!(refreshed.complete, unread == 0, "{calls}");
            (refreshed.checked, refreshed.left)
        };
        for (calls, checked, left) in [(0, 0, 1), (1, 0, 1), (2, 1, 4), (6, 5, 1), (7, 6, 0)] {
            assert_eq!(counts(calls), (checked, left), "{calls}");
        }
        // Which of the four holds another one depends on the file system's order.
        (3..6).map(counts).for_each(drop);
        // The next one goes on with what was left.
        let (tree, _) = look(Tree::unread(), 2);
        let (_, refreshed) = look(tree, 100);
        assert_eq!((refreshed.checked, refreshed.left, refreshed.complete), (6, 0, true));
    }
}
