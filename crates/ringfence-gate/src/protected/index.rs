//! The index of a root's directories: which there are, what each looked like, and which hold a repository.
//!
//! One file per root in `protected/` of the state directory. It starts with what every run needs, so that the
//! rest, whose size grows with the workspace, is read only if something has to be looked at again. The file is
//! replaced, never changed; its modification time says when the last complete look ended. A run keeps the file
//! open that it started with, whatever other runs put in its place.

use std::ffi::{CStr, OsStr};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use crate::files;

const MAGIC: &[u8; 8] = b"rfindex1";
/// Bytes read at once for the part that every run needs.
const HEAD: usize = 1 << 14;

/// What a directory looked like when its entries were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) ino: u64,
    /// Status change in nanoseconds since the epoch, or one of the marks below, which no directory has.
    pub(super) ctime: i64,
}

impl Stamp {
    /// The entries were never read.
    pub(super) const UNREAD: i64 = 0;
    /// The entries were read within the clock's grain of a change, and another change may have gone unseen.
    pub(super) const RACY: i64 = -1;
}

/// One directory, relative to the root.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    start: u32,
    len: u32,
    pub(super) stamp: Stamp,
    pub(super) mark: Mark,
}

/// What of a repository a directory holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// An entry named `.git`.
    pub(super) entry: bool,
    /// What makes the directory itself a git directory.
    pub(super) bare: bool,
}

impl Mark {
    pub(super) fn any(self) -> bool {
        self.entry || self.bare
    }

    fn to_byte(self) -> u8 {
        u8::from(self.entry) | u8::from(self.bare) << 1
    }

    fn from_byte(byte: u8) -> Self {
        Self { entry: byte & 1 != 0, bare: byte & 2 != 0 }
    }
}

/// The directories of one root. Paths are NUL-terminated in one buffer, ready for system calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    paths: Vec<u8>,
    pub(super) nodes: Vec<Node>,
}

impl Tree {
    /// A tree of which only the root is known, unread.
    pub(super) fn unread() -> Self {
        let mut tree = Self::default();
        tree.push(b".", Stamp::default(), Mark::default());
        tree
    }

    pub(super) fn push(&mut self, path: &[u8], stamp: Stamp, mark: Mark) -> usize {
        let start = self.paths.len() as u32;
        self.paths.extend_from_slice(path);
        self.paths.push(0);
        self.nodes.push(Node { start, len: path.len() as u32, stamp, mark });
        self.nodes.len() - 1
    }

    pub(super) fn path(&self, node: &Node) -> &[u8] {
        &self.paths[node.start as usize..][..node.len as usize]
    }

    pub(super) fn c_path(&self, node: &Node) -> &CStr {
        let bytes = &self.paths[node.start as usize..][..node.len as usize + 1];
        // Every path is pushed with one NUL behind it; `decode` refuses others.
        CStr::from_bytes_with_nul(bytes).unwrap_or(c".")
    }
}

/// What every run needs to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Summary {
    /// Whether every directory was read.
    pub(super) complete: bool,
    /// Stamp of the root itself.
    pub(super) root: Stamp,
    /// Number of directories.
    pub(super) directories: u32,
    /// Directories with a repository, relative to the root.
    pub(super) marked: Vec<(PathBuf, Mark)>,
    /// What could not be read.
    pub(super) note: Option<String>,
}

/// An index file as a run found it.
#[derive(Debug)]
pub(super) struct IndexFile {
    file: File,
    pub(super) summary: Summary,
    /// Where the directories start.
    body: u64,
}

/// Where the index of `root` lies.
fn location(state: &Path, root: &Path) -> PathBuf {
    let digest = Sha256::digest(root.as_os_str().as_bytes());
    let name: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    state.join("protected").join(name)
}

impl IndexFile {
    /// The index of `root`, if there is a sound one.
    pub(super) fn open(state: &Path, root: &Path) -> Option<Self> {
        let file = File::open(location(state, root)).ok()?;
        let metadata = file.metadata().ok()?;
        let size = metadata.len();
        let mut head = vec![0; usize::try_from(size).ok()?.min(HEAD)];
        let mut filled = 0;
        loop {
            let read = file.read_at(&mut head[filled..], filled as u64).ok()?;
            filled += read;
            let length = 16 + u32::from_le_bytes(head.get(12..16)?.try_into().ok()?) as usize;
            if length as u64 > size {
                return None;
            }
            if filled >= length {
                head.truncate(length);
                break;
            }
            if read == 0 {
                return None;
            }
            head.resize(length, 0);
        }
        let summary = decode_summary(&head, root)?;
        Some(Self { file, summary, body: head.len() as u64 })
    }

