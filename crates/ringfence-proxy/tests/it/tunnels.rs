//! CONNECT and SOCKS 5.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ringfence_proxy::{Credentials, Ending, Limits, Protocol};
use tokio::io::AsyncWriteExt as _;

use crate::support::{Setup, connect, echo_server, exactly, head, rest, server};

fn socks(address: &[u8], port: u16) -> Vec<u8> {
    [&[5, 1, 0, 5, 1, 0], address, &port.to_be_bytes()].concat()
}

fn socks_name(name: &str, port: u16) -> Vec<u8> {
    socks(&[&[3, u8::try_from(name.len()).unwrap()], name.as_bytes()].concat(), port)
}

#[tokio::test]
async fn bytes_pass_both_ways_and_half_close_is_kept() {
    let port = echo_server().await;
    let proxy = Setup::new(&["a.test:*"]).loopback(port).start();
    let mut client = proxy.tunnel(&format!("a.test:{port}")).await;
    client.write_all(b"ping").await.unwrap();
    assert_eq!(exactly(&mut client, 4).await, b"ping");
    client.shutdown().await.unwrap();
    assert_eq!(rest(&mut client).await, b"bye");
    let end = proxy.end().await;
    assert_eq!((end.sent, end.received, end.ending), (4, 7, Some(Ending::Closed)));
    assert_eq!(end.address, Some(([127, 0, 0, 1], port).into()));
    assert_eq!((end.protocol, end.wanted.to_string()), (Protocol::Connect, format!("a.test:{port}")));
    assert_eq!(proxy.decisions(), ["allowed"]);
}

#[tokio::test]
async fn a_host_that_ends_first_can_still_be_sent_to() {
    let port = server(|mut stream| async move {
        stream.write_all(b"hello").await.unwrap();
        stream.shutdown().await.unwrap();
        let got = rest(&mut stream).await;
        assert_eq!(got, b"late");
    })
    .await;
    let proxy = Setup::new(&["a.test:*"]).loopback(port).start();
    let mut client = proxy.tunnel(&format!("a.test:{port}")).await;
    assert_eq!(rest(&mut client).await, b"hello");
    client.write_all(b"late").await.unwrap();
    drop(client);
    let end = proxy.end().await;
    assert_eq!((end.sent, end.received, end.ending), (4, 5, Some(Ending::Closed)));
}

#[tokio::test]
async fn what_follows_the_head_is_not_lost() {
    let port = echo_server().await;
    let proxy = Setup::new(&["a.test:*"]).loopback(port).start();
    let mut client = proxy.sent(connect(&format!("a.test:{port}")) + "early").await;
    head(&mut client).await;
    assert_eq!(exactly(&mut client, 5).await, b"early");
    let early = [socks_name("a.test", port), b"early".to_vec()].concat();
    let mut client = proxy.sent(early).await;
    assert_eq!(exactly(&mut client, 12).await[..4], [5, 0, 5, 0]);
    assert_eq!(exactly(&mut client, 5).await, b"early");
}

#[tokio::test]
async fn bulk_arrives_whole_in_both_directions() {
    const SIZE: usize = 24 << 20;
    let port = echo_server().await;
    let proxy = Setup::new(&["a.test:*"]).loopback(port).start();
    let client = proxy.tunnel(&format!("a.test:{port}")).await;
    let (mut reader, mut writer) = client.into_split();
    let data: Vec<u8> = (0..SIZE).map(|at| u8::try_from(at % 251).unwrap()).collect();
    let expected = [data.as_slice(), b"bye"].concat();
    let send = async move {
        writer.write_all(&data).await.unwrap();
        writer.shutdown().await.unwrap();
    };
    let mut received = Vec::with_capacity(SIZE);
    let receive = tokio::io::AsyncReadExt::read_to_end(&mut reader, &mut received);
    let ((), result) = tokio::join!(send, receive);
    result.unwrap();
    assert!(received == expected);
    let end = proxy.end().await;
    assert_eq!((end.sent, end.received), (SIZE as u64, SIZE as u64 + 3));
}

