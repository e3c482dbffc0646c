//! The secrets list: what presets deny besides the whole disk that they show.

mod aliases;
mod table;

use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::read_dir;
use std::io;
use std::path::{Path, PathBuf};

pub use table::{SECRETS, Secret, When};

use crate::bounded::{self, Follow};
use crate::host::HostEnv;

/// Paths that one pattern may stand for; more is reported.
const MAX_MATCHES: usize = 256;
/// Entries of a directory that are looked at for one pattern.
const MAX_ENTRIES: usize = 4096;
/// From so many names on, a directory is listed.
const WORTH_LISTING: usize = 4;
/// Bytes of a configuration file that are searched for tokens. A larger file counts as one that holds some.
const MAX_SEARCHED: u64 = 256 << 10;

/// Secrets that exist on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Sorted, without duplicates. Aliases by bind mounts are included.
    pub paths: Vec<PathBuf>,
    /// Patterns that stand for more than is listed.
    pub incomplete: Vec<&'static str>,
}

/// Expands the list against the home directory, the existing files and the mount table.
///
/// The work is bounded: [`Found::incomplete`] names the patterns for which that mattered.
pub fn find(host: &HostEnv) -> Found {
    let home = host.home();
    let mut starts: BTreeMap<PathBuf, Vec<Pattern<'static>>> = BTreeMap::new();
    for secret in SECRETS {
        if let Some((base, rest)) = start(secret.path, home.as_deref(), host) {
            starts.entry(base).or_default().push(Pattern { secret, rest });
        }
    }
    let mut search = Search::default();
    for (base, patterns) in starts {
        search.below(&base, patterns);
    }
    let mut found = Found { incomplete: search.incomplete, ..Found::default() };
    found.incomplete.dedup();
    let matches = search.matches.into_iter().filter(|(secret, path)| applies(secret.when, path));
    found.paths = matches.map(|(_, path)| path).collect();
    sort(&mut found.paths);
    found.paths.extend(aliases::of(&found.paths, &aliases::read_mounts()));
    sort(&mut found.paths);
    found
}

fn sort(paths: &mut Vec<PathBuf>) {
    paths.sort();
    paths.dedup();
}

/// Where the pattern begins, and what remains of it: `/`, `~`, or a variable with a default, written
/// `$NAME/rest|~/default`.
fn start<'a>(pattern: &'a str, home: Option<&Path>, host: &HostEnv) -> Option<(PathBuf, &'a str)> {
    if let Some(rest) = pattern.strip_prefix("~/") {
        return Some((home?.to_path_buf(), rest));
    }
    if let Some((place, default)) = pattern.strip_prefix('$').and_then(|rest| rest.split_once('|')) {
        let (var, rest) = place.split_once('/').unwrap_or((place, ""));
        return match host.path_var(var) {
            Some(path) => Some((path.to_path_buf(), rest)),
            None => start(default, home, host),
        };
    }
    Some((PathBuf::from("/"), pattern.strip_prefix('/')?))
}

/// A row of the list and the part of its path that remains to be looked for.
#[derive(Clone, Copy)]
struct Pattern<'a> {
    secret: &'static Secret,
    rest: &'a str,
}

/// Patterns are looked for together, directory by directory: one listing costs less than asking for each name.
#[derive(Default)]
struct Search {
    matches: Vec<(&'static Secret, PathBuf)>,
    incomplete: Vec<&'static str>,
}

impl Search {
    /// Looks below an existing or missing `base`.
    fn below(&mut self, base: &Path, patterns: Vec<Pattern<'static>>) {
        let mut parts: BTreeMap<&str, Vec<Pattern<'static>>> = BTreeMap::new();
        for pattern in patterns {
            if pattern.rest.is_empty() {
                self.found(pattern.secret, base);
                continue;
            }
            let (part, rest) = pattern.rest.split_once('/').unwrap_or((pattern.rest, ""));
            parts.entry(part).or_default().push(Pattern { rest, ..pattern });
        }
        let wild = parts.keys().any(|part| part.contains('*'));
        let listing = if wild || parts.len() >= WORTH_LISTING { list(base) } else { Listing::default() };
        for (part, patterns) in parts {
            match part.split_once('*') {
                None => {
                    let path = base.join(part);
                    let exists = match listing.complete {
                        true => listing.names.contains(OsStr::new(part)),
                        false => path.symlink_metadata().is_ok(),
                    };
                    if exists {
                        self.exists(&path, patterns);
                    }
                }
                Some((begin, end)) => {
                    if !listing.complete {
                        self.incomplete.extend(patterns.iter().map(|pattern| pattern.secret.path));
                    }
                    let mut matches = listing.names.iter().filter(|name| matches(name, begin, end));
                    for name in matches.by_ref().take(MAX_MATCHES) {
                        self.exists(&base.join(name), patterns.clone());
                    }
                    if matches.next().is_some() {
                        self.incomplete.extend(patterns.iter().map(|pattern| pattern.secret.path));
                    }
                }
            }
        }
    }

    fn exists(&mut self, path: &Path, patterns: Vec<Pattern<'static>>) {
        let (whole, parts): (Vec<_>, Vec<_>) =
            patterns.into_iter().partition(|pattern| pattern.rest.is_empty());
        self.matches.extend(whole.into_iter().map(|pattern| (pattern.secret, path.to_path_buf())));
        if !parts.is_empty() {
            self.below(path, parts);
        }
    }

