//! The path of a command through its six steps.

mod execution;
mod finish;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use ringfence_gate::{
    ApprovalGate, ApprovedRun, DriverError, DriverOutput, Gate, OsSandboxDriverTrait, SessionStart,
};
use ringfence_plan::{HostFacts, LaunchPlan, OsSandboxProfile};
use ringfence_policy::command_policy::Verdict;
use ringfence_policy::{HookChain, PolicyConfig, RateLimitHook, SandboxBeforeHook};
use ringfence_types::{
    EnvVar, LayerName, LayerStatus, ResolvedPolicy, SandboxCommand, SandboxOutput, SessionId,
};

use crate::audit::Audit;
use crate::config::{ConfigError, SandboxConfig};
use crate::error::SandboxError;
use crate::floor::OutputFloor;
use crate::host::HostEnv;
use crate::run::{RunOptions, SessionSettings};
use crate::sandbox::{NoopSandbox, Sandbox};
use execution::{Execution, block_on};
use finish::Finish;

/// What a host may bring along. Each part has a default.
#[derive(Default)]
pub struct SandboxParts {
    /// Starts the processes; by default this system's driver.
    pub driver: Option<Arc<dyn OsSandboxDriverTrait>>,
    /// Decides on what leaves a session's baseline; by default nobody is asked.
    pub gate: Option<ApprovalGate>,
    /// Checks that every command passes after the command policy and the rate limit, in this order.
    pub hooks: Vec<Box<dyn SandboxBeforeHook>>,
    /// What to take for the host's environment; by default the calling process'.
    pub host: Option<HostEnv>,
}

impl fmt::Debug for SandboxParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SandboxParts")
            .field("driver", &self.driver.as_ref().map(|driver| driver.platform()))
            .field("gate", &self.gate)
            .field("hooks", &self.hooks.iter().map(|hook| hook.name()).collect::<Vec<_>>())
            .field("host", &self.host.is_some())
            .finish()
    }
}

/// Builds the sandbox that the configuration asks for: a [`WorkspaceSandbox`], or [`NoopSandbox`] if it is
/// switched off.
///
/// # Errors
/// [`ConfigError`] if there is no driver for this system or the directory for state can't be used.
pub fn build_sandbox(cfg: SandboxConfig, parts: SandboxParts) -> Result<Arc<dyn Sandbox>, ConfigError> {
    if !cfg.enabled {
        return Ok(Arc::new(NoopSandbox));
    }
    Ok(Arc::new(WorkspaceSandbox::new(&cfg, parts)?))
}

/// The sandbox: takes each command through hooks, session, capabilities, profile, run and audit.
///
/// It works on any executor; on tokio, blocking work is done on the runtime's blocking threads. Cloning is
/// cheap and gives the same sandbox.
#[derive(Clone)]
pub struct WorkspaceSandbox {
    inner: Arc<Inner>,
}

struct Inner {
    hooks: HookChain,
    gate: Gate,
    driver: Arc<dyn OsSandboxDriverTrait>,
    env: Vec<EnvVar>,
    output: OutputFloor,
    swept: Mutex<Instant>,
}

/// What a command would get, as `ringfence explain` shows it.
#[derive(Debug)]
pub struct Explanation {
    /// Name of the driver.
    pub backend: &'static str,
    /// The request on canonical paths, with what it inherits from its session.
    pub policy: ResolvedPolicy,
    /// The launch plan.
    pub plan: LaunchPlan,
    /// What the request asks for beyond the session's baseline, one line each; a real run would ask for it.
    pub beyond: Vec<String>,
}

impl Explanation {
    /// The plan as hosts see it.
    pub fn profile(&self) -> OsSandboxProfile {
        self.plan.clone().into()
    }
}

