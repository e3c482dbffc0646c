use serde::{Deserialize, Serialize};

/// What becomes of a TLS connection whose server name is not the host that was allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SniCheck {
    /// It is refused.
    #[default]
    Strict,
    /// It goes on, and the event says so.
    Log,
}

/// Settings of the proxy of a box that reaches some hosts by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProxySettings {
    /// What is done about server names that don't fit. [`SniCheck::Log`] is reported.
    pub sni: SniCheck,
    /// Connections of a run at one time; further ones wait.
    pub max_connections: u32,
}

impl Default for ProxySettings {
    fn default() -> Self {
        Self { sni: SniCheck::Strict, max_connections: 4096 }
    }
}
