//! The server name of TLS connections.

use ringfence_proxy::{Ending, Limits, SniCheck};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;

use crate::support::{Setup, echo_server, exactly, patterns, rest, server};

/// A ClientHello for a server, with an encrypted part or without.
fn hello(name: &str, encrypted: bool) -> Vec<u8> {
    let sized = |body: &[u8]| [&u16::try_from(body.len()).unwrap().to_be_bytes(), body].concat();
    let entry = [&[0], sized(name.as_bytes()).as_slice()].concat();
    let mut extensions = [&[0, 0], sized(&sized(&entry)).as_slice()].concat();
    if encrypted {
        extensions.extend([0xfe, 0x0d, 0, 1, 0]);
    }
    let body = [&[3, 3], [9; 32].as_slice(), &[0, 0, 2, 0x13, 1, 1, 0], &sized(&extensions)].concat();
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let message = [&[1], &length[1..], &body].concat();
    [&[22, 3, 1], sized(&message).as_slice()].concat()
}

#[tokio::test]
async fn the_name_of_another_host_is_refused_before_a_byte_of_it_passes() {
    let port = echo_server().await;
    let proxy = Setup::new(&["a.test:*"]).loopback(port).start();
    for first in
        [hello("a.test", false), hello("A.Test", false), hello("b.test", true), b"SSH-2.0-x\r\n".to_vec()]
    {
        let mut client = proxy.tunnel(&format!("a.test:{port}")).await;
        client.write_all(&first).await.unwrap();
        assert_eq!(exactly(&mut client, first.len()).await, first);
    }
    let proxy = Setup::new(&["a.test:*"]).loopback(port).start();
    let mut client = proxy.tunnel(&format!("a.test:{port}")).await;
    client.write_all(&hello("b.test", false)).await.unwrap();
    assert!(rest(&mut client).await.is_empty());
    let end = proxy.end().await;
    assert_eq!((end.ending, end.sent), (Some(Ending::ServerName), 0));
    assert_eq!(proxy.decisions(), ["allowed", "-server-name"]);
}

#[tokio::test]
async fn a_message_in_pieces_is_read_whole() {
    let port = echo_server().await;
    let proxy = Setup::new(&["a.test:*"]).loopback(port).start();
    for (name, passes) in [("a.test", true), ("b.test", false)] {
        let mut client = proxy.tunnel(&format!("a.test:{port}")).await;
        let first = hello(name, false);
        for piece in first.chunks(9) {
            if client.write_all(piece).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let _ = client.shutdown().await;
        let got = rest(&mut client).await;
        assert_eq!(got.starts_with(&first), passes, "{name}");
    }
}

#[tokio::test]
async fn a_mismatch_may_be_told_only() {
    let port = echo_server().await;
    let mut setup = Setup::new(&["a.test:*"]).loopback(port);
    setup.policy.sni = SniCheck::Log;
    let proxy = setup.start();
    let mut client = proxy.tunnel(&format!("a.test:{port}")).await;
    let first = hello("b.test", false);
    client.write_all(&first).await.unwrap();
    assert_eq!(exactly(&mut client, first.len()).await, first);
    assert_eq!(proxy.decisions(), ["allowed", "server-name"]);
}

#[tokio::test]
async fn a_connection_to_an_address_is_not_for_a_denied_name() {
    let port = echo_server().await;
    let mut setup = Setup::new(&[]).loopback(port);
    setup.policy.deny = patterns(&["b.test"]);
    let proxy = setup.start();
    for (name, passes) in [("a.test", true), ("b.test", false)] {
        let mut client = proxy.tunnel(&format!("127.0.0.1:{port}")).await;
        client.write_all(&hello(name, false)).await.unwrap();
        client.shutdown().await.unwrap();
        assert_eq!(!rest(&mut client).await.is_empty(), passes, "{name}");
    }
}

#[tokio::test]
async fn a_message_that_never_ends_has_its_time_and_size() {
    let port = echo_server().await;
    let limits = Limits { handshake: Duration::from_millis(200), ..Limits::default() };
    let proxy = Setup { limits, ..Setup::new(&["a.test:*"]).loopback(port) }.start();
    let mut client = proxy.tunnel(&format!("a.test:{port}")).await;
    client.write_all(&hello("a.test", false)[..20]).await.unwrap();
    assert!(rest(&mut client).await.is_empty());
    let mut client = proxy.tunnel(&format!("a.test:{port}")).await;
    let record = [&[22, 3, 1, 0x40, 0][..], &[1, 0xff, 0xff, 0xff], &[0; 0x4000 - 4]].concat();
    let more = [&[22, 3, 1, 0x40, 0][..], &[0; 0x4000]].concat();
    let _ = client.write_all(&[record, more.repeat(5)].concat()).await;
    assert!(rest(&mut client).await.is_empty());
}

#[tokio::test]
async fn a_host_that_speaks_first_is_heard_at_once() {
    let port = server(|mut stream| async move {
        stream.write_all(b"220 ready\r\n").await.unwrap();
        let got = exactly(&mut stream, 4).await;
        stream.write_all(&got).await.unwrap();
    })
    .await;
    let proxy = Setup::new(&["a.test:*"]).loopback(port).start();
    let mut client = proxy.tunnel(&format!("a.test:{port}")).await;
    assert_eq!(exactly(&mut client, 11).await, b"220 ready\r\n");
    client.write_all(b"QUIT").await.unwrap();
    assert_eq!(exactly(&mut client, 4).await, b"QUIT");
}
