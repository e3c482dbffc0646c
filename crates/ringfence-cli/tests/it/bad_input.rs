//! Odd input that must work, and wrong input that must end with one clear line, a hint and exit 125.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use ringfence_testkit::{Caller, Finished, Fixture, Invocation, Listing};
use serde_json::Value;

use crate::support::as_each_caller;

/// One line of what happened without a final period, one line of what to do, nothing else, and no trace.
#[track_caller]
fn refused(fixture: &Fixture, run: Invocation) -> Finished {
    let before = Listing::of(fixture.root()).without(&fixture.state());
    let finished = run.finish().code_is(125);
    let text = finished.err();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 2, "not one message and one hint: {}", finished.report());
    assert!(!lines[0].ends_with('.') && lines[0].len() > 12, "{text}");
    assert!(lines[1].starts_with("hint: ") && !lines[1].ends_with('.'), "{text}");
    assert!(!text.contains("panicked") && !text.contains('\u{1b}'), "{text}");
    assert_eq!(finished.out(), "");
    let after = Listing::of(fixture.root()).without(&fixture.state());
    assert_eq!(after.changes(&before), Vec::<String>::new());
    finished
}

/// A run with these options that must be refused, and whose message holds the word.
#[track_caller]
fn refused_with(fixture: &Fixture, flags: &[&str], word: &str) {
    let finished = refused(fixture, fixture.inside(flags, &["touch", "ran"]));
    assert!(finished.err().contains(word), "no {word:?} in: {}", finished.report());
    let json = fixture.inside(&[flags, &["--json"]].concat(), &["touch", "ran"]).finish().code_is(125);
    let value = json.json();
    assert_eq!(value["exit_code"], Value::Null);
    for part in ["kind", "message", "hint"] {
        assert!(value["error"][part].is_string(), "{part}: {value}");
    }
    assert!(!fixture.exists("ws/ran"));
}

#[test]
fn no_home_and_no_path() {
    as_each_caller(|fixture| {
        fixture.inside(&[], &["true"]).without_env("HOME").finish().code_is(0);
        fixture.inside(&[], &["/bin/true"]).without_env("PATH").finish().code_is(0);
        fixture.inside(&[], &["true"]).without_env("PATH").finish().code_is(0);
        let bare = ["HOME", "PATH", "USER", "LANG", "TERM"];
        let run = bare.into_iter().fold(fixture.inside(&[], &["/bin/true"]), Invocation::without_env);
        run.finish().code_is(0);
        fixture
            .inside(&[], &["true"])
            .env("HOME", "")
            .env("TERM", "")
            .env("LANG", "nonsense")
            .finish()
            .code_is(0);
    });
}

#[test]
fn any_umask() {
    as_each_caller(|fixture| {
        for mask in ["0777", "0000", "0277"] {
            let script =
                format!("umask {mask}; $RUN -- sh -c 'umask; echo x >/tmp/f; mkdir /tmp/d'; echo $?");
            let finished = fixture.shell_outside(&script).finish();
            assert_eq!(finished.out(), format!("{mask}\n0\n"), "{}", finished.report());
        }
    });
}

#[test]
fn unreadable_files_in_the_workspace() {
    as_each_caller(|fixture| {
        fixture.write("ws/locked-file", "x");
        fixture.write("ws/locked/inner/file", "x");
        fixture.write("ws/plain", "plain\n");
        fixture.chmod("ws/locked-file", 0);
        fixture.chmod("ws/locked", 0);
        // What changes just before a run can't be told from what changes in it.
        std::thread::sleep(std::time::Duration::from_millis(50));
        fixture.inside(&[], &["cat", "plain"]).finish().code_is(0);
        fixture.inside(&["--deny", "locked-file", "--deny", "locked"], &["cat", "plain"]).finish().code_is(0);
        fixture.inside(&["--read", "locked-file"], &["cat", "plain"]).finish().code_is(0);
    });
}

#[test]
fn a_crowded_descriptor_table() {
    as_each_caller(|fixture| {
        let script = "for fd in $(seq 10 250); do eval \"exec $fd</dev/null\"; done; $RUN -- true";
        fixture.shell_outside(script).finish().code_is(0);
        fixture.shell_outside("ulimit -n 40; $RUN -- true").finish().code_is(0);
    });
}

#[test]
fn workspaces_that_are_none() {
    as_each_caller(|fixture| {
        fixture.write("host/file", "x");
        fixture.symlink("nowhere", "host/dangling");
        for place in ["{host}/missing", "{host}/file", "{host}/dangling", ""] {
            let place = fixture.expand(place);
            refused(fixture, fixture.ringfence(["run", "--workspace", &place, "--", "true"]));
        }
    });
}

