//! Deny inside allow: what is denied below a writable root stays so, whatever is done to its name, its parents or
//! its mount.

use libc::{EACCES, EBUSY, ENOENT, EPERM, EROFS, EXDEV};
use ringfence_testkit::{Fixture, Listing};

use crate::support::as_each_caller;

const SECRET: &str = "the-denied-content";
const FLAGS: &[&str] = &["--deny", "{ws}/a/b/secret", "--deny", "{ws}/a/vault"];

fn tree(fixture: &Fixture) {
    fixture.write("ws/a/b/secret", SECRET);
    fixture.write("ws/a/vault/inner", SECRET);
    fixture.mkdir("ws/a/vault/sub");
    fixture.write("ws/a/b/plain", "plain");
    fixture.write("ws/own", "own");
    fixture.mkdir("ws/own-folder");
    fixture.symlink("a/b/secret", "ws/alias");
    fixture.symlink("a", "ws/alias-folder");
}

const REFUSALS: &[i32] = &[EACCES, EPERM, EROFS, EBUSY, EXDEV, ENOENT];

/// Acts that work where nothing is denied.
const ORDINARY: &[&[&str]] = &[
    &["read", "{ws}/a/b/secret"],
    &["read", "{ws}/alias"],
    &["read", "{ws}/alias-folder/b/secret"],
    &["read", "/proc/self/cwd/a/b/secret"],
    &["read", "/proc/self/root{ws}/a/b/secret"],
    &["opath-reopen", "{ws}/a/b/secret", "r"],
    &["opath-reopen", "{ws}/a/b/secret", "w"],
    &["write", "{ws}/a/b/secret"],
    &["append", "{ws}/alias"],
    &["truncate", "{ws}/a/b/secret"],
    &["unlink", "{ws}/a/b/secret"],
    &["rename", "{ws}/a/b/secret", "{ws}/stolen"],
    &["rename", "{ws}/own", "{ws}/a/b/secret"],
    &["exchange", "{ws}/own", "{ws}/a/b/secret"],
    &["link", "{ws}/a/b/secret", "{ws}/stolen"],
    &["chmod", "{ws}/a/b/secret", "777"],
    &["opath-chmod", "{ws}/a/b/secret", "777"],
    &["chown", "{ws}/a/b/secret", "-1", "-1"],
    &["utimes", "{ws}/a/b/secret"],
    &["set-xattr", "{ws}/a/b/secret"],
    &["list", "{ws}/a/vault"],
    &["read", "{ws}/a/vault/inner"],
    &["stat", "{ws}/a/vault/inner"],
    &["create", "{ws}/a/vault/new"],
    &["mkdir", "{ws}/a/vault/new"],
    &["chmod", "{ws}/a/vault", "777"],
    &["opath-chmod", "{ws}/a/vault", "777"],
];

/// Acts that are refused for further reasons too: folders with content, privileges.
const OTHERS: &[&[&str]] = &[
    &["exec", "{ws}/a/b/secret"],
    &["rmdir", "{ws}/a/vault"],
    &["rename", "{ws}/a/vault", "{ws}/stolen"],
    &["exchange", "{ws}/a/vault", "{ws}/own-folder"],
    &["tmpfile", "{ws}/a/vault"],
    &["rename", "{ws}/a/b", "{ws}/moved"],
    &["rename", "{ws}/a", "{ws}/moved"],
    &["exchange", "{ws}/a", "{ws}/own-folder"],
    &["exchange", "{ws}/a/b", "{ws}/own-folder"],
    &["rmdir", "{ws}/a/b"],
    &["userns-umount", "{ws}/a/vault"],
    &["userns-umount", "{ws}/a/b/secret"],
    &["unshare", "user,mnt"],
    &["umount", "{ws}/a/vault"],
];

#[test]
fn every_route_to_a_denied_path_is_closed() {
    as_each_caller(|fixture| {
        tree(fixture);
        let before = Listing::of(&fixture.ws());
        for act in ORDINARY.iter().chain(OTHERS) {
            let finished = fixture.probe_inside(FLAGS, act).finish();
            let errno = finished.refused();
            assert!(REFUSALS.contains(&errno), "{act:?}: {}", finished.report());
            assert!(!finished.out().contains(SECRET));
        }
        assert_eq!(Listing::of(&fixture.ws()).changes(&before), Vec::<String>::new());
        assert_eq!(fixture.read("ws/a/b/secret"), SECRET);
        for act in ORDINARY {
            let control = Fixture::new(fixture.binaries(), fixture.caller());
            tree(&control);
            let finished = control.probe_inside(&[], act).finish();
            let worked = finished.probed().is_some_and(|probed| probed.allowed);
            assert!(worked, "{act:?} proves nothing: {}", finished.report());
        }
    });
}

