//! Servers in the box that the host reaches.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};

use ringfence_testkit::needs;

use crate::support::{as_each_caller, binaries};

/// Echoes each connection to its end, one after the other.
const SERVE: &str = r#"
import socket, sys
own = sys.argv[1]
family = socket.AF_INET6 if ":" in own else socket.AF_INET
server = socket.socket(family)
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
if family == socket.AF_INET6:
    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(sys.argv[2]))
server.bind((own, 8080))
server.listen(100)
print("ready", flush=True)
while True:
    client = server.accept()[0]
    while data := client.recv(65536):
        client.sendall(data)
    client.close()
"#;

/// A port that is free at this moment.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

#[test]
fn a_published_server_is_reached_and_no_other() {
    needs!(binaries(); "python3");
    as_each_caller(|fixture| {
        let port = free_port();
        let start = |flags: &[&str]| {
            let mut running = fixture.inside(flags, &["python3", "-c", SERVE, "127.0.0.1"]).spawn();
            running.wait_for("ready");
            running
        };
        let unpublished = start(&[]);
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
        unpublished.end();

        let server = start(&["--publish", &format!("{port}:8080")]);
        // More than there are sockets for at one time.
        for number in 0..150_u32 {
            let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let sent = number.to_ne_bytes().repeat(5000);
            client.write_all(&sent).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let mut received = Vec::new();
            client.read_to_end(&mut received).unwrap();
            assert_eq!(received, sent, "connection {number}");
        }
        server.end();
    });
}

/// A server may listen at the loopback of one family only.
#[test]
fn a_server_of_either_family_is_reached() {
    needs!(binaries(); "python3");
    as_each_caller(|fixture| {
        for (own, v6_only) in [("::1", "1"), ("::", "1"), ("::", "0"), ("0.0.0.0", "0")] {
            let port = free_port();
            let publish = format!("{port}:8080");
            let program = ["python3", "-c", SERVE, own, v6_only];
            let mut server = fixture.inside(&["--publish", &publish], &program).spawn();
            server.wait_for("ready");
            // More than there are sockets for at one time.
            for number in 0..70_u32 {
                let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
                let sent = number.to_ne_bytes();
                client.write_all(&sent).unwrap();
                client.shutdown(Shutdown::Write).unwrap();
                let mut received = Vec::new();
                client.read_to_end(&mut received).unwrap();
                assert_eq!(received, sent, "{own} {v6_only}: connection {number}");
            }
            server.end();
        }
    });
}

#[test]
fn a_port_where_nobody_listens_inside_and_one_that_is_taken() {
    as_each_caller(|fixture| {
        let port = free_port();
        let publish = format!("{port}:8080");
        let mut running = fixture.shell_inside(&["--publish", &publish], "echo ready; sleep 30").spawn();
        running.wait_for("ready");
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        assert!(client.read(&mut [0]).is_err(), "reset");
        let taken =
            fixture.inside(&["--json", "--publish", &publish], &["true"]).finish().code_is(125).json();
        assert_eq!(taken["error"]["step"], "prepare", "{taken}");
        assert!(taken["error"]["message"].as_str().unwrap().contains(&port.to_string()), "{taken}");
        running.end();
    });
}
