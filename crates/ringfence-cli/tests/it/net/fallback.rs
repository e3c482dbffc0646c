//! A kernel without nftables: the ports that the rules name lead to the proxy, and nothing leads past it.

use ringfence_testkit::needs;

use crate::net::{Server, denials, row, through};
use crate::support::{as_each_caller, binaries};

const CONNECT: &str = r#"
import socket, sys
host, port, family = sys.argv[1], int(sys.argv[2]), getattr(socket, sys.argv[3])
info = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
with socket.create_connection(info[0][4][:2], 20) as s:
    s.sendall(b"GET /x HTTP/1.0\r\n\r\n")
    print(s.recv(4096).decode().split("\r\n\r\n")[1])
"#;

#[test]
fn without_a_packet_filter_the_named_ports_lead_to_the_proxy() {
    needs!(binaries(); "python3");
    as_each_caller(|fixture| {
        let upstream = Server::start();
        let run = |filter: bool, host: &str, port: &str, family: &str| {
            let flags = ["--json", "--allow-host", "a.test:5432", "--allow-host", "b.test"];
            let program = ["env", "-i", "PATH=/usr/bin:/bin", "python3", "-c", CONNECT, host, port, family];
            let program = through(fixture, &upstream, &flags, &program).into_command();
            let mut outer = match filter {
                true => fixture.outside("env"),
                false => fixture.outside(&fixture.binaries().probe).args(["without-packet-filter", "--"]),
            };
            outer = outer.arg(program.get_program()).args(program.get_args());
            for (name, value) in program.get_envs() {
                outer = outer.env(&name.to_string_lossy(), value.unwrap_or_default());
            }
            outer.finish()
        };
        let layer = |json: &serde_json::Value| {
            let proxy = json["layers"].as_array().unwrap().iter().find(|layer| layer["name"] == "proxy");
            proxy.unwrap()["detail"].as_str().unwrap().to_owned()
        };
        // The control: where there is a packet filter, any port leads to the proxy, which says what it refuses.
        let control = run(true, "a.test", "5433", "AF_INET").code_is(1).json();
        assert_eq!(denials(&control), [row("a.test:5433", "--allow-host a.test:5433")]);
        assert!(layer(&control).starts_with("every connection"), "{control}");

        for (host, port) in [("a.test", "5432"), ("b.test", "80"), ("b.test", "443")] {
            for family in ["AF_INET", "AF_INET6"] {
                let json = run(false, host, port, family).code_is(0).json();
                assert_eq!(json["stdout"], format!("hello {host}:{port}\n"), "{family}: {json}");
                assert!(layer(&json).contains("no packet filter"), "{json}");
                assert!(layer(&json).contains("ports 80, 443, 5432"), "{json}");
            }
        }
        let reached = upstream.seen().len();
        // A port that leads to the proxy, for another host: the proxy refuses it.
        let refused = run(false, "b.test", "5432", "AF_INET").code_is(1).json();
        assert_eq!(denials(&refused), [row("b.test:5432", "--allow-host b.test:5432")]);
        // One that leads nowhere, and addresses outside.
        for (host, port) in [("a.test", "5433"), ("8.8.8.8", "5433"), ("8.8.8.8", "53")] {
            let refused = run(false, host, port, "AF_INET").code_is(1).json();
            assert!(refused["stderr"].as_str().unwrap().contains("Error"), "{refused}");
        }
        assert_eq!(upstream.seen().len(), reached, "nothing else got out");
    });
}
