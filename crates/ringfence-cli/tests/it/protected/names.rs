//! Names directly below a writable root that tools outside obey.

use ringfence_testkit::needs;

use super::{inside, repository};
use crate::support::{as_each_caller, binaries, git};

const NAMES: &[&str] = &[
    ".ringfence",
    ".ringfence.toml",
    ".codex",
    ".agents",
    ".claude",
    ".mcp.json",
    ".vscode",
    ".idea",
    ".envrc",
];

#[test]
fn new_ones_are_reported_and_stay() {
    as_each_caller(|fixture| {
        for name in NAMES {
            let value = inside(fixture, &["--json"], &format!("echo new >{name}")).code_is(0).json();
            let denials = value["denials"].as_array().expect("denials");
            let told = denials.iter().any(|denial| {
                denial["kind"] == "protected"
                    && denial["target"].as_str().is_some_and(|target| target.ends_with(name))
            });
            assert!(told, "{name}: {value}");
            assert_eq!(fixture.read(format!("ws/{name}")), "new\n");
            std::fs::remove_file(fixture.ws().join(name)).expect("rm");
        }
    });
}

#[test]
fn tracked_ones_are_writable_and_reported() {
    needs!(binaries(); "git");
    as_each_caller(|fixture| {
        repository(fixture);
        fixture.write("ws/.vscode/tasks.json", "{}\n");
        fixture.write("ws/.envrc", "export A=1\n");
        git(fixture, &fixture.ws(), &["add", "-f", ".vscode", ".envrc"]);
        git(fixture, &fixture.ws(), &["commit", "-qm", "settings"]);
        git(fixture, &fixture.ws(), &["branch", "with-settings"]);
        git(fixture, &fixture.ws(), &["rm", "-rq", ".vscode", ".envrc"]);
        git(fixture, &fixture.ws(), &["commit", "-qm", "without"]);
        inside(fixture, &[], "git checkout -q with-settings && test -e .vscode/tasks.json").code_is(0);
        let value =
            inside(fixture, &["--json"], "echo more >>.envrc; git checkout -q main").code_is(1).json();
        assert!(value["denials"].to_string().contains(".envrc"), "{value}");
        inside(fixture, &[], "git checkout -qf main && test ! -e .envrc").code_is(0);
    });
}

#[test]
fn deeper_ones_are_ordinary_files() {
    as_each_caller(|fixture| {
        fixture.write("ws/deep/.envrc", "old");
        fixture.probe_inside(&[], &["append", "{ws}/deep/.envrc"]).finish().allowed();
    });
}

#[test]
fn a_symlinked_name_cannot_be_turned() {
    as_each_caller(|fixture| {
        fixture.write("ws/settings/tasks.json", "{}");
        fixture.symlink("settings", "ws/.vscode");
        fixture.write("ws/evil", "planted");
        fixture.probe_inside(&[], &["unlink", "{ws}/.vscode"]).finish().refused();
        fixture.probe_inside(&[], &["rename", "{ws}/evil", "{ws}/.vscode"]).finish().refused();
        fixture.probe_inside(&[], &["append", "{ws}/.vscode/tasks.json"]).finish().refused();
        fixture.probe_inside(&[], &["append", "{ws}/settings/tasks.json"]).finish().refused();
    });
}

#[test]
fn the_projects_own_file_may_only_tighten() {
    as_each_caller(|fixture| {
        fixture.write("host/secret", "secret");
        fixture.write("ws/.ringfence.toml", "[profile.default]\nwrite = [\"/\"]\n");
        let finished = fixture.probe_inside(&[], &["create", "{host}/new"]).finish();
        assert!(finished.code == Some(125) || finished.probed().is_some_and(|probed| !probed.allowed));
        assert!(!fixture.exists("host/new"));
    });
}
