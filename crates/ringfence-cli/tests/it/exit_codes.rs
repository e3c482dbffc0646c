//! Exit statuses, and how JSON tells ringfence's own from the program's.

use std::process::Command;

use ringfence_testkit::{Fixture, Invocation};
use serde_json::{Value, json};

use crate::support::as_each_caller;

/// The same script's status outside and inside.
#[track_caller]
fn same_as_outside(fixture: &Fixture, script: &str) {
    let outside = fixture.outside("bash").args(["-c", script]).finish();
    let expected = outside.code.unwrap_or_else(|| 128 + outside.signal.expect("a code or a signal"));
    fixture.shell_inside(&[], script).finish().code_is(expected);
}

#[test]
fn the_programs_own_status_passes() {
    as_each_caller(|fixture| {
        for script in
            ["exit 0", "exit 1", "exit 42", "exit 124", "exit 125", "exit 126", "exit 127", "exit 255"]
        {
            same_as_outside(fixture, script);
        }
    });
}

#[test]
fn a_signal_gives_128_and_its_number() {
    as_each_caller(|fixture| {
        for signal in ["HUP", "INT", "TERM", "KILL", "SEGV", "ABRT", "PIPE", "USR1", "ALRM", "RTMIN+3"] {
            same_as_outside(fixture, &format!("kill -{signal} $$"));
        }
    });
}

#[test]
fn a_program_that_is_not_there_gives_127() {
    as_each_caller(|fixture| {
        for program in ["no-such-program-here", "./missing", "/missing/program", "missing-folder/program"] {
            let finished = fixture.inside(&[], &[program]).finish().code_is(127);
            assert!(finished.err().contains("hint:"), "{}", finished.report());
            let value = fixture.inside(&["--json"], &[program]).finish().code_is(127).json();
            assert_eq!(value["error"]["kind"], "not_found", "{value}");
            assert_eq!(value["exit_code"], Value::Null);
        }
    });
}

#[test]
fn a_file_that_cannot_be_executed_gives_126() {
    as_each_caller(|fixture| {
        fixture.write("ws/plain", "#!/bin/sh\nexit 0\n");
        fixture.mkdir("ws/folder");
        fixture.write("ws/bin/shadowed", "#!/bin/sh\n");
        // The beginning of an executable of no machine.
        fixture.script("ws/garbage", "\u{7f}ELF\u{2}\u{1}\u{1}\0\0\0\0\0\0\0\0\0");
        for program in ["./plain", "./folder", "{ws}/plain", "{ws}"] {
            fixture.inside(&[], &[program]).finish().code_is(126);
            let value = fixture.inside(&["--json"], &[program]).finish().code_is(126).json();
            assert_eq!(value["error"]["kind"], "not_executable", "{value}");
        }
        fixture.inside(&[], &["./garbage"]).finish().code_is(126);
        // A file on PATH without the execute bit is found and can't be executed.
        let path = fixture.expand("PATH={ws}/bin");
        fixture.inside(&["--env", &path], &["shadowed"]).finish().code_is(126);
    });
}

#[test]
fn a_timeout_gives_124_and_what_was_written() {
    as_each_caller(|fixture| {
        let short = fixture.shell_inside(&["--timeout", "10ms"], "sleep 60").finish().code_is(124);
        assert!(!short.err().contains("after 0"), "{}", short.report());
        let run = fixture.shell_inside(&["--timeout", "1s", "--json"], "echo partial; sleep 60");
        let value = run.finish().code_is(124).json();
        assert_eq!(value["error"]["kind"], "timeout", "{value}");
        assert_eq!((&value["exit_code"], &value["stdout"]), (&Value::Null, &json!("partial\n")));
    });
}

