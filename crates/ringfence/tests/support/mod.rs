//! Fakes for the pipeline's outer ends: a driver, somebody to ask, and a listener for the audit.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once};

use async_trait::async_trait;
use ringfence::{
    ApprovalAction, ApprovalOutcome, ApprovalRequester, ApprovalResponse, ApprovedRun, DriverError,
    DriverOutput, HostEnv, HostFacts, OsSandboxDriverTrait, SandboxConfig, SandboxParts,
};
use ringfence_plan::linux::{LinuxFacts, seccomp::Arch};
use ringfence_types::{ResolvedPolicy, SandboxCommand};
use tokio::sync::Notify;
use tracing::field::{Field, Visit};
use tracing::span;

/// What the fake driver does with a run.
pub(crate) enum Reply {
    Output(DriverOutput),
    Error(DriverError),
    /// Never ends.
    Hang,
}

/// What the fake driver was given.
pub(crate) struct Run {
    pub(crate) command: SandboxCommand,
    pub(crate) policy: ResolvedPolicy,
    pub(crate) timeout: Option<std::time::Duration>,
    pub(crate) max_output_bytes: usize,
}

/// Executes nothing.
#[derive(Default)]
pub(crate) struct FakeDriver {
    pub(crate) runs: Mutex<Vec<Run>>,
    pub(crate) replies: Mutex<VecDeque<Reply>>,
    /// A run that hangs has begun.
    pub(crate) began: Notify,
    /// The future of a run that hangs was dropped.
    pub(crate) dropped: Arc<AtomicBool>,
}

impl FakeDriver {
    pub(crate) fn reply(&self, reply: Reply) {
        self.replies.lock().unwrap().push_back(reply);
    }

    pub(crate) fn count(&self) -> usize {
        self.runs.lock().unwrap().len()
    }

    /// The part of a run before anything could wait.
    pub(crate) fn take(&self, run: ApprovedRun) -> Reply {
        let policy = run.policy().clone();
        let parts = run.into_parts();
        let (timeout, max_output_bytes) = (parts.limits.timeout, parts.limits.max_output_bytes);
        self.runs.lock().unwrap().push(Run { command: parts.command, policy, timeout, max_output_bytes });
        let success = || Reply::Output(DriverOutput { exit_code: Some(0), ..DriverOutput::default() });
        self.replies.lock().unwrap().pop_front().unwrap_or_else(success)
    }
}

struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[async_trait]
impl OsSandboxDriverTrait for FakeDriver {
    fn platform(&self) -> &'static str {
        "linux/fake"
    }

    fn facts(&self) -> Result<HostFacts, DriverError> {
        Ok(HostFacts::Linux(facts()))
    }

    async fn run(&self, run: ApprovedRun) -> Result<DriverOutput, DriverError> {
        match self.take(run) {
            Reply::Output(output) => Ok(output),
            Reply::Error(error) => Err(error),
            Reply::Hang => {
                let _set = SetOnDrop(Arc::clone(&self.dropped));
                self.began.notify_one();
                std::future::pending().await
            }
        }
    }
}

/// A host on which everything is there.
fn facts() -> LinuxFacts {
    LinuxFacts {
        uid: 1000,
        gid: 1000,
        arch: Arch::X86_64,
        landlock_abi: 6,
        system: Vec::new(),
        present: vec![PathBuf::from("/tmp"), PathBuf::from("/proc")],
        sockets: Vec::new(),
        resolv_conf: None,
        nsswitch: None,
        hosts_file: None,
        env: Vec::new(),
    }
}

/// Answers every question alike.
pub(crate) struct FakeRequester {
    pub(crate) outcome: Mutex<ApprovalOutcome>,
    pub(crate) asked: AtomicUsize,
    pub(crate) last: Mutex<Option<ApprovalAction>>,
    /// Never answers.
    pub(crate) silent: bool,
    /// A question has come.
    pub(crate) began: Notify,
}

impl FakeRequester {
    pub(crate) fn new(outcome: ApprovalOutcome) -> Arc<Self> {
        Arc::new(Self {
            outcome: Mutex::new(outcome),
            asked: AtomicUsize::new(0),
            last: Mutex::new(None),
            silent: false,
            began: Notify::new(),
        })
    }

    pub(crate) fn silent() -> Arc<Self> {
        let requester = Self::new(ApprovalOutcome::Denied);
        Arc::new(Self { silent: true, ..Arc::into_inner(requester).unwrap() })
    }

    pub(crate) fn count(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl ApprovalRequester for FakeRequester {
    async fn request_approval(&self, a: &ApprovalAction) -> ApprovalResponse {
        self.asked.fetch_add(1, Ordering::SeqCst);
        *self.last.lock().unwrap() = Some(a.clone());
        self.began.notify_one();
        if self.silent {
            std::future::pending::<()>().await;
        }
        ApprovalResponse { outcome: *self.outcome.lock().unwrap(), reason: None, by: "tester".into() }
    }
}

type Record = BTreeMap<&'static str, String>;

thread_local! {
    /// The audit's events on this thread, as field -> value.
    static RECORDS: RefCell<Vec<Record>> = const { RefCell::new(Vec::new()) };
}

/// The audit's events on this thread.
pub(crate) struct Ledger;

impl Ledger {
    /// One listener serves the whole process: with one for each thread, `tracing` would remember what the first
    /// thread to pass wanted to hear.
    pub(crate) fn listen() -> Self {
        static LISTENING: Once = Once::new();
        LISTENING.call_once(|| tracing::subscriber::set_global_default(Listener).unwrap());
        RECORDS.take();
        Self
    }

    /// The one record since the last call.
    pub(crate) fn one(&self) -> Record {
        let mut records = RECORDS.take();
        assert_eq!(records.len(), 1, "{records:#?}");
        records.remove(0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        RECORDS.with_borrow(Vec::is_empty)
    }
}

struct Listener;

impl tracing::Subscriber for Listener {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == ringfence::AUDIT_TARGET
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        RECORDS.with_borrow_mut(|records| records.push(fields.0));
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Fields(Record);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

/// A home of its own, a driver, and what is made of them.
pub(crate) struct World {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) driver: Arc<FakeDriver>,
    pub(crate) config: SandboxConfig,
    pub(crate) host: HostEnv,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let vars = vec![(OsString::from("HOME"), home.clone().into_os_string())];
        let host = HostEnv::new(vars, 1000, PathBuf::from("/nonexistent"));
        let mut config = SandboxConfig::new(home.join(".ringfence"));
        config.rate_limit.enabled = false;
        Self { driver: Arc::new(FakeDriver::default()), config, host, dir }
    }

    pub(crate) fn parts(&self) -> SandboxParts {
        SandboxParts {
            driver: Some(Arc::clone(&self.driver) as Arc<dyn OsSandboxDriverTrait>),
            host: Some(self.host.clone()),
            ..SandboxParts::default()
        }
    }
}
