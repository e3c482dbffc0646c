//! Denials by pattern, expanded into the paths that they stand for now.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{DirEntry, FileType};
use std::io;
use std::ops::Bound::{Excluded, Unbounded};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use ringfence_types::{PathKind, ResolvedPath};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::path::open_path;
use super::{ResolveError, Resolver};

/// Directory entries that the patterns of one request may look at.
const MAX_ENTRIES: usize = 250_000;
/// Paths that they may stand for; so many mounts a plan may have.
const MAX_MATCHES: usize = 10_000;
/// Trees of the kernel's own making, of which the box has its own or which hold no files of anybody.
const KERNEL_TREES: [&str; 3] = ["/dev", "/proc", "/sys"];

/// Resolves denied paths, and expands those that are patterns, within one bound.
///
/// In a pattern `*`, `?` and `[...]` stand for any text, any character and one of those inside a name, a leading
/// dot included, `{a,b}` for either of the two, and `**` as a whole name for any number of directories but git's
/// own. `\` takes the next character as it is. A name that is spelled like the pattern is matched too: otherwise
/// a file of that name would take the pattern's meaning away.
///
/// A symlink is never walked through. One that matches denies what it leads to, as a symlink that is denied by its
/// name does. Directories that are mounted on are walked like any other.
///
/// Below a directory that matches everything is denied with it but what a grant opens again. There the walk goes on,
/// since a match that lies as deep as the grant or deeper is denied all the same.
pub(super) struct Expander<'a> {
    resolver: &'a Resolver<'a>,
    /// Ringfence's own directory, which is denied anyhow.
    home: &'a Path,
    /// Canonical paths of the request's grants.
    grants: BTreeSet<&'a Path>,
    patterns: Vec<PathBuf>,
    entries: Budget,
    matches: Budget,
}

/// A directory that is still to be walked.
struct Pending {
    directory: PathBuf,
    at: Positions,
    /// Whether a match above it denies all that no grant opens again.
    closed: bool,
}

impl<'a> Expander<'a> {
    pub(super) fn new(
        resolver: &'a Resolver<'a>,
        home: &'a Path,
        grants: impl IntoIterator<Item = &'a Path>,
    ) -> Self {
        let entries = Budget { limit: MAX_ENTRIES, used: 0, what: "files and directories" };
        let matches = Budget { limit: MAX_MATCHES, used: 0, what: "denied paths" };
        Self { resolver, home, grants: grants.into_iter().collect(), patterns: Vec::new(), entries, matches }
    }

    /// Every path that the denials stand for.
    pub(super) fn resolve<'p>(
        &mut self,
        denials: impl IntoIterator<Item = &'p PathBuf>,
    ) -> Result<Vec<ResolvedPath>, ResolveError> {
        let mut resolved = Vec::new();
        for path in denials {
            let literal = self.resolver.denial(path)?;
            if !is_pattern(path) {
                resolved.push(literal);
                continue;
            }
            let exists = literal.kind != PathKind::Missing;
            let absolute = self.resolver.absolute(path)?;
            match Pattern::new(path, &absolute, self.resolver.base) {
                Ok(pattern) => self.expand(&pattern, &mut resolved)?,
                // The name of something that is there needs no meaning.
                Err(_) if exists => {}
                Err(error) => return Err(error),
            }
            self.patterns.push(absolute);
            if exists {
                resolved.push(literal);
            }
        }
        Ok(resolved)
    }

    /// The patterns so far: absolute, sorted, without duplicates.
    pub(super) fn patterns(mut self) -> Vec<PathBuf> {
        self.patterns.sort();
        self.patterns.dedup();
        self.patterns
    }

    fn expand(&mut self, pattern: &Pattern<'_>, found: &mut Vec<ResolvedPath>) -> Result<(), ResolveError> {
        let base = self.resolver.denial(&pattern.base)?;
        if base.kind != PathKind::Directory {
            return Ok(());
        }
        let mut pending = vec![Pending { directory: base.path, at: pattern.start(), closed: false }];
        while let Some(Pending { directory, at, closed }) = pending.pop() {
            if directory == self.home || KERNEL_TREES.iter().any(|tree| directory == Path::new(tree)) {
                continue;
            }
            for entry in list(pattern, &directory)? {
                let unlistable = |source| pattern.unlistable(&directory, source);
                let entry = entry.map_err(unlistable)?;
                self.entries.take(pattern)?;
                let next = pattern.step(&at, &entry.file_name());
                if next.is_empty() {
                    continue;
                }
                let path = entry.path();
                let closed = closed && !self.grants.contains(path.as_path());
                let leads_to_a_grant = self.is_above_a_grant(&path);
                if closed && !leads_to_a_grant {
                    continue;
                }
                let file_type = entry.file_type().map_err(unlistable)?;
                let matches = next.contains(&pattern.parts.len());
                if matches {
                    self.matches.take(pattern)?;
                    found.extend(self.denied(&path, file_type)?);
                }
                let closed = closed || matches;
                if file_type.is_dir() && (!closed || leads_to_a_grant) {
                    pending.push(Pending { directory: path, at: next, closed });
                }
            }
        }
        Ok(())
    }

    /// Whether a grant lies below `path`.
    fn is_above_a_grant(&self, path: &Path) -> bool {
        // What lies below a path follows it at once.
        let next = self.grants.range::<Path, _>((Excluded(path), Unbounded)).next();
        next.is_some_and(|grant| grant.starts_with(path))
    }

    /// What a match denies. A denied directory takes all below along.
    fn denied(&self, path: &Path, file_type: FileType) -> Result<Option<ResolvedPath>, ResolveError> {
        if file_type.is_symlink() {
            let target = self.resolver.denial(path)?;
            let own = KERNEL_TREES.iter().any(|tree| target.path.starts_with(tree));
            return Ok(Some(target).filter(|target| !own && target.kind != PathKind::Missing));
        }
        let kind = match file_type {
            _ if file_type.is_dir() => PathKind::Directory,
            _ if file_type.is_file() => PathKind::File,
            _ => PathKind::Special,
        };
        Ok(Some(self.resolver.match_at(path, kind)))
    }
}

