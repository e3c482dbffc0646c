//! What a run may reach: a pure decision on a host and port, then one on each address that the host resolves to.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use ringfence_types::{Host, HostPattern, PortPattern, SniCheck};
use serde::Serialize;

use crate::ask::NoApproval;
use crate::guard::{AddressKind, classify, embedded_v4, special_block};

/// Which hosts may be reached before the lists are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// Those that are listed.
    #[default]
    Listed,
    /// Every host with a public address.
    Public,
}

/// What the clients of a listener may reach. The default allows nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressPolicy {
    /// What is allowed without being listed.
    pub reach: Reach,
    /// Hosts that may be reached; without a port on 80 and 443.
    pub allow: Vec<HostPattern>,
    /// Hosts that may not, whatever else is said; without a port on every port.
    pub deny: Vec<HostPattern>,
    /// Names that may lead to addresses which are not public, as a mirror within a company does. Loopback, link-local
    /// and multicast addresses and metadata services stay guarded. Nothing is allowed by this alone.
    pub internal: Vec<HostPattern>,
    /// Whether an allowed name may lead to a private address (RFC 1918, RFC 4193, RFC 6598).
    pub allow_private: bool,
    /// Ports of the loopback that may be reached by `localhost` and loopback addresses.
    pub allow_loopback_ports: BTreeSet<u16>,
    /// What is done about server names that don't fit.
    pub sni: SniCheck,
}

/// What a decision rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "rule")]
pub enum Rule {
    /// A pattern of the allow list.
    Allowed {
        /// The pattern.
        pattern: HostPattern,
    },
    /// Every public host may be reached.
    Public,
    /// The loopback port is on its list.
    LoopbackPort,
    /// Somebody was asked and said yes.
    Asked {
        /// Who.
        by: String,
    },
    /// A pattern of the deny list.
    Denied {
        /// The pattern.
        pattern: HostPattern,
    },
    /// Nothing allows it.
    NotListed,
    /// Somebody was asked, or would have been, and there is no yes.
    NotApproved {
        /// Why not.
        reason: NoApproval,
    },
    /// Every address of the host is one that has to be listed.
    Guarded {
        /// The address.
        guarded: IpAddr,
        /// Its kind.
        kind: AddressKind,
    },
    /// The transparent listener was reached at an address that stands for no name.
    UnknownAddress,
    /// A TLS connection named another server than the host that was allowed.
    ServerName {
        /// The name that the client sent, or what was wrong with its message.
        found: String,
    },
}

impl Rule {
    /// The rule's name in events, in the reply's header and on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Allowed { .. } => "allowed",
            Self::Public => "public",
            Self::LoopbackPort => "loopback-port",
            Self::Asked { .. } => "asked",
            Self::Denied { .. } => "denied",
            Self::NotListed => "not-listed",
            Self::NotApproved { .. } => "not-approved",
            Self::Guarded { .. } => "guarded",
            Self::UnknownAddress => "unknown-address",
            Self::ServerName { .. } => "server-name",
        }
    }

    /// Whether it allows.
    pub fn allows(&self) -> bool {
        matches!(self, Self::Allowed { .. } | Self::Public | Self::LoopbackPort | Self::Asked { .. })
    }

    /// Why this was refused, in one line.
    pub fn explain(&self, wanted: &Wanted) -> String {
        match self {
            Self::Denied { pattern } => format!("{wanted} is denied by `{pattern}`"),
            Self::NotListed => format!("{wanted} is not on the list of allowed hosts"),
            Self::NotApproved { reason } => format!("{wanted} was not approved: {}", reason.describe()),
            Self::Guarded { guarded, kind } if wanted.host == Host::Ip(*guarded) => {
                format!("{wanted} is {}", kind.describe())
            }
            Self::Guarded { guarded, kind } => format!("{wanted} leads to {guarded}, {}", kind.describe()),
            Self::UnknownAddress => format!("{wanted} stands for no host name"),
            Self::ServerName { found } => {
                format!("{wanted} was allowed, but the TLS connection is for {found}")
            }
            _ => format!("{wanted} is allowed"),
        }
    }

    /// The option that would allow what this rule refuses, if one would.
    pub fn allow_with(&self, wanted: &Wanted) -> Option<String> {
        let host = match self {
            Self::NotListed | Self::NotApproved { .. } => &wanted.host,
            Self::Guarded { kind: AddressKind::Loopback, .. } => {
                return wanted.port.map(|port| format!("--allow-loopback {port}"));
            }
            Self::Guarded { guarded, .. } => &Host::Ip(*guarded),
            _ => return None,
        };
        match wanted.port {
            Some(port) => Some(format!("--allow-host {}", HostPattern::exact(host, port))),
            None => Some(format!("--allow-host {host}")),
        }
    }
}

/// A host and port that a client wants to reach.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Wanted {
    /// The host.
    pub host: Host,
    /// The port; none for a look-up.
    pub port: Option<u16>,
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => self.host.fmt(f),
        }
    }
}

/// What the lists say about a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// It may be reached, if one of its addresses may.
    Allowed(Rule),
    /// It may not, and nobody is asked.
    Denied(Rule),
    /// Nothing is said.
    Unlisted,
}

