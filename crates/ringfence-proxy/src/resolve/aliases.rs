//! Names that are aliases of others, asked of a server that is ordinary or hostile.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hickory_proto::op::{Message, MessageType, OpCode};
use hickory_proto::rr::rdata::{A, CNAME};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::{EgressPolicy, Event, Limits, Listener, Phase, Proxy, Run, Upstream};

/// What the server says about its names: an alias of another, or an address.
#[derive(Clone)]
enum Is {
    Alias(String),
    At(Ipv4Addr),
}

/// How much of a chain one answer holds.
#[derive(Clone, Copy, Debug)]
enum Answers {
    /// The record of the name that was asked for.
    Single,
    /// All that follows from it, once.
    Whole,
}

/// A server on the loopback, and the names that it was asked for.
struct Server {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(zone: &[(&str, &str)], answers: Answers) -> Self {
        let zone: Vec<(String, Is)> = zone
            .iter()
            .map(|(name, is)| {
                ((*name).to_owned(), is.parse().map_or_else(|_| Is::Alias((*is).to_owned()), Is::At))
            })
            .collect();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let server = Self { port: socket.local_addr().unwrap().port(), asked: Arc::default() };
        let asked = Arc::clone(&server.asked);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok((length, client)) = socket.recv_from(&mut buffer) {
                let query = Message::from_vec(&buffer[..length]).unwrap();
                let answer = answer(&query, &zone, answers, &asked);
                socket.send_to(&answer.to_vec().unwrap(), client).unwrap();
            }
        });
        server
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

#[async_trait]
impl Resolve for Server {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let mut connection = ConnectionConfig::udp();
        connection.port = self.port;
        let server = NameServerConfig::new(Ipv4Addr::LOCALHOST.into(), true, vec![connection]);
        let config = ResolverConfig::from_name_servers(vec![server]);
        look_up(TokioResolver::builder_with_config(config, TokioRuntimeProvider::default()), name).await
    }
}

fn answer(query: &Message, zone: &[(String, Is)], answers: Answers, asked: &Mutex<Vec<String>>) -> Message {
    let mut message = Message::new(query.metadata.id, MessageType::Response, OpCode::Query);
    message.metadata.recursion_available = true;
    let question = query.queries[0].clone();
    let mut name = question.name().to_ascii().to_lowercase().trim_end_matches('.').to_owned();
    asked.lock().unwrap().push(name.clone());
    let full = |name: &str| Name::from_ascii(format!("{name}.")).unwrap();
    let mut told = BTreeSet::new();
    while let Some((own, is)) =
        zone.iter().find(|(own, _)| *own == name).filter(|_| told.insert(name.clone()))
    {
        let data = match is {
            Is::Alias(target) => RData::CNAME(CNAME(full(target))),
            Is::At(_) if question.query_type() != RecordType::A => break,
            Is::At(address) => RData::A(A(*address)),
        };
        message.add_answer(Record::from_rdata(full(own), 60, data));
        match (is, answers) {
            (Is::Alias(target), Answers::Whole) => name.clone_from(target),
            _ => break,
        }
    }
    message.add_query(question);
    message
}

fn ip(text: &str) -> Vec<IpAddr> {
    vec![text.parse().unwrap()]
}

#[tokio::test]
async fn a_chain_is_followed_to_its_address() {
    let zone =
        [("a.test", "b.test"), ("b.test", "c.other"), ("c.other", "d.other"), ("d.other", "192.0.2.7")];
    for answers in [Answers::Single, Answers::Whole] {
        let server = Server::start(&zone, answers);
        assert_eq!(server.resolve("a.test").await.unwrap(), ip("192.0.2.7"), "{answers:?}");
        assert_eq!(server.resolve("d.other").await.unwrap(), ip("192.0.2.7"), "{answers:?}");
    }
}

#[tokio::test]
async fn circles_dead_ends_and_endless_chains_end() {
    let endless: Vec<(String, String)> =
        (0..500).map(|at| (format!("n{at}.test"), format!("n{}.test", at + 1))).collect();
    let endless: Vec<(&str, &str)> = endless.iter().map(|(name, is)| (name.as_str(), is.as_str())).collect();
    for (zone, name) in [
        (&[("a.test", "a.test")][..], "a.test"),
        (&[("a.test", "b.test"), ("b.test", "a.test")], "a.test"),
        (&[("a.test", "b.test"), ("b.test", "nowhere.test")], "a.test"),
        (&endless, "n0.test"),
    ] {
        for answers in [Answers::Single, Answers::Whole] {
            let server = Server::start(zone, answers);
            // An error, or no address.
            let found = server.resolve(name).await.unwrap_or_default();
            assert_eq!(found, [] as [IpAddr; 0], "{name} {answers:?}");
            assert!((1..100).contains(&server.asked()), "{name} {answers:?}: {} questions", server.asked());
        }
    }
}

