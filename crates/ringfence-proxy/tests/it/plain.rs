//! Plain requests.

use ringfence_proxy::{Ending, Protocol};
use tokio::io::AsyncWriteExt as _;

use crate::support::{Setup, exactly, head, mirror_server, rest, server};

#[tokio::test]
async fn a_request_is_forwarded_without_the_fields_of_its_connection() {
    let port = mirror_server().await;
    let proxy = Setup::new(&["a.test:*"]).loopback(port).start();
    let answer = proxy
        .ask(format!(
            "POST http://A.test:{port}/x?y=1 HTTP/1.1\r\nHost: a.test:{port}\r\nContent-Length: 3\r\nX-End: 1\r\n\
             Connection: X-Own, keep-alive\r\nX-Own: 1\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic dTpw\r\n\
             TE: trailers\r\nKeep-Alive: 5\r\n\r\nabc"
        ))
        .await;
    let (reply, seen) = answer.split_once("\r\n\r\n").unwrap();
    let seen = seen.to_lowercase();
    assert!(seen.starts_with("post /x?y=1 http/1.1\r\n"), "{seen}");
    assert!(seen.contains(&format!("host: a.test:{port}\r\n")) && seen.ends_with("\r\n\r\nabc"), "{seen}");
    assert!(seen.contains("x-end: 1\r\n") && seen.contains("via: 1.1 ringfence\r\n"), "{seen}");
    for field in ["x-own", "proxy-", "te:", "keep-alive"] {
        assert!(!seen.contains(field), "{field}: {seen}");
    }
    let reply = reply.to_lowercase();
    assert!(reply.starts_with("http/1.1 200 ok\r\n") && reply.contains("x-kept: 2"), "{reply}");
    assert!(!reply.contains("x-secret"), "{reply}");
    let end = proxy.end().await;
    assert_eq!((end.protocol, end.ending), (Protocol::Http, Some(Ending::Closed)));
    assert!(end.sent > 3 && end.received > 3, "{end:?}");
}

#[tokio::test]
async fn a_chunked_body_is_framed_anew() {
    let port = mirror_server().await;
    let proxy = Setup::new(&["a.test:*"]).loopback(port).start();
    let answer = proxy
        .ask(format!(
            "POST http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\nTransfer-Encoding: chunked\r\n\r\n\
             3;ext=1\r\nabc\r\n0\r\nX-Trailer: 1\r\n\r\n"
        ))
        .await;
    assert!(answer.contains("abc"), "{answer}");
    assert!(!answer.contains("ext=1") && !answer.contains("X-Trailer"), "{answer}");
}

#[tokio::test]
async fn a_second_request_on_the_connection_is_not_read() {
    let port = mirror_server().await;
    let proxy = Setup::new(&["a.test:*"]).loopback(port).start();
    let first = format!("GET http://a.test:{port}/1 HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n");
    let second = "GET http://b.test/2 HTTP/1.1\r\nHost: b.test\r\n\r\n";
    let answer = proxy.ask(first + second).await;
    assert!(answer.contains("/1") && answer.to_lowercase().contains("connection: close"), "{answer}");
    assert!(!answer.contains("/2"), "{answer}");
    assert_eq!(proxy.decisions(), ["allowed"]);
}

