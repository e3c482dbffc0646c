//! Reader of git's index (gitformat-index(5), versions 2 to 4): which paths git tracks.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Mode of an entry that is another repository (a submodule).
pub(super) const GITLINK: u32 = 0o160000;

/// Longest path that is read. Git itself refuses to check longer ones out.
const MAX_PATH: usize = 1 << 16;

/// Why an index could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum IndexError {
    #[error("cannot read git's index {}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("git's index {} is damaged or of an unknown version", .path.display())]
    Format { path: PathBuf },
}

/// Calls `visit` with mode and path of each entry, in the order of the paths' bytes, until it breaks.
///
/// `hash_len` is 20 for SHA-1 repositories and 32 for SHA-256 ones. Of a split index the shared part is read
/// as well, first; an entry that the other part deletes is still reported.
pub(super) fn read(
    path: &Path,
    hash_len: usize,
    mut visit: impl FnMut(u32, &[u8]) -> ControlFlow<()>,
) -> Result<(), IndexError> {
    let mut shared = None;
    let first = read_part(path, hash_len, &mut shared, &mut visit)?;
    if let (ControlFlow::Continue(()), Some(name)) = (first, shared) {
        let base = path.with_file_name(name);
        let _ = read_part(&base, hash_len, &mut None, &mut visit)?;
    }
    Ok(())
}

fn read_part(
    path: &Path,
    hash_len: usize,
    shared: &mut Option<String>,
    visit: &mut impl FnMut(u32, &[u8]) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, IndexError> {
    let io = |source| IndexError::Io { path: path.to_path_buf(), source };
    let file = File::open(path).map_err(io)?;
    let size = file.metadata().map_err(io)?.len();
    let mut entries =
        Entries { input: BufReader::with_capacity(1 << 16, file), hash_len, at: 0, name: Vec::new() };
    entries.run(size, shared, visit).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
            IndexError::Format { path: path.to_path_buf() }
        }
        _ => io(error),
    })
}

struct Entries<R> {
    input: R,
    hash_len: usize,
    /// Bytes read so far.
    at: u64,
    /// Path of the entry before, to which version 4 refers.
    name: Vec<u8>,
}

fn invalid() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

impl<R: BufRead> Entries<R> {
    fn run(
        &mut self,
        size: u64,
        shared: &mut Option<String>,
        visit: &mut impl FnMut(u32, &[u8]) -> ControlFlow<()>,
    ) -> io::Result<ControlFlow<()>> {
        if self.bytes::<4>()? != *b"DIRC" {
            return Err(invalid());
        }
        let version = u32::from_be_bytes(self.bytes()?);
        let count = u32::from_be_bytes(self.bytes()?);
        if !(2..=4).contains(&version) {
            return Err(invalid());
        }
        for _ in 0..count {
            let mode = self.entry(version)?;
            // A split index leaves the path out where it only replaces an entry of the shared part.
            if !self.name.is_empty() && visit(mode, &self.name).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        *shared = self.shared_index(size)?;
        Ok(ControlFlow::Continue(()))
    }

    /// Reads one entry, leaves its path in `self.name` and returns its mode.
    fn entry(&mut self, version: u32) -> io::Result<u32> {
        let start = self.at;
        let stat = self.bytes::<40>()?;
        let mode = u32::from_be_bytes([stat[24], stat[25], stat[26], stat[27]]);
        self.skip(self.hash_len as u64)?;
        let flags = u16::from_be_bytes(self.bytes()?);
        if flags & 0x4000 != 0 {
            self.skip(2)?;
        }
        if version == 4 {
            let drop = usize::try_from(self.offset()?).map_err(|_| invalid())?;
            let keep = self.name.len().checked_sub(drop).ok_or_else(invalid)?;
            self.name.truncate(keep);
        } else {
            self.name.clear();
        }
        let mut limited = (&mut self.input).take(MAX_PATH as u64);
        let read = limited.read_until(0, &mut self.name)?;
        self.at += read as u64;
        if self.name.pop() != Some(0) {
            return Err(invalid());
        }
        if version < 4 {
            // One NUL is read; the entry is filled up with more of them to a multiple of eight bytes.
            self.skip((8 - (self.at - start) % 8) % 8)?;
        }
        Ok(mode)
    }

    /// The variable-width number of pack files' offset encoding (gitformat-pack(5)).
    fn offset(&mut self) -> io::Result<u64> {
        let [mut byte] = self.bytes()?;
        let mut value = u64::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            [byte] = self.bytes()?;
            value = value.checked_add(1).and_then(|value| value.checked_mul(128)).ok_or_else(invalid)?
                | u64::from(byte & 0x7f);
        }
        Ok(value)
    }

    /// The file that a split index is based on, from its `link` extension.
    fn shared_index(&mut self, size: u64) -> io::Result<Option<String>> {
        while self.at + 8 + self.hash_len as u64 <= size {
            let signature = self.bytes::<4>()?;
            let length = u32::from_be_bytes(self.bytes()?);
            if &signature != b"link" {
                self.skip(length.into())?;
                continue;
            }
            let mut id = vec![0; self.hash_len];
            self.input.read_exact(&mut id)?;
            self.at += id.len() as u64;
            let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
            return Ok(id.iter().any(|&byte| byte != 0).then(|| format!("sharedindex.{hex}")));
        }
        Ok(None)
    }

    fn bytes<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.input.read_exact(&mut bytes)?;
        self.at += N as u64;
        Ok(bytes)
    }

    fn skip(&mut self, mut count: u64) -> io::Result<()> {
        self.at += count;
        while count > 0 {
            let available = self.input.fill_buf()?.len() as u64;
            if available == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let step = available.min(count);
            self.input.consume(step as usize);
            count -= step;
        }
        Ok(())
    }
}

/// Which of `names`, each below `prefix` of the work tree, git tracks or tracks something below.
///
/// Entries are sorted, so that the rest of a large index is left unread once all names must have come.
pub(super) fn tracked(
    index: &Path,
    hash_len: usize,
    prefix: &Path,
    names: &[PathBuf],
) -> Result<Vec<bool>, IndexError> {
    let wanted: Vec<Vec<u8>> =
        names.iter().map(|name| prefix.join(name).as_os_str().as_bytes().to_vec()).collect();
    let Some(last) = wanted.iter().max() else { return Ok(Vec::new()) };
    let split = is_split(index);
    let mut found = vec![false; names.len()];
    read(index, hash_len, |_, path| {
        for (name, found) in wanted.iter().zip(&mut found) {
            *found |=
                path.strip_prefix(name.as_slice()).is_some_and(|rest| rest.is_empty() || rest[0] == b'/');
        }
        let past = !split && path > last.as_slice() && !path.starts_with(last);
        if past { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(found)
}

/// Whether a shared index lies beside this one, so that its entries are only a part.
fn is_split(index: &Path) -> bool {
    let Some(entries) = index.parent().and_then(|dir| dir.read_dir().ok()) else { return true };
    entries.flatten().any(|entry| entry.file_name().as_bytes().starts_with(b"sharedindex."))
}
