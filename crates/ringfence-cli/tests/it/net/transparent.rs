//! Programs that know of no proxy: they look a name up and connect.

use ringfence_testkit::needs;

use crate::net::{Server, denials, row, through};
use crate::support::{as_each_caller, binaries};

/// Connects without a proxy, in the languages' own way, and prints what comes.
const PYTHON: &str = r#"
import socket, sys
host, port, family = sys.argv[1], int(sys.argv[2]), getattr(socket, sys.argv[3])
# With this flag a name has addresses only of families that the host has one of.
flags = socket.AI_ADDRCONFIG if family == socket.AF_INET else 0
info = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, 0, flags)
with socket.create_connection(info[0][4][:2], 20) as s:
    s.sendall(b"GET /x HTTP/1.0\r\n\r\n")
    print(s.recv(4096).decode().split("\r\n\r\n")[1])
"#;

#[test]
fn a_listed_name_is_reached_without_any_proxy_variable() {
    needs!(binaries(); "python3");
    as_each_caller(|fixture| {
        let upstream = Server::start();
        let connect = |host: &str, port: &str, family: &str| {
            let program = ["env", "-i", "PATH=/usr/bin:/bin", "python3", "-c", PYTHON, host, port, family];
            let flags = ["--json", "--allow-host", "a.test:5432", "--allow-host", "203.0.113.7:5432"];
            through(fixture, &upstream, &flags, &program).finish()
        };
        for (host, family) in [("a.test", "AF_INET"), ("a.test", "AF_INET6"), ("203.0.113.7", "AF_INET")] {
            let finished = connect(host, "5432", family).code_is(0);
            let expected = format!("hello {host}:5432\n");
            assert_eq!(finished.json()["stdout"], expected.as_str(), "{family}: {}", finished.report());
        }
        let reached = upstream.seen().len();
        let refused = [
            ("b.test", "5432", row("b.test", "--allow-host b.test")),
            ("a.test", "5433", row("a.test:5433", "--allow-host a.test:5433")),
            ("8.8.8.8", "53", row("8.8.8.8:53", "--allow-host 8.8.8.8:53")),
        ];
        for (host, port, expected) in refused {
            let finished = connect(host, port, "AF_INET").code_is(1);
            assert_eq!(denials(&finished.json()), [expected], "{}", finished.report());
        }
        assert_eq!(upstream.seen().len(), reached, "nothing else got out");
    });
}

/// A resolver of a program's own asks a server that it knows, and is answered in the box.
#[test]
fn datagrams_reach_nothing_but_the_look_up_service() {
    needs!(binaries(); "python3");
    const ASK: &str = r#"
import socket, sys
query = b"\1\2\1\0\0\1\0\0\0\0\0\0\1a\4test\0\0\1\0\1"
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(20)
s.connect((sys.argv[1], int(sys.argv[2])))
s.send(query)
print(socket.inet_ntoa(s.recv(512)[-4:]))
"#;
    as_each_caller(|fixture| {
        let upstream = Server::start();
        let ask = |port: &str| {
            let flags = ["--json", "--allow-host", "a.test"];
            let program = ["python3", "-c", ASK, "8.8.8.8", port];
            through(fixture, &upstream, &flags, &program).finish()
        };
        assert_eq!(ask("53").code_is(0).json()["stdout"], "198.18.0.1\n");
        let refused = ask("443").code_is(1).json();
        assert!(refused["stderr"].as_str().unwrap().contains("ConnectionRefusedError"), "{refused}");
    });
}

/// Loopback inside is the box's own, also for a port that the proxy would lead elsewhere.
#[test]
fn the_loopback_inside_stays_the_boxs_own() {
    needs!(binaries(); "python3");
    const SERVE: &str = r#"
import socket
for family, own in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    server = socket.create_server((own, 8080), family=family)
    client = socket.create_connection((own, 8080), 20)
    server.accept()[0].sendall(own.encode())
    print(client.recv(100).decode())
"#;
    as_each_caller(|fixture| {
        let upstream = Server::start();
        let flags = ["--json", "--net", "public"];
        let json = through(fixture, &upstream, &flags, &["python3", "-c", SERVE]).finish().code_is(0).json();
        assert_eq!(json["stdout"], "127.0.0.1\n::1\n");
        assert_eq!(denials(&json), [[""; 4]; 0]);
    });
}

#[test]
fn public_means_public_addresses_only() {
    needs!(binaries(); "python3");
    as_each_caller(|fixture| {
        let upstream = Server::start();
        let connect = |host: &str, flags: &[&str]| {
            let program = ["python3", "-c", PYTHON, host, "80", "AF_INET"];
            through(fixture, &upstream, flags, &program).finish()
        };
        let flags = ["--json", "--net", "public"];
        let finished = connect("8.8.8.8", &flags).code_is(0);
        assert_eq!(finished.json()["stdout"], "hello 8.8.8.8:80\n", "{}", finished.report());
        for guarded in ["10.0.0.1", "169.254.169.254", "192.168.1.1", "100.64.0.1"] {
            let json = connect(guarded, &flags).code_is(1).json();
            let target = format!("{guarded}:80");
            assert_eq!(denials(&json), [row(&target, &format!("--allow-host {target}"))]);
        }
        assert_eq!(upstream.seen().len(), 2, "a CONNECT and what came through it");
        let listed = [&flags[..], &["--allow-host", "10.0.0.1:80"]].concat();
        connect("10.0.0.1", &listed).code_is(0);
    });
}