    /// Time since the last complete look; `None` if the clock says it is still to come.
    pub(super) fn age(&self) -> Option<Duration> {
        SystemTime::now().duration_since(self.completed()?).ok()
    }

    /// When the last complete look ended.
    pub(super) fn completed(&self) -> Option<SystemTime> {
        self.file.metadata().ok()?.modified().ok()
    }

    /// Says that a complete look has just ended and found this index right.
    pub(super) fn confirm(&self) -> io::Result<()> {
        self.file.set_modified(SystemTime::now())
    }

    /// All directories.
    pub(super) fn tree(&self) -> Option<Tree> {
        let length = self.file.metadata().ok()?.len().checked_sub(self.body)?;
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        self.file.read_exact_at(&mut bytes, self.body).ok()?;
        decode_tree(bytes, self.summary.directories)
    }
}

/// Puts a new index in the place of the old one, and opens it. `completed` is when the last complete look
/// ended, if that isn't now.
pub(super) fn replace(
    state: &Path,
    root: &Path,
    summary: Summary,
    tree: &Tree,
    completed: Option<SystemTime>,
) -> io::Result<IndexFile> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let path = location(state, root);
    let unique = format!("tmp-{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
    let temporary = path.with_extension(unique);
    let mut file = match files::private_file(&temporary) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            files::private_directory(&state.join("protected"))?;
            files::private_file(&temporary)?
        }
        result => result?,
    };
    let head = encode_summary(&summary, root);
    let written = file
        .write_all(&head)
        .and_then(|()| file.write_all(&encode_tree(tree)))
        .and_then(|()| completed.map_or(Ok(()), |time| file.set_modified(time)));
    if let Err(error) = written.and_then(|()| fs::rename(&temporary, &path)) {
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    Ok(IndexFile { file, summary, body: head.len() as u64 })
}

fn encode_summary(summary: &Summary, root: &Path) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&u32::from(summary.complete).to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&summary.root.ino.to_le_bytes());
    out.extend_from_slice(&summary.root.ctime.to_le_bytes());
    out.extend_from_slice(&summary.directories.to_le_bytes());
    put(&mut out, root.as_os_str().as_bytes());
    put(&mut out, summary.note.as_deref().unwrap_or_default().as_bytes());
    out.extend_from_slice(&(summary.marked.len() as u32).to_le_bytes());
    for (path, mark) in &summary.marked {
        out.push(mark.to_byte());
        put(&mut out, path.as_os_str().as_bytes());
    }
    let length = (out.len() - 16) as u32;
    out[12..16].copy_from_slice(&length.to_le_bytes());
    out
}

fn decode_summary(bytes: &[u8], root: &Path) -> Option<Summary> {
    let mut input = bytes;
    if take(&mut input, 8)? != MAGIC {
        return None;
    }
    let complete = take_u32(&mut input)? == 1;
    take_u32(&mut input)?;
    let stamp = Stamp { ino: take_u64(&mut input)?, ctime: take_u64(&mut input)?.cast_signed() };
    let directories = take_u32(&mut input)?;
    if take_field(&mut input)? != root.as_os_str().as_bytes() {
        return None;
    }
    let note = String::from_utf8(take_field(&mut input)?.to_vec()).ok().filter(|note| !note.is_empty());
    let mut marked = Vec::new();
    for _ in 0..take_u32(&mut input)? {
        let mark = Mark::from_byte(take(&mut input, 1)?[0]);
        marked.push((PathBuf::from(OsStr::from_bytes(take_field(&mut input)?)), mark));
    }
    input.is_empty().then_some(Summary { complete, root: stamp, directories, marked, note })
}

fn encode_tree(tree: &Tree) -> Vec<u8> {
    let mut out = Vec::with_capacity(tree.paths.len() + tree.nodes.len() * 17);
    for node in &tree.nodes {
        out.extend_from_slice(&node.stamp.ino.to_le_bytes());
        out.extend_from_slice(&node.stamp.ctime.to_le_bytes());
        out.push(node.mark.to_byte());
        out.extend_from_slice(tree.path(node));
        out.push(0);
    }
    out
}