#[test]
fn a_run_that_was_ended_still_says_what_was_found() {
    as_each_caller(|fixture| {
        let found = "protected path appeared or changed";
        for (flags, rest, code) in [(&[][..], "true", 0), (&["--timeout", "3s"], "sleep 60", 124)] {
            let script = format!("echo '{{}}' >.mcp.json; {rest}");
            let finished = fixture.shell_inside(flags, &script).finish().code_is(code);
            assert!(finished.err().contains(found), "{}", finished.report());
            std::fs::remove_file(fixture.ws().join(".mcp.json")).expect("rm");
        }
        let quiet = fixture.shell_inside(&["--timeout", "3s", "--quiet"], "echo '{}' >.mcp.json; sleep 60");
        let quiet = quiet.finish().code_is(124);
        assert!(!quiet.err().contains(found), "{}", quiet.report());
    });
}

#[test]
fn json_tells_the_programs_status_from_ours() {
    as_each_caller(|fixture| {
        for code in [42, 124, 125, 126, 127] {
            let value =
                fixture.shell_inside(&["--json"], &format!("exit {code}")).finish().code_is(code).json();
            assert_eq!(value["exit_code"], json!(code));
            assert_eq!((&value["error"], &value["signal"]), (&Value::Null, &Value::Null));
        }
        let value = fixture.shell_inside(&["--json"], "kill -TERM $$").finish().code_is(143).json();
        assert_eq!((&value["exit_code"], &value["signal"]), (&Value::Null, &json!(15)));
        assert_eq!(value["error"], Value::Null);
        let value = fixture
            .ringfence(["run", "--json", "--workspace", "/no/such", "--", "true"])
            .finish()
            .code_is(125)
            .json();
        assert_eq!(value["exit_code"], Value::Null);
        assert!(value["error"]["kind"].is_string(), "{value}");
    });
}

#[test]
fn json_holds_the_layers_from_read_backs() {
    as_each_caller(|fixture| {
        let value = fixture.inside(&["--json"], &["true"]).finish().code_is(0).json();
        let layers = value["layers"].as_array().expect("layers");
        for name in [
            "userns",
            "mountns",
            "pidns",
            "netns",
            "ipcns",
            "utsns",
            "landlock",
            "seccomp",
            "socket-gate",
            "caps",
        ] {
            let layer = layers
                .iter()
                .find(|layer| layer["name"] == name)
                .unwrap_or_else(|| panic!("{name}: {value}"));
            // Without a right of Landlock for sockets (ABI 9).
            let later = layer["detail"].as_str().is_some_and(|detail| detail.contains("bound later"));
            let expected = if name == "socket-gate" && later { "partial" } else { "enforced" };
            assert_eq!(layer["status"], expected, "{layer}");
        }
        assert_eq!(value["backend"], "linux/native");
        let ws = fixture.ws().to_string_lossy().into_owned();
        assert!(value["writable"].as_array().is_some_and(|paths| paths.contains(&json!(ws))), "{value}");
        assert!(value["duration_ms"].is_u64());
    });
}

#[test]
fn bytes_that_are_not_text_come_as_base64() {
    as_each_caller(|fixture| {
        let value =
            fixture.shell_inside(&["--json"], r"printf '\377\000'; printf '\376' >&2").finish().json();
        assert_eq!((&value["stdout"], &value["stdout_encoding"]), (&json!("/wA="), &json!("base64")));
        assert_eq!((&value["stderr"], &value["stderr_encoding"]), (&json!("/g=="), &json!("base64")));
    });
}

/// A caller that ignores SIGCHLD has its children vanish unasked; the box's PID 1 inherits that, and the program too.
#[test]
fn a_caller_that_ignores_its_children_gets_the_status() {
    as_each_caller(|fixture| {
        for (script, code) in [("exit 7", 7), ("grep -q '^SigIgn:.*[13579bdf]0000$' /proc/self/status", 0)] {
            let plain = fixture.shell_inside(&[], script).into_command();
            let mut command = Command::new("env");
            command.arg("--ignore-signal=CHLD").arg(plain.get_program()).args(plain.get_args()).env_clear();
            command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
            command.current_dir(plain.get_current_dir().expect("a working directory"));
            Invocation::new(command).finish().code_is(code);
        }
    });
}
