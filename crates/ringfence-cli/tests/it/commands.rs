//! The commands beside `run`: what they promise, apart from their exact words.

use std::io::Write as _;

use ringfence_testkit::{Fixture, Invocation, Terminal};
use serde_json::Value;

use crate::support::{as_each_caller, binaries, has_box};

/// A fixture for whoever runs the tests.
fn own_fixture() -> Fixture {
    Fixture::new(binaries(), ringfence_testkit::Caller::all()[0])
}

#[test]
fn usage_errors_have_the_commands_status() {
    let fixture = own_fixture();
    for (words, code) in [
        (&["run", "--nonsense"][..], 125),
        (&["shell", "--nonsense"], 125),
        (&["explain", "--nonsense"], 125),
        (&["doctor", "--nonsense"], 2),
        (&["config", "nonsense"], 2),
        (&["init", "--nonsense"], 2),
        (&["completions", "nonsense"], 2),
        (&["nonsense"], 2),
        (&["--nonsense"], 2),
    ] {
        let finished = fixture.ringfence(words).finish().code_is(code);
        assert_eq!(finished.out(), "", "{}", finished.report());
        assert!(finished.err().contains("hint:"), "{}", finished.report());
    }
}

#[test]
fn a_batch_is_answered_line_by_line() {
    let fixture = own_fixture();
    let (questions, mut ours) = std::io::pipe().expect("pipe");
    let mut batch = fixture.ringfence(["check", "--batch"]).stream(0, questions).spawn();
    for id in 1..=3 {
        let line = format!("{{\"id\":{id},\"argv\":[\"ls\"]}}\n");
        // The beginning of the next question is no reason to wait with an answer.
        let early = if id < 3 { "{" } else { "" };
        let line = if id > 1 { &line[1..] } else { &line };
        ours.write_all(format!("{line}{early}").as_bytes()).expect("write");
        batch.wait_for(&format!("\"id\":{id},"));
    }
    drop(ours);
    let finished = batch.wait().code_is(0);
    assert_eq!(finished.out().lines().count(), 3, "{}", finished.report());
}

/// Without `--` what follows the program is its own all the same.
#[test]
fn the_json_of_a_program_is_not_ours() {
    let fixture = own_fixture();
    for (words, ours) in [
        (&["run", "--workspace", "/nonexistent", "true", "--json"][..], false),
        (&["run", "--workspace", "/nonexistent", "--json", "true"], true),
        (&["explain", "--workspace", "/nonexistent", "true", "--json"], false),
        // Where nothing can be told for sure: whoever asked for JSON gets it.
        (&["run", "--nonsense", "true", "--json"], true),
    ] {
        let finished = fixture.ringfence(words).finish().code_is(125);
        assert_eq!(finished.out().starts_with('{'), ours, "{}", finished.report());
        assert_eq!(finished.out().is_empty(), !ours, "{}", finished.report());
    }
}

#[test]
fn grants_that_nobody_gets_are_refusals_of_capabilities() {
    as_each_caller(|fixture| {
        let kind = |flags: &[&str]| {
            let finished = fixture.inside(&[&["--json"], flags].concat(), &["true"]).finish().code_is(125);
            finished.json()["error"]["kind"].as_str().unwrap_or_default().to_owned()
        };
        fixture.mkdir("host/repository/.git");
        for path in ["/", "{state}", "{host}/repository/.git"] {
            assert_eq!(kind(&["--write", &fixture.expand(path)]), "capability_denied", "{path}");
        }
        // What fails is none.
        assert_eq!(kind(&["--write", "/proc/self/exe/x"]), "io");
    });
}

#[test]
fn explain_shows_and_does_not_run() {
    as_each_caller(|fixture| {
        fixture.write("ws/secret", "x");
        let explain = |flags: &[&str], program: &str| {
            let run = fixture.ringfence(["explain", "--workspace"]).arg(fixture.ws()).args(flags);
            run.args(["--", "touch", program])
        };
        let text = explain(&["--deny", "secret"], "ran").finish().code_is(0).out();
        for word in ["workspace-write", "secret", "Landlock", "io_uring_setup", "loopback"] {
            assert!(text.contains(word), "{word}: {text}");
        }
        let value = explain(&["--json", "--mode", "strict"], "ran").finish().code_is(0).json();
        assert_eq!((&value["target"], &value["backend"]), (&"linux".into(), &"linux/native".into()));
        for part in ["policy", "plan"] {
            assert!(value[part].is_object(), "{part}: {value}");
        }
        assert!(value["layers"].as_array().is_some_and(|layers| layers.len() > 8), "{value}");
        assert!(!fixture.exists("ws/ran"));
        // What a run would refuse, explain refuses.
        explain(&["--write", "/"], "ran").finish().code_is(125);
    });
}

