//! One host has many spellings; whatever the client speaks, each is either that host or none.

use std::sync::Arc;

use crate::support::{FakeResolver, Running, Setup, connect, echo_server, exactly};

/// What a client gets for a host, by each way in: a status of HTTP twice, and a code of SOCKS.
async fn outcomes(proxy: &Running, host: &str, port: u16) -> (String, String, u8) {
    let status = |answer: String| answer.get(9..12).unwrap_or_default().to_owned();
    let mut tunnel = proxy.sent(connect(&format!("{host}:{port}"))).await;
    let answer = exactly(&mut tunnel, 12).await;
    let by_connect = status(String::from_utf8_lossy(&answer).into_owned());
    drop(tunnel);
    let url = format!("http://{host}:{port}/");
    let plain =
        proxy.ask(format!("GET {url} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n")).await;
    let name = host.as_bytes();
    let request =
        [&[5, 1, 0, 5, 1, 0, 3, u8::try_from(name.len()).unwrap()], name, &port.to_be_bytes()].concat();
    let mut client = proxy.sent(request).await;
    let code = exactly(&mut client, 4).await[3];
    (by_connect, status(plain), code)
}

fn setup(port: u16) -> Setup {
    let resolver = FakeResolver::new(&[("a.test", &["127.0.0.1"]), ("xn--bcher-kva.test", &["127.0.0.1"])]);
    let setup = Setup::new(&["a.test:*", "b\u{fc}cher.test:*", "**.long.test:*"]);
    Setup { resolver: Arc::new(resolver), ..setup }.loopback(port)
}

#[tokio::test]
async fn spellings_of_an_allowed_host_are_that_host() {
    let port = echo_server().await;
    let proxy = setup(port).start();
    for host in ["a.test", "A.tEST", "a.test.", "xn--bcher-kva.test", "XN--BCHER-KVA.TEST.", "127.0.0.1"] {
        // The server echoes the plain request, which is no response.
        assert_eq!(outcomes(&proxy, host, port).await, ("200".to_owned(), "502".to_owned(), 0), "{host}");
    }
}

#[tokio::test]
async fn what_could_be_read_in_two_ways_is_no_host() {
    let port = echo_server().await;
    let proxy = setup(port).start();
    let label = "x".repeat(63);
    let longest = format!("{label}.{label}.{label}.{}.long.test", "x".repeat(51));
    assert_eq!(longest.len(), 253);
    let tests = [
        format!("x{longest}"),
        format!("xx{longest}"),
        format!("x{label}.long.test"),
        "127.1".to_owned(),
        "0177.0.0.1".to_owned(),
        "0x7f.0.0.1".to_owned(),
        "0x7f000001".to_owned(),
        "2130706433".to_owned(),
        "127.0.0.1.".to_owned(),
        "127.0.0.256".to_owned(),
        "127.0.0.0.1".to_owned(),
        "a..test".to_owned(),
        ".a.test".to_owned(),
        "a.test..".to_owned(),
        "a%2etest".to_owned(),
        "*.long.test".to_owned(),
        "a.test,b.test".to_owned(),
        "[fe80::1%eth0]".to_owned(),
        "[::1%25lo]".to_owned(),
        "[::1".to_owned(),
        "[a.test]".to_owned(),
    ];
    for host in &tests {
        let (tunnel, plain, code) = outcomes(&proxy, host, port).await;
        assert_eq!((tunnel.as_str(), plain.as_str()), ("400", "400"), "{host}");
        assert!(matches!(code, 1 | 4), "{host}: {code}");
    }
    assert!(proxy.decisions().is_empty());
    // The control: the longest name is judged, and not found.
    assert_eq!(outcomes(&proxy, &longest, port).await, ("502".to_owned(), "502".to_owned(), 4));
}

#[tokio::test]
async fn a_name_that_looks_alike_is_another() {
    let port = echo_server().await;
    let proxy = setup(port).start();
    let request = |name: &str| {
        let length = u8::try_from(name.len()).unwrap();
        [&[5, 1, 0, 5, 1, 0, 3, length], name.as_bytes(), &port.to_be_bytes()].concat()
    };
    // Only SOCKS carries other letters than ASCII: Cyrillic and fullwidth forms, and a dotless i.
    for (name, code) in [
        ("\u{430}.test", 2),
        ("\u{ff41}.test", 0),
        ("B\u{dc}CHER.test", 0),
        ("bu\u{308}cher\u{3002}test", 0),
        ("a.te\u{200b}st", 0),
        ("b\u{131}cher.test", 2),
    ] {
        let mut client = proxy.sent(request(name)).await;
        assert_eq!(exactly(&mut client, 4).await[3], code, "{name}");
    }
}
