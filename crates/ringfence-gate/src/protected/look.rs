//! The look after a run, when its tree is dead.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use ringfence_types::{FileId, PathKind};

use super::finding::{Finding, FindingKind, Findings};
use super::index::{self, IndexFile, Tree};
use super::links::follow;
use super::names::{self, Name, NameState};
use super::pending::Note;
use super::quarantine::is_quarantined;
use super::repositories::{
    Content, Element, Executing, GitDir, Origin, Repositories, Role, is_hook_name, read_small,
};
use super::roots::Roots;
use super::search::{Index, Snapshot, below, summarize, survey_mark};
use super::stat::{Since, Stat};
use super::survey::Survey;
use super::walk::{self, Listed, Scope};

/// Looks at what a run left behind. Its tree must be dead.
///
/// Every directory below the roots is compared with the index and read again if it changed, however long that
/// takes; what is new in it is judged by its content. The index is brought up to date on the way.
pub fn final_look(before: &Snapshot) -> Findings {
    let since = before.began.since();
    let mut survey = Survey::again(&before.roots, &before.user, &before.user_facts);
    let mut listed = BTreeMap::new();
    for look in &before.looks {
        let known = match &look.index {
            Index::File(file) => file.tree(),
            Index::Memory(tree) => Some(tree.clone()),
        };
        let root = Root { path: &look.path, id: Some(&look.stat.id), state: before.state.as_deref() };
        let changed = root.look(known, since, &mut survey, &mut listed);
        if let (Index::File(file), Some(false)) = (&look.index, changed)
            && let Err(error) = file.confirm()
        {
            not_kept(&look.path, &error);
        }
    }
    let repositories = &before.repositories;
    for git_dir in repositories.git_dirs.values() {
        if let Origin::Entry(dir) = &git_dir.origin {
            survey.work_tree(dir);
        }
    }
    let known = Known {
        git_dirs: repositories.git_dirs.keys().cloned().collect(),
        expected: repositories.expected.keys().cloned().collect(),
        links: repositories.links.keys().cloned().collect(),
        elements: Some(&repositories.elements),
    };
    let mut look = Look::new(&known, &survey, since, listed);
    look.elements();
    look.closed();
    look.links();
    look.names(&before.names, &before.missing);
    look.finish()
}

/// The look that a run that crashed did not make. Only what is new counts: of what was there nothing is known
/// but that it was protected.
pub(super) fn look_after_crash(note: &Note, state: &Path) -> Findings {
    let since = note.since();
    let (roots, user) = (note.roots(), note.user());
    let mut survey = Survey::new(&roots, &user);
    let mut listed = BTreeMap::new();
    for path in roots.outermost() {
        if matches!(Stat::find(path), Ok(Some(stat)) if stat.is_dir()) {
            let known = IndexFile::open(state, path).and_then(|index| index.tree());
            Root { path, id: None, state: Some(state) }.look(known, since, &mut survey, &mut listed);
            survey.work_tree(path);
        }
    }
    let (git_dirs, expected, links) = (note.git_dirs(), note.expected(), note.links());
    let known = Known { git_dirs, expected, links, elements: None };
    let mut look = Look::new(&known, &survey, since, listed);
    look.elements();
    look.closed();
    look.links();
    look.finish()
}

/// A root whose directories are looked at.
struct Root<'a> {
    path: &'a Path,
    /// What it must be, if that is known.
    id: Option<&'a FileId>,
    state: Option<&'a Path>,
}

impl Root<'_> {
    /// Brings the index up to date and surveys the repositories in it. Returns whether the index changed;
    /// `None` if nothing could be looked at.
    fn look(
        &self,
        known: Option<Tree>,
        since: Since,
        survey: &mut Survey<'_>,
        listed: &mut BTreeMap<PathBuf, Listed>,
    ) -> Option<bool> {
        let opened = walk::open_root(self.path).and_then(|fd| Stat::at(&fd, c"").map(|stat| (fd, stat)));
        let fd = match opened {
            Ok((fd, stat)) if self.id.is_none_or(|id| stat.id == *id) => fd,
            Ok(_) => {
                survey.note(format!("{} is another directory than before the run", self.path.display()));
                return None;
            }
            Err(error) => {
                survey.note(format!("cannot look into {}: {error}", self.path.display()));
                return None;
            }
        };
        let scope = Scope { expired: None, since: Some(since), root_only: false };
        let rebuilt = known.is_none();
        let (tree, refreshed) = walk::refresh(fd.as_fd(), known.unwrap_or_else(Tree::unread), scope);
        let summary = summarize(&tree, &refreshed);
        for (dir, mark) in &summary.marked {
            survey_mark(survey, &below(self.path, dir), *mark);
        }
        for note in refreshed.unreadable {
            survey.note(note);
        }
        for directory in refreshed.hidden {
            survey.hidden(below(self.path, &directory));
        }
        for entry in refreshed.listed {
            listed.insert(below(self.path, &entry.dir), entry);
        }
        let changed = refreshed.changed || rebuilt;
        if let Some(state) = self.state.filter(|_| changed)
            && let Err(error) = index::replace(state, self.path, summary, &tree, None)
        {
            not_kept(self.path, &error);
        }
        Some(changed)
    }
}