impl WorkspaceSandbox {
    /// A sandbox with no session yet. Without [`SandboxConfig::session`] sessions start with the `strict`
    /// preset.
    ///
    /// # Errors
    /// [`ConfigError`] if there is no driver for this system or the directory for state can't be used.
    pub fn new(cfg: &SandboxConfig, parts: SandboxParts) -> Result<Self, ConfigError> {
        let host = parts.host.unwrap_or_else(HostEnv::current);
        let driver = parts.driver.or_else(default_driver).ok_or(ConfigError::NoDriver)?;
        let strict;
        let session = match &cfg.session {
            Some(session) => session,
            None => {
                strict = SessionSettings::resolve(cfg, &host, &cfg.workspace_root, &RunOptions::default())?;
                &strict
            }
        };
        let mut hooks = parts.hooks;
        if cfg.rate_limit.enabled {
            hooks.insert(0, Box::new(RateLimitHook::new(cfg.rate_limit.clone())));
        }
        let approval = parts.gate.unwrap_or_else(|| ApprovalGate::new(None));
        let inner = Inner {
            hooks: HookChain::with_floor(&PolicyConfig::new(cfg.command_policy.clone()), hooks),
            gate: Gate::new(cfg.gate(&host, session), approval)?,
            driver,
            env: session.env.clone(),
            output: cfg.output,
            swept: Mutex::new(Instant::now()),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Starts a session in the way of the host's choice, instead of when its first command comes. Returns the
    /// canonical jail root. Blocks on file I/O.
    ///
    /// # Errors
    /// [`SandboxError::Bind`] if the directory can't be a jail root, or the session has started otherwise.
    pub fn start_session(&self, session: &SessionId, start: SessionStart) -> Result<PathBuf, SandboxError> {
        let started = self.inner.gate.sessions().start(session, start);
        let workspace = started.map_err(|error| SandboxError::Bind(error.into()))?;
        Ok(workspace.cwd().to_path_buf())
    }

    /// What this start moved away that a run which crashed had left, one line each.
    pub fn recovered(&self) -> Vec<String> {
        self.inner.gate.recovered().iter().flat_map(finish::lines).collect()
    }

    /// Custom rules of the command policy that can't be used, one line each; the others are in force.
    pub fn policy_problems(&self) -> Vec<String> {
        let problems = self.inner.hooks.command_policy().problems();
        problems.iter().map(|(rule, reason)| format!("custom rule `{rule}` left out: {reason}")).collect()
    }

    /// What the command policy says of a command, before anything of it is run. Variables of the sandbox's
    /// configuration are not looked at, those of the command are.
    pub fn policy_verdict(&self, command: &SandboxCommand) -> Verdict {
        self.inner.hooks.command_policy().evaluate(command)
    }

    /// Ends a session: its grants, its private temp and its rate windows are gone, its workspace stays.
    pub fn end_session(&self, session: &SessionId) {
        self.inner.gate.sessions().end(session);
        self.inner.hooks.forget(session);
    }

    /// Runs a command on the calling thread, without any runtime. `run` is the driver's own synchronous way to
    /// execute a run; hooks and approval may wait for nothing that needs a runtime.
    ///
    /// # Errors
    /// As [`Sandbox::execute`].
    pub fn run_blocking(
        &self,
        command: SandboxCommand,
        run: impl FnOnce(ApprovedRun) -> Result<DriverOutput, DriverError>,
    ) -> Result<SandboxOutput, SandboxError> {
        let mut audit = Audit::start(&command, self.inner.driver.platform());
        let result = block_on(async {
            let (approved, finish) = self.prepare(command, Execution::Here, &mut audit).await?;
            finish.look(Execution::Here, run(approved)).await
        });
        audit.end(&result);
        result
    }

    /// Says what a command would get, without running it and without asking anybody. Blocks on file I/O.
    ///
    /// # Errors
    /// A [`SandboxError`] if hooks refuse the command, or no plan can be made for it.
    pub fn explain(&self, command: SandboxCommand) -> Result<Explanation, SandboxError> {
        let vetted = block_on(self.inner.hooks.vet(self.inner.with_env(command)))?;
        let bound = self.inner.gate.bind(vetted)?;
        let facts = self.inner.driver.facts()?;
        let policy = bound.policy().clone();
        let plan = match &facts {
            HostFacts::Linux(facts) => LaunchPlan::Linux(ringfence_plan::linux(&policy, facts)?),
        };
        let beyond = policy.beyond(bound.session().baseline()).iter().map(ToString::to_string).collect();
        Ok(Explanation { backend: self.inner.driver.platform(), policy, plan, beyond })
    }

    /// The steps up to the run, and what remains to be done after it.
    async fn prepare(
        &self,
        command: SandboxCommand,
        execution: Execution,
        audit: &mut Audit,
    ) -> Result<(ApprovedRun, Finish), SandboxError> {
        let inner = &self.inner;
        inner.sweep();

        // 1 hooks
        let vetted = inner.hooks.vet(inner.with_env(command)).await?;
        audit.vetted(vetted.rules());

        // 2 session and working directory
        let owned = Arc::clone(inner);
        let bound = execution.blocking("bind the command", move || owned.gate.bind(vetted)).await??;
        audit.bound(bound.cwd());

        // 3 capabilities
        let permit = inner.gate.permit(bound).await.inspect_err(|error| audit.refused(error))?;
        audit.permitted(permit.decision(), &permit.effective());

        // 4 profile
        let driver = Arc::clone(&inner.driver);
        let plan = move || -> Result<ApprovedRun, SandboxError> { Ok(permit.plan(&driver.facts()?)?) };
        let approved = execution.blocking("plan the box", plan).await??;

        let required = |(name, _): &(LayerName, String)| approved.limits().required.contains(name);
        if let Some((name, detail)) = approved.policy().shortfalls().into_iter().find(required) {
            return Err(DriverError::RequiredLayer { name, status: LayerStatus::Partial, detail }.into());
        }

        let finish = Finish::new(&approved, inner.driver.platform(), inner.output);
        Ok((approved, finish))
    }
}

#[async_trait]
impl Sandbox for WorkspaceSandbox {
    async fn execute(&self, c: SandboxCommand) -> Result<SandboxOutput, SandboxError> {
        let driver = &self.inner.driver;
        let mut audit = Audit::start(&c, driver.platform());
        let result = async {
            let (approved, finish) = self.prepare(c, Execution::Runtime, &mut audit).await?;
            // 5 run, and the look at what it left
            let result = driver.run(approved).await;
            finish.look(Execution::Runtime, result).await
        }
        .await;
        // 6 audit
        audit.end(&result);
        result
    }
}

impl fmt::Debug for WorkspaceSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkspaceSandbox")
            .field("driver", &self.inner.driver.platform())
            .field("hooks", &self.inner.hooks)
            .finish_non_exhaustive()
    }
}

impl Inner {
    /// The session's variables first, so that the command's own beat them.
    fn with_env(&self, mut command: SandboxCommand) -> SandboxCommand {
        if !self.env.is_empty() {
            let own = std::mem::replace(&mut command.env, self.env.clone());
            command.env.extend(own);
        }
        command
    }

    /// Drops idle sessions, once in a while: the cost of one command must not grow with their number.
    fn sweep(&self) {
        let idle = self.gate.config().idle;
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        if swept.elapsed() < idle / 4 {
            return;
        }
        *swept = Instant::now();
        drop(swept);
        for session in self.gate.sessions().evict_idle(idle) {
            self.hooks.forget(&session);
        }
    }
}

/// The driver of the system that this was built for.
#[cfg(target_os = "linux")]
fn default_driver() -> Option<Arc<dyn OsSandboxDriverTrait>> {
    Some(Arc::new(ringfence_linux::LinuxDriver::new()))
}

/// There is none yet.
#[cfg(not(target_os = "linux"))]
fn default_driver() -> Option<Arc<dyn OsSandboxDriverTrait>> {
    None
}
