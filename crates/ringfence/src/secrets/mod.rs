//! The secrets list: what presets deny besides the whole disk that they show.

mod aliases;
mod order;
mod table;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
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
    let homes = host.homes();
    let moved: Vec<_> = BASES.iter().filter_map(|&(base, var)| Some((base, host.path_var(var)?))).collect();
    let mut search = Search::default();
    let (mut at_home, mut at_root) = (Vec::with_capacity(SECRETS.len()), Vec::with_capacity(SECRETS.len()));
    for secret in order::BY_COMPONENT.iter().map(|&row| &SECRETS[usize::from(row)]) {
        starts(secret.path, host, &moved, &mut |start, rest| match start {
            Start::Home => at_home.push(Pattern { secret, rest }),
            Start::Root => at_root.push(Pattern { secret, rest }),
            Start::At(base) => search.start(base, Pattern { secret, rest }),
        });
    }
    for home in &homes {
        search.below(home, &at_home, 0);
    }
    search.below(Path::new("/"), &at_root, 0);
    let mut found = Found { incomplete: search.incomplete, ..Found::default() };
    found.incomplete.dedup();
    let matches = search.matches.into_iter().filter(|(secret, path)| applies(secret.when, path));
    found.paths = matches.map(|(_, path)| path).filter(|path| !is_the_boxs_own(path)).collect();
    sort(&mut found.paths);
    found.paths.extend(aliases::of(&found.paths, &aliases::MountTable::read().mounts()));
    sort(&mut found.paths);
    found
}

fn sort(paths: &mut Vec<PathBuf>) {
    paths.sort();
    paths.dedup();
}

/// Where a pattern begins.
enum Start<'a> {
    Home,
    Root,
    At(&'a Path),
}

/// Directories of the user's that may lie elsewhere (XDG Base Directory Specification).
const BASES: [(&str, &str); 4] = [
    (".cache/", "XDG_CACHE_HOME"),
    (".config/", "XDG_CONFIG_HOME"),
    (".local/share/", "XDG_DATA_HOME"),
    (".local/state/", "XDG_STATE_HOME"),
];

/// Calls `found` with each place where the pattern begins, and what remains of it: `/`, `~`, or a variable with a
/// default, written `$NAME/rest|~/default`. What lies at a default stays a secret where a variable leads elsewhere.
/// `moved` are those of the [`BASES`] that a variable names, and their paths.
fn starts<'a>(
    pattern: &'static str,
    host: &'a HostEnv,
    moved: &[(&str, &'a Path)],
    found: &mut dyn FnMut(Start<'a>, &'static str),
) {
    if let Some(rest) = pattern.strip_prefix("~/") {
        for (base, path) in moved {
            if let Some(rest) = rest.strip_prefix(base) {
                found(Start::At(path), rest);
            }
        }
        found(Start::Home, rest);
    } else if let Some((place, default)) = pattern.strip_prefix('$').and_then(|rest| rest.split_once('|')) {
        let (var, rest) = place.split_once('/').unwrap_or((place, ""));
        for path in paths(host, var) {
            found(Start::At(path), rest);
        }
        starts(default, host, moved, found);
    } else {
        found(Start::Root, pattern.trim_start_matches('/'));
    }
}

/// Variables that hold several paths, separated by `:`.
const LISTS: [&str; 1] = ["KUBECONFIG"];

/// The absolute paths of a variable.
fn paths<'a>(host: &'a HostEnv, var: &str) -> impl Iterator<Item = &'a Path> {
    let is_list = LISTS.contains(&var);
    let value = host.var(var).map(OsStr::as_bytes).unwrap_or_default();
    let parts = value.split(move |&byte| is_list && byte == b':');
    parts.map(|part| Path::new(OsStr::from_bytes(part))).filter(|path| path.is_absolute())
}