#[test]
fn what_lies_beside_stays_usable() {
    as_each_caller(|fixture| {
        tree(fixture);
        for act in [
            &["append", "{ws}/a/b/plain"][..],
            &["create", "{ws}/a/b/new"],
            &["rename", "{ws}/a/b/plain", "{ws}/a/b/renamed"],
            &["create", "{ws}/a/new"],
            &["mkdir", "{ws}/a/folder"],
            &["unlink", "{ws}/a/b/renamed"],
            &["list", "{ws}/a/b"],
        ] {
            fixture.probe_inside(FLAGS, act).finish().allowed();
        }
    });
}

#[test]
fn a_relative_denial_counts_from_the_workspace() {
    as_each_caller(|fixture| {
        tree(fixture);
        fixture.mkdir("ws/elsewhere");
        let flags = ["--deny", "a/b/secret", "--cwd", "{ws}/elsewhere"];
        fixture.probe_inside(&flags, &["read", "{ws}/a/b/secret"]).finish().refused();
    });
}

#[test]
fn a_denial_through_a_symlink_denies_what_it_leads_to() {
    as_each_caller(|fixture| {
        tree(fixture);
        for flag in ["alias", "alias-folder/b/secret"] {
            let flags = ["--deny", flag];
            for path in ["{ws}/a/b/secret", "{ws}/alias", "{ws}/alias-folder/b/secret"] {
                let finished = fixture.probe_inside(&flags, &["read", path]).finish();
                assert!(REFUSALS.contains(&finished.refused()), "{flag} {path}: {}", finished.report());
            }
        }
    });
}

#[test]
fn a_deeper_grant_re_opens_and_a_deeper_denial_closes_again() {
    as_each_caller(|fixture| {
        fixture.write("ws/a/open/inner", "open");
        fixture.write("ws/a/open/shut/inner", SECRET);
        fixture.write("ws/a/inner", SECRET);
        let flags = ["--deny", "{ws}/a", "--write", "{ws}/a/open", "--deny", "{ws}/a/open/shut"];
        fixture.probe_inside(&flags, &["read", "{ws}/a/inner"]).finish().refused();
        fixture.probe_inside(&flags, &["append", "{ws}/a/open/inner"]).finish().allowed();
        fixture.probe_inside(&flags, &["read", "{ws}/a/open/shut/inner"]).finish().refused();
        // At equal depth the denial wins.
        let flags = ["--deny", "{ws}/a", "--write", "{ws}/a"];
        fixture.probe_inside(&flags, &["read", "{ws}/a/inner"]).finish().refused();
    });
}

#[test]
fn the_whole_disk_cannot_be_denied() {
    as_each_caller(|fixture| {
        for mode in ["strict", "workspace-write", "full-access"] {
            let run =
                |flags: &[&str]| fixture.inside(&[&["--mode", mode], flags].concat(), &["true"]).finish();
            let finished = run(&["--deny", "/"]).code_is(125);
            assert!(finished.err().contains("denying / as a whole"), "{mode}: {}", finished.report());
            assert!(finished.err().contains("hint:"), "{mode}: {}", finished.report());
            run(&[]).code_is(0);
        }
    });
}

/// What the box's network needs of the host's files opens none of them again, and does not keep the box from starting.
#[test]
fn a_denied_network_file_stays_so_with_a_network() {
    const FILE: &str = "/etc/resolv.conf";
    if std::fs::read(FILE).is_err() {
        println!("SKIP: this machine has no {FILE}");
        return;
    }
    as_each_caller(|fixture| {
        for network in [&["--net", "all"][..], &["--allow-host", "a.example"]] {
            for denied in [FILE, "/etc"] {
                let flags = [network, &["--deny", denied]].concat();
                let finished = fixture.probe_inside(&flags, &["read", FILE]).finish();
                assert!(REFUSALS.contains(&finished.refused()), "{flags:?}: {}", finished.report());
            }
            fixture.probe_inside(network, &["read", FILE]).finish().allowed();
        }
    });
}

