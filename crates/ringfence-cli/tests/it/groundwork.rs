//! The box is begun before its plan is known. What the plan makes of it must not depend on that.

use std::fs;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ringfence_testkit::{Fixture, end_all, needs};
use rustix::fs::{CWD, RenameFlags};
use rustix::process::Signal;

use crate::support::{as_each_caller, binaries};

/// Points where something is mounted, as the box sees them.
fn mount_points(fixture: &Fixture, flags: &[&str]) -> Vec<String> {
    let script = "while read -r _ _ _ _ point _; do printf '%s\\n' \"$point\"; done < /proc/self/mountinfo";
    let run = fixture.shell_inside(flags, script).finish().code_is(0);
    run.out().lines().map(ToOwned::to_owned).collect()
}

#[test]
fn nothing_is_left_of_the_old_root() {
    as_each_caller(|fixture| {
        for flags in [&[][..], &["--mode", "strict"], &["--mode", "full-access"], &["--net", "all"]] {
            let points = mount_points(fixture, flags);
            let roots = points.iter().filter(|point| *point == "/").count();
            assert_eq!(roots, 1, "{flags:?}: {points:?}");
            let script = "[ /usr/.. -ef / ] && [ -e /usr/../dev/ptmx ]";
            fixture.shell_inside(flags, script).finish().code_is(0);
        }
    });
}

/// What was begun for another plan is thrown away: the limit of the private temp is the configured one.
#[test]
fn an_unusual_plan_is_carried_out_all_the_same() {
    as_each_caller(|fixture| {
        let config =
            fixture.write("config.toml", "[sandbox.linux]\ntmp_size = 1048576\nnested_userns = true\n");
        let flags = ["--config", config.to_str().expect("a UTF-8 path")];
        let size = "stat -fc %b:%S /dev/shm";
        let run = fixture.shell_inside(&flags, size).finish().code_is(0);
        assert_eq!(run.out().trim(), "256:4096");
        let usual = fixture.shell_inside(&[], size).finish().code_is(0);
        assert_ne!(usual.out(), run.out(), "the control");
        let all = fixture.shell_inside(&["--net", "all"], "readlink /proc/self/ns/net").finish().code_is(0);
        let host = fs::read_link("/proc/self/ns/net").expect("a network namespace");
        assert_eq!(all.out().trim(), host.to_str().expect("ASCII"));
        let own = fixture.shell_inside(&[], "readlink /proc/self/ns/net").finish().code_is(0);
        assert_ne!(own.out(), all.out(), "the control");
    });
}

/// The processes of a start are moved between processors.
#[test]
fn the_program_may_use_the_processors_of_the_caller() {
    as_each_caller(|fixture| {
        let allowed = "while read -r name list; do [ $name != Cpus_allowed_list: ] || echo $list; done < /proc/self/status";
        let outside = fixture.shell_outside(allowed).finish().code_is(0);
        for _ in 0..20 {
            assert_eq!(fixture.shell_inside(&[], allowed).finish().code_is(0).out(), outside.out());
        }
        let first = outside.out().trim().split(['-', ',']).next().expect("a processor").to_owned();
        let run = fixture
            .outside("taskset")
            .args(["-c", &first])
            .args([&binaries().ringfence])
            .args(["run", "--", "sh", "-c", allowed]);
        assert_eq!(run.finish().code_is(0).out().trim(), first);
    });
}

#[test]
fn a_refused_run_leaves_no_process() {
    as_each_caller(|fixture| {
        // The refusal comes after the box was begun: a directory that is no root for anybody.
        let run = fixture.ringfence(["run", "--workspace", "/usr", "--", "true"]).finish().code_is(125);
        assert!(run.err().starts_with("ringfence: "), "{}", run.err());
        let name = fixture.binaries().ringfence.as_os_str();
        let ours = |entry: &fs::DirEntry| {
            let exe = fs::read_link(entry.path().join("exe")).unwrap_or_default();
            let home = fs::read(entry.path().join("environ")).unwrap_or_default();
            let token = fixture.home().into_os_string().into_encoded_bytes();
            exe.as_os_str() == name && home.windows(token.len()).any(|window| window == token)
        };
        let left = fs::read_dir("/proc").expect("/proc").flatten().filter(ours).count();
        assert_eq!(left, 0);
    });
}