#[test]
fn a_current_folder_that_is_gone_or_locked() {
    as_each_caller(|fixture| {
        fixture.mkdir("host/gone");
        let script = "cd $HOST/gone && rmdir $HOST/gone && exec $RINGFENCE run -- true";
        let finished = fixture.shell_outside(script).finish().code_is(125);
        assert!(finished.err().contains("hint:"), "{}", finished.report());
        // Where the workspace is named, the current folder does not matter.
        fixture.mkdir("host/gone");
        let script = "cd $HOST/gone && rmdir $HOST/gone && exec $RUN -- pwd";
        assert_eq!(
            fixture.shell_outside(script).finish().code_is(0).out().trim(),
            fixture.ws().to_string_lossy()
        );
        if fixture.caller() == Caller::User {
            fixture.mkdir("host/locked");
            let script = "cd $HOST/locked && chmod 0 $HOST/locked && $RINGFENCE run -- true; \
                          code=$?; chmod 700 $HOST/locked; exit $code";
            let finished = fixture.shell_outside(script).finish().code_is(125);
            assert!(finished.err().contains("hint:"), "{}", finished.report());
        }
    });
}

#[test]
fn values_that_are_empty_or_no_text_are_refused_by_name() {
    const PATHS: [&str; 8] =
        ["--workspace", "--cwd", "--read", "--write", "--deny", "--unix-socket", "--config", "--env"];
    const TEXTS: [&str; 15] = [
        "--mode",
        "--profile",
        "--session",
        "--device",
        "--net",
        "--allow-host",
        "--deny-host",
        "--publish",
        "--allow-loopback",
        "--timeout",
        "--max-output",
        "--memory",
        "--backend",
        "--require",
        "--ask",
    ];
    as_each_caller(|fixture| {
        let no_text = OsStr::from_bytes(b"no-\xff-text");
        let empty = PATHS.iter().chain(&TEXTS).map(|option| (option, OsStr::new("")));
        for (option, value) in empty.chain(TEXTS.iter().map(|option| (option, no_text))) {
            let mut joined = OsString::from(format!("{option}="));
            joined.push(value);
            let separate = [OsString::from(option), value.to_owned()];
            for words in [&[joined][..], &separate] {
                let run = fixture.ringfence(["run", "--write", "."]).args(words).args(["--", "touch", "ran"]);
                let finished = run.finish().code_is(125);
                assert!(finished.err().contains(&format!("`{option}`")), "{words:?}: {}", finished.report());
                assert!(finished.err().contains("hint: ") && !fixture.exists("ws/ran"));
            }
        }
        // What may be any bytes is not taken for the culprit.
        let both = fixture.ringfence(["run", "--env"]).arg(no_text).arg("--session").arg(no_text);
        let finished = both.args(["--", "true"]).finish().code_is(125);
        assert!(
            finished.err().contains("the value of `--session` is not valid UTF-8"),
            "{}",
            finished.report()
        );
        fixture.ringfence(["run", "--env"]).arg(no_text).args(["--", "true"]).finish().code_is(0);
    });
}

#[test]
fn contradictions_and_what_is_not_there_yet() {
    as_each_caller(|fixture| {
        let cases: &[(&[&str], &str)] = &[
            (&["--net", "none", "--allow-host", "example.com"], "--net"),
            (&["--session", "x"], "--session"),
            (&["--mode", "lax"], "lax"),
            (&["--timeout", "soon"], "soon"),
            (&["--timeout", "0s"], "0s"),
            (&["--max-output", "-1"], "-1"),
            (&["--require", "magic"], "magic"),
            (&["--net", "some"], "some"),
            (&["--env", "=x"], "--env"),
            (&["--profile", "no-such-profile"], "no-such-profile"),
            (&["--profile", "none", "--profile", "rust"], "none"),
            (&["--device", "no-such-device"], "no-such-device"),
            (&["--no-such-option"], "--no-such-option"),
            (&["--deny-hst", "x"], "--deny-host"),
            (&["--memory", "512M"], "--memory"),
            (&["--pids", "10"], "--pids"),
            (&["--cpu", "50%"], "--cpu"),
            (&["--net", "all", "--allow-host", "example.com"], "--net"),
            (&["--net", "all", "--deny-host", "example.com"], "--net"),
            (&["--net", "all", "--publish", "80:80"], "--net"),
            (&["--net", "all", "--allow-loopback", "80"], "--net"),
            (&["--allow-host", "a..b"], "a..b"),
            (&["--publish", "80"], "80"),
            (&["--allow-loopback", "0"], "0"),
            (&["--backend", "bwrap"], "bwrap"),
            (&["--backend", "landlock"], "landlock"),
            (&["--require", "cgroup"], "cgroup"),
            (&["--require", "proxy"], "proxy"),
        ];
        for (flags, word) in cases {
            refused_with(fixture, flags, word);
        }
        refused(fixture, fixture.ringfence(["run"]));
        let json = fixture.ringfence(["run", "--json", "--tty", "--", "true"]).finish().code_is(125).json();
        assert_eq!(json["error"]["kind"], "usage");
        refused(fixture, fixture.ringfence(["run", "--"]));
    });
}

