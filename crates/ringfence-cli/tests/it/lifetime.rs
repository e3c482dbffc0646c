//! Nothing of a run outlives it, however it ends, and it ends when its supervisor does.

use std::time::Duration;

use ringfence_testkit::{Fixture, Listing, end_all, with_token};
use rustix::process::Signal;

use crate::support::as_each_caller;

/// Time for the kernel to end what a supervisor left.
const GRACE: Duration = Duration::from_secs(60);

/// An argument of `sleep` that no other process has.
fn token() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("7654321.{}{:04}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

#[track_caller]
fn nothing_is_left(token: &str) {
    let left = end_all(token, GRACE);
    assert!(left.is_empty(), "processes outlived the run: {left:?}");
}

#[test]
fn background_jobs_end_with_the_program() {
    as_each_caller(|fixture| {
        for start in
            ["sleep T &", "setsid sleep T &", "nohup sleep T >/dev/null 2>&1 &", "(sleep T & sleep T &) &"]
        {
            let token = token();
            let script = format!("{} echo started", start.replace('T', &token));
            let finished = fixture.shell_inside(&[], &script).finish().code_is(0);
            assert_eq!(finished.out(), "started\n");
            assert!(finished.closed, "a background job holds the output open: {script}");
            nothing_is_left(&token);
        }
    });
}

#[test]
fn background_jobs_that_hold_the_output_do_not_delay_a_captured_run() {
    as_each_caller(|fixture| {
        let token = token();
        let run = fixture.shell_inside(&["--json"], &format!("setsid sleep {token} & echo started; exit 3"));
        let value = run.finish().code_is(3).json();
        assert_eq!(value["stdout"], "started\n");
        nothing_is_left(&token);
    });
}

#[test]
fn a_timeout_ends_the_whole_tree() {
    as_each_caller(|fixture| {
        // The time includes that of the start, which a busy machine lengthens.
        let got_up = ["2s", "10s", "50s"].iter().any(|time| {
            let token = token();
            let script = format!(
                "trap '' TERM INT HUP; setsid sleep {token} & (trap '' TERM; sleep {token}) & echo up; sleep {token}"
            );
            let finished = fixture.shell_inside(&["--timeout", time], &script).finish().code_is(124);
            nothing_is_left(&token);
            finished.out() == "up\n"
        });
        assert!(got_up, "every run was ended before its program had begun");
    });
}

#[test]
fn a_killed_supervisor_leaves_no_process_and_no_file() {
    as_each_caller(|fixture| {
        let temp = fixture.mkdir("temp");
        fixture.write("ws/own", "mine");
        // A repository, for the pins of protected paths.
        crate::support::git(fixture, &fixture.ws(), &["init", "-q"]);
        let places = [fixture.ws(), fixture.home(), fixture.host(), temp.clone()];
        let before = places.each_ref().map(|place| Listing::of(place));
        let token = token();
        let script = format!("setsid sleep {token} & echo ready; trap '' HUP TERM; sleep {token}");
        let mut running = fixture.shell_inside(&[], &script).env("TMPDIR", &temp).spawn();
        running.wait_for("ready");
        assert!(!with_token(&token).is_empty(), "the token is not seen outside");
        running.signal(Signal::KILL);
        nothing_is_left(&token);
        assert_eq!(running.wait().signal, Some(9));
        let after = places.each_ref().map(|place| Listing::of(place));
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(after.changes(before), Vec::<String>::new());
        }
    });
}

/// Names below `RINGFENCE_HOME` after the runs given, how many there are.
fn state_size(fixture: &Fixture) -> usize {
    fn count(path: &std::path::Path) -> usize {
        let below = std::fs::read_dir(path).into_iter().flatten().flatten();
        below.map(|entry| 1 + if entry.path().is_symlink() { 0 } else { count(&entry.path()) }).sum()
    }
    count(&fixture.state())
}

#[test]
fn the_next_start_cleans_up_after_a_killed_supervisor() {
    as_each_caller(|fixture| {
        fixture.inside(&[], &["true"]).finish().code_is(0);
        fixture.inside(&[], &["true"]).finish().code_is(0);
        let usual = state_size(fixture);
        for _ in 0..3 {
            let mut running = fixture.shell_inside(&[], "echo ready; sleep 600").spawn();
            running.wait_for("ready");
            running.signal(Signal::KILL);
            running.wait();
        }
        fixture.inside(&[], &["true"]).finish().code_is(0);
        assert_eq!(state_size(fixture), usual, "{:?}", Listing::of(&fixture.state()));
    });
}