/// A supervisor that is killed at any moment of the start takes the begun box along.
#[test]
fn a_supervisor_killed_at_the_start_leaves_no_process() {
    as_each_caller(|fixture| {
        let token = format!("7654321.{}", std::process::id());
        for moment in 0..40 {
            let run = fixture.inside(&[], &["sleep", &token]).spawn();
            thread::sleep(Duration::from_micros(150 * moment));
            run.signal(Signal::KILL);
            assert!(run.wait().code.is_none());
        }
        assert!(end_all(&token, Duration::from_secs(2)).is_empty());
        // The control: a run that nobody kills is found by its token.
        let run = fixture.inside(&[], &["sleep", &token]).spawn();
        while !is_there(&token) {
            thread::sleep(Duration::from_millis(1));
        }
        run.end();
    });
}

fn is_there(token: &str) -> bool {
    let named = |entry: &fs::DirEntry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.windows(token.len()).any(|window| window == token.as_bytes())
    };
    fs::read_dir("/proc").expect("/proc").flatten().any(|entry| named(&entry))
}

/// Two denied files that somebody outside exchanges all the time: either both are covered, or the run is refused.
#[test]
fn denied_files_that_are_exchanged_stay_denied() {
    as_each_caller(|fixture| {
        let files = ["one", "other"].map(|name| fixture.write(format!("ws/{name}"), "a secret"));
        let flags = ["--deny", "one", "--deny", "other"];
        let over = Arc::new(AtomicBool::new(false));
        let exchanger = thread::spawn({
            let (files, over) = (files.clone(), Arc::clone(&over));
            move || {
                while !over.load(Ordering::Relaxed) {
                    let [one, other] = &files;
                    rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)
                        .expect("renameat2(2)");
                }
            }
        });
        let outputs: Vec<_> =
            (0..80).map(|_| fixture.inside(&flags, &["cat", "one", "other"]).finish()).collect();
        over.store(true, Ordering::Relaxed);
        exchanger.join().expect("the exchanger");
        for finished in outputs {
            assert!(!finished.out().contains("secret"), "{}", finished.report());
        }
        let open = fixture.inside(&[], &["cat", "one", "other"]).finish().code_is(0);
        assert_eq!(open.out(), "a secreta secret", "the control");
    });
}

/// PID 1 has given up its rights before the program's first instruction.
#[test]
fn the_program_meets_a_pid_1_without_rights() {
    as_each_caller(|fixture| {
        let script = "while read -r key value; do case $key in
            CapEff:|CapPrm:|CapBnd:|NoNewPrivs:|Seccomp:) echo $key$value;; esac; done < /proc/1/status";
        for _ in 0..10 {
            let run = fixture.shell_inside(&[], script).finish().code_is(0);
            for line in ["CapPrm:0000000000000000", "CapEff:0000000000000000", "NoNewPrivs:1", "Seccomp:2"] {
                assert!(run.out().lines().any(|found| found == line), "{line} in\n{}", run.out());
            }
        }
    });
}

/// A standard stream that is a memory device is the box's own node, which root can't change; the host's it could.
#[test]
fn an_inherited_null_device_cannot_be_changed() {
    needs!(binaries(); "/usr/bin/python3");
    let script = "import os; os.fchmod(0, 0o666)";
    as_each_caller(|fixture| {
        let null = || Stdio::from(fs::File::open("/dev/null").expect("/dev/null"));
        let inside = fixture.inside(&[], &["/usr/bin/python3", "-c", script]).stream(0, null()).finish();
        assert!(inside.err().contains("Read-only file system"), "{}", inside.err());
        let same =
            "import os; a, b = os.fstat(0), os.stat('/dev/null'); assert a.st_rdev == b.st_rdev; input()";
        let read = fixture.inside(&[], &["/usr/bin/python3", "-c", same]).stream(0, null()).finish();
        assert!(read.err().contains("EOFError"), "{}", read.err());
        if fixture.caller() == ringfence_testkit::Caller::Root {
            let outside = fixture.outside("/usr/bin/python3").args(["-c", script]).stream(0, null());
            outside.finish().code_is(0);
        }
    });
}
