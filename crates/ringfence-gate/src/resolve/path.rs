use std::cell::RefCell;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use ringfence_types::{Owner, PathKind, ResolvedPath};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags};
use rustix::io::Errno;

use super::ResolveError;
use crate::identity;

/// A path that was followed to its end.
#[derive(Debug)]
pub(crate) struct Found {
    /// Canonical path, kind and identity.
    pub(crate) path: ResolvedPath,
    /// `O_PATH` descriptor of what was found; `None` if nothing lies there.
    pub(crate) fd: Option<OwnedFd>,
    /// Its type, for the kinds that [`PathKind`] doesn't tell apart.
    pub(crate) file_type: Option<FileType>,
    /// Who owns it.
    pub(crate) owner: Option<Owner>,
    /// Whether it is a file that can be reached by another name too (a hard link).
    has_other_names: bool,
}

/// Follows paths to canonical ones. A path is opened once, and everything is asked of the descriptor, so that
/// path, kind and identity are those of one file whatever happens to the names meanwhile.
#[derive(Debug)]
pub(crate) struct Resolver<'a> {
    /// Where relative paths start.
    pub(super) base: &'a Path,
    /// `/proc/self/fd`, where the kernel tells the path of a descriptor.
    proc_fd: Option<OwnedFd>,
    /// The directory in which the last denied path was found, if that path is canonical.
    canonical: RefCell<Option<PathBuf>>,
    /// Denied files so far that have further names (hard links).
    linked: RefCell<Vec<PathBuf>>,
}

impl<'a> Resolver<'a> {
    /// A resolver whose relative paths start at `base`, an absolute path.
    pub(crate) fn new(base: &'a Path) -> Self {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc_fd = rustix::fs::open("/proc/self/fd", flags, Mode::empty()).ok();
        Self { base, proc_fd, canonical: RefCell::default(), linked: RefCell::default() }
    }

    /// One for a single path, for which opening a directory of /proc does not pay.
    pub(crate) fn once(base: &'a Path) -> Self {
        Self { base, proc_fd: None, canonical: RefCell::default(), linked: RefCell::default() }
    }

    /// Follows a path that is granted. For a missing one its nearest existing ancestor is followed.
    pub(crate) fn grant(&self, path: &Path) -> Result<Found, ResolveError> {
        let absolute = self.absolute(path)?;
        let fail = |source: Errno| ResolveError::Io { path: path.to_path_buf(), source: source.into() };
        match open_path(&absolute, OFlags::empty()) {
            Ok(fd) => {
                self.examine(fd).map_err(|source| ResolveError::Io { path: path.to_path_buf(), source })
            }
            Err(Errno::NOENT) => self.missing(&absolute),
            Err(errno) => Err(fail(errno)),
        }
    }

    /// Follows a path that is denied. What can't be followed can't be reached either, so nothing is an error
    /// but a path that has no meaning.
    pub(crate) fn denial(&self, path: &Path) -> Result<ResolvedPath, ResolveError> {
        let absolute = self.absolute(path)?;
        let parent = absolute.parent();
        if self.canonical.borrow().as_deref().is_some_and(|known| Some(known) == parent)
            && let Some(found) = self.neighbour(&absolute)
        {
            return Ok(found);
        }
        // Without a symlink on the way it is canonical as it stands. The name of its descriptor would be another one
        // where somebody outside renames meanwhile, and then this path would stay open.
        if let Some(stat) = stat_without_symlinks(&absolute) {
            let kind = self.denied_kind(&absolute, &stat);
            if let Some(parent) = parent {
                *self.canonical.borrow_mut() = Some(parent.to_path_buf());
            }
            return Ok(ResolvedPath { path: absolute, kind, id: None });
        }
        let opened = open_path(&absolute, OFlags::empty());
        if let Some(closed) = opened
            .as_ref()
            .err()
            .filter(|error| **error == Errno::ACCESS)
            .and_then(|_| self.closed_above(&absolute))
        {
            return Ok(closed);
        }
        let found = opened.ok().and_then(|fd| self.examine(fd).ok());
        if let Some(found) = found.as_ref().filter(|found| found.has_other_names) {
            self.linked.borrow_mut().push(found.path.path.clone());
        }
        Ok(match found {
            // A denial covers whatever lies there, so it binds no identity.
            Some(found) => ResolvedPath { id: None, ..found.path },
            None => {
                let path = self.missing(&absolute).map_or(absolute, |found| found.path.path);
                ResolvedPath { path, kind: PathKind::Missing, id: None }
            }
        })
    }

