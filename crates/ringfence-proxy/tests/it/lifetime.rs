//! Bounds, and the end of a run.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringfence_proxy::{Background, EgressPolicy, Ending, Event, Limits, Listener, Proxy, Run};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{Setup, connect, echo_server, eventually, exactly, rest};

#[tokio::test]
async fn a_stopped_run_has_no_connection_left() {
    let port = echo_server().await;
    let proxy = Setup::new(&["a.test:*"]).loopback(port).start();
    let mut tunnel = proxy.tunnel(&format!("a.test:{port}")).await;
    let mut opening = proxy.sent("CONNECT a.test:").await;
    tunnel.write_all(b"x").await.unwrap();
    exactly(&mut tunnel, 1).await;
    proxy.handle.stop().await;
    let end = proxy.events.lock().unwrap().last().cloned().unwrap();
    assert_eq!((end.ending, end.sent, end.received), (Some(Ending::Stopped), 1, 1));
    assert!(rest(&mut opening).await.is_empty());
    // A cut transfer does not look like a complete one.
    let error = tunnel.read_u8().await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert!(TcpStream::connect(proxy.address).await.is_err());
}

#[tokio::test]
async fn a_dropped_handle_ends_the_run_too() {
    let port = echo_server().await;
    let proxy = Setup::new(&["a.test:*"]).loopback(port).start();
    let mut tunnel = proxy.tunnel(&format!("a.test:{port}")).await;
    drop(proxy.handle);
    assert!(rest(&mut tunnel).await.is_empty());
    let events = Arc::clone(&proxy.events);
    eventually("the end is told", || {
        events.lock().unwrap().last().is_some_and(|event| event.ending.is_some())
    })
    .await;
}

#[tokio::test]
async fn a_slow_head_has_its_time() {
    let limits = Limits { handshake: Duration::from_millis(300), ..Limits::default() };
    let proxy = Setup { limits, ..Setup::new(&["a.test:*"]) }.start();
    let mut client = proxy.sent("C").await;
    let (mut reader, mut writer) = client.split();
    let drip = async {
        // One byte at a time resets no clock.
        for byte in connect("a.test:443").bytes().skip(1) {
            tokio::time::sleep(Duration::from_millis(40)).await;
            if writer.write_all(&[byte]).await.is_err() {
                break;
            }
        }
    };
    let mut answer = String::new();
    let read = reader.read_to_string(&mut answer);
    let _ = tokio::join!(drip, read);
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    for silent in [&b""[..], &[5], &[5, 1]] {
        assert!(rest(&mut proxy.sent(silent).await).await.is_empty());
    }
    assert!(proxy.decisions().is_empty());
}

#[tokio::test]
async fn further_connections_wait_for_a_place() {
    let port = echo_server().await;
    let limits = Limits { connections: 2, ..Limits::default() };
    let proxy = Setup { limits, ..Setup::new(&["a.test:*"]).loopback(port) }.start();
    let authority = format!("a.test:{port}");
    let first = proxy.tunnel(&authority).await;
    let _second = proxy.tunnel(&authority).await;
    let third = proxy.tunnel(&authority);
    tokio::pin!(third);
    assert!(tokio::time::timeout(Duration::from_millis(200), &mut third).await.is_err());
    assert_eq!(proxy.decisions().len(), 2);
    drop(first);
    third.await;
}

#[tokio::test]
async fn many_idle_connections_keep_nobody_out() {
    let port = echo_server().await;
    let proxy = Setup::new(&["a.test:*"]).loopback(port).start();
    let mut idle = Vec::new();
    for _ in 0..300 {
        idle.push(proxy.client().await);
    }
    proxy.tunnel(&format!("a.test:{port}")).await;
}

#[test]
fn a_host_without_a_runtime_has_its_own_thread() {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let events = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&events);
    let run = Run {
        name: "r".to_owned(),
        policy: EgressPolicy::default(),
        limits: Limits::default(),
        events: Arc::new(move |event: &Event| sink.lock().unwrap().push(event.rule.name())),
        ask: None,
        listeners: vec![Listener::Proxy { socket, credentials: None }],
    };
    let background = Background::start(Proxy::default(), run, ()).unwrap();
    let mut client = std::net::TcpStream::connect(address).unwrap();
    std::io::Write::write_all(&mut client, connect("a.test:443").as_bytes()).unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut client, &mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    drop(background);
    assert!(std::net::TcpStream::connect(address).is_err());
    assert_eq!(*events.lock().unwrap(), ["not-listed"]);
}

#[test]
fn many_runs_have_a_proxy_each() {
    let start = |number: usize| {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let run = Run {
            name: number.to_string(),
            policy: EgressPolicy {
                deny: vec![format!("h{number}.test").parse().unwrap()],
                ..EgressPolicy::default()
            },
            limits: Limits::default(),
            events: Arc::new(|_: &Event| {}),
            ask: None,
            listeners: vec![Listener::Proxy { socket, credentials: None }],
        };
        (address, Background::start(Proxy::default(), run, ()).unwrap())
    };
    let runs: Vec<_> = (0..200).map(start).collect();
    for (number, (address, _)) in runs.iter().enumerate() {
        let mut client = std::net::TcpStream::connect(address).unwrap();
        std::io::Write::write_all(&mut client, connect(&format!("h{number}.test:443")).as_bytes()).unwrap();
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut client, &mut answer).unwrap();
        // Each has rules of its own.
        assert!(answer.contains(&format!("is denied by `h{number}.test`")), "{answer}");
    }
}

#[test]
fn a_lack_of_descriptors_passes() {
    let output = std::process::Command::new("sh")
        .args(["-c", "ulimit -n 40 && exec \"$@\"", "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "lifetime::with_few_descriptors", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[tokio::test]
#[ignore = "a process of its own, started by another test"]
async fn with_few_descriptors() {
    let port = echo_server().await;
    let proxy = Setup::new(&["a.test:*"]).loopback(port).start();
    let authority = format!("a.test:{port}");
    proxy.tunnel(&authority).await;
    let mut clients = Vec::new();
    let error = loop {
        match TcpStream::connect(proxy.address).await {
            Ok(client) => clients.push(client),
            Err(error) => break error,
        }
    };
    // This process's own, and so the proxy's.
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::MFILE.raw_os_error()));
    tokio::time::sleep(Duration::from_millis(200)).await;
    drop(clients);
    proxy.tunnel(&authority).await;
}
