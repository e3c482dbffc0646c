//! Names directly below a writable root that programs outside obey, other than git.

use std::path::{Path, PathBuf};

use ringfence_types::PathKind;

use super::gitindex;
use super::links::{Target, follow};
use super::roots::Roots;
use super::stat::{Since, Stat};
use super::survey::Survey;

/// Most entries of a tracked directory that are looked at for changes.
const MAX_ENTRIES: usize = 10_000;

/// What the next run obeys.
const OWN: [&str; 2] = [".ringfence", ".ringfence.toml"];

/// One name of one root.
#[derive(Clone, Debug)]
pub(super) struct Name {
    pub(super) path: PathBuf,
    pub(super) state: NameState,
}

#[derive(Clone, Debug)]
pub(super) enum NameState {
    /// Not there.
    Missing,
    /// There, and tracked by git: a branch switch must be able to write it.
    Tracked,
    /// There, and read-only.
    Held(Stat),
    /// A symlink, and where it leads.
    Link(Target),
}

/// Looks at the configured names of each root.
pub(super) fn look(roots: &Roots, names: &[PathBuf], survey: &mut Survey<'_>) -> Vec<Name> {
    let mut all = Vec::new();
    for root in roots.all() {
        if !matches!(Stat::find(root), Ok(Some(stat)) if stat.is_dir()) {
            continue;
        }
        let mut present = Vec::new();
        for name in names {
            let path = root.join(name);
            // A name is one component; anything else would reach out of the root.
            if name.components().count() != 1 || path.parent() != Some(root) || !roots.reach(&path) {
                continue;
            }
            match Stat::find(&path) {
                Ok(None) => all.push(Name { path, state: NameState::Missing }),
                Ok(Some(stat)) => present.push((name.clone(), path, stat)),
                Err(error) => survey.note(format!("cannot look at {}: {error}", path.display())),
            }
        }
        if present.is_empty() {
            continue;
        }
        let tracked = tracked(root, &present, survey);
        for ((name, path, stat), tracked) in present.into_iter().zip(tracked) {
            let state = match stat.kind {
                // What is tracked is said by an index that the box writes: not to be relied on for our own.
                _ if tracked && !OWN.iter().any(|own| name.as_path() == Path::new(own)) => NameState::Tracked,
                PathKind::Symlink => match follow(root, &name) {
                    Ok(target) => NameState::Link(target),
                    Err(_) => NameState::Held(stat),
                },
                _ => NameState::Held(stat),
            };
            all.push(Name { path, state });
        }
    }
    all
}

/// Whether git tracks each of the names. Without an index that can be read nothing is tracked, so that all of
/// them are protected.
fn tracked(root: &Path, present: &[(PathBuf, PathBuf, Stat)], survey: &mut Survey<'_>) -> Vec<bool> {
    let untracked = vec![false; present.len()];
    let Some(work_tree) = survey.enclosing(root) else { return untracked };
    let Ok(prefix) = root.strip_prefix(&work_tree) else { return untracked };
    let Some((git_dir, hash_len)) = survey.repository_of(&work_tree) else { return untracked };
    let index = git_dir.join("index");
    if !matches!(Stat::find(&index), Ok(Some(_))) {
        return untracked;
    }
    let names: Vec<_> = present.iter().map(|(name, ..)| name.clone()).collect();
    match gitindex::tracked(&index, hash_len, prefix, &names) {
        Ok(tracked) => tracked,
        Err(error) => {
            survey.note(error.to_string());
            untracked
        }
    }
}

/// Whether anything at or below `path` changed since the bound.
pub(super) fn changed(path: &Path, since: Since) -> bool {
    let mut pending = vec![path.to_path_buf()];
    let mut seen = 0;
    while let Some(path) = pending.pop() {
        seen += 1;
        let Ok(stat) = Stat::of(&path) else { continue };
        if since.includes(stat.ctime) || seen > MAX_ENTRIES {
            return true;
        }
        if stat.is_dir() {
            pending.extend(path.read_dir().into_iter().flatten().flatten().map(|entry| entry.path()));
        }
    }
    false
}
