//! What git executes or obeys in the repositories that lie in, or reach into, the writable roots
//! (gitrepository-layout(5)).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use ringfence_types::PathKind;

use super::executes::executes;
use super::gitconfig::{self, Variable};
use super::links::{Target, follow};
use super::repositories::{
    Content, Element, Expected, GitDir, Origin, Repositories, Role, linked_work_tree, looks_like_git_dir,
    read_small,
};
use super::roots::Roots;
use super::settings::UserGit;
use super::stat::{Stat, found};

/// Most git directories that are looked at.
const MAX_GIT_DIRS: usize = 10_000;
/// As git's own limit for nested includes.
const MAX_INCLUDES: usize = 10;

/// The names below a git directory that are looked at, relative to it.
const NAMES: [(Role, &str); 5] = [
    (Role::Hooks, "hooks"),
    (Role::Config, "config"),
    (Role::Config, "config.worktree"),
    (Role::Attributes, "info/attributes"),
    (Role::CommonDir, "commondir"),
];

/// What the configuration of one repository says, its includes taken in.
#[derive(Clone, Debug, Default)]
struct Facts {
    /// With the git directory whose configuration says so; `None` for the user's own.
    hooks_paths: Vec<(Option<PathBuf>, Vec<u8>)>,
    template_dirs: Vec<PathBuf>,
    work_tree: Option<Vec<u8>>,
    sha256: bool,
    /// Files taken in, so that none is twice.
    read: BTreeSet<PathBuf>,
}

pub(super) struct Survey<'a> {
    roots: &'a Roots,
    home: Option<&'a Path>,
    user_facts: UserFacts,
    facts: BTreeMap<PathBuf, Facts>,
    /// Directories whose `.git` was looked at, whether or not there is one.
    looked: BTreeSet<PathBuf>,
    /// Directories whose hooks were looked at, those outside the roots included.
    hook_dirs: BTreeSet<PathBuf>,
    /// Git directory of each work tree that was looked at.
    work_trees: BTreeMap<PathBuf, PathBuf>,
    pub(super) found: Repositories,
}

/// What the user's own configuration says.
#[derive(Clone, Debug, Default)]
pub(super) struct UserFacts {
    /// Values of `core.hooksPath`, in the form of [`Facts`].
    hooks_paths: Vec<(Option<PathBuf>, Vec<u8>)>,
    /// Where new repositories get their first hooks from.
    pub(super) template_dirs: Vec<PathBuf>,
    /// Whether the box can write it.
    in_roots: bool,
}

impl<'a> Survey<'a> {
    /// Starts with the user's own configuration, which may lie in a root (a repository of dot files).
    pub(super) fn new(roots: &'a Roots, user: &'a UserGit) -> Self {
        let mut survey = Self::empty(roots, user, UserFacts::default());
        let mut facts = Facts::default();
        for file in &user.files {
            survey.config(Path::new("/"), file, Role::Included, None, &mut facts, 0);
        }
        let mut template_dirs = vec![PathBuf::from("/usr/share/git-core/templates")];
        template_dirs.extend(facts.template_dirs.into_iter().filter(|dir| !roots.reach(dir)));
        let Repositories { elements, expected, links, .. } = &survey.found;
        let in_roots = !(elements.is_empty() && expected.is_empty() && links.is_empty());
        survey.user_facts = UserFacts { hooks_paths: facts.hooks_paths, template_dirs, in_roots };
        survey
    }

    /// Starts with what another survey of this run has read, unless the box could have changed it since.
    pub(super) fn again(roots: &'a Roots, user: &'a UserGit, facts: &UserFacts) -> Self {
        if facts.in_roots { Self::new(roots, user) } else { Self::empty(roots, user, facts.clone()) }
    }

    fn empty(roots: &'a Roots, user: &'a UserGit, user_facts: UserFacts) -> Self {
        Self {
            roots,
            home: user.home.as_deref(),
            user_facts,
            facts: BTreeMap::new(),
            looked: BTreeSet::new(),
            hook_dirs: BTreeSet::new(),
            work_trees: BTreeMap::new(),
            found: Repositories::default(),
        }
    }

