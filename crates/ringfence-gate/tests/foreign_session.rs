//! The question on a terminal, asked by a process whose session and process group were made outside of its PID
//! namespace: getpgrp(2) and tcgetpgrp(3) answer 0 there.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stderr, reason = "what a test skips must be seen")]

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;

use common::{Fixture, block_on, command, spawns};
use ringfence_gate::{ApprovalGate, ApprovalOutcome, Decision, TerminalRequester};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};

/// `unshare ... -- PROGRAM`, which makes the program PID 1 of a new PID namespace.
fn as_foreigner(program: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-current-user", "--pid", "--fork", "--", program]);
    command
}

fn has_namespaces() -> bool {
    let works = as_foreigner("true").status().is_ok_and(|status| status.success());
    let must = std::env::var("RINGFENCE_MUST_HAVE").unwrap_or_default();
    assert!(works || !must.split(',').any(|name| name == "all" || name == "userns"), "no namespaces");
    if !works {
        eprintln!("SKIP: needs userns and unshare(1)");
    }
    works
}

#[test]
fn a_question_is_put_on_the_terminal_of_a_foreign_session() {
    if !has_namespaces() {
        return;
    }
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let person = openpt(flags).unwrap();
    unlockpt(&person).unwrap();
    let terminal = ioctl_tiocgptpeer(&person, flags).unwrap();
    let this = std::env::current_exe().unwrap();
    let foreigner = as_foreigner(this.to_str().unwrap());
    let mut child = Command::new("setsid")
        .args(["--ctty", "--wait"])
        .arg(foreigner.get_program())
        .args(foreigner.get_args())
        .args(["--exact", "asks", "--ignored", "--nocapture", "--test-threads=1"])
        .stdin(Stdio::from(terminal.try_clone().unwrap()))
        .stdout(Stdio::from(terminal.try_clone().unwrap()))
        .stderr(Stdio::from(terminal))
        .spawn()
        .unwrap();
    let mut person = File::from(person);
    let mut shown = String::new();
    let mut buffer = [0; 1024];
    // The terminal is gone when its last program is.
    while let Ok(n @ 1..) = person.read(&mut buffer) {
        let before = shown.matches("[n] no: ").count();
        shown.push_str(&String::from_utf8_lossy(&buffer[..n]));
        if shown.matches("[n] no: ").count() > before {
            person.write_all(b"y\n").unwrap();
        }
    }
    let status = child.wait().unwrap();
    assert!(status.success() && shown.contains("1 passed"), "{status}: {shown}");
}

#[test]
#[ignore = "a process of its own, started by another test"]
fn asks() {
    assert_eq!(rustix::process::getpid().as_raw_pid(), 1);
    let fixture = Fixture::new(ApprovalGate::new(Some(Arc::new(TerminalRequester::new()))), |_| {});
    let permit = block_on(fixture.permit(command("true", spawns()))).unwrap();
    let by = String::from("terminal");
    assert_eq!(*permit.decision(), Decision::Approved { outcome: ApprovalOutcome::ApprovedOnce, by });
}
