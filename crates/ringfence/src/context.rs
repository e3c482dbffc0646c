//! Which session the current task works for.
//!
//! A tool deep inside a host's call stack often doesn't know its session. The host scopes it around the tool
//! call, and the tool reads it back. It does not cross `tokio::spawn`: a spawned task starts outside every
//! scope. [`spawn_in_session`] takes it along.

use std::future::Future;

use ringfence_types::SessionId;
use tokio::task::JoinHandle;

tokio::task_local! {
    /// Session of the current task. [`current_session`] reads it.
    pub static SESSION_ID: SessionId;
}

/// The session that the current task works for; `None` outside every scope.
pub fn current_session() -> Option<SessionId> {
    SESSION_ID.try_with(Clone::clone).ok()
}

/// Runs a tool call on behalf of a session.
///
/// ```
/// # use ringfence::{current_session, invoke_with_session_trace};
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let seen = invoke_with_session_trace("demo".into(), async { current_session() }).await;
/// assert_eq!(seen, Some("demo".into()));
/// assert_eq!(current_session(), None);
/// # });
/// ```
pub async fn invoke_with_session_trace<F: Future>(session: SessionId, call: F) -> F::Output {
    SESSION_ID.scope(session, call).await
}

/// `tokio::spawn` that takes the current session along.
///
/// # Panics
/// Outside a tokio runtime, as `tokio::spawn` does.
pub fn spawn_in_session<F>(task: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    match current_session() {
        Some(session) => tokio::spawn(SESSION_ID.scope(session, task)),
        None => tokio::spawn(task),
    }
}
