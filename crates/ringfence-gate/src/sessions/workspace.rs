use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use ringfence_types::{
    Excess, HostPattern, NetworkPolicy, ResolvedPath, ResolvedPolicy, SandboxCapabilities, SessionId,
    UnixPath,
};
use rustix::fs::OFlags;

use super::lock::SessionLock;
use super::{SessionError, session_directory};
use crate::approval::Refusals;
use crate::config::{Lifetime, SessionPolicy, SessionStart};
use crate::resolve::{self, Found, Host, Inherited, Pins, Resolution, Resolver, Root, open_path};
use crate::{files, identity};

/// How long the baseline of a new session counts as resolved just now: a command line starts a session and runs
/// its one command in it at once.
const FRESH: Duration = Duration::from_millis(50);

/// One session: its jail root, what it grants without a question, and what was granted since.
#[derive(Debug)]
pub struct SessionWorkspace {
    id: SessionId,
    root: Root,
    policy: Arc<SessionPolicy>,
    baseline: ResolvedPolicy,
    /// The baseline as resolved when the session started, for a first command that asks for all of it.
    fresh: Mutex<Option<(Instant, Resolution)>>,
    granted: RwLock<Vec<Grant>>,
    /// Hosts that were approved on their own, and by whom.
    granted_hosts: RwLock<Vec<(HostPattern, String)>>,
    refusals: Mutex<Refusals>,
    temp: Option<PathBuf>,
    lock: Option<SessionLock>,
    used: Mutex<Instant>,
    ended: AtomicBool,
}

/// Something that was approved for the rest of a session.
#[derive(Debug)]
pub(crate) struct Grant {
    /// The whole request that was approved.
    policy: ResolvedPolicy,
    /// Its paths that were asked for, as they were shown.
    asked: Vec<ResolvedPath>,
    /// Who approved it.
    by: String,
    /// Keeps the inodes of `asked` from being reused.
    _pins: Pins,
}

impl Grant {
    /// Remembers an approved request and what of it had been asked for.
    pub(crate) fn new(policy: ResolvedPolicy, excess: &[Excess], by: String, budget: &Host) -> Self {
        let paths = policy.read.iter().chain(&policy.write).chain(&policy.unix_sockets);
        let asked: Vec<_> = paths.filter(|path| was_asked(excess, &path.path)).cloned().collect();
        let mut pins = Pins::new(&budget.budget);
        for path in &asked {
            // What can't be opened any more is noticed at the next use.
            if let Ok(fd) = open_path(&path.path, OFlags::NOFOLLOW) {
                pins.hold(fd);
            }
        }
        Self { policy, asked, by, _pins: pins }
    }

    /// Whether every path that was asked for is still the file that was shown.
    fn is_intact(&self) -> bool {
        self.asked.iter().all(|path| match &path.id {
            Some(id) => identity::of_path(&path.path).is_ok_and(|now| now == **id),
            None => path.path.symlink_metadata().is_err(),
        })
    }

    /// Whether the request asks for no more, and means the same files.
    fn covers(&self, request: &ResolvedPolicy) -> bool {
        let paths = request.read.iter().chain(&request.write).chain(&request.unix_sockets);
        let same = |path: &ResolvedPath| {
            self.asked.iter().filter(|asked| asked.path == path.path).all(|asked| asked.id == path.id)
        };
        request.is_within(&self.policy) && paths.into_iter().all(same)
    }
}

fn was_asked(excess: &[Excess], path: &Path) -> bool {
    let shown = UnixPath::from(path);
    excess.iter().any(|excess| match excess {
        Excess::Read(path) | Excess::Write(path) | Excess::Undenied(path) | Excess::UnixSocket(path) => {
            *path == shown
        }
        _ => false,
    })
}

