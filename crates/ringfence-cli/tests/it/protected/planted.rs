//! What appears during the run and would be executed outside: found at the end, moved to quarantine, reported.

use ringfence_testkit::{Caller, Fixture, Listing, needs};
use rustix::process::Signal;

use super::{inside, repository, violation};
use crate::support::{as_each_caller, binaries, git};

/// Plants something by a script; it must be gone from `path` after the run, which is a violation.
#[track_caller]
fn is_found(script: &str, path: &str, expected: &str) {
    as_each_caller(|fixture| {
        repository(fixture);
        let finished = inside(fixture, &[], script);
        violation(fixture, &finished, path);
        assert!(!contains(fixture, path, expected), "{path} is still there: {}", finished.report());
        assert!(is_quarantined(fixture, expected), "not in quarantine: {}", finished.report());
        // The next run has nothing to complain about.
        inside(fixture, &[], "true").code_is(0);
    });
}

fn contains(fixture: &Fixture, path: &str, expected: &str) -> bool {
    std::fs::read_to_string(fixture.root().join(path)).is_ok_and(|text| text.contains(expected))
}

/// Whether a file below the state folder holds the text.
fn is_quarantined(fixture: &Fixture, expected: &str) -> bool {
    fn search(path: &std::path::Path, expected: &str) -> bool {
        if path.is_dir() && !path.is_symlink() {
            let below = std::fs::read_dir(path).into_iter().flatten().flatten();
            return below.into_iter().any(|entry| search(&entry.path(), expected));
        }
        let text = std::fs::read(path).unwrap_or_default();
        String::from_utf8_lossy(&text).contains(expected)
    }
    search(&fixture.state(), expected)
}

#[test]
fn a_hook_of_a_new_repository() {
    needs!(binaries(); "git");
    is_found(
        "git init -q new; echo planted-hook >new/.git/hooks/post-commit; chmod +x new/.git/hooks/post-commit",
        "ws/new/.git/hooks/post-commit",
        "planted-hook",
    );
}

/// What lies on another file system, or on one that is mounted below the workspace, is renamed where it is.
#[test]
fn a_hook_on_another_file_system() {
    needs!(binaries(); "git", "unshare");
    as_each_caller(|fixture| {
        let script =
            "mount -t tmpfs none $WS && mkdir $WS/sub && mount -t tmpfs none $WS/sub && cd $WS || exit 1
            for repository in new sub/new; do
              hooks=$WS/$repository/.git/hooks
              $RUN -- bash -c \"git init -q $repository; mkdir -p $hooks; echo planted >$hooks/pre-push\"
              echo code-$? $(cd $hooks && ls -A | grep -v sample) $(cat $hooks/.ringfence-quarantined-1)
            done";
        let shell = fixture.outside("unshare").args(["-Urm", "bash", "-c", script]);
        let run = fixture.expand("{ringfence} run --workspace {ws}");
        let finished = shell.env("WS", fixture.ws()).env("RUN", run).finish().code_is(0);
        let line = "code-125 .ringfence-quarantined-1 planted\n";
        assert_eq!(finished.out(), line.repeat(2), "{}", finished.report());
    });
}

#[test]
fn a_hook_that_is_not_yet_executable() {
    needs!(binaries(); "git");
    is_found(
        "git init -q new; mkdir -p new/.git/hooks; echo planted-hook >new/.git/hooks/pre-push",
        "ws/new/.git/hooks/pre-push",
        "planted-hook",
    );
}

#[test]
fn a_hook_of_a_repository_that_was_moved() {
    needs!(binaries(); "git");
    is_found(
        "git init -q new; mkdir -p a/b; echo planted-hook >new/.git/hooks/pre-push; mv new a/b/moved",
        "ws/a/b/moved/.git/hooks/pre-push",
        "planted-hook",
    );
}

#[test]
fn a_hook_of_a_new_bare_repository_that_a_submodule_names() {
    needs!(binaries(); "git");
    is_found(
        "git clone -q --bare . bare.git; mkdir -p bare.git/hooks; echo planted-hook >bare.git/hooks/update; \
         printf '[submodule \"b\"]\\n\\tpath = bare.git\\n\\turl = ./bare.git\\n' >.gitmodules",
        "ws/bare.git/hooks/update",
        "planted-hook",
    );
}

#[test]
fn a_hook_of_a_repository_behind_a_gitfile() {
    needs!(binaries(); "git");
    is_found(
        "git init -q --separate-git-dir=store tree; mkdir -p store/hooks; echo planted-hook >store/hooks/pre-push",
        "ws/store/hooks/pre-push",
        "planted-hook",
    );
}

