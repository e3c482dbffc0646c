use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What a file system says of one name. Access times are left out: reading is no change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Inode number.
    pub inode: u64,
    /// Type and permission bits.
    pub mode: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Number of names.
    pub links: u64,
    /// Size in bytes; 0 for directories, whose size never shrinks.
    pub size: u64,
    /// Seconds and nanoseconds of the last change of the content.
    pub modified: (i64, i64),
    /// Target of a symlink.
    pub target: Option<PathBuf>,
}

/// Every name at and below a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing(BTreeMap<PathBuf, Entry>);

impl Listing {
    /// Reads the tree at `root`.
    ///
    /// # Panics
    /// If a directory can't be read.
    pub fn of(root: &Path) -> Self {
        let mut entries = BTreeMap::new();
        walk(root, &mut entries);
        Self(entries)
    }

    /// Without what lies at and below `path`, and without the times of its parent.
    pub fn without(mut self, path: &Path) -> Self {
        self.0.retain(|name, _| !name.starts_with(path));
        if let Some(parent) = path.parent().and_then(|parent| self.0.get_mut(parent)) {
            parent.modified = (0, 0);
            parent.links = 0;
        }
        self
    }

    /// One line for each name that was added, removed or changed since `before`.
    pub fn changes(&self, before: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        for (path, entry) in &self.0 {
            match before.0.get(path) {
                None => lines.push(format!("added {} {:o}", path.display(), entry.mode)),
                Some(old) if old != entry => {
                    lines.push(format!("changed {}: {old:?} -> {entry:?}", path.display()));
                }
                Some(_) => {}
            }
        }
        let removed = before.0.keys().filter(|path| !self.0.contains_key(*path));
        lines.extend(removed.map(|path| format!("removed {}", path.display())));
        lines
    }
}

fn walk(path: &Path, entries: &mut BTreeMap<PathBuf, Entry>) {
    let found = fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let entry = Entry {
        inode: found.ino(),
        mode: found.mode(),
        owner: (found.uid(), found.gid()),
        links: found.nlink(),
        size: if found.is_dir() { 0 } else { found.len() },
        modified: (found.mtime(), found.mtime_nsec()),
        target: found.is_symlink().then(|| fs::read_link(path).expect("readlink")),
    };
    entries.insert(path.to_path_buf(), entry);
    if found.is_dir() {
        for below in fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())) {
            walk(&below.expect("entry").path(), entries);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_what_changed() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), "1").unwrap();
        fs::write(dir.path().join("b"), "1").unwrap();
        let before = Listing::of(dir.path());
        assert!(Listing::of(dir.path()).changes(&before).is_empty());
        fs::remove_file(dir.path().join("a")).unwrap();
        fs::write(dir.path().join("b"), "22").unwrap();
        fs::create_dir(dir.path().join("c")).unwrap();
        let changes = Listing::of(dir.path()).changes(&before).join("\n");
        for word in ["removed", "changed", "added"] {
            assert!(changes.contains(word), "{changes}");
        }
        let ignored = Listing::of(dir.path()).without(&dir.path().join("c"));
        assert!(!ignored.changes(&before).join("\n").contains("added"));
    }
}
