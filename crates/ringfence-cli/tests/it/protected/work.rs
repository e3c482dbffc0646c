//! Ordinary git work goes on.

use ringfence_testkit::{Fixture, Listing, needs};

use super::{inside, repository};
use crate::support::{as_each_caller, binaries, git};

#[track_caller]
fn works(fixture: &Fixture, script: &str) {
    let finished = inside(fixture, &[], &format!("set -e; {script}"));
    assert_eq!(finished.code, Some(0), "{script}: {}", finished.report());
}

#[test]
fn everyday_commands() {
    needs!(binaries(); "git");
    as_each_caller(|fixture| {
        repository(fixture);
        works(
            fixture,
            "echo two >>file; git add file; git commit -qm two; git log --oneline | wc -l | grep -qx 2",
        );
        works(fixture, "git checkout -qb topic; echo three >new; git add .; git commit -qm three");
        works(fixture, "git checkout -q main; echo four >other; git add .; git commit -qm four");
        works(fixture, "git checkout -q topic; git rebase -q main; git checkout -q main; git merge -q topic");
        works(fixture, "echo five >>file; git stash -q; git stash pop -q; git checkout -q file");
        works(fixture, "git tag v1; git branch other; git branch -qd other; git reset -q --hard HEAD~1");
        works(fixture, "git worktree add -q tree; cd tree; echo six >six; git add six; git commit -qm six");
        works(
            fixture,
            "cd tree; echo seven >seven; git add seven; git commit -qm seven; git checkout -q -b eight",
        );
        works(
            fixture,
            "git worktree add -q brief; git worktree remove brief; git worktree prune; git gc -q; git fsck",
        );
        works(fixture, "git rm -q file; git status --short; git restore --staged file; git checkout -q file");
        assert!(git(fixture, &fixture.ws(), &["status", "--short", "-uno"]).out().is_empty());
    });
}

#[test]
fn new_repositories() {
    needs!(binaries(); "git");
    as_each_caller(|fixture| {
        repository(fixture);
        works(fixture, "git init -q new; cd new; echo a >a; git add a; git commit -qm a; git branch b");
        works(
            fixture,
            "git clone -q . clone; cd clone; git log -q; git fetch -q; git remote -v | grep -q origin",
        );
        works(fixture, "git clone -q --bare . bare.git; git clone -q bare.git from-bare");
        works(fixture, "git init -q moved; mv moved elsewhere; cd elsewhere; git status -s");
        works(fixture, "mkdir -p deep/er; cd deep/er; git init -q; git config user.name someone");
        for folder in ["new", "clone", "elsewhere", "deep/er"] {
            assert!(fixture.exists(format!("ws/{folder}/.git/HEAD")), "{folder}");
        }
        works(fixture, "git init -q brief; rm -rf brief");
    });
}

#[test]
fn cargo_makes_new_packages() {
    let Some(cargo) = std::env::var_os("CARGO") else { return println!("SKIP: CARGO names no cargo") };
    // Another user could not read the toolchain of whoever runs the tests.
    let caller = ringfence_testkit::Caller::all()[0];
    if crate::support::has_box() {
        let fixture = Fixture::new(binaries(), caller);
        let run =
            fixture.inside(&["--write", "{home}", "--force-root"], &[]).arg(cargo).args(["new", "package"]);
        run.finish().code_is(0);
        assert!(fixture.exists("ws/package/.git/HEAD") && fixture.exists("ws/package/src/main.rs"));
    }
}

#[test]
fn the_configuration_refuses_as_documented() {
    needs!(binaries(); "git");
    as_each_caller(|fixture| {
        repository(fixture);
        let before = fixture.read("ws/.git/config");
        for script in [
            "git config user.name planted",
            "git remote add origin https://example.invalid/x",
            "git config --unset core.bare",
            "git branch -m main trunk",
        ] {
            let finished = inside(fixture, &[], script);
            assert!(
                finished.code.is_some_and(|code| code != 0 && code != 125),
                "{script}: {}",
                finished.report()
            );
        }
        assert_eq!(fixture.read("ws/.git/config"), before);
    });
}

#[test]
fn nothing_is_left_on_the_host() {
    needs!(binaries(); "git");
    as_each_caller(|fixture| {
        repository(fixture);
        fixture.mkdir("ws/nested");
        git(fixture, &fixture.ws().join("nested"), &["init", "-q"]);
        std::fs::remove_dir_all(fixture.root().join("ws/nested/.git/hooks")).expect("rm");
        fixture.write("ws/.envrc", "x");
        let before = Listing::of(fixture.root()).without(&fixture.state());
        inside(fixture, &[], "cat file >/dev/null; git status -s --no-optional-locks; true").code_is(0);
        inside(fixture, &[], "echo x >.git/hooks/pre-commit; mv nested gone; rm -rf .git/hooks; true")
            .code_is(0);
        let after = Listing::of(fixture.root()).without(&fixture.state());
        assert_eq!(after.changes(&before), Vec::<String>::new());
    });
}

#[test]
fn the_whole_git_folder_can_be_protected() {
    needs!(binaries(); "git");
    as_each_caller(|fixture| {
        repository(fixture);
        fixture.write("state/config.toml", "[sandbox.protected]\ngit = \"all\"\n");
        let finished = inside(fixture, &[], "echo two >>file; git add file");
        assert!(finished.code.is_some_and(|code| code != 0 && code != 125), "{}", finished.report());
        inside(fixture, &[], "git log --oneline && git --no-optional-locks status -s").code_is(0);
        for act in
            [["create", "{ws}/.git/commondir"], ["create", "{ws}/.git/new"], ["write", "{ws}/.git/HEAD"]]
        {
            fixture.probe_inside(&[], &act).finish().refused();
        }
    });
}

#[test]
fn a_complete_search_can_be_required() {
    as_each_caller(|fixture| {
        repository(fixture);
        let value =
            fixture.inside(&["--json", "--require", "protected"], &["true"]).finish().code_is(0).json();
        let layers = value["layers"].as_array().expect("layers");
        assert!(
            layers.iter().any(|layer| layer["name"] == "protected" && layer["status"] == "enforced"),
            "{value}"
        );
    });
}
