//! What the readers of the single tools share: files and whether they can be believed, programs, and the findings.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ringfence_types::UnixPath;

use super::{PackageHost, Packages, Site, Source, Target, url};
use crate::bounded::{self, Follow};
use crate::host::HostEnv;

/// Bytes of a configuration file; a longer one is not read.
const MAX_CONFIG: u64 = 1 << 20;
/// Bytes of a lock file.
const MAX_LOCK: u64 = 16 << 20;
/// Different hosts that files of the workspace may name; more are not listed.
const MAX_WANTED: usize = 50;

/// The findings so far, and what they rest on.
pub(super) struct Survey<'a> {
    pub(super) host: &'a HostEnv,
    pub(super) workspace: &'a Path,
    hidden: &'a [PathBuf],
    /// Each root of what a command may write, as it is named and as it resolves.
    writable: Vec<PathBuf>,
    found: Packages,
}

/// Whether what a file says counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// It is the user's or the machine's, and no command may write it.
    Granted,
    /// A command, or somebody else, may have written it.
    Wanted,
}

/// A configuration file that was read.
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
    pub(super) trust: Trust,
    /// Whether the tool inside can't read it.
    pub(super) hidden: bool,
}

impl ConfigFile {
    pub(super) fn source(&self) -> Source {
        Source::File(UnixPath::from(self.path.as_path()))
    }

    pub(super) fn counts(&self) -> bool {
        self.trust == Trust::Granted
    }
}

impl<'a> Survey<'a> {
    pub(super) fn new(host: &'a HostEnv, site: Site<'a>) -> Self {
        let named = || std::iter::once(site.workspace).chain(site.writable.iter().map(PathBuf::as_path));
        let resolved = named().filter_map(|root| root.canonicalize().ok());
        let writable = named().map(Path::to_path_buf).chain(resolved).collect();
        Self { host, workspace: site.workspace, hidden: site.hidden, writable, found: Packages::default() }
    }

    pub(super) fn finish(self) -> Packages {
        self.found
    }

    /// A configuration file; `None` if it is missing or can't be read, which is noted.
    pub(super) fn config(&mut self, path: &Path) -> Option<ConfigFile> {
        self.read(path, MAX_CONFIG)
    }

    /// A lock file of the workspace.
    pub(super) fn lock(&mut self, name: &str) -> Option<ConfigFile> {
        let path = self.workspace.join(name);
        self.read(&path, MAX_LOCK)
    }

    fn read(&mut self, path: &Path, limit: u64) -> Option<ConfigFile> {
        // A missing file is the usual case.
        path.symlink_metadata().ok()?;
        let inside = self.is_writable(path);
        let follow = if inside { Follow::No } else { Follow::Yes };
        let bytes = match bounded::read(path, follow, limit) {
            Ok(bytes) => bytes,
            Err(_) => {
                self.gap(&format!("{} can't be read", UnixPath::from(path)));
                return None;
            }
        };
        let trust = if inside { Trust::Wanted } else { self.trust(path) };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let hidden = self.hidden.iter().any(|hidden| path.starts_with(hidden));
        Some(ConfigFile { path: path.to_owned(), text, trust, hidden })
    }

    fn trust(&self, path: &Path) -> Trust {
        let Ok(resolved) = path.canonicalize() else { return Trust::Wanted };
        let own = resolved.metadata().is_ok_and(|found| {
            let users = found.uid() == self.host.uid();
            // What is the user's own may have a name in a place that a command writes too.
            let elsewhere = users && found.is_file() && found.nlink() > 1;
            (users || found.uid() == 0) && found.mode() & 0o002 == 0 && !elsewhere
        });
        if own && !self.is_writable(&resolved) { Trust::Granted } else { Trust::Wanted }
    }

    /// Whether a command may write this path.
    pub(super) fn is_writable(&self, path: &Path) -> bool {
        self.writable.iter().any(|root| path.starts_with(root))
    }

    /// A program in `PATH`, with all symlinks followed. What a command may write is passed over.
    pub(super) fn program(&self, name: &str) -> Option<PathBuf> {
        self.programs(name).next()
    }

    /// All programs of that name in `PATH`.
    pub(super) fn programs(&self, name: &str) -> impl Iterator<Item = PathBuf> {
        let path = self.host.var("PATH").map(OsString::from).unwrap_or_default();
        let places: Vec<PathBuf> = std::env::split_paths(&path).collect();
        places.into_iter().filter(|place| place.is_absolute()).filter_map(move |place| {
            let at = place.join(name).canonicalize().ok()?;
            (at.is_file() && self.is_believable(&at)).then_some(at)
        })
    }

