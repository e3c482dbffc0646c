//! Denials by pattern: what they stand for at the start is denied like a path that was named, and the report says
//! that this is all.

use libc::{EACCES, EBUSY, ENOENT, EPERM, EROFS, EXDEV};
use ringfence_testkit::{Caller, Finished, Fixture, Listing};
use serde_json::Value;

use crate::support::as_each_caller;

const SECRET: &str = "the-denied-content";
const FLAGS: &[&str] = &["--deny", "**/*.pem", "--deny", "vault-?"];
const REFUSALS: &[i32] = &[EACCES, EPERM, EROFS, EBUSY, EXDEV];

fn tree(fixture: &Fixture) {
    for file in ["top.pem", "a/b/key.pem", "a/.hidden.pem", "vault-1/inner"] {
        fixture.write(format!("ws/{file}"), SECRET);
    }
    fixture.write("ws/a/b/plain", "plain");
    fixture.write("ws/target", SECRET);
    fixture.symlink("target", "ws/link.pem");
    fixture.symlink("a/b/key.pem", "ws/alias");
}

/// The layer's line in the JSON of a run.
fn layer(finished: &Finished, name: &str) -> Value {
    let layers = finished.json()["layers"].clone();
    let found =
        layers.as_array().and_then(|layers| layers.iter().find(|layer| layer["name"] == name)).cloned();
    found.unwrap_or_else(|| panic!("{name}: {layers}"))
}

#[test]
fn what_a_pattern_stands_for_is_denied() {
    as_each_caller(|fixture| {
        tree(fixture);
        let acts: &[&[&str]] = &[
            &["read", "{ws}/top.pem"],
            &["read", "{ws}/a/b/key.pem"],
            &["read", "{ws}/a/.hidden.pem"],
            &["read", "{ws}/alias"],
            &["read", "{ws}/link.pem"],
            &["read", "{ws}/target"],
            &["read", "{ws}/vault-1/inner"],
            &["list", "{ws}/vault-1"],
            &["create", "{ws}/vault-1/new"],
            &["write", "{ws}/a/b/key.pem"],
            &["link", "{ws}/top.pem", "{ws}/stolen"],
            &["unlink", "{ws}/top.pem"],
            &["rename", "{ws}/top.pem", "{ws}/stolen"],
            &["rename", "{ws}/a", "{ws}/moved"],
            &["rename", "{ws}/a/b", "{ws}/moved"],
        ];
        let before = Listing::of(&fixture.ws());
        for act in acts {
            let finished = fixture.probe_inside(FLAGS, act).finish();
            assert!(REFUSALS.contains(&finished.refused()), "{act:?}: {}", finished.report());
            assert!(!finished.out().contains(SECRET));
        }
        assert_eq!(Listing::of(&fixture.ws()).changes(&before), Vec::<String>::new());
        for act in acts {
            let control = Fixture::new(fixture.binaries(), fixture.caller());
            tree(&control);
            control.probe_inside(&[], act).finish().allowed();
        }
    });
}

#[test]
fn a_grant_below_a_match_opens_no_other_match() {
    as_each_caller(|fixture| {
        for file in ["x.pem/y.pem", "x.pem/plain", "x.pem/in/y.pem", "x.pem/in/plain"] {
            fixture.write(format!("ws/{file}"), SECRET);
        }
        let read = |flags: &[&str], path: &str| {
            fixture.probe_inside(&[&["--deny", "**/*.pem"], flags].concat(), &["read", path]).finish()
        };
        let refused = |flags: &[&str], path: &str| {
            let finished = read(flags, path);
            // Of a denied directory only what a grant opens again is there.
            let errno = finished.refused();
            assert!(errno == ENOENT || REFUSALS.contains(&errno), "{path}: {}", finished.report());
        };
        refused(&["--read", "x.pem/y.pem"], "{ws}/x.pem/y.pem");
        let flags = ["--write", "x.pem/in", "--read", "x.pem/plain"];
        for path in ["{ws}/x.pem/y.pem", "{ws}/x.pem/in/y.pem"] {
            refused(&flags, path);
            fixture.probe_inside(&[], &["read", path]).finish().allowed();
        }
        read(&flags, "{ws}/x.pem/plain").allowed();
        fixture
            .probe_inside(&[&["--deny", "**/*.pem"], &flags[..]].concat(), &["append", "{ws}/x.pem/in/plain"])
            .finish()
            .allowed();
    });
}

#[test]
fn what_it_does_not_stand_for_stays_usable() {
    as_each_caller(|fixture| {
        tree(fixture);
        for act in [
            &["append", "{ws}/a/b/plain"][..],
            &["create", "{ws}/a/b/new.txt"],
            &["create", "{ws}/vault-22"],
            &["list", "{ws}/a/b"],
            // The report says that this is so.
            &["create", "{ws}/a/later.pem"],
        ] {
            fixture.probe_inside(FLAGS, act).finish().allowed();
        }
        // At the next start it exists.
        assert!(
            REFUSALS.contains(&fixture.probe_inside(FLAGS, &["read", "{ws}/a/later.pem"]).finish().refused())
        );
    });
}

