//! The host's own proxy.

use std::sync::{Arc, Mutex};

use ringfence_proxy::{Ending, Reach, Upstream};
use tokio::io::AsyncWriteExt as _;

use crate::support::{FakeResolver, Setup, connect, exactly, head, rest, server};

type Heads = Arc<Mutex<Vec<String>>>;

/// A proxy that notes each request's head and answers with this.
async fn corporate(answer: &'static str) -> (u16, Heads) {
    let heads = Heads::default();
    let noted = Arc::clone(&heads);
    let port = server(move |mut stream| {
        let noted = Arc::clone(&noted);
        async move {
            let head = head(&mut stream).await;
            noted.lock().unwrap().push(head);
            stream.write_all(answer.as_bytes()).await.unwrap();
            let _ = tokio::io::copy(&mut stream.split().0, &mut tokio::io::sink()).await;
        }
    })
    .await;
    (port, heads)
}

fn through(port: u16, except: &str, setup: Setup) -> Setup {
    let variable = |name: &str| match name {
        "http_proxy" | "https_proxy" => Some(format!("http://u:p@127.0.0.1:{port}")),
        "no_proxy" => Some(except.to_owned()),
        _ => None,
    };
    Setup { upstream: Upstream::from_variables(variable).unwrap(), ..setup }
}

#[tokio::test]
async fn a_tunnel_goes_through_it_by_name() {
    let (port, heads) = corporate("HTTP/1.1 200 OK\r\n\r\nearly").await;
    let proxy = through(port, "", Setup::new(&["unknown.test", "private.test"])).start();
    // The host can't look the name up; the other proxy can.
    let mut client = proxy.tunnel("unknown.test:443").await;
    assert_eq!(exactly(&mut client, 5).await, b"early");
    drop(client);
    assert_eq!((proxy.end().await.received, proxy.end().await.address), (5, None));
    let heads = heads.lock().unwrap().join("");
    assert!(heads.starts_with("CONNECT unknown.test:443 HTTP/1.1\r\nHost: unknown.test:443\r\n"), "{heads}");
    assert!(heads.contains("Proxy-Authorization: Basic dTpw\r\n"), "{heads}");
    // What the host can look up is guarded all the same, and what is not listed stays out.
    for authority in ["private.test:443", "other.test:443"] {
        assert!(proxy.ask(connect(authority)).await.starts_with("HTTP/1.1 403 "), "{authority}");
    }
}

