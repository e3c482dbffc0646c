//! A note that a run is under way, so that the start after a crash looks at what it left.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::journal::{self, Bytes, Names};
use super::roots::Roots;
use super::search::Snapshot;
use super::settings::UserGit;
use super::stat::Since;

/// The note of one run. It lasts until it is dropped; a process that dies leaves it behind.
///
/// Its file is locked as long as a descriptor of it is open. Whoever gives the box's first process a copy of
/// [`Self::lock`] makes sure that no other start looks before the whole tree is dead.
#[derive(Debug)]
pub struct Pending {
    path: PathBuf,
    file: File,
}

/// What the look after a crash has to know of the time before the run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Note {
    /// Bound for what is new, in nanoseconds since the epoch.
    since: i64,
    roots: Vec<Bytes>,
    deny: Vec<Bytes>,
    /// Git directories that were known.
    git_dirs: Vec<Bytes>,
    /// Paths that would be obeyed if they appeared.
    expected: Vec<Bytes>,
    links: Vec<Bytes>,
    user_files: Vec<Bytes>,
    user_home: Option<Bytes>,
    quarantine: Bytes,
}

impl Pending {
    /// Writes the note down; `None` if the command can write nowhere. Call it before the command starts, and
    /// drop it when [`super::final_look`] and [`super::quarantine`] are done. `quarantine` is where a look after
    /// a crash would move things.
    ///
    /// # Errors
    /// The system's answer if the note can't be written.
    pub fn begin(snapshot: &Snapshot, quarantine: &Path, state: &Path) -> io::Result<Option<Self>> {
        if snapshot.looks.is_empty() {
            return Ok(None);
        }
        let paths =
            |paths: &mut dyn Iterator<Item = &PathBuf>| paths.map(|path| path.as_path().into()).collect();
        let repositories = &snapshot.repositories;
        let note = Note {
            since: snapshot.began.since().bound(),
            roots: paths(&mut snapshot.roots.all().iter()),
            deny: paths(&mut snapshot.roots.denied().iter()),
            git_dirs: paths(&mut repositories.git_dirs.keys()),
            expected: paths(&mut repositories.expected.keys()),
            links: paths(&mut repositories.links.keys()),
            user_files: paths(&mut snapshot.user.files.iter()),
            user_home: snapshot.user.home.as_deref().map(Bytes::from),
            quarantine: quarantine.into(),
        };
        let (path, file) = journal::create(state, "run")?;
        let pending = Self { path, file };
        (&pending.file).write_all(&serde_json::to_vec(&note)?)?;
        Ok(Some(pending))
    }

    /// The descriptor whose copies keep the note locked.
    pub fn lock(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Notes of runs whose processes are no more.
    pub(super) fn left_behind(state: &Path, names: &Names) -> io::Result<Vec<(Self, Note)>> {
        let left = journal::left_behind(state, names, "run")?.into_iter();
        Ok(left.map(|(path, file, note)| (Self { path, file }, note)).collect())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Note {
    pub(super) fn since(&self) -> Since {
        Since::at(self.since)
    }

    pub(super) fn roots(&self) -> Roots {
        let paths = |list: &[Bytes]| list.iter().map(Bytes::path).collect();
        Roots::of(paths(&self.roots), paths(&self.deny))
    }

    pub(super) fn user(&self) -> UserGit {
        let files = self.user_files.iter().map(Bytes::path).collect();
        UserGit { files, home: self.user_home.as_ref().map(Bytes::path) }
    }

    pub(super) fn git_dirs(&self) -> BTreeSet<PathBuf> {
        self.git_dirs.iter().map(Bytes::path).collect()
    }

    pub(super) fn expected(&self) -> BTreeSet<PathBuf> {
        self.expected.iter().map(Bytes::path).collect()
    }

    pub(super) fn links(&self) -> BTreeSet<PathBuf> {
        self.links.iter().map(Bytes::path).collect()
    }

    pub(super) fn quarantine(&self) -> PathBuf {
        self.quarantine.path()
    }
}
