//! Hosts that nobody listed, and somebody who is asked about them.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use ringfence_proxy::{Answer, Ask, Limits, Listener, Names, NoApproval, OriginalDestination, Question};
use ringfence_types::Host;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::support::{PATIENCE, Setup, connect, echo_server, head, patterns};

/// Answers every question alike, after a while.
struct Fixed {
    answer: Answer,
    asked: AtomicUsize,
}

#[async_trait]
impl Ask for Fixed {
    async fn ask(&self, question: Question) -> Answer {
        assert!(question.client.ip().is_loopback());
        self.asked.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(50)).await;
        self.answer.clone()
    }
}

fn once() -> Answer {
    Answer::Once { by: "somebody".to_owned() }
}

fn asking(answer: Answer, port: u16) -> (Arc<Fixed>, Setup) {
    let ask = Arc::new(Fixed { answer, asked: AtomicUsize::new(0) });
    let mut setup = Setup { ask: Some(ask.clone()), ..Setup::new(&[]).loopback(port) };
    setup.policy.deny = patterns(&["b.test"]);
    (ask, setup)
}

#[tokio::test]
async fn an_unlisted_host_is_asked_about() {
    let port = echo_server().await;
    for (answer, questions) in [(once(), 2), (Answer::Session { by: "somebody".to_owned() }, 1)] {
        let (ask, setup) = asking(answer, port);
        let proxy = setup.start();
        for _ in 0..2 {
            proxy.tunnel(&format!("a.test:{port}")).await;
        }
        assert_eq!(ask.asked.load(Ordering::Relaxed), questions);
        assert_eq!(proxy.decisions(), ["asked", "asked"]);
    }
    let (_, setup) = asking(Answer::No(NoApproval::Refused), port);
    let answer = setup.start().ask(connect(&format!("a.test:{port}"))).await;
    assert!(answer.contains("X-Ringfence-Denied: not-approved"), "{answer}");
}

