use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

use super::checked;

/// Attributes to set on a mount (mount_setattr(2)). Nothing can be cleared: a box only ever gets less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MountAttr {
    /// No writes.
    pub(crate) read_only: bool,
    /// Device nodes don't work.
    pub(crate) no_devices: bool,
    /// With all mounts below.
    pub(crate) recursive: bool,
}

/// mount_setattr(2) on a mount given by descriptor: always `nosuid` and private.
pub(crate) fn set_mount_attributes(mount: impl AsFd, attr: MountAttr) -> Result<(), Errno> {
    let mut set = libc::MOUNT_ATTR_NOSUID;
    if attr.read_only {
        set |= libc::MOUNT_ATTR_RDONLY;
    }
    if attr.no_devices {
        set |= libc::MOUNT_ATTR_NODEV;
    }
    let args = libc::mount_attr { attr_set: set, attr_clr: 0, propagation: libc::MS_PRIVATE, userns_fd: 0 };
    let flags = libc::AT_EMPTY_PATH | if attr.recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a NUL-terminated empty string and `args` is a valid mount_attr of the size passed.
    checked(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const args,
            size_of::<libc::mount_attr>(),
        )
    })?;
    Ok(())
}
