//! Programs of many kinds that know of no proxy, or are told to use none: an allowed name works, another does not exist,
//! and an address is judged like a name.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ringfence_testkit::{Caller, Finished, Fixture, needs};

use crate::net::{Server, denials, head, row, through};
use crate::support::{as_each_caller, binaries, has_box};

/// A client as a script, which asks for `/x` at the host `$1` and the port `$2` and prints the answer.
struct Client {
    name: &'static str,
    script: &'static str,
    /// Its status if the connection is refused.
    refused: i32,
}

const CLIENTS: &[Client] = &[
    Client {
        name: "nc",
        script: r"printf 'GET /x HTTP/1.0\r\n\r\n' | nc -N -w 20 $1 $2 | grep -a hello",
        refused: 1,
    },
    Client { name: "curl", script: "curl -sS --noproxy '*' --max-time 20 http://$1:$2/x", refused: -1 },
    Client { name: "wget", script: "wget -qO- --no-proxy --tries=1 --timeout=20 http://$1:$2/x", refused: 4 },
    Client {
        name: "perl",
        script: r#"perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new("$ARGV[0]:$ARGV[1]") or die "$@";
            print $s "GET /x HTTP/1.0\r\n\r\n"; shutdown $s, 1; while (<$s>) { print if /hello/; $seen = 1 } exit !$seen' $1 $2"#,
        refused: -1,
    },
    Client {
        name: "python urllib",
        script: r#"python3 -c 'import sys, urllib.request as r
opener = r.build_opener(r.ProxyHandler({}))
print(opener.open("http://%s:%s/x" % tuple(sys.argv[1:]), timeout=20).read().decode())' $1 $2"#,
        refused: 1,
    },
    Client {
        name: "python asyncio",
        script: r#"python3 -c 'import asyncio, sys
async def main():
    reader, writer = await asyncio.open_connection(sys.argv[1], int(sys.argv[2]))
    writer.write(b"GET /x HTTP/1.1\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    print((await reader.read(100)).decode())
asyncio.run(main())' $1 $2"#,
        refused: 1,
    },
    Client {
        name: "node fetch",
        script: r#"node -e 'const [, host, port] = process.argv;
fetch("http://" + host + ":" + port + "/x").then(async r => console.log(await r.text()),
    e => { console.error(e); process.exit(1) })' $1 $2"#,
        refused: 1,
    },
    Client {
        name: "node http",
        script: r#"node -e 'const [, host, port] = process.argv;
require("http").get({ host, port, path: "/x" }, r => r.pipe(process.stdout))
    .on("error", e => { console.error(e); process.exit(1) })' $1 $2"#,
        refused: 1,
    },
    Client { name: "static go", script: "./client $1 $2", refused: 1 },
];

/// A static program with a resolver of its own.
const GO: &str = r#"package main
import ("io"; "net"; "os")
func fail(err error) { if err != nil { os.Stderr.WriteString(err.Error()); os.Exit(1) } }
func main() {
	server, err := net.Dial("tcp", net.JoinHostPort(os.Args[1], os.Args[2]))
	fail(err)
	server.Write([]byte("GET /x HTTP/1.0\r\n\r\n"))
	fail(server.(*net.TCPConn).CloseWrite())
	_, err = io.Copy(os.Stdout, server)
	fail(err)
}
"#;

/// The program. Go compiles its whole library for it.
fn static_go() -> Vec<u8> {
    let fixture = Fixture::new(binaries(), Caller::all()[0]);
    fixture.write("ws/client.go", GO);
    let build = fixture.outside("go").args(["build", "-o", "client", "client.go"]).env("CGO_ENABLED", "0");
    build.patience(Duration::from_secs(600)).finish().code_is(0);
    std::fs::read(fixture.ws().join("client")).expect("the program")
}

#[test]
fn each_obeys_without_knowing() {
    needs!(binaries(); "nc", "curl", "wget", "perl", "python3", "node", "go");
    if !has_box() {
        return;
    }
    let go = static_go();
    as_each_caller(|fixture| {
        fixture.write("ws/client", &go);
        fixture.chmod("ws/client", 0o755);
        let upstream = Server::start();
        let mut wrong = String::new();
        for client in CLIENTS {
            let run = |host: &str, port: &str| {
                let program =
                    ["env", "-i", "PATH=/usr/bin:/bin", "bash", "-c", client.script, "bash", host, port];
                let flags = [
                    "--json",
                    "--profile",
                    "none",
                    "--allow-host",
                    "a.test:5432",
                    "--allow-host",
                    "203.0.113.7:5432",
                ];
                through(fixture, &upstream, &flags, &program).finish()
            };
            let mut check = |host: &str, port: &str, right: &dyn Fn(&Finished) -> bool| {
                let finished = run(host, port);
                if !right(&finished) {
                    let _ = writeln!(wrong, "{} to {host}:{port}: {}", client.name, finished.report());
                }
            };
            for host in ["a.test", "203.0.113.7"] {
                check(host, "5432", &|finished| {
                    let json = finished.json();
                    let said = json["stdout"]
                        .as_str()
                        .is_some_and(|out| out.contains(&format!("hello {host}:5432")));
                    json["exit_code"] == 0 && said && denials(&json).is_empty()
                });
            }
            let refused = |expected: [String; 4]| {
                move |finished: &Finished| {
                    let json = finished.json();
                    let status = json["exit_code"].as_i64();
                    let failed = if client.refused < 0 {
                        status > Some(0)
                    } else {
                        status == Some(client.refused.into())
                    };
                    failed && denials(&json) == [expected.clone()]
                }
            };
            check("b.test", "5432", &refused(row("b.test", "--allow-host b.test")));
            check("203.0.113.9", "5432", &refused(row("203.0.113.9:5432", "--allow-host 203.0.113.9:5432")));
        }
        assert!(wrong.is_empty(), "{wrong}");
        let expected = ["CONNECT a.test:5432", "CONNECT 203.0.113.7:5432", "GET /x"];
        assert!(upstream.seen().iter().all(|seen| expected.iter().any(|known| seen.starts_with(known))));
    });
}

/// Java's own look-ups and sockets, by the one client that a runtime without a compiler has: it fetches a certificate, of
/// which the server has none.
#[test]
fn java() {
    needs!(binaries(); "keytool");
    as_each_caller(|fixture| {
        let upstream = Server::start();
        let fetch = |host: &str| {
            let place = format!("{host}:5432");
            let program = ["env", "-i", "PATH=/usr/bin:/bin", "keytool", "-printcert", "-sslserver", &place];
            let json = through(fixture, &upstream, &["--json", "--allow-host", "a.test:5432"], &program)
                .finish()
                .json();
            assert_eq!(json["exit_code"], 1, "{json}");
            denials(&json)
        };
        assert_eq!(fetch("a.test"), [[""; 4]; 0]);
        let seen = upstream.seen();
        assert!(
            !seen.is_empty() && seen.iter().all(|line| line.starts_with("CONNECT a.test:5432 ")),
            "{seen:?}"
        );
        assert_eq!(fetch("b.test"), [row("b.test", "--allow-host b.test")]);
        assert_eq!(fetch("203.0.113.9"), [row("203.0.113.9:5432", "--allow-host 203.0.113.9:5432")]);
        assert_eq!(upstream.seen(), seen);
    });
}

/// Leads every name to what `serve` does with a connection.
fn proxy_of(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            thread::spawn(move || {
                let asked =
                    stream.try_clone().ok().and_then(|half| head(&mut BufReader::with_capacity(1, half)));
                if asked.is_some() && stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").is_ok() {
                    serve(stream);
                }
            });
        }
    });
    Server { port, seen: Arc::default() }
}

