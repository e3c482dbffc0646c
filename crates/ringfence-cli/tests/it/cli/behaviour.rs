//! `explain`, `doctor`, `shell` and the ways in which text is written.

use ringfence_testkit::{Terminal, needs};
use serde_json::{Value, json};

use super::fixture;
use crate::support::as_each_caller;

#[test]
fn explain_shows_the_plan_and_claims_nothing() {
    let fixture = fixture();
    needs!(fixture.binaries(); "landlock");
    fixture.mkdir("home/.ssh");
    let explain = |words: &[&str]| fixture.ringfence(["explain"]).args(words).finish().code_is(0);
    let text = explain(&["--deny", "secret", "--", "sh", "-c", "echo a b"]).out();
    let ssh = fixture.home().join(".ssh");
    for part in ["sh -c 'echo a b'", "workspace-write", "hidden", &ssh.to_string_lossy()] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains("planned") && !text.contains("enforced"), "{text}");

    let text =
        explain(&["--net", "public", "--deny-host", "a.test", "--deny-host", "b.test:22", "--", "true"])
            .out();
    assert!(text.contains("a.test on every port, b.test:22\n"), "{text}");
    let value = explain(&["--json", "--mode", "strict", "--no-spawn"]).json();
    let keys: Vec<&String> = value.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["backend", "layers", "plan", "policy", "target"]);
    assert_eq!((&value["target"], &value["backend"]), (&json!("linux"), &json!("linux/native")));
    assert_eq!(
        (&value["policy"]["mode"], &value["policy"]["spawn_subprocess"]),
        (&json!("strict"), &json!(false))
    );
    assert_eq!(value["plan"]["socket_gate"], "unix_only");
    let calls = value["plan"]["seccomp"]["rows"].as_array().expect("rows");
    assert!(calls.iter().any(|row| row["call"] == "fork" || row["call"] == "vfork"), "{value}");
    assert!(
        value["layers"]
            .as_array()
            .is_some_and(|layers| layers.iter().all(|layer| layer["status"] != "enforced"))
    );
    assert!(!fixture.exists("ws/secret"));
}

