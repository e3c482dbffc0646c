//! `check`, and `run` of what it refuses.

use insta::assert_snapshot;
use ringfence_testkit::needs;
use serde_json::{Value, json};

use super::{fixture, ringfence};

#[test]
fn a_verdict_has_an_exit_status_and_says_what_to_do() {
    assert_snapshot!(ringfence(&["check", "--", "ls", "-l"]), @"
    exit: 0
    --- stdout
    allow
    --- stderr
    ");
    assert_snapshot!(ringfence(&["check", "--", "sudo", "reboot"]), @"
    exit: 10
    --- stdout
    warn
      warn power-off (argv): stops the machine
        instead: leave that to whoever runs the machine
    --- stderr
    ");
    assert_snapshot!(ringfence(&["check", "--explain", "--", "bash", "-c", "cd /; sudo r''m -rf *"]), @"
    exit: 20
    --- stdout
    argv     bash -c 'cd /; sudo r''m -rf *'
    nested   cd /
    nested   sudo
    nested   rm -rf *  <- rm-root
    block
      block rm-root (nested): deletes every file of the machine that can be deleted
        instead: delete a directory inside the workspace by its name
    --- stderr
    ");
}

#[test]
fn a_script_as_one_word_is_a_name_and_that_is_said() {
    assert_snapshot!(ringfence(&["check", "--", "rm -rf /"]), @"
    exit: 0
    --- stdout
    allow
    --- stderr
    ringfence: `rm -rf /` is one word, the name of a program
    hint: a script is read after `ringfence check -- sh -c`, or with `ringfence check --stdin-file FILE`
    ");
    assert_snapshot!(ringfence(&["check", "rm", "-rf", "/"]), @"
    exit: 2
    --- stdout
    --- stderr
    ringfence: unexpected argument `rm`
    hint: put `--` before the program: `ringfence check -- PROGRAM [ARG]...`; see `ringfence check --help`
    ");
}

#[test]
fn json_has_the_shape_of_the_contract() {
    let fixture = fixture();
    let value = fixture.ringfence(["check", "--json", "--", "rm", "-rf", "/"]).finish().code_is(20).json();
    let expected = json!({
        "verdict": "block",
        "truncated": false,
        "matches": [{
            "rule": "rm-root",
            "tier": "block",
            "why": "deletes every file of the machine that can be deleted",
            "view": "argv",
        }],
    });
    assert_eq!(value, expected);
}

#[test]
fn a_batch_answers_line_by_line() {
    let fixture = fixture();
    let lines = [
        r#"{"id":"a","shell":"posix","argv":["rm","-rf","/"],"stdin":null}"#,
        r#"{"id":"b","shell":"powershell","argv":null,"stdin":"Restart-Computer"}"#,
        "nonsense",
        r#"{"id":4,"shell":"cmd","argv":["cmd","/c","dir"],"stdin":null}"#,
    ];
    let finished = fixture.ringfence(["check", "--batch"]).stdin(lines.join("\n")).finish().code_is(0);
    let answers: Vec<Value> = finished.out().lines().map(|line| line.parse().expect("JSON")).collect();
    let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [&json!("a"), &json!("b"), &Value::Null, &json!(4)]);
    let verdicts: Vec<&Value> = answers.iter().map(|answer| &answer["verdict"]).collect();
    assert_eq!(verdicts, [&json!("block"), &json!("warn"), &Value::Null, &json!("allow")]);
    assert!(answers[2]["error"].is_string());
}

#[test]
fn a_script_is_read_from_a_file_and_the_configuration_counts() {
    let fixture = fixture();
    let script = fixture.write("ws/x.sh", "echo a\nrm -rf /\n");
    let check =
        |words: &[&str]| fixture.ringfence(["check", "--stdin-file"]).arg(&script).args(words).finish();
    check(&["--", "bash", "-s"]).code_is(20);
    check(&["--", "cat"]).code_is(0);
    check(&[]).code_is(20);
    fixture.ringfence(["check", "--stdin-file", "nowhere", "--", "sh"]).finish().code_is(1);
    fixture.ringfence(["check"]).finish().code_is(2);

    let rules = "[sandbox.command_policy]\ncustom_rules = [{ name = 'no-push', regex = '^git push' }, \
                 { name = 'broken', regex = '(' }]\n";
    let own = fixture.write("own.toml", rules);
    let push =
        fixture.ringfence(["check", "--config"]).arg(&own).args(["--", "sh", "-c", "git push"]).finish();
    let push = push.code_is(20);
    assert!(push.err().contains("custom rule `broken` left out"), "{}", push.err());
}

#[test]
fn an_output_that_takes_nothing_is_said() {
    let fixture = fixture();
    let line = r#"{"id":1,"argv":["ls"]}"#;
    for redirect in [">&-", ">/dev/full"] {
        let script = format!("printf '%s\\n' '{line}' | $RINGFENCE check --batch {redirect}");
        let finished = fixture.shell_outside(&script).finish();
        assert!(finished.code == Some(1), "{redirect}: {}", finished.report());
        assert!(finished.err().contains("standard output"), "{redirect}: {}", finished.report());
    }
    // A reader that goes away is no error.
    let gone =
        fixture.shell_outside(&format!("printf '%s\\n' '{line}' | $RINGFENCE check --batch | true")).finish();
    assert!(gone.err().is_empty(), "{}", gone.report());
}

#[test]
fn a_script_on_our_own_standard_input_is_read() {
    let fixture = fixture();
    needs!(fixture.binaries(); "landlock");
    // The function keeps a mistake here from doing harm.
    fixture.write("ws/bad.sh", "rm() { :; }\ntouch ran\nrm -rf /\n");
    fixture.write("ws/good.sh", "read line\nthe next line\ntouch ran; echo \"$line\"\n");
    let run = |script: &str| fixture.shell_outside(&format!("cd \"$WS\" && {script}")).finish();
    for program in ["bash", "sh -s x", "env A=b sh", "timeout 9 bash -x"] {
        let refused = run(&format!("$RINGFENCE run -- {program} <bad.sh")).code_is(125);
        assert!(refused.err().contains("rm-root"), "{program}: {}", refused.report());
        assert!(!fixture.exists("ws/ran"));
    }
    // It was not consumed, and what was consumed before is not read.
    let good = run("$RINGFENCE run -- bash <good.sh").code_is(0);
    assert_eq!(good.out(), "the next line\n");
    run("{ read a; read b; read c; $RINGFENCE run -- sh; } <bad.sh").code_is(0);
    // What is data is not a script.
    run("$RINGFENCE run -- cat <bad.sh >/dev/null").code_is(0);
    run("$RINGFENCE run -- sh -c cat <bad.sh >/dev/null").code_is(0);
    // Of a pipe nothing is known: it runs, and is recorded.
    assert_eq!(run("echo 'echo ran' | $RINGFENCE run -- sh").code_is(0).out(), "ran\n");
}

#[test]
fn what_is_recorded_is_said_once_for_each_rule() {
    let fixture = fixture();
    needs!(fixture.binaries(); "landlock");
    let line = "ringfence: warning of the command policy, rule power-off: stops the machine\n";
    // Nothing of it is run, wherever it is run.
    let run = |options: &[&str], script: &str| {
        fixture.ringfence(["run"]).args(options).args(["--", "sh", "-c", script]).finish().code_is(0)
    };
    let script = "true || reboot || sh -c 'reboot'";
    assert_eq!(run(&[], script).err().matches(line).count(), 1);
    assert_eq!(run(&["--json"], script).err().matches(line).count(), 1);
    assert_eq!(run(&["--quiet"], script).err(), "");
    assert!(!run(&[], "true || echo reboot").err().contains("warning"));
}

#[test]
fn what_is_refused_does_not_run() {
    let fixture = fixture();
    needs!(fixture.binaries(); "landlock");
    let run = |script: &str| fixture.ringfence(["run", "--", "sh", "-c", script]).finish();
    // The floor refuses by the text: the function keeps a mistake here from doing harm.
    let refused = run("rm() { :; }; touch ran; rm -rf /").code_is(125);
    assert!(refused.err().contains("rm-root"), "{}", refused.err());
    assert!(!fixture.exists("ws/ran"));
    run("rm() { :; }; touch ran; rm -rf ./x").code_is(0);
    assert!(fixture.exists("ws/ran"));
}