/// As of SSH, SMTP or MySQL: nothing comes from the client before.
#[test]
fn a_server_that_speaks_first_is_heard() {
    needs!(binaries(); "nc");
    as_each_caller(|fixture| {
        let upstream = proxy_of(|mut stream| {
            let _ = stream.write_all(b"hello from the server\n");
            let _ = stream.shutdown(Shutdown::Both);
        });
        let nc = ["env", "-i", "PATH=/usr/bin:/bin", "nc", "-d", "-w", "20", "a.test", "22"];
        let finished = through(fixture, &upstream, &["--json", "--allow-host", "a.test:22"], &nc).finish();
        assert_eq!(finished.json()["stdout"], "hello from the server\n", "{}", finished.report());
    });
}

#[test]
fn the_git_protocol() {
    needs!(binaries(); "git");
    as_each_caller(|fixture| {
        fixture
            .outside("git")
            .args(["init", "--quiet", "--bare"])
            .arg(fixture.host().join("r"))
            .finish()
            .code_is(0);
        let (root, daemon) = (fixture.host(), daemon(fixture));
        let upstream = proxy_of(move |stream| daemon(&root, stream));
        let ls_remote = |host: &str| {
            let flags = ["--json", "--allow-host", "a.test:9418"];
            let url = format!("git://{host}/r");
            through(fixture, &upstream, &flags, &["git", "ls-remote", &url]).finish()
        };
        ls_remote("a.test").code_is(0);
        let refused = ls_remote("b.test").code_is(128);
        assert_eq!(denials(&refused.json()), [row("b.test", "--allow-host b.test")]);
        let refused = ls_remote("203.0.113.9").code_is(128);
        let expected = row("203.0.113.9:9418", "--allow-host 203.0.113.9:9418");
        assert_eq!(denials(&refused.json()), [expected]);
    });
}

/// Serves one connection with git's own daemon, as the fixture's owner.
fn daemon(fixture: &Fixture) -> impl Fn(&Path, TcpStream) + Send + Sync + use<> {
    let (caller, home) = (fixture.caller(), fixture.home());
    move |root, stream| {
        let mut base = OsString::from("--base-path=");
        base.push(root);
        let Ok(input) = stream.try_clone() else { return };
        let mut command = caller.command("git");
        command.args(["daemon", "--inetd", "--export-all"]).arg(base).env("HOME", &home).current_dir(root);
        command.stdin(OwnedFd::from(input)).stdout(OwnedFd::from(stream)).stderr(Stdio::null());
        if let Ok(mut child) = command.spawn() {
            let _ = child.wait();
        }
    }
}

