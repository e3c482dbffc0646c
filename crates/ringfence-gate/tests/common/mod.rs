//! A gate on a temporary home, and approvers that answer from a script.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use async_trait::async_trait;
use ringfence_gate::{
    ApprovalAction, ApprovalGate, ApprovalOutcome, ApprovalRequester, ApprovalResponse, BindError,
    BoundCommand, Gate, GateConfig, Permit, PermitError,
};
use ringfence_policy::{HookChain, PolicyConfig};
use ringfence_types::{SandboxCapabilities, SandboxCommand};
use tempfile::TempDir;
use tokio::sync::Semaphore;

/// A gate, and the directory that everything of a test lies in.
pub(crate) struct Fixture {
    pub(crate) directory: TempDir,
    pub(crate) gate: Arc<Gate>,
}

impl Fixture {
    pub(crate) fn new(approval: ApprovalGate, change: impl FnOnce(&mut GateConfig)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut config = GateConfig::new(directory.path().join("home"));
        change(&mut config);
        let gate = Arc::new(Gate::new(config, approval).unwrap());
        Self { directory, gate }
    }

    /// Nobody can be asked.
    pub(crate) fn alone() -> Self {
        Self::new(ApprovalGate::new(None), |_| {})
    }

    pub(crate) fn asking(script: &Arc<Script>) -> Self {
        Self::new(ApprovalGate::new(Some(Arc::clone(script) as _)), |_| {})
    }

    /// Canonical path of something outside the home.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn make_dir(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    pub(crate) async fn bind(&self, command: SandboxCommand) -> Result<BoundCommand, BindError> {
        let chain = HookChain::with_floor(&PolicyConfig::default(), Vec::new());
        self.gate.bind(chain.vet(command).await.unwrap())
    }

    pub(crate) async fn permit(&self, command: SandboxCommand) -> Result<Permit, PermitError> {
        self.gate.permit(self.bind(command).await.unwrap()).await
    }
}

pub(crate) fn reads(paths: impl IntoIterator<Item = impl AsRef<Path>>) -> SandboxCapabilities {
    let fs_read = paths.into_iter().map(|path| path.as_ref().to_path_buf()).collect();
    SandboxCapabilities { fs_read, ..SandboxCapabilities::strict() }
}

pub(crate) fn spawns() -> SandboxCapabilities {
    SandboxCapabilities { spawn_subprocess: true, ..SandboxCapabilities::strict() }
}

pub(crate) fn command(program: &str, capabilities: SandboxCapabilities) -> SandboxCommand {
    SandboxCommand::new("session", program).capabilities(capabilities)
}

type OnAsk = Box<dyn Fn(&ApprovalAction) + Send + Sync>;

/// Answers from a list, and keeps what it was asked. Past the list's end it never answers.
pub(crate) struct Script {
    answers: Mutex<VecDeque<ApprovalOutcome>>,
    asked: Mutex<Vec<ApprovalAction>>,
    given_up: Arc<AtomicUsize>,
    on_ask: Option<OnAsk>,
    hold: Option<Semaphore>,
}

impl Script {
    fn build(answers: &[ApprovalOutcome], on_ask: Option<OnAsk>, hold: Option<Semaphore>) -> Arc<Self> {
        Arc::new(Self {
            answers: Mutex::new(answers.iter().copied().collect()),
            asked: Mutex::default(),
            given_up: Arc::default(),
            on_ask,
            hold,
        })
    }

    pub(crate) fn new(answers: &[ApprovalOutcome]) -> Arc<Self> {
        Self::build(answers, None, None)
    }

    /// Does something while the question is open.
    pub(crate) fn doing(
        answers: &[ApprovalOutcome],
        on_ask: impl Fn(&ApprovalAction) + Send + Sync + 'static,
    ) -> Arc<Self> {
        Self::build(answers, Some(Box::new(on_ask)), None)
    }

    /// Answers nothing before [`Self::release`].
    pub(crate) fn held(answers: &[ApprovalOutcome]) -> Arc<Self> {
        Self::build(answers, None, Some(Semaphore::new(0)))
    }

    pub(crate) fn release(&self, answers: usize) {
        self.hold.as_ref().unwrap().add_permits(answers);
    }

    pub(crate) fn asked(&self) -> Vec<ApprovalAction> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// Questions whose future was dropped without an answer.
    pub(crate) fn given_up(&self) -> usize {
        self.given_up.load(Ordering::SeqCst)
    }
}

struct Open {
    given_up: Arc<AtomicUsize>,
    answered: bool,
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.answered {
            self.given_up.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[async_trait]
impl ApprovalRequester for Script {
    async fn request_approval(&self, a: &ApprovalAction) -> ApprovalResponse {
        let mut open = Open { given_up: Arc::clone(&self.given_up), answered: false };
        self.asked.lock().unwrap().push(a.clone());
        if let Some(on_ask) = &self.on_ask {
            on_ask(a);
        }
        if let Some(hold) = &self.hold {
            hold.acquire().await.unwrap().forget();
        }
        let answer = self.answers.lock().unwrap().pop_front();
        match answer {
            Some(outcome) => {
                open.answered = true;
                ApprovalResponse::new(outcome, "script")
            }
            None => std::future::pending().await,
        }
    }
}

/// Drives a future on this thread, with nothing that a runtime would offer.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
