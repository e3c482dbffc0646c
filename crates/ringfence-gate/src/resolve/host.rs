use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfence_types::{PathKind, Protected, ResolvedPath, ResolvedPolicy};
use rustix::fs::OFlags;

use super::pins::PinBudget;
use super::{Resolver, open_path, roots};
use crate::config::GateConfig;
use crate::{files, identity};

/// What is the same for all requests on a host.
#[derive(Debug)]
pub(crate) struct Host {
    /// Canonical `RINGFENCE_HOME`.
    pub(crate) home: PathBuf,
    /// Its directory for indexes, locks, journals and private temps.
    pub(crate) state: PathBuf,
    /// The name by which it is known, if that is a symlink.
    home_link: Option<PathBuf>,
    /// Canonical home directories of the caller.
    pub(crate) user_homes: Vec<PathBuf>,
    /// Canonical `TMPDIR` of the host.
    pub(crate) tmpdir: Option<PathBuf>,
    /// Programs that no box may write.
    executables: Vec<PathBuf>,
    /// Descriptors that may be held.
    pub(crate) budget: Arc<PinBudget>,
}

impl Host {
    /// Looks at the host. Creates `RINGFENCE_HOME`.
    pub(crate) fn new(config: &GateConfig) -> io::Result<Self> {
        let home = files::private_directory(&config.home)?;
        let state = files::private_directory_below(&home, "state")?;
        // A canonical path is no symlink.
        let is_link = home != config.home && config.home.symlink_metadata()?.is_symlink();
        let home_link = is_link.then(|| config.home.clone());
        let canonical = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        let user_homes: Vec<PathBuf> = config.user_homes.iter().map(canonical).collect();
        // A private temp over a directory that holds more than temporary files would hide them.
        let tmpdir = config.host_tmpdir.as_ref().and_then(|path| path.canonicalize().ok()).filter(|path| {
            let temp = ["/tmp", "/var/tmp", "/dev/shm"].iter().any(|temp| path == Path::new(temp));
            temp || !roots::is_dangerous(path, &user_homes)
        });
        let executables = config.executables.clone();
        Ok(Self { home, state, home_link, user_homes, tmpdir, executables, budget: PinBudget::of_process() })
    }

    /// Whether a canonical path is one of Ringfence's own.
    pub(crate) fn owns(&self, path: &Path) -> bool {
        path.starts_with(&self.home)
    }

    /// Ringfence's own files inside writable roots: its program is read-only, and where its home is known by a
    /// symlink, the symlink stays.
    pub(crate) fn own_files(&self, policy: &ResolvedPolicy, resolver: &Resolver<'_>) -> Protected {
        let rules = policy.rules();
        let mut protected = Protected::default();
        let programs = self.executables.iter().filter_map(|path| resolver.grant(path).ok());
        let read_only = programs.map(|found| found.path).filter(|path| rules.may_write(&path.path));
        protected.read_only.extend(read_only.filter(|path| path.kind != PathKind::Missing));
        if let Some(link) = &self.home_link
            && let Some(link) = symlink(link)
            && rules.may_write(&link.path)
        {
            protected.pins.push(link);
        }
        protected
    }
}

/// The symlink itself at `path`, whose parent is followed.
fn symlink(path: &Path) -> Option<ResolvedPath> {
    let path = path.parent()?.canonicalize().ok()?.join(path.file_name()?);
    let fd = open_path(&path, OFlags::NOFOLLOW).ok()?;
    let id = identity::of_fd(&fd).ok()?;
    Some(ResolvedPath { path, kind: PathKind::Symlink, id: Some(Box::new(id)) })
}