/// Whether a path leads to what no box shares with the host: a history that is linked to `/dev/null`, a variable
/// that names it.
fn is_the_boxs_own(path: &Path) -> bool {
    path.canonicalize().is_ok_and(|target| {
        ["/dev", "/proc"].iter().any(|own| target.starts_with(own))
            || ["/tmp", "/run"].iter().any(|own| target == Path::new(own))
    })
}

/// A row of the list and its path without the place where it begins.
#[derive(Clone, Copy)]
struct Pattern {
    secret: &'static Secret,
    rest: &'static str,
}

impl Pattern {
    /// The component that begins at `from`.
    fn part(self, from: usize) -> &'static str {
        let rest = &self.rest[from..];
        &rest[..rest.bytes().position(|byte| byte == b'/').unwrap_or(rest.len())]
    }
}

/// Patterns are looked for together, directory by directory: one listing costs less than asking for each name.
#[derive(Default)]
struct Search {
    matches: Vec<(&'static Secret, PathBuf)>,
    incomplete: Vec<&'static str>,
}

impl Search {
    /// Looks for one pattern that begins at a variable's path, which may be all of it.
    fn start(&mut self, base: &Path, pattern: Pattern) {
        if !pattern.rest.is_empty() {
            self.below(base, &[pattern], 0);
        } else if base.symlink_metadata().is_ok() {
            self.exists(base, &[pattern]);
        }
    }

    /// Looks in `base` for the components of the patterns that begin at `from`. Those that have one in common lie side by
    /// side.
    fn below(&mut self, base: &Path, patterns: &[Pattern], from: usize) {
        let mut parts: Vec<Part<'_>> = Vec::with_capacity(patterns.len());
        let mut first = 0;
        for (at, pattern) in patterns.iter().enumerate() {
            let name = pattern.part(from);
            match parts.last_mut().filter(|last| last.name == name) {
                Some(last) => last.patterns = &patterns[first..=at],
                None => {
                    first = at;
                    parts.push(Part { name, patterns: &patterns[at..=at] });
                }
            }
        }
        let mut found: Vec<(usize, OsString)> = Vec::new();
        let wild: Vec<Wild> =
            parts.iter().enumerate().filter_map(|(at, part)| Wild::new(at, part.name)).collect();
        if wild.is_empty() && parts.len() < WORTH_LISTING {
            ask_for_each(base, &parts, &mut found);
        } else {
            let mut begins = [false; 256];
            parts.iter().for_each(|part| begins[usize::from(part.name.as_bytes()[0])] = true);
            let complete = bounded::names_in(base, MAX_ENTRIES, |name| {
                let search = || parts.binary_search_by(|part| part.name.as_bytes().cmp(name)).ok();
                // Most names begin otherwise than all that is looked for.
                let same = begins[usize::from(name[0])].then(search).flatten();
                let alike = wild.iter().filter(|part| part.matches(name)).map(|part| part.at);
                for at in same.into_iter().chain(alike) {
                    found.push((at, OsStr::from_bytes(name).to_owned()));
                }
            });
            if !complete {
                ask_for_each(base, &parts, &mut found);
                let unknown = wild.iter().flat_map(|part| parts[part.at].patterns);
                self.incomplete.extend(unknown.map(|pattern| pattern.secret.path));
            }
        }
        found.sort();
        found.dedup();
        for names in found.chunk_by(|one, other| one.0 == other.0) {
            let Part { name: part, patterns } = parts[names[0].0];
            if names.len() > MAX_MATCHES {
                self.incomplete.extend(patterns.iter().map(|pattern| pattern.secret.path));
            }
            let ends = patterns.partition_point(|pattern| pattern.rest.len() == from + part.len());
            for (_, name) in names.iter().take(MAX_MATCHES) {
                let path = base.join(name);
                self.exists(&path, &patterns[..ends]);
                if ends < patterns.len() {
                    self.below(&path, &patterns[ends..], from + part.len() + 1);
                }
            }
        }
    }

