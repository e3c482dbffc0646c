//! The box's side of its way out (step *loopback*): sockets that are made in its namespace and handed to the
//! supervisor, where a proxy serves them. A socket stays in the namespace that it was made in, so no traffic has to be
//! carried across.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use ringfence_plan::linux::network::{DNS, PROXY, TRANSPARENT_PORT};
use ringfence_plan::linux::{HostRules, NetworkPlan};
use ringfence_types::{LayerName, LayerStatus, PortPattern, SniCheck, Step};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};

use super::netlink;
use super::report::{At, Event, Inlet, Reporter, StepResult};

/// Connections that wait for the proxy to take them.
const BACKLOG: i32 = 1024;
/// Connections to published ports at one time, to servers of each family.
const CONNECTORS: usize = 64;
const UNBLOCKED: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);
/// A second address of the loopback interface: programs that look up only what the host has addresses for
/// (getaddrinfo(3), `AI_ADDRCONFIG`) don't count 127.0.0.1.
const SECOND_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Makes what the plan says and hands it out; the supervisor answers when all of it is served.
pub(super) fn set_up(
    plan: Option<&NetworkPlan>,
    control: &OwnedFd,
    reporter: &mut Reporter,
) -> StepResult<()> {
    let Some(plan) = plan else {
        reporter.layer(LayerName::Proxy, LayerStatus::NotRequested, "no host named");
        return Ok(());
    };
    let mut said = Vec::new();
    if let Some(rules) = &plan.hosts {
        let socket = stream(PROXY.into()).on(Step::Loopback, "the proxy's listener")?;
        hand_out(control, Inlet::Proxy, &socket)?;
        said.push(transparent(rules, control)?);
    }
    for port in &plan.loopback_ports {
        let subject = || format!("port {port} of the box's loopback");
        let socket = stream((Ipv4Addr::LOCALHOST, *port).into()).on(Step::Loopback, subject())?;
        hand_out(control, Inlet::Direct, &socket)?;
        said.push(format!("port {port} leads to the host's"));
    }
    if !plan.publish.is_empty() {
        for family in [AddressFamily::INET, AddressFamily::INET6] {
            for _ in 0..CONNECTORS {
                let socket = match socket_with(family, SocketType::STREAM, UNBLOCKED, None) {
                    // A kernel without IPv6 has no servers of that family either.
                    Err(Errno::AFNOSUPPORT) if family == AddressFamily::INET6 => break,
                    socket => socket.on(Step::Loopback, "a socket for published ports")?,
                };
                hand_out(control, Inlet::Connector, &socket)?;
            }
        }
        let publish = plan.publish.iter().map(|publish| format!("{publish} is published"));
        said.extend(publish);
    }
    Event::NetworkReady.send(control, None).at(Step::Loopback)?;
    let checked = plan.hosts.is_none() || plan.proxy.sni == SniCheck::Strict;
    let status = if checked { LayerStatus::Enforced } else { LayerStatus::Partial };
    said.extend((!checked).then(|| "TLS server names of other hosts pass".to_owned()));
    reporter.layer(LayerName::Proxy, status, said.join("; "));
    Ok(())
}

/// The way for programs that know of no proxy. Without the packet filter only the ports that the rules name lead there;
/// nothing is reached that the proxy does not let through.
fn transparent(rules: &HostRules, control: &OwnedFd) -> StepResult<String> {
    netlink::add_address(SECOND_ADDRESS, 8).on(Step::Loopback, "address of lo")?;
    netlink::everything_is_local(AddressFamily::INET).on(Step::Loopback, "route")?;
    let has_v6 = netlink::everything_is_local(AddressFamily::INET6).is_ok();
    let mut loopbacks = vec![IpAddr::from(Ipv4Addr::LOCALHOST)];
    loopbacks.extend(has_v6.then_some(IpAddr::from(Ipv6Addr::LOCALHOST)));

    for own in &loopbacks {
        let address = SocketAddr::new(*own, DNS.port());
        let datagrams = bound(SocketType::DGRAM, address).on(Step::Loopback, "the look-up service")?;
        hand_out(control, Inlet::DnsUdp, &datagrams)?;
        let connections = stream(address).on(Step::Loopback, "the look-up service")?;
        hand_out(control, Inlet::DnsTcp, &connections)?;
    }
    let families = if has_v6 { "" } else { ", IPv4 only" };
    match netlink::redirect(TRANSPARENT_PORT, DNS.port()) {
        Ok(()) => {
            for own in loopbacks {
                let address = SocketAddr::new(own, TRANSPARENT_PORT);
                let socket = stream(address).on(Step::Loopback, "the listener of redirected connections")?;
                hand_out(control, Inlet::Redirected, &socket)?;
            }
            Ok(format!("every connection and look-up is led to it{families}"))
        }
        Err(error) => {
            let ports = ports(rules);
            for port in &ports {
                for own in &loopbacks {
                    let any: IpAddr = match own {
                        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
                    };
                    let subject = || format!("port {port} of the box");
                    let socket = stream(SocketAddr::new(any, *port)).on(Step::Loopback, subject())?;
                    hand_out(control, Inlet::Direct, &socket)?;
                }
            }
            let ports: Vec<_> = ports.iter().map(u16::to_string).collect();
            let ports = ports.join(", ");
            Ok(format!(
                "no packet filter ({error}): programs that know of no proxy reach ports {ports}{families}"
            ))
        }
    }
}

/// Ports that the rules name.
fn ports(rules: &HostRules) -> BTreeSet<u16> {
    let of = |port| match port {
        PortPattern::One(port) => vec![port],
        PortPattern::Web | PortPattern::Any => vec![80, 443],
    };
    let public = rules.public.then_some(PortPattern::Web);
    rules.allow.iter().map(|pattern| pattern.port()).chain(public).flat_map(of).collect()
}

fn stream(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let socket = bound(SocketType::STREAM, address)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn bound(kind: SocketType, address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    bind(&socket, &address)?;
    Ok(socket)
}

fn hand_out(control: &OwnedFd, inlet: Inlet, socket: &OwnedFd) -> StepResult<()> {
    Event::Inlet(inlet).send(control, Some(socket.as_fd())).on(Step::Loopback, "the supervisor")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_packet_filter_the_named_ports_lead_to_the_proxy() {
        let rules = |public, allow: &[&str]| HostRules {
            public,
            allow: allow.iter().map(|text| text.parse().unwrap()).collect(),
            deny: Vec::new(),
            internal: Vec::new(),
        };
        let all = |rules: HostRules| ports(&rules).into_iter().collect::<Vec<_>>();
        assert_eq!(all(rules(false, &["a.com:22", "b.com:22", "*.c.com"])), [22, 80, 443]);
        assert_eq!(all(rules(false, &["a.com:5432"])), [5432]);
        assert_eq!(all(rules(true, &["a.com:22"])), [22, 80, 443]);
    }
}
