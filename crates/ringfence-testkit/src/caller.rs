use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// User and group id of the unprivileged caller when the tests run as root. No account has it.
pub const UNPRIVILEGED_ID: u32 = 41_234;

/// Who calls Ringfence. Root hides permission bugs, so that tests run as both where they can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Caller {
    /// Root, if the tests run as root.
    Root,
    /// An ordinary user: one without an account if the tests run as root, else whoever runs them.
    User,
}

impl Caller {
    /// The callers that this process can be.
    pub fn all() -> Vec<Self> {
        if is_root() { vec![Self::Root, Self::User] } else { vec![Self::User] }
    }

    /// User id.
    pub fn uid(self) -> u32 {
        match self {
            Self::Root => 0,
            Self::User if is_root() => UNPRIVILEGED_ID,
            Self::User => rustix::process::getuid().as_raw(),
        }
    }

    /// Group id.
    pub fn gid(self) -> u32 {
        match self {
            Self::Root => 0,
            Self::User if is_root() => UNPRIVILEGED_ID,
            Self::User => rustix::process::getgid().as_raw(),
        }
    }

    /// A command that runs as this caller, without supplementary groups if it is another one than the tests'.
    pub fn command(self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        if self == Self::User && is_root() {
            command.uid(UNPRIVILEGED_ID).gid(UNPRIVILEGED_ID);
        }
        command
    }

    /// Gives `root` and all below to this caller.
    ///
    /// # Panics
    /// If a file can't be given.
    pub fn own(self, root: &Path) {
        if !is_root() {
            return;
        }
        std::os::unix::fs::lchown(root, Some(self.uid()), Some(self.gid())).expect("chown");
        if root.symlink_metadata().expect("lstat").is_dir() {
            for entry in std::fs::read_dir(root).expect("read_dir") {
                self.own(&entry.expect("entry").path());
            }
        }
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
