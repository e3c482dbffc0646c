//! Names to addresses.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use async_trait::async_trait;
use hickory_resolver::config::ResolveHosts;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::{ResolverBuilder, TokioResolver};

/// Looks names up.
#[async_trait]
pub trait Resolve: Send + Sync {
    /// The addresses of a name in the order in which they should be tried.
    ///
    /// # Errors
    /// Those of the look-up; an empty list is none.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The host's own resolver: its hosts file, and the servers and search list of resolv.conf(5), read anew for each
/// look-up, as a program's start would.
///
/// Not getaddrinfo(3): in a program that is linked statically it would have to load the modules of nsswitch.conf(5) from
/// a C library that may be another version.
#[derive(Debug, Default)]
pub struct SystemResolver(());

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let builder = TokioResolver::builder_tokio().map_err(io::Error::other)?;
        look_up(builder, name).await
    }
}

/// Asks the servers of a configuration. Aliases (CNAME, RFC 1034, section 3.6.2) are followed: of what lies between the name
/// and its addresses nothing is judged, the addresses are.
async fn look_up(mut builder: ResolverBuilder<TokioRuntimeProvider>, name: &str) -> io::Result<Vec<IpAddr>> {
    let options = builder.options_mut();
    options.use_hosts_file = ResolveHosts::Always;
    options.cache_size = 0;
    let resolver = builder.build().map_err(io::Error::other)?;
    // Only a name of one label is one of the host's own domain: any other means itself.
    let name = if name.contains('.') { format!("{name}.") } else { name.to_owned() };
    let found = resolver.lookup_ip(name).await.map_err(io::Error::other)?;
    Ok(in_order(found.iter().collect(), has_route))
}

/// Addresses that the host has a route to first (RFC 6724, rule 1), otherwise as they came.
fn in_order(mut addresses: Vec<IpAddr>, has_route: impl Fn(IpAddr) -> bool) -> Vec<IpAddr> {
    addresses.sort_by_cached_key(|address| !has_route(*address));
    addresses
}

/// Whether a datagram could be sent there. None is.
fn has_route(address: IpAddr) -> bool {
    let own: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((own, 0));
    socket.is_ok_and(|socket| socket.connect(SocketAddr::new(address, 9)).is_ok())
}

#[cfg(test)]
mod aliases;

#[cfg(test)]
mod tests {
    use super::*;

    /// Neither is asked of a server (RFC 6761).
    #[tokio::test]
    async fn local_names_are_answered_here() {
        let resolver = SystemResolver::default();
        for name in ["localhost", "a.localhost"] {
            let found = resolver.resolve(name).await.unwrap();
            assert!(!found.is_empty() && found.iter().all(IpAddr::is_loopback), "{name}: {found:?}");
        }
        assert!(resolver.resolve("a.invalid").await.is_err());
    }

    #[test]
    fn addresses_with_a_route_are_tried_first() {
        let [a, b, c] = ["2001:db8::1", "192.0.2.1", "192.0.2.2"].map(|text| text.parse::<IpAddr>().unwrap());
        assert_eq!(in_order(vec![a, b, c], |address| address.is_ipv4()), [b, c, a]);
        assert_eq!(in_order(vec![a, c, b], |_| true), [a, c, b]);
        assert!(has_route(Ipv4Addr::LOCALHOST.into()));
    }
}
