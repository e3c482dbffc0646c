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
        // The proxy knows for certain what it refused.
        if policy.network != Network::None {
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

#[cfg(test)]
mod tests {
    use ringfence_types::{PathKind, Protected, ResolvedPath, WorkspaceAccess};

    use super::*;

    fn at(path: &str) -> ResolvedPath {
        ResolvedPath { path: path.into(), kind: PathKind::Directory, id: None }
    }

    /// The whole disk readable, `/w` writable, `/home/u/.ssh` denied, `/w/.git/config` protected.
    fn policy() -> ResolvedPolicy {
        ResolvedPolicy {
            workspace: at("/w"),
            workspace_owner: None,
            workspace_access: WorkspaceAccess::Write,
            cwd: at("/w/sub"),
            read: vec![at("/")],
            write: Vec::new(),
            deny: vec![at("/home/u/.ssh")],
            deny_patterns: Vec::new(),
            deny_linked: Vec::new(),
            deny_incomplete: Vec::new(),
            network: Network::None,
            deny_hosts: Vec::new(),
            internal_hosts: Vec::new(),
            loopback_ports: Vec::new(),
            publish: Vec::new(),
            loopback: true,
            spawn: true,
            unix_sockets: Vec::new(),
            devices: Vec::new(),
            max_memory_mb: None,
            max_processes: None,
            timeout_secs: None,
            private_home: None,
            host_tmpdir: None,
            session_tmp: None,
            caches: Vec::new(),
            protected: Protected { read_only: vec![at("/w/.git/config")], ..Protected::default() },
            rlimits: Default::default(),
            proxy: Default::default(),
            linux: Default::default(),
        }
    }

    fn one(stderr: &str) -> Option<(DenialKind, String, Option<String>)> {
        let mut found = from_stderr(stderr.as_bytes(), "linux/native", &policy());
        assert!(found.len() < 2, "{found:?}");
        found.pop().map(|denial| {
            assert_eq!((denial.source, denial.certain), (DenialSource::Stderr, false));
            (denial.kind, denial.target, denial.allow_with)
        })
    }

    #[test]
    fn the_ways_in_which_programs_say_it() {
        for (text, kind, target, flag) in [
            (
                "touch: cannot touch '/etc/x': Read-only file system",
                DenialKind::Write,
                "/etc/x",
                Some("--write /etc"),
            ),
            (
                "sh: 1: cannot create /etc/x: Read-only file system",
                DenialKind::Write,
                "/etc/x",
                Some("--write /etc"),
            ),
            (
                "OSError: [Errno 30] Read-only file system: '/opt/a b'",
                DenialKind::Write,
                "/opt/a b",
                Some("--write /opt"),
            ),
            (
                "Error: EROFS: read-only file system, mkdir '/opt/x'",
                DenialKind::Write,
                "/opt/x",
                Some("--write /opt"),
            ),
            (
                "cat: /home/u/.ssh/id: Permission denied",
                DenialKind::Read,
                "/home/u/.ssh/id",
                Some("--read /home/u/.ssh/id"),
            ),
            (
                "PermissionError: [Errno 13] Permission denied: '/home/u/.ssh'",
                DenialKind::Read,
                "/home/u/.ssh",
                Some("--read /home/u/.ssh"),
            ),
            (
                "error: could not write config file /w/.git/config: Device or resource busy",
                DenialKind::Protected,
                "/w/.git/config",
                None,
            ),
            (
                "curl: (6) Could not resolve host: example.org",
                DenialKind::Connect,
                "network",
                Some("--net all"),
            ),
            ("connect: Network is unreachable", DenialKind::Connect, "network", Some("--net all")),
        ] {
            assert_eq!(one(text), Some((kind, target.to_owned(), flag.map(String::from))), "{text}");
        }
    }

    #[test]
    fn a_granted_path_is_not_blamed_on_the_box() {
        assert_eq!(one("cat: /w/locked: Permission denied"), None);
        assert_eq!(one("cat: locked: Permission denied"), None, "relative to the working directory");
        assert_eq!(one("mount of /w is a read-only file system"), None);
        assert_eq!(one("all is well"), None);
        assert_eq!(one("Permission denied"), None);
    }

    #[test]
    fn the_search_is_bounded_and_repeats_nothing() {
        let line = "touch: cannot touch '/etc/x': Read-only file system\n";
        assert_eq!(from_stderr(line.repeat(50).as_bytes(), "linux/native", &policy()).len(), 1);
        let many: String =
            (0..50).map(|n| format!("touch: cannot touch '/etc/{n}': Read-only file system\n")).collect();
        assert_eq!(from_stderr(many.as_bytes(), "linux/native", &policy()).len(), MAX_GUESSES);
        let early = [line.as_bytes(), &vec![b'.'; SEARCHED]].concat();
        assert!(from_stderr(&early, "linux/native", &policy()).is_empty());
        assert!(from_stderr(&[0xff; 100], "linux/native", &policy()).is_empty());
        assert!(from_stderr(line.as_bytes(), "windows/acl", &policy()).is_empty(), "texts of another driver");
    }
}
