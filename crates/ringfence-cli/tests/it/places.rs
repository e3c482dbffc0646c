//! Workspaces of every kind and names of every kind.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use ringfence_testkit::{Caller, Fixture, Listing, UNPRIVILEGED_ID, needs};
use serde_json::json;

use crate::support::{as_each_caller, binaries, has_box};

/// A workspace that is written to and read from, with its own `/tmp`.
#[track_caller]
fn is_usable(fixture: &Fixture) {
    let script = "echo one >a && mkdir b && mv a b/a && cat b/a && echo two >/tmp/x && cat /tmp/x && pwd";
    let finished = fixture.shell_inside(&[], script).finish().code_is(0);
    let expected = format!("one\ntwo\n{}\n", fixture.ws().display());
    assert_eq!(finished.out(), expected);
    assert_eq!(fixture.read("ws/b/a"), "one\n");
}

#[test]
fn on_a_tmpfs_and_below_tmp() {
    if has_box() {
        for caller in Caller::all() {
            for base in ["/dev/shm", "/tmp", "/var/tmp"] {
                is_usable(&Fixture::below(Path::new(base), binaries(), caller));
            }
        }
    }
}

/// The host's own mounts come and go. Their end reaches the box, and uncovers nothing in it.
#[test]
fn while_the_host_takes_away_a_mount_of_its_own() {
    as_each_caller(|fixture| {
        let script = "exec unshare --user --map-root-user --mount bash -c '
            mount -t tmpfs none $HOST/medium
            $RUN -- sh -c \"touch up; sleep 1; touch done\" &
            until [ -e $WS/up ]; do sleep 0.01; done
            umount $HOST/medium && rmdir $HOST/medium && wait $!'";
        fixture.mkdir("host/medium");
        fixture.shell_outside(script).finish().code_is(0);
        assert!(fixture.exists("ws/done") && !fixture.exists("host/medium"));
    });
}

#[test]
fn below_the_callers_tmpdir() {
    as_each_caller(|fixture| {
        let run = fixture.shell_inside(&[], "echo x >own && echo $TMPDIR && touch ${TMPDIR:-/tmp}/y");
        run.env("TMPDIR", fixture.root()).finish().code_is(0);
        assert_eq!(fixture.read("ws/own"), "x\n");
        assert!(!fixture.exists("y"));
    });
}

#[test]
fn of_another_user_when_root_runs_it() {
    needs!(binaries(); "root");
    if has_box() {
        let fixture = Fixture::new(binaries(), Caller::Root);
        std::os::unix::fs::chown(fixture.ws(), Some(UNPRIVILEGED_ID), Some(UNPRIVILEGED_ID)).expect("chown");
        fixture.inside(&[], &["touch", "new"]).finish().code_is(0);
        let owner = fixture.ws().join("new").metadata().expect("the new file").uid();
        assert_eq!(owner, UNPRIVILEGED_ID);
        let ids = fixture.probe_inside(&[], &["ids"]).finish().allowed();
        assert_eq!((&ids["uid"], &ids["groups"]), (&json!(UNPRIVILEGED_ID), &json!([])), "{ids}");
    }
}

#[test]
fn of_root_when_root_runs_it() {
    needs!(binaries(); "root");
    if has_box() {
        let fixture = Fixture::new(binaries(), Caller::Root);
        let ids = fixture.probe_inside(&[], &["ids"]).finish().allowed();
        assert_eq!(ids["uid"], json!(0), "{ids}");
        fixture.inside(&[], &["touch", "new"]).finish().code_is(0);
        assert_eq!(fixture.ws().join("new").metadata().expect("the new file").uid(), 0);
        let env = fixture.probe_inside(&[], &["env"]).finish().allowed();
        assert_eq!(env["TAR_OPTIONS"], "--no-same-owner");
        // An archive of another user's files is unpacked all the same.
        fixture.write("host/file", "x");
        std::os::unix::fs::chown(fixture.host().join("file"), Some(12_345), Some(12_345)).expect("chown");
        let archive = fixture.outside("tar").args(["cf", "../ws/a.tar", "file"]).current_dir(fixture.host());
        archive.finish().code_is(0);
        fixture.shell_inside(&[], "tar xf a.tar && cat file").finish().code_is(0);
    }
}

#[test]
fn that_the_target_cannot_write() {
    needs!(binaries(); "root");
    if has_box() {
        let fixture = Fixture::new(binaries(), Caller::Root);
        // Root without capabilities obeys mode bits.
        fixture.chmod("ws", 0o555);
        let finished = fixture.inside(&[], &["true"]).finish();
        assert_eq!(finished.code, Some(125), "{}", finished.report());
        assert!(finished.err().contains("hint:"), "{}", finished.report());
    }
}

