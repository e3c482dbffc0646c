//! Moving away what a run left behind. Its tree must be dead; other boxes may be alive.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use ringfence_types::PathKind;
use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, RenameFlags, ResolveFlags, Uid, fchmod, fchown, openat, openat2,
    renameat_with, unlinkat,
};
use rustix::io::Errno;

use super::executes::executes;
use super::finding::{Finding, FindingKind, Findings};
use super::gitconfig;
use super::journal::{Bytes, Journal, Move, Names, Rewrite};
use super::look::look_after_crash;
use super::pending::Pending;
use super::repositories::{Executing, read_small};
use super::stat::Stat;
use super::walk::open_root;

/// What a file is called that had to be renamed where it was. Nothing reads such a name.
const PREFIX: &str = ".ringfence-quarantined-";

/// Whether a name is one that a quarantine gave.
pub(super) fn is_quarantined(name: &OsStr) -> bool {
    name.as_bytes().starts_with(PREFIX.as_bytes())
}

/// What a quarantine did.
#[derive(Debug, Default)]
pub struct Quarantined {
    /// What was moved.
    pub moved: Vec<Moved>,
    /// What could not be moved, and is still where it was.
    pub failed: Vec<(PathBuf, QuarantineError)>,
    /// Why a crash in between would not have been cleaned up, if it would not.
    pub unjournaled: Option<QuarantineError>,
}

/// One file that was moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Where it was.
    pub from: PathBuf,
    /// Where it is now.
    pub to: PathBuf,
    /// A copy without what offended is in its place.
    pub rewritten: bool,
    /// What it was.
    pub reason: String,
}

/// Why something was not moved.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "path and source say it")]
pub enum QuarantineError {
    /// It lies below no writable root.
    #[error("{} lies below no writable root", .path.display())]
    Outside { path: PathBuf },
    /// The way to it leads over a symlink or nowhere.
    #[error("cannot reach {} from its root", .path.display())]
    Reach { path: PathBuf, source: io::Error },
    /// It is no longer there.
    #[error("{} is gone", .path.display())]
    Gone { path: PathBuf },
    /// Something else is there now.
    #[error("{} was replaced", .path.display())]
    Replaced { path: PathBuf },
    /// It can't be renamed.
    #[error("cannot move {}", .path.display())]
    Move { path: PathBuf, source: io::Error },
    /// It was moved, and the harmless copy can't be written.
    #[error("cannot write a harmless copy of {}", .path.display())]
    Rewrite { path: PathBuf, source: io::Error },
    /// The journal can't be written or read.
    #[error("cannot keep a journal below {}", .state.display())]
    Journal { state: PathBuf, source: io::Error },
}

/// Moves everything that offends to a new directory below `dir`, the session's quarantine, which must lie
/// outside all writable roots. What lies on another file system is renamed where it is.
///
/// A git configuration leaves a copy behind without the variables that offend, so that its repository still
/// works, unless it can't be understood. `state` is Ringfence's state directory; a journal there lets
/// [`recover`] finish after a crash.
pub fn quarantine(findings: &Findings, dir: &Path, state: &Path) -> Quarantined {
    let mut done = Quarantined::default();
    let offending: Vec<_> = findings.list.iter().filter(|finding| finding.kind.offends()).collect();
    if offending.is_empty() {
        return done;
    }
    // Without a directory everything is renamed where it is: disarmed all the same.
    let target = if findings.roots.reach(dir) { None } else { new_directory(dir).ok() };
    let mut moves = Vec::new();
    for (number, finding) in offending.into_iter().enumerate() {
        match plan(findings, finding, number, target.as_deref()) {
            Ok(planned) => moves.push(planned),
            Err(error) => done.failed.push((finding.path.clone(), error)),
        }
    }
    let journal = match Journal::write(state, &moves) {
        Ok(journal) => Some(journal),
        Err(source) => {
            done.unjournaled = Some(QuarantineError::Journal { state: state.to_path_buf(), source });
            None
        }
    };
    execute(&moves, &mut done);
    if let Some(target) = target {
        keep_list(&target, &moves, &done);
    }
    if let Some(Err(source)) = journal.map(Journal::close) {
        done.unjournaled = Some(QuarantineError::Journal { state: state.to_path_buf(), source });
    }
    done
}

