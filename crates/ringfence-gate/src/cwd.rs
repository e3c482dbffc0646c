//! The working directory: proven to lie inside the workspace.

use std::io;
use std::path::{Path, PathBuf};

use ringfence_types::{PathKind, Protected, ResolvedPath};
use rustix::fs::{Mode, OFlags};

use crate::protected;
use crate::resolve::{Resolver, open_path};

/// Why a working directory was refused.
#[derive(Debug, thiserror::Error)]
pub enum CwdError {
    /// It leads out of the workspace.
    #[error("cwd outside workspace root: {} is not below {}", .cwd.display(), .root.display())]
    Outside {
        /// Canonical working directory.
        cwd: PathBuf,
        /// Canonical workspace root.
        root: PathBuf,
    },
    /// It lies in a protected directory.
    #[error("cwd {} is inside the protected directory {}", .cwd.display(), .protected.display())]
    Protected {
        /// Canonical working directory.
        cwd: PathBuf,
        /// What protects it.
        protected: PathBuf,
    },
    /// It does not exist, is no directory, or can't be entered.
    #[error("cannot use {} as working directory", .cwd.display())]
    Io {
        /// As asked.
        cwd: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// Follows `cwd`, which counts from the workspace's root, and checks that it lies there. `None` is the root.
pub(crate) fn resolve(root: &ResolvedPath, cwd: Option<&Path>) -> Result<ResolvedPath, CwdError> {
    // The root itself, spelled as it is, has been compared with what the session started in.
    let Some(cwd) = cwd.filter(|cwd| *cwd != root.path) else { return Ok(root.clone()) };
    let fail = |source: io::Error| CwdError::Io { cwd: cwd.to_path_buf(), source };
    let fd = open_path(&root.path.join(cwd), OFlags::DIRECTORY).map_err(|errno| fail(errno.into()))?;
    // Only who may search a directory may work in it.
    let search = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(&fd, ".", search, Mode::empty()).map_err(|errno| fail(errno.into()))?;
    let found = Resolver::once(&root.path).examine(fd).map_err(fail)?.path;
    if !found.path.starts_with(&root.path) {
        return Err(CwdError::Outside { cwd: found.path, root: root.path.clone() });
    }
    Ok(found)
}

/// Refuses a working directory inside a protected directory below the workspace's root.
pub(crate) fn check_protected(
    root: &ResolvedPath,
    cwd: &ResolvedPath,
    protected: &Protected,
) -> Result<(), CwdError> {
    let read_only = || {
        let directories = protected.read_only.iter().filter(|path| path.kind == PathKind::Directory);
        let mut directories = directories.map(|path| &path.path).filter(|path| **path != root.path);
        directories.find(|path| cwd.path.starts_with(path)).cloned()
    };
    match protected::enclosing_git_dir(&root.path, &cwd.path).or_else(read_only) {
        Some(protected) => Err(CwdError::Protected { cwd: cwd.path.clone(), protected }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn workspace() -> (tempfile::TempDir, ResolvedPath) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap().join("root");
        std::fs::create_dir_all(path.join("sub/deep")).unwrap();
        std::fs::create_dir(path.with_file_name("root-twin")).unwrap();
        let root = Resolver::new(Path::new("/")).grant(&path).unwrap().path;
        (directory, root)
    }

    fn at(root: &ResolvedPath, cwd: &str) -> Result<PathBuf, CwdError> {
        resolve(root, Some(Path::new(cwd))).map(|found| found.path)
    }

    #[test]
    fn lies_below_the_root_by_components() {
        let (_directory, root) = workspace();
        assert_eq!(resolve(&root, None).unwrap(), root);
        assert_eq!(at(&root, ".").unwrap(), root.path);
        assert_eq!(at(&root, "sub/deep/..").unwrap(), root.path.join("sub"));
        assert_eq!(at(&root, root.path.join("sub").to_str().unwrap()).unwrap(), root.path.join("sub"));
        for outside in ["..", "/", "../root-twin", "sub/../.."] {
            assert!(matches!(at(&root, outside), Err(CwdError::Outside { .. })), "{outside}");
        }
        let message = at(&root, "..").unwrap_err().to_string();
        assert!(message.starts_with("cwd outside workspace root"), "{message}");
    }

    #[test]
    fn symlinks_do_not_escape() {
        let (_directory, root) = workspace();
        symlink("/", root.path.join("out")).unwrap();
        symlink("sub", root.path.join("in")).unwrap();
        assert!(matches!(at(&root, "out"), Err(CwdError::Outside { .. })));
        assert!(matches!(at(&root, "out/usr"), Err(CwdError::Outside { .. })));
        assert_eq!(at(&root, "in/deep").unwrap(), root.path.join("sub/deep"));
    }

    #[test]
    fn exists_and_can_be_entered() {
        let (_directory, root) = workspace();
        std::fs::write(root.path.join("file"), "").unwrap();
        for (cwd, kind) in [("none", io::ErrorKind::NotFound), ("file", io::ErrorKind::NotADirectory)] {
            assert!(
                matches!(at(&root, cwd), Err(CwdError::Io { source, .. }) if source.kind() == kind),
                "{cwd}"
            );
        }
        let locked = root.path.join("sub/deep");
        std::fs::set_permissions(&locked, Permissions::from_mode(0o600)).unwrap();
        let entered = at(&root, "sub/deep");
        if rustix::process::geteuid().is_root() {
            assert!(entered.is_ok(), "root may search every directory");
        } else {
            assert!(matches!(entered, Err(CwdError::Io { .. })));
        }
    }

    #[test]
    fn is_not_inside_a_protected_directory() {
        let (_directory, root) = workspace();
        let directory =
            |path: &str| ResolvedPath { path: root.path.join(path), kind: PathKind::Directory, id: None };
        let protected = Protected {
            read_only: vec![directory(".vscode"), directory("bare/hooks")],
            ..Protected::default()
        };
        let refused = |path: &str| check_protected(&root, &directory(path), &protected).is_err();
        for path in [".git", ".git/hooks", "sub/.git/objects", ".vscode", "bare/hooks/x"] {
            assert!(refused(path), "{path}");
        }
        for path in ["", "sub", ".github", "bare", ".vscode2"] {
            assert!(!refused(path), "{path}");
        }
    }
}