    /// The directory on the way to a path that can't be entered, if the box, which has the caller's identity, could open
    /// it up. Nobody knows what lies below it, so that all of it is denied.
    fn closed_above(&self, absolute: &Path) -> Option<ResolvedPath> {
        let closed = absolute.ancestors().skip(1).find_map(|path| open_path(path, OFlags::empty()).ok())?;
        let found = self.examine(closed).ok()?;
        let own = found.owner?.uid == rustix::process::geteuid().as_raw();
        (own && found.path.kind == PathKind::Directory).then_some(ResolvedPath { id: None, ..found.path })
    }

    /// [`Self::denial`] of a path that lies beside one that was canonical: without a symlink at its end it is canonical
    /// too, and one look at it is enough.
    fn neighbour(&self, absolute: &Path) -> Option<ResolvedPath> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let stat = rustix::fs::statx(CWD, absolute, flags, DENIED).ok()?;
        let path = || ResolvedPath {
            path: absolute.to_path_buf(),
            kind: self.denied_kind(absolute, &stat),
            id: None,
        };
        (type_of(&stat) != FileType::Symlink).then(path)
    }

    /// What lies at a canonical path that is denied; remembers a file that has further names.
    fn denied_kind(&self, path: &Path, stat: &Statx) -> PathKind {
        if has_other_names(stat) {
            self.linked.borrow_mut().push(path.to_path_buf());
        }
        kind_of(type_of(stat))
    }

    /// A match of a pattern that is no symlink, at a canonical path. One that is gone has no other names.
    pub(super) fn match_at(&self, path: &Path, kind: PathKind) -> ResolvedPath {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        if kind == PathKind::File
            && let Ok(stat) = rustix::fs::statx(CWD, path, flags, DENIED)
        {
            self.denied_kind(path, &stat);
        }
        ResolvedPath { path: path.to_path_buf(), kind, id: None }
    }

    /// The denied files that have further names.
    pub(super) fn take_linked(&self) -> Vec<PathBuf> {
        self.linked.take()
    }

    /// Absolute, without `.`; `..` is refused because what it means depends on the symlinks before it.
    pub(super) fn absolute(&self, path: &Path) -> Result<PathBuf, ResolveError> {
        if path.as_os_str().is_empty() {
            return Err(ResolveError::Empty);
        }
        if path.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(ResolveError::Io { path: path.to_path_buf(), source: Errno::INVAL.into() });
        }
        if path.components().any(|part| part == Component::ParentDir) {
            return Err(ResolveError::ParentComponent(path.to_path_buf()));
        }
        Ok(self.base.join(path).components().collect())
    }

    /// Path, kind and identity of an `O_PATH` descriptor.
    pub(crate) fn examine(&self, fd: OwnedFd) -> io::Result<Found> {
        let asked = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let stat = rustix::fs::statx(&fd, c"", AtFlags::EMPTY_PATH, asked)?;
        let file_type = type_of(&stat);
        let path = ResolvedPath {
            path: self.path_of(&fd, &stat)?,
            kind: kind_of(file_type),
            id: Some(Box::new(identity::of_stat(&stat))),
        };
        let owner = Owner { uid: stat.stx_uid, gid: stat.stx_gid };
        let has_other_names = has_other_names(&stat);
        Ok(Found { path, fd: Some(fd), file_type: Some(file_type), owner: Some(owner), has_other_names })
    }

    /// The path by which the kernel knows a descriptor. Checked to lead back to the same file: a file that was
    /// unlinked meanwhile, or one outside the root directory, has no path.
    fn path_of(&self, fd: &OwnedFd, stat: &Statx) -> io::Result<PathBuf> {
        let name = fd.as_raw_fd().to_string();
        let link = match &self.proc_fd {
            Some(proc_fd) => rustix::fs::readlinkat(proc_fd, name, Vec::with_capacity(256))?.into_bytes(),
            None => {
                let link = format!("/proc/self/fd/{name}");
                rustix::fs::readlink(link, Vec::with_capacity(256)).map_err(no_proc)?.into_bytes()
            }
        };
        let path = PathBuf::from(OsString::from_vec(link));
        if path.is_absolute() && !path.as_os_str().as_encoded_bytes().ends_with(b" (deleted)") {
            return Ok(path);
        }
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let back = rustix::fs::statx(CWD, &path, flags, StatxFlags::INO)?;
        let same = (back.stx_dev_major, back.stx_dev_minor, back.stx_ino)
            == (stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino);
        if path.is_absolute() && same { Ok(path) } else { Err(Errno::NOENT.into()) }
    }

    /// Nothing lies at `absolute`: the nearest ancestor that exists is followed, and nothing below it may be a
    /// symlink, dangling as it must be.
    fn missing(&self, absolute: &Path) -> Result<Found, ResolveError> {
        let fail = |source: io::Error| ResolveError::Io { path: absolute.to_path_buf(), source };
        for ancestor in absolute.ancestors().skip(1) {
            let fd = match open_path(ancestor, OFlags::empty()) {
                Ok(fd) => fd,
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(fail(errno.into())),
            };
            let found = self.examine(fd).map_err(fail)?;
            let below = absolute.strip_prefix(ancestor).unwrap_or(absolute);
            let dangling = below.components().next().map(|first| found.path.path.join(first));
            if let Some(dangling) = dangling
                && dangling.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink())
            {
                return Err(ResolveError::DanglingSymlink {
                    path: absolute.to_path_buf(),
                    symlink: dangling,
                });
            }
            let path = found.path.path.join(below);
            let path = ResolvedPath { path, kind: PathKind::Missing, id: None };
            return Ok(Found { path, fd: None, file_type: None, owner: None, has_other_names: false });
        }
        Err(fail(Errno::NOENT.into()))
    }
}

