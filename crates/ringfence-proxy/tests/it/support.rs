//! A proxy on the loopback, with names that lead there and a record of its events.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ringfence_proxy::{
    Credentials, EgressPolicy, Event, Limits, Listener, Phase, Proxy, Resolve, Run, RunHandle, Upstream,
};
use ringfence_types::HostPattern;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Patience of a test that waits for something which must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Names with fixed addresses. Each look-up of `rebind` gives the next of its addresses.
#[derive(Default)]
pub(crate) struct FakeResolver {
    names: HashMap<String, Vec<IpAddr>>,
    rebind: Mutex<HashMap<String, Vec<IpAddr>>>,
    asked: Mutex<Vec<String>>,
}

impl FakeResolver {
    pub(crate) fn new(names: &[(&str, &[&str])]) -> Self {
        Self { names: table(names), ..Self::default() }
    }

    pub(crate) fn rebinding(name: &str, addresses: &[&str]) -> Self {
        Self { rebind: Mutex::new(table(&[(name, addresses)])), ..Self::default() }
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn table(names: &[(&str, &[&str])]) -> HashMap<String, Vec<IpAddr>> {
    let parse = |list: &&[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
    names.iter().map(|(name, list)| ((*name).to_owned(), parse(list))).collect()
}

#[async_trait]
impl Resolve for FakeResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.lock().unwrap().push(name.to_owned());
        if let Some(list) = self.rebind.lock().unwrap().get_mut(name) {
            return Ok(vec![list.remove(0)]);
        }
        self.names.get(name).cloned().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such name"))
    }
}

/// A proxy under test.
pub(crate) struct Setup {
    pub(crate) policy: EgressPolicy,
    pub(crate) limits: Limits,
    pub(crate) resolver: Arc<FakeResolver>,
    pub(crate) upstream: Upstream,
    pub(crate) ask: Option<Arc<dyn ringfence_proxy::Ask>>,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) more: Vec<Listener>,
}

/// A running proxy.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) handle: RunHandle,
    pub(crate) events: Arc<Mutex<Vec<Event>>>,
}

impl Setup {
    /// A policy with these patterns; every name in them may lead to the loopback.
    pub(crate) fn new(allow: &[&str]) -> Self {
        let resolver = FakeResolver::new(&[
            ("a.test", &["127.0.0.1"]),
            ("b.test", &["127.0.0.1"]),
            ("private.test", &["10.255.255.1"]),
            ("mixed.test", &["10.255.255.1", "127.0.0.1"]),
            ("empty.test", &[]),
        ]);
        Self {
            policy: EgressPolicy { allow: patterns(allow), ..EgressPolicy::default() },
            limits: Limits::default(),
            resolver: Arc::new(resolver),
            upstream: Upstream::default(),
            ask: None,
            credentials: None,
            more: Vec::new(),
        }
    }

    /// The guard is lifted for this port of the loopback.
    pub(crate) fn loopback(mut self, port: u16) -> Self {
        self.policy.allow.extend(patterns(&[&format!("127.0.0.1:{port}")]));
        self
    }

    pub(crate) fn start(self) -> Running {
        let events = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&events);
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let mut listeners = vec![Listener::Proxy { socket, credentials: self.credentials }];
        listeners.extend(self.more);
        let run = Run {
            name: "test".to_owned(),
            policy: self.policy,
            limits: self.limits,
            events: Arc::new(move |event: &Event| sink.lock().unwrap().push(event.clone())),
            ask: self.ask,
            listeners,
        };
        let handle = Proxy::new(self.resolver, self.upstream).start(run).unwrap();
        Running { address, handle, events }
    }
}

impl Running {
    pub(crate) async fn client(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// A client that has sent this.
    pub(crate) async fn sent(&self, bytes: impl AsRef<[u8]>) -> TcpStream {
        let mut client = self.client().await;
        client.write_all(bytes.as_ref()).await.unwrap();
        client
    }

    /// All that comes back for a request.
    pub(crate) async fn ask(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut client = self.sent(bytes).await;
        String::from_utf8_lossy(&rest(&mut client).await).into_owned()
    }

    /// A tunnel to a host, its answer read.
    pub(crate) async fn tunnel(&self, authority: &str) -> TcpStream {
        let mut client = self.sent(connect(authority)).await;
        assert_eq!(head(&mut client).await.lines().next(), Some("HTTP/1.1 200 Connection established"));
        client
    }

    /// The names of the rules of all decisions, denials with a leading minus.
    pub(crate) fn decisions(&self) -> Vec<String> {
        let events = self.events.lock().unwrap();
        let decisions = events.iter().filter(|event| event.event == Phase::Decision);
        decisions.map(|e| format!("{}{}", if e.allowed { "" } else { "-" }, e.rule.name())).collect()
    }

    /// The one event of an ended connection, when it has come.
    pub(crate) async fn end(&self) -> Event {
        let end = async {
            loop {
                let found =
                    self.events.lock().unwrap().iter().find(|event| event.event == Phase::End).cloned();
                match found {
                    Some(event) => return event,
                    None => tokio::time::sleep(Duration::from_millis(2)).await,
                }
            }
        };
        tokio::time::timeout(PATIENCE, end).await.expect("no event of the end")
    }
}

pub(crate) fn patterns(list: &[&str]) -> Vec<HostPattern> {
    list.iter().map(|text| text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))).collect()
}

pub(crate) fn connect(authority: &str) -> String {
    format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n")
}

/// Reads to the end of a head, byte by byte.
pub(crate) async fn head(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let byte = tokio::time::timeout(PATIENCE, stream.read_u8()).await.expect("no answer");
        bytes.push(byte.unwrap_or_else(|error| panic!("{error} after {}", String::from_utf8_lossy(&bytes))));
    }
    String::from_utf8(bytes).unwrap()
}

/// Everything up to the end; a reset ends it too.
pub(crate) async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes))
        .await
        .expect("the connection stays open");
    bytes
}

pub(crate) async fn exactly(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    let read = tokio::time::timeout(PATIENCE, stream.read_exact(&mut bytes)).await;
    read.expect("not enough came").expect("the connection ended");
    bytes
}

/// A server whose connections are handled by `serve`.
pub(crate) async fn server<F, T>(serve: F) -> u16
where
    F: Fn(TcpStream) -> T + Send + 'static,
    T: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    port
}

/// Sends everything back, then says `bye` when the client has ended its side.
pub(crate) async fn echo_server() -> u16 {
    server(|mut stream| async move {
        let (mut reader, mut writer) = stream.split();
        if tokio::io::copy(&mut reader, &mut writer).await.is_ok() {
            let _ = writer.write_all(b"bye").await;
            let _ = writer.shutdown().await;
        }
    })
    .await
}

/// Tells in the body what it received: the head and, if a length is given, the body.
pub(crate) async fn mirror_server() -> u16 {
    server(|mut stream| async move {
        let request = head(&mut stream).await;
        let length = request.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        let mut seen = request.into_bytes();
        if let Some(length) = length {
            seen.extend(exactly(&mut stream, length).await);
        }
        if seen.windows(17).any(|part| part.eq_ignore_ascii_case(b"transfer-encoding")) {
            while !seen.ends_with(b"0\r\n\r\n") {
                seen.push(stream.read_u8().await.unwrap());
            }
        }
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: X-Secret, close\r\nX-Secret: 1\r\nX-Kept: 2\r\n\r\n",
            seen.len()
        );
        let _ = stream.write_all(&[answer.as_bytes(), &seen].concat()).await;
    })
    .await
}

/// Waits until a condition holds.
pub(crate) async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}