#[test]
fn grants_that_cannot_be_given() {
    as_each_caller(|fixture| {
        fixture.symlink("nowhere", "host/dangling");
        fixture.write("host/plain", "x");
        for flags in [
            ["--read", "{host}/missing"],
            ["--write", "{host}/missing"],
            ["--write", "{host}/dangling"],
            ["--read", "{host}/plain/below"],
            ["--unix-socket", "{host}/missing.sock"],
            ["--unix-socket", "{host}/plain"],
        ] {
            refused_with(fixture, &flags, "host/");
        }
    });
}

#[test]
fn grants_without_effect_are_remarked_on() {
    as_each_caller(|fixture| {
        fixture.mkdir("ws/there");
        let flags = ["--read", "missing", "--write", "{ws}/there/missing", "--write", "there"];
        let notes = fixture.expand(
            "ringfence: granted path {ws}/missing does not exist; it lies where the box may write anyway\n\
             ringfence: granted path {ws}/there/missing does not exist; it lies where the box may write anyway\n",
        );
        let run =
            |more: &[&str]| fixture.inside(&[&flags, more].concat(), &["echo", "ran"]).finish().code_is(0);
        assert_eq!((run(&[]).out(), run(&[]).err()), ("ran\n".to_owned(), notes.clone()));
        assert_eq!(run(&["--quiet"]).err(), "");
        let json = run(&["--json"]);
        assert_eq!((&json.json()["stderr"], json.err()), (&"".into(), notes.clone()));
        let explain = fixture.ringfence(["explain", "--workspace"]).arg(fixture.ws());
        let explain = explain.args(flags.map(|word| fixture.expand(word))).finish().code_is(0);
        assert_eq!(explain.err(), notes);
        // A denial of what does not exist yet has an effect: see `a_missing_path_stays_missing`.
        assert_eq!(fixture.inside(&["--deny", "missing"], &["true"]).finish().code_is(0).err(), "");
    });
}

#[test]
fn dangerous_roots() {
    as_each_caller(|fixture| {
        fixture.mkdir("home/project");
        for flags in [
            ["--write", "/"],
            ["--write", "/usr"],
            ["--write", "/etc"],
            ["--write", "/home"],
            ["--write", "{home}"],
            ["--write", "{root}"],
            ["--write", "/var/tmp"],
        ] {
            refused_with(fixture, &flags, "--force-root");
        }
        for place in ["/", "/usr", "/etc", "{home}", "{root}"] {
            let place = fixture.expand(place);
            let finished = refused(fixture, fixture.ringfence(["run", "--workspace", &place, "--", "true"]));
            assert!(finished.err().contains("--force-root"), "{}", finished.report());
        }
        // Below the home is where work lies; and who insists gets it.
        let project = fixture.expand("{home}/project");
        fixture.ringfence(["run", "--workspace", &project, "--", "touch", "x"]).finish().code_is(0);
        let home = fixture.expand("{home}");
        fixture
            .ringfence(["run", "--force-root", "--workspace", &home, "--", "touch", "y"])
            .finish()
            .code_is(0);
        assert!(fixture.exists("home/y"));
    });
}

#[test]
fn configurations_that_are_wrong() {
    as_each_caller(|fixture| {
        let cases: &[(&str, &[&str])] = &[
            (
                "[sandbox]\ndefault_timeout_second = 5\n",
                &["default_timeout_second", "default_timeout_seconds", "2"],
            ),
            ("[sandbox]\ndefault_timeout_seconds = \"soon\"\n", &["default_timeout_seconds"]),
            ("[sandbox.linus]\nnested_userns = true\n", &["linus", "linux"]),
            ("[sandbox\n", &["1"]),
            ("[profile.x]\nmode = \"lax\"\n", &["lax"]),
            ("[sandbox]\nmax_output_bytes = -1\n", &["max_output_bytes"]),
        ];
        for (text, words) in cases {
            fixture.write("state/config.toml", text);
            let finished = refused(fixture, fixture.inside(&[], &["true"]));
            for word in *words {
                assert!(finished.err().contains(word), "no {word:?} for {text:?}: {}", finished.report());
            }
        }
        fixture.write("state/config.toml", "[profile.x]\nextends = [\"nowhere\"]\n");
        refused_with(fixture, &["--profile", "x"], "nowhere");
        fixture.write("state/config.toml", "");
        fixture.write("host/named.toml", "[sandbox]\nenable = true\n");
        refused_with(fixture, &["--config", "{host}/named.toml"], "enable");
        refused_with(fixture, &["--config", "{host}/missing.toml"], "missing.toml");
        refused_with(fixture, &["--config", "{host}"], "host");
        fixture.write("ws/.ringfence.toml", "[sandbox]\nenable = true\n");
        refused_with(fixture, &[], ".ringfence.toml");
        // A workspace's own file may not loosen.
        fixture.write("ws/.ringfence.toml", "[sandbox.linux]\nnested_userns = true\n");
        refused_with(fixture, &[], "nested_userns");
        std::fs::remove_file(fixture.ws().join(".ringfence.toml")).expect("rm");
        fixture.write("state/config.toml", "[sandbox]\nenabled = false\n");
        let value = fixture.inside(&["--json"], &["true"]).finish().code_is(125).json();
        assert_eq!(value["error"]["kind"], "disabled", "{value}");
    });
}

