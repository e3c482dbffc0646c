//! `ringfence proxy` with clients and servers on the loopback.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use insta::assert_snapshot;
use ringfence_testkit::Running;
use rustix::process::Signal;
use serde_json::Value;

use super::{fixture, ringfence};

/// Answers every connection with one line after one byte; gives its port.
fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read_exact(&mut [0]);
            let _ = stream.write_all(b"from the server\n");
        }
    });
    port
}

/// The address from the first line, which ends in it.
fn address(proxy: &mut Running, before: &str, after: &str) -> SocketAddr {
    proxy.wait_for("\n");
    let line = proxy.out_so_far();
    let line = line.lines().next().expect("a line");
    let text = line.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    text.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}

fn ask(proxy: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(proxy).expect("connect");
    stream.write_all(request.as_bytes()).expect("write");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("read");
    answer
}

fn connect(authority: &str) -> String {
    format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\nx")
}

#[test]
fn what_is_allowed_passes_and_the_rest_is_told() {
    let port = server();
    let fixture = fixture();
    let mut proxy =
        fixture.ringfence(["proxy", "--json", "--allow-host", &format!("127.0.0.1:{port}")]).spawn();
    let at = address(&mut proxy, "{\"address\":\"", "\",\"event\":\"listening\"}");
    let answer = ask(at, &connect(&format!("127.0.0.1:{port}")));
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("from the server\n"), "{answer}");
    let answer = ask(at, &connect("host.invalid:443"));
    assert!(answer.contains("hint: --allow-host host.invalid:443 would allow it"), "{answer}");
    proxy.wait_for("not-listed");
    proxy.signal(Signal::TERM);
    let finished = proxy.wait().code_is(0);
    let events: Vec<Value> = finished
        .out()
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object on each line"))
        .collect();
    let rule = |event: &Value| (event["event"].clone(), event["rule"].clone(), event["allowed"].clone());
    let ends: Vec<_> = events.iter().filter(|event| event["event"] == "end").collect();
    assert_eq!((ends.len(), &ends[0]["sent"], &ends[0]["received"]), (1, &1.into(), &16.into()));
    assert_eq!(rule(&events[1]), ("decision".into(), "allowed".into(), true.into()));
    let refused = events.iter().find(|event| event["rule"] == "not-listed").expect("a refusal");
    assert_eq!((&refused["host"], &refused["port"]), (&"host.invalid".into(), &443.into()));
    assert_eq!((&refused["protocol"], &refused["run"]), (&"connect".into(), &"proxy".into()));
}

#[test]
fn events_are_sentences_for_people() {
    let port = server();
    let fixture = fixture();
    let mut proxy =
        fixture.ringfence(["proxy", "--net", "public", "--allow-loopback", &port.to_string()]).spawn();
    let at = address(&mut proxy, "listening on ", "");
    assert!(ask(at, &connect(&format!("localhost:{port}"))).ends_with("from the server\n"));
    assert!(ask(at, &connect("169.254.169.254:80")).starts_with("HTTP/1.1 403 "));
    let refusal = "refused  connect 169.254.169.254:80 is the address of a metadata service; \
                   --allow-host 169.254.169.254:80 would allow it\n";
    proxy.wait_for(refusal);
    proxy.wait_for(&format!("allowed  connect localhost:{port}\n"));
    proxy.signal(Signal::INT);
    proxy.wait().code_is(0);
}

#[test]
fn what_makes_no_sense_is_refused() {
    assert_snapshot!(ringfence(&["proxy"]), @"
    exit: 2
    --- stdout
    --- stderr
    ringfence: nothing is allowed
    hint: name a host with --allow-host, or allow every public one with --net public
    ");
    assert_snapshot!(ringfence(&["proxy", "--net", "public", "--listen", "0.0.0.0:8080"]), @"
    exit: 2
    --- stdout
    --- stderr
    ringfence: `--listen 0.0.0.0:8080` would let other machines use the proxy
    hint: listen on a loopback address, such as 127.0.0.1:0
    ");
    assert_snapshot!(ringfence(&["proxy", "--allow-host", "https://a.example"]), @"
    exit: 2
    --- stdout
    --- stderr
    ringfence: `https://a.example` is no value of `--allow-host`: host pattern `https://a.example` holds a scheme or a path, expected only a host and an optional port
    hint: see `ringfence proxy --help`
    ");
    assert_snapshot!(ringfence(&["proxy", "--net", "all"]), @"
    exit: 2
    --- stdout
    --- stderr
    ringfence: `all` is no value of `--net`
    hint: expected one of public
    ");
}

#[test]
fn a_port_that_is_taken_and_a_proxy_that_cannot_be_used_are_told() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = taken.local_addr().expect("an address").to_string();
    let fixture = fixture();
    let failed = fixture.ringfence(["proxy", "--net", "public", "--listen", &address]).finish().code_is(1);
    assert!(
        failed.err().contains(&format!("cannot listen on {address}: address already in use")),
        "{}",
        failed.err()
    );
    for arguments in [&["proxy", "--net", "public"][..], &["run", "--net", "public", "--", "true"]] {
        let command = fixture.ringfence(arguments).env("HTTPS_PROXY", "https://u:secret@proxy.example");
        let failed = command.finish();
        assert_ne!(failed.code, Some(0), "{}", failed.report());
        let told = failed.err();
        assert!(told.contains("HTTPS_PROXY names a proxy of the kind `https`, only"), "{told}");
        assert!(told.contains("hint: let a forwarder speak TLS: `socat TCP-LISTEN:"), "{told}");
        assert!(!told.contains("secret"), "{told}");
    }
}