/// Opens with `O_PATH`. Magic links (`/proc/PID/fd/N` and the like, openat2(2)) lead to files that no path
/// names, so they are refused.
pub(crate) fn open_path(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
    match rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS) {
        Err(Errno::NOSYS) => rustix::fs::open(path, flags, Mode::empty()),
        result => result,
    }
}

/// What is asked about a denied path.
const DENIED: StatxFlags = StatxFlags::TYPE.union(StatxFlags::NLINK);

/// What lies at a path that leads through no symlink (openat2(2), `RESOLVE_NO_SYMLINKS`).
fn stat_without_symlinks(path: &Path) -> Option<Statx> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let fd = rustix::fs::openat2(CWD, path, flags, Mode::empty(), resolve).ok()?;
    let stat = rustix::fs::statx(&fd, c"", AtFlags::EMPTY_PATH, DENIED).ok()?;
    (type_of(&stat) != FileType::Symlink).then_some(stat)
}

fn type_of(stat: &Statx) -> FileType {
    FileType::from_raw_mode(u32::from(stat.stx_mode))
}

fn has_other_names(stat: &Statx) -> bool {
    type_of(stat) == FileType::RegularFile && stat.stx_nlink > 1
}

/// The link of a descriptor that is open is missing only where /proc is.
fn no_proc(errno: Errno) -> io::Error {
    match errno {
        Errno::NOENT => io::Error::new(io::ErrorKind::Unsupported, "/proc is not mounted"),
        errno => errno.into(),
    }
}