#[test]
fn a_home_that_cannot_be_written() {
    as_each_caller(|fixture| {
        fixture.write("host/file", "x");
        for home in ["{host}/file", "/proc/none", "/dev/null"] {
            let run = fixture.inside(&[], &["true"]).without_env("RINGFENCE_HOME");
            refused(fixture, run.env("HOME", fixture.expand(home)));
        }
        if fixture.caller() == Caller::User {
            fixture.mkdir("host/locked");
            fixture.chmod("host/locked", 0o500);
            let run = fixture.inside(&[], &["true"]).without_env("RINGFENCE_HOME");
            refused(fixture, run.env("HOME", fixture.host().join("locked")));
            let run = fixture.inside(&[], &["true"]).env("RINGFENCE_HOME", fixture.host().join("locked"));
            refused(fixture, run);
        }
        let run = fixture.inside(&[], &["true"]).env("RINGFENCE_HOME", fixture.host().join("file"));
        refused(fixture, run);
    });
}

#[test]
fn paths_that_come_and_go_during_the_start() {
    as_each_caller(|fixture| {
        let flicker = fixture.host().join("flicker");
        let end = Instant::now() + Duration::from_secs(4);
        std::thread::scope(|scope| {
            let path = &flicker;
            scope.spawn(move || {
                while Instant::now() < end {
                    let _ = std::fs::create_dir(path);
                    let _ = std::fs::write(path.join("file"), "x");
                    let _ = std::fs::remove_dir_all(path);
                    let _ = std::os::unix::fs::symlink("/etc", path);
                    let _ = std::fs::remove_file(path);
                }
            });
            while Instant::now() < end {
                for flag in ["--read", "--write", "--deny"] {
                    let finished =
                        fixture.inside(&[flag, "{host}/flicker"], &["sh", "-c", "echo ran"]).finish();
                    let known = match finished.code {
                        Some(0) => finished.out() == "ran\n",
                        Some(125) => finished.err().lines().count() == 2 && finished.err().contains("hint:"),
                        _ => false,
                    };
                    assert!(known, "{flag}: {}", finished.report());
                }
            }
        });
    });
}

/// Limits of the caller that end a process without a word where nobody looks at them.
#[test]
fn limits_that_are_too_low_are_named() {
    as_each_caller(|fixture| {
        for (limit, said) in [("-f 0", "`ulimit -f`"), ("-s 64", "`ulimit -s`")] {
            let finished =
                fixture.shell_outside(&format!("ulimit {limit}; $RUN -- touch ran")).finish().code_is(125);
            assert!(finished.err().contains(said), "{limit}: {}", finished.report());
            assert!(!fixture.exists("ws/ran"), "{limit}");
        }
        // The program has the caller's disposition of the signal.
        let ignored = "grep ^SigIgn: /proc/self/status";
        for caller in ["", "trap '' XFSZ;"] {
            let inside = fixture.shell_outside(&format!("{caller} $RUN -- {ignored}")).finish().code_is(0);
            let outside = fixture.shell_outside(&format!("{caller} {ignored}")).finish().code_is(0);
            assert_eq!(inside.out(), outside.out(), "{caller}");
        }
    });
}

#[test]
fn what_newcomers_type_gets_a_hint() {
    as_each_caller(|fixture| {
        for (program, said) in [("ls | wc", "sh -c 'ls | wc'"), ("cd", "sh -c"), ("A=b", "--env A=")] {
            let finished = fixture.inside(&[], &[program]).finish().code_is(127);
            assert!(finished.err().contains(said), "{}", finished.report());
        }
        for (profile, said) in [("nod", "did you mean `node`?"), ("foo", "[profile.foo]")] {
            let finished = fixture.inside(&["--profile", profile], &["true"]).finish().code_is(125);
            assert!(finished.err().contains(said), "{}", finished.report());
        }
    });
}
