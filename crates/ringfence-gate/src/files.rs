//! Directories and files that are Ringfence's own.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use ringfence_types::Owner;
use rustix::fs::Mode;

/// Creates what is missing of `path` with mode 0700, whatever the umask, and returns its canonical path.
pub(crate) fn private_directory(path: &Path) -> io::Result<PathBuf> {
    if let Ok(canonical) = path.canonicalize()
        && canonical.is_dir()
    {
        return Ok(canonical);
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        private_directory(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        // A umask that takes the owner's rights away would lock us out.
        Ok(()) => std::fs::set_permissions(path, Permissions::from_mode(0o700))?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    path.canonicalize()
}

/// Takes every right of others away from a directory that was found, be it that its box gave them: mode 0700.
/// `directory` may have been opened with `O_PATH`.
pub(crate) fn close_to_others(directory: impl AsFd) -> io::Result<()> {
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&directory)?.st_mode);
    if mode == Mode::RWXU {
        return Ok(());
    }
    // A path descriptor can't be changed itself (open(2)), but what it leads to can.
    let link = format!("/proc/self/fd/{}", directory.as_fd().as_raw_fd());
    Ok(rustix::fs::chmod(link, Mode::RWXU)?)
}

/// [`private_directory`] of a name in a canonical directory: canonical itself, unless it is a symlink.
pub(crate) fn private_directory_below(canonical: &Path, name: &str) -> io::Result<PathBuf> {
    let path = canonical.join(name);
    if path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Ok(path);
    }
    private_directory(&path)
}

/// Creates a file with mode 0600, whatever the umask, opened for reading and writing. It must not exist.
pub(crate) fn private_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Where root runs a command as the workspace's owner, that owner has to be able to use the directory.
pub(crate) fn give_to(path: &Path, owner: Option<Owner>) -> io::Result<()> {
    let Some(owner) = owner.filter(|_| rustix::process::geteuid().is_root()) else { return Ok(()) };
    let metadata = path.symlink_metadata()?;
    if metadata.uid() == owner.uid && metadata.gid() == owner.gid {
        return Ok(());
    }
    std::os::unix::fs::lchown(path, Some(owner.uid), Some(owner.gid))
}

/// Removes a tree that a box has written. No process of the box is left; directories that it made unreadable
/// are opened first.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_directories(path)?;
            std::fs::remove_dir_all(path)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn open_directories(path: &Path) -> io::Result<()> {
    std::fs::set_permissions(path, Permissions::from_mode(0o700))?;
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_directories(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b/c");
        let canonical = private_directory(&path).unwrap();
        assert_eq!(canonical, path.canonicalize().unwrap());
        for path in [&path, path.parent().unwrap()] {
            assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o700);
        }
        assert!(private_directory(&path).is_ok(), "again");
    }

    #[test]
    fn a_directory_that_others_may_write_is_closed_to_them() {
        let directory = tempfile::tempdir().unwrap();
        for mode in [0o777, 0o1777, 0o2755, 0o500, 0o000, 0o700] {
            std::fs::set_permissions(directory.path(), Permissions::from_mode(mode)).unwrap();
            let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY;
            let fd = rustix::fs::open(directory.path(), flags, Mode::empty()).unwrap();
            close_to_others(fd).unwrap();
            assert_eq!(directory.path().metadata().unwrap().mode() & 0o7777, 0o700, "{mode:o}");
        }
    }

    #[test]
    fn a_symlink_in_its_place_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        let canonical = directory.path().canonicalize().unwrap();
        let made = private_directory_below(&canonical, "made").unwrap();
        assert_eq!(made, canonical.join("made"));
        assert_eq!(private_directory_below(&canonical, "made").unwrap(), made, "again");
        std::os::unix::fs::symlink("made", canonical.join("link")).unwrap();
        assert_eq!(private_directory_below(&canonical, "link").unwrap(), made);
    }

    #[test]
    fn a_file_in_the_way_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(private_directory(&file.join("below")).is_err());
    }

    #[test]
    fn trees_with_unreadable_directories_go_and_symlinks_are_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (tree, outside) = (directory.path().join("tree"), directory.path().join("outside"));
        std::fs::create_dir_all(tree.join("locked/inner")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("kept"), "").unwrap();
        std::os::unix::fs::symlink(&outside, tree.join("link")).unwrap();
        std::fs::set_permissions(tree.join("locked"), Permissions::from_mode(0o0)).unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists() && outside.join("kept").exists());
        assert!(remove_tree(&tree).is_ok(), "nothing to remove");
    }
}