fn kind_of(file_type: FileType) -> PathKind {
    match file_type {
        FileType::Directory => PathKind::Directory,
        FileType::RegularFile => PathKind::File,
        FileType::Symlink => PathKind::Symlink,
        _ => PathKind::Special,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    use super::*;

    fn canonical(directory: &tempfile::TempDir) -> PathBuf {
        directory.path().canonicalize().unwrap()
    }

    #[test]
    fn symlinks_are_followed_to_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let root = canonical(&directory);
        std::fs::create_dir(root.join("real")).unwrap();
        symlink("real", root.join("one")).unwrap();
        symlink("one", root.join("two")).unwrap();
        let resolver = Resolver::new(&root);
        let found = resolver.grant(Path::new("two/./")).unwrap();
        assert_eq!(found.path.path, root.join("real"));
        assert_eq!(found.path.kind, PathKind::Directory);
        assert!(found.fd.is_some() && found.path.id.is_some());
    }

    #[test]
    fn a_denial_beside_another_is_what_it_is_alone() {
        let directory = tempfile::tempdir().unwrap();
        let root = canonical(&directory);
        std::fs::create_dir_all(root.join("real/below")).unwrap();
        std::fs::write(root.join("file"), "").unwrap();
        symlink("file", root.join("link")).unwrap();
        symlink("real", root.join("way")).unwrap();
        let resolver = Resolver::new(&root);
        for (path, target, kind) in [
            ("file", "file", PathKind::File),
            ("real", "real", PathKind::Directory),
            ("link", "file", PathKind::File),
            ("absent", "absent", PathKind::Missing),
            ("way/below", "real/below", PathKind::Directory),
            ("way", "real", PathKind::Directory),
        ] {
            let expected = ResolvedPath { path: root.join(target), kind, id: None };
            assert_eq!(resolver.denial(Path::new(path)).unwrap(), expected, "{path}");
            assert_eq!(Resolver::once(&root).denial(Path::new(path)).unwrap(), expected, "{path} alone");
        }
    }

    #[test]
    fn denied_files_with_further_names_are_remembered() {
        let directory = tempfile::tempdir().unwrap();
        let root = canonical(&directory);
        for name in ["one", "two", "alone"] {
            std::fs::write(root.join(name), "").unwrap();
            if name != "alone" {
                std::fs::hard_link(root.join(name), root.join(format!("{name}-again"))).unwrap();
            }
        }
        std::fs::create_dir_all(root.join("folder/below")).unwrap();
        symlink("two", root.join("way")).unwrap();
        let resolver = Resolver::new(&root);
        for path in ["one", "alone", "folder", "way", "absent"] {
            resolver.denial(Path::new(path)).unwrap();
        }
        assert_eq!(resolver.take_linked(), [root.join("one"), root.join("two")]);
        resolver.match_at(&root.join("two-again"), PathKind::File);
        resolver.match_at(&root.join("folder"), PathKind::Directory);
        assert_eq!(resolver.take_linked(), [root.join("two-again")]);
    }

    #[test]
    fn names_may_hold_any_byte() {
        let directory = tempfile::tempdir().unwrap();
        let root = canonical(&directory);
        for name in [&b"new\nline"[..], b"\xff\xfe", b"x (deleted)", b" "] {
            let name = std::ffi::OsStr::from_bytes(name);
            std::fs::write(root.join(name), "").unwrap();
            let found = Resolver::new(&root).grant(Path::new(name)).unwrap();
            assert_eq!((found.path.path, found.path.kind), (root.join(name), PathKind::File));
        }
    }

    #[test]
    fn a_missing_path_hangs_below_its_nearest_ancestor() {
        let directory = tempfile::tempdir().unwrap();
        let root = canonical(&directory);
        std::fs::create_dir(root.join("real")).unwrap();
        symlink("real", root.join("link")).unwrap();
        let resolver = Resolver::new(&root);
        let found = resolver.grant(Path::new("link/a/b")).unwrap();
        assert_eq!((found.path.path, found.path.kind), (root.join("real/a/b"), PathKind::Missing));

        symlink("nowhere", root.join("dangling")).unwrap();
        for path in ["dangling", "dangling/x"] {
            let refused = resolver.grant(Path::new(path)).unwrap_err();
            assert!(matches!(refused, ResolveError::DanglingSymlink { .. }), "{refused:?}");
            let denied = resolver.denial(Path::new(path)).unwrap();
            assert_eq!((denied.path, denied.kind), (root.join(path), PathKind::Missing));
        }
    }

    #[test]
    fn paths_without_a_meaning_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let root = canonical(&directory);
        std::fs::write(root.join("file"), "").unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let resolver = Resolver::new(&root);
        assert!(matches!(resolver.grant(Path::new("")), Err(ResolveError::Empty)));
        assert!(matches!(resolver.grant(Path::new("a/../b")), Err(ResolveError::ParentComponent(_))));
        assert!(matches!(resolver.denial(Path::new("..")), Err(ResolveError::ParentComponent(_))));
        for path in ["file/x", "loop", "nul\0"] {
            assert!(matches!(resolver.grant(Path::new(path)), Err(ResolveError::Io { .. })), "{path:?}");
        }
        assert_eq!(resolver.denial(Path::new("file/x")).unwrap().kind, PathKind::Missing);
    }

    #[test]
    fn magic_links_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let root = canonical(&directory);
        let held = std::fs::File::open(&root).unwrap();
        let magic = format!("/proc/self/fd/{}", held.as_raw_fd());
        assert!(matches!(Resolver::new(&root).grant(Path::new(&magic)), Err(ResolveError::Io { .. })));
    }
}
