use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;

use super::*;
use crate::usage::UsageError;

fn parse_line(line: &[&str]) -> Result<Parsed, clap::Error> {
    let argv: Vec<OsString> =
        std::iter::once("ringfence").chain(line.iter().copied()).map(OsString::from).collect();
    parse(&argv)
}

fn run(line: &[&str]) -> RunArgs {
    let line = [&["run"], line].concat();
    match parse_line(&line) {
        Ok(Parsed::Run(args)) => *args,
        other => panic!("{line:?}: {other:?}"),
    }
}

fn usage(line: &[&str]) -> (String, String) {
    match parse_line(line) {
        Ok(parsed) => panic!("{line:?} was accepted: {parsed:?}"),
        Err(error) => {
            let usage =
                UsageError::from_clap(&error, line.first().copied().filter(|name| NAMES.contains(name)));
            (usage.to_string(), usage.hint().to_owned())
        }
    }
}

#[test]
fn the_tree_is_consistent() {
    command().debug_assert();
}

#[test]
fn every_option_of_the_contract_is_there() {
    let args = run(&[
        "--mode",
        "strict",
        "--profile",
        "rust",
        "--profile",
        "git",
        "--workspace",
        "w",
        "--cwd",
        "w/c",
        "--read",
        "r",
        "--write",
        "a",
        "--write",
        "b",
        "--deny",
        "d",
        "--net",
        "public",
        "--allow-host",
        "a.example",
        "--deny-host",
        "b.example",
        "--sni",
        "log",
        "--publish",
        "127.0.0.1:8080:80",
        "--allow-loopback",
        "5432",
        "--unix-socket",
        "s",
        "--device",
        "kvm",
        "--config",
        "c.toml",
        "--force-root",
        "--no-spawn",
        "--memory",
        "512M",
        "--pids",
        "100",
        "--cpu",
        "50%",
        "--timeout",
        "60s",
        "--max-output",
        "1M",
        "--env",
        "K=V",
        "--env",
        "P",
        "--backend",
        "native",
        "--require",
        "landlock",
        "--require",
        "socket-gate",
        "--ask",
        "never",
        "--json",
        "--quiet",
        "--",
        "prog",
        "arg",
    ]);
    assert_eq!(args.policy.mode, Some(Mode::Strict));
    assert_eq!(args.policy.profile, ["rust", "git"]);
    assert_eq!(args.policy.workspace, Some(PathBuf::from("w")));
    assert_eq!(args.policy.write, [PathBuf::from("a"), PathBuf::from("b")]);
    assert_eq!(args.policy.env, ["K=V", "P"]);
    assert_eq!(args.network.net, Some(Net::Public));
    assert_eq!(args.network.allow_loopback, [5432]);
    assert_eq!(args.network.sni, Some(Sni::Log));
    assert_eq!(args.limits.memory, Some(512 << 20));
    assert_eq!(args.limits.cpu, Some(50));
    assert_eq!(args.setup.require.len(), 2);
    assert_eq!(args.setup.ask, Some(Ask::Never));
    assert!(args.json && args.setup.quiet && args.policy.no_spawn && args.policy.force_root);
    assert_eq!(args.program, ["prog", "arg"]);

    assert!(run(&["--session", "s", "--verbose", "--tty", "true"]).setup.tty);
}

#[test]
fn what_follows_the_program_is_the_programs() {
    assert_eq!(run(&["--", "ls", "--json", "--", "-x"]).program, ["ls", "--json", "--", "-x"]);
    assert_eq!(run(&["ls", "--json", "--mode", "--", "-x"]).program, ["ls", "--json", "--mode", "--", "-x"]);
    assert!(!run(&["ls", "--json"]).json);
    assert_eq!(run(&["--", "--odd-name"]).program, ["--odd-name"]);
    assert_eq!(run(&["--", "run", ""]).program, ["run", ""]);
}