impl SessionWorkspace {
    /// Creates or enters the session's directory and resolves its baseline.
    pub(super) fn create(
        host: &Host,
        workspace_root: &Path,
        id: &SessionId,
        start: &SessionStart,
        policy: &Arc<SessionPolicy>,
    ) -> Result<Self, SessionError> {
        let root = match &start.directory {
            Some(directory) => host_directory(host, directory)?,
            None => own_directory(workspace_root, id)?,
        };
        let (lock, temp) = match start.lifetime {
            Lifetime::Run => (None, None),
            Lifetime::Session => {
                let (lock, temp) = state(host, id, &root)?;
                (Some(lock), Some(temp))
            }
        };
        let mut resolution =
            resolve::resolve(host, &root, policy, &policy.baseline, None).map_err(SessionError::Baseline)?;
        resolution.policy.session_tmp.clone_from(&temp);
        let baseline = resolution.policy.clone();
        Ok(Self {
            id: id.clone(),
            root,
            policy: Arc::clone(policy),
            baseline,
            fresh: Mutex::new(Some((Instant::now(), resolution))),
            granted: RwLock::default(),
            granted_hosts: RwLock::default(),
            refusals: Mutex::default(),
            temp,
            lock,
            used: Mutex::new(Instant::now()),
            ended: AtomicBool::new(false),
        })
    }

    /// The session's id.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Canonical jail root.
    pub fn cwd(&self) -> &Path {
        &self.root.path.path
    }

    /// What a command may have without a question, as resolved when the session started.
    pub fn baseline(&self) -> &ResolvedPolicy {
        &self.baseline
    }

    /// What has been approved for the rest of the session, as it was asked for.
    pub fn granted_elevations(&self) -> Vec<SandboxCapabilities> {
        let granted = self.granted.read().unwrap_or_else(PoisonError::into_inner);
        let hosts = self.granted_hosts.read().unwrap_or_else(PoisonError::into_inner);
        let with_host = |(host, _): &(HostPattern, String)| {
            let network = NetworkPolicy::AllowHosts { hosts: vec![host.to_string()] };
            SandboxCapabilities { network, ..SandboxCapabilities::strict() }
        };
        granted.iter().map(|grant| (&grant.policy).into()).chain(hosts.iter().map(with_host)).collect()
    }

    /// Resolves what a command asks for. Checks that the jail root is the one that the session started with.
    pub(crate) fn resolve(
        &self,
        host: &Host,
        request: &SandboxCapabilities,
    ) -> Result<Resolution, crate::BindError> {
        let now = identity::of_path(self.cwd());
        if !now.is_ok_and(|now| self.root.path.id.as_deref() == Some(&now)) {
            return Err(SessionError::Replaced(self.cwd().to_path_buf()).into());
        }
        let fresh = self.fresh.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((resolved, resolution)) = fresh
            && resolved.elapsed() < FRESH
            && *request == self.policy.baseline
        {
            return Ok(resolution);
        }
        let inherited = Inherited { capabilities: &self.policy.baseline, policy: &self.baseline };
        let mut resolution = resolve::resolve(host, &self.root, &self.policy, request, Some(&inherited))?;
        resolution.policy.session_tmp.clone_from(&self.temp);
        Ok(resolution)
    }

    /// Who gave the grant that covers a request, if one does: an approved request, or approved hosts where nothing
    /// else is beyond the baseline. Grants whose paths have changed identity are dropped.
    pub(crate) fn within_grant(&self, request: &ResolvedPolicy) -> Option<String> {
        if !self.granted.read().unwrap_or_else(PoisonError::into_inner).is_empty() {
            let mut granted = self.granted.write().unwrap_or_else(PoisonError::into_inner);
            granted.retain(Grant::is_intact);
            if let Some(grant) = granted.iter().find(|grant| grant.covers(request)) {
                return Some(grant.by.clone());
            }
        }
        if self.granted_hosts.read().unwrap_or_else(PoisonError::into_inner).is_empty() {
            return None;
        }
        let by = request.beyond(&self.baseline).into_iter().map(|excess| match excess {
            Excess::Host(host) => self.granted_host(&host),
            _ => None,
        });
        by.collect::<Option<Vec<_>>>()?.into_iter().next()
    }

    /// Who approved the host on its own.
    pub(crate) fn granted_host(&self, host: &HostPattern) -> Option<String> {
        let hosts = self.granted_hosts.read().unwrap_or_else(PoisonError::into_inner);
        hosts.iter().find(|(granted, _)| granted.covers(host)).map(|(_, by)| by.clone())
    }

    /// Remembers that a host, and nothing else, was approved for the rest of the session.
    pub(crate) fn grant_host(&self, host: HostPattern, by: String) {
        self.granted_hosts.write().unwrap_or_else(PoisonError::into_inner).push((host, by));
    }