/// The entries of a directory. One of somebody else's that can't be entered hides nothing from the box that it could
/// reach, while one's own it could open up; one that went away holds nothing.
fn list(
    pattern: &Pattern<'_>,
    directory: &Path,
) -> Result<impl Iterator<Item = io::Result<DirEntry>>, ResolveError> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => Some(entries),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !can_enter(directory) => None,
        Err(error) => return Err(pattern.unlistable(directory, error)),
    };
    if !can_enter(directory) && is_own(directory) {
        return Err(pattern.unlistable(directory, Errno::ACCESS.into()));
    }
    Ok(entries.into_iter().flatten())
}

fn can_enter(directory: &Path) -> bool {
    open_path(&directory.join("."), OFlags::DIRECTORY).is_ok()
}

fn is_own(directory: &Path) -> bool {
    let owner = directory.symlink_metadata().map(|metadata| metadata.uid());
    owner.is_ok_and(|owner| owner == rustix::process::geteuid().as_raw())
}

/// How much a request's patterns may still cost.
struct Budget {
    limit: usize,
    used: usize,
    what: &'static str,
}

impl Budget {
    fn take(&mut self, pattern: &Pattern<'_>) -> Result<(), ResolveError> {
        let Self { limit, used, what } = self;
        if *used == *limit {
            return Err(ResolveError::PatternTooWide {
                path: pattern.written.to_path_buf(),
                limit: *limit,
                what,
            });
        }
        *used += 1;
        Ok(())
    }
}

/// Whether a path looks like a pattern.
pub(super) fn is_pattern(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().iter().any(|byte| matches!(byte, b'*' | b'?' | b'[' | b'{'))
}

/// A pattern: a directory, and parts that each stand for names below it.
struct Pattern<'a> {
    written: &'a Path,
    base: PathBuf,
    parts: Vec<Part>,
}

enum Part {
    /// `**`: any number of directories.
    Directories,
    /// One name.
    Name { spelled: OsString, glob: GlobMatcher },
}

/// The parts that the next name may belong to; the number of parts is the end of the pattern. Sorted.
type Positions = Vec<usize>;

impl<'a> Pattern<'a> {
    /// Takes a pattern apart. Whatever the workspace is called, its own path is no pattern.
    fn new(written: &'a Path, absolute: &Path, workspace: &Path) -> Result<Self, ResolveError> {
        let fail = |reason: String| ResolveError::Pattern { path: written.to_path_buf(), reason };
        let (mut base, rest) = match absolute.strip_prefix(workspace) {
            Ok(rest) => (workspace.to_path_buf(), rest),
            Err(_) => (PathBuf::new(), absolute),
        };
        let mut parts = Vec::new();
        for component in rest.components() {
            let name = component.as_os_str();
            let literal = !matches!(component, Component::Normal(_)) || !is_pattern(Path::new(name));
            if parts.is_empty() && literal {
                base.push(name);
                continue;
            }
            if name == "**" {
                parts.push(Part::Directories);
                continue;
            }
            let text = name.to_str().ok_or_else(|| fail(String::from("it is not UTF-8")))?;
            let glob = GlobBuilder::new(text).backslash_escape(true).empty_alternates(true).build();
            let glob = glob.map_err(|error| fail(error.kind().to_string()))?.compile_matcher();
            parts.push(Part::Name { spelled: name.to_owned(), glob });
        }
        if let Some(Part::Directories) = parts.last() {
            // What is below, not the directory itself.
            let any = GlobBuilder::new("*").build().map_err(|error| fail(error.kind().to_string()))?;
            parts.push(Part::Name { spelled: OsString::from("**"), glob: any.compile_matcher() });
        }
        Ok(Self { written, base, parts })
    }

    /// Where a name directly below the base may belong.
    fn start(&self) -> Positions {
        self.with_skipped(vec![0])
    }

    /// Where the names below an entry called `name` may belong; nowhere if it leads to no match.
    fn step(&self, at: &Positions, name: &OsStr) -> Positions {
        let mut next = Positions::new();
        for &position in at {
            match self.parts.get(position) {
                Some(Part::Directories) if name != ".git" => next.push(position),
                Some(Part::Name { spelled, glob }) if spelled == name || glob.is_match(name) => {
                    next.push(position + 1);
                }
                _ => {}
            }
        }
        self.with_skipped(next)
    }

    /// `**` may stand for no directory at all.
    fn with_skipped(&self, mut positions: Positions) -> Positions {
        let mut n = 0;
        while let Some(&position) = positions.get(n) {
            if let Some(Part::Directories) = self.parts.get(position) {
                positions.push(position + 1);
            }
            n += 1;
        }
        positions.sort_unstable();
        positions.dedup();
        positions
    }

    fn unlistable(&self, directory: &Path, source: io::Error) -> ResolveError {
        let (path, directory) = (self.written.to_path_buf(), directory.to_path_buf());
        ResolveError::PatternUnlistable { path, directory, source }
    }
}

#[cfg(test)]
mod tests;
