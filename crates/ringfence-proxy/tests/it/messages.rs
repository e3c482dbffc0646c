//! Plain messages whose length is not what their fields say, and those that come before or after the proper one.

use std::time::Duration;

use tokio::io::AsyncWriteExt as _;

use crate::support::{Running, Setup, exactly, head, mirror_server, rest, server};

/// A proxy before a server that answers each request with this, and then keeps its connection open.
async fn before(answer: &'static str) -> (Running, u16) {
    let port = server(move |mut stream| async move {
        head(&mut stream).await;
        stream.write_all(answer.as_bytes()).await.unwrap();
        let _ = tokio::io::copy(&mut stream.split().0, &mut tokio::io::sink()).await;
    })
    .await;
    (Setup::new(&["a.test:*"]).loopback(port).start(), port)
}

fn request(method: &str, port: u16) -> String {
    format!("{method} http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n")
}

#[tokio::test]
async fn a_response_without_a_body_ends_with_its_head() {
    for (method, answer) in [
        ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"),
        ("HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ("GET", "HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n"),
    ] {
        let (proxy, port) = before(answer).await;
        let got = proxy.ask(request(method, port)).await;
        assert_eq!(got.get(..12), answer.get(..12), "{method} {answer}: {got}");
        assert!(got.ends_with("\r\n\r\n") && got.matches("\r\n\r\n").count() == 1, "{got}");
    }
    // The control: a body is waited for and passed on.
    let (proxy, port) = before("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody").await;
    assert!(proxy.ask(request("GET", port)).await.ends_with("\r\n\r\nbody"));
}

#[tokio::test]
async fn a_body_is_asked_for_before_it_is_sent() {
    let port = mirror_server().await;
    let proxy = Setup::new(&["a.test:*"]).loopback(port).start();
    let mut client = proxy
        .sent(format!(
            "POST http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\nExpect: 100-continue\r\n\
             Content-Length: 4\r\n\r\n"
        ))
        .await;
    assert_eq!(head(&mut client).await, "HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(b"body").await.unwrap();
    let answer = String::from_utf8(rest(&mut client).await).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("body"), "{answer}");
    assert!(!answer.to_lowercase().contains("expect"), "{answer}");
}

#[tokio::test]
async fn interim_responses_are_not_the_response() {
    let (proxy, port) = before(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n\
         HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody",
    )
    .await;
    let answer = proxy.ask(request("GET", port)).await;
    assert!(answer.contains("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nbody"), "{answer}");
    // Nobody has asked for another protocol.
    let (proxy, port) =
        before("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n").await;
    assert!(proxy.ask(request("GET", port)).await.starts_with("HTTP/1.1 502 "));
}

#[tokio::test]
async fn a_response_has_one_length() {
    for (answer, expected) in [
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\nbody\r\n0\r\nX-Late: 1\r\n\r\n",
            Some("4\r\nbody\r\n0\r\n\r\n"),
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nbody!", None),
        ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nbody", None),
        ("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbodyHTTP/1.1 200 OK\r\n\r\n", Some("\r\n\r\nbody")),
    ] {
        let (proxy, port) = before(answer).await;
        let got = proxy.ask(request("GET", port)).await;
        match expected {
            Some(end) => assert!(got.starts_with("HTTP/1.1 200 ") && got.ends_with(end), "{answer}: {got}"),
            None => assert!(got.starts_with("HTTP/1.1 502 "), "{answer}: {got}"),
        }
        assert!(!got.contains("X-Late"), "{got}");
    }
    // With both lengths the chunks count and the other field goes (RFC 9112, section 6.3).
    let (proxy, port) = before(
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
    )
    .await;
    let got = proxy.ask(request("GET", port)).await;
    assert!(
        !got.to_lowercase().contains("content-length") && got.ends_with("4\r\nbody\r\n0\r\n\r\n"),
        "{got}"
    );
}

#[tokio::test]
async fn each_request_of_a_connection_is_judged() {
    let port = mirror_server().await;
    let proxy = Setup::new(&["a.test:*"]).loopback(port).start();
    let url = format!("http://a.test:{port}/");
    // Hidden in a body, after a body, and after an empty line: none is acted upon.
    for first in [
        format!("POST {url} HTTP/1.1\r\nHost: a.test:{port}\r\nContent-Length: 2\r\n\r\nok"),
        format!(
            "POST {url} HTTP/1.1\r\nHost: a.test:{port}\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
        ),
        format!("GET {url} HTTP/1.1\r\nHost: a.test:{port}\r\nConnection: keep-alive\r\n\r\n\r\n"),
    ] {
        let second = format!("GET http://b.test:{port}/ HTTP/1.1\r\nHost: b.test:{port}\r\n\r\n");
        let mut client = proxy.sent(format!("{first}{second}")).await;
        let answer = String::from_utf8_lossy(&rest(&mut client).await).into_owned();
        assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 1, "{answer}");
        assert!(
            answer.to_lowercase().contains("connection: close") && !answer.contains("b.test"),
            "{answer}"
        );
    }
    assert_eq!(proxy.decisions(), ["allowed"; 3]);
}

#[tokio::test]
async fn a_slow_body_holds_nobody_up() {
    let port = mirror_server().await;
    let proxy = Setup::new(&["a.test:*"]).loopback(port).start();
    let mut slow = proxy
        .sent(format!(
            "POST http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\nContent-Length: 5\r\n\r\n"
        ))
        .await;
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        slow.write_all(b"x").await.unwrap();
        assert!(proxy.ask(request("GET", port)).await.starts_with("HTTP/1.1 200 "));
    }
    assert_eq!(exactly(&mut slow, 12).await, b"HTTP/1.1 200");
}