/// The next search looks at everything again, so that nothing is missed.
fn not_kept(root: &Path, error: &io::Error) {
    tracing::debug!(%error, root = %root.display(), "cannot keep the index of protected paths");
}

/// What was known before the run.
struct Known<'a> {
    git_dirs: BTreeSet<PathBuf>,
    expected: BTreeSet<PathBuf>,
    links: BTreeSet<PathBuf>,
    /// What was protected; `None` if that is not known any more.
    elements: Option<&'a BTreeMap<PathBuf, Element>>,
}

struct Look<'a> {
    known: &'a Known<'a>,
    roots: &'a Roots,
    after: &'a Repositories,
    since: Since,
    /// Directories with repositories that changed, by full path.
    listed: BTreeMap<PathBuf, Listed>,
    /// Directories whose hooks may be copied.
    trusted: BTreeSet<PathBuf>,
    findings: Vec<Finding>,
}

impl<'a> Look<'a> {
    /// Hooks that were there before the run, and that no command could write, are no news in another place: a
    /// new work tree has the same tracked hooks, a new repository those of the user's templates.
    fn new(
        known: &'a Known<'a>,
        survey: &'a Survey<'_>,
        since: Since,
        listed: BTreeMap<PathBuf, Listed>,
    ) -> Self {
        let (after, roots) = (&survey.found, survey.roots());
        let mut trusted: BTreeSet<_> =
            survey.user_facts().template_dirs.iter().map(|dir| dir.join("hooks")).collect();
        let hooks = |element: &Element| matches!(element.role, Role::Hooks | Role::HooksPath);
        let same = |path: &Path, old: &Element| {
            after.elements.get(path).is_some_and(|new| new.stat.id == old.stat.id)
        };
        let elements = known.elements.into_iter().flatten();
        trusted.extend(
            elements.filter(|(path, old)| hooks(old) && same(path, old)).map(|(path, _)| path.clone()),
        );
        Self { known, roots, after, since, listed, trusted, findings: Vec::new() }
    }

    fn finish(self) -> Findings {
        let mut list = self.findings;
        list.sort_by(|a, b| (&a.path, &a.kind).cmp(&(&b.path, &b.kind)));
        list.dedup_by(|a, b| a.path == b.path && a.kind == b.kind);
        Findings { list, incomplete: self.after.notes.iter().cloned().collect(), roots: self.roots.clone() }
    }

    fn find(&mut self, path: &Path, kind: FindingKind) {
        let mut finding = Finding::new(path, kind);
        finding.id = Stat::find(path).ok().flatten().map(|stat| stat.id);
        self.findings.push(finding);
    }

    /// What nobody can look into may hold anything.
    fn elements(&mut self) {
        for directory in &self.after.hidden {
            self.find(directory, FindingKind::Hidden);
        }
        let after = self.after;
        let old = self.known.elements;
        for (path, element) in &after.elements {
            match old.map(|old| old.get(path)) {
                Some(Some(old)) => self.compare(path, old, element),
                Some(None) => self.appeared(path, element),
                // It was there and was protected, unless it was missed then.
                None => {
                    let owner = element.owner.as_deref();
                    if !self.is_known(owner) || self.known.expected.contains(path) {
                        self.appeared(path, element);
                    }
                }
            }
        }
        for path in
            old.into_iter().flat_map(BTreeMap::keys).filter(|path| !after.elements.contains_key(*path))
        {
            self.find(path, FindingKind::LostMount);
        }
    }

    /// New git directories that can't be looked into: whoever opens them up would obey what is in them.
    fn closed(&mut self) {
        let after = self.after;
        for (path, git_dir) in after.git_dirs.iter().filter(|(_, git_dir)| git_dir.closed) {
            if !self.is_known(Some(path)) && self.is_fresh(path, git_dir) {
                self.find(path, FindingKind::Closed);
            }
        }
    }

    fn is_known(&self, owner: Option<&Path>) -> bool {
        owner.is_none_or(|owner| self.known.git_dirs.contains(owner))
    }