#[test]
fn with_names_that_are_not_text() {
    as_each_caller(|fixture| {
        for name in
            [&b"new\nline"[..], b"not-utf8-\xff\xfe", b" space ", b"-dash", b"quote'\"$(x)", b"\\back\t"]
        {
            let name = OsStr::from_bytes(name);
            let ws = fixture.host().join(name);
            std::fs::create_dir(&ws).expect("mkdir");
            std::fs::create_dir(ws.join(name)).expect("mkdir");
            std::fs::write(ws.join("secret"), "hidden").expect("write");
            std::fs::write(ws.join(name).join("deep"), "hidden").expect("write");
            fixture.caller().own(&ws);
            let run = fixture.ringfence(["run", "--workspace"]).arg(&ws).args(["--deny", "secret", "--deny"]);
            let run = run.arg(ws.join(name).join("deep")).args(["--write"]).arg(ws.join(name));
            let run = run.args(["--cwd"]).arg(ws.join(name)).args(["--", "sh", "-c"]);
            let run = run
                .arg("cat ../secret deep; echo made >\"./$1\"; cat \"./$1\"; pwd >pwd")
                .arg("sh")
                .arg(name);
            let finished = run.finish().code_is(0);
            assert_eq!(finished.out(), "made\n", "{}", finished.report());
            let mut pwd = ws.join(name).into_os_string().into_vec();
            pwd.push(b'\n');
            assert_eq!(std::fs::read(ws.join(name).join("pwd")).expect("pwd"), pwd);
            // JSON tells of the workspace without breaking.
            fixture.ringfence(["run", "--json", "--workspace"]).arg(&ws).args(["--", "true"]).finish().json();
        }
    });
}

#[test]
fn arguments_and_variables_pass_as_bytes() {
    as_each_caller(|fixture| {
        let words: Vec<OsString> = [&b""[..], b"-x", b"--", b"a b", b"$HOME*", b"\xff\n", b"'\"\\"]
            .map(|word| OsString::from_vec(word.to_vec()))
            .into();
        let answer = fixture.probe_inside(&[], &["args"]).args(&words).finish().code_is(0).allowed();
        let hex =
            |word: &OsString| word.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(answer, json!(words.iter().map(hex).collect::<Vec<_>>()));
        let mut entry = OsString::from("ODD=");
        entry.push(OsStr::from_bytes(b"\xff\n="));
        let run = fixture.ringfence(["run", "--workspace"]).arg(fixture.ws()).arg("--env").arg(entry);
        let run = run.arg("--").arg(&binaries().probe).args(["env-bytes", "ODD"]);
        assert_eq!(run.finish().code_is(0).allowed(), "ff0a3d");
    });
}

#[test]
fn ten_thousand_paths() {
    as_each_caller(|fixture| {
        let count = 10_000;
        let mut flags = Vec::with_capacity(2 * count);
        for number in 0..count {
            let folder = format!("ws/many/{}", number % 100);
            if number < 100 {
                fixture.mkdir(&folder);
            }
            let path = fixture.root().join(folder).join(format!("file-{number}"));
            std::fs::write(&path, "x").expect("write");
            flags.push(if number % 2 == 0 { "--deny" } else { "--read" }.to_owned());
            flags.push(path.to_string_lossy().into_owned());
        }
        fixture.caller().own(&fixture.ws().join("many"));
        let before = Listing::of(&fixture.ws());
        let script = "cat many/*/* 2>/dev/null | wc -c";
        let run = fixture
            .ringfence(["run", "--workspace"])
            .arg(fixture.ws())
            .args(flags)
            .args(["--", "sh", "-c", script]);
        let finished = run.finish().code_is(0);
        assert_eq!(finished.out().trim(), (count / 2).to_string());
        assert_eq!(Listing::of(&fixture.ws()).changes(&before), Vec::<String>::new());
    });
}

#[test]
fn nested_in_itself() {
    as_each_caller(|fixture| {
        fixture.write("host/nested.toml", "[sandbox.linux]\nnested_userns = true\n");
        fixture.mkdir("ws/state");
        let inner = "RINGFENCE_HOME={ws}/state {ringfence} run --workspace {ws} -- {probe} read {ws}/own";
        fixture.write("ws/own", "seen");
        let flags = ["--config", "{host}/nested.toml"];
        let finished = fixture.shell_inside(&flags, &fixture.expand(inner)).finish().code_is(0);
        assert_eq!(finished.allowed(), "seen", "{}", finished.report());
        let inner = inner.replace("read {ws}/own", "create {host}/new");
        fixture.shell_inside(&flags, &fixture.expand(&inner)).finish().refused();
        // Without leave to nest, the inner one says what is in its way.
        let finished = fixture.shell_inside(&[], &fixture.expand(&inner)).finish().code_is(125);
        assert!(finished.err().contains("hint:"), "{}", finished.report());
    });
}

