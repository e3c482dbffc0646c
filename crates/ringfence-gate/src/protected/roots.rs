use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ringfence_types::ResolvedPath;

/// Where the box can write: writable roots and what is denied below them. A question about a path costs its
/// depth, and of the number of roots only the logarithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Roots {
    roots: Vec<PathBuf>,
    deny: Vec<PathBuf>,
    /// Both by their bytes, which costs less than by components.
    rules: BTreeMap<OsString, Rule>,
}

/// What is said of one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rule {
    root: bool,
    denied: bool,
}

impl Roots {
    pub(super) fn new(roots: &[PathBuf], deny: &[ResolvedPath]) -> Self {
        Self::of(roots.to_vec(), deny.iter().map(|path| path.path.clone()).collect())
    }

    pub(super) fn of(mut roots: Vec<PathBuf>, deny: Vec<PathBuf>) -> Self {
        roots.sort();
        roots.dedup();
        let mut rules: BTreeMap<OsString, Rule> = BTreeMap::new();
        let normal = |path: &PathBuf| path.components().collect::<PathBuf>().into_os_string();
        roots.iter().for_each(|root| rules.entry(normal(root)).or_default().root = true);
        deny.iter().for_each(|path| rules.entry(normal(path)).or_default().denied = true);
        Self { roots, deny, rules }
    }

    pub(super) fn denied(&self) -> &[PathBuf] {
        &self.deny
    }

    /// All roots, parents before children.
    pub(super) fn all(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Roots that have to be searched: those that do not lie in another one.
    pub(super) fn outermost(&self) -> impl Iterator<Item = &Path> {
        let inside = |root: &Path| root.ancestors().skip(1).any(|ancestor| self.is_root(ancestor));
        self.roots.iter().map(PathBuf::as_path).filter(move |root| !inside(root))
    }

    /// Whether the box can write at `path`: the deepest rule that covers it decides; at equal depth deny wins.
    pub(super) fn reach(&self, path: &Path) -> bool {
        path.ancestors().find_map(|path| self.rule(path)).is_some_and(|rule| !rule.denied)
    }

    /// Whether `path` is denied, or lies below what is, with no root in between.
    pub(super) fn denies(&self, path: &Path) -> bool {
        path.ancestors().find_map(|path| self.rule(path)).is_some_and(|rule| rule.denied)
    }

    pub(super) fn is_root(&self, path: &Path) -> bool {
        self.rule(path).is_some_and(|rule| rule.root)
    }

    /// What is said of `path` itself, which has no component more than it needs.
    fn rule(&self, path: &Path) -> Option<Rule> {
        debug_assert_eq!(
            path.as_os_str(),
            path.components().collect::<PathBuf>(),
            "spelled in the plain way"
        );
        self.rules.get(path.as_os_str()).copied()
    }

    /// Whether a root lies at or below `path`, so that `path` can't be made read-only.
    pub(super) fn holds_root(&self, path: &Path) -> bool {
        // Paths are ordered by components, so what lies below one follows it.
        let next = self.roots.partition_point(|root| root.as_path() < path);
        self.roots.get(next).is_some_and(|root| root.starts_with(path))
    }

    /// The directories strictly between the outermost root above `path` and `path`, parents first, without
    /// those that are roots, which are mount points already.
    pub(super) fn between<'p>(&self, path: &'p Path) -> Vec<&'p Path> {
        let Some(root) = path.ancestors().skip(1).filter(|ancestor| self.is_root(ancestor)).last() else {
            return Vec::new();
        };
        let mut between: Vec<_> = path
            .ancestors()
            .skip(1)
            .take_while(|ancestor| *ancestor != root)
            .filter(|ancestor| !self.is_root(ancestor))
            .collect();
        between.reverse();
        between
    }
}

#[cfg(test)]
mod tests {
    use ringfence_types::PathKind;

    use super::*;

    fn roots(roots: &[&str], deny: &[&str]) -> Roots {
        let roots: Vec<_> = roots.iter().map(PathBuf::from).collect();
        let deny: Vec<_> = deny
            .iter()
            .map(|path| ResolvedPath { path: path.into(), kind: PathKind::Directory, id: None })
            .collect();
        Roots::new(&roots, &deny)
    }

    #[test]
    fn the_deepest_rule_decides() {
        let roots = roots(&["/w", "/w/a/b"], &["/w/a", "/w/same", "/w/same"]);
        assert!(roots.reach(Path::new("/w/x")));
        assert!(!roots.reach(Path::new("/w/a/x")));
        assert!(roots.reach(Path::new("/w/a/b/x")));
        assert!(!roots.reach(Path::new("/w/same")));
        let denied =
            ["/w/a/x", "/w/same", "/w/a/b/x", "/w/x", "/x"].map(|path| roots.denies(Path::new(path)));
        assert_eq!(denied, [true, true, false, false, false]);
        assert!(!roots.reach(Path::new("/wx")));
        assert_eq!(roots.outermost().collect::<Vec<_>>(), [Path::new("/w")]);
    }

    #[test]
    fn between_leaves_out_roots() {
        let roots = roots(&["/w", "/w/a/b"], &[]);
        let between = roots.between(Path::new("/w/a/b/c/d"));
        assert_eq!(between, [Path::new("/w/a"), Path::new("/w/a/b/c")]);
        assert!(roots.between(Path::new("/w")).is_empty());
        assert!(roots.between(Path::new("/x/y")).is_empty());
        assert!(roots.holds_root(Path::new("/w/a")));
        assert!(!roots.holds_root(Path::new("/w/c")));
    }
}