#[test]
fn signals_to_the_supervisor_reach_the_program() {
    as_each_caller(|fixture| {
        let signals = [
            ("TERM", Signal::TERM),
            ("INT", Signal::INT),
            ("HUP", Signal::HUP),
            ("QUIT", Signal::QUIT),
            ("USR1", Signal::USR1),
            ("USR2", Signal::USR2),
        ];
        for (name, signal) in signals {
            let script = format!("trap 'echo got; exit 7' {name}; echo ready; while :; do sleep 0.02; done");
            let mut running = fixture.shell_inside(&[], &script).spawn();
            running.wait_for("ready");
            running.signal(signal);
            let finished = running.wait().code_is(7);
            assert_eq!(finished.out(), "ready\ngot\n", "{name}");
        }
    });
}

#[test]
fn a_program_ended_by_a_forwarded_signal_takes_the_tree_along() {
    as_each_caller(|fixture| {
        for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
            let token = token();
            let script = format!("setsid sleep {token} & echo ready; exec sleep {token}");
            let mut running = fixture.shell_inside(&[], &script).spawn();
            running.wait_for("ready");
            running.signal(signal);
            running.wait().code_is(code);
            nothing_is_left(&token);
        }
    });
}

#[test]
fn the_program_cannot_end_pid_1_or_reach_beyond_the_box() {
    as_each_caller(|fixture| {
        let script = "for s in KILL TERM INT HUP STOP SEGV; do kill -$s 1; done; kill -9 -1; echo alive";
        let finished = fixture.shell_inside(&[], script).finish().code_is(0);
        assert_eq!(finished.out(), "alive\n");
        // A signal to one's own group must not reach whoever shares the supervisor's group.
        let token = token();
        let inside =
            format!("sleep {token} & $RUN -- $PROBE kill-group 15; kill -0 $! && echo alive; kill -9 $!");
        let finished = fixture.outside("setsid").args(["--wait", "bash", "-c", &inside]);
        let finished = finished.env("RUN", fixture.expand("{ringfence} run --workspace {ws}"));
        let finished = finished.env("PROBE", &fixture.binaries().probe).finish();
        assert!(finished.out().contains("alive"), "{}", finished.report());
        let outside = format!("trap '' CHLD; sleep {token} & $PROBE kill-group 15; echo alive");
        let control = fixture.outside("setsid").args(["--wait", "bash", "-c", &outside]);
        let control = control.env("PROBE", &fixture.binaries().probe).finish();
        assert!(!control.out().contains("alive"), "{}", control.report());
        nothing_is_left(&token);
    });
}

#[test]
fn orphans_are_reaped() {
    as_each_caller(|fixture| {
        // Each orphan is a sleep, then for a moment a zombie, then gone.
        let script = r"for i in $(seq 200); do (sleep 0.01 &) ; done
            left() { grep -lE '^(Name:.sleep|State:.Z)' /proc/[0-9]*/status 2>/dev/null; }
            for try in $(seq 600); do left >/dev/null || exit 0; sleep 0.05; done; left";
        let finished = fixture.shell_inside(&[], script).finish().code_is(0);
        assert_eq!(finished.out(), "", "zombies: {}", finished.report());
    });
}

#[test]
fn many_runs_at_once_in_one_workspace_finish() {
    as_each_caller(|fixture| {
        crate::support::git(fixture, &fixture.ws(), &["init", "-q"]);
        let runs: Vec<_> = (0..40)
            .map(|n| fixture.shell_inside(&[], &format!("echo {n} >file-{n}; cat file-{n}")).spawn())
            .collect();
        for (n, run) in runs.into_iter().enumerate() {
            assert_eq!(run.wait().code_is(0).out(), format!("{n}\n"));
        }
    });
}

#[test]
fn a_run_leaves_the_host_as_it_was() {
    as_each_caller(|fixture| {
        fixture.write("ws/own", "mine");
        fixture.write("home/.netrc", "secret");
        fixture.write("home/.ssh/key", "secret");
        crate::support::git(fixture, &fixture.ws(), &["init", "-q"]);
        let places = [fixture.ws(), fixture.home(), fixture.host()];
        let before = places.each_ref().map(|place| Listing::of(place));
        for mode in ["strict", "read-only", "workspace-write", "full-access"] {
            fixture.inside(&["--mode", mode], &["true"]).finish().code_is(0);
            let denied = fixture.inside(&["--mode", mode, "--deny", "missing", "--deny", "own"], &["true"]);
            denied.finish().code_is(0);
        }
        for (place, before) in places.iter().zip(&before) {
            assert_eq!(Listing::of(place).changes(before), Vec::<String>::new());
        }
    });
}
