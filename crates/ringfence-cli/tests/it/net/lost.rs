//! What serves the box's network fails in the middle of a run: no process is left, and there is no network without it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ringfence_testkit::{Fixture, Invocation, Running, end_all, needs};
use rustix::net::{Shutdown, shutdown, sockopt};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal, pidfd_getfd, pidfd_open};

use crate::net::{Server, through};
use crate::support::{as_each_caller, binaries};

/// Asks for a host again and again, and says how it went.
const CLIENT: &str = r#"
import socket, sys, time
def attempt(host, port):
    try:
        with socket.create_connection((host, port), 1) as s:
            s.settimeout(1)
            s.sendall(b"GET /x HTTP/1.0\r\n\r\n")
            return "reached" if s.recv(100) else "closed"
    except OSError as error:
        return type(error).__name__
while True:
    print(attempt(sys.argv[1], 80), flush=True)
    time.sleep(0.05)
"#;

/// The client in a box that may reach `a.test`; `token` is found in its arguments.
fn start(fixture: &Fixture, upstream: &Server, host: &str, token: &str) -> Invocation {
    let program = ["python3", "-c", CLIENT, host, token];
    through(fixture, upstream, &["--allow-host", "a.test"], &program)
}

fn token() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("ringfence-lost-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

#[track_caller]
fn ended_by_us(run: Running, token: &str) {
    let finished = run.wait().code_is(125);
    assert!(finished.err().contains("the proxy failed"), "{}", finished.report());
    assert!(end_all(token, Duration::from_secs(60)).is_empty(), "a process is left");
}

/// The look-up service panics, which none of its messages can bring about: a test does it.
#[cfg(feature = "fault-injection")]
#[test]
fn a_listener_that_panics_ends_the_run() {
    needs!(binaries(); "python3");
    as_each_caller(|fixture| {
        let (upstream, token) = (Server::start(), token());
        let run = || start(fixture, &upstream, "fault.test", &token);
        let mut control = run().spawn();
        control.wait_for("gaierror\ngaierror\ngaierror\n");
        control.end();
        assert!(end_all(&token, Duration::from_secs(60)).is_empty());
        ended_by_us(run().env("RINGFENCE_TEST_PROXY_FAULT", "fault.test").spawn(), &token);
        assert_eq!(upstream.seen(), [""; 0]);
    });
}

#[cfg(feature = "fault-injection")]
#[test]
fn a_connection_that_panics_concerns_no_other() {
    as_each_caller(|fixture| {
        let upstream = Server::start();
        let script = "curl -sS --max-time 20 http://fault.test/; curl -sS --max-time 20 http://a.test/";
        let run = through(fixture, &upstream, &["--json", "--allow-host", "a.test"], &["bash", "-c", script]);
        let json = run.env("RINGFENCE_TEST_PROXY_FAULT", "fault.test").finish().code_is(0).json();
        assert_eq!(json["stdout"], "hello http://a.test/");
        assert!(json["stderr"].as_str().unwrap().contains("curl: ("), "{json}");
    });
}

/// The supervisor's listening sockets, made useless from outside.
fn shut_listeners(pid: u32) -> usize {
    let pid = Pid::from_raw(pid as i32).expect("a process id is positive");
    let process = pidfd_open(pid, PidfdFlags::empty()).expect("pidfd_open");
    let listening = |number: i32| {
        let socket = pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).ok()?;
        sockopt::socket_acceptconn(&socket).is_ok_and(|listens| listens).then_some(socket)
    };
    let sockets: Vec<_> = (3..256).filter_map(listening).collect();
    sockets.iter().filter(|socket| shutdown(socket, Shutdown::Both).is_ok()).count()
}

#[test]
fn listeners_that_are_closed_end_the_run() {
    needs!(binaries(); "python3");
    as_each_caller(|fixture| {
        let (upstream, token) = (Server::start(), token());
        let mut run = start(fixture, &upstream, "a.test", &token).spawn();
        run.wait_for("reached\nreached\n");
        assert!(shut_listeners(run.pid()) > 0);
        ended_by_us(run, &token);
    });
}

#[test]
fn a_published_port_that_is_closed_ends_the_run() {
    as_each_caller(|fixture| {
        let token = token();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let script = format!("echo ready; sleep 600; : {token}");
        let mut run = fixture.shell_inside(&["--publish", &format!("{port}:8080")], &script).spawn();
        run.wait_for("ready");
        assert_eq!(shut_listeners(run.pid()), 1);
        ended_by_us(run, &token);
    });
}

#[test]
fn a_killed_supervisor_takes_the_box_and_its_network_along() {
    needs!(binaries(); "python3");
    as_each_caller(|fixture| {
        let (upstream, token) = (Server::start(), token());
        let mut run = start(fixture, &upstream, "a.test", &token).spawn();
        run.wait_for("reached\nreached\n");
        run.end();
        assert!(end_all(&token, Duration::from_secs(60)).is_empty(), "a process is left");
    });
}

#[test]
fn without_its_supervisor_the_box_waits_for_its_network() {
    needs!(binaries(); "python3");
    as_each_caller(|fixture| {
        let (upstream, token) = (Server::start(), token());
        let mut run = start(fixture, &upstream, "a.test", &token).spawn();
        run.wait_for("reached\nreached\n");
        run.signal(Signal::STOP);
        // What it has sent on before the stop may still arrive.
        std::thread::sleep(Duration::from_millis(200));
        let seen = upstream.seen().len();
        // The box runs on: nothing that it does meanwhile gets out.
        std::thread::sleep(Duration::from_secs(2));
        assert_eq!(upstream.seen().len(), seen);
        let reached = |run: &Running| run.out_so_far().lines().filter(|line| *line == "reached").count();
        let before = reached(&run);
        run.signal(Signal::CONT);
        while reached(&run) < before + 2 {
            assert!(run.is_running(), "{}", run.out_so_far());
            std::thread::sleep(Duration::from_millis(10));
        }
        run.end();
        assert!(end_all(&token, Duration::from_secs(60)).is_empty());
    });
}
