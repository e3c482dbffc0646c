//! What may be reached, and how a refusal tells.

use std::sync::Arc;

use ringfence_proxy::{EgressPolicy, Ending, Reach};

use crate::support::{FakeResolver, Setup, connect, echo_server, patterns};

#[tokio::test]
async fn an_unlisted_host_is_refused_in_words_and_never_looked_up() {
    let port = echo_server().await;
    let setup = Setup::new(&["a.test:*"]).loopback(port);
    let resolver = Arc::clone(&setup.resolver);
    let proxy = setup.start();
    proxy.tunnel(&format!("a.test:{port}")).await;
    let answer = proxy.ask(connect(&format!("secret.b.test:{port}"))).await;
    assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
    assert!(answer.contains("X-Ringfence-Denied: not-listed\r\n"), "{answer}");
    assert!(answer.contains(&format!("hint: --allow-host secret.b.test:{port} would allow it")), "{answer}");
    assert_eq!(resolver.asked(), ["a.test"]);
    assert_eq!(proxy.decisions(), ["allowed", "-not-listed"]);
    let denial = proxy.events.lock().unwrap().iter().find_map(ringfence_proxy::Event::denial).unwrap();
    assert_eq!(denial.target, format!("secret.b.test:{port}"));
    assert_eq!(denial.allow_with, Some(format!("--allow-host secret.b.test:{port}")));
}

#[tokio::test]
async fn a_deny_rule_beats_an_allow_rule() {
    let port = echo_server().await;
    let mut setup = Setup::new(&["*.test:*"]).loopback(port);
    setup.policy.deny = patterns(&["b.test"]);
    let proxy = setup.start();
    proxy.tunnel(&format!("a.test:{port}")).await;
    let answer = proxy.ask(connect(&format!("B.test.:{port}"))).await;
    assert!(answer.contains("is denied by `b.test`") && !answer.contains("hint"), "{answer}");
}

#[tokio::test]
async fn a_name_that_leads_to_a_private_address_is_refused() {
    let port = echo_server().await;
    let proxy = Setup::new(&["*.test:*"]).loopback(port).start();
    let answer = proxy.ask(connect("private.test:443")).await;
    assert!(answer.contains("private.test:443 leads to 10.255.255.1, a private address"), "{answer}");
    assert!(answer.contains("X-Ringfence-Allow-With: --allow-host 10.255.255.1:443"), "{answer}");
    // The same name is not listed on the loopback's other ports.
    let answer = proxy.ask(connect("a.test:443")).await;
    assert!(answer.contains("leads to 127.0.0.1, a loopback address"), "{answer}");
    // Of several addresses those that may be used are.
    proxy.tunnel(&format!("mixed.test:{port}")).await;
    assert_eq!(proxy.end().await.address, Some(([127, 0, 0, 1], port).into()));
}

#[tokio::test]
async fn a_resolver_that_changes_its_mind_changes_nothing() {
    let port = echo_server().await;
    // Were the name looked up a second time to connect, it would lead to the loopback.
    let resolver = FakeResolver::rebinding("r.test", &["203.0.113.1", "127.0.0.1"]);
    let proxy = Setup { resolver: Arc::new(resolver), ..Setup::new(&["r.test:*"]).loopback(port) }.start();
    let answer = proxy.ask(connect(&format!("r.test:{port}"))).await;
    assert!(answer.contains("leads to 203.0.113.1, an address for documentation"), "{answer}");
    // The next connection is decided anew, and reaches what was checked for it.
    proxy.tunnel(&format!("r.test:{port}")).await;
    let resolver = FakeResolver::rebinding("r.test", &["127.0.0.1", "10.0.0.1"]);
    let setup = Setup { resolver: Arc::new(resolver), ..Setup::new(&["r.test:*"]).loopback(port) };
    let resolver = Arc::clone(&setup.resolver);
    let proxy = setup.start();
    drop(proxy.tunnel(&format!("r.test:{port}")).await);
    assert_eq!(proxy.end().await.address.unwrap().ip().to_string(), "127.0.0.1");
    assert_eq!(resolver.asked(), ["r.test"]);
}

#[tokio::test]
async fn public_reach_has_no_local_address_in_any_spelling() {
    let port = echo_server().await;
    let policy = EgressPolicy { reach: Reach::Public, ..EgressPolicy::default() };
    let proxy = Setup { policy: policy.clone(), ..Setup::new(&[]) }.start();
    for host in [
        "127.0.0.1",
        "localhost",
        "x.localhost",
        "LOCALHOST.",
        "a.test",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "[::]",
        "0.0.0.0",
        "[64:ff9b::7f00:1]",
        "[64:ff9b:1::7f00:1]",
        "[2002:7f00:1::]",
        "[2001:0:1:2:3:4:80ff:fffe]",
        "10.0.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "[fe80::1]",
        "[fec0::1]",
        "[fd00::1]",
    ] {
        let answer = proxy.ask(connect(&format!("{host}:{port}"))).await;
        assert!(
            answer.starts_with("HTTP/1.1 403 ") && answer.contains("X-Ringfence-Denied: guarded"),
            "{host}: {answer}"
        );
    }
    for host in ["127.1", "2130706433", "0x7f000001", "017700000001", "127.0.0.1.nip"] {
        let answer = proxy.ask(connect(&format!("{host}:{port}"))).await;
        assert!(!answer.starts_with("HTTP/1.1 200"), "{host}: {answer}");
    }
    // The control: the port is there, and reached as soon as it may be.
    let policy = EgressPolicy { allow_loopback_ports: [port].into(), ..policy };
    let proxy = Setup { policy, ..Setup::new(&[]) }.start();
    for host in ["127.0.0.1", "localhost", "a.test"] {
        proxy.tunnel(&format!("{host}:{port}")).await;
    }
}

#[tokio::test]
async fn failures_have_their_status() {
    let dead = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let proxy = Setup::new(&["*.test:*"]).loopback(dead).start();
    for (host, status, ending) in [
        ("nowhere.test", "502 Bad Gateway", Ending::Unresolved),
        ("empty.test", "502 Bad Gateway", Ending::Unresolved),
        ("a.test", "502 Bad Gateway", Ending::Unreachable),
    ] {
        let answer = proxy.ask(connect(&format!("{host}:{dead}"))).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{host}: {answer}");
        assert_eq!(proxy.end().await.ending, Some(ending), "{host}");
        proxy.events.lock().unwrap().clear();
    }
}
