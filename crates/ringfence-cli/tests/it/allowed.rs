//! What must work in the box, so that programs do.

use std::os::unix::net::{UnixDatagram, UnixListener};

use ringfence_testkit::Fixture;

use crate::support::as_each_caller;

/// Acts that every mode allows and that leave nothing.
const EVERYWHERE: &[&[&str]] = &[
    &["pair-echo"],
    &["abstract-echo", "a-name-of-the-box"],
    &["interfaces"],
    &["thread"],
    &["syscall", "personality", "0xffffffff"],
    &["syscall", "personality", "0x40000"],
    &["proc-file", "self", "environ"],
    &["proc-file", "self", "maps"],
    &["proc-link", "self", "exe"],
    &["read", "/proc/meminfo"],
    &["read", "/proc/cpuinfo"],
    &["read", "/proc/self/cgroup"],
    &["read", "/etc/passwd"],
    &["read", "/etc/hosts"],
    &["append", "/dev/null"],
    &["append", "/dev/zero"],
    &["open-read", "/dev/urandom"],
    &["open-read", "/dev/fd/0"],
];

/// Acts in the private temp, which full access does not have.
const TEMP: &[&[&str]] = &[
    &["create", "/tmp/new"],
    &["create", "/dev/shm/new"],
    &["mkfifo", "/tmp/pipe"],
    &["bind-unix", "/tmp/socket"],
    &["tmpfile", "/tmp"],
];

const SPAWNING: &[&[&str]] =
    &[&["fork"], &["vfork"], &["spawn"], &["ptrace-child"], &["exec", "/bin/true"], &["exec", "{ws}/script"]];

const WRITING: &[&[&str]] = &[
    &["create", "{ws}/new"],
    &["append", "{ws}/own"],
    &["replace", "{ws}/own"],
    &["rename", "{ws}/own", "{ws}/folder/moved"],
    &["link", "{ws}/own", "{ws}/folder/linked"],
    &["exchange", "{ws}/own", "{ws}/other"],
    &["symlink", "/etc/passwd", "{ws}/symlink"],
    &["mkdir", "{ws}/new"],
    &["rmdir", "{ws}/empty"],
    &["unlink", "{ws}/own"],
    &["truncate", "{ws}/own"],
    &["chmod", "{ws}/own", "600"],
    &["utimes", "{ws}/own"],
    &["set-xattr", "{ws}/own"],
    &["mkfifo", "{ws}/pipe"],
    &["mknod-regular", "{ws}/node"],
    &["bind-unix", "{ws}/socket"],
    &["tmpfile", "{ws}"],
    &["tmpfile-link", "{ws}", "{ws}/folder/named"],
    &["opath-reopen", "{ws}/own", "w"],
];

const LOOPBACK: &[&[&str]] =
    &[&["loopback-echo", "v4"], &["loopback-echo", "v6"], &["loopback-udp"], &["tcp-listen", "0.0.0.0", "0"]];

fn workspace(fixture: &Fixture) {
    fixture.write("ws/own", "own");
    fixture.write("ws/other", "other");
    fixture.mkdir("ws/folder");
    fixture.mkdir("ws/empty");
    fixture.script("ws/script", "#!/bin/sh\nexit 0\n");
}

#[track_caller]
fn all_allowed(fixture: &Fixture, flags: &[&str], acts: &[&[&[&str]]]) {
    let mut refused = Vec::new();
    for act in acts.iter().copied().flatten() {
        let fresh = Fixture::new(fixture.binaries(), fixture.caller());
        workspace(&fresh);
        let finished = fresh.probe_inside(flags, act).finish();
        let answer = finished.probed();
        let exec = |probed: &ringfence_testkit::Probed| act[0] != "exec" || probed.detail["code"] == 0;
        if !answer.as_ref().is_some_and(|probed| probed.allowed && exec(probed)) {
            refused.push(finished.report());
        }
    }
    assert!(refused.is_empty(), "{flags:?}:\n{}", refused.join("\n"));
}

#[test]
fn the_default_mode() {
    as_each_caller(|fixture| all_allowed(fixture, &[], &[EVERYWHERE, TEMP, SPAWNING, WRITING, LOOPBACK]));
}

#[test]
fn the_strict_mode() {
    as_each_caller(|fixture| {
        all_allowed(fixture, &["--mode", "strict", "--read", "{probe}"], &[EVERYWHERE, TEMP, WRITING]);
    });
}

#[test]
fn the_read_only_mode() {
    as_each_caller(|fixture| {
        all_allowed(fixture, &["--mode", "read-only"], &[EVERYWHERE, SPAWNING, LOOPBACK])
    });
}

#[test]
fn the_full_access_mode() {
    as_each_caller(|fixture| {
        fixture.write("host/file", "x");
        all_allowed(fixture, &["--mode", "full-access"], &[EVERYWHERE, SPAWNING, WRITING, LOOPBACK]);
        fixture.probe_inside(&["--mode", "full-access"], &["append", "{host}/file"]).finish().allowed();
        fixture.write("home/.netrc", "readable");
        fixture.probe_inside(&["--mode", "full-access"], &["read", "{home}/.netrc"]).finish().allowed();
    });
}

