use std::path::{Path, PathBuf};

use ringfence_types::{Denial, DenialKind, DenialSource, Network, ResolvedPolicy};

use crate::error::flag;

/// Bytes at the end of standard error that are searched: a program says last why it gave up.
const SEARCHED: usize = 64 << 10;
/// Guesses that are reported.
const MAX_GUESSES: usize = 8;

/// What an error text of a driver's box can mean.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// EROFS.
    ReadOnly,
    /// EACCES and EPERM.
    Refused,
    /// EBUSY: a pinned path was to be renamed or replaced.
    Busy,
    /// No route, no resolver.
    Unreachable,
}

/// Error texts of glibc, musl, Node and Rust on Linux, in lower case.
const LINUX: &[(&str, Sign)] = &[
    ("read-only file system", Sign::ReadOnly),
    ("permission denied", Sign::Refused),
    ("operation not permitted", Sign::Refused),
    ("device or resource busy", Sign::Busy),
    ("resource busy", Sign::Busy),
    ("network is unreachable", Sign::Unreachable),
    ("address family not supported", Sign::Unreachable),
    ("could not resolve host", Sign::Unreachable),
    ("temporary failure in name resolution", Sign::Unreachable),
    ("name or service not known", Sign::Unreachable),
    ("getaddrinfo eai_again", Sign::Unreachable),
];

/// Denials that error texts hint at, never certain: a program may print anything. A path is reported only if
/// the policy indeed withholds it, so that an ordinary missing right of a granted file is not blamed on the box.
pub(crate) fn from_stderr(stderr: &[u8], backend: &str, policy: &ResolvedPolicy) -> Vec<Denial> {
    // Each driver has texts of its own; those of another system would only mislead.
    let signs = if backend.starts_with("linux/") { LINUX } else { &[] };
    let tail = &stderr[stderr.len().saturating_sub(SEARCHED)..];
    let text = String::from_utf8_lossy(tail);
    let mut found: Vec<Denial> = Vec::new();
    for line in text.lines() {
        let lower = line.to_ascii_lowercase();
        let Some((at, sign)) = signs.iter().find_map(|(text, sign)| Some((lower.find(text)?, *sign))) else {
            continue;
        };
        // Lower-casing ASCII keeps every offset.
        for denial in guesses(line, at, sign, policy) {
            if found.len() < MAX_GUESSES && !found.contains(&denial) {
                found.push(denial);
            }
        }
    }
    found
}

fn guesses(line: &str, at: usize, sign: Sign, policy: &ResolvedPolicy) -> Vec<Denial> {
    if sign == Sign::Unreachable {
        if policy.network == Network::AllowAll {
            return Vec::new();
        }
        return vec![guess(DenialKind::Connect, "network".into(), Some("--net all".into()))];
    }
    let rules = policy.rules();
    let denials = paths(line, at).into_iter().filter_map(|path| {
        let path = policy.cwd.path.join(path);
        let target = path.display().to_string();
        let protected = || {
            let parts = policy.protected.read_only.iter().chain(&policy.protected.pins);
            parts.into_iter().any(|part| path.starts_with(&part.path))
        };
        match sign {
            Sign::ReadOnly | Sign::Busy if protected() => Some(guess(DenialKind::Protected, target, None)),
            Sign::ReadOnly if !rules.may_write(&path) => {
                Some(guess(DenialKind::Write, target, Some(flag("write", parent(&path).display()))))
            }
            Sign::Refused if !rules.may_read(&path) => {
                Some(guess(DenialKind::Read, target, Some(flag("read", path.display()))))
            }
            Sign::Refused if !rules.may_write(&path) => {
                Some(guess(DenialKind::Write, target, Some(flag("write", parent(&path).display()))))
            }
            _ => None,
        }
    });
    denials.collect()
}

fn guess(kind: DenialKind, target: String, allow_with: Option<String>) -> Denial {
    Denial { kind, target, allow_with, source: DenialSource::Stderr, certain: false }
}

/// A file to be created needs its directory.
fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

/// What on the line may be the path: quoted texts, and the field before the error text, as in
/// `cat: /etc/shadow: Permission denied`.
fn paths(line: &str, at: usize) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for quote in ['\'', '"', '`', '\u{2018}'] {
        let close = if quote == '\u{2018}' {
            '\u{2019}'
        } else if quote == '`' {
            '\''
        } else {
            quote
        };
        let mut rest = line;
        while let Some((_, after)) = rest.split_once(quote) {
            let Some((inside, after)) = after.split_once(close) else { break };
            if inside.contains('/') || !inside.contains(' ') {
                found.push(inside);
            }
            rest = after;
        }
    }
    if found.is_empty() {
        let before = line[..at].trim_end_matches([' ', ':', '(']);
        let field = before.rsplit(": ").next().unwrap_or_default();
        found.push(field.rsplit(' ').next().unwrap_or_default());
    }
    let plausible = |path: &&str| !path.is_empty() && !path.contains('\0') && path.len() < 4096;
    found.into_iter().filter(plausible).map(PathBuf::from).collect()
}
