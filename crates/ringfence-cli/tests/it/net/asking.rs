//! Hosts that nobody listed, and a person at the terminal who is asked about them.

use std::time::Duration;

use ringfence_testkit::{Fixture, Terminal};

use crate::net::{Server, denials, row, through};
use crate::pty::on_terminal;
use crate::support::as_each_caller;

const PROMPT: &str = "allow? [y] once  [s] for this session  [n] no: ";

/// A script on a terminal, in a box that may reach `a.test` only.
fn start(fixture: &Fixture, upstream: &Server, script: &str) -> Terminal {
    let flags = ["--allow-host", "a.test", "--deny-host", "denied.test"];
    on_terminal(fixture, through(fixture, upstream, &flags, &["bash", "-c", script]))
}

/// curl with the proxy's variables, and without any.
const CLIENTS: [&str; 2] = ["curl -sS --fail --max-time 50", "env -i /usr/bin/curl -sS --fail --max-time 50"];

#[test]
fn a_connection_goes_on_when_somebody_agrees() {
    as_each_caller(|fixture| {
        for client in CLIENTS {
            let upstream = Server::start();
            let script = format!(
                "{client} http://b.test:8080/1; {client} http://b.test:8080/2; {client} http://a.test/3"
            );
            let mut terminal = start(fixture, &upstream, &script);
            terminal.expect("a connection needs approval");
            terminal.expect("b.test:8080, wanted by curl");
            terminal.expect(PROMPT);
            assert_eq!(upstream.seen(), [""; 0], "nothing leaves before the answer");
            terminal.send("y\r");
            terminal.expect("hello");
            // Once is once.
            terminal.expect("b.test:8080, wanted by curl");
            terminal.expect(PROMPT);
            terminal.send("s\r");
            terminal.expect("hello");
            terminal.expect("hello");
            let (status, shown) = terminal.wait();
            assert_eq!(status.code(), Some(0), "{shown}");
            assert_eq!(shown.matches(PROMPT).count(), 2, "{shown}");
        }
    });
}

#[test]
fn a_refusal_is_a_refusal_and_is_remembered() {
    as_each_caller(|fixture| {
        let upstream = Server::start();
        let [proxied, alone] = CLIENTS;
        let script = format!(
            "{proxied} http://b.test/; {proxied} http://b.test/; {alone} http://b.test/ || echo failed alone; echo end"
        );
        let mut terminal = start(fixture, &upstream, &script);
        terminal.expect(PROMPT);
        terminal.send("n\r");
        terminal.expect("error: 403");
        terminal.expect("error: 403");
        // Reset by its peer, before or after curl has seen that it is connected.
        terminal.expect("curl: (");
        terminal.expect("failed alone");
        terminal.expect("end");
        terminal.expect("--allow-host b.test:80 would allow it");
        let (_, shown) = terminal.wait();
        assert_eq!(shown.matches(PROMPT).count(), 1, "{shown}");
        assert_eq!(upstream.seen(), [""; 0]);
    });
}

#[test]
fn ten_connections_to_one_host_ask_once() {
    as_each_caller(|fixture| {
        let upstream = Server::start();
        let [proxied, alone] = CLIENTS;
        // Ports 808 and 80 at the other end, connected.
        let script = format!(
            r"for i in 1 2 3 4 5; do {proxied} http://b.test/ & {alone} http://b.test/ & done
            connected() {{ cat /proc/net/tcp /proc/net/tcp6 | grep -cE ':(0328|0050) 01 '; }}
            until [ $(connected) = 10 ]; do sleep 0.1; done
            touch all; wait; echo end"
        );
        let mut terminal = start(fixture, &upstream, &script);
        terminal.expect(PROMPT);
        while !fixture.exists("ws/all") {
            std::thread::sleep(Duration::from_millis(10));
        }
        // Connected is not yet asked for.
        std::thread::sleep(Duration::from_secs(1));
        terminal.send("y\r");
        terminal.expect("end");
        let (_, shown) = terminal.wait();
        std::fs::remove_file(fixture.ws().join("all")).unwrap();
        assert_eq!(shown.matches("hello").count(), 10, "{shown}");
        assert_eq!(shown.matches(PROMPT).count(), 1, "{shown}");
    });
}

#[test]
fn nobody_is_asked_about_denied_and_guarded_hosts() {
    as_each_caller(|fixture| {
        let upstream = Server::start();
        let [proxied, _] = CLIENTS;
        let script = format!(
            "{proxied} http://denied.test/; {proxied} http://10.0.0.1/; {proxied} http://169.254.169.254/; echo end"
        );
        let mut terminal = start(fixture, &upstream, &script);
        terminal.expect("end");
        let (_, shown) = terminal.wait();
        assert!(!shown.contains("needs approval"), "{shown}");
        assert_eq!(shown.matches("error: 403").count(), 3, "{shown}");
        assert_eq!(upstream.seen(), [""; 0]);
    });
}

