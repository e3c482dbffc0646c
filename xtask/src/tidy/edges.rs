use toml::{Table, Value};

use super::source::{Source, line_of, words};
use super::{Tree, Violation};

/// What each crate may depend on inside the workspace. A missing crate is a violation: the drawing comes first.
const EDGES: &[(&str, &[&str])] = &[
    ("ringfence-types", &[]),
    ("ringfence-policy", &["ringfence-types"]),
    ("ringfence-plan", &["ringfence-types"]),
    ("ringfence-gate", &["ringfence-types", "ringfence-policy", "ringfence-plan"]),
    (
        "ringfence-linux",
        &["ringfence-types", "ringfence-policy", "ringfence-plan", "ringfence-gate", "ringfence-proxy"],
    ),
    (
        "ringfence",
        &["ringfence-types", "ringfence-policy", "ringfence-plan", "ringfence-gate", "ringfence-linux"],
    ),
    ("ringfence-proxy", &["ringfence-types"]),
    ("ringfence-cli", &["ringfence-types", "ringfence-plan", "ringfence", "ringfence-proxy"]),
    ("ringfence-testkit", &["ringfence-types", "ringfence-gate"]),
    ("ringfence-probe", &[]),
    ("xtask", &[]),
];

/// Outside crates that only some may use: the others do no I/O, or stay small.
const RESTRICTED: &[(&str, &[&str])] = &[
    ("libc", &["ringfence-linux", "ringfence-probe"]),
    ("landlock", &["ringfence-linux"]),
    (
        "rustix",
        &[
            "ringfence-gate",
            "ringfence-linux",
            "ringfence-proxy",
            "ringfence",
            "ringfence-cli",
            "ringfence-testkit",
            "ringfence-probe",
        ],
    ),
    (
        "tokio",
        &[
            "ringfence-gate",
            "ringfence-linux",
            "ringfence-proxy",
            "ringfence",
            "ringfence-cli",
            "ringfence-testkit",
        ],
    ),
    ("hyper", &["ringfence-proxy"]),
    ("hickory-proto", &["ringfence-proxy"]),
    ("hickory-resolver", &["ringfence-proxy"]),
    ("clap", &["ringfence-cli"]),
];

/// Cargo features that may exist, none of them by default: the first lets tests make each step of the launcher fail.
/// A feature never weakens what is enforced.
const FEATURES: [&str; 1] = ["fault-injection"];

pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.find("", "Cargo.toml").filter(|(path, _)| *path != "Cargo.toml") {
        match text.parse::<Table>() {
            Ok(manifest) => found.extend(manifest_violations(path, text, &manifest)),
            Err(error) => found.push(Violation::new(path, 1, error.message().to_owned())),
        }
    }
    for (path, text) in tree.find("crates/", ".rs").filter(|(path, _)| path.contains("/src/")) {
        let code = Source::parse(text).code;
        for at in words(&code, "ringfence_testkit") {
            found.push(Violation::new(
                path,
                line_of(text, at),
                "the test kit is used from tests/ folders only",
            ));
        }
    }
    found
}

