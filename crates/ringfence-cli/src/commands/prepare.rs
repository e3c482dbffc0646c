//! From a resolved request to a sandbox of the library and a command for it.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::Path;
use std::process;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use ringfence::config::Sources;
use ringfence::{
    ApprovalGate, HostEnv, Lifetime, LocalBox, Mode, NetworkPolicy, SandboxCommand, SandboxConfig,
    SandboxError, SandboxParts, SessionId, SessionSettings, SessionStart, Stdio, TerminalRequester,
    WorkspaceSandbox, session_directory,
};

use crate::error::CliError;
use crate::request::{Place, Request};

/// A sandbox whose one session has started, and what the session may do.
pub(super) struct Prepared {
    pub(super) sandbox: WorkspaceSandbox,
    pub(super) session: SessionId,
    pub(super) settings: SessionSettings,
    /// The box, as far as it can be made before all this is known.
    pub(super) hosted: LocalBox,
}

/// Whether a command is going to run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Run,
    Explain,
}

/// Reads the configuration, resolves what the session may do, and starts it.
pub(super) fn prepare(request: &Request, purpose: Purpose) -> Result<Prepared, CliError> {
    let host = HostEnv::current();
    let (mut config, session, start) = locate(request, &host)?;
    let failed = |source| CliError::Sandbox { session: session.to_string(), source };
    if !config.enabled {
        return Err(failed(SandboxError::Disabled));
    }
    let workspace = match &start.directory {
        Some(directory) => Cow::from(directory),
        None => Cow::from(session_directory(&config.workspace_root, &session)),
    };
    let hosted = match purpose {
        Purpose::Run => begin(request, &config, &workspace),
        Purpose::Explain => LocalBox::default(),
    };
    let settings = SessionSettings::resolve(&config, &host, &workspace, &request.options)?;

    // A person at a terminal ends what takes too long, and types no faster than a rate limit allows.
    config.default_timeout = None;
    config.rate_limit.enabled = false;
    config.required.clone_from(&request.required);
    config.session = Some(settings.clone());
    if let Some(bytes) = request.max_output {
        config.max_output_bytes = bytes;
    }
    let requester = request.prompt.then(|| Arc::new(TerminalRequester::new()) as _);
    let parts = SandboxParts {
        gate: Some(ApprovalGate::new(requester)),
        host: Some(host),
        ..SandboxParts::default()
    };
    let sandbox = WorkspaceSandbox::new(&config, parts)?;
    sandbox.start_session(&session, start).map_err(failed)?;
    Ok(Prepared { sandbox, session, settings, hosted })
}

/// Lets the kernel make the box of a usual run while the rest is being resolved.
fn begin(request: &Request, config: &SandboxConfig, workspace: &Path) -> LocalBox {
    let options = &request.options;
    let shows_the_disk = match options.mode.unwrap_or(options.default_mode) {
        Mode::Strict => false,
        Mode::ReadOnly | Mode::WorkspaceWrite => true,
        Mode::FullAccess => return LocalBox::default(),
    };
    if options.network == Some(NetworkPolicy::AllowAll) {
        return LocalBox::default();
    }
    let keeps_temp = matches!(request.place, Place::Session(_));
    LocalBox::begin(shows_the_disk, keeps_temp, &config.linux, workspace)
}

/// The merged configuration, and how the session starts. A run without `--session` is a session of its own.
fn locate(request: &Request, host: &HostEnv) -> Result<(SandboxConfig, SessionId, SessionStart), CliError> {
    let load = |workspace: Option<&Path>| Sources { host, file: request.config.as_deref(), workspace }.load();
    match &request.place {
        Place::Directory(directory) => {
            let config = load(Some(directory))?.config;
            let start = SessionStart {
                directory: Some(directory.clone()),
                lifetime: Lifetime::Run,
                ..SessionStart::default()
            };
            Ok((config, SessionId::new(unique_id()), start))
        }
        Place::Session(id) => {
            let session = SessionId::new(id.as_str());
            // The user's own file says where sessions lie.
            let root = load(None)?.config.workspace_root;
            let config = load(Some(&session_directory(&root, &session)))?.config;
            Ok((config, session, SessionStart { lifetime: Lifetime::Session, ..SessionStart::default() }))
        }
    }
}

/// An id that no other run has: process id and time.
fn unique_id() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("run-{}-{}", process::id(), now.as_nanos())
}

impl Prepared {
    /// A command that asks for all that the session may do.
    pub(super) fn command(&self, request: &Request, program: OsString, args: &[OsString]) -> SandboxCommand {
        let mut command = SandboxCommand::new(self.session.clone(), program)
            .args(args.iter().cloned())
            .capabilities(self.settings.policy.baseline.clone());
        command.tool_name = "ringfence".to_owned();
        command.stdio = Stdio::Capture;
        command.cwd.clone_from(&request.cwd);
        command.timeout = request.timeout;
        command
    }
}