#[test]
fn explain_never_shows_the_value_of_a_variable() {
    let fixture = fixture();
    let run =
        || fixture.ringfence(["explain", "--env", "TOKEN=hunter2", "--env", "LC_X"]).env("LC_X", "hunter2");
    let text = run().finish().code_is(0).out();
    let json = run().arg("--json").finish().code_is(0).out();
    for shown in [text, json] {
        assert!(shown.contains("TOKEN") && shown.contains("LC_X") && !shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn doctor_tries_the_default_box() {
    as_each_caller(|fixture| {
        let text = fixture.ringfence(["doctor"]).finish().code_is(0).out();
        assert!(text.contains("native    works") && text.contains("socket-gate"), "{text}");
        let value = fixture.ringfence(["doctor", "--json"]).finish().code_is(0).json();
        let keys: Vec<&String> = value.as_object().expect("an object").keys().collect();
        assert_eq!(keys, ["backends", "default", "layers"]);
        assert_eq!((&value["default"], &value["backends"][0]["usable"]), (&json!("native"), &json!(true)));
        assert_eq!(value["layers"].as_array().map(Vec::len), Some(14));

        // A box that can't be had is explained, not skipped over.
        fixture.write("state/config.toml", "[sandbox]\nenabled = false\n");
        let value = fixture.ringfence(["doctor", "--json"]).finish().code_is(1).json();
        assert_eq!((&value["default"], &value["backends"][0]["usable"]), (&Value::Null, &json!(false)));
        let native = &value["backends"][0];
        assert!(native["why"].as_str().is_some_and(|why| why.contains("disabled")), "{native}");
        assert!(native["fix"].as_str().is_some_and(|fix| fix.contains("enabled = true")), "{native}");
    });
}

#[test]
fn verbose_says_what_was_enforced_and_quiet_says_nothing() {
    as_each_caller(|fixture| {
        let finished = fixture.inside(&["--verbose"], &["echo", "out"]).finish().code_is(0);
        assert_eq!(finished.out(), "out\n");
        assert!(
            finished.err().starts_with("ringfence: mode workspace-write, profiles none\n"),
            "{}",
            finished.report()
        );
        assert!(finished.err().contains("seccomp      enforced"), "{}", finished.report());
        let finished = fixture.inside(&["--quiet"], &["echo", "out"]).finish().code_is(0);
        assert_eq!((finished.out(), finished.err()), ("out\n".to_owned(), String::new()));
    });
}

#[test]
fn a_shell_runs_in_the_box_with_a_marked_prompt() {
    as_each_caller(|fixture| {
        for (shell, status) in [("/bin/bash", "7"), ("/bin/sh", "9")] {
            let command = fixture.ringfence(["shell"]).env("SHELL", shell);
            let mut terminal = Terminal::start(fixture.binaries(), fixture.caller(), command, 24, 80);
            terminal.expect("inside the box");
            terminal.expect("(ringfence) ");
            terminal.send("touch made; echo x > ../host/out; echo box=$RINGFENCE_SANDBOX\n");
            terminal.expect("box=native");
            terminal.expect("(ringfence) ");
            terminal.send(&format!("exit {status}\n"));
            let (ended, text) = terminal.wait();
            assert_eq!(ended.code().map(|code| code.to_string()).as_deref(), Some(status), "{text}");
            assert!(fixture.exists("ws/made") && !fixture.exists("host/out"));
        }
    });
}

#[test]
fn colour_is_for_terminals() {
    let fixture = fixture();
    let finished = fixture.ringfence(["nonsense"]).finish();
    assert!(!finished.err().contains('\u{1b}'));
    let finished = fixture.ringfence(["nonsense"]).env("CLICOLOR_FORCE", "1").finish();
    assert!(finished.err().contains('\u{1b}'));
    let finished = fixture.ringfence(["nonsense"]).env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1").finish();
    assert!(!finished.err().contains('\u{1b}'));
}

#[test]
fn a_full_disk_is_reported_and_a_reader_that_went_away_is_not() {
    let fixture = fixture();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    for words in [&["--help"][..], &["completions", "bash"], &["man"], &["config", "check"]] {
        let finished = fixture.ringfence(words).stream(1, full.try_clone().expect("dup")).finish().code_is(1);
        assert_eq!(finished.err(), "ringfence: cannot write to standard output: no space left on device\n");
        let (reader, writer) = std::io::pipe().expect("pipe");
        drop(reader);
        let finished = fixture.ringfence(words).stream(1, writer).finish().code_is(0);
        assert_eq!(finished.err(), "");
    }
}

/// elf(5): type of the file, and of each of its program headers.
fn elf_types(bytes: &[u8]) -> (u16, Vec<u32>) {
    let number = |at: usize, len: usize| {
        bytes[at..at + len].iter().rev().fold(0_usize, |value, &byte| value << 8 | usize::from(byte))
    };
    assert_eq!(&bytes[..6], b"\x7fELF\x02\x01", "64 bits, least byte first");
    let (start, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    let headers = (0..count).map(|index| number(start + index * size, 4) as u32).collect();
    (number(16, 2) as u16, headers)
}

#[test]
fn the_binary_is_static_with_nothing_to_relocate_where_it_can_be() {
    const ET_EXEC: u16 = 2;
    const ET_DYN: u16 = 3;
    const PT_LOAD: u32 = 1;
    const PT_INTERP: u32 = 3;
    const PT_GNU_RELRO: u32 = 0x6474_e552;
    let bytes = std::fs::read(env!("CARGO_BIN_EXE_ringfence")).expect("the binary is there");
    let (file, headers) = elf_types(&bytes);
    assert_eq!(file, if cfg!(static_binary) { ET_EXEC } else { ET_DYN });
    assert!(headers.contains(&PT_LOAD) && headers.contains(&PT_GNU_RELRO), "{headers:x?}");
    assert_eq!(headers.contains(&PT_INTERP), !cfg!(static_binary), "{headers:x?}");
}