    /// A pattern that is all base: a variable's own path.
    fn found(&mut self, secret: &'static Secret, path: &Path) {
        if path.symlink_metadata().is_ok() {
            self.matches.push((secret, path.to_path_buf()));
        }
    }
}

/// Names in a directory.
#[derive(Default)]
struct Listing {
    names: HashSet<OsString>,
    /// Whether these are all.
    complete: bool,
}

/// A missing directory has no names; of one that can't be read nothing is known.
fn list(directory: &Path) -> Listing {
    let entries = match read_dir(directory) {
        Ok(entries) => entries,
        Err(error) => {
            let missing = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
            return Listing { names: HashSet::new(), complete: missing.contains(&error.kind()) };
        }
    };
    let mut names = HashSet::new();
    for entry in entries {
        match entry {
            Ok(entry) if names.len() < MAX_ENTRIES => names.insert(entry.file_name()),
            _ => return Listing { names, complete: false },
        };
    }
    Listing { names, complete: true }
}

fn matches(name: &OsStr, begin: &str, end: &str) -> bool {
    let bytes = name.as_encoded_bytes();
    bytes.len() >= begin.len() + end.len()
        && bytes.starts_with(begin.as_bytes())
        && bytes.ends_with(end.as_bytes())
}

fn applies(when: When, path: &Path) -> bool {
    match when {
        When::Always => true,
        When::HoldsToken => holds_token(path),
    }
}

/// Whether a configuration file holds a credential. One that can't be read or is no regular file counts as one
/// that does: the answer then costs only convenience.
fn holds_token(path: &Path) -> bool {
    let Ok(bytes) = bounded::read(path, Follow::Yes, MAX_SEARCHED) else { return true };
    let text = String::from_utf8_lossy(&bytes).to_lowercase();
    table::TOKEN_MARKERS.iter().any(|marker| text.contains(marker))
        || text.split_whitespace().any(has_userinfo)
}

/// `scheme://user:password@host` or `scheme://token@host` (RFC 3986 section 3.2.1).
fn has_userinfo(word: &str) -> bool {
    let Some((_, rest)) = word.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#', '"', '\'', '<']).next().unwrap_or_default();
    authority.contains('@') && !rest.starts_with('@')
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;

    use super::*;

    fn host(home: &Path, extra: &[(&str, &Path)]) -> HostEnv {
        let mut vars = vec![(OsString::from("HOME"), home.as_os_str().to_owned())];
        vars.extend(extra.iter().map(|(name, path)| (OsString::from(name), path.as_os_str().to_owned())));
        HostEnv::new(vars, 1000, PathBuf::from("/nonexistent"))
    }

    /// What is found below the home directory.
    fn below(home: &Path, extra: &[(&str, &Path)]) -> Vec<String> {
        let found = find(&host(home, extra)).paths;
        let relative = found.iter().filter_map(|path| path.strip_prefix(home).ok());
        relative.map(|path| path.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn only_what_exists_is_listed() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        assert!(below(home, &[]).is_empty());
        for path in [".ssh", ".config/google-chrome-beta", ".var/app/org.x/.mozilla"] {
            fs::create_dir_all(home.join(path)).unwrap();
        }
        std::os::unix::fs::symlink("nowhere", home.join(".aws")).unwrap();
        fs::write(home.join(".netrc"), "").unwrap();
        assert_eq!(
            below(home, &[]),
            [".aws", ".config/google-chrome-beta", ".netrc", ".ssh", ".var/app/org.x/.mozilla"]
        );
    }

    #[test]
    fn a_variable_moves_a_secret() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        let moved = home.join("moved");
        fs::create_dir_all(moved.join("below")).unwrap();
        fs::write(moved.join("config.json"), "").unwrap();
        assert_eq!(below(home, &[("DOCKER_CONFIG", &moved)]), ["moved/config.json"]);
        assert_eq!(below(home, &[("GNUPGHOME", &moved)]), ["moved"]);
    }

    #[test]
    fn configuration_is_denied_only_if_it_holds_a_credential() {
        let dir = tempfile::tempdir().unwrap();
        let npmrc = dir.path().join(".npmrc");
        for (text, denied) in [
            ("registry=https://mirror.example/npm/\n", false),
            ("//mirror.example/:_authToken=npm_x\n", true),
            ("registry=https://user:pass@mirror.example/\n", true),
            ("registry=https://mirror.example/@scope/\n", false),
            ("_password = cGFzcw==\n", true),
        ] {
            fs::write(&npmrc, text).unwrap();
            assert_eq!(below(dir.path(), &[]) == [".npmrc"], denied, "{text}");
        }
        fs::write(&npmrc, vec![b'#'; MAX_SEARCHED as usize + 1]).unwrap();
        assert_eq!(below(dir.path(), &[]), [".npmrc"], "too large to look through");
        fs::remove_file(&npmrc).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &npmrc, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert_eq!(below(dir.path(), &[]), [".npmrc"], "a pipe does not block the search");
    }

    #[test]
    fn the_search_is_bounded_and_says_so() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..=MAX_MATCHES {
            fs::create_dir_all(dir.path().join(format!(".config/opera{number}"))).unwrap();
        }
        let found = find(&host(dir.path(), &[]));
        assert_eq!(found.incomplete, ["~/.config/opera*"]);
    }

    #[test]
    fn rows_are_well_formed() {
        for Secret { path, why, .. } in SECRETS {
            assert!(!why.is_empty());
            let default = path.rsplit('|').next().unwrap();
            assert!(default.starts_with("~/") || default.starts_with('/'), "{path}");
            assert!(
                !default.ends_with('/') && default.split('/').all(|part| part.matches('*').count() < 2),
                "{path}"
            );
        }
    }
}
