use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Connections of a command to one host and port about which the same was decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// The host as the command named it: a name or an address.
    pub host: String,
    /// The port; none if the command only looked the name up.
    pub port: Option<u16>,
    /// Whether they were allowed.
    pub allowed: bool,
    /// What that rests on: `allowed`, `public`, `loopback-port`, `asked`, `denied`, `not-listed`, `not-approved`,
    /// `guarded`, `unknown-address` or `server-name`.
    pub rule: String,
    /// The pattern, the person, the address or the reason that the rule names, if it names one.
    pub detail: Option<String>,
    /// The address that was connected to, the last one if there were several.
    pub address: Option<IpAddr>,
    /// How many.
    pub count: u64,
    /// Bytes from the command to the host, of those that have ended.
    pub sent: u64,
    /// Bytes from the host to the command.
    pub received: u64,
    /// Their durations together, in milliseconds.
    pub duration_ms: u64,
}

/// What a command connected to, or tried to, through the proxy of its run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// In the order of the first of each.
    pub list: Vec<Connection>,
    /// Connections that are not in the list because it is full.
    pub omitted: u64,
}

impl Connections {
    /// Whether there was none at all.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty() && self.omitted == 0
    }
}