    /// Whether an installed file is the machine's or the user's own.
    pub(super) fn is_believable(&self, path: &Path) -> bool {
        self.trust(path) == Trust::Granted
    }

    /// A variable as text.
    pub(super) fn variable(&self, name: &str) -> Option<&'a str> {
        self.host.var(name)?.to_str()
    }

    /// `XDG_CONFIG_HOME` or `~/.config` (XDG Base Directory Specification).
    pub(super) fn config_home(&self) -> Option<PathBuf> {
        let named = self.host.path_var("XDG_CONFIG_HOME").map(Path::to_path_buf);
        named.or_else(|| Some(self.host.home()?.join(".config")))
    }

    /// A URL that a file names; one without a host is passed over.
    pub(super) fn url(&mut self, tool: &'static str, text: &str, file: &ConfigFile) {
        self.add(tool, url::target(text), file.trust, file.source());
    }

    /// A URL of the environment.
    pub(super) fn url_of_variable(&mut self, tool: &'static str, text: &str, name: &str) {
        self.add(tool, url::target(text), Trust::Granted, Source::Variable(name.to_owned()));
    }

    /// Adds what is named, once.
    pub(super) fn add(&mut self, tool: &'static str, target: Option<Target>, trust: Trust, source: Source) {
        let Some(target) = target else { return };
        let known = |list: &[PackageHost]| list.iter().any(|named| named.target == target);
        let list = match trust {
            Trust::Granted => &mut self.found.granted,
            Trust::Wanted if self.found.wanted.len() < MAX_WANTED => &mut self.found.wanted,
            Trust::Wanted => return,
        };
        if !known(list) {
            list.push(PackageHost { tool, target, source });
        }
    }

    /// Something that is not known or not followed.
    pub(super) fn gap(&mut self, text: &str) {
        if !self.found.gaps.iter().any(|gap| gap == text) {
            self.found.gaps.push(text.to_owned());
        }
    }

    /// A tool's own setting of a proxy. Ringfence's connections go through the proxy that the environment names.
    pub(super) fn own_proxy(&mut self, tool: &str, file: &ConfigFile) {
        let known = ["https_proxy", "HTTPS_PROXY", "http_proxy", "all_proxy", "ALL_PROXY"];
        if file.counts() && known.iter().all(|name| self.host.var(name).is_none()) {
            let path = UnixPath::from(file.path.as_path());
            self.gap(&format!(
                "the proxy that {path} names for {tool} is not used: set https_proxy for Ringfence's connections"
            ));
        }
    }

    /// A variable for the tool inside, without logins that its value's URLs hold.
    pub(super) fn tell(&mut self, name: &str, value: &str) {
        let clean: Option<Vec<String>> = value.split_whitespace().map(url::without_login).collect();
        let Some(clean) = clean.map(|clean| clean.join(" ")) else {
            return self.gap(&format!("{name} may hold a login, so the tool inside is not told of it"));
        };
        if clean.split_whitespace().ne(value.split_whitespace()) {
            self.gap(&format!("the login in {name} stays outside: what needs it is refused by its host"));
        }
        self.found.env.push((OsString::from(name), OsString::from(clean)));
    }

    /// Passes variables of the host on, by [`Self::tell`].
    pub(super) fn pass(&mut self, names: &[&str]) {
        for name in names {
            if let Some(value) = self.variable(name) {
                self.tell(name, value);
            }
        }
    }
}

/// The texts that stand in quotes after a marker, wherever it occurs.
pub(super) fn quoted_after<'t>(text: &'t str, marker: &'static str) -> impl Iterator<Item = &'t str> {
    text.split(marker).skip(1).filter_map(|rest| rest.split(['"', '\n']).next())
}

/// Paths of a directory's entries, sorted; a missing directory has none.
pub(super) fn entries_of(directory: &Path) -> Vec<PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;
    /// A directory of installed versions has fewer.
    const MAX_ENTRIES: usize = 1000;
    let mut paths = Vec::new();
    bounded::names_in(directory, MAX_ENTRIES, |name| {
        paths.push(directory.join(std::ffi::OsStr::from_bytes(name)));
    });
    paths.sort();
    paths
}