#[tokio::test]
async fn one_question_is_open_for_each_host() {
    let port = echo_server().await;
    let (ask, setup) = asking(once(), port);
    let proxy = setup.start();
    let authority = format!("a.test:{port}");
    tokio::join!(proxy.tunnel(&authority), proxy.tunnel(&authority), proxy.tunnel(&authority));
    assert_eq!(ask.asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn denied_and_guarded_hosts_are_never_asked_about() {
    let port = echo_server().await;
    let (ask, setup) = asking(Answer::Session { by: "somebody".to_owned() }, port);
    let proxy = setup.start();
    for host in ["b.test", "10.0.0.1", "169.254.169.254", "[::1]"] {
        let answer = proxy.ask(connect(&format!("{host}:{port}"))).await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{host}: {answer}");
    }
    assert_eq!(ask.asked.load(Ordering::Relaxed), 0);
    // An approved name that leads to a guarded address is refused all the same.
    let answer = proxy.ask(connect(&format!("private.test:{port}"))).await;
    assert!(answer.contains("X-Ringfence-Denied: guarded"), "{answer}");
}

#[tokio::test]
async fn no_answer_in_time_is_a_refusal() {
    struct Silent;
    #[async_trait]
    impl Ask for Silent {
        async fn ask(&self, _: Question) -> Answer {
            std::future::pending().await
        }
    }
    let limits = Limits { ask: Duration::from_millis(50), ..Limits::default() };
    let proxy = Setup { ask: Some(Arc::new(Silent)), limits, ..Setup::new(&[]) }.start();
    let answer = proxy.ask(connect("a.test:443")).await;
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("was not approved"), "{answer}");
}

/// Answers yes when it is told to.
#[derive(Default)]
struct Patient {
    asked: AtomicUsize,
    put: Notify,
    answer: Notify,
    taken_back: Arc<Notify>,
    client_left: AtomicBool,
}

/// Tells when it is dropped.
struct Told(Arc<Notify>);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[async_trait]
impl Ask for Patient {
    async fn ask(&self, _: Question) -> Answer {
        let _told = Told(Arc::clone(&self.taken_back));
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.put.notify_one();
        self.answer.notified().await;
        once()
    }

    fn has_client(&self, _: SocketAddr) -> bool {
        !self.client_left.load(Ordering::Relaxed)
    }
}

async fn soon(notify: &Notify) {
    timeout(PATIENCE, notify.notified()).await.unwrap();
}

#[tokio::test]
async fn ten_connections_share_a_question_that_outlives_the_first() {
    let port = echo_server().await;
    let ask = Arc::new(Patient::default());
    let proxy = Setup { ask: Some(ask.clone()), ..Setup::new(&[]).loopback(port) }.start();
    let request = connect(&format!("a.test:{port}"));
    let mut clients = Vec::new();
    for _ in 0..10 {
        clients.push(proxy.sent(&request).await);
    }
    soon(&ask.put).await;
    drop(clients.remove(0));
    // The one that left is noticed, and the question stays.
    let abandoned = async {
        while proxy.decisions() != ["-not-approved"] {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, abandoned).await.unwrap();
    ask.answer.notify_one();
    for client in &mut clients {
        assert!(head(client).await.starts_with("HTTP/1.1 200 "));
    }
    assert_eq!(ask.asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_question_that_no_client_waits_for_is_taken_back() {
    let ask = Arc::new(Patient::default());
    let proxy = Setup { ask: Some(ask.clone()), ..Setup::new(&[]) }.start();
    let client = proxy.sent(connect("a.test:443")).await;
    soon(&ask.put).await;
    drop(client);
    soon(&ask.taken_back).await;
    // Whoever comes later is asked about anew.
    let _client = proxy.sent(connect("a.test:443")).await;
    soon(&ask.put).await;
    assert_eq!(ask.asked.load(Ordering::Relaxed), 2);
    let events = Arc::clone(&proxy.events);
    proxy.handle.stop().await;
    soon(&ask.taken_back).await;
    // Both are told of, the one that the end of the run cut off too.
    assert_eq!(events.lock().unwrap().len(), 2);
}

/// Every address stands for `a.test`.
struct OneName;

impl Names for OneName {
    fn host(&self, _: IpAddr) -> Option<Host> {
        Some(Host::Name("a.test".to_owned()))
    }

    fn is_synthetic(&self, _: IpAddr) -> bool {
        true
    }
}

/// A client that knows of no proxy may have sent all that it has to say and wait for the answer.
#[tokio::test]
async fn half_a_close_does_not_take_the_question_back() {
    let port = echo_server().await;
    let socket = TcpListener::bind(("127.9.3.1", port)).unwrap();
    let address = socket.local_addr().unwrap();
    let more = vec![Listener::Transparent {
        socket,
        destination: OriginalDestination::LocalAddress,
        names: Arc::new(OneName),
    }];
    let ask = Arc::new(Patient::default());
    let setup = Setup { more, ask: Some(ask.clone()), ..Setup::new(&[]).loopback(port) };
    let proxy = setup.start();
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"all").await.unwrap();
    client.shutdown().await.unwrap();
    soon(&ask.put).await;
    assert!(timeout(Duration::from_millis(300), ask.taken_back.notified()).await.is_err());
    ask.answer.notify_one();
    let mut echo = Vec::new();
    client.read_to_end(&mut echo).await.unwrap();
    assert!(echo.starts_with(b"all"), "{echo:?}");
    soon(&ask.taken_back).await;

    let mut client = TcpStream::connect(address).await.unwrap();
    client.shutdown().await.unwrap();
    soon(&ask.put).await;
    ask.client_left.store(true, Ordering::Relaxed);
    soon(&ask.taken_back).await;
    assert_eq!(proxy.decisions(), ["asked", "-not-approved"]);
}
