//! Options of `proxy`.

use std::net::SocketAddr;

use clap::{ArgAction, Args, ValueEnum};
use ringfence_types::{HostPattern, SniCheck};

use super::values;

/// `ringfence proxy`
#[derive(Debug, Args)]
pub(crate) struct ProxyArgs {
    /// Let clients reach this host: name, *.suffix, **.suffix, address or network, with :port or :* [default: ports 80
    /// and 443]
    #[arg(long, value_name = "PATTERN", action = ArgAction::Append, help_heading = "Policy")]
    pub(crate) allow_host: Vec<HostPattern>,

    /// Keep clients from this host, whatever else is said; without a port on every port
    #[arg(long, value_name = "PATTERN", action = ArgAction::Append, help_heading = "Policy")]
    pub(crate) deny_host: Vec<HostPattern>,

    /// Let clients reach every host with a public address
    #[arg(long, value_name = "NET", help_heading = "Policy")]
    pub(crate) net: Option<ProxyNet>,

    /// Let clients reach this port of this machine's loopback
    #[arg(long, value_name = "PORT", action = ArgAction::Append, value_parser = values::port, help_heading = "Policy")]
    pub(crate) allow_loopback: Vec<u16>,

    /// What to do with a TLS connection whose server name is not the allowed host
    #[arg(long, value_name = "CHECK", default_value = "strict", help_heading = "Policy")]
    pub(crate) sni: Sni,

    /// Connections at one time; further ones wait
    #[arg(long, value_name = "N", default_value_t = 16384, value_parser = clap::value_parser!(u32).range(1..=65_536), help_heading = "Limits")]
    pub(crate) max_connections: u32,

    /// Loopback address and port to listen on; port 0 means a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,

    /// Print each event as one JSON object on a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// `--net` of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProxyNet {
    /// Public addresses only
    Public,
}

/// `--sni`, of runs too
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sni {
    /// Refuse it
    Strict,
    /// Say so, and let it pass
    Log,
}

impl From<Sni> for SniCheck {
    fn from(check: Sni) -> Self {
        match check {
            Sni::Strict => Self::Strict,
            Sni::Log => Self::Log,
        }
    }
}
