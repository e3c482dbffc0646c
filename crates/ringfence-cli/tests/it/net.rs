//! Network by host: what is allowed is reached by each kind of program, nothing else is, and what was refused is said.

mod asking;
mod clients;
mod fallback;
mod lookups;
mod lost;
mod packages;
mod publish;
mod server_names;
mod transparent;
mod variables;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use ringfence_testkit::{Fixture, Invocation};
use serde_json::Value;

use crate::support::as_each_caller;

/// A server on this host's loopback, which names itself in each answer. Its thread ends with the test's process.
struct Server {
    port: u16,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Answers plain HTTP; as a proxy, CONNECT too, and then answers in the place of the host that was asked for.
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let log = Arc::clone(&log);
                thread::spawn(move || answer(stream, &log));
            }
        });
        Self { port, seen }
    }

    /// First lines of the requests so far.
    fn seen(&self) -> Vec<String> {
        self.seen.lock().expect("no writer panics").clone()
    }
}

/// Answers each request of a connection with the target of the first.
fn answer(stream: TcpStream, log: &Mutex<Vec<String>>) {
    let Ok(read_half) = stream.try_clone() else { return };
    let (mut reader, mut writer) = (BufReader::new(read_half), stream);
    let mut target = String::new();
    while let Some(first) = head(&mut reader) {
        log.lock().expect("no writer panics").push(first.clone());
        let mut words = first.split(' ');
        let (method, place) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if target.is_empty() {
            target = place.to_owned();
        }
        let reply = match method {
            "CONNECT" => "HTTP/1.1 200 OK\r\n\r\n".to_owned(),
            _ => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\nhello {target}", target.len() + 6),
        };
        if writer.write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}

/// The first line of a request, which is read to the end of its head.
fn head(reader: &mut impl std::io::BufRead) -> Option<String> {
    let mut lines = reader.lines().map_while(Result::ok);
    let first = lines.next()?;
    lines.find(|line| line.is_empty())?;
    Some(first)
}

/// Ringfence with a proxy of the host's own, so that names lead to `upstream` and no resolver is asked.
fn through(fixture: &Fixture, upstream: &Server, flags: &[&str], program: &[&str]) -> Invocation {
    let url = format!("http://127.0.0.1:{}", upstream.port);
    fixture.inside(flags, program).env("http_proxy", &url).env("https_proxy", &url)
}

/// The denials of `--json` as kind, target, flag, source.
fn denials(json: &Value) -> Vec<[String; 4]> {
    let denials = json["denials"].as_array().expect("a list");
    let text = |denial: &Value, key: &str| denial[key].as_str().unwrap_or_default().to_owned();
    let row = |denial: &Value| ["kind", "target", "allow_with", "source"].map(|key| text(denial, key));
    denials.iter().filter(|denial| denial["certain"] == true).map(row).collect()
}

fn row(target: &str, flag: &str) -> [String; 4] {
    ["connect", target, flag, "proxy"].map(str::to_owned)
}

#[test]
fn a_listed_port_of_the_hosts_loopback_is_reached_and_no_other() {
    as_each_caller(|fixture| {
        let (listed, other) = (Server::start(), Server::start());
        let get = |server: &Server| {
            let url = format!("http://127.0.0.1:{}/x", server.port);
            let port = listed.port.to_string();
            let program = ["curl", "-sS", "--max-time", "20", &url];
            fixture.inside(&["--json", "--allow-loopback", &port], &program).finish()
        };
        let finished = get(&listed).code_is(0);
        assert_eq!(finished.json()["stdout"], "hello /x", "{}", finished.report());
        // The control: it answers outside.
        let mut control = TcpStream::connect(("127.0.0.1", other.port)).unwrap();
        control.write_all(b"GET /x HTTP/1.0\r\n\r\n").unwrap();
        let mut reply = [0; 12];
        control.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"HTTP/1.1 200");
        let refused = get(&other);
        assert_ne!(refused.code, Some(0), "{}", refused.report());
        assert_eq!(other.seen().len(), 1, "only the control");
    });
}

#[test]
fn an_address_that_is_not_public_has_to_be_listed_itself() {
    as_each_caller(|fixture| {
        let server = Server::start();
        let place = format!("127.0.0.1:{}", server.port);
        let get = |pattern: &str| {
            let url = format!("http://{place}/x");
            let program = ["curl", "-sS", "--fail", "--noproxy", "", "--max-time", "20", &url];
            fixture.inside(&["--json", "--allow-host", pattern], &program).finish()
        };
        let finished = get(&place).code_is(0);
        assert_eq!(finished.json()["stdout"], "hello /x", "{}", finished.report());
        // Others than curl would look for it in the box.
        let note = format!(
            "ringfence: {place} is the box itself to most programs inside\n\
             hint: --allow-loopback {} leads to that port of this host\n",
            server.port
        );
        assert_eq!(finished.err(), note);
        let refused = get("a.test:*").code_is(22);
        let expected = row(&place, &format!("--allow-loopback {}", server.port));
        assert_eq!(denials(&refused.json()), [expected], "{}", refused.report());
        assert_eq!(server.seen().len(), 1);
    });
}

#[test]
fn what_is_left_out_stays_as_it_was() {
    as_each_caller(|fixture| {
        let json = fixture.shell_inside(&["--json"], "env; cat /etc/resolv.conf").finish().json();
        let text = json["stdout"].as_str().unwrap();
        assert!(
            !text.to_lowercase().contains("_proxy") && !text.contains("nameserver 127.0.0.1\n"),
            "{text}"
        );
        let proxy = json["layers"].as_array().unwrap().iter().find(|layer| layer["name"] == "proxy");
        assert_eq!(proxy.unwrap()["status"], "not-requested");
    });
}