    /// Whether a git directory may have come to its place during the run. If so, all of it is new, whatever the
    /// times of its files say; a renamed directory keeps those.
    fn is_fresh(&self, path: &Path, git_dir: &GitDir) -> bool {
        let own = self.since.includes(git_dir.stat.ctime);
        match &git_dir.origin {
            _ if self.is_known(Some(path)) => false,
            Origin::Entry(dir) => match self.listed.get(dir) {
                Some(listed) if path.parent() == Some(dir) => {
                    listed.fresh || (self.since.includes(listed.ctime) && own)
                }
                _ => own,
            },
            Origin::Bare => self.listed.get(path).is_none_or(|listed| {
                let has = |name| Stat::of(&path.join(name)).is_ok_and(|stat| self.since.includes(stat.ctime));
                listed.fresh
                    || listed.news
                    || own && ["HEAD", "objects", "refs", "commondir"].into_iter().any(has)
            }),
            Origin::Inside(outer) => match self.after.git_dirs.get(outer) {
                Some(outer_dir) if !self.is_known(Some(outer)) => {
                    let parent = path.parent().and_then(|dir| Stat::of(dir).ok());
                    let moved = own && parent.is_none_or(|parent| self.since.includes(parent.ctime));
                    moved || self.is_fresh(outer, outer_dir)
                }
                _ => true,
            },
        }
    }

    /// Something that git obeys and that was not there before.
    fn appeared(&mut self, path: &Path, element: &Element) {
        let owner = element.owner.as_deref();
        let known = self.is_known(owner);
        let fresh = known
            || owner
                .and_then(|owner| self.after.git_dirs.get(owner).map(|dir| self.is_fresh(owner, dir)))
                .unwrap_or(true);
        let changed = fresh || self.since.includes(element.stat.ctime);
        match element.role {
            Role::Hooks => self.hooks(path, fresh, |_| true),
            // That another directory is named is the configuration's offence; its files may be anything.
            Role::HooksPath if !known => {}
            Role::HooksPath => self.hooks(path, false, is_hook_name),
            // The target of a hook that led nowhere before; a new link is a hook itself.
            Role::HookTarget if known && self.known.expected.contains(path) => {
                self.find(path, FindingKind::Hook);
            }
            Role::Included if !known => {}
            Role::Config | Role::Included if changed => self.configuration(path, element, None),
            Role::CommonDir if changed && !is_linked_worktree(path) => {
                self.find(path, FindingKind::Redirection)
            }
            Role::GitFile if self.leads_away(element) => self.find(path, FindingKind::Redirection),
            // What a link to a git directory leads to is judged itself; attributes choose among known drivers.
            Role::GitFile
            | Role::Attributes
            | Role::HookTarget
            | Role::Config
            | Role::Included
            | Role::CommonDir => {}
        }
    }

    /// Whether a link to a git directory leads where nothing is judged and yet a box may write: a denied place, such
    /// as Ringfence's home with the private temps and caches, or nobody knows where.
    fn leads_away(&self, element: &Element) -> bool {
        match (&element.owner, &element.content) {
            (Some(target), _) => self.roots.denies(target),
            (None, Content::Pointer(text)) => text.starts_with(b"gitdir:"),
            (None, _) => false,
        }
    }

    /// Something that git obeys and that was protected.
    fn compare(&mut self, path: &Path, old: &Element, new: &Element) {
        if old.stat.id == new.stat.id && old.stat.ctime == new.stat.ctime {
            return;
        }
        let lost = old.stat.id != new.stat.id;
        self.find(path, if lost { FindingKind::LostMount } else { FindingKind::Changed });
        match (old.role, &old.content) {
            (Role::Config | Role::Included, Content::Config(keep)) => {
                self.configuration(path, new, Some(keep))
            }
            (Role::Config | Role::Included, _) if lost => self.configuration(path, new, Some(&[])),
            (Role::GitFile | Role::CommonDir, _) if old.content != new.content => {
                self.find(path, FindingKind::Redirection);
            }
            (Role::Hooks, _) if lost => self.hooks(path, false, |_| true),
            (Role::HooksPath, _) if lost => self.hooks(path, false, is_hook_name),
            _ => {}
        }
    }

    fn configuration(&mut self, path: &Path, element: &Element, keep: Option<&[Executing]>) {
        let Content::Config(executing) = &element.content else {
            return self.find(path, FindingKind::UnreadableConfiguration);
        };
        let kept = keep.unwrap_or_default();
        let new = executing.iter().filter(|variable| !kept.contains(variable));
        let keys: BTreeSet<_> = new.map(|(key, _)| key.escape_ascii().to_string()).collect();
        if keys.is_empty() {
            return;
        }
        self.find(path, FindingKind::Configuration { keys: keys.into_iter().collect() });
        if let Some(finding) = self.findings.last_mut() {
            finding.keep = kept.to_vec();
            // A repository without `config` is none. What was not there before a run is not needed.
            finding.rewrite = keep.is_some()
                || path.file_name() == Some(OsStr::new("config")) && !self.known.expected.contains(path);
        }
    }

