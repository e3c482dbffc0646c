//! Layers as the plan has them. Whether one holds is known only when it is put in force, so the strongest word
//! here is "planned".

use ringfence_plan::linux::LinuxPlan;
use ringfence_plan::linux::seccomp::SocketGate;
use ringfence_types::{LayerName, ResolvedPolicy};
use serde::Serialize;

/// What is intended for a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Intent {
    /// Will be put in force.
    Planned,
    /// This host has it not.
    Missing,
    /// The policy has no need of it.
    NotRequested,
}

impl Intent {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Missing => "missing",
            Self::NotRequested => "not-requested",
        }
    }
}

/// One layer of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct PlannedLayer {
    pub(super) name: LayerName,
    pub(super) status: Intent,
    pub(super) detail: String,
}

/// Every layer, in the order of reports.
pub(super) fn of(policy: &ResolvedPolicy, plan: &LinuxPlan) -> Vec<PlannedLayer> {
    let shortfalls = policy.shortfalls();
    let layer = |&name| {
        let (status, mut detail) = intent(plan, name);
        for (_, shortfall) in shortfalls.iter().filter(|(layer, _)| *layer == name) {
            detail = format!("{detail}; {shortfall}");
        }
        PlannedLayer { name, status, detail }
    };
    LayerName::ALL.iter().map(layer).collect()
}

fn intent(plan: &LinuxPlan, name: LayerName) -> (Intent, String) {
    let planned = |detail: &str| (Intent::Planned, detail.to_owned());
    match name {
        LayerName::UserNs => {
            (Intent::Planned, format!("uid {}, gid {}", plan.identity.uid, plan.identity.gid))
        }
        LayerName::MountNs => (Intent::Planned, format!("{} mount operations", plan.mounts.len())),
        LayerName::PidNs => planned("own processes only"),
        LayerName::NetNs if plan.own_network => planned("own loopback only"),
        LayerName::NetNs => (Intent::NotRequested, "the host's network".to_owned()),
        LayerName::IpcNs | LayerName::UtsNs | LayerName::Caps => planned(""),
        LayerName::Landlock => landlock(plan),
        LayerName::Seccomp => {
            (Intent::Planned, format!("{} instructions", plan.seccomp.instructions().len()))
        }
        LayerName::SocketGate => planned(gate(plan.socket_gate)),
        LayerName::Rlimits if plan.rlimits == Default::default() => planned("core dumps"),
        LayerName::Rlimits => planned("core dumps, and the limits of the config"),
        LayerName::Protected => match &plan.protected_incomplete {
            Some(reason) => {
                (Intent::Planned, format!("{} paths; search incomplete: {reason}", plan.protected_count))
            }
            None => (Intent::Planned, format!("{} paths", plan.protected_count)),
        },
        LayerName::Cgroup => (Intent::NotRequested, "no limit of memory, processes or processors".to_owned()),
        LayerName::Proxy if plan.network.is_some() => planned("every connection is decided on one by one"),
        LayerName::Proxy => (Intent::NotRequested, "no network by host name".to_owned()),
    }
}

fn landlock(plan: &LinuxPlan) -> (Intent, String) {
    match &plan.landlock {
        None => (Intent::Missing, "the kernel has no Landlock, or it is not enabled".to_owned()),
        Some(landlock) => {
            let files = landlock
                .rules
                .as_ref()
                .map_or("no file rules".to_owned(), |rules| format!("{} rules", rules.len()));
            let scopes = if landlock.scoped { "abstract sockets and signals scoped" } else { "no scopes" };
            (Intent::Planned, format!("ABI {}, {files}, {scopes}", landlock.abi))
        }
    }
}

/// The socket gate in words.
pub(super) fn gate(gate: SocketGate) -> &'static str {
    match gate {
        SocketGate::UnixOnly => "Unix sockets and route queries",
        SocketGate::LoopbackOnly => "Unix sockets and the box's own loopback",
        SocketGate::ProxyRouted => "Unix sockets, and the box's own loopback with its proxy",
        SocketGate::Unrestricted => "all families but AF_ALG and AF_VSOCK",
    }
}
