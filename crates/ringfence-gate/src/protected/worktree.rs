//! What git needs of a linked work tree whose repository lies outside the writable roots.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::links::follow;
use super::repositories::{linked_work_tree, looks_like_git_dir, read_small};
use super::stat::Stat;

/// The common git directory of the linked work tree `root` (git-worktree(1)), to be granted as a writable root.
///
/// Empty unless `root/.git` is a file of the caller's that names `COMMON/worktrees/NAME`, `gitdir` there leads
/// back to it, `commondir` there leads to `COMMON`, and the caller owns both directories. Without the way back
/// anybody who can write `.git` could have any repository granted. `root` is canonical.
pub fn common_dir_grants(root: &Path) -> Vec<PathBuf> {
    common_dir(root).into_iter().filter(|common| !common.starts_with(root)).collect()
}

fn common_dir(root: &Path) -> Option<PathBuf> {
    let entry = root.join(".git");
    let uid = rustix::process::geteuid().as_raw();
    let owned = |path: &Path| Stat::of(path).is_ok_and(|stat| stat.uid == uid);
    let text = read_small(&entry).ok()??;
    let named = text.strip_prefix(b"gitdir:")?.trim_ascii();
    let git_dir = follow(root, Path::new(OsStr::from_bytes(named))).ok()?;
    let is_listed = git_dir.path.parent()?.file_name() == Some(OsStr::new("worktrees"));
    let text = read_small(&git_dir.path.join("commondir")).ok()??;
    let common = follow(&git_dir.path, Path::new(OsStr::from_bytes(text.trim_ascii()))).ok()?.path;
    let proven = is_listed
        && git_dir.path.parent()?.parent()? == common
        && linked_work_tree(&git_dir.path)? == root
        && owned(&entry)
        && owned(&git_dir.path)
        && owned(&common)
        && looks_like_git_dir(&common);
    proven.then_some(common)
}

/// The git directory that holds `path`, which lies below the canonical `root`: a working directory in it is
/// refused, since everything in it is git's own. `path` is canonical.
pub fn enclosing_git_dir(root: &Path, path: &Path) -> Option<PathBuf> {
    let below = |dir: &&Path| dir.starts_with(root);
    let is_git_dir = |dir: &&Path| dir.file_name() == Some(OsStr::new(".git")) || looks_like_git_dir(dir);
    path.ancestors().take_while(below).filter(|dir| *dir != root).find(is_git_dir).map(Path::to_path_buf)
}

/// The git directory that the canonical `path` is or lies in. A bare repository as such is none: it is a root of
/// its own, with what git obeys in it protected like anywhere.
pub fn git_dir_around(path: &Path) -> Option<PathBuf> {
    let is_git_dir = |dir: &&Path| {
        dir.file_name() == Some(OsStr::new(".git")) || (*dir != path && looks_like_git_dir(dir))
    };
    path.ancestors().find(is_git_dir).map(Path::to_path_buf)
}