#[tokio::test]
async fn more_transfers_than_pipes_arrive_whole() {
    const SIZE: usize = 512 << 10;
    let port = echo_server().await;
    let proxy = Setup::new(&["a.test:*"]).loopback(port).start();
    let mut transfers = tokio::task::JoinSet::new();
    for number in 0..80 {
        let mut client = proxy.tunnel(&format!("a.test:{port}")).await;
        transfers.spawn(async move {
            let data = vec![number; SIZE];
            let (mut reader, mut writer) = client.split();
            let mut received = vec![0; SIZE];
            let receive = tokio::io::AsyncReadExt::read_exact(&mut reader, &mut received);
            let (sent, read) = tokio::join!(writer.write_all(&data), receive);
            sent.and(read.map(drop)).unwrap();
            assert!(received == data);
            // Its pipe is in use as long as it is open.
            client
        });
    }
    assert_eq!(transfers.join_all().await.len(), 80);
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_the_host_back() {
    const BLOCKS: usize = 128;
    let written = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&written);
    let port = server(move |mut stream| {
        let counter = Arc::clone(&counter);
        async move {
            let block = vec![7; 1 << 20];
            for _ in 0..BLOCKS {
                stream.write_all(&block).await.unwrap();
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }
    })
    .await;
    let proxy = Setup::new(&["a.test:*"]).loopback(port).start();
    let mut client = proxy.tunnel(&format!("a.test:{port}")).await;
    let mut before = usize::MAX;
    while written.load(Ordering::Relaxed) != before {
        before = written.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    // The kernel's buffers and one pipe are full, and that is all.
    assert!(before < BLOCKS / 2, "{before} MiB lie between host and client");
    assert_eq!(rest(&mut client).await.len(), BLOCKS << 20);
}

#[tokio::test]
async fn each_address_type_of_socks_works() {
    let port = echo_server().await;
    let proxy = Setup::new(&["a.test:*"]).loopback(port).start();
    for request in
        [socks_name("A.test", port), socks(&[1, 127, 0, 0, 1], port), socks_name("127.0.0.1", port)]
    {
        let mut client = proxy.sent(request).await;
        assert_eq!(exactly(&mut client, 4).await, [5, 0, 5, 0]);
        exactly(&mut client, 8).await;
        client.write_all(b"x").await.unwrap();
        assert_eq!(exactly(&mut client, 1).await, b"x");
    }
}

#[tokio::test]
async fn socks_replies_tell_what_failed() {
    let port = echo_server().await;
    let dead = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let proxy = Setup::new(&["*.test:*"]).loopback(port).loopback(dead).start();
    for (request, code) in [
        (socks_name("a.test", port), 0),
        (socks_name("other.example", port), 2),
        (socks_name("private.test", port), 2),
        (socks(&[1, 10, 0, 0, 1], port), 2),
        (socks_name("nowhere.test", port), 4),
        (socks_name("a.test", dead), 5),
        (socks(&[9], port), 8),
    ] {
        let mut client = proxy.sent(&request).await;
        let reply = exactly(&mut client, 12).await;
        assert_eq!(reply[3], code, "{request:?}");
    }
    let mut bind = socks_name("a.test", port);
    bind[4] = 2;
    assert_eq!(exactly(&mut proxy.sent(bind).await, 12).await[3], 7);
}

#[tokio::test]
async fn a_listener_with_credentials_serves_nobody_else() {
    let port = echo_server().await;
    let setup = || Setup {
        credentials: Some(Credentials::new("u", "p")),
        ..Setup::new(&["a.test:*"]).loopback(port)
    };
    let proxy = setup().start();
    let with = |lines: &str| format!("CONNECT a.test:{port} HTTP/1.1\r\n{lines}\r\n");
    for lines in ["", "Proxy-Authorization: Basic dTpx\r\n", "Proxy-Authorization: Bearer dTpw\r\n"] {
        let answer = proxy.ask(with(lines)).await;
        assert!(
            answer.starts_with("HTTP/1.1 407 ") && answer.contains("Proxy-Authenticate: Basic"),
            "{answer}"
        );
    }
    assert_eq!(exactly(&mut proxy.sent(socks_name("a.test", port)).await, 2).await, [5, 0xff]);
    assert!(proxy.decisions().is_empty());
    let mut client = proxy.sent(with("Proxy-Authorization: Basic dTpw\r\n")).await;
    assert!(head(&mut client).await.starts_with("HTTP/1.1 200 "));
    let pair = [&[5, 1, 2, 1, 1, b'u', 1, b'p'], &socks_name("a.test", port)[3..]].concat();
    assert_eq!(exactly(&mut proxy.sent(pair).await, 6).await, [5, 2, 1, 0, 5, 0]);
}

#[tokio::test]
async fn a_reset_is_passed_on_and_no_end_is_feigned() {
    let port = server(|mut stream| async move {
        stream.write_all(&[7; 100]).await.unwrap();
        exactly(&mut stream, 1).await;
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    })
    .await;
    let proxy = Setup::new(&["a.test:*"]).loopback(port).start();
    let mut client = proxy.tunnel(&format!("a.test:{port}")).await;
    exactly(&mut client, 100).await;
    client.write_all(b"x").await.unwrap();
    let error = tokio::io::AsyncReadExt::read_u8(&mut client).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(proxy.end().await.ending, Some(Ending::Broken));
}

#[tokio::test]
async fn an_idle_tunnel_ends_and_a_busy_one_does_not() {
    let port = echo_server().await;
    let limits = Limits { idle: Duration::from_secs(1), ..Limits::default() };
    let proxy = Setup { limits, ..Setup::new(&["a.test:*"]).loopback(port) }.start();
    let mut client = proxy.tunnel(&format!("a.test:{port}")).await;
    for _ in 0..30 {
        client.write_all(b"x").await.unwrap();
        exactly(&mut client, 1).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    rest(&mut client).await;
    let end = proxy.end().await;
    assert_eq!((end.ending, end.sent), (Some(Ending::Idle), 30));
}
