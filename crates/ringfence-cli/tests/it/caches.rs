//! Ecosystem profiles: a host cache is read and never written, since what lies there runs outside later.

use ringfence_testkit::{Fixture, Listing};

use crate::support::as_each_caller;

fn home(fixture: &Fixture) {
    fixture.write("home/.cargo/registry/src/a/lib.rs", "host source");
    fixture.write("home/.cargo/bin/tool", "host tool");
    fixture.write("home/.cargo/config.toml", "# host\n");
    fixture.write("home/.npm/_cacache/index", "host index");
    fixture.write("home/.cache/pip/wheel", "host wheel");
    fixture.write("home/go/pkg/mod/m/m.go", "host module");
    fixture.write("home/.m2/repository/a.jar", "host jar");
}

/// A profile, and a file of its cache.
const CACHES: &[(&str, &str)] = &[
    ("rust", ".cargo/registry/src/a/lib.rs"),
    ("node", ".npm/_cacache/index"),
    ("python", ".cache/pip/wheel"),
    ("go", "go/pkg/mod/m/m.go"),
    ("java", ".m2/repository/a.jar"),
];

#[test]
fn a_cache_takes_writes_into_a_layer_of_the_workspace() {
    as_each_caller(|fixture| {
        home(fixture);
        let before = Listing::of(&fixture.home());
        for (profile, file) in CACHES {
            let run = |script: &str| {
                let script = script.replace("FILE", &format!("~/{file}"));
                fixture.shell_inside(&["--profile", profile], &script).finish().code_is(0)
            };
            let finished = run("cat FILE && echo changed >FILE && echo new >$(dirname FILE)/new && cat FILE");
            assert!(
                finished.out().starts_with("host") && finished.out().ends_with("changed\n"),
                "{}",
                finished.report()
            );
            assert_eq!(Listing::of(&fixture.home()).changes(&before), Vec::<String>::new(), "{profile}");
            // The layer is the workspace's own and lasts.
            assert_eq!(run("cat FILE $(dirname FILE)/new").out(), "changed\nnew\n", "{profile}");
            let other = fixture.mkdir("host/other");
            let script = format!("cat ~/{file}");
            let run = fixture.ringfence(["run", "--profile", profile, "--workspace"]).arg(other);
            let finished = run.args(["--", "bash", "-c", &script]).finish().code_is(0);
            assert!(finished.out().starts_with("host"), "{}", finished.report());
        }
    });
}

/// The layer is mounted by descriptor: neither the length of its path nor a colon in one is in the way.
#[test]
fn a_cache_shows_whatever_its_paths_are() {
    as_each_caller(|fixture| {
        home(fixture);
        let state = fixture.mkdir(format!("{}/{}:", "s".repeat(200), "t".repeat(60)));
        let run = fixture.shell_inside(&["--profile", "rust"], "cat ~/.cargo/registry/src/a/lib.rs");
        let finished = run.env("RINGFENCE_HOME", state).finish().code_is(0);
        assert_eq!(finished.out(), "host source", "{}", finished.report());
    });
}

#[test]
fn profiles_are_picked_from_the_files_of_the_workspace() {
    as_each_caller(|fixture| {
        home(fixture);
        let append = ["append", "{home}/.cargo/registry/src/a/lib.rs"];
        fixture.probe_inside(&[], &append).finish().refused();
        fixture.write("ws/Cargo.toml", "[package]\n");
        fixture.probe_inside(&[], &append).finish().allowed();
        fixture.probe_inside(&["--profile", "none"], &append).finish().refused();
        fixture
            .probe_inside(&["--mode", "read-only"], &["read", "{home}/.cargo/registry/src/a/lib.rs"])
            .finish()
            .allowed();
    });
}

#[test]
fn what_runs_outside_later_is_never_in_a_layer() {
    as_each_caller(|fixture| {
        home(fixture);
        let flags = ["--profile", "rust", "--profile", "node", "--profile", "java"];
        for act in [
            ["append", "{home}/.cargo/bin/tool"],
            ["create", "{home}/.cargo/bin/new"],
            ["append", "{home}/.cargo/config.toml"],
            ["create", "{home}/.cargo/config"],
            ["create", "{home}/.cargo/env"],
            ["create", "{home}/.npmrc"],
            ["create", "{home}/.m2/settings.xml"],
        ] {
            fixture.probe_inside(&flags, &act).finish().refused();
        }
    });
}

#[test]
fn a_cache_that_is_not_there_yet_breaks_nothing() {
    as_each_caller(|fixture| {
        let before = Listing::of(&fixture.home());
        for (profile, _) in CACHES {
            fixture.inside(&["--profile", profile], &["true"]).finish().code_is(0);
        }
        assert_eq!(Listing::of(&fixture.home()).changes(&before), Vec::<String>::new());
    });
}

#[test]
fn a_symlinked_cache_is_no_way_out() {
    as_each_caller(|fixture| {
        fixture.write("host/elsewhere/file", "host");
        fixture.mkdir("home/.cargo");
        fixture.symlink("../../host/elsewhere", "home/.cargo/registry");
        let before = Listing::of(&fixture.host());
        let script = "echo planted >~/.cargo/registry/file; echo planted >~/.cargo/registry/new; true";
        fixture.shell_inside(&["--profile", "rust"], script).finish().code_is(0);
        assert_eq!(Listing::of(&fixture.host()).changes(&before), Vec::<String>::new());
    });
}

#[test]
fn a_profile_of_the_configuration() {
    as_each_caller(|fixture| {
        fixture.write("host/data/file", "x");
        fixture.write("host/out/file", "x");
        let config = "[profile.mine]\nextends = [\"rust\"]\nread = [\"{host}/data\"]\nwrite = [\"{host}/out\"]\n\
                      env = [\"GIVEN=value\"]\n";
        fixture.write("state/config.toml", fixture.expand(config));
        let flags = ["--mode", "strict", "--read", "{probe}", "--profile", "mine"];
        fixture.probe_inside(&flags, &["read", "{host}/data/file"]).finish().allowed();
        fixture.probe_inside(&flags, &["append", "{host}/data/file"]).finish().refused();
        fixture.probe_inside(&flags, &["append", "{host}/out/file"]).finish().allowed();
        assert_eq!(fixture.probe_inside(&flags, &["env"]).finish().allowed()["GIVEN"], "value");
    });
}