#[test]
fn doctor_says_what_works_and_what_does_not() {
    as_each_caller(|fixture| {
        let value = fixture.ringfence(["doctor", "--json"]).finish().code_is(0).json();
        let native = &value["backends"][0];
        assert_eq!((&native["name"], &native["usable"]), (&"native".into(), &true.into()), "{value}");
        assert_eq!(value["default"], "native", "{value}");
        for layer in value["layers"].as_array().expect("layers") {
            for part in ["name", "status"] {
                assert!(layer[part].is_string(), "{part}: {layer}");
            }
        }
        // In a box there are no user namespaces to be had.
        let words = ["--read", "{ringfence}", "--env", "RINGFENCE_HOME=/tmp/state"];
        let finished = fixture.inside(&words, &["{ringfence}", "doctor", "--json"]).finish().code_is(1);
        let value: Value = finished.json();
        let native = &value["backends"][0];
        assert_eq!(native["usable"], false, "{value}");
        assert!(native["why"].is_string() && native["fix"].is_string(), "{value}");
        let finished = fixture.inside(&words, &["{ringfence}", "doctor"]).finish().code_is(1);
        assert!(!finished.out().is_empty(), "{}", finished.report());
    });
}

#[test]
fn init_writes_a_configuration_that_is_valid() {
    as_each_caller(|fixture| {
        fixture.ringfence(["init"]).finish().code_is(0);
        let text = fixture.read("state/config.toml");
        assert!(text.contains("[sandbox]") && text.contains('#'), "{text}");
        fixture.ringfence(["config", "check"]).finish().code_is(0);
        fixture.inside(&[], &["true"]).finish().code_is(0);
        // Every key as shown, with its comment sign removed, is one that is known.
        let keys: String = text
            .lines()
            .map(|line| {
                line.strip_prefix("# ")
                    .filter(|rest| rest.contains(" = ") || rest.starts_with('['))
                    .unwrap_or(line)
            })
            .fold(String::new(), |text, line| text + line + "\n");
        fixture.write("state/config.toml", &keys);
        let finished = fixture.ringfence(["config", "check"]).finish();
        assert_eq!(finished.code, Some(0), "{}\n{keys}", finished.report());
        // An existing one is kept.
        fixture.write("state/config.toml", "# mine\n");
        let finished = fixture.ringfence(["init"]).finish();
        assert!(finished.code != Some(0) && finished.err().contains("hint:"), "{}", finished.report());
        assert_eq!(fixture.read("state/config.toml"), "# mine\n");
    });
}

#[test]
fn a_closed_reader_of_our_own_output_is_no_panic() {
    let fixture = own_fixture();
    for words in ["man", "completions bash", "--help", "doctor"] {
        let finished = fixture.shell_outside(&format!("$RINGFENCE {words} | true; sleep 0.1")).finish();
        assert!(!finished.err().contains("panicked"), "{}", finished.report());
        let finished = fixture.shell_outside(&format!("$RINGFENCE {words} >/dev/full")).finish();
        assert!(!finished.err().contains("panicked"), "{}", finished.report());
    }
}

#[test]
fn what_was_found_is_said_after_the_programs_output() {
    as_each_caller(|fixture| {
        let script = "echo out; echo new >.envrc";
        let on_terminal = |flags: &[&str]| {
            let run = fixture.shell_inside(flags, script);
            let (status, text) = Terminal::start(binaries(), fixture.caller(), run, 24, 200).wait();
            assert_eq!(status.code(), Some(0), "{text}");
            text
        };
        let text = on_terminal(&[]);
        assert!(text.starts_with("out\r\n") && text.contains(".envrc"), "{text}");
        std::fs::remove_file(fixture.ws().join(".envrc")).expect("rm");
        assert_eq!(on_terminal(&["--quiet"]), "out\r\n");
        std::fs::remove_file(fixture.ws().join(".envrc")).expect("rm");
        for (flags, err) in [
            (
                &[][..],
                "err\nringfence: protected path appeared or changed: {ws}/.envrc\n\
                 hint: look at it before a program outside obeys it\n",
            ),
            (&["--quiet"], "err\n"),
        ] {
            let finished = fixture.shell_inside(flags, "echo out; echo err >&2; echo new >.envrc").finish();
            assert_eq!((finished.out().as_str(), finished.err()), ("out\n", fixture.expand(err)));
            assert_eq!(fixture.read("ws/.envrc"), "new\n");
            std::fs::remove_file(fixture.ws().join(".envrc")).expect("rm");
        }
        // JSON has it among the denials.
        let finished = fixture.shell_inside(&["--json"], script).finish().code_is(0);
        assert_eq!(
            (finished.json()["denials"].as_array().map(Vec::len), finished.err()),
            (Some(1), "".into())
        );
    });
}

#[test]
fn colour_is_for_terminals_that_want_it() {
    if !has_box() {
        return;
    }
    let fixture = own_fixture();
    let on_terminal = |wrap: fn(Invocation) -> Invocation| {
        let run = wrap(fixture.ringfence(["run", "--workspace", "/missing", "--", "true"]));
        let (status, text) = Terminal::start(binaries(), fixture.caller(), run, 24, 80).wait();
        assert_eq!(status.code(), Some(125), "{text}");
        text.contains('\u{1b}')
    };
    assert!(on_terminal(|run| run));
    assert!(!on_terminal(|run| run.env("NO_COLOR", "1")));
    assert!(!on_terminal(|run| run.env("TERM", "dumb")));
    let finished = fixture.ringfence(["run", "--workspace", "/missing", "--", "true"]).finish().code_is(125);
    assert!(!finished.err().contains('\u{1b}'));
}
