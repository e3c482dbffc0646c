//! The secrets list: what presets deny besides the whole disk that they show.

mod aliases;
mod table;

use std::fs::read_dir;
use std::path::{Path, PathBuf};

pub use table::{SECRETS, Secret, When};

use crate::bounded::{self, Follow};
use crate::host::HostEnv;

/// Paths that one pattern may stand for; more is reported.
const MAX_MATCHES: usize = 256;
/// Entries of a directory that are looked at for one pattern.
const MAX_ENTRIES: usize = 4096;
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
    let mut found = Found::default();
    let home = host.home();
    for secret in SECRETS {
        let Some(start) = start(secret.path, home.as_deref(), host) else { continue };
        let mut matches = Vec::new();
        if !expand(&start.base, start.pattern, &mut matches) {
            found.incomplete.push(secret.path);
        }
        found.paths.extend(matches.into_iter().filter(|path| applies(secret.when, path)));
    }
    found.paths.sort();
    found.paths.dedup();
    let aliases = aliases::of(&found.paths, &aliases::read_mounts());
    found.paths.extend(aliases);
    found.paths.sort();
    found.paths.dedup();
    found
}

struct Start<'a> {
    base: PathBuf,
    pattern: &'a str,
}

/// Where the pattern begins: `/`, `~` or a variable with a default, written `$NAME/rest|~/default`.
fn start<'a>(pattern: &'a str, home: Option<&Path>, host: &HostEnv) -> Option<Start<'a>> {
    if let Some(rest) = pattern.strip_prefix("~/") {
        return Some(Start { base: home?.to_path_buf(), pattern: rest });
    }
    if let Some((place, default)) = pattern.strip_prefix('$').and_then(|rest| rest.split_once('|')) {
        let (var, rest) = place.split_once('/').unwrap_or((place, ""));
        return match host.path_var(var) {
            Some(path) => Some(Start { base: path.to_path_buf(), pattern: rest }),
            None => start(default, home, host),
        };
    }
    Some(Start { base: PathBuf::from("/"), pattern: pattern.strip_prefix('/')? })
}

/// Adds the existing paths that match; `false` if there are more than the bounds allow.
fn expand(base: &Path, pattern: &str, out: &mut Vec<PathBuf>) -> bool {
    if pattern.is_empty() {
        if base.symlink_metadata().is_ok() {
            out.push(base.to_path_buf());
        }
        return true;
    }
    let (part, rest) = pattern.split_once('/').unwrap_or((pattern, ""));
    let Some((begin, end)) = part.split_once('*') else {
        return expand(&base.join(part), rest, out);
    };
    let Ok(entries) = read_dir(base) else { return true };
    for (number, entry) in entries.flatten().enumerate() {
        if number == MAX_ENTRIES || out.len() == MAX_MATCHES {
            return false;
        }
        let name = entry.file_name();
        let bytes = name.as_encoded_bytes();
        let long_enough = bytes.len() >= begin.len() + end.len();
        let matches = long_enough && bytes.starts_with(begin.as_bytes()) && bytes.ends_with(end.as_bytes());
        if matches && !expand(&entry.path(), rest, out) {
            return false;
        }
    }
    true
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
