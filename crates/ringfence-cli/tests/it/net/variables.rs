//! Programs that are told of the proxy by variables.

use crate::net::{Server, denials, row, through};
use crate::support::as_each_caller;

#[test]
fn a_listed_name_is_reached_and_no_other() {
    as_each_caller(|fixture| {
        let upstream = Server::start();
        let curl = |url: &str| {
            let program = ["curl", "-sS", "--fail", "--max-time", "20", url];
            through(fixture, &upstream, &["--json", "--allow-host", "*.a.test"], &program).finish()
        };
        let json = curl("http://www.a.test/x").code_is(0).json();
        assert_eq!(json["stdout"], "hello http://www.a.test/x");
        assert_eq!(denials(&json), [[""; 4]; 0]);
        let proxy = json["layers"].as_array().unwrap().iter().find(|layer| layer["name"] == "proxy").unwrap();
        assert_eq!(proxy["status"], "enforced", "{proxy}");

        let refused = curl("http://www.b.test/x").code_is(22).json();
        assert_eq!(denials(&refused), [row("www.b.test:80", "--allow-host www.b.test:80")]);
        let refused = curl("http://www.a.test:8080/x").code_is(22).json();
        assert_eq!(denials(&refused), [row("www.a.test:8080", "--allow-host www.a.test:8080")]);
        assert_eq!(upstream.seen(), ["GET http://www.a.test/x HTTP/1.1"], "one of the three got out");
    });
}

#[test]
fn what_was_refused_is_said_with_the_flag_that_would_allow_it() {
    as_each_caller(|fixture| {
        let upstream = Server::start();
        let program = ["curl", "-s", "--fail", "--max-time", "20", "https://b.test/"];
        let finished = through(fixture, &upstream, &["--allow-host", "a.test"], &program).finish();
        let err = finished.err();
        assert!(err.contains("b.test:443"), "{}", finished.report());
        assert!(err.contains("--allow-host b.test:443 would allow it"), "{}", finished.report());
    });
}

#[test]
fn a_denied_host_beats_what_is_allowed() {
    as_each_caller(|fixture| {
        let upstream = Server::start();
        let curl = |url: &str| {
            let flags = ["--json", "--allow-host", "*.a.test:*", "--deny-host", "x.a.test"];
            let program = ["curl", "-sS", "--fail", "--max-time", "20", url];
            through(fixture, &upstream, &flags, &program).finish()
        };
        curl("http://y.a.test:8080/").code_is(0);
        let refused = curl("http://x.a.test:8080/").code_is(22).json();
        assert_eq!(denials(&refused), [row("x.a.test:8080", "")]);
    });
}

/// The variables are the box's own, whatever the caller set.
#[test]
fn a_command_cannot_be_led_elsewhere_by_the_callers_variables() {
    as_each_caller(|fixture| {
        let upstream = Server::start();
        let flags = [
            "--json",
            "--allow-host",
            "a.test",
            "--env",
            "http_proxy=http://192.0.2.1:1",
            "--env",
            "NO_PROXY=*",
        ];
        let program = ["sh", "-c", "env | grep -iE 'proxy=|java' | sort"];
        let json = through(fixture, &upstream, &flags, &program).finish().code_is(0).json();
        let text = json["stdout"].as_str().unwrap();
        for line in ["http_proxy=http://127.0.0.1:808", "HTTPS_PROXY=http://127.0.0.1:808", "PIP_PROXY="] {
            assert!(text.contains(line), "{text}");
        }
        assert!(!text.contains("192.0.2.1") && !text.contains("NO_PROXY=*"), "{text}");
        // Java would report it at each start, and is led to the proxy without.
        assert!(!text.contains("JAVA"), "{text}");
    });
}

#[test]
fn git_goes_through_the_proxy() {
    as_each_caller(|fixture| {
        let upstream = Server::start();
        let git = |url: &str| {
            let flags = ["--json", "--allow-host", "a.test"];
            through(fixture, &upstream, &flags, &["git", "ls-remote", url]).finish().json()
        };
        git("http://a.test/r");
        // The server is no repository, but it was asked.
        let seen = upstream.seen();
        assert!(!seen.is_empty() && seen.iter().all(|line| line.starts_with("GET http://a.test/r/")));
        let json = git("http://b.test/r");
        assert_eq!(denials(&json), [row("b.test:80", "--allow-host b.test:80")]);
        assert_eq!(upstream.seen(), seen);
    });
}
