use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use proptest::prelude::*;

use super::*;

/// A directory with these files, each with its folders; a path that ends in `/` is a folder.
fn tree(files: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    for file in files {
        let path = root.join(file);
        let folder = if file.ends_with('/') { &path } else { path.parent().unwrap() };
        std::fs::create_dir_all(folder).unwrap();
        if !file.ends_with('/') {
            std::fs::write(&path, "").unwrap();
        }
    }
    (directory, root)
}

fn expand(root: &Path, patterns: &[&str]) -> Result<Vec<String>, ResolveError> {
    expand_around(root, patterns, &[])
}

/// With what these grants open again.
fn expand_around(root: &Path, patterns: &[&str], grants: &[&str]) -> Result<Vec<String>, ResolveError> {
    let resolver = Resolver::new(root);
    let grants: Vec<PathBuf> = grants.iter().map(|path| root.join(path)).collect();
    let patterns: Vec<PathBuf> = patterns.iter().map(PathBuf::from).collect();
    let grants = grants.iter().map(PathBuf::as_path);
    let found = Expander::new(&resolver, &root.join(".own"), grants).resolve(&patterns)?;
    let shown = |path: &ResolvedPath| {
        let relative = path.path.strip_prefix(root).unwrap_or(&path.path);
        relative.to_string_lossy().into_owned()
    };
    let mut found: Vec<String> = found.iter().map(shown).collect();
    found.sort();
    Ok(found)
}

#[test]
fn patterns_mean_what_they_mean_elsewhere() {
    let (_directory, root) = tree(&[
        "a.pem",
        ".b.pem",
        "b.pem.txt",
        "A.PEM",
        "sub/c.pem",
        "sub/deep/d.pem",
        "sub/deep/e1.key",
        "sub/e2.key",
        "own/x",
        "own/.y",
        "own/in/z",
    ]);
    for (pattern, found) in [
        ("*.pem", &[".b.pem", "a.pem"][..]),
        ("**/*.pem", &[".b.pem", "a.pem", "sub/c.pem", "sub/deep/d.pem"]),
        ("**.pem", &[".b.pem", "a.pem"]),
        ("sub/*.pem", &["sub/c.pem"]),
        ("./sub//*.pem/", &["sub/c.pem"]),
        ("sub/**/*.pem", &["sub/c.pem", "sub/deep/d.pem"]),
        ("**/deep", &["sub/deep"]),
        ("**/dee?", &["sub/deep"]),
        ("**/deep/*", &["sub/deep/d.pem", "sub/deep/e1.key"]),
        ("**/e[0-9].key", &["sub/deep/e1.key", "sub/e2.key"]),
        ("**/e[!1].key", &["sub/e2.key"]),
        ("sub/{c.pem,e2.key,absent}", &["sub/c.pem", "sub/e2.key"]),
        ("own/**", &["own/.y", "own/in", "own/x"]),
        ("**/*.none", &[]),
        ("absent/**/*.pem", &[]),
        ("a.pem/*", &[]),
    ] {
        assert_eq!(expand(&root, &[pattern]).unwrap(), found, "{pattern}");
        let absolute = root.join(pattern);
        assert_eq!(expand(&root, &[absolute.to_str().unwrap()]).unwrap(), found, "{pattern} in full");
    }
}

#[test]
fn a_denied_directory_takes_what_is_below_along() {
    let (_directory, root) = tree(&["x.d/inner/x.d", "y/x.d/"]);
    assert_eq!(expand(&root, &["**/*.d"]).unwrap(), ["x.d", "y/x.d"]);
}

#[test]
fn what_a_grant_opens_again_is_searched_too() {
    let (_directory, root) =
        tree(&["x.d/y.d", "x.d/in/y.d", "x.d/in/z.d/deep", "x.d/in/z.d/on/w.d", "x.d/out/y.d", "x.d.txt"]);
    for (grants, found) in [
        (&["x.d"][..], &["x.d"][..]),
        (&["x.d/y.d"], &["x.d", "x.d/y.d"]),
        (&["x.d/in"], &["x.d", "x.d/in/y.d", "x.d/in/z.d"]),
        (&["x.d/in/z.d/on"], &["x.d", "x.d/in/z.d", "x.d/in/z.d/on/w.d"]),
        (&["x.d.txt", "absent/below"], &["x.d"]),
    ] {
        assert_eq!(expand_around(&root, &["**/*.d"], grants).unwrap(), found, "{grants:?}");
    }
}

