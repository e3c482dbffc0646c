//! What the documents promise, compared with the binary.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ringfence_testkit::{Binaries, Caller, Fixture, needs};

fn fixture() -> Fixture {
    let binaries = Binaries::locate(Path::new(env!("CARGO_BIN_EXE_ringfence")));
    Fixture::new(&binaries, Caller::all()[0])
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("a crate lies two folders deep")
        .to_path_buf()
}

fn page(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every page that speaks to users, by path from the root.
fn user_pages() -> Vec<(String, String)> {
    let guide = fs::read_dir(repository().join("docs/guide")).expect("the guide");
    let guide =
        guide.map(|entry| format!("docs/guide/{}", entry.expect("a page").file_name().to_string_lossy()));
    let mut paths = vec!["README.md".to_owned(), "SECURITY.md".to_owned(), "docs/enforcement.md".to_owned()];
    paths.extend(guide);
    paths.into_iter().map(|path| (path.clone(), page(&path))).collect()
}

/// Fenced blocks of one language.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let open = format!("```{language}\n");
    text.split(open.as_str()).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn configuration_in_the_guide_is_accepted() {
    let fixture = fixture();
    let mut count = 0;
    for (path, text) in user_pages() {
        for block in blocks(&text, "toml") {
            let file = fixture.write("host/config.toml", block);
            let finished = fixture.ringfence(["config", "check"]).arg(&file).finish();
            assert_eq!(finished.code, Some(0), "{path}: {}", finished.report());
            count += 1;
        }
    }
    assert!(count >= 2, "{count} blocks");
}

#[test]
fn every_key_is_in_the_guide() {
    let fixture = fixture();
    let file = fixture.host().join("config.toml");
    fixture.ringfence(["init", "--config"]).arg(&file).finish().code_is(0);
    let guide = page("docs/guide/configuration.md");
    let text = fixture.read("host/config.toml");
    let keys: Vec<_> = text
        .lines()
        .filter_map(|line| line.trim_start_matches("# ").split_once(" = "))
        .map(|(key, _)| key)
        .filter(|key| {
            key.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        })
        .collect();
    assert!(keys.len() >= 20, "{keys:?}");
    for key in keys {
        assert!(
            guide.lines().any(|line| line.starts_with(&format!("{key} = "))),
            "`{key}` is not in the guide"
        );
    }
}

#[test]
fn options_in_the_documents_exist() {
    let fixture = fixture();
    let help: String = ["run", "shell", "explain", "doctor", "init", "proxy"]
        .map(|name| fixture.ringfence([name, "--help"]).finish().code_is(0).out())
        .concat();
    let known: Vec<&str> = options(&help).collect();
    let mut count = 0;
    for (path, text) in user_pages() {
        let inline = text.split('`').skip(1).step_by(2).filter(|span| span.starts_with("--"));
        let lines = text
            .lines()
            .map(|line| line.trim_start_matches("$ "))
            .filter(|line| line.starts_with("ringfence "));
        // What follows `--` is the program's.
        let own = lines.map(|line| line.split(" -- ").next().unwrap_or(line));
        for option in inline.chain(own).flat_map(options) {
            assert!(known.contains(&option), "{path}: `{option}` is no option");
            count += 1;
        }
    }
    assert!(count >= 20, "{count} options");
}

fn options(text: &str) -> impl Iterator<Item = &str> {
    let word = |c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    text.split(word).filter(|word| word.len() > 2 && word.starts_with("--"))
}

/// Layer and cell of each row for the native backend.
fn enforcement_table() -> BTreeMap<String, String> {
    let text = page("docs/enforcement.md");
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<_> =
            row.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect();
        (cells[0].clone(), cells[1].clone())
    })
    .collect()
}

#[test]
fn a_real_run_reports_what_the_table_says() {
    let fixture = fixture();
    needs!(fixture.binaries(); "userns", "landlock");
    let report = fixture.inside(&["--json"], &["true"]).finish().code_is(0).json();
    let layers: BTreeMap<_, _> = report["layers"]
        .as_array()
        .expect("layers")
        .iter()
        .map(|layer| (layer["name"].as_str().expect("a name").to_owned(), layer))
        .collect();
    for (name, cell) in enforcement_table() {
        let status = layers.get(&name).and_then(|layer| layer["status"].as_str());
        if cell.starts_with("not built") {
            assert!(matches!(status, None | Some("not-requested")), "{name}: {cell}, but {status:?}");
        } else {
            let status =
                status.unwrap_or_else(|| panic!("{name}: {cell}, but the report lacks it: {report}"));
            assert!(cell.contains(status), "{name}: {cell}, but {}", layers[&name]);
        }
    }
}