/// Finishes what runs that crashed left undone: looks at what their boxes left, and moves away what they had
/// begun to move. Runs that go on are left alone.
///
/// Nobody knows when a crashed run ended, so that what a person has put into a new repository since then counts
/// as the run's. It is in quarantine, not lost.
///
/// # Errors
/// [`QuarantineError::Journal`] if the state directory can't be read.
pub fn recover(state: &Path) -> Result<Vec<Quarantined>, QuarantineError> {
    let failed = |source| QuarantineError::Journal { state: state.to_path_buf(), source };
    let mut all = Vec::new();
    let names = Names::read(state).map_err(failed)?;
    for (journal, moves) in Journal::left_behind(state, &names).map_err(failed)? {
        let mut done = Quarantined::default();
        execute(&moves, &mut done);
        // What is gone had been moved before the crash.
        let open = |error: &QuarantineError| {
            !matches!(error, QuarantineError::Gone { .. } | QuarantineError::Replaced { .. })
        };
        done.failed.retain(|(_, error)| open(error));
        journal.close().map_err(failed)?;
        all.push(done);
    }
    for (pending, note) in Pending::left_behind(state, &names).map_err(failed)? {
        let findings = look_after_crash(&note, state);
        let done = quarantine(&findings, &note.quarantine(), state);
        if !done.moved.is_empty() || !done.failed.is_empty() {
            all.push(done);
        }
        drop(pending);
    }
    Ok(all)
}

fn new_directory(dir: &Path) -> io::Result<PathBuf> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    for number in 1_u64.. {
        let path = dir.join(number.to_string());
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// A list beside the moved files of where each came from, for whoever looks at them later.
fn keep_list(target: &Path, moves: &[Move], done: &Quarantined) {
    if done.moved.iter().all(|moved| moved.to.parent() != Some(target)) {
        let _ = fs::remove_dir(target);
        return;
    }
    let list = serde_json::to_vec_pretty(moves).unwrap_or_default();
    let file =
        fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(target.join("moved.json"));
    let _ = file.and_then(|mut file| file.write_all(&list));
}

fn plan(
    findings: &Findings,
    finding: &Finding,
    number: usize,
    target: Option<&Path>,
) -> Result<Move, QuarantineError> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let path = &finding.path;
    let outside = || QuarantineError::Outside { path: path.clone() };
    let root = findings.roots.all().iter().find(|root| path.starts_with(root)).ok_or_else(outside)?;
    let parent = path.parent().and_then(|parent| parent.strip_prefix(root).ok()).ok_or_else(outside)?;
    let name = path.file_name().ok_or_else(outside)?;
    let id = finding.id.clone().ok_or_else(|| QuarantineError::Gone { path: path.clone() })?;
    let unique = format!("{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
    let mut new_name = OsString::from(format!("{}-", number + 1));
    new_name.push(name);
    Ok(Move {
        root: root.as_path().into(),
        parent: parent.into(),
        name: name.into(),
        id,
        to: target.map(Bytes::from),
        new_name: new_name.as_os_str().into(),
        rewrite: harmless_copy(finding, &format!(".ringfence-rewrite-{unique}")),
        reason: finding.kind.describe(),
    })
}

/// The configuration without the variables that offend, if that is harmless.
fn harmless_copy(finding: &Finding, temporary: &str) -> Option<Rewrite> {
    let FindingKind::Configuration { keys } = &finding.kind else { return None };
    let stat = Stat::of(&finding.path).ok().filter(|stat| finding.rewrite && stat.kind == PathKind::File)?;
    let text = read_small(&finding.path).ok()??;
    let offends = |variable: &gitconfig::Variable| {
        let kept = |(key, value): &Executing| *key == variable.key && *value == variable.value;
        (executes(variable) || keys.contains(&variable.display())) && !finding.keep.iter().any(kept)
    };
    let text = gitconfig::without(&text, offends).ok()?;
    let harmless = !gitconfig::parse(&text).ok()?.iter().any(offends);
    harmless.then(|| Rewrite {
        text: Bytes(text),
        temporary: Bytes(temporary.as_bytes().to_vec()),
        uid: stat.uid,
        gid: stat.gid,
        mode: stat.mode & 0o777,
    })
}

fn execute(moves: &[Move], done: &mut Quarantined) {
    for planned in moves {
        let from = planned.root.path().join(planned.parent.path()).join(planned.name.path());
        let parent = match open_parent(planned) {
            Ok(parent) => parent,
            Err(source) => {
                done.failed.push((from.clone(), QuarantineError::Reach { path: from, source }));
                continue;
            }
        };
        let moved = move_away(planned, &parent, &from);
        let is_moved = moved.is_ok();
        let was_moved = matches!(moved, Err(QuarantineError::Gone { .. }));
        match moved {
            Ok(to) => done.moved.push(Moved {
                from: from.clone(),
                to,
                rewritten: false,
                reason: planned.reason.clone(),
            }),
            Err(error) => done.failed.push((from.clone(), error)),
        }
        let Some(rewrite) = planned.rewrite.as_ref().filter(|_| is_moved || was_moved) else { continue };
        match put_copy(rewrite, &parent, &planned.name) {
            Ok(()) => {
                if let Some(moved) = done.moved.last_mut().filter(|_| is_moved) {
                    moved.rewritten = true;
                }
            }
            Err(source) => done.failed.push((from.clone(), QuarantineError::Rewrite { path: from, source })),
        }
    }
}

/// The directory of the file, reached from its root over no symlink. On the way may lie what the host has mounted, where
/// no box can mount anything: that the file is the one that was found, on the same file system, is compared next.
fn open_parent(planned: &Move) -> io::Result<OwnedFd> {
    let root = open_root(&planned.root.path())?;
    let parent = if planned.parent.0.is_empty() { PathBuf::from(".") } else { planned.parent.path() };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(root, &parent, flags, Mode::empty(), resolve)?)
}

