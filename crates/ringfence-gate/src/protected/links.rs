//! Following a path while noting the symlinks on the way, each of which must stay what it is.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use ringfence_types::PathKind;

use super::stat::Stat;

/// As the kernel's own limit (path_resolution(7)).
const MAX_LINKS: usize = 40;

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Without symlinks, `.` and `..`, as far as it exists.
    pub(super) path: PathBuf,
    /// What lies there; `None` if nothing does.
    pub(super) stat: Option<Stat>,
    /// Symlinks that were followed, in order.
    pub(super) links: Vec<PathBuf>,
}

/// Follows `relative` from the canonical directory `base`. An absolute `relative` starts at the root.
///
/// # Errors
/// Too many links, or a component that can't be looked up for another reason than that it is missing.
pub(super) fn follow(base: &Path, relative: &Path) -> io::Result<Target> {
    let mut path = base.to_path_buf();
    let mut links = Vec::new();
    let mut rest = VecDeque::new();
    prepend(&mut rest, relative);
    let mut stat = None;
    let mut missing = false;
    while let Some(part) = rest.pop_front() {
        match part {
            Part::Root => {
                path = PathBuf::from("/");
                stat = None;
                missing = false;
            }
            Part::Up => {
                path.pop();
                stat = None;
                // Above a missing component nothing is known to be missing; the next lookup tells.
                missing = false;
            }
            Part::Name(name) => {
                path.push(name);
                if missing {
                    continue;
                }
                stat = Stat::find(&path)?;
                match &stat {
                    None => missing = true,
                    Some(found) if found.kind == PathKind::Symlink => {
                        let target = std::fs::read_link(&path)?;
                        links.push(path.clone());
                        if links.len() > MAX_LINKS {
                            return Err(rustix::io::Errno::LOOP.into());
                        }
                        path.pop();
                        prepend(&mut rest, &target);
                        stat = None;
                    }
                    Some(_) => {}
                }
            }
        }
    }
    if stat.is_none() && !missing {
        stat = Stat::find(&path)?;
    }
    Ok(Target { path, stat, links })
}

enum Part {
    Root,
    Up,
    Name(OsString),
}

fn prepend(rest: &mut VecDeque<Part>, path: &Path) {
    for component in path.components().rev() {
        match component {
            Component::RootDir => rest.push_front(Part::Root),
            Component::ParentDir => rest.push_front(Part::Up),
            Component::Normal(name) => rest.push_front(Part::Name(name.to_os_string())),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn notes_every_link_on_the_way() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().canonicalize().unwrap();
        std::fs::create_dir_all(dir.join("a/b")).unwrap();
        symlink("a", dir.join("one")).unwrap();
        symlink(dir.join("one/b"), dir.join("two")).unwrap();
        let target = follow(&dir, Path::new("two/../b/./c/d")).unwrap();
        assert_eq!(target.path, dir.join("a/b/c/d"));
        assert_eq!(target.stat, None);
        assert_eq!(target.links, [dir.join("two"), dir.join("one")]);
        let target = follow(&dir, Path::new("two")).unwrap();
        assert!(target.stat.unwrap().is_dir());
        assert_eq!(follow(&dir, Path::new("")).unwrap().path, dir);
        assert_eq!(follow(&dir, Path::new("/")).unwrap().path, Path::new("/"));
    }

    #[test]
    fn a_loop_is_an_error() {
        let temp = tempfile::tempdir().unwrap();
        symlink("b", temp.path().join("a")).unwrap();
        symlink("a", temp.path().join("b")).unwrap();
        assert!(follow(temp.path(), Path::new("a/x")).is_err());
    }
}