#[tokio::test]
async fn requests_that_can_be_read_in_two_ways_reach_nobody() {
    let port = mirror_server().await;
    let proxy = Setup::new(&["a.test:*"]).loopback(port).start();
    let url = format!("http://a.test:{port}/");
    let host = format!("Host: a.test:{port}\r\n");
    for (what, request) in [
        (
            "both lengths",
            format!(
                "POST {url} HTTP/1.1\r\n{host}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            ),
        ),
        (
            "both, turned",
            format!(
                "POST {url} HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n"
            ),
        ),
        (
            "two lengths",
            format!("POST {url} HTTP/1.1\r\n{host}Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd"),
        ),
        ("two hosts", format!("GET {url} HTTP/1.1\r\n{host}{host}\r\n")),
        ("another host", format!("GET {url} HTTP/1.1\r\nHost: b.test:{port}\r\n\r\n")),
        ("no host", format!("GET {url} HTTP/1.1\r\n\r\n")),
        ("user information", format!("GET http://a.test:{port}@b.test/ HTTP/1.1\r\nHost: b.test\r\n\r\n")),
        ("bare line feeds", format!("GET {url} HTTP/1.1\n{host}\r\n")),
        ("a folded field", format!("GET {url} HTTP/1.1\r\n{host} x\r\n\r\n")),
        ("a space before the colon", format!("GET {url} HTTP/1.1\r\nHost : a.test:{port}\r\n\r\n")),
        ("port 0", "GET http://a.test:0/ HTTP/1.1\r\nHost: a.test:0\r\n\r\n".to_owned()),
        ("port 0 of a tunnel", "CONNECT a.test:0 HTTP/1.1\r\n\r\n".to_owned()),
        ("origin form", format!("GET / HTTP/1.1\r\n{host}\r\n")),
        ("https", format!("GET https://a.test:{port}/ HTTP/1.1\r\n{host}\r\n")),
        ("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned()),
    ] {
        let answer = proxy.ask(&request).await;
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{what}: {answer}");
    }
    assert!(proxy.decisions().is_empty());
    let control = format!("GET {url} HTTP/1.1\r\n{host}\r\n");
    assert!(proxy.ask(control).await.starts_with("HTTP/1.1 200 OK\r\n"));
}

#[tokio::test]
async fn a_giant_head_is_refused_with_its_status() {
    let proxy = Setup::new(&["a.test:*"]).start();
    for filler in ["X: y\r\n".repeat(200), format!("X: {}\r\n", "y".repeat(20_000))] {
        let answer = proxy.ask(format!("GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n{filler}\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
}

#[tokio::test]
async fn a_refused_request_has_its_reason() {
    let proxy = Setup::new(&["a.test"]).start();
    let answer = proxy.ask("GET http://b.test/secret HTTP/1.1\r\nHost: b.test\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
    assert!(answer.contains("b.test:80 is not on the list of allowed hosts"), "{answer}");
    assert!(answer.contains("--allow-host b.test:80"), "{answer}");
}

#[tokio::test]
async fn an_upgrade_is_passed_on() {
    let port = server(|mut stream| async move {
        let request = head(&mut stream).await.to_lowercase();
        assert!(request.contains("upgrade: websocket\r\n") && request.contains("connection: upgrade\r\n"), "{request}");
        stream
            .write_all(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\nhello")
            .await
            .unwrap();
        let got = exactly(&mut stream, 4).await;
        stream.write_all(&got).await.unwrap();
    })
    .await;
    let proxy = Setup::new(&["a.test:*"]).loopback(port).start();
    let mut client = proxy
        .sent(format!(
            "GET http://a.test:{port}/ws HTTP/1.1\r\nHost: a.test:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: y\r\n\r\n"
        ))
        .await;
    let reply = head(&mut client).await.to_lowercase();
    assert!(reply.starts_with("http/1.1 101 ") && reply.contains("sec-websocket-accept: x"), "{reply}");
    assert_eq!(exactly(&mut client, 5).await, b"hello");
    client.write_all(b"ping").await.unwrap();
    assert_eq!(rest(&mut client).await, b"ping");
    drop(client);
    assert_eq!(proxy.end().await.ending, Some(Ending::Closed));
}

#[tokio::test]
async fn a_host_that_does_not_speak_http_is_a_bad_gateway() {
    let port = server(|mut stream| async move {
        head(&mut stream).await;
        stream.write_all(b"SSH-2.0-x\r\n\r\n").await.unwrap();
    })
    .await;
    let proxy = Setup::new(&["a.test:*"]).loopback(port).start();
    let answer =
        proxy.ask(format!("GET http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert_eq!(proxy.end().await.ending, Some(Ending::Broken));
}

#[tokio::test]
async fn a_response_that_breaks_off_does_not_look_complete() {
    let port = server(|mut stream| async move {
        let request = head(&mut stream).await;
        let framing = if request.starts_with("GET /length") {
            "Content-Length: 100"
        } else {
            "Transfer-Encoding: chunked"
        };
        stream.write_all(format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n4\r\nabcd").as_bytes()).await.unwrap();
    })
    .await;
    let proxy = Setup::new(&["a.test:*"]).loopback(port).start();
    for path in ["length", "chunks"] {
        // A client of this version knows the end of the message by the end of the connection alone.
        let mut client = proxy.sent(format!("GET http://a.test:{port}/{path} HTTP/1.0\r\n\r\n")).await;
        let mut answer = Vec::new();
        let error = tokio::io::AsyncReadExt::read_to_end(&mut client, &mut answer).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{path}");
    }
    assert_eq!(proxy.end().await.ending, Some(Ending::Broken));
}
