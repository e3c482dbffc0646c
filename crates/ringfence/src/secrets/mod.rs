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
        if long_enough && bytes.starts_with(begin.as_bytes()) && bytes.ends_with(end.as_bytes()) {
            if !expand(&entry.path(), rest, out) {
                return false;
            }
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