#[test]
fn what_is_spelled_like_the_pattern_does_not_take_its_meaning_away() {
    let (_directory, root) = tree(&["**/*.pem", "sub/a.pem", "[ab]/x", "a/x", "c/x", "{/y", "z*/y", "zz/y"]);
    assert_eq!(expand(&root, &["**/*.pem"]).unwrap(), ["**/*.pem", "**/*.pem", "sub/a.pem"]);
    assert_eq!(expand(&root, &["[ab]/x"]).unwrap(), ["[ab]/x", "[ab]/x", "a/x"]);
    assert_eq!(expand(&root, &["z*/y"]).unwrap(), ["z*/y", "z*/y", "zz/y"]);
    assert_eq!(expand(&root, &["{/y"]).unwrap(), ["{/y"], "no pattern, and there");
    assert_eq!(expand(&root, &["\\[ab\\]/x"]).unwrap(), ["[ab]/x"], "escaped");
}

#[test]
fn the_workspaces_own_name_is_no_pattern() {
    let (_directory, parent) = tree(&["w[1]/a.pem", "w1/a.pem"]);
    let root = parent.join("w[1]");
    assert_eq!(expand(&root, &["*.pem"]).unwrap(), ["a.pem"]);
    assert_eq!(expand(&root, &[root.join("*.pem").to_str().unwrap()]).unwrap(), ["a.pem"]);
}

#[test]
fn symlinks_are_not_walked_through_and_lead_to_what_they_deny() {
    let (_directory, root) = tree(&["real/a.pem", "real/key", "outside/b.pem"]);
    symlink("outside", root.join("walk")).unwrap();
    symlink("../real/key", root.join("outside/c.pem")).unwrap();
    symlink("nowhere", root.join("d.pem")).unwrap();
    symlink("/dev/null", root.join("e.pem")).unwrap();
    assert_eq!(expand(&root, &["w*/*.pem"]).unwrap(), [""; 0]);
    assert_eq!(
        expand(&root, &["walk/b*.pem"]).unwrap(),
        ["outside/b.pem"],
        "a name before the pattern is followed"
    );
    assert_eq!(expand(&root, &["**/*.pem"]).unwrap(), ["outside/b.pem", "real/a.pem", "real/key"]);
}

#[test]
fn what_belongs_to_git_or_to_ringfence_is_left_out() {
    let (_directory, root) =
        tree(&[".git/refs/heads/x.pem", "sub/.git/x.pem", ".own/x.pem", ".gitlab/x.pem", ".github/x.pem"]);
    assert_eq!(expand(&root, &["**/*.pem"]).unwrap(), [".github/x.pem", ".gitlab/x.pem"]);
    assert_eq!(expand(&root, &["**/.git/*.pem"]).unwrap(), ["sub/.git/x.pem"], "named");
    assert_eq!(expand(&root, &[".git/**/*.pem"]).unwrap(), [".git/refs/heads/x.pem"], "named");
}

#[test]
fn names_may_hold_any_byte() {
    let (_directory, root) = tree(&[]);
    for name in [&b"new\nline.pem"[..], b"\xff.pem", b" .pem"] {
        std::fs::write(root.join(OsStr::from_bytes(name)), "").unwrap();
    }
    assert_eq!(expand(&root, &["*.pem"]).unwrap().len(), 3);
    assert_eq!(expand(&root, &["n?w\nline.pem"]).unwrap(), ["new\nline.pem"]);
    let pattern = PathBuf::from(OsStr::from_bytes(b"\xff*"));
    let refused = Expander::new(&Resolver::new(&root), &root, []).resolve([&pattern]).unwrap_err();
    assert!(refused.to_string().contains("it is not UTF-8"), "{refused}");
}

#[test]
fn what_has_no_meaning_is_refused() {
    let (_directory, root) = tree(&[]);
    for pattern in ["[", "a[b", "{a", "sub/{a,b/c}", "[z-a]", "x*\\"] {
        let refused = expand(&root, &[pattern]).unwrap_err();
        assert!(matches!(refused, ResolveError::Pattern { .. }), "{pattern}: {refused:?}");
        assert!(refused.hint().is_some());
    }
    assert!(matches!(expand(&root, &["../*.pem"]), Err(ResolveError::ParentComponent(_))));
}

