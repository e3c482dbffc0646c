//! The plan as JSON. Paths are text even where they are not UTF-8 (other bytes as `\xNN`), values of environment
//! variables are left out.

use std::path::Path;

use ringfence::SessionSettings;
use ringfence::packages::Packages;
use ringfence_plan::linux::seccomp::{Arch, RuleSummary, SocketGate};
use ringfence_plan::linux::{Identity, LandlockPlan, LinuxPlan, MountOp, NetworkPlan};
use ringfence_types::{
    HostPattern, Network, Publish, ResolvedPath, ResolvedPolicy, Rlimits, UnixPath, WorkspaceAccess,
};
use serde::Serialize;

use super::layers::PlannedLayer;
use crate::output::ErrorReport;

/// The object of `explain --json`.
#[derive(Debug, Serialize)]
pub(crate) struct ExplainReport<'a> {
    pub(super) target: Option<&'static str>,
    pub(super) backend: Option<&'a str>,
    pub(super) policy: Option<PolicyReport<'a>>,
    pub(super) plan: Option<PlanReport<'a>>,
    pub(super) layers: Vec<PlannedLayer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<ErrorReport>,
}

/// The policy on canonical paths.
#[derive(Debug, Serialize)]
pub(super) struct PolicyReport<'a> {
    pub(super) mode: &'static str,
    pub(super) profiles: &'a [String],
    packages: &'a Packages,
    workspace: UnixPath,
    workspace_access: WorkspaceAccess,
    cwd: UnixPath,
    read: Vec<UnixPath>,
    write: Vec<UnixPath>,
    deny: Vec<UnixPath>,
    deny_patterns: Vec<UnixPath>,
    network: &'a Network,
    deny_hosts: &'a [HostPattern],
    internal_hosts: &'a [HostPattern],
    loopback_ports: &'a [u16],
    publish: &'a [Publish],
    loopback: bool,
    spawn_subprocess: bool,
    unix_sockets: Vec<UnixPath>,
    devices: Vec<&'a str>,
    timeout_secs: Option<u64>,
    private_home: Option<UnixPath>,
    caches: Vec<UnixPath>,
    protected: ProtectedReport<'a>,
}

#[derive(Debug, Serialize)]
struct ProtectedReport<'a> {
    read_only: Vec<UnixPath>,
    pinned: Vec<UnixPath>,
    incomplete: Option<&'a str>,
}

/// The launch plan.
#[derive(Debug, Serialize)]
pub(super) struct PlanReport<'a> {
    identity: Identity,
    cwd: &'a UnixPath,
    own_network: bool,
    network: Option<&'a NetworkPlan>,
    mounts: &'a [MountOp],
    landlock: Option<&'a LandlockPlan>,
    seccomp: SeccompReport,
    socket_gate: SocketGate,
    rlimits: Rlimits,
    environment: &'a [UnixPath],
    writable: &'a [UnixPath],
}

#[derive(Debug, Serialize)]
struct SeccompReport {
    arch: Arch,
    instructions: usize,
    rows: Vec<RuleSummary>,
}

impl<'a> PolicyReport<'a> {
    pub(super) fn new(settings: &'a SessionSettings, policy: &'a ResolvedPolicy) -> Self {
        Self {
            mode: settings.mode.as_str(),
            profiles: &settings.profiles,
            packages: &settings.packages,
            workspace: text(&policy.workspace.path),
            workspace_access: policy.workspace_access,
            cwd: text(&policy.cwd.path),
            read: list(&policy.read),
            write: list(&policy.write),
            deny: list(&policy.deny),
            deny_patterns: policy.deny_patterns.iter().map(|path| text(path)).collect(),
            network: &policy.network,
            deny_hosts: &policy.deny_hosts,
            internal_hosts: &policy.internal_hosts,
            loopback_ports: &policy.loopback_ports,
            publish: &policy.publish,
            loopback: policy.loopback,
            spawn_subprocess: policy.spawn,
            unix_sockets: list(&policy.unix_sockets),
            devices: policy.devices.iter().map(|device| device.name.as_str()).collect(),
            timeout_secs: policy.timeout_secs,
            private_home: policy.private_home.as_deref().map(text),
            caches: policy.caches.iter().map(|cache| text(&cache.at.path)).collect(),
            protected: ProtectedReport {
                read_only: list(&policy.protected.read_only),
                pinned: list(&policy.protected.pins),
                incomplete: policy.protected.incomplete.as_deref(),
            },
        }
    }
}

impl<'a> PlanReport<'a> {
    /// `variables` are the names of the complete environment.
    pub(super) fn new(plan: &'a LinuxPlan, variables: &'a [UnixPath]) -> Self {
        Self {
            identity: plan.identity,
            cwd: &plan.cwd,
            own_network: plan.own_network,
            network: plan.network.as_ref(),
            mounts: &plan.mounts,
            landlock: plan.landlock.as_ref(),
            seccomp: SeccompReport {
                arch: plan.seccomp.arch(),
                instructions: plan.seccomp.instructions().len(),
                rows: plan.seccomp.rows(),
            },
            socket_gate: plan.socket_gate,
            rlimits: plan.rlimits,
            environment: variables,
            writable: &plan.writable,
        }
    }
}

impl<'a> ExplainReport<'a> {
    pub(super) fn new(
        backend: &'a str,
        layers: Vec<PlannedLayer>,
        policy: PolicyReport<'a>,
        plan: PlanReport<'a>,
    ) -> Self {
        Self {
            target: Some("linux"),
            backend: Some(backend),
            policy: Some(policy),
            plan: Some(plan),
            layers,
            error: None,
        }
    }
}

fn text(path: &Path) -> UnixPath {
    UnixPath::from(path)
}

fn list(paths: &[ResolvedPath]) -> Vec<UnixPath> {
    paths.iter().map(|path| text(&path.path)).collect()
}
