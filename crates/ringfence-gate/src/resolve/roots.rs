use std::path::{Path, PathBuf};

/// Trees that belong to the system: neither they nor, by default, anything below them is a writable root.
const SYSTEM_TREES: [&str; 13] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys",
    "/usr",
];

/// Below these of the above people do keep their own files.
const OWN_BELOW: [&str; 5] = ["/dev/shm", "/run/media", "/run/user", "/usr/local/src", "/usr/src"];

/// Directories that many share: no writable roots themselves, but what lies below may be one.
const SHARED: [&str; 14] = [
    "/home",
    "/media",
    "/mnt",
    "/nix",
    "/opt",
    "/srv",
    "/tmp",
    "/var",
    "/var/cache",
    "/var/lib",
    "/var/log",
    "/var/spool",
    "/var/tmp",
    "/root",
];

/// Whether a box that may write below the canonical path `root` could change more than one person's project:
/// the whole disk, a home directory or what lies above it, the system.
pub(crate) fn is_dangerous(root: &Path, homes: &[PathBuf]) -> bool {
    let system = SYSTEM_TREES.iter().any(|tree| root.starts_with(tree))
        && !OWN_BELOW.iter().any(|own| root.starts_with(own) && root != Path::new(own));
    root.parent().is_none()
        || system
        || SHARED.iter().any(|shared| root == Path::new(shared))
        || homes.iter().any(|home| home.starts_with(root))
        || is_runtime_directory(root)
}

/// `/run/user/UID`, where a user's session keeps its sockets.
fn is_runtime_directory(root: &Path) -> bool {
    root.parent() == Some(Path::new("/run/user"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_that_more_than_one_project_shares_are_dangerous() {
        let home = &[PathBuf::from("/home/u")];
        for root in [
            "/", "/home", "/home/u", "/etc", "/etc/x", "/usr", "/usr/bin", "/usr/src", "/tmp", "/var",
            "/root",
        ] {
            assert!(is_dangerous(Path::new(root), home), "{root}");
        }
        for root in ["/run/user/1000", "/dev/shm", "/proc/self", "/boot/efi", "/run"] {
            assert!(is_dangerous(Path::new(root), home), "{root}");
        }
        for root in
            ["/home/u/src", "/home/v", "/usr/src/app", "/tmp/x", "/dev/shm/x", "/opt/app", "/var/lib/ci/w"]
        {
            assert!(!is_dangerous(Path::new(root), home), "{root}");
        }
        for root in ["/run/user/1000/x", "/srv/www", "/binary", "/root/x", "/rootless"] {
            assert!(!is_dangerous(Path::new(root), home), "{root}");
        }
    }

    #[test]
    fn a_home_elsewhere_counts_with_its_ancestors() {
        let home = &[PathBuf::from("/home/u"), PathBuf::from("/data/people/u")];
        assert!(is_dangerous(Path::new("/data/people"), home));
        assert!(!is_dangerous(Path::new("/data/people"), &[]));
    }
}
