use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! layer_names {
    ($($variant:ident = $name:literal, $doc:literal;)*) => {
        /// A mechanism that enforces part of the policy. The names are also those of `--require`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum LayerName { $(#[doc = $doc] #[serde(rename = $name)] $variant,)* }

        impl LayerName {
            /// All layers, in the order in which reports list them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The layer's name in JSON and on the command line.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What the layer does, in one line.
            pub fn describe(self) -> &'static str {
                match self { $(Self::$variant => $doc,)* }
            }
        }
    };
}

layer_names! {
    UserNs = "userns", "user namespace: the command's identity has no privilege outside";
    MountNs = "mountns", "mount namespace: the command sees only the granted files";
    PidNs = "pidns", "PID namespace: the command sees and ends only its own processes";
    NetNs = "netns", "network namespace: no interface but the box's own loopback";
    IpcNs = "ipcns", "IPC namespace: no shared memory or queues of the host";
    UtsNs = "utsns", "UTS namespace: a host name of its own";
    Landlock = "landlock", "Landlock: file rights checked again at each path, abstract sockets and signals scoped";
    Seccomp = "seccomp", "seccomp: system calls that the command has no use for are refused";
    SocketGate = "socket-gate", "socket gate: socket families limited to what the network policy needs";
    Caps = "caps", "capabilities: none held, none to be gained";
    Cgroup = "cgroup", "cgroup v2: memory, processors and process count limited for the whole tree";
    Rlimits = "rlimits", "resource limits of each process";
    Protected = "protected", "protected paths: what the box may not plant";
    Proxy = "proxy", "managed proxy: network by host name";
}

impl fmt::Display for LayerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no layer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown layer `{0}`, expected one of {all}", all = LayerName::ALL.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", "))]
pub struct UnknownLayer(String);

impl std::str::FromStr for LayerName {
    type Err = UnknownLayer;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.iter().copied().find(|name| name.as_str() == text);
        known.ok_or_else(|| UnknownLayer(text.to_owned()))
    }
}

/// How far a layer is in force. It comes from a return value or a read-back, never from the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LayerStatus {
    /// In force as planned.
    Enforced,
    /// In force with a part missing; the detail says which.
    Partial,
    /// Asked for, and not in force.
    Missing,
    /// The policy has no need of it.
    NotRequested,
}

impl LayerStatus {
    /// The status' name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::Partial => "partial",
            Self::Missing => "missing",
            Self::NotRequested => "not-requested",
        }
    }
}

/// One line of a [`LayerReport`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// Which mechanism.
    pub name: LayerName,
    /// How far it is in force.
    pub status: LayerStatus,
    /// What exactly was enforced, or what is missing and why.
    pub detail: String,
}

/// What was enforced for one run: at most one entry a layer, in the order of [`LayerName::ALL`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LayerReport(Vec<Layer>);

impl LayerReport {
    /// A report that names no layer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records a layer's status. A second record of the same layer keeps the weaker status and both details.
    pub fn record(&mut self, name: LayerName, status: LayerStatus, detail: impl Into<String>) {
        let detail = detail.into();
        match self.0.binary_search_by_key(&name, |layer| layer.name) {
            Ok(at) => {
                let layer = &mut self.0[at];
                layer.status = weaker(layer.status, status);
                if !detail.is_empty() && !layer.detail.contains(&detail) {
                    if !layer.detail.is_empty() {
                        layer.detail.push_str("; ");
                    }
                    layer.detail.push_str(&detail);
                }
            }
            Err(at) => self.0.insert(at, Layer { name, status, detail }),
        }
    }

    /// The entry of one layer.
    pub fn get(&self, name: LayerName) -> Option<&Layer> {
        self.0.iter().find(|layer| layer.name == name)
    }

    /// The entries in order.
    pub fn iter(&self) -> impl Iterator<Item = &Layer> {
        self.0.iter()
    }

    /// The first of `required` that is not fully enforced.
    pub fn first_unmet(&self, required: &[LayerName]) -> Option<(LayerName, LayerStatus)> {
        required.iter().find_map(|&name| {
            let status = self.get(name).map_or(LayerStatus::Missing, |layer| layer.status);
            (status != LayerStatus::Enforced).then_some((name, status))
        })
    }
}

fn weaker(a: LayerStatus, b: LayerStatus) -> LayerStatus {
    let rank = |status| match status {
        LayerStatus::NotRequested => 0,
        LayerStatus::Enforced => 1,
        LayerStatus::Partial => 2,
        LayerStatus::Missing => 3,
    };
    if rank(a) >= rank(b) { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_record_keeps_the_weaker_status() {
        let mut report = LayerReport::new();
        report.record(LayerName::Seccomp, LayerStatus::Partial, "x32");
        report.record(LayerName::UserNs, LayerStatus::Enforced, "");
        report.record(LayerName::Seccomp, LayerStatus::Enforced, "80 rows");
        let names: Vec<_> = report.iter().map(|layer| layer.name).collect();
        assert_eq!(names, [LayerName::UserNs, LayerName::Seccomp]);
        assert_eq!(report.get(LayerName::Seccomp).unwrap().status, LayerStatus::Partial);
        assert_eq!(report.get(LayerName::Seccomp).unwrap().detail, "x32; 80 rows");
    }

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for name in LayerName::ALL {
            assert_eq!(name.as_str().parse(), Ok(*name));
        }
        let error = "Seccomp".parse::<LayerName>().unwrap_err();
        assert!(error.to_string().starts_with("unknown layer `Seccomp`, expected one of userns, mountns, "));
    }

    #[test]
    fn a_layer_without_an_entry_does_not_meet_a_requirement() {
        let report = LayerReport::new();
        assert_eq!(
            report.first_unmet(&[LayerName::Landlock]),
            Some((LayerName::Landlock, LayerStatus::Missing))
        );
    }
}