/// `ssh-keyscan` speaks SSH up to the server's key.
#[test]
fn ssh() {
    needs!(binaries(); "ssh-keyscan", "ssh-keygen", "/usr/sbin/sshd");
    as_each_caller(|fixture| {
        // As root the server would want a directory of the machine's, and ssh-keygen wants an account.
        let server = Fixture::new(binaries(), Caller::all()[0]);
        let key = server.host().join("key");
        let words = ["-q", "-t", "ed25519", "-N", "", "-f"];
        server.outside("ssh-keygen").args(words).arg(&key).finish().code_is(0);
        let public = server.read("host/key.pub");
        Caller::User.own(&server.host());
        let upstream = proxy_of(move |stream| {
            let Ok(input) = stream.try_clone() else { return };
            let mut sshd = Caller::User.command("/usr/sbin/sshd");
            sshd.args(["-i", "-f", "/dev/null", "-h"]).arg(&key).current_dir("/");
            sshd.stdin(OwnedFd::from(input)).stdout(OwnedFd::from(stream)).stderr(Stdio::null());
            if let Ok(mut child) = sshd.spawn() {
                let _ = child.wait();
            }
        });
        let scan = |host: &str| {
            let scan = ["ssh-keyscan", "-T", "20", "-t", "ed25519", host];
            let finished =
                through(fixture, &upstream, &["--json", "--allow-host", "a.test:22"], &scan).finish();
            let json = finished.json();
            (json["stdout"].as_str().unwrap().to_owned(), denials(&json))
        };
        let (seen, denied) = scan("a.test");
        let expected = public.split(' ').nth(1).unwrap();
        assert!(seen.contains(expected) && denied.is_empty(), "{seen}");
        let refused = [("b.test", row("b.test", "--allow-host b.test"))];
        let address = ("203.0.113.9", row("203.0.113.9:22", "--allow-host 203.0.113.9:22"));
        for (host, expected) in refused.into_iter().chain([address]) {
            assert_eq!(scan(host), (String::new(), vec![expected]));
        }
    });
}

#[test]
fn psql() {
    needs!(binaries(); "psql");
    as_each_caller(|fixture| {
        let upstream = proxy_of(|stream| {
            // The client sees to the rest.
            let _ = postgres(stream);
        });
        let query = |host: &str| {
            let connection = format!("host={host} user=u dbname=d connect_timeout=20");
            let psql = ["psql", "-X", "-At", "-c", "select", &connection];
            through(fixture, &upstream, &["--json", "--allow-host", "a.test:5432"], &psql).finish()
        };
        let json = query("a.test").code_is(0).json();
        assert_eq!(json["stdout"], "hello\n");
        let refused = query("b.test").code_is(2).json();
        assert_eq!(denials(&refused), [row("b.test", "--allow-host b.test")]);
        let refused = query("203.0.113.9").code_is(2).json();
        assert_eq!(denials(&refused), [row("203.0.113.9:5432", "--allow-host 203.0.113.9:5432")]);
    });
}

/// Lets anybody in, without TLS, and answers each query with one word (PostgreSQL's documentation, message formats).
fn postgres(mut stream: TcpStream) -> std::io::Result<()> {
    const TLS: u32 = 80_877_103;
    const GSS: u32 = 80_877_104;
    let mut reader = stream.try_clone()?;
    let word = |reader: &mut TcpStream| -> std::io::Result<u32> {
        let mut word = [0; 4];
        reader.read_exact(&mut word)?;
        Ok(u32::from_be_bytes(word))
    };
    let skip = |reader: &mut TcpStream, length: u32| {
        let mut rest = vec![0; length.saturating_sub(4) as usize];
        reader.read_exact(&mut rest)
    };
    loop {
        let length = word(&mut reader)?;
        if !matches!(word(&mut reader)?, TLS | GSS) {
            skip(&mut reader, length - 4)?;
            break;
        }
        stream.write_all(b"N")?;
    }
    let message = |kind: u8, body: &[u8]| {
        let length = u32::try_from(body.len() + 4).unwrap_or_default().to_be_bytes();
        [&[kind][..], &length, body].concat()
    };
    let ready = message(b'Z', b"I");
    stream.write_all(&[message(b'R', &[0; 4]), ready.clone()].concat())?;
    loop {
        let mut kind = [0];
        reader.read_exact(&mut kind)?;
        let length = word(&mut reader)?;
        skip(&mut reader, length)?;
        if kind == *b"Q" {
            // One column of text (type 25), one row, done.
            let column = message(b'T', b"\0\x01a\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0");
            let row = message(b'D', b"\0\x01\0\0\0\x05hello");
            let done = message(b'C', b"SELECT 1\0");
            stream.write_all(&[column, row, done, ready.clone()].concat())?;
        }
    }
}
