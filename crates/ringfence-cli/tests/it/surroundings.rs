//! Hosts of other shapes: what a container, a chroot, a user namespace or a limit around Ringfence leaves. Each run
//! works, or is refused with one line and a hint before the program starts.

use ringfence_testkit::{Caller, Fixture, UNPRIVILEGED_ID, needs};

use crate::support::{as_each_caller, binaries, has_box};

/// Where it works: what is run outside, with `$RUN` as the beginning of a run.
const WORKING: &[&str] = &[
    "unshare -Ur $RUN",
    "unshare -Urm $RUN",
    "unshare -Urmpf --mount-proc $RUN",
    "unshare -Urmpf bash -c 'mount -t proc -o hidepid=2 proc /proc && exec \"$@\"' . $RUN",
    "unshare -Urm bash -c 'mount -t tmpfs none /sys && exec \"$@\"' . $RUN",
    "bwrap --dev-bind / / $RUN",
    "bwrap --unshare-all --dev-bind / / --proc /proc $RUN",
    "bwrap --unshare-all --ro-bind / / --bind $ROOT $ROOT --dev /dev --proc /proc $RUN",
    "umask 0777; $RUN",
    "ulimit -n 64; $RUN",
    "ulimit -l 0; ulimit -c 0; ulimit -i 0; ulimit -q 0; $RUN",
    "nice -n 19 $RUN",
    "ionice -c 3 $RUN",
    "taskset -c $(taskset -cp $$ | sed 's/.*: //; s/[,-].*//') $RUN",
];

/// Where it can't work: the same, and what is said about it.
const REFUSED: &[(&str, &str)] = &[
    ("unshare -U $RUN", "hint: this user has no id in its user namespace"),
    (
        "unshare -Urm bash -c 'mount --rbind / $HOST && exec chroot $HOST \"$@\"' . $RUN",
        "or chroot); `ringfence doctor`",
    ),
    (
        "unshare -Urm bash -c 'mount -t tmpfs none /proc && exec \"$@\"' . $RUN",
        "hint: mount it: `mount -t proc",
    ),
    (
        "unshare -Urm bash -c 'mount --bind -o ro /proc /proc; mount -o remount,bind,ro /proc; exec \"$@\"' . $RUN",
        "/proc around this process is read-only",
    ),
    (
        "unshare -Urm bash -c 'mount -t tmpfs none /dev && exec \"$@\"' . $RUN",
        "hint: a device is missing here",
    ),
    ("ulimit -n 5; $RUN", "hint: the limit of 5 open files is too low"),
    ("RINGFENCE_SANDBOX=native; export RINGFENCE_SANDBOX; unshare -U $RUN", "no id in its user namespace"),
    ("$RUN env RINGFENCE_HOME=/tmp/x $RUN", "hint: this is a box of Ringfence already"),
];

fn outside(fixture: &Fixture, script: &str) -> ringfence_testkit::Finished {
    let run = fixture.expand("{ringfence} run --workspace {ws} --");
    let script = format!("{script} touch {}", fixture.expand("{ws}/ran"));
    let shell = fixture.outside("bash").args(["-c", &script]).env("RUN", run);
    shell.env("HOST", fixture.host()).env("ROOT", fixture.root()).finish()
}

#[test]
fn a_box_can_be_made_in_other_surroundings() {
    needs!(binaries(); "unshare", "bwrap", "taskset");
    as_each_caller(|fixture| {
        for script in WORKING {
            let finished = outside(fixture, script).code_is(0);
            assert!(fixture.exists("ws/ran"), "{script}: {}", finished.report());
            std::fs::remove_file(fixture.ws().join("ran")).expect("rm");
        }
    });
}

#[test]
fn what_keeps_a_box_from_being_made_is_named() {
    needs!(binaries(); "unshare");
    as_each_caller(|fixture| {
        for (script, hint) in REFUSED {
            let finished = outside(fixture, script).code_is(125);
            assert!(finished.err().contains(hint), "{script}: {}", finished.report());
            assert_eq!(finished.err().lines().count(), 2, "{script}: {}", finished.report());
            assert!(!fixture.exists("ws/ran"), "{script}");
        }
    });
}