    fn exists(&mut self, path: &Path, patterns: &[Pattern]) {
        self.matches.extend(patterns.iter().map(|pattern| (pattern.secret, path.to_path_buf())));
    }
}

/// Patterns with the same next component.
#[derive(Clone, Copy)]
struct Part<'a> {
    name: &'static str,
    patterns: &'a [Pattern],
}

/// Adds the parts that exist.
fn ask_for_each(base: &Path, parts: &[Part<'_>], found: &mut Vec<(usize, OsString)>) {
    for (at, part) in parts.iter().enumerate().filter(|(_, part)| !part.name.contains('*')) {
        if base.join(part.name).symlink_metadata().is_ok() {
            found.push((at, part.name.into()));
        }
    }
}

/// A part with one `*`: its number, and what stands around that.
struct Wild {
    at: usize,
    begin: &'static [u8],
    end: &'static [u8],
}

impl Wild {
    fn new(at: usize, part: &'static str) -> Option<Self> {
        let (begin, end) = part.split_once('*')?;
        Some(Self { at, begin: begin.as_bytes(), end: end.as_bytes() })
    }

    fn matches(&self, name: &[u8]) -> bool {
        name.len() >= self.begin.len() + self.end.len()
            && name.starts_with(self.begin)
            && name.ends_with(self.end)
    }
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
    let Ok(mut bytes) = bounded::read(path, Follow::Yes, MAX_SEARCHED) else { return true };
    bytes.make_ascii_lowercase();
    let text = String::from_utf8_lossy(&bytes);
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
    fn components_are_looked_for_one_by_one() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        // In the order of bytes this lies between `.config` and `.config/`.
        for path in [".config-old/gh", ".config/gh", ".config/git", ".docker", ".aws/credentials.d"] {
            fs::create_dir_all(home.join(path)).unwrap();
        }
        for path in [".config/git/credentials", ".aws/credentials"] {
            fs::write(home.join(path), "").unwrap();
        }
        assert_eq!(below(home, &[]), [".aws", ".aws/credentials", ".config/gh", ".config/git/credentials"]);
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
        let both = format!("{0}/below:{0}/config.json", moved.display());
        assert_eq!(below(home, &[("KUBECONFIG", Path::new(&both))]), ["moved/below", "moved/config.json"]);
        fs::write(home.join("npm"), "_auth = x").unwrap();
        assert_eq!(below(home, &[("npm_config_userconfig", &home.join("npm"))]), ["npm"]);
    }

    #[test]
    fn what_lies_at_the_usual_place_stays_a_secret() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        let (moved, config) = (home.join("moved"), home.join("xdg"));
        for path in [".gnupg", "moved", "xdg/gh", ".config/gh", "xdg/fossil"] {
            fs::create_dir_all(home.join(path)).unwrap();
        }
        assert_eq!(
            below(home, &[("GNUPGHOME", &moved), ("XDG_CONFIG_HOME", &config)]),
            [".config/gh", ".gnupg", "moved", "xdg/gh"]
        );
        // The home directory that HOME leads away from.
        let passwd = home.join("passwd");
        fs::write(&passwd, format!("u:x:1000:1000::{}:/bin/sh\n", home.display())).unwrap();
        let away = HostEnv::new(vec![("HOME".into(), moved.into())], 1000, passwd);
        assert_eq!(find(&away).paths.iter().filter(|path| path.ends_with(".gnupg")).count(), 1);
    }

    #[test]
    fn what_leads_into_the_boxs_own_is_no_secret() {
        let dir = tempfile::tempdir().unwrap();
        for (name, target) in [
            (".bash_history", "/dev/null"),
            (".python_history", "/proc/self/fd"),
            (".aws", "/tmp"),
            (".netrc", "kept"),
            (".psql_history", "nowhere"),
        ] {
            std::os::unix::fs::symlink(target, dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("kept"), "").unwrap();
        let null = Path::new("/dev/null");
        assert_eq!(
            below(dir.path(), &[("NPM_CONFIG_USERCONFIG", null), ("HISTFILE", null)]),
            [".netrc", ".psql_history"]
        );
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
