//! The search before a run.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringfence_types::{PathKind, Protected, ResolvedPath};

use super::collect::collect;
use super::index::{self, IndexFile, Mark, Stamp, Summary, Tree};
use super::links::{Target, follow};
use super::names::{self, Name};
use super::repositories::{Repositories, looks_like_git_dir, read_small};
use super::roots::Roots;
use super::settings::{Settings, UserGit};
use super::stat::{Moment, Stat};
use super::survey::{Survey, UserFacts};
use super::walk::{self, Refreshed, Scope};
use super::{gitconfig, gitindex};

/// Why no search was possible.
#[derive(Debug, thiserror::Error)]
pub enum ProtectedError {
    /// A writable root can't be opened.
    #[error("cannot search {} for protected paths", .path.display())]
    Root {
        /// The root.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// What a search found.
#[derive(Debug)]
pub struct Found {
    /// For the policy.
    pub protected: Protected,
    /// For the look after the run. Take it before the command starts and keep it until its tree is dead.
    pub snapshot: Snapshot,
    /// How thorough the search was.
    pub report: SearchReport,
}

/// How thorough a search was, for layer reports and benches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchReport {
    /// Directories known below the roots.
    pub directories: usize,
    /// Directories looked at in this search.
    pub checked: usize,
    /// Git directories found, those outside the roots included.
    pub repositories: usize,
    /// Age of the oldest complete look that this search relied on; `None` if it looked at everything itself.
    pub relied_on: Option<Duration>,
    /// Why the index of directories could not be kept.
    pub index_error: Option<String>,
}

/// What was there before a run.
#[derive(Debug)]
pub struct Snapshot {
    pub(super) began: Moment,
    pub(super) roots: Roots,
    pub(super) looks: Vec<RootLook>,
    pub(super) repositories: Repositories,
    pub(super) names: Vec<Name>,
    /// Denied paths that don't exist.
    pub(super) missing: Vec<PathBuf>,
    pub(super) state: Option<PathBuf>,
    pub(super) user: UserGit,
    pub(super) user_facts: UserFacts,
}

/// One root as the search left it.
#[derive(Debug)]
pub(super) struct RootLook {
    pub(super) path: PathBuf,
    pub(super) stat: Stat,
    pub(super) index: Index,
}

/// Where the directories of a root are listed. A file is not kept in memory while the command runs.
#[derive(Debug)]
pub(super) enum Index {
    File(IndexFile),
    Memory(Tree),
}

/// Index files that are kept open during a run; one of a further root is read into memory.
const MAX_OPEN: usize = 32;

impl Index {
    fn close(&mut self) {
        if let Self::File(file) = self {
            *self = Self::Memory(file.tree().unwrap_or_else(Tree::unread));
        }
    }
}

/// Finds what a command that may write below `roots` must not plant.
///
/// `roots` are canonical; `deny` are the denied paths of the policy. `state` is Ringfence's state directory,
/// which no box may write; without it nothing is remembered between runs.
///
/// Known repositories and the top directory of each root are always looked at. The other directories are, if
/// the last complete look is older than [`Settings::recheck_seconds`], and then within
/// [`Settings::search_ms`]; what was left is in [`Protected::incomplete`].
///
/// # Errors
/// [`ProtectedError::Root`] if a root can't be opened. What can't be looked at below one is no error but makes
/// the result incomplete.
pub fn search(
    roots: &[PathBuf],
    deny: &[ResolvedPath],
    settings: &Settings,
    state: Option<&Path>,
) -> Result<Found, ProtectedError> {
    let mut began = Moment::now();
    let deadline = settings.budget().map(|budget| Instant::now() + budget);
    let roots = Roots::new(roots, deny);
    let mut survey = Survey::new(&roots, &settings.user);
    let mut report = SearchReport::default();
    let mut looks = Vec::new();
    for root in roots.outermost() {
        let failed = |source| ProtectedError::Root { path: root.to_path_buf(), source };
        let stat = Stat::of(root).map_err(failed)?;
        if stat.is_dir() {
            began = began.for_files_on(walk::open_root(root).map_err(failed)?);
            let mut look =
                Search { root, settings, state, deadline, survey: &mut survey, report: &mut report }
                    .run(stat)
                    .map_err(failed)?;
            if looks.len() >= MAX_OPEN {
                look.index.close();
            }
            looks.push(look);
        }
    }
    let names = names::look(&roots, &settings.names, &mut survey);
    let user_facts = survey.user_facts().clone();
    let repositories = survey.found;
    report.repositories = repositories.git_dirs.len();
    let missing = deny
        .iter()
        .filter(|path| {
            path.kind == PathKind::Missing && path.path.parent().is_some_and(|dir| roots.reach(dir))
        })
        .map(|path| path.path.clone())
        .collect();
    let protected = collect(&roots, &repositories, &names, deny, settings.git);
    let user = settings.user.clone();
    let state = state.map(Path::to_path_buf);
    let snapshot = Snapshot { began, roots, looks, repositories, names, missing, state, user, user_facts };
    Ok(Found { protected, snapshot, report })
}

struct Search<'a, 's> {
    root: &'a Path,
    settings: &'a Settings,
    state: Option<&'a Path>,
    deadline: Option<Instant>,
    survey: &'a mut Survey<'s>,
    report: &'a mut SearchReport,
}

impl Search<'_, '_> {
    fn run(mut self, stat: Stat) -> io::Result<RootLook> {
        self.survey.work_tree(self.root);
        self.survey.enclosing(self.root);
        let old = self.state.and_then(|state| IndexFile::open(state, self.root));
        let age = old.as_ref().and_then(IndexFile::age);
        let recent = age.filter(|&age| age <= self.settings.recheck());
        let relied_on = recent.filter(|_| old.as_ref().is_some_and(|old| old.summary.complete));
        self.report.relied_on = self.report.relied_on.max(relied_on);
        let stamp = Stamp { ino: stat.id.ino, ctime: stat.ctime };
        let path = self.root.to_path_buf();
        if let Some(old) = old {
            if relied_on.is_some() && old.summary.root == stamp {
                self.report.directories += old.summary.directories as usize;
                self.report.checked += 1;
                self.marked(&old.summary);
                return Ok(RootLook { path, stat, index: Index::File(old) });
            }
            let index = self.refresh(Some(old), relied_on.is_some())?;
            return Ok(RootLook { path, stat, index });
        }
        let index = self.refresh(None, false)?;
        Ok(RootLook { path, stat, index })
    }