#[test]
fn the_report_says_what_is_not_covered() {
    as_each_caller(|fixture| {
        tree(fixture);
        let json = |flags: &[&str]| fixture.inside(&[&["--json"], flags].concat(), &["true"]).finish();
        let partial = layer(&json(FLAGS).code_is(0), "mountns");
        assert_eq!(partial["status"], "partial");
        let detail = partial["detail"].as_str().unwrap();
        assert!(detail.contains("not what appears later"), "{detail}");
        assert!(detail.contains(&fixture.expand("{ws}/**/*.pem, {ws}/vault-?")), "{detail}");
        assert_eq!(layer(&json(&["--deny", "top.pem"]).code_is(0), "mountns")["status"], "enforced");

        let required = json(&[FLAGS, &["--require", "mountns"]].concat()).code_is(125).json();
        assert!(required["error"]["message"].as_str().unwrap().contains("required layer mountns is partial"));
        json(&["--deny", "top.pem", "--require", "mountns"]).code_is(0);
    });
}

#[test]
fn a_file_of_the_patterns_name_does_not_switch_it_off() {
    as_each_caller(|fixture| {
        tree(fixture);
        fixture.write("ws/**/*.pem", "decoy");
        for path in ["{ws}/a/b/key.pem", "{ws}/**/*.pem"] {
            let finished = fixture.probe_inside(FLAGS, &["read", path]).finish();
            assert!(REFUSALS.contains(&finished.refused()), "{path}: {}", finished.report());
        }
    });
}

#[test]
fn patterns_come_from_the_configuration_too() {
    as_each_caller(|fixture| {
        tree(fixture);
        fixture.write("state/config.toml", "[profile.mine]\ndeny = [\"**/key.*\"]\n");
        let read = |flags: &[&str], path: &str| fixture.probe_inside(flags, &["read", path]).finish();
        read(&[], "{ws}/a/b/key.pem").allowed();
        assert!(REFUSALS.contains(&read(&["--profile", "mine"], "{ws}/a/b/key.pem").refused()));
        read(&["--profile", "mine"], "{ws}/top.pem").allowed();
        fixture.write("state/config.toml", "[profile.mine]\ndeny = [\"[\"]\n");
        let refused = fixture.inside(&["--profile", "mine"], &["true"]).finish().code_is(125);
        assert!(refused.err().contains("has no meaning"), "{}", refused.report());
    });
}

#[test]
fn a_session_expands_its_patterns_for_each_command() {
    as_each_caller(|fixture| {
        let run = |flags: &[&str], argv: &[&str]| {
            let run = fixture.ringfence(["run", "--session", "s"]).args(flags).arg("--");
            run.args(argv.iter().map(|word| fixture.expand(word))).finish()
        };
        run(FLAGS, &["sh", "-c", "echo text >new.pem; cat new.pem"]).code_is(0);
        run(&[], &["cat", "new.pem"]).code_is(0);
        run(FLAGS, &["cat", "new.pem"]).code_is(1);
    });
}

#[test]
fn what_cannot_be_expanded_is_refused() {
    as_each_caller(|fixture| {
        tree(fixture);
        let refused = |flags: &[&str], message: &str| {
            let finished = fixture.inside(flags, &["touch", "ran"]).finish().code_is(125);
            assert!(finished.err().contains(message), "{}", finished.report());
            assert!(finished.err().contains("hint: "), "{}", finished.report());
            assert!(!fixture.exists("ws/ran"));
        };
        refused(&["--deny", "a["], &fixture.expand("pattern {ws}/a[ has no meaning"));
        refused(&["--deny", "../*.pem"], "holds `..`");

        let read = |path: &str| fixture.probe_inside(FLAGS, &["read", path]).finish().refused();
        // What is closed right before a run counts as closed by it.
        let settle = || std::thread::sleep(std::time::Duration::from_millis(50));
        // The box could open up what is its own, in this run or an earlier one.
        for mode in [0o311, 0o600, 0o000] {
            fixture.chmod("ws/a", mode);
            settle();
            match fixture.caller() {
                Caller::User => refused(&["--deny", "**/*.pem"], "which cannot be listed"),
                Caller::Root => assert!(REFUSALS.contains(&read("{ws}/a/b/key.pem"))),
            }
            let open = fixture.expand("chmod 755 {ws}/a; cat {ws}/a/b/key.pem");
            let run = fixture.shell_inside(&["--deny", "a/b/key.pem"], &open).finish();
            assert_ne!(run.code, Some(0), "{mode:o}: {}", run.report());
            fixture.chmod("ws/a", mode);
        }
        fixture.chmod("ws/a", 0o755);
        fixture.shell_inside(&[], "cat a/b/key.pem").finish().code_is(0);
    });
}

#[test]
fn explain_names_the_pattern_and_what_it_stands_for() {
    as_each_caller(|fixture| {
        tree(fixture);
        let explain = |flags: &[&str]| {
            let explain = fixture.ringfence(["explain", "--workspace"]).arg(fixture.ws()).args(flags);
            explain.args(["--", "true"]).finish().code_is(0)
        };
        let text = explain(FLAGS).out();
        for line in
            ["{ws}/**/*.pem (what exists now)", "hidden     {ws}/a/b/key.pem", "not what appears later"]
        {
            assert!(text.contains(&fixture.expand(line)), "{line}: {text}");
        }
        let value = explain(&[FLAGS, &["--json"]].concat()).json();
        assert_eq!(value["policy"]["deny_patterns"][0], fixture.expand("{ws}/**/*.pem"));
        let denied = value["policy"]["deny"].as_array().unwrap();
        for path in ["{ws}/top.pem", "{ws}/target", "{ws}/vault-1"] {
            assert!(denied.contains(&fixture.expand(path).into()), "{path}: {denied:?}");
        }
    });
}