/// Takes the buffer over; the paths stay where they are in it.
fn decode_tree(bytes: Vec<u8>, directories: u32) -> Option<Tree> {
    // A stamp, a mark, a path of one byte and its NUL: a damaged count asks for no more than there can be.
    let mut nodes = Vec::with_capacity((directories as usize).min(bytes.len() / 19));
    let mut input = bytes.as_slice();
    while !input.is_empty() {
        let stamp = Stamp { ino: take_u64(&mut input)?, ctime: take_u64(&mut input)?.cast_signed() };
        let mark = Mark::from_byte(take(&mut input, 1)?[0]);
        let start = bytes.len() - input.len();
        let len = input.iter().position(|&byte| byte == 0).filter(|&len| len > 0)?;
        take(&mut input, len + 1)?;
        nodes.push(Node { start: start as u32, len: len as u32, stamp, mark });
    }
    (nodes.len() == directories as usize && !nodes.is_empty()).then_some(Tree { paths: bytes, nodes })
}

fn put(out: &mut Vec<u8>, field: &[u8]) {
    out.extend_from_slice(&(field.len() as u32).to_le_bytes());
    out.extend_from_slice(field);
}

fn take<'a>(input: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (head, rest) = input.split_at_checked(count)?;
    *input = rest;
    Some(head)
}

fn take_u32(input: &mut &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(take(input, 4)?.try_into().ok()?))
}

fn take_u64(input: &mut &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(take(input, 8)?.try_into().ok()?))
}

fn take_field<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = take_u32(input)? as usize;
    take(input, length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample() -> (Summary, Tree) {
        let mut tree = Tree::unread();
        tree.push(b"a\n\xff/b", Stamp { ino: 7, ctime: -8 }, Mark { entry: true, bare: false });
        let marked =
            vec![(PathBuf::from(OsStr::from_bytes(b"a\n\xff/b")), Mark { entry: true, bare: false })];
        let root = Stamp { ino: 1, ctime: 2 };
        (Summary { complete: true, root, directories: 2, marked, note: Some("x".into()) }, tree)
    }

    #[test]
    fn what_is_written_is_read() {
        let state = tempfile::tempdir().unwrap();
        let root = Path::new("/some/root");
        assert!(IndexFile::open(state.path(), root).is_none());
        let (summary, tree) = sample();
        replace(state.path(), root, summary.clone(), &tree, None).unwrap();
        let index = IndexFile::open(state.path(), root).unwrap();
        assert_eq!(index.summary, summary);
        let read = index.tree().unwrap();
        assert_eq!(read.nodes.len(), 2);
        assert_eq!(read.path(&read.nodes[1]), b"a\n\xff/b");
        assert_eq!(read.c_path(&read.nodes[0]), c".");
        assert_eq!(read.nodes[1].stamp, tree.nodes[1].stamp);
        assert_eq!(read.nodes[1].mark, tree.nodes[1].mark);
        assert!(IndexFile::open(state.path(), Path::new("/other")).is_none());
    }

    #[test]
    fn an_open_index_stays_as_it_was() {
        let state = tempfile::tempdir().unwrap();
        let root = Path::new("/some/root");
        let (summary, tree) = sample();
        let old = replace(state.path(), root, summary, &tree, None).unwrap();
        let new = Summary { directories: 1, ..Summary::default() };
        replace(state.path(), root, new, &Tree::unread(), None).unwrap();
        assert_eq!(old.tree().unwrap().nodes.len(), 2);
        assert_eq!(IndexFile::open(state.path(), root).unwrap().tree().unwrap().nodes.len(), 1);
    }

    #[test]
    fn many_repositories_need_more_than_one_read() {
        let state = tempfile::tempdir().unwrap();
        let root = Path::new("/some/root");
        let (mut summary, tree) = sample();
        summary.marked =
            (0..3000).map(|n| (PathBuf::from(format!("some/dir/{n}")), Mark::default())).collect();
        replace(state.path(), root, summary.clone(), &tree, None).unwrap();
        let index = IndexFile::open(state.path(), root).unwrap();
        assert_eq!(index.summary, summary);
        assert_eq!(index.tree().unwrap().nodes.len(), 2);
    }

    proptest! {
        /// Whatever a crash leaves of a file, it is refused or read, without a panic.
        #[test]
        fn a_damaged_file_is_no_harm(cut in 0usize..200, flip in 0usize..200, with: u8) {
            let state = tempfile::tempdir().unwrap();
            let root = Path::new("/some/root");
            let (summary, tree) = sample();
            replace(state.path(), root, summary, &tree, None).unwrap();
            let path = location(state.path(), root);
            let mut bytes = fs::read(&path).unwrap();
            bytes.truncate(cut);
            if let Some(byte) = bytes.get_mut(flip) {
                *byte = with;
            }
            fs::write(&path, &bytes).unwrap();
            if let Some(index) = IndexFile::open(state.path(), root) {
                let _ = index.tree();
            }
        }
    }
}