    /// Looks at the directories again: at all of them, or at the top one and what is new in it.
    fn refresh(&mut self, old: Option<IndexFile>, root_only: bool) -> io::Result<Index> {
        if !root_only {
            self.named();
        }
        let root = walk::open_root(self.root)?;
        let known = old.as_ref().and_then(IndexFile::tree);
        let rebuilt = known.is_none();
        let deadline = self.deadline;
        let expired = move || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let expired = deadline.is_some().then_some(&expired as &(dyn Fn() -> bool + Sync));
        let scope = Scope { expired, since: None, root_only: root_only && !rebuilt };
        let (tree, refreshed) = walk::refresh(root.as_fd(), known.unwrap_or_else(Tree::unread), scope);
        let summary = summarize(&tree, &refreshed);
        self.report.directories += tree.nodes.len();
        self.report.checked += refreshed.checked;
        self.marked(&summary);
        if !refreshed.complete {
            self.survey.note(format!(
                "{} of at least {} directories below {} not looked at within {} ms",
                refreshed.left,
                refreshed.left + refreshed.checked,
                self.root.display(),
                self.settings.search_ms,
            ));
        }
        // Without time for the directories there is none for a file that says so either.
        let hopeless = rebuilt && !refreshed.complete && tree.nodes.len() <= 1;
        let Some(state) = self.state.filter(|_| !hopeless) else { return Ok(Index::Memory(tree)) };
        let kept = match old {
            Some(old) if !refreshed.changed && !rebuilt => {
                if root_only {
                    Ok(old)
                } else {
                    old.confirm().map(|()| old)
                }
            }
            old => {
                let time = old.as_ref().filter(|_| root_only).and_then(IndexFile::completed);
                index::replace(state, self.root, summary, &tree, time)
            }
        };
        Ok(kept.map_or_else(
            |error| {
                self.report.index_error = Some(error.to_string());
                Index::Memory(tree)
            },
            Index::File,
        ))
    }