#[test]
fn sessions_have_a_folder_and_a_tmp_of_their_own() {
    as_each_caller(|fixture| {
        let run =
            |id: &str, script: &str| fixture.ringfence(["run", "--session", id, "--", "bash", "-c", script]);
        run("demo", "echo kept >/tmp/file; echo mine >own; pwd").finish().code_is(0);
        let folder = fixture.state().join("workspaces/99e5095aacce94d035c31d3e08425401");
        assert_eq!(std::fs::read_to_string(folder.join("own")).expect("own"), "mine\n");
        assert_eq!(folder.metadata().expect("the folder").mode() & 0o777, 0o700);
        let finished = run("demo", "cat /tmp/file own").finish().code_is(0);
        assert_eq!(finished.out(), "kept\nmine\n");
        run("other", "test ! -e /tmp/file && test ! -e own").finish().code_is(0);
        run("../../escape\n", "echo x >own").finish().code_is(0);
    });
}

#[test]
fn a_sessions_tmp_has_no_size_limit_and_the_report_says_so() {
    as_each_caller(|fixture| {
        let rlimits = |place: &[&str], more: &[&str]| {
            let run = fixture.ringfence(["run", "--json"]).args(place).args(more);
            let json = run.args(["--", "true"]).finish().json();
            let layers = json["layers"].as_array().expect("layers").clone();
            let layer = layers.into_iter().find(|layer| layer["name"] == "rlimits");
            (layer.unwrap_or_default(), json["error"]["message"].to_string())
        };
        let (layer, _) = rlimits(&["--session", "demo"], &[]);
        assert_eq!(layer["status"], "partial", "{layer}");
        assert!(layer["detail"].to_string().contains("without a size limit"), "{layer}");
        let (_, error) = rlimits(&["--session", "demo"], &["--require", "rlimits"]);
        assert!(error.contains("required layer rlimits is partial"), "{error}");
        // Without a session it is a tmpfs with a limit; with the whole disk writable it is the host's.
        let ws = fixture.expand("{ws}");
        assert_eq!(rlimits(&["--workspace", &ws], &["--require", "rlimits"]).0["status"], "enforced");
        assert_eq!(rlimits(&["--session", "demo"], &["--mode", "full-access"]).0["status"], "enforced");
        let full =
            fixture.shell_inside(&[], "head -c 3M /dev/zero >/tmp/x && echo fits; df -B1M /tmp").finish();
        assert!(full.out().contains("fits"), "{}", full.report());
        fixture.write("state/config.toml", "[sandbox.linux]\ntmp_size = 1048576\n");
        fixture.shell_inside(&[], "head -c 3M /dev/zero >/tmp/x").finish().code_is(1);
    });
}

#[test]
fn a_session_is_closed_to_others_again() {
    as_each_caller(|fixture| {
        let run = |script: &str| {
            fixture
                .ringfence(["run", "--session", "demo", "--", "sh", "-c", script])
                .finish()
                .code_is(0)
                .out()
        };
        // The hashes of an id are part of the interface.
        let folders = ["workspaces", "state/tmp"]
            .map(|parent| fixture.state().join(parent).join("99e5095aacce94d035c31d3e08425401"));
        let modes = || folders.clone().map(|folder| std::fs::metadata(folder).expect("stat").mode() & 0o7777);
        run("chmod 777 . /tmp; echo kept >kept");
        assert_eq!(modes(), [0o777, 0o777], "the box has them as it likes");
        assert_eq!(run("cat kept"), "kept\n");
        assert_eq!(modes(), [0o700, 0o700]);
    });
}

#[test]
fn a_symlink_in_a_sessions_place_is_refused() {
    as_each_caller(|fixture| {
        fixture.mkdir("state/workspaces");
        fixture.chmod("state", 0o700);
        fixture.symlink(fixture.host(), "state/workspaces/99e5095aacce94d035c31d3e08425401");
        let finished =
            fixture.ringfence(["run", "--session", "demo", "--", "touch", "new"]).finish().code_is(125);
        assert!(finished.err().contains("hint:"), "{}", finished.report());
        assert!(!fixture.exists("host/new"));
    });
}

