use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use ringfence_types::SessionId;

use super::{SessionError, SessionWorkspace};
use crate::config::{SessionPolicy, SessionStart};
use crate::resolve::Host;

/// The sessions of one host.
///
/// A known session costs one read lock. A new one is created under a lock of its own, so that no file is
/// touched while the map is locked and one slow file system holds nobody else up.
#[derive(Debug)]
pub struct SessionStore {
    host: Arc<Host>,
    workspace_root: PathBuf,
    defaults: Arc<SessionPolicy>,
    sessions: RwLock<HashMap<SessionId, Arc<Slot>>>,
}

/// One session's place in the map.
#[derive(Debug)]
struct Slot {
    start: SessionStart,
    policy: Arc<SessionPolicy>,
    live: OnceLock<Arc<SessionWorkspace>>,
    creating: Mutex<()>,
}

impl Slot {
    fn new(start: SessionStart, defaults: &Arc<SessionPolicy>) -> Arc<Self> {
        let policy = start.policy.clone().map_or_else(|| Arc::clone(defaults), Arc::new);
        Arc::new(Self { start, policy, live: OnceLock::new(), creating: Mutex::new(()) })
    }
}

impl SessionStore {
    pub(crate) fn new(host: Arc<Host>, workspace_root: PathBuf, defaults: SessionPolicy) -> Self {
        Self { host, workspace_root, defaults: Arc::new(defaults), sessions: RwLock::default() }
    }

    /// Starts a session in the way of the host's choice: a directory of its own, a policy of its own. From here
    /// on its policy is frozen. Starting it again in the same way is no error.
    ///
    /// # Errors
    /// [`SessionError::AlreadyStarted`] if it has started otherwise; else why it has no workspace.
    pub fn start(
        &self,
        session: &SessionId,
        start: SessionStart,
    ) -> Result<Arc<SessionWorkspace>, SessionError> {
        let slot = self.slot(session, || start.clone());
        if slot.start != start {
            return Err(SessionError::AlreadyStarted(session.clone()));
        }
        self.live(session, &slot)
    }

    /// The session's workspace; started in the configured way if the session is new.
    ///
    /// # Errors
    /// Why it has no workspace.
    pub fn open(&self, session: &SessionId) -> Result<Arc<SessionWorkspace>, SessionError> {
        let slot = self.slot(session, SessionStart::default);
        self.live(session, &slot)
    }

    /// Ends a session: its grants are gone, and its private temp as soon as no command of it runs. Its
    /// workspace stays. Returns whether there was such a session.
    pub fn end(&self, session: &SessionId) -> bool {
        let removed = self.sessions.write().unwrap_or_else(PoisonError::into_inner).remove(session);
        let Some(slot) = removed else { return false };
        if let Some(live) = slot.live.get() {
            live.end();
        }
        true
    }

    /// Ends the sessions that no command has used for that long and names them, so that hooks can forget them.
    /// A session with a way of its own to start will start that way again.
    pub fn evict_idle(&self, idle: Duration) -> Vec<SessionId> {
        let mut evicted = Vec::new();
        let mut gone = Vec::new();
        let mut sessions = self.sessions.write().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|id, slot| {
            let Some(live) =
                slot.live.get().filter(|live| Arc::strong_count(live) == 1 && live.idle() >= idle)
            else {
                return true;
            };
            live.end();
            evicted.push(id.clone());
            let keep = slot.start != SessionStart::default();
            let fresh = Slot::new(slot.start.clone(), &self.defaults);
            gone.push(std::mem::replace(slot, fresh));
            keep
        });
        drop(sessions);
        // What they have on disk is removed here, with the map unlocked.
        drop(gone);
        evicted
    }

    /// Number of sessions in memory.
    pub fn len(&self) -> usize {
        self.sessions.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether no session is in memory.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn slot(&self, session: &SessionId, start: impl FnOnce() -> SessionStart) -> Arc<Slot> {
        if let Some(slot) = self.sessions.read().unwrap_or_else(PoisonError::into_inner).get(session) {
            return Arc::clone(slot);
        }
        let mut sessions = self.sessions.write().unwrap_or_else(PoisonError::into_inner);
        let slot = sessions.entry(session.clone()).or_insert_with(|| Slot::new(start(), &self.defaults));
        Arc::clone(slot)
    }

    fn live(&self, session: &SessionId, slot: &Arc<Slot>) -> Result<Arc<SessionWorkspace>, SessionError> {
        if let Some(live) = slot.live.get() {
            live.touch();
            return Ok(Arc::clone(live));
        }
        let creating = slot.creating.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(live) = slot.live.get() {
            return Ok(Arc::clone(live));
        }
        match SessionWorkspace::create(&self.host, &self.workspace_root, session, &slot.start, &slot.policy) {
            Ok(created) => Ok(Arc::clone(slot.live.get_or_init(|| Arc::new(created)))),
            Err(error) => {
                drop(creating);
                self.forget_unborn(session, slot);
                Err(error)
            }
        }
    }

    /// A session that could not start may be started otherwise.
    fn forget_unborn(&self, session: &SessionId, slot: &Arc<Slot>) {
        let mut sessions = self.sessions.write().unwrap_or_else(PoisonError::into_inner);
        if sessions.get(session).is_some_and(|known| Arc::ptr_eq(known, slot) && known.live.get().is_none()) {
            sessions.remove(session);
        }
    }
}
