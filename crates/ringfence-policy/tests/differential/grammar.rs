//! A grammar of bash, <https://github.com/tree-sitter/tree-sitter-bash>, reads the scripts of the corpus and generated
//! ones. It says which programs a script names; the policy must have found each of them.

use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use tree_sitter::{Node, Parser, Tree};

use crate::{found, generate};

/// `None` for what the grammar does not read as bash does: names that go on behind the end of a line, carriage returns.
fn parse(script: &str) -> Option<Tree> {
    if script.contains("\\\n") || script.contains('\r') {
        return None;
    }
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).expect("the grammar fits the library");
    parser.parse(script, None).filter(|tree| !tree.root_node().has_error())
}

/// Programs that are named by plain words, with the line that they stand on.
fn programs(tree: &Tree, script: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut todo = vec![tree.root_node()];
    while let Some(node) = todo.pop() {
        if node.kind() == "command" {
            names.extend(plain_name(node, script));
        }
        let mut cursor = node.walk();
        todo.extend(node.children(&mut cursor));
    }
    names
}

fn plain_name(command: Node<'_>, script: &str) -> Option<String> {
    let name = command.child_by_field_name("name")?;
    let only = name.child(0).filter(|_| name.child_count() == 1)?;
    let text = only.utf8_text(script.as_bytes()).ok()?;
    let plain = only.kind() == "word"
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte));
    let last = text.rsplit('/').next().unwrap_or(text);
    let last = last.strip_suffix(".exe").unwrap_or(last);
    // The grammar takes some reserved words for programs. `./init` is not asked about: it is one of the workspace.
    const RESERVED: [&str; 9] = ["coproc", "time", "do", "done", "then", "fi", "esac", "elif", "else"];
    let named = plain && !RESERVED.contains(&text) && !text.starts_with("./");
    named.then(|| last.to_ascii_lowercase())
}

/// Names that the policy has not found.
fn missed(script: &str) -> Option<Vec<String>> {
    let tree = parse(script)?;
    let lines = found(script.as_bytes());
    let first = |line: &[u8]| {
        String::from_utf8_lossy(line.split(|byte| *byte == b' ').next().unwrap_or_default()).into_owned()
    };
    let found: Vec<String> = lines.iter().map(|line| first(line)).collect();
    Some(programs(&tree, script).into_iter().filter(|name| !found.contains(name)).collect())
}

/// Scripts of the corpus in a POSIX shell's language.
fn corpus() -> Vec<String> {
    let mut scripts = Vec::new();
    for text in [include_str!("../data/commands.jsonl"), include_str!("../data/cases.jsonl")] {
        for line in text.lines() {
            let case: serde_json::Value = serde_json::from_str(line).expect("a line of the corpus");
            if case["shell"] != "posix" {
                continue;
            }
            let words: Vec<&str> =
                case["argv"].as_array().into_iter().flatten().filter_map(|word| word.as_str()).collect();
            match *words {
                ["bash" | "sh", "-c" | "-lc", script] => scripts.push(script.to_owned()),
                [] => scripts.extend(case["stdin"].as_str().map(str::to_owned)),
                _ => {}
            }
        }
    }
    scripts
}

#[test]
fn the_programs_that_the_corpus_names_are_found() {
    let scripts = corpus();
    let mut read = 0;
    let mut wrong = Vec::new();
    for script in &scripts {
        let Some(names) = missed(script) else { continue };
        read += 1;
        if !names.is_empty() {
            wrong.push(format!("{names:?}: {script:?}"));
        }
    }
    assert!(read * 10 > scripts.len() * 9, "the grammar reads {read} of {} scripts", scripts.len());
    assert!(wrong.is_empty(), "{} of {read}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_programs_that_generated_scripts_name_are_found() {
    let mut runner = TestRunner::default();
    let scripts = generate::script();
    let mut read = 0;
    for _ in 0..500 {
        let script = scripts.new_tree(&mut runner).expect("a script").current();
        let Some(names) = missed(&script) else { continue };
        read += 1;
        assert!(names.is_empty(), "{names:?}: {script:?}");
    }
    assert!(read > 50, "the grammar reads {read} of 500 scripts");
}