#[test]
fn the_working_folder() {
    as_each_caller(|fixture| {
        fixture.mkdir("ws/a/b");
        fixture.symlink("../host", "ws/out");
        let pwd = |flags: &[&str]| fixture.inside(flags, &["pwd"]);
        let ws = fixture.ws();
        assert_eq!(pwd(&["--cwd", "a/b"]).finish().out().trim(), ws.join("a/b").to_string_lossy());
        assert_eq!(pwd(&[]).current_dir(ws.join("a")).finish().out().trim(), ws.join("a").to_string_lossy());
        assert_eq!(pwd(&[]).current_dir("/").finish().out().trim(), ws.to_string_lossy());
        for outside in ["..", "/", "out", "a/../../host", "missing", "{host}"] {
            let finished = pwd(&["--cwd", outside]).finish();
            assert_eq!(finished.code, Some(125), "{outside}: {}", finished.report());
        }
        let value = fixture.inside(&["--json", "--cwd", "/"], &["pwd"]).finish().code_is(125).json();
        assert_eq!(value["error"]["kind"], "capability_denied", "{value}");
    });
}

#[test]
fn the_binary_itself_cannot_be_changed_from_inside() {
    as_each_caller(|fixture| {
        let copy = fixture.ws().join("ringfence");
        // By another process: a descriptor that is open for writing could be inherited by a concurrent test's
        // child, and keep the copy from being executed.
        fixture.outside("cp").arg(&binaries().ringfence).arg(&copy).finish().code_is(0);
        for act in [["append", "{ws}/ringfence"], ["unlink", "{ws}/ringfence"], ["replace", "{ws}/ringfence"]]
        {
            let run = fixture.outside(&copy).args(["run", "--workspace"]).arg(fixture.ws()).arg("--");
            let run = run.arg(&binaries().probe).arg(act[0]).arg(fixture.expand(act[1]));
            run.finish().refused();
        }
        let length = std::fs::metadata(&copy).expect("the copy").len();
        assert_eq!(length, std::fs::metadata(&binaries().ringfence).expect("the binary").len());
    });
}

#[test]
fn while_a_host_program_removes_its_socket() {
    as_each_caller(|fixture| {
        let path = fixture.host().join("service.sock");
        let socket = std::os::unix::net::UnixListener::bind(&path).expect("bind");
        let mut running = fixture.shell_inside(&[], "echo ready; sleep 0.5; echo done").spawn();
        running.wait_for("ready");
        drop(socket);
        std::fs::remove_file(&path).expect("the socket is the host's to remove");
        let finished = running.wait().code_is(0);
        assert!(finished.out().contains("done"), "{}", finished.report());
    });
}

#[test]
fn while_a_host_program_moves_a_denied_file() {
    as_each_caller(|fixture| {
        let secret = fixture.write("ws/secret", "old");
        let script = "echo ready; sleep 3; cat secret";
        let mut running = fixture.shell_inside(&["--deny", "secret"], script).spawn();
        running.wait_for("ready");
        std::fs::rename(&secret, secret.with_file_name("secret~")).expect("rename");
        fixture.write("ws/secret", "new");
        let finished = running.wait().code_is(125);
        assert!(!finished.out().contains("new"), "{}", finished.report());
        assert!(finished.err().contains("moved the protected path"), "{}", finished.report());
    });
}

/// So is a denied folder with a part that is open again.
#[test]
fn while_a_host_program_moves_a_denied_folder() {
    as_each_caller(|fixture| {
        fixture.write("ws/vault/secret", "old");
        fixture.write("ws/vault/open/file", "open");
        let flags = ["--deny", "vault", "--read", "{ws}/vault/open"];
        let script = "echo ready; sleep 3; cat vault/secret vault/open/file";
        let control = fixture.shell_inside(&flags, "cat vault/open/file; cat vault/secret").finish();
        assert!(control.code != Some(0) && control.out() == "open", "{}", control.report());
        let mut running = fixture.shell_inside(&flags, script).spawn();
        running.wait_for("ready");
        let vault = fixture.ws().join("vault");
        std::fs::rename(&vault, fixture.ws().join("vault~")).expect("rename");
        fixture.write("ws/vault/secret", "new");
        let finished = running.wait().code_is(125);
        assert!(!finished.out().contains("new"), "{}", finished.report());
        assert!(finished.err().contains("moved the protected path"), "{}", finished.report());
    });
}

#[test]
fn with_a_history_that_leads_to_nowhere() {
    as_each_caller(|fixture| {
        fixture.symlink("/dev/null", "home/.bash_history");
        let run =
            |name: &str, value: &str| fixture.inside(&[], &["true"]).env(name, value).finish().code_is(0);
        run("HISTFILE", "/dev/null");
        run("NPM_CONFIG_USERCONFIG", "/dev/null");
    });
}