#[test]
fn hooks_where_an_existing_repository_had_none() {
    needs!(binaries(); "git");
    as_each_caller(|fixture| {
        repository(fixture);
        std::fs::remove_dir_all(fixture.ws().join(".git/hooks")).expect("rm");
        let finished = inside(fixture, &[], "mkdir .git/hooks; echo planted-hook >.git/hooks/pre-commit");
        // Prevention is better than detection; both are fine.
        if contains_hook_refusal(&finished.err()) {
            finished.code_is(1);
        } else {
            violation(fixture, &finished, "ws/.git/hooks");
        }
        assert!(!fixture.exists("ws/.git/hooks/pre-commit"));
    });
}

fn contains_hook_refusal(stderr: &str) -> bool {
    stderr.contains("Read-only file system") || stderr.contains("Permission denied")
}

#[test]
fn absent_names_that_redirect_an_existing_repository() {
    needs!(binaries(); "git");
    for (name, content) in
        [("commondir", "../elsewhere"), ("config.worktree", "[core]\n\tfsmonitor = planted")]
    {
        as_each_caller(|fixture| {
            repository(fixture);
            let finished = inside(fixture, &[], &format!("printf '{content}' >.git/{name}"));
            violation(fixture, &finished, name);
            assert!(!fixture.exists(format!("ws/.git/{name}")), "{}", finished.report());
        });
    }
}

/// Keys that make git run something, each as a line for a new repository's configuration.
const KEYS: &[(&str, &str)] = &[
    ("core", "hooksPath = planted-value"),
    ("core", "fsmonitor = planted-value"),
    ("core", "sshCommand = planted-value"),
    ("core", "gitProxy = planted-value"),
    ("core", "pager = planted-value"),
    ("core", "editor = planted-value"),
    ("core", "askPass = planted-value"),
    ("CORE", "FSMonitor = planted-value"),
    ("alias", "st = !planted-value"),
    ("filter \"x\"", "clean = planted-value"),
    ("filter \"x\"", "smudge = planted-value"),
    ("filter \"x\"", "process = planted-value"),
    ("diff \"x\"", "command = planted-value"),
    ("diff \"x\"", "textconv = planted-value"),
    ("merge \"x\"", "driver = planted-value"),
    ("credential", "helper = planted-value"),
    ("credential \"https://example.invalid\"", "helper = planted-value"),
    ("include", "path = planted-value"),
    ("includeIf \"gitdir:/\"", "path = planted-value"),
    ("gpg", "program = planted-value"),
    ("gpg \"ssh\"", "program = planted-value"),
    ("uploadpack", "packObjectsHook = planted-value"),
    ("remote \"origin\"", "url = ext::planted-value"),
    ("url \"ext::planted-value\"", "insteadOf = https://"),
];

#[test]
fn keys_that_make_git_run_something() {
    needs!(binaries(); "git");
    as_each_caller(|fixture| {
        let mut missed = Vec::new();
        for (number, (section, line)) in KEYS.iter().enumerate() {
            let script = format!(
                "git init -q r{number}; printf '[%s]\\n\\t%s\\n' '{section}' '{line}' >>r{number}/.git/config"
            );
            let finished = inside(fixture, &[], &script);
            if finished.code != Some(125)
                || contains(fixture, &format!("ws/r{number}/.git/config"), "planted-value")
            {
                missed.push(format!("[{section}] {line}: {:?} {}", finished.code, finished.err()));
            }
        }
        assert!(missed.is_empty(), "{}", missed.join("\n"));
    });
}

#[test]
fn harmless_keys_stay() {
    needs!(binaries(); "git");
    as_each_caller(|fixture| {
        let script = "git init -q new; cd new; git config user.name someone; git config alias.st status; \
                      git config remote.origin.url https://example.invalid/x; git config core.autocrlf input; \
                      git config branch.main.remote origin; git config merge.x.name harmless";
        inside(fixture, &[], script).code_is(0);
        assert!(contains(fixture, "ws/new/.git/config", "someone"));
    });
}

