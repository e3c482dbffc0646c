//! From what was found to what has to be mounted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ringfence_types::{PathKind, Protected, ResolvedPath};

use super::names::{Name, NameState};
use super::repositories::Repositories;
use super::roots::Roots;
use super::settings::GitProtection;
use super::stat::Stat;

/// Collects what is read-only and what must stay where it is.
///
/// Both lists have parents before children and no path twice. A directory is pinned if it lies between a root
/// and a protected or denied path: otherwise it could be renamed, and another one put in its place.
pub(super) fn collect(
    roots: &Roots,
    repositories: &Repositories,
    names: &[Name],
    deny: &[ResolvedPath],
    git: GitProtection,
) -> Protected {
    let mut collector = Collector {
        roots,
        read_only: BTreeMap::new(),
        links: BTreeSet::new(),
        notes: repositories.notes.clone(),
    };
    for (path, element) in &repositories.elements {
        // An attributes file may lie in a directory of its own, a hook directory may be any.
        collector.read_only(path, &element.stat);
    }
    if git == GitProtection::All {
        for (path, git_dir) in repositories.git_dirs.iter().filter(|(path, _)| roots.reach(path)) {
            collector.read_only(path, &git_dir.stat);
        }
    }
    collector.links.extend(repositories.links.keys().cloned());
    for name in names {
        match &name.state {
            NameState::Held(stat) => collector.read_only(&name.path, stat),
            NameState::Link(target) => {
                collector.links.extend(target.links.iter().filter(|link| roots.reach(link)).cloned());
                if let Some(stat) = target.stat.as_ref().filter(|_| roots.reach(&target.path)) {
                    collector.read_only(&target.path, stat);
                }
            }
            NameState::Missing | NameState::Tracked => {}
        }
    }
    collector.finish(repositories, deny)
}

struct Collector<'a> {
    roots: &'a Roots,
    read_only: BTreeMap<PathBuf, ResolvedPath>,
    links: BTreeSet<PathBuf>,
    notes: BTreeSet<String>,
}

impl Collector<'_> {
    fn read_only(&mut self, path: &Path, stat: &Stat) {
        if self.roots.holds_root(path) {
            self.notes.insert(format!("{} holds a writable root and can't be read-only", path.display()));
        } else {
            self.read_only.insert(path.to_path_buf(), stat.resolved(path));
        }
    }

    fn finish(mut self, repositories: &Repositories, deny: &[ResolvedPath]) -> Protected {
        self.drop_covered();
        let mut pins = BTreeSet::new();
        let git_dirs = repositories.git_dirs.iter().filter(|(path, _)| self.roots.reach(path));
        let protected = self.read_only.keys().chain(&self.links).map(PathBuf::as_path);
        let denied = deny.iter().map(|path| path.path.as_path());
        for path in protected.chain(denied).chain(git_dirs.clone().map(|(path, _)| path.as_path())) {
            pins.extend(self.roots.between(path).into_iter().map(Path::to_path_buf));
        }
        pins.extend(git_dirs.map(|(path, _)| path.clone()).filter(|path| !self.roots.is_root(path)));
        pins.extend(self.links.iter().cloned());
        let denied = |path: &Path| !self.roots.reach(path);
        let covered = |path: &Path| path.ancestors().any(|ancestor| self.read_only.contains_key(ancestor));
        let mut resolved = Vec::new();
        for pin in pins.iter().filter(|pin| !covered(pin) && !denied(pin)) {
            // A known git directory was looked at already.
            let known = repositories.git_dirs.get(pin).map(|git_dir| git_dir.stat.clone());
            match known.map_or_else(|| Stat::find(pin), |stat| Ok(Some(stat))) {
                Ok(Some(stat)) if matches!(stat.kind, PathKind::Directory | PathKind::Symlink) => {
                    resolved.push(stat.resolved(pin));
                }
                // What lies above a missing denied path is missing too.
                Ok(_) => {}
                Err(error) => {
                    self.notes.insert(format!("cannot look at {}: {error}", pin.display()));
                }
            }
        }
        Protected {
            read_only: self.read_only.into_values().collect(),
            pins: resolved,
            incomplete: (!self.notes.is_empty())
                .then(|| self.notes.into_iter().collect::<Vec<_>>().join("; ")),
        }
    }

    /// Takes out what lies in a read-only directory already, on whose mount nothing can change.
    fn drop_covered(&mut self) {
        let dirs: BTreeSet<PathBuf> = self
            .read_only
            .iter()
            .filter(|(_, path)| path.kind == PathKind::Directory)
            .map(|(path, _)| path.clone())
            .collect();
        let covered = |path: &Path| path.ancestors().skip(1).any(|ancestor| dirs.contains(ancestor));
        self.read_only.retain(|path, _| !covered(path));
        self.links.retain(|path| !covered(path));
    }
}