fn manifest_violations(path: &str, text: &str, manifest: &Table) -> Vec<Violation> {
    let Some(name) = manifest.get("package").and_then(|package| package.get("name")).and_then(Value::as_str)
    else {
        return vec![Violation::new(path, 1, "a package without a name")];
    };
    let folder = path.trim_end_matches("/Cargo.toml").rsplit('/').next().unwrap_or_default();
    // Fuzz targets live beside the crate that they exercise.
    if folder == "fuzz" {
        return Vec::new();
    }
    let mut found = Vec::new();
    if folder != name {
        found.push(Violation::new(path, 1, format!("folder `{folder}` holds package `{name}`")));
    }
    let Some((_, allowed)) = EDGES.iter().find(|(own, _)| *own == name) else {
        found.push(Violation::new(path, 1, format!("`{name}` is not in the drawing of crates")));
        return found;
    };
    for (kind, dependency) in dependencies(manifest) {
        let line = text.lines().position(|line| line.starts_with(dependency)).map_or(1, |at| at + 1);
        let inside = dependency.starts_with("ringfence");
        let for_tests = kind == "dev-dependencies";
        if inside && !allowed.contains(&dependency) && !(for_tests && may_test_with(name, dependency)) {
            found.push(Violation::new(path, line, format!("`{name}` must not depend on `{dependency}`")));
        }
        let restricted = RESTRICTED.iter().find(|(outside, _)| *outside == dependency);
        if !for_tests && restricted.is_some_and(|(_, users)| !users.contains(&name)) {
            found.push(Violation::new(path, line, format!("`{name}` must not depend on `{dependency}`")));
        }
    }
    for feature in manifest.get("features").and_then(Value::as_table).into_iter().flat_map(Table::keys) {
        if !FEATURES.contains(&feature.as_str()) {
            found.push(Violation::new(
                path,
                1,
                format!("feature `{feature}` is not on the list of features"),
            ));
        }
    }
    if manifest.get("lints").and_then(|lints| lints.get("workspace")) != Some(&Value::Boolean(true)) {
        found.push(Violation::new(path, 1, "the workspace's lints are not taken over"));
    }
    found
}

/// Tests of a crate above the gate may use the kit, and those of the command line any crate below it.
fn may_test_with(name: &str, dependency: &str) -> bool {
    let below_kit = ["ringfence-types", "ringfence-policy", "ringfence-plan"];
    match dependency {
        "ringfence-testkit" => !below_kit.contains(&name),
        _ => name == "ringfence-cli",
    }
}

/// Each dependency with the kind of its table, those for one system included.
fn dependencies(manifest: &Table) -> Vec<(&'static str, &str)> {
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let tables = std::iter::once(manifest).chain(targets.filter_map(Value::as_table));
    let mut found = Vec::new();
    for table in tables {
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let names = table.get(kind).and_then(Value::as_table).into_iter().flat_map(Table::keys);
            found.extend(names.map(|name| (kind, name.as_str())));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|found| found.what).collect()
    }

    fn manifest(name: &str, rest: &str) -> String {
        format!("[package]\nname = \"{name}\"\n[lints]\nworkspace = true\n{rest}")
    }

    #[test]
    fn an_edge_against_the_drawing_is_found() {
        let path = "crates/ringfence-plan/Cargo.toml";
        let good = manifest("ringfence-plan", "[dependencies]\nringfence-types.workspace = true\n");
        assert_eq!(violations(path, &good), [""; 0]);
        let upward = manifest("ringfence-plan", "[dependencies]\nringfence-gate = {}\n");
        assert_eq!(violations(path, &upward), ["`ringfence-plan` must not depend on `ringfence-gate`"]);
        let hidden = manifest("ringfence-plan", "[target.'cfg(unix)'.dependencies]\nrustix = {}\n");
        assert_eq!(violations(path, &hidden), ["`ringfence-plan` must not depend on `rustix`"]);
    }

    #[test]
    fn a_feature_is_listed_and_never_on_by_default() {
        let path = "crates/ringfence/Cargo.toml";
        let listed = manifest("ringfence", "[features]\nfault-injection = []\n");
        assert_eq!(violations(path, &listed), [""; 0]);
        let default = manifest("ringfence", "[features]\ndefault = [\"fault-injection\"]\n");
        assert_eq!(violations(path, &default), ["feature `default` is not on the list of features"]);
    }

    #[test]
    fn a_new_crate_is_drawn_first_and_takes_the_lints() {
        let path = "crates/ringfence-extra/Cargo.toml";
        assert_eq!(
            violations(path, &manifest("ringfence-extra", "")),
            ["`ringfence-extra` is not in the drawing of crates"]
        );
        let bare = "[package]\nname = \"xtask\"\n";
        assert_eq!(violations("xtask/Cargo.toml", bare), ["the workspace's lints are not taken over"]);
    }

    #[test]
    fn the_test_kit_stays_in_tests_folders() {
        let text = "use ringfence_testkit::Workspace;";
        assert_eq!(violations("crates/ringfence/src/lib.rs", text).len(), 1);
        assert_eq!(violations("crates/ringfence/tests/pipeline.rs", text), [""; 0]);
    }
}
