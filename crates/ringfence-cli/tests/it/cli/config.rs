//! `init`, `config check`, and a configuration that is wrong.

use insta::assert_snapshot;
use serde_json::json;

use super::{fixture, outcome};

#[test]
fn errors_of_the_configuration() {
    let fixture = fixture();
    fixture.write("state/config.toml", "[sandbox]\nenabeld = false\n");
    assert_snapshot!(outcome(&fixture, fixture.ringfence(["run", "--", "true"])), @"
    exit: 125
    --- stdout
    --- stderr
    ringfence: configuration [ROOT]/state/config.toml: line 2: unknown key `sandbox.enabeld`, the nearest known one is `enabled`
    hint: did you mean `enabled`?
    ");
    assert_snapshot!(outcome(&fixture, fixture.ringfence(["config", "check"])), @"
    exit: 1
    --- stdout
    [ROOT]/state/config.toml: line 2: unknown key `sandbox.enabeld`, the nearest known one is `enabled`
    --- stderr
    ");
    fixture.write(
        "state/config.toml",
        "[sandbox]\nmax_output_bytes = \"1M\"\nlinx = 1\n\n[profile.a]\nmode = \"rw\"\n",
    );
    assert_snapshot!(outcome(&fixture, fixture.ringfence(["config", "check"])), @r#"
    exit: 1
    --- stdout
    [ROOT]/state/config.toml: line 2: `sandbox.max_output_bytes` expects a whole number, found string
    [ROOT]/state/config.toml: line 3: unknown key `sandbox.linx`, the nearest known one is `linux`
    [ROOT]/state/config.toml: line 6: `profile.a.mode` expects "strict" or "read-only" or "workspace-write" or "full-access", found "rw"
    --- stderr
    "#);
    fixture.write("state/config.toml", "");
    fixture.write("ws/.ringfence.toml", "[sandbox]\nmax_output_bytes = 9999999\n");
    assert_snapshot!(outcome(&fixture, fixture.ringfence(["config", "check"])), @"
    exit: 1
    --- stdout
    [ROOT]/ws/.ringfence.toml: line 2: `sandbox.max_output_bytes` in a workspace's own file may only tighten: the user's own configuration says 1048576
    --- stderr
    ");
    assert_snapshot!(outcome(&fixture, fixture.ringfence(["run", "--config", "none.toml", "--", "true"])), @"
    exit: 125
    --- stdout
    --- stderr
    ringfence: cannot read configuration none.toml: no such file or directory
    hint: make it readable, or name another file with --config
    ");
    fixture.write("ws/.ringfence.toml", "");
    assert_snapshot!(outcome(&fixture, fixture.ringfence(["run", "--profile", "rusty", "--", "true"])), @"
    exit: 125
    --- stdout
    --- stderr
    ringfence: unknown profile `rusty`, expected one of git, go, java, node, python, rust
    hint: did you mean `rust`?
    ");
}

#[test]
fn a_written_config_is_accepted_and_not_overwritten() {
    let fixture = fixture();
    assert_snapshot!(outcome(&fixture, fixture.ringfence(["config", "check"])), @"
    exit: 0
    --- stdout
    no config file: the defaults are in force
    --- stderr
    ");
    assert_snapshot!(outcome(&fixture, fixture.ringfence(["init"])), @"
    exit: 0
    --- stdout
    [ROOT]/state/config.toml
    --- stderr
    ");
    assert_snapshot!(outcome(&fixture, fixture.ringfence(["config", "check"])), @"
    exit: 0
    --- stdout
    [ROOT]/state/config.toml: no problem
    --- stderr
    ");
    assert_snapshot!(outcome(&fixture, fixture.ringfence(["init"])), @"
    exit: 1
    --- stdout
    --- stderr
    ringfence: [ROOT]/state/config.toml already exists
    hint: edit it, or name another file with --config
    ");
    assert_snapshot!(outcome(&fixture, fixture.ringfence(["init", "--config", "a/b.toml"])), @"
    exit: 0
    --- stdout
    a/b.toml
    --- stderr
    ");
}

#[test]
fn config_check_in_json() {
    let fixture = fixture();
    let check = |code| fixture.ringfence(["config", "check", "--json"]).finish().code_is(code).json();
    fixture.write("state/config.toml", "");
    let file = fixture.state().join("config.toml");
    assert_eq!(check(0), json!({"files": [file], "problems": []}));
    fixture.write("state/config.toml", "\n[sandbox]\nenabeld = true\n");
    let value = check(1);
    assert_eq!(value["files"], json!([]));
    let problem = &value["problems"][0];
    assert_eq!((&problem["path"], &problem["line"]), (&json!(file), &json!(3)));
    assert_eq!(problem["key"], "sandbox.enabeld");
    assert!(problem["hint"].as_str().is_some_and(|hint| hint.contains("enabled")), "{value}");
}