    /// Hooks in a directory that are new. Everything counts that is no sample, whether or not git knows its
    /// name or may execute it now.
    fn hooks(&mut self, dir: &Path, all: bool, counts: impl Fn(&OsStr) -> bool) {
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            // git runs a hook by its name, and needs no list for that.
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return self.find(dir, FindingKind::Closed);
            }
            Err(_) => return,
        };
        for entry in entries.flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let stat = match Stat::of(&path) {
                Ok(stat) => stat,
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return self.find(dir, FindingKind::Closed);
                }
                Err(_) => continue,
            };
            let ignored = stat.is_dir()
                || name.as_bytes().ends_with(b".sample")
                || is_quarantined(&name)
                || !counts(&name)
                || !(all || self.since.includes(stat.ctime));
            if !ignored && !self.is_copy(&path, &name, &stat) {
                self.find(&path, FindingKind::Hook);
            }
        }
    }

    /// Whether a hook is the same as one of that name in a trusted directory.
    fn is_copy(&self, path: &Path, name: &OsStr, stat: &Stat) -> bool {
        let same = |dir: &PathBuf| {
            let original = dir.join(name);
            original != path
                && Stat::of(&original)
                    .is_ok_and(|original| original.kind == PathKind::File && original.size == stat.size)
                && read_small(&original)
                    .ok()
                    .flatten()
                    .is_some_and(|text| read_small(path).ok().flatten() == Some(text))
        };
        stat.kind == PathKind::File && self.trusted.iter().any(same)
    }

    fn links(&mut self) {
        for (link, (role, owner)) in &self.after.links {
            if self.known.links.contains(link) {
                continue;
            }
            let leads_away = || {
                let (Some(dir), Some(name)) = (link.parent(), link.file_name()) else { return false };
                follow(dir, Path::new(name)).map_or(true, |target| self.roots.denies(&target.path))
            };
            if matches!(role, None | Some(Role::GitFile)) && leads_away() {
                self.find(link, FindingKind::Link);
                continue;
            }
            // A link on the way to elsewhere is not what git obeys; one in a git directory is.
            let obeyed = matches!(role, Some(Role::Hooks | Role::Config | Role::CommonDir))
                && owner.as_deref().is_some_and(|owner| link.parent() == Some(owner));
            let Some(owner) = owner.as_deref().filter(|_| obeyed) else { continue };
            let fresh = self.after.git_dirs.get(owner).is_none_or(|dir| self.is_fresh(owner, dir));
            let own = Stat::of(link).is_ok_and(|stat| self.since.includes(stat.ctime));
            if fresh || own {
                self.find(link, FindingKind::Link);
            }
        }
        for link in self.known.links.iter().filter(|link| !self.after.links.contains_key(*link)) {
            self.find(link, FindingKind::LostMount);
        }
    }

    fn names(&mut self, names: &[Name], missing: &[PathBuf]) {
        for name in names {
            let now = Stat::find(&name.path).ok().flatten();
            let kind = match (&name.state, now) {
                (NameState::Missing, Some(_)) => Some(FindingKind::NewName),
                (NameState::Tracked, None) => Some(FindingKind::TrackedName),
                (NameState::Tracked, Some(_)) if names::changed(&name.path, self.since) => {
                    Some(FindingKind::TrackedName)
                }
                (NameState::Held(_), None) => Some(FindingKind::LostMount),
                (NameState::Held(old), Some(new)) if old.id != new.id => Some(FindingKind::LostMount),
                (NameState::Link(_), now) if now.as_ref().is_none_or(|now| now.kind != PathKind::Symlink) => {
                    Some(FindingKind::LostMount)
                }
                _ => None,
            };
            if let Some(kind) = kind {
                self.find(&name.path, kind);
            }
            if let NameState::Link(target) = &name.state
                && let Some(old) = target.stat.as_ref().filter(|_| self.roots.reach(&target.path))
                && Stat::find(&target.path).ok().flatten().is_none_or(|new| new.id != old.id)
            {
                self.find(&target.path, FindingKind::LostMount);
            }
        }
        for path in missing {
            if matches!(Stat::find(path), Ok(Some(_))) {
                self.find(path, FindingKind::DeniedAppeared);
            }
        }
    }
}

/// Whether a `commondir` is that of a linked work tree, which leads to the directory that lists it.
fn is_linked_worktree(path: &Path) -> bool {
    let Some(git_dir) = path.parent() else { return false };
    let listed = git_dir.parent().is_some_and(|dir| dir.file_name() == Some(OsStr::new("worktrees")));
    let text = read_small(path).ok().flatten().unwrap_or_default();
    listed && text.trim_ascii() == b"../.."
}