    /// Remembers an approval for the rest of the session, unless what was approved is no longer there.
    pub(crate) fn grant(&self, grant: Grant) {
        if !grant.is_intact() {
            return;
        }
        self.granted.write().unwrap_or_else(PoisonError::into_inner).push(grant);
    }

    /// What has been refused in this session.
    pub(crate) fn refusals(&self) -> MutexGuard<'_, Refusals> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the session is used now.
    pub(super) fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// How long the session has not been used.
    pub(super) fn idle(&self) -> Duration {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// The private temp goes when the last user of the session is done.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }
}

impl Drop for SessionWorkspace {
    fn drop(&mut self) {
        let (true, Some(lock), Some(temp)) = (self.ended.load(Ordering::Acquire), &self.lock, &self.temp)
        else {
            return;
        };
        if let Err(error) = lock.remove_if_last(|| files::remove_tree(temp)) {
            tracing::warn!(session = %self.id, path = %temp.display(), %error, "private temp was not removed");
        }
    }
}

/// The session's own directory, with mode 0700 whatever an earlier command made of it; never a symlink, never
/// somebody else's.
fn own_directory(workspace_root: &Path, id: &SessionId) -> Result<Root, SessionError> {
    let io = |path: &Path| {
        let path = path.to_path_buf();
        move |source| SessionError::Io { path, source }
    };
    let parent = files::private_directory(workspace_root).map_err(io(workspace_root))?;
    let path = session_directory(&parent, id);
    if path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink()) {
        return Err(SessionError::Symlink(path));
    }
    files::private_directory(&path).map_err(io(&path))?;
    let fd =
        open_path(&path, OFlags::NOFOLLOW | OFlags::DIRECTORY).map_err(|errno| io(&path)(errno.into()))?;
    let found = Resolver::once(&parent).examine(fd).map_err(io(&path))?;
    let caller = rustix::process::geteuid().as_raw();
    match found.owner {
        Some(owner) if owner.uid != caller => {
            Err(SessionError::ForeignOwner { path, owner: owner.uid, caller })
        }
        owner => {
            found.fd.as_ref().map_or(Ok(()), files::close_to_others).map_err(io(&path))?;
            Ok(Root { path: found.path, owner })
        }
    }
}

/// A directory of the host's choice: it exists, and the caller can enter it.
fn host_directory(host: &Host, directory: &Path) -> Result<Root, SessionError> {
    let io = |source| SessionError::Io { path: directory.to_path_buf(), source };
    // The last component asks for the right to enter.
    let fd = open_path(&directory.join("."), OFlags::DIRECTORY).map_err(|errno| match errno {
        rustix::io::Errno::NOENT => SessionError::Missing(directory.to_path_buf()),
        rustix::io::Errno::NOTDIR => SessionError::NotADirectory(directory.to_path_buf()),
        errno => io(errno.into()),
    })?;
    let Found { path, owner, .. } = Resolver::once(Path::new("/")).examine(fd).map_err(io)?;
    if host.owns(&path.path) {
        return Err(SessionError::RingfenceHome(path.path));
    }
    // Root can become the owner only where the owner has an id.
    let owner = owner.and_then(|owner| identity::owner(owner.uid, owner.gid));
    Ok(Root { path, owner })
}

/// The lock and the private temp of a session that outlives its commands.
fn state(host: &Host, id: &SessionId, root: &Root) -> Result<(SessionLock, PathBuf), SessionError> {
    let fail = |path: &Path| {
        let path = path.to_path_buf();
        move |source| SessionError::State { path, source }
    };
    let locks = host.state.join("locks");
    files::private_directory(&locks).map_err(fail(&locks))?;
    let path = locks.join(id.directory_name());
    let lock = SessionLock::shared(&path).map_err(fail(&path))?;
    let temp = host.state.join("tmp").join(id.directory_name());
    files::private_directory(&temp).map_err(fail(&temp))?;
    let fd = open_path(&temp, OFlags::NOFOLLOW | OFlags::DIRECTORY);
    fd.map_err(Into::into).and_then(files::close_to_others).map_err(fail(&temp))?;
    files::give_to(&temp, root.owner).map_err(fail(&temp))?;
    Ok((lock, temp))
}