#[test]
fn grants() {
    as_each_caller(|fixture| {
        fixture.write("host/read/file", "x");
        fixture.write("host/write/file", "x");
        fixture.write("host/single", "x");
        let strict = ["--mode", "strict", "--read", "{probe}"];
        let flags =
            [&strict[..], &["--read", "{host}/read", "--write", "{host}/write", "--write", "{host}/single"]]
                .concat();
        for act in [
            &["read", "{host}/read/file"][..],
            &["list", "{host}/read"],
            &["append", "{host}/write/file"],
            &["create", "{host}/write/new"],
            &["rename", "{host}/write/file", "{host}/write/moved"],
            &["append", "{host}/single"],
            &["read", "/etc/passwd"],
            &["create", "{ws}/new"],
        ] {
            fixture.probe_inside(&flags, act).finish().allowed();
        }
        // A write grant that names nothing yet can't be given, one below the workspace goes without saying.
        let finished = fixture.inside(&["--write", "{host}/missing/deeper"], &["true"]).finish().code_is(125);
        assert!(finished.err().contains("hint:"), "{}", finished.report());
        fixture.inside(&["--write", "later"], &["touch", "later"]).finish().code_is(0);
    });
}

#[test]
fn a_granted_socket() {
    as_each_caller(|fixture| {
        let bind = |path: &str| UnixListener::bind(fixture.root().join(path)).expect("bind");
        let _listeners = ["host/service", "host/other", "ws/own", "ws/other"].map(bind);
        let datagram = UnixDatagram::bind(fixture.host().join("log")).expect("bind");
        fixture.caller().own(fixture.root());
        fixture.symlink("../host/service", "ws/alias");
        let connect =
            |flags: &[&str], path: &str| fixture.probe_inside(flags, &["connect-unix", path]).finish();
        for mode in ["strict", "read-only", "workspace-write"] {
            let given: &[&str] = &["--mode", mode, "--read", "{probe}"];
            for (socket, other) in [("{host}/service", "{host}/other"), ("{ws}/own", "{ws}/other")] {
                let flags = [given, &["--unix-socket", socket]].concat();
                connect(&flags, socket).allowed();
                let hidden = [libc::EACCES, libc::ENOENT];
                assert!(hidden.contains(&connect(&flags, other).refused()), "{mode}: {other}");
                assert!(hidden.contains(&connect(given, socket).refused()), "{mode}: {socket}");
            }
            let flags = [given, &["--unix-socket", "alias"]].concat();
            connect(&flags, "{ws}/alias").allowed();
            connect(&flags, "{host}/service").allowed();
            let flags = [given, &["--unix-socket", "{host}/log"]].concat();
            fixture.probe_inside(&flags, &["send-unix", "{host}/log"]).finish().allowed();
        }
        let mut heard = [0; 4];
        assert_eq!(datagram.recv(&mut heard).expect("what was sent"), 1);
        // A socket that may be connected to may not be replaced by another.
        let replace = ["rename", "{ws}/other", "{ws}/own"];
        fixture.probe_inside(&["--unix-socket", "own"], &replace).finish().refused();
        fixture.probe_outside(&["connect-unix", "{host}/other"]).finish().allowed();
    });
}

#[test]
fn the_environment() {
    as_each_caller(|fixture| {
        let run =
            fixture.probe_inside(&["--env", "GIVEN=value", "--env", "PASSED", "--env", "UNSET"], &["env"]);
        let run = run.env("PASSED", "through").env("LC_TIME", "C").env("TZ", "UTC").env("SECRET", "x");
        let env = run.finish().code_is(0).allowed();
        for (name, value) in
            [("GIVEN", "value"), ("PASSED", "through"), ("LC_TIME", "C"), ("TZ", "UTC"), ("USER", "tester")]
        {
            assert_eq!(env[name], value, "{name}: {env}");
        }
        assert_eq!(env["HOME"], fixture.home().to_string_lossy().as_ref());
        assert!(env["PATH"].as_str().is_some_and(|path| path.contains("/usr/bin")), "{env}");
        assert!(env["RINGFENCE_SANDBOX"].is_string(), "{env}");
        assert_eq!(env["RINGFENCE_NETWORK_DISABLED"], "1");
        for absent in ["SECRET", "UNSET", "RINGFENCE_HOME"] {
            assert!(env.get(absent).is_none(), "{absent}: {env}");
        }
        let env = fixture.probe_inside(&["--net", "all"], &["env"]).finish().allowed();
        assert!(env.get("RINGFENCE_NETWORK_DISABLED").is_none(), "{env}");
    });
}

#[test]
fn a_private_home_in_strict_mode() {
    as_each_caller(|fixture| {
        fixture.write("home/visible", "x");
        // Strict mode starts no further processes: the shell's own commands do.
        let script = "test ! -e ~/visible && echo new >~/new && read line <~/new && echo $line";
        let finished = fixture.shell_inside(&["--mode", "strict"], script).finish().code_is(0);
        assert_eq!(finished.out(), "new\n");
        assert!(!fixture.exists("home/new"));
    });
}

#[test]
fn what_shells_take_for_granted() {
    as_each_caller(|fixture| {
        let script = "cat <(echo substituted); echo piped | cat /dev/stdin; echo more | cat /dev/fd/0; \
                      echo out >/dev/stdout; echo err >/dev/stderr; exec 5>file; echo five >&5; cat file; \
                      mkfifo pipe; echo through >pipe & cat pipe; wait; coproc cat; echo co >&\"${COPROC[1]}\"; \
                      read -r line <&\"${COPROC[0]}\"; echo $line; ulimit -n >/dev/null; cat /proc/sys/kernel/ostype; \
                      test -w /dev/null && hostname >/dev/null && date >/dev/null && id -u >/dev/null; \
                      cat <<<here; : >/dev/null; trap 'echo bye' EXIT";
        let outside = fixture.outside("bash").args(["-c", script]).finish().code_is(0);
        std::fs::remove_file(fixture.ws().join("pipe")).expect("rm");
        let inside = fixture.shell_inside(&[], script).finish().code_is(0);
        assert_eq!((inside.out(), inside.err()), (outside.out(), outside.err()));
    });
}