#[cfg(unix)]
#[test]
fn arguments_that_are_not_text_survive() {
    use std::os::unix::ffi::OsStringExt as _;
    let odd = OsString::from_vec(b"\xff\n=\xfe".to_vec());
    let argv = ["ringfence", "run", "--write"].map(OsString::from);
    let argv =
        [&argv[..], &[odd.clone(), "--env".into(), odd.clone(), "--".into(), odd.clone(), odd.clone()]]
            .concat();
    match parse(&argv) {
        Ok(Parsed::Run(args)) => {
            assert_eq!(args.policy.write, [PathBuf::from(&odd)]);
            assert_eq!(args.policy.env.first(), Some(&odd));
            assert_eq!(args.program, [odd.clone(), odd]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_mistyped_option_is_not_taken_for_a_program() {
    let (message, hint) = usage(&["run", "--writ", "x", "--", "ls"]);
    assert_eq!(message, "unknown option `--writ`");
    assert_eq!(hint, "did you mean `--write`? see `ringfence run --help`");
}

#[test]
fn usage_errors_say_what_is_wrong_and_what_to_do() {
    let cases: &[(&[&str], &str, &str)] = &[
        (
            &["run"],
            "no PROGRAM given",
            "write the program after the options: `ringfence run -- PROGRAM [ARG]...`",
        ),
        (
            &["run", "--mode", "rw", "ls"],
            "`rw` is no value of `--mode`",
            "expected one of strict, read-only, workspace-write, full-access",
        ),
        (
            &["run", "--timeout", "0", "ls"],
            "`0` is no value of `--timeout`: 0 is no limit that a program could run under; leave the option out for no limit",
            "see `ringfence run --help`",
        ),
        (
            &["run", "--require", "x", "ls"],
            "`x` is no value of `--require`: unknown layer `x`, expected one of userns, mountns, pidns, netns, ipcns, utsns, landlock, seccomp, socket-gate, caps, cgroup, rlimits, protected, proxy",
            "see `ringfence run --help`",
        ),
        (&["run", "--json", "--tty", "ls"], "`--json` contradicts `--tty`", "see `ringfence run --help`"),
        (
            &["run", "--workspace", "a", "--session", "b", "ls"],
            "`--workspace` contradicts `--session`",
            "see `ringfence run --help`",
        ),
        (
            &["run", "--mode", "strict", "--mode", "strict", "ls"],
            "`--mode` was given more than once",
            "see `ringfence run --help`",
        ),
        (&["run", "--json=yes", "ls"], "`--json` takes no value, found `yes`", "see `ringfence run --help`"),
        (&["run", "ls", "--mode"], "", ""),
        (
            &["run", "--mode"],
            "`--mode` needs a value",
            "expected one of strict, read-only, workspace-write, full-access",
        ),
        (&["rum"], "unknown command `rum`", "did you mean `run`? see `ringfence --help`"),
        (&["doctor", "x"], "unexpected argument `x`", "see `ringfence doctor --help`"),
        (
            &["check", "rm", "-rf", "/"],
            "unexpected argument `rm`",
            "put `--` before the program: `ringfence check -- PROGRAM [ARG]...`; see `ringfence check --help`",
        ),
        (
            &["check"],
            "no PROGRAM given",
            "write the program after `--`: `ringfence check -- PROGRAM [ARG]...`",
        ),
        (&["completions"], "no SHELL given", "see `ringfence completions --help`"),
        (
            &["config", "chek"],
            "unknown command `chek`",
            "did you mean `check`? see `ringfence config --help`",
        ),
    ];
    for (line, message, hint) in cases {
        if message.is_empty() {
            assert!(parse_line(line).is_ok(), "{line:?}");
        } else {
            assert_eq!(usage(line), ((*message).to_owned(), (*hint).to_owned()), "{line:?}");
        }
    }
}

#[test]
fn help_and_version_are_no_errors() {
    for (line, kind) in [
        (&["--help"][..], ErrorKind::DisplayHelp),
        (&["run", "--help"], ErrorKind::DisplayHelp),
        (&["config", "check", "-h"], ErrorKind::DisplayHelp),
        (&["--version"], ErrorKind::DisplayVersion),
    ] {
        match parse_line(line) {
            Err(error) => assert_eq!(error.kind(), kind, "{line:?}"),
            Ok(parsed) => panic!("{line:?}: {parsed:?}"),
        }
    }
}

#[test]
fn commands_of_later_versions_are_unknown() {
    for name in ["sessions", "grants", "audit", "mcp", "hook"] {
        assert_eq!(usage(&[name]).0, format!("unknown command `{name}`"));
    }
}