    pub(super) fn roots(&self) -> &'a Roots {
        self.roots
    }

    pub(super) fn user_facts(&self) -> &UserFacts {
        &self.user_facts
    }

    /// Looks at `.git` of a directory, whatever it is.
    pub(super) fn work_tree(&mut self, dir: &Path) {
        if !self.looked.insert(dir.to_path_buf()) {
            return;
        }
        let entry = dir.join(".git");
        let Some(target) = self.follow(dir, Path::new(".git"), None, None) else { return };
        let Some(stat) = target.stat else { return };
        let git_dir = match stat.kind {
            PathKind::Directory => Some(target.path),
            PathKind::File => self.git_file(&entry, &target.path, stat),
            _ => None,
        };
        if let Some(git_dir) = git_dir {
            self.git_dir(&git_dir, Origin::Entry(dir.to_path_buf()));
            self.hooks_paths(&git_dir, dir);
            self.work_trees.insert(dir.to_path_buf(), git_dir);
        }
    }

    /// Looks at a directory that git takes for a repository as it stands.
    pub(super) fn bare(&mut self, dir: &Path) {
        self.git_dir(dir, Origin::Bare);
        self.hooks_paths(dir, dir);
    }

    /// Looks at the repository that encloses `root` from outside, whose settings may lead back in. Returns its
    /// work tree.
    pub(super) fn enclosing(&mut self, root: &Path) -> Option<PathBuf> {
        let found = root.ancestors().find(|dir| {
            self.work_trees.contains_key(*dir) || matches!(Stat::find(&dir.join(".git")), Ok(Some(_)))
        })?;
        self.work_tree(found);
        Some(found.to_path_buf())
    }

    /// Git directory of the work tree `dir`, and the length of its object ids in bytes.
    pub(super) fn repository_of(&self, dir: &Path) -> Option<(&Path, usize)> {
        let git_dir = self.work_trees.get(dir)?;
        let sha256 = self.facts.get(git_dir).is_some_and(|facts| facts.sha256);
        Some((git_dir, if sha256 { 32 } else { 20 }))
    }

    /// `gitdir: PATH` in the file `path`, found at `entry`.
    fn git_file(&mut self, entry: &Path, path: &Path, stat: Stat) -> Option<PathBuf> {
        let text = self.read(path);
        let target = text.as_deref().and_then(|text| {
            let named = text.strip_prefix(b"gitdir:")?.trim_ascii();
            follow(entry.parent()?, Path::new(OsStr::from_bytes(named))).ok()
        });
        let owner = target.as_ref().map(|target| target.path.clone());
        let content = text.map_or(Content::Unreadable, Content::Pointer);
        self.element(path.to_path_buf(), Role::GitFile, owner, stat, content);
        let target = target?;
        self.links(&target, Role::GitFile, Some(&target.path));
        target.stat.is_some_and(|stat| stat.is_dir()).then_some(target.path)
    }

    fn git_dir(&mut self, path: &Path, origin: Origin) {
        if self.found.git_dirs.contains_key(path) {
            return;
        }
        if self.found.git_dirs.len() == MAX_GIT_DIRS {
            self.note(format!("more than {MAX_GIT_DIRS} git directories"));
            return;
        }
        let stat = match Stat::find(path) {
            Ok(Some(stat)) if stat.is_dir() => stat,
            Ok(_) => return,
            Err(error) => return self.unreadable(path, &error),
        };
        let closed = matches!(Stat::find(&path.join("HEAD")), Err(error) if error.kind() == io::ErrorKind::PermissionDenied);
        self.found.git_dirs.insert(path.to_path_buf(), GitDir { stat, origin, closed });
        let mut facts = Facts::default();
        for (role, name) in NAMES {
            match role {
                Role::Config => self.config(path, Path::new(name), role, Some(path), &mut facts, 0),
                Role::CommonDir => self.common_dir(path, &mut facts),
                // Outside the roots as well: its hooks may lead into them.
                _ => self.name(path, role, Path::new(name), Some(path)),
            }
        }
        self.facts.insert(path.to_path_buf(), facts.clone());
        if let Some(work_tree) = facts.work_tree
            && let Ok(target) = follow(path, Path::new(OsStr::from_bytes(&work_tree)))
        {
            self.hooks_paths(path, &target.path);
        }
        if self.roots.reach(path) {
            self.modules(path, &path.join("modules"), 0);
            self.worktrees(path);
        }
    }

    /// A name that is protected if it exists and expected if it doesn't.
    fn name(&mut self, base: &Path, role: Role, name: &Path, owner: Option<&Path>) {
        let Some(target) = self.follow(base, name, Some(role), owner) else { return };
        let path = target.path;
        let Some(stat) = target.stat else {
            return self.expect(path, role, owner.map(Path::to_path_buf));
        };
        let is_dir = stat.is_dir();
        if is_dir && role == Role::HookTarget {
            return;
        }
        self.element(path.clone(), role, owner.map(Path::to_path_buf), stat, Content::Unread);
        if is_dir && matches!(role, Role::Hooks | Role::HooksPath) && self.hook_dirs.insert(path.clone()) {
            self.hook_targets(&path, owner);
        }
    }

    fn common_dir(&mut self, git_dir: &Path, facts: &mut Facts) {
        let name = Path::new("commondir");
        let Some(target) = self.follow(git_dir, name, Some(Role::CommonDir), Some(git_dir)) else { return };
        let owner = Some(git_dir.to_path_buf());
        let Some(stat) = target.stat else {
            return self.expect(target.path, Role::CommonDir, owner);
        };
        let Some(text) = self.read(&target.path) else {
            self.element(target.path, Role::CommonDir, owner, stat, Content::Unreadable);
            return;
        };
        let named = text.trim_ascii().to_vec();
        self.element(target.path, Role::CommonDir, owner, stat, Content::Pointer(text));
        if let Ok(common) = follow(git_dir, Path::new(OsStr::from_bytes(&named)))
            && common.stat.as_ref().is_some_and(Stat::is_dir)
        {
            self.links(&common, Role::CommonDir, Some(git_dir));
            self.git_dir(&common.path, Origin::Inside(git_dir.to_path_buf()));
            if let Some(common) = self.facts.get(&common.path) {
                facts.hooks_paths.extend(common.hooks_paths.iter().cloned());
                facts.sha256 |= common.sha256;
            }
        }
    }

    /// Git directories of submodules, whose names may have several components.
    fn modules(&mut self, git_dir: &Path, dir: &Path, depth: usize) {
        for child in self.children(dir) {
            if looks_like_git_dir(&child) {
                self.git_dir(&child, Origin::Inside(git_dir.to_path_buf()));
            } else if depth < 16 {
                self.modules(git_dir, &child, depth + 1);
            } else {
                self.note(format!("submodules nested too deeply below {}", dir.display()));
            }
        }
    }

    fn worktrees(&mut self, git_dir: &Path) {
        for child in self.children(&git_dir.join("worktrees")) {
            self.git_dir(&child, Origin::Inside(git_dir.to_path_buf()));
            if let Some(work_tree) = linked_work_tree(&child) {
                self.hooks_paths(&child, &work_tree);
            }
        }
    }

    /// Directories below `dir`, in order; none if there is no such directory.
    fn children(&mut self, dir: &Path) -> Vec<PathBuf> {
        let entries = match found(fs::read_dir(dir)) {
            Ok(Some(entries)) => entries,
            Ok(None) => return Vec::new(),
            Err(error) => {
                self.unreadable(dir, &error);
                return Vec::new();
            }
        };
        let is_dir = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        let mut children: Vec<_> = entries.flatten().filter(is_dir).map(|entry| entry.path()).collect();
        children.sort();
        children
    }

    /// The directories that `core.hooksPath` means for one work tree.
    fn hooks_paths(&mut self, git_dir: &Path, work_tree: &Path) {
        let own = self.facts.get(git_dir).map(|facts| facts.hooks_paths.clone()).unwrap_or_default();
        for (owner, value) in own.iter().chain(&self.user_facts.hooks_paths.clone()) {
            if let Some(path) = self.expand(value) {
                self.name(work_tree, Role::HooksPath, &path, owner.as_deref());
            }
        }
    }

    /// Hooks that are symlinks to files which the box could write.
    fn hook_targets(&mut self, dir: &Path, owner: Option<&Path>) {
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) => return self.unreadable(dir, &error),
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            if is_link && !name.as_bytes().ends_with(b".sample") {
                self.name(dir, Role::HookTarget, Path::new(&name), owner);
            }
        }
    }

    /// Reads a configuration and what it includes, whatever the conditions of its includes are.
    fn config(
        &mut self,
        base: &Path,
        name: &Path,
        role: Role,
        owner: Option<&Path>,
        facts: &mut Facts,
        depth: usize,
    ) {
        let Some(target) = self.follow(base, name, Some(role), owner) else { return };
        let path = target.path;
        let own = || owner.map(Path::to_path_buf);
        let Some(stat) = target.stat else { return self.expect(path, role, own()) };
        if !facts.read.insert(path.clone()) {
            return;
        }
        let variables = match stat.kind {
            PathKind::File => self.read(&path).and_then(|text| gitconfig::parse(&text).ok()),
            _ => None,
        };
        let Some(variables) = variables else {
            self.element(path, role, own(), stat, Content::Unreadable);
            return;
        };
        let executing = variables
            .iter()
            .filter(|variable| executes(variable) || self.leads_out(variable, owner))
            .map(|variable| (variable.key.clone(), variable.value.clone()))
            .collect();
        self.element(path.clone(), role, own(), stat, Content::Config(executing));
        let mut includes = Vec::new();
        for variable in &variables {
            let Some(value) = variable.value.as_deref().filter(|value| !value.is_empty()) else { continue };
            match (variable.section(), variable.name()) {
                (b"core", b"hookspath") => facts.hooks_paths.push((own(), value.to_vec())),
                (b"init", b"templatedir") => facts.template_dirs.extend(self.expand(value)),
                (b"core", b"worktree") => facts.work_tree = Some(value.to_vec()),
                (b"extensions", b"objectformat") => facts.sha256 = value == b"sha256",
                (b"include" | b"includeif", b"path") => includes.extend(self.expand(value)),
                _ => {}
            }
        }
        if depth == MAX_INCLUDES && !includes.is_empty() {
            return self.note(format!("includes nested too deeply in {}", path.display()));
        }
        for include in includes {
            let base = path.parent().unwrap_or(Path::new("/"));
            self.config(base, &include, Role::Included, owner, facts, depth + 1);
        }
    }

    /// `core.worktree` outside all roots: a checkout there would write what the box may not.
    fn leads_out(&self, variable: &Variable, owner: Option<&Path>) -> bool {
        let (Some(value), Some(owner)) = (&variable.value, owner) else { return false };
        variable.key == b"core.worktree"
            && !follow(owner, Path::new(OsStr::from_bytes(value)))
                .is_ok_and(|target| self.roots.reach(&target.path))
    }

    /// A path as git's configuration writes it; `None` if it means nobody's file here.
    fn expand(&self, value: &[u8]) -> Option<PathBuf> {
        let path = Path::new(OsStr::from_bytes(value));
        if let Ok(rest) = path.strip_prefix("~") {
            return self.home.map(|home| home.join(rest));
        }
        let foreign = value.is_empty() || value.starts_with(b"~") || value.starts_with(b"%(prefix)");
        (!foreign).then(|| path.to_path_buf())
    }

    /// Follows a path and keeps the links on the way.
    fn follow(
        &mut self,
        base: &Path,
        name: &Path,
        role: Option<Role>,
        owner: Option<&Path>,
    ) -> Option<Target> {
        match follow(base, name) {
            Ok(target) => {
                for link in target.links.iter().filter(|link| self.roots.reach(link)) {
                    self.found.links.insert(link.clone(), (role, owner.map(Path::to_path_buf)));
                }
                Some(target)
            }
            Err(error) => {
                self.unreadable(&base.join(name), &error);
                None
            }
        }
    }

    fn links(&mut self, target: &Target, role: Role, owner: Option<&Path>) {
        for link in target.links.iter().filter(|link| self.roots.reach(link)) {
            self.found.links.insert(link.clone(), (Some(role), owner.map(Path::to_path_buf)));
        }
    }

    /// Adds a path that must not change, if it lies below the roots.
    fn element(&mut self, path: PathBuf, role: Role, owner: Option<PathBuf>, stat: Stat, content: Content) {
        if self.roots.reach(&path)
            && let Entry::Vacant(entry) = self.found.elements.entry(path)
        {
            entry.insert(Element { role, owner, stat, content });
        }
    }

    fn expect(&mut self, path: PathBuf, role: Role, owner: Option<PathBuf>) {
        if self.roots.reach(&path) {
            self.found.expected.entry(path).or_insert(Expected { role, owner });
        }
    }

    /// The bytes of a small regular file.
    fn read(&mut self, path: &Path) -> Option<Vec<u8>> {
        match read_small(path) {
            Ok(text) => text,
            Err(error) => {
                self.unreadable(path, &error);
                None
            }
        }
    }

    /// What can't be read matters only if the box could make it readable: it has the caller's identity.
    fn unreadable(&mut self, path: &Path, error: &io::Error) {
        if self.roots.reach(path) && error.kind() != io::ErrorKind::NotFound {
            self.note(format!("cannot look at {}: {error}", path.display()));
        }
    }

    pub(super) fn hidden(&mut self, directory: PathBuf) {
        self.found.hidden.insert(directory);
    }

    pub(super) fn note(&mut self, note: String) {
        self.found.notes.insert(note);
    }
}
