//! Every step of the launcher is made to fail, in the real process: the error names the step, the program does
//! not run, and nothing is left.

use std::fs;
use std::time::Duration;

use ringfence_testkit::{Listing, end_all};

use crate::support::as_each_caller;

const STEPS: [&str; 13] = [
    "prepare", "clone", "idmap", "mounts", "proc", "pivot", "loopback", "init", "limits", "caps", "landlock",
    "seccomp", "exec",
];

fn host_mounts() -> String {
    fs::read_to_string("/proc/self/mountinfo").expect("the host's mount table")
}

#[test]
fn a_step_that_fails_is_named_and_leaves_nothing() {
    as_each_caller(|fixture| {
        crate::support::git(fixture, &fixture.ws(), &["init", "-q"]);
        for (number, step) in STEPS.into_iter().enumerate() {
            let places = [fixture.ws(), fixture.host()];
            let before = places.each_ref().map(|place| Listing::of(place));
            let mounts = host_mounts();
            let token = format!("8765432.{}{number:02}", std::process::id());
            let script = format!("touch ran; sleep {token}");
            let run = fixture.shell_inside(&["--json"], &script).env("RINGFENCE_TEST_FAIL_AT", step);
            let report = run.finish().code_is(125).json();
            assert_eq!(report["error"]["kind"], "launch", "{step}: {report}");
            assert_eq!(report["error"]["step"], step, "{report}");
            assert_eq!(report["exit_code"], serde_json::Value::Null, "{step}");
            assert!(end_all(&token, Duration::from_secs(1)).is_empty(), "{step}: the program ran");
            for (place, before) in places.iter().zip(&before) {
                assert_eq!(Listing::of(place).changes(before), Vec::<String>::new(), "{step}");
            }
            assert_eq!(host_mounts(), mounts, "{step}");
        }
    });
}

/// The control: without an injected fault the same run goes through.
#[test]
fn without_a_fault_the_same_run_goes_through() {
    as_each_caller(|fixture| {
        fixture.shell_inside(&["--json"], "touch ran").finish().code_is(0);
        assert!(fixture.exists("ws/ran"));
    });
}
