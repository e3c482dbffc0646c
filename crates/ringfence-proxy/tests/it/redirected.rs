//! The packet filter's redirection, in a network namespace of its own: names, synthetic addresses and connections of a
//! client that knows of no proxy.

use std::net::{IpAddr, TcpListener, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;

use ringfence_proxy::{Listener, Names, OriginalDestination, SyntheticNames};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{Setup, echo_server, exactly};
use crate::transparent::{answer, question};

/// What a launcher does in the box's namespace, before the program starts.
const SET_UP: &str = r#"
set -e
ip link set lo up
ip route add local "$V4" dev lo
ip -6 route add local "$V6" dev lo
nft -f - <<RULES
table inet box {
    chain output {
        type nat hook output priority -100;
        ip daddr $V4 tcp dport 1-65535 redirect to :9999
        ip6 daddr $V6 tcp dport 1-65535 redirect to :9999
    }
}
RULES
exec "$@"
"#;

/// Whether programs are there; the reason why not is printed, and a failure where `RINGFENCE_MUST_HAVE` says so.
pub(crate) fn has(programs: &[&str]) -> bool {
    let must = std::env::var("RINGFENCE_MUST_HAVE").unwrap_or_default();
    programs.iter().all(|program| {
        let found = Command::new("sh")
            .args(["-c", "command -v \"$1\"", "sh", program])
            .stdout(Stdio::null())
            .status();
        let found = found.is_ok_and(|status| status.success());
        assert!(
            found || !must.split(',').any(|entry| entry == "all" || entry == *program),
            "{program} is missing"
        );
        if !found {
            eprintln!("SKIP: needs {program}: not in PATH");
        }
        found
    })
}

#[test]
fn a_redirected_connection_reaches_the_name_that_was_looked_up() {
    if !has(&["unshare", "ip", "nft"]) {
        return;
    }
    let network = |(address, length): (String, u8)| format!("{address}/{length}");
    let (v4, v6) = (SyntheticNames::V4, SyntheticNames::V6);
    let output = Command::new("unshare")
        .args(["--map-root-user", "--net", "sh", "-c", SET_UP, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "redirected::inside", "--ignored", "--nocapture"])
        .env("V4", network((v4.0.to_string(), v4.1)))
        .env("V6", network((v6.0.to_string(), v6.1)))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{errors}");
}

#[tokio::test]
#[ignore = "a process of its own, started by another test"]
async fn inside() {
    let names = Arc::new(SyntheticNames::default());
    let transparent = |address: &str| Listener::Transparent {
        socket: TcpListener::bind((address.parse::<IpAddr>().unwrap(), 9999)).unwrap(),
        destination: OriginalDestination::Redirected,
        names: Arc::clone(&names) as Arc<dyn Names>,
    };
    let dns = UdpSocket::bind("127.0.0.1:53").unwrap();
    let more = vec![
        transparent("127.0.0.1"),
        transparent("::1"),
        Listener::DnsUdp { socket: dns, names: Arc::clone(&names) },
    ];
    let port = echo_server().await;
    let proxy = Setup { more, ..Setup::new(&["a.test:*"]).loopback(port) }.start();

    let resolver = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut buffer = [0; 600];
    resolver.send_to(&question("a.test"), "127.0.0.1:53").await.unwrap();
    let length = resolver.recv(&mut buffer).await.unwrap();
    let (code, address) = answer(&buffer[..length]);
    assert_eq!(code, 0);
    let v6 = names.addresses("a.test").unwrap().1;
    for address in [address, v6.into()] {
        let mut client = TcpStream::connect((address, port)).await.unwrap();
        client.write_all(b"ping").await.unwrap();
        assert_eq!(exactly(&mut client, 4).await, b"ping");
    }
    assert_eq!(proxy.decisions(), ["allowed", "allowed"]);
    assert_eq!(proxy.end().await.wanted.to_string(), format!("a.test:{port}"));
    let error = TcpStream::connect(("198.18.9.9", port)).await.unwrap().read_u8().await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(proxy.decisions().last().unwrap(), "-unknown-address");
}