/// The server adds an address of a name that nobody asked for.
#[tokio::test]
async fn an_address_of_another_name_is_none_of_this_one() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = Server { port: socket.local_addr().unwrap().port(), asked: Arc::default() };
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok((length, client)) = socket.recv_from(&mut buffer) {
            let query = Message::from_vec(&buffer[..length]).unwrap();
            let mut message = answer(&query, &[], Answers::Single, &Mutex::default());
            let other = Name::from_ascii("other.test.").unwrap();
            message.add_answer(Record::from_rdata(other, 60, RData::A(A(Ipv4Addr::new(192, 0, 2, 9)))));
            socket.send_to(&message.to_vec().unwrap(), client).unwrap();
        }
    });
    assert_eq!(server.resolve("a.test").await.unwrap_or_default(), [] as [IpAddr; 0]);
}

/// The first line of the proxy's answer to a CONNECT, and the rules by which it decided.
async fn connect(
    server: Arc<Server>,
    allow: &[&str],
    deny: &[&str],
    to: &str,
) -> (String, Vec<&'static str>) {
    let patterns = |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
    let rules: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let sink = Arc::clone(&rules);
    let events = move |event: &Event| {
        if event.event == Phase::Decision {
            sink.lock().unwrap().push(event.rule.name());
        }
    };
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let run = Run {
        name: "test".to_owned(),
        policy: EgressPolicy { allow: patterns(allow), deny: patterns(deny), ..EgressPolicy::default() },
        limits: Limits { dial: Duration::from_secs(20), ..Limits::default() },
        events: Arc::new(events),
        ask: None,
        listeners: vec![Listener::Proxy { socket, credentials: None }],
    };
    let _running = Proxy::new(server, Upstream::default()).start(run).unwrap();
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n").as_bytes()).await.unwrap();
    let mut head = vec![0; 12];
    client.read_exact(&mut head).await.unwrap();
    let rules = rules.lock().unwrap().clone();
    (String::from_utf8(head).unwrap(), rules)
}

#[tokio::test]
async fn the_rules_are_for_the_name_that_was_asked_for_and_the_guard_for_where_it_leads() {
    let target = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = target.local_addr().unwrap().port();
    let zone = [
        ("a.test", "b.test"),
        ("b.test", "here.test"),
        ("here.test", "127.0.0.1"),
        ("inward.test", "b.inward.test"),
        ("b.inward.test", "10.255.255.1"),
        ("metadata.test", "b.metadata.test"),
        ("b.metadata.test", "169.254.169.254"),
    ];
    let listed = format!("127.0.0.1:{port}");
    for answers in [Answers::Single, Answers::Whole] {
        let server = Arc::new(Server::start(&zone, answers));
        let to = |name: &str| format!("{name}:{port}");
        let ask = |allow: Vec<&str>, deny: &'static [&str], name: &str| {
            let allow: Vec<String> =
                allow.iter().map(|name| format!("{name}:*")).chain([listed.clone()]).collect();
            let (server, to) = (Arc::clone(&server), to(name));
            async move {
                let allow: Vec<&str> = allow.iter().map(String::as_str).collect();
                connect(server, &allow, deny, &to).await
            }
        };
        // Only the address at the end has to pass, and it is listed.
        assert_eq!(ask(vec!["a.test"], &[], "a.test").await, ("HTTP/1.1 200".to_owned(), vec!["allowed"]));
        // A denial of what the alias stands for says nothing about the alias; one of the address does.
        let denied_target = ask(vec!["a.test"], &["b.test", "here.test"], "a.test").await;
        assert_eq!(denied_target, ("HTTP/1.1 200".to_owned(), vec!["allowed"]));
        let denied_address = ask(vec!["a.test"], &["127.0.0.1"], "a.test").await;
        assert_eq!(denied_address, ("HTTP/1.1 403".to_owned(), vec!["denied"]));
        for name in ["inward.test", "metadata.test"] {
            assert_eq!(
                ask(vec![name], &[], name).await,
                ("HTTP/1.1 403".to_owned(), vec!["guarded"]),
                "{name}"
            );
        }
        // Whoever may reach the end of a chain may not reach it by any name, and nothing is looked up for those.
        let before = server.asked();
        let unlisted = ask(vec!["b.test", "here.test"], &[], "a.test").await;
        assert_eq!(unlisted, ("HTTP/1.1 403".to_owned(), vec!["not-listed"]));
        assert_eq!(server.asked(), before);
    }
}