impl EgressPolicy {
    /// What the lists say about a host and port.
    pub(crate) fn judge(&self, host: &Host, port: u16) -> Judgement {
        if let Some(rule) = self.denied(host, port) {
            return Judgement::Denied(rule);
        }
        let loopback = host.is_localhost() || matches!(host, Host::Ip(ip) if ip.is_loopback());
        if loopback && self.allow_loopback_ports.contains(&port) {
            return Judgement::Allowed(Rule::LoopbackPort);
        }
        if let Some(pattern) = self.allow.iter().find(|pattern| pattern.matches(host, port)) {
            return Judgement::Allowed(Rule::Allowed { pattern: pattern.clone() });
        }
        match host {
            Host::Ip(ip) => match self.guard(*ip, port) {
                Err(rule) => Judgement::Denied(rule),
                Ok(()) if self.reach == Reach::Public => Judgement::Allowed(Rule::Public),
                Ok(()) => Judgement::Unlisted,
            },
            Host::Name(_) if self.reach == Reach::Public => Judgement::Allowed(Rule::Public),
            Host::Name(_) => Judgement::Unlisted,
        }
    }

    /// Whether a connection on behalf of an allowed host may go to this address.
    ///
    /// # Errors
    /// The rule that refuses it.
    pub(crate) fn check_address(&self, host: &Host, address: IpAddr, port: u16) -> Result<(), Rule> {
        if let Some(rule) = self.denied(&Host::Ip(address), port) {
            return Err(rule);
        }
        let named = matches!(host, Host::Name(_)) && self.internal.iter().any(|own| own.matches(host, port));
        match self.guard(address, port) {
            Err(_) if named && may_be_internal(address) => Ok(()),
            checked => checked,
        }
    }

    /// Whether a client may look this name up: some port of it may be reached. `asks` says whether somebody decides
    /// about names that are not listed.
    pub(crate) fn may_look_up(&self, host: &Host, asks: bool) -> bool {
        self.denied_on_every_port(host).is_none()
            && (asks
                || self.reach == Reach::Public
                || self.allow.iter().any(|pattern| pattern.matches_host(host)))
    }

    /// The deny rule that leaves no port of a host.
    pub(crate) fn denied_on_every_port(&self, host: &Host) -> Option<Rule> {
        let whole = |pattern: &&HostPattern| !matches!(pattern.port(), PortPattern::One(_));
        let hit = self.deny.iter().filter(whole).find(|pattern| pattern.matches_host(host));
        hit.map(|pattern| Rule::Denied { pattern: pattern.clone() })
    }

    /// The deny rule that means this host or, for an address, the one that it leads to or its other spelling.
    pub(crate) fn denied(&self, host: &Host, port: u16) -> Option<Rule> {
        let other: Option<IpAddr> = match host {
            Host::Ip(IpAddr::V4(ip)) => Some(ip.to_ipv6_mapped().into()),
            Host::Ip(ip) => embedded_v4(*ip).map(IpAddr::from),
            Host::Name(_) => None,
        };
        let other = other.map(Host::Ip);
        let hit = self.deny.iter().find(|pattern| {
            let port_hit = match pattern.port() {
                PortPattern::One(own) => own == port,
                PortPattern::Web | PortPattern::Any => true,
            };
            port_hit
                && (pattern.matches_host(host) || other.as_ref().is_some_and(|ip| pattern.matches_host(ip)))
        });
        hit.map(|pattern| Rule::Denied { pattern: pattern.clone() })
    }

    fn guard(&self, address: IpAddr, port: u16) -> Result<(), Rule> {
        match classify(address) {
            Some(kind) if !self.lifts(address, kind, port) => Err(Rule::Guarded { guarded: address, kind }),
            _ => Ok(()),
        }
    }

    /// Whether the guard is lifted for a non-public address: it is listed itself, or within a listed network that
    /// holds no public address. A listed network of embeddings says nothing about the addresses that they lead to.
    fn lifts(&self, address: IpAddr, kind: AddressKind, port: u16) -> bool {
        let loopback_port = kind == AddressKind::Loopback && self.allow_loopback_ports.contains(&port);
        let private = matches!(kind, AddressKind::Private | AddressKind::Shared) && self.allow_private;
        if loopback_port || private {
            return true;
        }
        let host = Host::Ip(address);
        let mut listed =
            self.allow.iter().filter(|pattern| pattern.matches(&host, port)).filter_map(HostPattern::network);
        listed.any(|(net, length)| {
            if length == if net.is_ipv4() { 32 } else { 128 } {
                return true;
            }
            let whole = special_block(net, length).is_some();
            whole
                && (!kind.is_embedding()
                    || embedded_v4(address).is_some_and(|ip| self.guard(ip.into(), port).is_ok()))
        })
    }
}

/// Whether a service for others can lie at an address: not this machine, its link or what a cloud puts there, in any
/// embedding.
fn may_be_internal(address: IpAddr) -> bool {
    match classify(address) {
        None => true,
        Some(
            AddressKind::Private
            | AddressKind::Shared
            | AddressKind::Documentation
            | AddressKind::Benchmarking
            | AddressKind::Reserved
            | AddressKind::SiteLocal,
        ) => true,
        Some(kind) if kind.is_embedding() => {
            embedded_v4(address).is_some_and(|ip| may_be_internal(ip.into()))
        }
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests;