#[test]
fn a_missing_path_stays_missing() {
    as_each_caller(|fixture| {
        fixture.mkdir("ws/a");
        for (path, script) in [
            ("ws/.env", "echo planted >.env"),
            ("ws/a/later", "mkdir a/later && echo planted >a/later/file"),
            ("ws/a/moved", "mkdir other && mv other a/moved"),
            ("ws/a/linked", "ln -s ../own a/linked"),
        ] {
            let flag = path.strip_prefix("ws/").expect("below the workspace");
            let finished = fixture.shell_inside(&["--deny", flag], script).finish();
            assert!(finished.code.is_some_and(|code| code != 0), "{path}: {}", finished.report());
            assert!(!fixture.exists(path), "{path} was left: {}", finished.report());
        }
    });
}

/// A hard link is a second name that no denial by path covers: it can only be said that there is one.
#[test]
fn other_names_of_a_denied_file_are_reported() {
    as_each_caller(|fixture| {
        tree(fixture);
        fixture.write("home/.netrc", SECRET);
        let mountns = |flags: &[&str]| {
            let json = fixture.inside(&[&["--json"], flags].concat(), &["true"]).finish().code_is(0).json();
            let layers = json["layers"].as_array().cloned().unwrap_or_default();
            let layer = layers.iter().find(|layer| layer["name"] == "mountns").cloned().unwrap_or_default();
            (
                layer["status"].as_str().map(String::from),
                layer["detail"].as_str().unwrap_or_default().to_owned(),
            )
        };
        let partial = Some(String::from("partial"));
        assert_ne!(mountns(FLAGS).0, partial);
        for (name, other) in [("ws/a/b/secret", "ws/second"), ("home/.netrc", "host/third")] {
            std::fs::hard_link(fixture.root().join(name), fixture.root().join(other)).expect("link");
            let (status, detail) = mountns(FLAGS);
            assert_eq!(status, partial, "{name}");
            assert!(detail.contains(&*fixture.root().join(name).to_string_lossy()), "{detail}");
        }
        let (status, detail) = mountns(&["--deny", "**/secret"]);
        assert!(status == partial && detail.contains("have other names too"), "{detail}");
        // So it is.
        fixture.probe_inside(FLAGS, &["read", "{ws}/second"]).finish().allowed();
        let required = fixture.inside(&[FLAGS, &["--require", "mountns"]].concat(), &["true"]).finish();
        assert!(required.code_is(125).err().contains("have other names too"));
    });
}

#[test]
fn swapping_symlinks_wins_no_race() {
    as_each_caller(|fixture| {
        tree(fixture);
        fixture.write("ws/public/secret", "public");
        let script = format!(
            "end=$((SECONDS + 2)); (while [ $SECONDS -lt $end ]; do ln -sfn a/b x; ln -sfn public x; done) & \
             while [ $SECONDS -lt $end ]; do cat x/secret 2>/dev/null; done | grep -c {SECRET}; wait"
        );
        let finished = fixture.shell_inside(FLAGS, &script).finish();
        assert_eq!(finished.out().trim(), "0", "{}", finished.report());
    });
}

#[test]
fn a_denied_file_is_seen_as_a_file_and_breaks_no_tool() {
    as_each_caller(|fixture| {
        tree(fixture);
        let script = "test -f a/b/secret && test -d a/vault && ls a a/b >/dev/null && find . -name plain | grep -q plain";
        fixture.shell_inside(FLAGS, script).finish().code_is(0);
        let finished = fixture
            .shell_inside(FLAGS, "grep -r denied . 2>/dev/null; tar cf - . 2>/dev/null | tar tf -")
            .finish();
        assert!(
            !finished.out().contains(SECRET) && !finished.out().contains("vault/inner"),
            "{}",
            finished.report()
        );
    });
}

#[test]
fn other_names_of_a_secret_in_the_mount_table_are_denied_too() {
    as_each_caller(|fixture| {
        fixture.write("home/.ssh/id", SECRET);
        fixture.mkdir("host/alias");
        // A bind mount of the host's, in a mount namespace made for it.
        let script = "mount --bind \"$HOME/.ssh\" \"$HOST/alias\" && cat \"$HOST/alias/id\" >/dev/null || exit 3; \
                      $RUN -- cat \"$HOST/alias/id\"";
        let words = ["--user", "--map-root-user", "--mount", "bash", "-c", script];
        let run = fixture.outside("unshare").args(words).env("HOST", fixture.host());
        let finished = run.env("RUN", fixture.expand("{ringfence} run --workspace {ws}")).finish();
        assert!(finished.code != Some(3) && finished.code != Some(0), "{}", finished.report());
        assert!(!finished.out().contains(SECRET), "{}", finished.report());
    });
}