/// A hard limit of 0 is the caller's, who alone could raise it to what stops core handlers.
#[test]
fn a_core_limit_that_starts_handlers_is_reported() {
    as_each_caller(|fixture| {
        let rlimits = |limit: &str| {
            let script =
                fixture.expand(&format!("{limit}; {{ringfence}} run --json --workspace {{ws}} -- true"));
            let json = fixture.outside("bash").args(["-c", &script]).finish().code_is(0).json();
            let layers = json["layers"].as_array().cloned().unwrap_or_default();
            let layer = layers.into_iter().find(|layer| layer["name"] == "rlimits").unwrap_or_default();
            layer["status"].as_str().map(String::from)
        };
        assert_eq!(rlimits("ulimit -Sc 0; ulimit -Hc 0").as_deref(), Some("partial"));
        // Nobody but root raises a hard limit, which may be 0 already.
        let above = "[ $(ulimit -Hc) != 0 ] || ulimit -Hc 1 2>/dev/null || exit 0";
        if fixture.caller() == Caller::Root {
            assert_eq!(rlimits(above).as_deref(), Some("enforced"));
        }
    });
}

/// The arguments that Ringfence was started with name what is denied; its copy in the box shows none of them, however
/// many there are.
#[test]
fn arguments_of_any_length_do_not_show_in_the_box() {
    as_each_caller(|fixture| {
        // More than 2 MiB of them, for which the stack has to be larger than usual.
        let script = "ulimit -s 65536 || exit 77; printf -v name %0200d 0; printf -v path \"/absent/$name%.0s\" {1..19}; \
                      for n in {1..560}; do denied+=(--deny \"$path$n\"); done; \
                      exec {ringfence} run --workspace {ws} \"${denied[@]}\" -- cat /proc/$PROCESS/cmdline";
        let run = |process: &str| {
            let bash = fixture.outside("bash").args(["-c", &fixture.expand(script)]);
            bash.env("PROCESS", process).finish()
        };
        let shown = run("1");
        if shown.code == Some(77) {
            println!("SKIP: the stack's limit can't be raised");
            return;
        }
        let shown = shown.code_is(0).out();
        assert!(shown.bytes().all(|byte| byte == 0), "{:?}", &shown[..shown.len().min(100)]);
        assert!(run("self").code_is(0).out().contains("/proc/self/cmdline"), "the control");
    });
}

/// Groups that nobody can drop, since the user namespace around was made by an ordinary user, remain and are said to;
/// those that root can drop are dropped.
#[test]
fn supplementary_groups_are_dropped_or_reported() {
    needs!(binaries(); "root", "unshare", "setpriv");
    if !has_box() {
        return;
    }
    let run = |caller: Caller, before: &str| {
        let fixture = Fixture::new(binaries(), caller);
        let run = fixture.expand("{ringfence} run --json --workspace {ws} -- id -G");
        // Started by root, whoever owns the workspace.
        let mut command = Caller::Root.command("bash");
        command.args(["-c", &format!("{before} {run}")]).current_dir(fixture.ws());
        command.env("HOME", fixture.home()).env("RINGFENCE_HOME", fixture.state());
        let json = ringfence_testkit::Invocation::new(command).finish().code_is(0).json();
        let layers = json["layers"].as_array().cloned().unwrap_or_default();
        let userns = layers.iter().find(|layer| layer["name"] == "userns").cloned().unwrap_or_default();
        let groups = json["stdout"].as_str().unwrap_or_default().split_whitespace().count();
        (groups, userns["detail"].as_str().unwrap_or_default().to_owned())
    };
    let user = format!("setpriv --reuid {UNPRIVILEGED_ID} --regid {UNPRIVILEGED_ID} --groups 4,24");
    for before in [user.clone(), format!("{user} unshare -Ur")] {
        let (groups, detail) = run(Caller::User, &before);
        assert!(
            groups > 1 && detail.contains("supplementary groups of the caller remain"),
            "{before}: {detail}"
        );
    }
    let (groups, detail) = run(Caller::Root, "setpriv --groups 4,24");
    assert!(groups == 1 && !detail.contains("remain"), "{detail}");
}
