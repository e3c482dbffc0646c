//! Connections of clients that know of no proxy.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;

use crate::admit::Admission;
use crate::client;
use crate::dns::destination;
use crate::dns::names::Names;
use crate::event::Protocol;
use crate::policy::{Rule, Wanted};
use crate::server::reset;
use ringfence_types::Host;

/// How a redirected connection tells where its client wanted to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginalDestination {
    /// It is the connection's own local address: a local route leads every address to this machine, and there is a
    /// listener on the port.
    LocalAddress,
    /// The packet filter keeps it (`SO_ORIGINAL_DST`, netfilter's `redirect`).
    #[cfg(target_os = "linux")]
    Redirected,
}

impl OriginalDestination {
    fn of(self, stream: &TcpStream) -> io::Result<SocketAddr> {
        let address = match self {
            Self::LocalAddress => stream.local_addr()?,
            #[cfg(target_os = "linux")]
            Self::Redirected => match stream.local_addr()? {
                SocketAddr::V4(_) => rustix::net::sockopt::ip_original_dst(stream)?.into(),
                SocketAddr::V6(own) if own.ip().to_ipv4_mapped().is_some() => {
                    rustix::net::sockopt::ip_original_dst(stream)?.into()
                }
                SocketAddr::V6(_) => rustix::net::sockopt::ipv6_original_dst(stream)?.into(),
            },
        };
        Ok(SocketAddr::new(address.ip().to_canonical(), address.port()))
    }
}

/// Serves one connection to its end. A refusal is a reset: the client expects no other words than its own protocol's.
pub(crate) async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    original: &OriginalDestination,
    names: &dyn Names,
    admission: Arc<Admission>,
) {
    let address = match original.of(&stream) {
        Ok(address) => address,
        Err(error) => {
            tracing::debug!(%error, "cannot tell where a redirected connection was to go");
            return reset(stream);
        }
    };
    let Some(host) = destination(names, address.ip()) else {
        let wanted = Wanted { host: Host::Ip(address.ip()), port: Some(address.port()) };
        admission.tell(
            admission.next_connection(),
            Protocol::Transparent,
            wanted,
            Rule::UnknownAddress,
            false,
        );
        return reset(stream);
    };
    let opening =
        Box::pin(client::connect(&admission, Protocol::Transparent, &stream, peer, host, address.port()));
    match opening.await {
        Ok((dialled, sni)) => {
            let (tunnel, record) = client::tunnel(stream, Vec::new(), dialled, sni);
            let end = tunnel.run(record.traffic(), admission.limits.idle).await;
            record.end(end.into());
        }
        Err(_) => reset(stream),
    }
}