/// A program that reads single keys while a connection of its is held.
#[test]
fn keys_go_to_the_question_or_to_the_program_and_never_to_both() {
    as_each_caller(|fixture| {
        let upstream = Server::start();
        let [proxied, _] = CLIENTS;
        let script = format!(
            r#"stty raw -echo
            trap 'printf "redrawn\r\n"' WINCH
            trap 'printf "interrupted\r\n"' INT
            {{ read -r < go; {proxied} http://b.test/ > answer; echo "$?" > status; }} &
            printf "ready\r\n"
            while :; do
                key=
                IFS= read -rsn1 -t 0.1 key
                if [ "$key" = g ]; then : > go; fi
                if [ -n "$key" ]; then printf '<%s>\r\n' "$key"; fi
                if [ "$key" = q ]; then break; fi
            done"#
        );
        let script = format!("mkfifo go; {script}");
        let mut terminal = start(fixture, &upstream, &script);
        terminal.expect("ready");
        // Typed before the question: it is the program's, and no answer.
        terminal.send("y");
        terminal.expect("<y>");
        terminal.send("g");
        terminal.expect("<g>");
        terminal.expect("needs approval");
        terminal.send("y\ry\r");
        terminal.expect(PROMPT);
        terminal.send("x\x7fy\r");
        terminal.expect("redrawn");
        terminal.send("k");
        let between = terminal.expect("<k>");
        assert!(!between.contains('<'), "{between:?}");
        while !fixture.exists("ws/status") || fixture.read("ws/status").is_empty() {
            std::thread::sleep(Duration::from_millis(10));
        }
        terminal.send("q");
        let (status, shown) = terminal.wait();
        assert_eq!(status.code(), Some(0), "{shown}");
        assert!(!shown.lines().any(|line| line == "interrupted"), "{shown}");
        assert_eq!(fixture.read("ws/status"), "0\n");
        assert_eq!(fixture.read("ws/answer"), "hello http://b.test/");
        for file in ["go", "status", "answer"] {
            std::fs::remove_file(fixture.ws().join(file)).unwrap();
        }
    });
}

/// A script as [`start`] runs it, between two looks at the modes of the terminal, which are the first line and the last.
fn start_between(fixture: &Fixture, upstream: &Server, script: &str) -> Terminal {
    fixture.write("ws/script", script);
    let url = format!("http://127.0.0.1:{}", upstream.port);
    let outer = "stty -g; $RUN --allow-host a.test -- bash script; stty -g";
    let program = fixture.shell_outside(outer).env("http_proxy", &url).env("https_proxy", &url);
    on_terminal(fixture, program)
}

#[track_caller]
fn modes_are_as_before(terminal: Terminal) -> String {
    let (status, shown) = terminal.wait();
    assert_eq!(status.code(), Some(0), "{shown}");
    assert_eq!(shown.lines().next(), shown.lines().last(), "{shown}");
    assert!(shown.starts_with(|c: char| c.is_ascii_hexdigit()), "{shown}");
    shown
}

#[test]
fn ctrl_c_at_the_question_is_no_and_no_signal() {
    as_each_caller(|fixture| {
        let upstream = Server::start();
        let [proxied, _] = CLIENTS;
        let script = format!("trap 'echo interrupted' INT; {proxied} http://b.test/; echo end");
        let mut terminal = start_between(fixture, &upstream, &script);
        terminal.expect(PROMPT);
        terminal.send("\x03");
        terminal.expect("error: 403");
        terminal.expect("end");
        let shown = modes_are_as_before(terminal);
        assert!(!shown.contains("interrupted"), "{shown}");
    });
}

#[test]
fn a_question_goes_with_the_client_and_with_the_run() {
    as_each_caller(|fixture| {
        for client in CLIENTS {
            let upstream = Server::start();
            // The program can't read what is typed meanwhile.
            let script = format!(
                "asked() {{ until [ -e $1 ]; do sleep 0.05; done; }}
                {client} http://b.test/ & client=$!; asked b; kill $client; wait $client; echo gone
                {client} http://c.test/ & asked c; echo end"
            );
            let mut terminal = start_between(fixture, &upstream, &script);
            for host in ["b", "c"] {
                terminal.expect(&format!("{host}.test:80, wanted by curl"));
                terminal.expect(PROMPT);
                fixture.write(format!("ws/{host}"), "");
                terminal.expect("no longer needed");
            }
            terminal.expect("end");
            let shown = modes_are_as_before(terminal);
            assert!(shown.contains("gone"), "{shown}");
            for host in ["b", "c"] {
                std::fs::remove_file(fixture.ws().join(host)).unwrap();
            }
            assert_eq!(upstream.seen(), [""; 0]);
        }
    });
}

#[test]
fn without_a_terminal_nobody_is_asked() {
    as_each_caller(|fixture| {
        for ask in [&[][..], &["--ask", "prompt"]] {
            let upstream = Server::start();
            let flags = [&["--json", "--allow-host", "a.test"], ask].concat();
            let curl = ["curl", "-sS", "--max-time", "20", "http://b.test/"];
            let json = through(fixture, &upstream, &flags, &curl).finish().code_is(0).json();
            let body = json["stdout"].as_str().unwrap();
            assert!(body.contains("--allow-host b.test:80 would allow it"), "{body}");
            assert_eq!(denials(&json), [row("b.test:80", "--allow-host b.test:80")]);
            assert_eq!(upstream.seen(), [""; 0]);
        }
    });
}
