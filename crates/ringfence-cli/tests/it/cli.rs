//! Whole commands: exit status, standard output and standard error together. What is compared word by word starts
//! no box, so that the snapshots hold on every machine.

use insta::assert_snapshot;
use ringfence_testkit::{Caller, Finished, Fixture, Invocation, Terminal, needs};
use serde_json::{Value, json};

use crate::support::{as_each_caller, binaries};

fn fixture() -> Fixture {
    Fixture::new(binaries(), Caller::all()[0])
}

/// The whole of a command's outcome as one text.
fn outcome(fixture: &Fixture, command: Invocation) -> String {
    shown(fixture, &command.finish())
}

fn shown(fixture: &Fixture, finished: &Finished) -> String {
    let code = finished.code.map_or_else(|| "none".to_owned(), |code| code.to_string());
    let text = format!("exit: {code}\n--- stdout\n{}--- stderr\n{}", finished.out(), finished.err());
    fixture.redact(&text)
}

fn ringfence(words: &[&str]) -> String {
    let fixture = fixture();
    let words: Vec<_> = words.iter().map(|word| fixture.expand(word)).collect();
    outcome(&fixture, fixture.ringfence(words))
}

#[test]
fn help() {
    assert_snapshot!(ringfence(&["--help"]), @"
    exit: 0
    --- stdout
    Runs a command that nobody has vetted so that it can touch only what it was granted

    Usage: ringfence <COMMAND>

    Commands:
      run          Run a program in the box
      shell        Start an interactive shell in the box
      explain      Show what a run would be allowed, without running it
      doctor       Check what this host can enforce, and how to fix what it can't
      init         Write a commented config file
      config       Examine config files
      completions  Print a completion script
      man          Print the manual page

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Examples:
      ringfence run -- cargo test           only this directory is writable, no network
      ringfence run --mode strict -- ./a.sh nothing but this directory and system programs
      ringfence shell                       look around in the box
      ringfence explain -- npm install      what a run would be allowed, without running it
      ringfence doctor                      what this host can enforce
    --- stderr
    ");
    assert_snapshot!(ringfence(&["run", "-h"]), @"
    exit: 0
    --- stdout
    Run a program in the box

    Usage: ringfence run [OPTIONS] -- PROGRAM [ARG]...

    Options:
      -h, --help  Print help (see more with '--help')

    Policy:
          --mode <MODE>         What is allowed before the other options add or take [default:
                                workspace-write] [possible values: strict, read-only, workspace-write,
                                full-access]
          --profile <NAME>      Ecosystem profile (rust, node, python, go, java, git), one from the
                                config, auto, or none [default: auto]
          --workspace <DIR>     The directory that the box works in [default: the current directory]
          --session <ID>        Work in the session's own directory; commands of one session share it
                                and their private /tmp
          --cwd <DIR>           Working directory [default: the current directory if it lies inside the
                                workspace]
          --read <PATH>         Let the box read this file or tree
          --write <PATH>        Let the box write this file or tree
          --deny <PATH>         Hide this file or tree
          --unix-socket <PATH>  Let the box connect to this Unix socket of the host
          --device <NAME>       Let the box use devices by name: gpu, kvm, fuse
          --env <KEY[=VALUE]>   Set a variable, or pass the caller's own one through
          --no-spawn            Refuse to start further processes from inside the box
          --force-root          Allow /, the home directory or a system directory as a writable root

    Network:
          --net <NET>                   No network, the public internet, or the host's network as it is
                                        [default: none] [possible values: none, public, all]
          --allow-host <PATTERN>        Let the box reach this host; not available yet
          --deny-host <PATTERN>         Keep the box from this host; not available yet
          --publish <[ADDR:]PORT:PORT>  Let the host reach a server in the box; not available yet
          --allow-loopback <PORT>       Let the box reach one port of the host's loopback; not available
                                        yet

    Limits:
          --timeout <TIME>     End the run after this time: 60s, 5m, 1h30m [default: no limit]
          --max-output <SIZE>  Keep at most this much captured output: 512K, 1M [default: 1M]
          --memory <SIZE>      Memory of all processes together: 512M, 2G; not available yet
          --pids <N>           Number of processes and threads; not available yet
          --cpu <PERCENT>      Share of one processor: 50%; not available yet

    Setup:
          --backend <BACKEND>  Mechanism that builds the box; bwrap and landlock are not available yet
                               [default: auto] [possible values: auto, native, bwrap, landlock]
          --require <LAYER>    Refuse to run unless this layer is fully in force (see `doctor` for their
                               names)
          --ask <WHEN>         What leaves the policy is refused, or asked on the terminal [default:
                               prompt on a terminal, else never] [possible values: never, prompt]
          --tty                Give the program a terminal also when standard input is none
          --config <FILE>      Config file instead of $RINGFENCE_HOME/config.toml

    Output:
          --quiet    Say nothing but errors
          --verbose  Say what was enforced
          --json     Capture the output and print one JSON object; standard input passes unless it is a
                     terminal

    Program:
      <PROGRAM>...  The program and its arguments

    Examples:
      ringfence run -- cargo build
          The current directory is writable, the rest of the disk read-only, no network
      ringfence run --write ../shared --deny .env -- make
          One more writable directory; one file of the workspace out of reach
      ringfence run --net all --timeout 10m -- npm ci
          The host's network, at most ten minutes
      ringfence run --json -- sh -c 'ls; exit 3'
          One JSON object: output, exit code, what was enforced, what was refused

    Everything after the program goes to it untouched. Relative paths of --read, --write and --deny
    count from the workspace.

    Exit status:
      the program's own, or
      128+N  signal N ended it
      124    the timeout ended it
      125    ringfence refused or failed
      126    the program is not executable
      127    the program was not found
    --- stderr
    ");
    assert_snapshot!(ringfence(&["doctor", "--help"]), @"
    exit: 0
    --- stdout
    Check what this host can enforce, and how to fix what it can't

    Usage: ringfence doctor [OPTIONS]

    Options:
          --json  Print one JSON object on standard output
      -h, --help  Print help

    Each backend is tried for at most half a second. What is missing is explained, with its fix.

    Exit status: 0 if `ringfence run` gives a sandbox on this host, else 1; 2 for a usage error.
    --- stderr
    ");
    assert_snapshot!(ringfence(&["config", "check", "--help"]), @"
    exit: 0
    --- stdout
    Check config files for unknown keys and wrong values

    Usage: ringfence config check [OPTIONS] [FILE]

    Arguments:
      [FILE]  Check this file instead of the user's config and the workspace's

    Options:
          --json  Print one JSON object on standard output
      -h, --help  Print help

    Without FILE: the user's config ($RINGFENCE_HOME/config.toml), then .ringfence.toml of the current
    directory; a missing one is no error. An unknown key is named with its line and the nearest known
    key.

    Exit status: 0 if all is well, 1 if a file has an error or can't be read, 2 for a usage error.
    --- stderr
    ");
    assert_snapshot!(ringfence(&["--version"]), @"
    exit: 0
    --- stdout
    ringfence [VERSION]
    --- stderr
    ");
}

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
    assert_snapshot!(ringfence(&["check", "--", "ls"]), @"
    exit: 2
    --- stdout
    --- stderr
    ringfence: unknown command `check`
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
    assert_snapshot!(ringfence(&["run", "--allow-host", "a.example", "--", "true"]), @"
    exit: 125
    --- stdout
    --- stderr
    ringfence: `--allow-host` is not available yet: network by host name needs the managed proxy
    hint: use `--net none`, or `--net all` for the host's whole network
    ");
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
        assert!(text.contains("native  works") && text.contains("socket-gate"), "{text}");
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

#[test]
fn completions_and_manual_pages_are_generated() {
    let fixture = fixture();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = fixture.ringfence(["completions", shell]).finish().code_is(0).out();
        assert!(script.contains("workspace-write") || script.contains("workspace"), "{shell}");
    }
    let script = fixture.ringfence(["completions", "bash"]).finish().out();
    let checked = fixture.outside("bash").args(["-n"]).stdin(script).finish();
    assert_eq!((checked.code, checked.err()), (Some(0), String::new()));
    let page = fixture.ringfence(["man", "run"]).finish().code_is(0).out();
    assert!(page.contains(".TH ringfence-run 1"));
    assert!(page.contains("\\-\\-unix\\-socket"));
}