#[test]
fn the_cost_is_bounded() {
    let (_directory, root) = tree(&["a/1.x", "a/2.x", "b/3.x", "b/4.y"]);
    let resolver = Resolver::new(&root);
    let patterns = [PathBuf::from("a/*.x"), PathBuf::from("b/*.x")];
    for (entries, matches, fits) in [(4, 3, true), (3, 3, false), (4, 2, false)] {
        let mut expander = Expander::new(&resolver, &root, []);
        (expander.entries.limit, expander.matches.limit) = (entries, matches);
        match expander.resolve(&patterns) {
            Ok(found) => assert!(fits && found.len() == 3),
            Err(refused) => {
                assert!(!fits && matches!(refused, ResolveError::PatternTooWide { .. }), "{refused}");
                assert!(refused.to_string().starts_with("pattern b/*.x is too wide"), "{refused}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The walk finds what the pattern as a whole matches, whatever the tree.
    #[test]
    fn the_walk_agrees_with_the_library(
        paths in prop::collection::btree_set("[ab](/[ab]{1,2}){0,3}", 1..12),
        pattern in "([ab*?]{1,2}|\\*\\*)(/([ab*?]{1,2}|\\*\\*)){0,3}",
    ) {
        let files: Vec<String> = paths
            .iter()
            .filter(|path| !paths.iter().any(|other| other.starts_with(&format!("{path}/"))))
            .cloned()
            .collect();
        let (_directory, root) = tree(&files.iter().map(String::as_str).collect::<Vec<_>>());
        let whole = GlobBuilder::new(&pattern).literal_separator(true).build().unwrap().compile_matcher();
        let denied = |path: &str, found: &[String]| {
            found.iter().any(|denial| Path::new(path).starts_with(denial))
        };
        prop_assume!(is_pattern(Path::new(&pattern)));
        let found = expand(&root, &[&pattern]).unwrap();
        for file in &files {
            let matches = Path::new(file)
                .ancestors()
                .filter(|path| !path.as_os_str().is_empty())
                .any(|path| whole.is_match(path));
            prop_assert_eq!(denied(file, &found), matches, "{} in {:?} by {:?}", file, found, pattern);
        }
    }

    /// The deepest rule that covers a path decides, whatever lies between: a match is a denial as deep as itself.
    #[test]
    fn a_grant_opens_what_no_match_as_deep_denies(
        paths in prop::collection::btree_set("[ab](/[ab]{1,2}){1,4}", 1..12),
        pattern in "([ab*?]{1,2}|\\*\\*)(/([ab*?]{1,2}|\\*\\*)){0,2}",
        chosen in prop::collection::vec((any::<prop::sample::Index>(), 1_usize..5), 0..4),
    ) {
        prop_assume!(is_pattern(Path::new(&pattern)));
        let files: Vec<&str> = paths
            .iter()
            .filter(|path| !paths.iter().any(|other| other.starts_with(&format!("{path}/"))))
            .map(String::as_str)
            .collect();
        let (_directory, root) = tree(&files);
        let grants: Vec<PathBuf> = chosen
            .iter()
            .map(|(index, depth)| Path::new(index.get(&files)).components().take(*depth).collect())
            .collect();
        let names: Vec<&str> = grants.iter().filter_map(|path| path.to_str()).collect();
        let found = expand_around(&root, &[&pattern], &names).unwrap();
        let whole = GlobBuilder::new(&pattern).literal_separator(true).build().unwrap().compile_matcher();
        let depth = |path: &Path| path.components().count();
        for file in &files {
            let above = || Path::new(file).ancestors().filter(|path| !path.as_os_str().is_empty());
            let granted = above().find(|path| grants.iter().any(|grant| grant == path)).map(depth);
            let matched = above().find(|path| whole.is_match(path)).map(depth);
            let denied = above().find(|path| found.iter().any(|denial| Path::new(denial) == *path)).map(depth);
            prop_assert_eq!(
                granted > denied, granted > matched,
                "{} in {:?} by {:?} with {:?}: {:?}", file, files, pattern, grants, found
            );
            prop_assert_eq!(denied.is_some(), matched.is_some());
        }
    }
}
