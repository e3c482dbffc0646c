use std::collections::HashSet;
use std::path::Path;

use super::{BUILTIN, Builtin};
use crate::bounded;

/// A directory with more entries is not listed: asking for each marker then costs less.
const WORTH_LISTING: usize = 200;

/// The built-in profiles whose files lie directly in `workspace`, in the order of [`BUILTIN`]. An unreadable
/// workspace has none.
pub fn detect(workspace: &Path) -> Vec<&'static Builtin> {
    let mut names = HashSet::new();
    let complete = bounded::names_in(workspace, WORTH_LISTING, |name| {
        names.insert(name.to_vec());
    });
    let present = |marker: &&str| match complete {
        true => names.contains(marker.as_bytes()),
        false => workspace.join(marker).symlink_metadata().is_ok(),
    };
    BUILTIN.iter().filter(|profile| profile.markers.iter().any(present)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(workspace: &Path) -> Vec<&'static str> {
        detect(workspace).into_iter().map(|profile| profile.name).collect()
    }

    #[test]
    fn profiles_follow_the_files() {
        let dir = tempfile::tempdir().unwrap();
        assert!(names(dir.path()).is_empty());
        std::fs::write(dir.path().join("package.json"), "{}").unwrap();
        std::fs::create_dir(dir.path().join(".git")).unwrap();
        std::fs::write(dir.path().join("Cargo.toml.orig"), "").unwrap();
        assert_eq!(names(dir.path()), ["node", "git"]);
        std::fs::write(dir.path().join("Cargo.toml"), "").unwrap();
        assert_eq!(names(dir.path()), ["rust", "node", "git"]);
    }

    #[test]
    fn a_large_workspace_is_no_different() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..=WORTH_LISTING {
            std::fs::write(dir.path().join(format!("file{number}")), "").unwrap();
        }
        assert!(names(dir.path()).is_empty());
        std::fs::write(dir.path().join("go.mod"), "").unwrap();
        assert_eq!(names(dir.path()), ["go"]);
    }

    #[test]
    fn a_marker_below_the_top_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        std::fs::write(dir.path().join("sub/go.mod"), "").unwrap();
        assert!(names(dir.path()).is_empty());
        assert!(names(&dir.path().join("absent")).is_empty());
    }
}