#[test]
fn a_crash_before_the_final_look_is_made_good_by_the_next_start() {
    needs!(binaries(); "git");
    as_each_caller(|fixture| {
        repository(fixture);
        let script = "git init -q new; mkdir -p new/.git/hooks; echo planted-hook >new/.git/hooks/pre-push; \
                      echo ready; sleep 600";
        let mut running = fixture.shell_inside(&[], script).spawn();
        running.wait_for("ready");
        running.signal(Signal::KILL);
        running.wait();
        assert!(fixture.exists("ws/new/.git/hooks/pre-push"), "nothing was planted");
        let finished = inside(fixture, &[], "true");
        assert!(!fixture.exists("ws/new/.git/hooks/pre-push"), "{}", finished.report());
        assert!(is_quarantined(fixture, "planted-hook"), "{}", finished.report());
    });
}

#[test]
fn a_job_that_plants_when_the_program_has_ended() {
    needs!(binaries(); "git");
    as_each_caller(|fixture| {
        repository(fixture);
        let script = "git init -q new; mkdir -p new/.git/hooks; \
                      (trap '' TERM HUP INT; while :; do echo planted-hook >new/.git/hooks/pre-push; done) & sleep 0.1";
        let finished = inside(fixture, &[], script);
        violation(fixture, &finished, "pre-push");
        assert!(!fixture.exists("ws/new/.git/hooks/pre-push"), "{}", finished.report());
    });
}

#[test]
fn symlinks_do_not_lead_the_quarantine_astray() {
    needs!(binaries(); "git");
    as_each_caller(|fixture| {
        repository(fixture);
        fixture.write("host/victim", "untouched");
        fixture.script("host/hooks/post-commit", "untouched");
        let before = Listing::of(&fixture.host());
        for script in [
            "git init -q a; rm -rf a/.git/hooks; ln -s ../../../host/hooks a/.git/hooks",
            "git init -q b; mkdir -p b/.git/hooks; ln -s ../../../../host/victim b/.git/hooks/pre-push",
            "git init -q c; rm -f c/.git/config; ln -s ../../../host/victim c/.git/config",
            "ln -s ../host d; git init -q e; mv e/.git e/store; ln -s store e/.git; echo x >e/store/hooks/pre-push",
        ] {
            let finished = inside(fixture, &[], script);
            assert!(!finished.err().contains("panicked"), "{}", finished.report());
            assert_eq!(Listing::of(&fixture.host()).changes(&before), Vec::<String>::new(), "{script}");
        }
        for hook in ["ws/a/.git/hooks/post-commit", "ws/b/.git/hooks/pre-push", "ws/e/store/hooks/pre-push"] {
            assert!(!fixture.root().join(hook).exists(), "{hook} would run");
        }
    });
}

#[test]
fn a_violation_is_reported_in_json() {
    needs!(binaries(); "git");
    as_each_caller(|fixture| {
        repository(fixture);
        let script =
            "echo out; git init -q new; mkdir -p new/.git/hooks; echo planted-hook >new/.git/hooks/pre-push";
        let value = inside(fixture, &["--json"], script).code_is(125).json();
        assert_eq!(value["error"]["kind"], "violation", "{value}");
        assert_eq!(value["stdout"], "out\n");
        assert_eq!(value["exit_code"], serde_json::Value::Null);
        let denials = value["denials"].as_array().expect("denials");
        let found =
            denials.iter().find(|denial| denial["kind"] == "protected").unwrap_or_else(|| panic!("{value}"));
        assert_eq!((&found["certain"], &found["source"]), (&true.into(), &"watch".into()), "{value}");
        assert!(found["target"].as_str().is_some_and(|target| target.contains("pre-push")), "{value}");
        // What was harmless stays.
        assert!(fixture.exists("ws/new/.git/HEAD"));
        git(fixture, &fixture.ws().join("new"), &["status", "-s"]);
    });
}

/// The kernel stamps changes with a clock that it advances once a tick, at most every 10 ms.
#[test]
fn what_changed_a_tick_before_the_start_is_not_the_runs_doing() {
    as_each_caller(|fixture| {
        for _ in 0..10 {
            fixture.mkdir("ws/closed");
            let script = "chmod 0 closed; sleep 0.012; exec $RUN -- true";
            fixture.shell_outside(script).finish().code_is(0);
            fixture.shell_outside("rmdir closed").finish().code_is(0);
        }
        // Closed by the run itself, it is moved away, unless root can look into it all the same.
        for mode in ["0", "311", "600"] {
            let script = format!("git init -q closed{mode}/repo && chmod {mode} closed{mode}");
            let finished = fixture.shell_inside(&[], &script).finish();
            let expected = if fixture.caller() == Caller::User { Some(125) } else { Some(0) };
            assert_eq!(finished.code, expected, "{}", finished.report());
        }
    });
}
