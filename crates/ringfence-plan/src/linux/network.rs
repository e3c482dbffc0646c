//! What a box of its own network namespace has besides an empty loopback: the way to a proxy, and single ports.

use std::net::{Ipv4Addr, SocketAddrV4};

use ringfence_types::{HostPattern, Network, ProxySettings, Publish, ResolvedPolicy};
use serde::{Deserialize, Serialize};

use super::EnvBytes;

/// Where the proxy listens in the box. The command can't bind a port below 1024, so none of its servers gets in the
/// way.
pub const PROXY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 808);
/// Where the packet filter sends every connection that leaves the box, at both loopback addresses.
pub const TRANSPARENT_PORT: u16 = 809;
/// Where the look-up service listens.
pub const DNS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 53);

/// The resolver's configuration inside.
pub(super) const RESOLV_CONF: &str = "nameserver 127.0.0.1\n";
/// Names are looked up in the box's own files, then in its look-up service (nsswitch.conf(5)).
pub(super) const NSSWITCH_CONF: &str = "passwd: files sss\ngroup: files sss\nshadow: files\nhosts: files dns\n\
    networks: files\nprotocols: files\nservices: files\nethers: files\nrpc: files\n";

/// What the box's namespace has besides its empty loopback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkPlan {
    /// What the proxy lets through; `None` if there is none.
    pub hosts: Option<HostRules>,
    /// Ports of the box's loopback that lead to the same port of the host's.
    pub loopback_ports: Vec<u16>,
    /// Ports of the host that lead into the box.
    pub publish: Vec<Publish>,
    /// Settings of the proxy, which serves `hosts` and `loopback_ports`.
    pub proxy: ProxySettings,
}

/// The proxy's rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRules {
    /// Whether every public address may be reached.
    pub public: bool,
    /// Hosts that may be reached; without a port on 80 and 443.
    pub allow: Vec<HostPattern>,
    /// Hosts that may not; without a port on every port.
    pub deny: Vec<HostPattern>,
    /// Hosts whose names may lead to addresses that are not public.
    pub internal: Vec<HostPattern>,
}

impl NetworkPlan {
    /// `None` if the namespace stays empty, or there is none.
    pub(super) fn of(policy: &ResolvedPolicy) -> Option<Self> {
        let hosts = policy.network.is_by_host().then(|| HostRules {
            public: matches!(policy.network, Network::Public { .. }),
            allow: policy.network.hosts().to_vec(),
            deny: policy.deny_hosts.clone(),
            internal: policy.internal_hosts.clone(),
        });
        let plan = Self {
            hosts,
            loopback_ports: policy.loopback_ports.clone(),
            publish: policy.publish.clone(),
            proxy: policy.proxy,
        };
        let needed = plan.hosts.is_some() || !plan.loopback_ports.is_empty() || !plan.publish.is_empty();
        (needed && policy.network != Network::AllowAll).then_some(plan)
    }
}

/// Variables by which programs find the proxy, in the spellings of those that read no other.
///
/// Those of a Java virtual machine are left out: it says on standard error that it has picked one up, at each start,
/// and its connections are led to the proxy anyway.
pub(super) fn proxy_variables() -> Vec<(EnvBytes, EnvBytes)> {
    const NOT_PROXIED: &str = "localhost,127.0.0.0/8,127.0.0.1,::1";
    let url = format!("http://{PROXY}");
    let mut variables: Vec<(&str, String)> = Vec::with_capacity(24);
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
        variables.push((name, url.clone()));
    }
    for name in ["NO_PROXY", "no_proxy", "npm_config_noproxy"] {
        variables.push((name, NOT_PROXIED.to_owned()));
    }
    for name in [
        "npm_config_proxy",
        "npm_config_https_proxy",
        "YARN_HTTP_PROXY",
        "YARN_HTTPS_PROXY",
        "PIP_PROXY",
        "CARGO_HTTP_PROXY",
        "DOCKER_HTTP_PROXY",
        "DOCKER_HTTPS_PROXY",
    ] {
        variables.push((name, url.clone()));
    }
    variables.push(("NODE_USE_ENV_PROXY", "1".to_owned()));
    variables.into_iter().map(|(name, value)| (name.into(), value.as_str().into())).collect()
}

/// The same for git, which lets its own files beat the variables. The command may have others.
pub(super) fn git_variables() -> [(&'static str, EnvBytes); 3] {
    [
        ("GIT_CONFIG_COUNT", "1".into()),
        ("GIT_CONFIG_KEY_0", "http.proxy".into()),
        ("GIT_CONFIG_VALUE_0", format!("http://{PROXY}").as_str().into()),
    ]
}