fn move_away(planned: &Move, parent: &OwnedFd, from: &Path) -> Result<PathBuf, QuarantineError> {
    let failed = |source: io::Error| QuarantineError::Move { path: from.to_path_buf(), source };
    let name = planned.name.path();
    match Stat::at(parent, &name) {
        Ok(stat) if stat.id == planned.id => {}
        Ok(_) => return Err(QuarantineError::Replaced { path: from.to_path_buf() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(QuarantineError::Gone { path: from.to_path_buf() });
        }
        Err(error) => return Err(failed(error)),
    }
    if let Some(target) = &planned.to {
        let target = target.path();
        let new_name = planned.new_name.path();
        if let Ok(dir) = open_root(&target)
            && renameat_with(parent, &name, &dir, &new_name, RenameFlags::NOREPLACE).is_ok()
        {
            disarm(&dir, &new_name);
            let _ = rustix::fs::fsync(parent);
            let _ = File::open(&target).and_then(|dir| dir.sync_all());
            return Ok(target.join(new_name));
        }
    }
    for number in 1..10_000 {
        let new_name = format!("{PREFIX}{number}");
        match renameat_with(parent, &name, parent, &new_name, RenameFlags::NOREPLACE) {
            Ok(()) => {
                let _ = rustix::fs::fsync(parent);
                return Ok(from.with_file_name(new_name));
            }
            Err(Errno::EXIST) => {}
            Err(error) => return Err(failed(error.into())),
        }
    }
    Err(failed(Errno::EXIST.into()))
}

/// Nobody is to run what was moved away by mistake. The file itself only: a symlink or a second name of it leads to
/// something that is not ours.
fn disarm(dir: &OwnedFd, name: &Path) {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = openat(dir, name, flags, Mode::empty()).map(File::from) else { return };
    if file.metadata().is_ok_and(|data| data.is_file() && data.nlink() == 1) {
        let _ = fchmod(file.as_fd(), Mode::RUSR | Mode::WUSR);
    }
}

fn put_copy(rewrite: &Rewrite, parent: &OwnedFd, name: &Bytes) -> io::Result<()> {
    let temporary = rewrite.temporary.path();
    let _ = unlinkat(parent, &temporary, AtFlags::empty());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(parent, &temporary, flags, Mode::RUSR | Mode::WUSR)?);
    let written = file.write_all(&rewrite.text.0).and_then(|()| {
        // Only root can give it away, and only root has to.
        let _ = fchown(file.as_fd(), Some(Uid::from_raw(rewrite.uid)), Some(Gid::from_raw(rewrite.gid)));
        fchmod(file.as_fd(), Mode::from_raw_mode(rewrite.mode))?;
        file.sync_all()?;
        match renameat_with(parent, &temporary, parent, name.path(), RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => unlinkat(parent, &temporary, AtFlags::empty()),
            result => result,
        }?;
        Ok(())
    });
    if written.is_err() {
        let _ = unlinkat(parent, &temporary, AtFlags::empty());
    }
    written
}
