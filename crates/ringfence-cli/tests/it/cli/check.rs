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
