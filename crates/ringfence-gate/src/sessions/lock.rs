use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

/// Shows other processes that a session is in use: a shared lock (flock(2)) on a file of its own, which the
/// kernel drops with the process. Whoever wants to remove what a session has on disk needs it exclusively.
#[derive(Debug)]
pub(super) struct SessionLock {
    file: File,
    path: PathBuf,
}

impl SessionLock {
    /// Marks the session as in use. Waits for a removal that is under way.
    pub(super) fn shared(path: &Path) -> io::Result<Self> {
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            let file = options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed()).open(path)?;
            let metadata = file.metadata()?;
            if metadata.mode() & 0o600 != 0o600 {
                // A umask that takes the owner's rights away would lock the next user out.
                file.set_permissions(Permissions::from_mode(0o600))?;
            }
            rustix::fs::flock(&file, FlockOperation::LockShared)?;
            // The file may have been removed between its opening and the lock; then nobody would find it.
            match path.symlink_metadata() {
                Ok(now) if (now.dev(), now.ino()) == (metadata.dev(), metadata.ino()) => {
                    return Ok(Self { file, path: path.to_path_buf() });
                }
                _ => continue,
            }
        }
    }

    /// Runs `remove` and removes the lock's file, unless another process has the session in use; then nothing
    /// is done.
    pub(super) fn remove_if_last(&self, remove: impl FnOnce() -> io::Result<()>) -> io::Result<bool> {
        match rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        }
        remove()?;
        std::fs::remove_file(&self.path)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_user_removes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let first = SessionLock::shared(&path).unwrap();
        let second = SessionLock::shared(&path).unwrap();
        assert!(!first.remove_if_last(|| panic!("in use")).unwrap());
        drop(first);
        let mut removed = false;
        assert!(
            second
                .remove_if_last(|| {
                    removed = true;
                    Ok(())
                })
                .unwrap()
        );
        assert!(removed && !path.exists());
        assert!(SessionLock::shared(&path).is_ok(), "the session may start again");
    }

    #[test]
    fn a_symlink_is_no_lock() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        assert!(SessionLock::shared(&path).is_err());
    }
}
