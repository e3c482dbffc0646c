//! What a quarantine is about to do, on disk before it does it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ringfence_types::FileId;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, RawDir, flock, openat};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::files;

/// One file to be moved away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Move {
    /// Writable root, the anchor of the way to the file.
    pub(super) root: Bytes,
    /// Directory of the file, relative to the root.
    pub(super) parent: Bytes,
    /// Name of the file.
    pub(super) name: Bytes,
    /// What the file must be.
    pub(super) id: FileId,
    /// Directory that it is moved to; `None`: renamed where it is.
    pub(super) to: Option<Bytes>,
    /// Name that it gets.
    pub(super) new_name: Bytes,
    /// What is put in its place, with owner, group and mode.
    pub(super) rewrite: Option<Rewrite>,
    /// Why, for the report.
    pub(super) reason: String,
}

/// A harmless copy of a file that is moved away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Rewrite {
    pub(super) text: Bytes,
    /// Name under which it is written before it is put in its place.
    pub(super) temporary: Bytes,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mode: u32,
}

/// Bytes in JSON: text, or hex where they are not UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Spelling", into = "Spelling")]
pub(super) struct Bytes(pub(super) Vec<u8>);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Spelling {
    Text(String),
    Hex { hex: String },
}

impl From<Bytes> for Spelling {
    fn from(Bytes(bytes): Bytes) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::Text(text),
            Err(error) => {
                let hex = error.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
                Self::Hex { hex }
            }
        }
    }
}

impl From<Spelling> for Bytes {
    fn from(spelling: Spelling) -> Self {
        Self(match spelling {
            Spelling::Text(text) => text.into_bytes(),
            Spelling::Hex { hex } => hex
                .as_bytes()
                .chunks(2)
                .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
                .collect(),
        })
    }
}

impl From<&OsStr> for Bytes {
    fn from(text: &OsStr) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<&Path> for Bytes {
    fn from(path: &Path) -> Self {
        path.as_os_str().into()
    }
}

impl Bytes {
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(OsString::from_vec(self.0.clone()))
    }
}

/// Creates an empty file of this process, locked. What is written to it counts once it is complete.
pub(super) fn create(state: &Path, kind: &str) -> io::Result<(PathBuf, File)> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let dir = state.join("journals");
    loop {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = dir.join(format!("{kind}-{}-{number}.json", std::process::id()));
        let file = match files::private_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                files::private_directory(&dir)?;
                files::private_file(&path)
            }
            result => result,
        };
        match file {
            Ok(file) => {
                if let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
                    let _ = fs::remove_file(&path);
                    return Err(error.into());
                }
                return Ok((path, file));
            }
            // Of a process with our number that is no more, and that nobody has cleaned up after yet.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// Names of the files of runs that are under way or were left behind.
pub(super) struct Names(Vec<OsString>);

impl Names {
    pub(super) fn read(state: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = match openat(CWD, state.join("journals"), flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(Self(Vec::new())),
            result => result?,
        };
        let mut buffer = [MaybeUninit::uninit(); 2 << 10];
        let mut entries = RawDir::new(directory, &mut buffer);
        let mut names = Vec::new();
        while let Some(entry) = entries.next() {
            names.push(OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned());
        }
        Ok(Self(names))
    }
}

/// Files of that kind whose processes are no more, locked and with their content. What was not complete when its
/// process died is removed: nothing had been begun.
pub(super) fn left_behind<T: DeserializeOwned>(
    state: &Path,
    names: &Names,
    kind: &str,
) -> io::Result<Vec<(PathBuf, File, T)>> {
    let mut left = Vec::new();
    for name in &names.0 {
        let path = state.join("journals").join(name);
        let name = name.as_bytes();
        let pid = name
            .strip_prefix(kind.as_bytes())
            .and_then(|rest| rest.strip_prefix(b"-"))
            .and_then(|rest| rest.strip_suffix(b".json"))
            .and_then(|rest| std::str::from_utf8(rest.split(|&byte| byte == b'-').next()?).ok());
        let Some(pid) = pid else { continue };
        let mut file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            // Left by another user, such as root after `sudo -E`: that user's next start looks.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && is_foreign(&path) => {
                tracing::warn!(path = %path.display(), "a note of another user's run is left to that user");
                continue;
            }
            result => result?,
        };
        if !lock(&file, pid) || !path.exists() {
            continue;
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        match serde_json::from_slice(&text) {
            Ok(content) => left.push((path, file, content)),
            // Its process may be about to lock and to write it.
            Err(_) if is_alive(pid) => {}
            Err(_) => fs::remove_file(&path)?,
        }
    }
    Ok(left)
}

/// Locks a file unless a process holds it. If its own process is dead, what is left of its box may still hold a copy:
/// that is waited for. A box that has no copy dies at once and yet not in no time; what it writes until then is missed.
fn lock(file: &File, pid: &str) -> bool {
    for _ in 0..200 {
        if flock(file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return true;
        }
        if is_alive(pid) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

fn is_foreign(path: &Path) -> bool {
    let caller = rustix::process::geteuid().as_raw();
    path.symlink_metadata().is_ok_and(|metadata| metadata.uid() != caller)
}

fn is_alive(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

/// A journal whose file is locked, so that the start of another run leaves it alone.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    _lock: File,
}

impl Journal {
    /// Writes the moves down and waits until they are on disk.
    pub(super) fn write(state: &Path, moves: &[Move]) -> io::Result<Self> {
        let text = serde_json::to_vec_pretty(moves)?;
        let (path, mut file) = create(state, "quarantine")?;
        let written = file
            .write_all(&text)
            .and_then(|()| file.sync_all())
            .and_then(|()| File::open(state.join("journals"))?.sync_all());
        if let Err(error) = written {
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        Ok(Self { path, _lock: file })
    }

    /// Journals of runs that are no more.
    pub(super) fn left_behind(state: &Path, names: &Names) -> io::Result<Vec<(Self, Vec<Move>)>> {
        let left = left_behind(state, names, "quarantine")?.into_iter();
        Ok(left.map(|(path, file, moves)| (Self { path, _lock: file }, moves)).collect())
    }

    /// Says that everything is done.
    pub(super) fn close(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Move {
        Move {
            root: Bytes(b"/r\xff".to_vec()),
            parent: Bytes(b"a\nb".to_vec()),
            name: Bytes(b"hooks".to_vec()),
            id: FileId { dev: 1, ino: u64::MAX, birth: Some(-5), handle: None },
            to: None,
            new_name: Bytes(b"x".to_vec()),
            rewrite: Some(Rewrite {
                text: Bytes(b"[core]\n\xfe".to_vec()),
                temporary: Bytes(b"t".to_vec()),
                uid: 1,
                gid: 2,
                mode: 0o644,
            }),
            reason: "why".into(),
        }
    }

    #[test]
    fn a_journal_outlives_its_run_and_not_its_end() {
        let state = tempfile::tempdir().unwrap();
        let left_behind = || Journal::left_behind(state.path(), &Names::read(state.path()).unwrap()).unwrap();
        assert!(left_behind().is_empty());
        let journal = Journal::write(state.path(), &[sample()]).unwrap();
        assert!(left_behind().is_empty(), "its run goes on");
        drop(journal);
        let mut left = left_behind();
        let (journal, moves) = left.pop().unwrap();
        assert_eq!(moves, [sample()]);
        journal.close().unwrap();
        assert!(left_behind().is_empty());
        assert_eq!(fs::read_dir(state.path().join("journals")).unwrap().count(), 0);
    }
}
