//! Usage errors and what this version has not.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{fixture, ringfence};

/// Exit 125 where a program would have run, 2 elsewhere.
#[test]
fn usage_errors() {
    assert_snapshot!(ringfence(&["run"]), @"
    exit: 125
    --- stdout
    --- stderr
    ringfence: no PROGRAM given
    hint: write the program after the options: `ringfence run -- PROGRAM [ARG]...`
    ");
    assert_snapshot!(ringfence(&["run", "--writ", "x", "--", "true"]), @"
    exit: 125
    --- stdout
    --- stderr
    ringfence: unknown option `--writ`
    hint: did you mean `--write`? see `ringfence run --help`
    ");
    assert_snapshot!(ringfence(&["shell", "--json"]), @r#"
    exit: 125
    --- stdout
    {"exit_code":null,"signal":null,"stdout":"","stdout_encoding":"utf-8","stderr":"","stderr_encoding":"utf-8","truncated":false,"dropped_stdout":0,"dropped_stderr":0,"duration_ms":0,"session":null,"backend":null,"layers":[],"denials":[],"writable":[],"error":{"kind":"usage","step":null,"message":"unknown option `--json`","hint":"see `ringfence shell --help`"}}
    --- stderr
    ringfence: unknown option `--json`
    hint: see `ringfence shell --help`
    "#);
    assert_snapshot!(ringfence(&["explain", "--mode", "none"]), @"
    exit: 125
    --- stdout
    --- stderr
    ringfence: `none` is no value of `--mode`
    hint: expected one of strict, read-only, workspace-write, full-access
    ");
    assert_snapshot!(ringfence(&["run", "--timeout", "soon", "--", "true"]), @"
    exit: 125
    --- stdout
    --- stderr
    ringfence: `soon` is no value of `--timeout`: expected a duration such as 60s, 5m or 1h30m
    hint: see `ringfence run --help`
    ");
    assert_snapshot!(ringfence(&["run", "--net", "none", "--allow-host", "a.example", "--", "true"]), @"
    exit: 125
    --- stdout
    --- stderr
    ringfence: `--net none` contradicts `--allow-host`
    hint: leave out one of the two
    ");
    assert_snapshot!(ringfence(&["run", "--allow-host", "https://a.example/", "--", "true"]), @"
    exit: 125
    --- stdout
    --- stderr
    ringfence: `https://a.example/` is no value of `--allow-host`: host pattern `https://a.example/` holds a scheme or a path, expected only a host and an optional port
    hint: see `ringfence run --help`
    ");
    assert_snapshot!(ringfence(&["run", "--quiet", "--verbose", "--", "true"]), @"
    exit: 125
    --- stdout
    --- stderr
    ringfence: `--quiet` contradicts `--verbose`
    hint: see `ringfence run --help`
    ");
    assert_snapshot!(ringfence(&["doctor", "--jso"]), @"
    exit: 2
    --- stdout
    --- stderr
    ringfence: unknown option `--jso`
    hint: did you mean `--json`? see `ringfence doctor --help`
    ");
    assert_snapshot!(ringfence(&["audit", "--", "ls"]), @"
    exit: 2
    --- stdout
    --- stderr
    ringfence: unknown command `audit`
    hint: to run a program: `ringfence run -- PROGRAM`; see `ringfence --help`
    ");
    assert_snapshot!(ringfence(&["completions", "tcsh"]), @"
    exit: 2
    --- stdout
    --- stderr
    ringfence: `tcsh` is no value of `SHELL`
    hint: expected one of bash, elvish, fish, powershell, zsh
    ");
    assert_snapshot!(ringfence(&["config"]), @"
    exit: 2
    --- stdout
    --- stderr
    Examine config files

    Usage: ringfence config <COMMAND>

    Commands:
      check  Check config files for unknown keys and wrong values

    Options:
      -h, --help  Print help
    ");
}

#[test]
fn options_of_missing_features() {
    assert_snapshot!(ringfence(&["run", "--memory", "512M", "--", "true"]), @"
    exit: 125
    --- stdout
    --- stderr
    ringfence: `--memory` is not available yet: cgroup limits are missing
    hint: use `--timeout`, or set limits from outside with systemd-run
    ");
    assert_snapshot!(ringfence(&["shell", "--backend", "bwrap"]), @"
    exit: 125
    --- stdout
    --- stderr
    ringfence: `--backend bwrap` is not available yet: only the native backend is built in
    hint: use `--backend native`
    ");
    assert_snapshot!(ringfence(&["explain", "--target", "windows"]), @"
    exit: 125
    --- stdout
    --- stderr
    ringfence: `--target windows` is not available yet: only Linux plans are made
    hint: use `--target linux`, or leave the option out
    ");
}

/// With `--json` every error is an object on standard output too, that of the command's own shape.
#[test]
fn errors_in_json() {
    let fixture = fixture();
    let error = |words: &[&str], code: i32| fixture.ringfence(words).finish().code_is(code).json();

    let value = error(&["run", "--json", "--bogus", "--", "true"], 125);
    assert_eq!(
        (&value["exit_code"], &value["signal"], &value["stdout"]),
        (&Value::Null, &Value::Null, &json!(""))
    );
    assert_eq!(value["error"]["kind"], "usage");
    assert_eq!(value["error"]["message"], "unknown option `--bogus`");
    let value = error(&["run", "--json", "--memory", "1G", "--", "true"], 125);
    assert_eq!(
        (&value["error"]["kind"], &value["error"]["step"]),
        (&json!("unsupported_policy"), &Value::Null)
    );
    let value = error(&["run", "--json", "--config", "none.toml", "--", "true"], 125);
    assert_eq!(value["error"]["kind"], "config");
    let value = error(&["explain", "--json", "--target", "macos"], 125);
    assert_eq!(
        (&value["backend"], &value["plan"], &value["layers"]),
        (&Value::Null, &Value::Null, &json!([]))
    );
    assert_eq!(value["error"]["kind"], "unsupported_policy");
    let value = error(&["doctor", "--json", "extra"], 2);
    assert_eq!(value["error"]["kind"], "usage");

    // What stands after `--` is the program's.
    let finished = fixture.ringfence(["run", "--bogus", "--", "true", "--json"]).finish().code_is(125);
    assert_eq!(finished.out(), "");
}