    fn marked(&mut self, summary: &Summary) {
        for (dir, mark) in &summary.marked {
            survey_mark(self.survey, &below(self.root, dir), *mark);
        }
        if let Some(note) = &summary.note {
            self.survey.note(note.clone());
        }
    }

    /// Repositories that git itself names, so that a search that runs out of time has them: submodules and
    /// bare repositories among the tracked files, and what `.gitmodules` names.
    fn named(&mut self) {
        let Some(top) = self.survey.enclosing(self.root) else { return };
        let mut pending = vec![top];
        let mut seen = BTreeSet::new();
        while let Some(work_tree) = pending.pop() {
            if !seen.insert(work_tree.clone()) || self.expired() {
                continue;
            }
            for named in self.named_by(&work_tree) {
                let Ok(Target { path: dir, stat: Some(stat), .. }) = follow(&work_tree, &named) else {
                    continue;
                };
                if !dir.starts_with(self.root) || !stat.is_dir() {
                    continue;
                }
                if looks_like_git_dir(&dir) {
                    self.survey.bare(&dir);
                } else if matches!(Stat::find(&dir.join(".git")), Ok(Some(_))) {
                    self.survey.work_tree(&dir);
                    pending.push(dir);
                }
            }
        }
    }

    fn named_by(&mut self, work_tree: &Path) -> BTreeSet<PathBuf> {
        let mut named = BTreeSet::new();
        let modules = read_small(&work_tree.join(".gitmodules")).ok().flatten();
        for variable in modules.and_then(|text| gitconfig::parse(&text).ok()).into_iter().flatten() {
            if let (b"submodule", b"path" | b"url", Some(value)) =
                (variable.section(), variable.name(), &variable.value)
            {
                named.insert(PathBuf::from(OsStr::from_bytes(value)));
            }
        }
        let Some((git_dir, hash_len)) = self.survey.repository_of(work_tree) else { return named };
        let index = git_dir.join("index");
        if !matches!(Stat::find(&index), Ok(Some(_))) {
            return named;
        }
        let deadline = self.deadline;
        let read = gitindex::read(&index, hash_len, |mode, path| {
            if mode == gitindex::GITLINK {
                named.insert(PathBuf::from(OsStr::from_bytes(path)));
            } else if let Some(dir) = path.strip_suffix(b"/HEAD") {
                named.insert(PathBuf::from(OsStr::from_bytes(dir)));
            }
            match deadline {
                Some(deadline) if Instant::now() >= deadline => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        });
        if let Err(error) = read {
            self.survey.note(error.to_string());
        }
        named
    }

    fn expired(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

/// A path of the index in full. The root itself is `.` there.
pub(super) fn below(root: &Path, dir: &Path) -> PathBuf {
    if dir == Path::new(".") { root.to_path_buf() } else { root.join(dir) }
}

pub(super) fn survey_mark(survey: &mut Survey<'_>, dir: &Path, mark: Mark) {
    if mark.entry {
        survey.work_tree(dir);
    }
    if mark.bare {
        survey.bare(dir);
    }
}

pub(super) fn summarize(tree: &Tree, refreshed: &Refreshed) -> Summary {
    let path = |node| PathBuf::from(OsStr::from_bytes(tree.path(node)));
    let marked =
        tree.nodes.iter().filter(|node| node.mark.any()).map(|node| (path(node), node.mark)).collect();
    let note = (!refreshed.unreadable.is_empty())
        .then(|| refreshed.unreadable.iter().map(String::as_str).collect::<Vec<_>>().join("; "));
    Summary {
        complete: refreshed.complete,
        root: tree.nodes.first().map(|node| node.stamp).unwrap_or_default(),
        directories: tree.nodes.len() as u32,
        marked,
        note,
    }
}