#[tokio::test]
async fn a_plain_request_goes_as_it_is() {
    let (port, heads) = corporate("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
    let proxy = through(port, "", Setup::new(&["unknown.test"])).start();
    let answer = proxy.ask("GET http://unknown.test/x?y HTTP/1.1\r\nHost: unknown.test\r\n\r\n").await;
    assert!(answer.ends_with("\r\n\r\nok"), "{answer}");
    let heads = heads.lock().unwrap().join("").to_lowercase();
    assert!(heads.starts_with("get http://unknown.test/x?y http/1.1\r\n"), "{heads}");
    assert!(
        heads.contains("host: unknown.test\r\n") && heads.contains("proxy-authorization: basic dtpw\r\n"),
        "{heads}"
    );
}

#[tokio::test]
async fn public_reach_goes_by_the_address_that_was_checked() {
    let (port, heads) = corporate("HTTP/1.1 200 OK\r\n\r\n").await;
    let mut setup = through(port, "", Setup::new(&[]));
    setup.policy.reach = Reach::Public;
    setup.resolver =
        Arc::new(FakeResolver::new(&[("pub.test", &["1.1.1.1"]), ("private.test", &["10.0.0.1"])]));
    let proxy = setup.start();
    proxy.tunnel("pub.test:443").await;
    assert!(heads.lock().unwrap()[0].starts_with("CONNECT 1.1.1.1:443 "));
    // Without an address nothing can be checked.
    assert!(proxy.ask(connect("unknown.test:443")).await.starts_with("HTTP/1.1 502 "));
    assert!(proxy.ask(connect("private.test:443")).await.starts_with("HTTP/1.1 403 "));
    assert_eq!(heads.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_plain_request_of_public_reach_goes_through_a_tunnel_to_that_address() {
    let heads = Heads::default();
    let noted = Arc::clone(&heads);
    let port = server(move |mut stream| {
        let noted = Arc::clone(&noted);
        async move {
            for answer in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"] {
                let head = head(&mut stream).await;
                noted.lock().unwrap().push(head);
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        }
    })
    .await;
    let mut setup = through(port, "", Setup::new(&[]));
    setup.policy.reach = Reach::Public;
    setup.resolver = Arc::new(FakeResolver::new(&[("pub.test", &["1.1.1.1"])]));
    let answer = setup.start().ask("GET http://pub.test/x HTTP/1.1\r\nHost: pub.test\r\n\r\n").await;
    assert!(answer.ends_with("\r\n\r\nok"), "{answer}");
    let heads = heads.lock().unwrap();
    assert!(heads[0].starts_with("CONNECT 1.1.1.1:80 HTTP/1.1\r\n"), "{heads:?}");
    assert!(heads[1].starts_with("GET /x HTTP/1.1\r\n") && heads[1].contains("pub.test"), "{heads:?}");
    assert!(!heads[1].to_lowercase().contains("proxy-authorization"), "{heads:?}");
}

#[tokio::test]
async fn exceptions_go_directly() {
    let (port, heads) = corporate("HTTP/1.1 200 OK\r\n\r\n").await;
    let target = crate::support::echo_server().await;
    let proxy = through(port, "a.test", Setup::new(&["*.test:*"]).loopback(target)).start();
    proxy.tunnel(&format!("a.test:{target}")).await;
    assert!(heads.lock().unwrap().is_empty());
    proxy.tunnel(&format!("b.test:{target}")).await;
    assert_eq!(heads.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn its_refusal_is_told() {
    for (answer, why) in
        [("HTTP/1.1 407 No\r\n\r\n", "answered 407"), ("SSH-2.0\r\n\r\n", "does not answer like one")]
    {
        let (port, _) = corporate(answer).await;
        let proxy = through(port, "", Setup::new(&["a.test:*", "127.0.0.1:*"])).start();
        let mut client = proxy.sent(connect("a.test:443")).await;
        let text = String::from_utf8(rest(&mut client).await).unwrap();
        assert!(text.starts_with("HTTP/1.1 502 ") && text.contains(why), "{text}");
        assert_eq!(proxy.end().await.ending, Some(Ending::UpstreamRefused));
    }
}

/// A SOCKS 5 proxy that wants a login, notes what it is asked for and then echoes.
async fn socks() -> (u16, Heads) {
    let asked = Heads::default();
    let noted = Arc::clone(&asked);
    let port = server(move |mut stream| {
        let noted = Arc::clone(&noted);
        async move {
            let methods = exactly(&mut stream, 2).await[1];
            exactly(&mut stream, methods.into()).await;
            stream.write_all(&[5, 2]).await.unwrap();
            let login = exactly(&mut stream, 5).await;
            stream.write_all(&[1, u8::from(login != [1, 1, b'u', 1, b'p'])]).await.unwrap();
            let kind = exactly(&mut stream, 4).await[3];
            let target = match kind {
                3 => {
                    let length = exactly(&mut stream, 1).await[0];
                    String::from_utf8(exactly(&mut stream, length.into()).await).unwrap()
                }
                _ => format!("{:?}", exactly(&mut stream, 4).await),
            };
            exactly(&mut stream, 2).await;
            noted.lock().unwrap().push(target);
            stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
            let (mut reader, mut writer) = stream.split();
            let _ = tokio::io::copy(&mut reader, &mut writer).await;
        }
    })
    .await;
    (port, asked)
}

fn through_socks(scheme: &str, login: &str, port: u16, setup: Setup) -> Setup {
    let url = format!("{scheme}://{login}@127.0.0.1:{port}");
    let variable = |name: &str| (name == "ALL_PROXY").then(|| url.clone());
    Setup { upstream: Upstream::from_variables(variable).unwrap(), ..setup }
}

#[tokio::test]
async fn socks_gets_names_or_addresses() {
    let (port, asked) = socks().await;
    let setup = || Setup::new(&["unknown.test", "a.test"]).loopback(443);
    let proxy = through_socks("socks5h", "u:p", port, setup()).start();
    let mut client = proxy.tunnel("unknown.test:443").await;
    client.write_all(b"ping").await.unwrap();
    assert_eq!(exactly(&mut client, 4).await, b"ping");
    let proxy = through_socks("socks5", "u:p", port, setup()).start();
    proxy.tunnel("a.test:443").await;
    // What can't be looked up here has no address that could be handed on.
    assert!(proxy.ask(connect("unknown.test:443")).await.starts_with("HTTP/1.1 502 "));
    assert_eq!(*asked.lock().unwrap(), ["unknown.test", "[127, 0, 0, 1]"]);
}

#[tokio::test]
async fn a_plain_request_goes_through_a_tunnel_of_socks() {
    let (port, asked) = socks().await;
    let proxy = through_socks("socks5h", "u:p", port, Setup::new(&["unknown.test"])).start();
    // The proxy behind echoes the request, which is no response.
    let answer = proxy.ask("GET http://unknown.test/ HTTP/1.1\r\nHost: unknown.test\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert_eq!(*asked.lock().unwrap(), ["unknown.test"]);
}

#[tokio::test]
async fn a_refused_login_is_told() {
    let (port, _) = socks().await;
    let proxy = through_socks("socks5h", "u:q", port, Setup::new(&["unknown.test"])).start();
    let answer = proxy.ask(connect("unknown.test:443")).await;
    assert!(
        answer.starts_with("HTTP/1.1 502 ") && answer.contains("refused the user and password"),
        "{answer}"
    );
    assert_eq!(proxy.end().await.ending, Some(Ending::UpstreamRefused));
}
