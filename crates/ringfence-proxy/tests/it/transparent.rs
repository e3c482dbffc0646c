//! Redirected connections, and the look-ups that lead to them. The loopback stands for the box: 127.0.0.0/8 is all
//! local, so that a listener on another address there plays a synthetic one.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;

use ringfence_proxy::{Limits, Listener, Names, OriginalDestination, SyntheticNames};
use ringfence_types::Host;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{Setup, echo_server, exactly, rest};

/// Addresses of the loopback that stand for names.
struct Fixed(HashMap<IpAddr, &'static str>);

impl Names for Fixed {
    fn host(&self, address: IpAddr) -> Option<Host> {
        self.0.get(&address).map(|name| name.parse().unwrap())
    }

    fn is_synthetic(&self, address: IpAddr) -> bool {
        matches!(address, IpAddr::V4(ip) if ip.octets()[1] == 9)
    }
}

/// A transparent listener on these addresses and one port.
fn listeners(addresses: &[&str], port: u16, names: &Arc<Fixed>) -> Vec<Listener> {
    let listen = |address: &&str| Listener::Transparent {
        socket: TcpListener::bind((address.parse::<IpAddr>().unwrap(), port)).unwrap(),
        destination: OriginalDestination::LocalAddress,
        names: Arc::clone(names) as Arc<dyn Names>,
    };
    addresses.iter().map(listen).collect()
}

#[tokio::test]
async fn the_destination_tells_the_name_and_the_name_is_judged() {
    let port = echo_server().await;
    let table =
        [("127.9.0.1", "a.test"), ("127.9.0.2", "b.test")].map(|(ip, name)| (ip.parse().unwrap(), name));
    let names = Arc::new(Fixed(HashMap::from(table)));
    let more = listeners(&["127.9.0.1", "127.9.0.2", "127.9.0.3", "127.8.0.1"], port, &names);
    let proxy = Setup { more, ..Setup::new(&["a.test:*"]).loopback(port) }.start();
    let to = async |ip: &str| TcpStream::connect((ip.parse::<IpAddr>().unwrap(), port)).await.unwrap();
    let mut allowed = to("127.9.0.1").await;
    allowed.write_all(b"ping").await.unwrap();
    assert_eq!(exactly(&mut allowed, 4).await, b"ping");
    drop(allowed);
    assert_eq!(proxy.end().await.wanted.to_string(), format!("a.test:{port}"));
    // Another name, an address that stands for none, an address of its own right that is guarded.
    for ip in ["127.9.0.2", "127.9.0.3", "127.8.0.1"] {
        let error = to(ip).await.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{ip}");
    }
    assert_eq!(proxy.decisions(), ["allowed", "-not-listed", "-unknown-address", "-guarded"]);
}

#[tokio::test]
async fn a_literal_address_that_is_listed_is_reached() {
    let port = echo_server().await;
    let names = Arc::new(Fixed(HashMap::new()));
    let more = listeners(&["127.8.0.1"], port, &names);
    let limits = Limits { connections: 4, ..Limits::default() };
    let proxy = Setup { more, limits, ..Setup::new(&[&format!("127.8.0.1:{port}")]) }.start();
    // It is judged as itself. That it leads back to the listener here, until that is full, shows that it was dialled.
    let _client = TcpStream::connect(("127.8.0.1", port)).await.unwrap();
    crate::support::eventually("the address is dialled", || proxy.decisions().len() == 4).await;
    assert!(proxy.decisions().iter().all(|rule| rule == "allowed"));
    proxy.handle.stop().await;
}

pub(crate) fn question(name: &str) -> Vec<u8> {
    let mut bytes = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend(label.as_bytes());
    }
    bytes.extend([0, 0, 1, 0, 1]);
    bytes
}

/// Response code and the last four bytes, which are the address if there is one.
pub(crate) fn answer(bytes: &[u8]) -> (u8, IpAddr) {
    let tail: [u8; 4] = bytes[bytes.len() - 4..].try_into().unwrap();
    (bytes[3] & 15, tail.into())
}

#[tokio::test]
async fn look_ups_are_answered_by_udp_and_tcp() {
    let names = Arc::new(SyntheticNames::default());
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let (udp_address, tcp_address): (SocketAddr, SocketAddr) =
        (udp.local_addr().unwrap(), tcp.local_addr().unwrap());
    let more = vec![
        Listener::DnsUdp { socket: udp, names: Arc::clone(&names) },
        Listener::DnsTcp { socket: tcp, names: Arc::clone(&names) },
    ];
    let proxy = Setup { more, ..Setup::new(&["a.test"]) }.start();

    let client = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut buffer = [0; 600];
    let mut by_udp = async |bytes: &[u8]| {
        client.send_to(bytes, udp_address).await.unwrap();
        let length = client.recv(&mut buffer).await.unwrap();
        answer(&buffer[..length])
    };
    // What is no query is left alone and stops nothing.
    client.send_to(b"x", udp_address).await.unwrap();
    let (code, address) = by_udp(&question("a.test")).await;
    assert_eq!((code, names.host(address)), (0, Some("a.test".parse().unwrap())));
    assert_eq!(by_udp(&question("b.test")).await.0, 3);

    let mut client = TcpStream::connect(tcp_address).await.unwrap();
    for (name, expected) in [("a.test", 0), ("b.test", 3), ("A.Test", 0)] {
        let bytes = question(name);
        client.write_u16(u16::try_from(bytes.len()).unwrap()).await.unwrap();
        client.write_all(&bytes).await.unwrap();
        let length = client.read_u16().await.unwrap();
        let (code, own) = answer(&exactly(&mut client, length.into()).await);
        assert_eq!(code, expected, "{name}");
        assert!(code != 0 || own == address);
    }
    client.write_all(&[0xff, 0xff]).await.unwrap();
    assert!(rest(&mut client).await.is_empty());
    assert_eq!(proxy.decisions(), ["-not-listed", "-not-listed"]);
}
