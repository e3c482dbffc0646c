//! What is known of git's directories (gitrepository-layout(5)).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::buffer::spare_capacity;
use rustix::io::retry_on_intr;

use super::links::follow;
use super::stat::Stat;

/// Longest configuration, pointer file or such that is read, in bytes.
pub(super) const MAX_FILE: u64 = 1 << 20;
/// Read at once of a file that turns out to be longer than it said.
const PIECE: usize = 4 << 10;

/// Names that git runs hooks by (githooks(5)). Other files in a directory named by `core.hooksPath` are theirs.
const HOOKS: [&str; 28] = [
    "applypatch-msg",
    "pre-applypatch",
    "post-applypatch",
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-rebase",
    "post-checkout",
    "post-merge",
    "pre-push",
    "pre-receive",
    "update",
    "proc-receive",
    "post-receive",
    "post-update",
    "reference-transaction",
    "push-to-checkout",
    "pre-auto-gc",
    "post-rewrite",
    "sendemail-validate",
    "fsmonitor-watchman",
    "p4-changelist",
    "p4-prepare-changelist",
    "p4-post-changelist",
    "p4-pre-submit",
    "post-index-change",
];

/// What git takes a path for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Role {
    /// `.git` as a file, which names a git directory elsewhere.
    GitFile,
    /// The directory `hooks`.
    Hooks,
    /// The directory that `core.hooksPath` names.
    HooksPath,
    /// What a symlink in one of those leads to.
    HookTarget,
    /// `config`, `config.worktree`.
    Config,
    /// A file that a configuration includes, or one of the user's own configuration.
    Included,
    /// `info/attributes`.
    Attributes,
    /// `commondir`, which names the directory that has hooks and configuration.
    CommonDir,
}

/// A variable that makes something run.
pub(super) type Executing = (Vec<u8>, Option<Vec<u8>>);

/// What a small file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Not looked at.
    Unread,
    /// The file itself, if it is a pointer.
    Pointer(Vec<u8>),
    /// The variables of a configuration that make something run.
    Config(Vec<Executing>),
    /// A configuration that can't be read or understood.
    Unreadable,
}

/// A path that must not change.
#[derive(Clone, Debug)]
pub(super) struct Element {
    pub(super) role: Role,
    /// The git directory it belongs to; `None` for the user's own configuration.
    pub(super) owner: Option<PathBuf>,
    pub(super) stat: Stat,
    pub(super) content: Content,
}

/// A path that would be obeyed if it appeared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) role: Role,
    pub(super) owner: Option<PathBuf>,
}

/// How a git directory was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// As `.git` of this directory, or as what that names.
    Entry(PathBuf),
    /// A directory that git takes for a repository as it stands.
    Bare,
    /// Below `modules` or `worktrees` of this git directory, or as its common directory.
    Inside(PathBuf),
}

#[derive(Clone, Debug)]
pub(super) struct GitDir {
    pub(super) stat: Stat,
    pub(super) origin: Origin,
    /// Whether nobody can tell what is in it, because its permissions don't let us.
    pub(super) closed: bool,
}

/// All that was found, by canonical path.
#[derive(Clone, Debug, Default)]
pub(super) struct Repositories {
    /// Git directories, those outside the roots included.
    pub(super) git_dirs: BTreeMap<PathBuf, GitDir>,
    /// Below the roots.
    pub(super) elements: BTreeMap<PathBuf, Element>,
    /// Below the roots.
    pub(super) expected: BTreeMap<PathBuf, Expected>,
    /// Symlinks below the roots that lead to one of the above, with its role and owner. `None`: `.git` itself.
    pub(super) links: BTreeMap<PathBuf, (Option<Role>, Option<PathBuf>)>,
    /// What could not be looked at.
    pub(super) notes: BTreeSet<String>,
    /// Directories of the caller's that nobody can look into since the run.
    pub(super) hidden: BTreeSet<PathBuf>,
}

/// The content of a regular file of at most [`MAX_FILE`] bytes; `None` for anything else.
pub(super) fn read_small(path: &Path) -> io::Result<Option<Vec<u8>>> {
    // A pipe would block and a device might do anything when opened.
    let flags =
        (rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NOCTTY).bits();
    let file = fs::OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Ok(None);
    }
    let size = metadata.len();
    // One byte of room more than there should be, so that the end is seen without another guess.
    let mut text = Vec::with_capacity(size.min(MAX_FILE) as usize + 1);
    while text.len() as u64 <= MAX_FILE {
        // A file that has no more than it said has been read to its end.
        if retry_on_intr(|| rustix::io::read(&file, spare_capacity(&mut text)))? == 0
            || text.len() as u64 == size
        {
            break;
        }
        text.reserve(PIECE);
    }
    Ok((text.len() as u64 <= MAX_FILE).then_some(text))
}

/// What git asks of a git directory (gitrepository-layout(5)), without reading `HEAD`: its content can change
/// without a trace in the directory.
pub(super) fn looks_like_git_dir(dir: &Path) -> bool {
    let has = |name: &str| matches!(Stat::find(&dir.join(name)), Ok(Some(_)));
    has("HEAD") && (has("objects") && has("refs") || has("commondir"))
}

/// Whether git runs a file of that name among other people's.
pub(super) fn is_hook_name(name: &OsStr) -> bool {
    HOOKS.iter().any(|hook| name == OsStr::new(hook))
}

/// The work tree of `worktrees/NAME`, from its back link.
pub(super) fn linked_work_tree(git_dir: &Path) -> Option<PathBuf> {
    let text = read_small(&git_dir.join("gitdir")).ok()??;
    let target = follow(git_dir, Path::new(OsStr::from_bytes(text.trim_ascii()))).ok()?;
    target.path.parent().map(Path::to_path_buf)
}
