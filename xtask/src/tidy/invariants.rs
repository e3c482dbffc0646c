use super::{RULES, Tree, Violation};

const PAGE: &str = "ARCHITECTURE.md";
const SECTION: &str = "## Invariants";
const COUNT: usize = 10;

/// Each numbered invariant ends with `Check:` and names in backticks: `tidy RULE`, `clippy LINT`, a file, or
/// `file.rs::test_function`.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let Some(text) = tree.get(PAGE) else { return vec![Violation::new(PAGE, 1, "missing")] };
    let items = numbered_items(text);
    let mut found = Vec::new();
    if items.len() != COUNT {
        found.push(Violation::new(
            PAGE,
            1,
            format!("{} invariants below `{SECTION}`, not {COUNT}", items.len()),
        ));
    }
    for (at, (line, item)) in items.iter().enumerate() {
        if !item.starts_with(&format!("{}. ", at + 1)) {
            found.push(Violation::new(PAGE, *line, format!("not number {}", at + 1)));
        }
        let Some((_, checks)) = item.split_once("Check:") else {
            found.push(Violation::new(PAGE, *line, "names no check"));
            continue;
        };
        let names: Vec<_> = checks.split('`').skip(1).step_by(2).collect();
        if names.is_empty() {
            found.push(Violation::new(PAGE, *line, "names no check"));
        }
        for name in names.into_iter().filter(|name| !exists(tree, name)) {
            found.push(Violation::new(PAGE, *line, format!("there is no check `{name}`")));
        }
    }
    found
}

/// Line number from 1 and text, joined to one line, of each item of the section.
fn numbered_items(text: &str) -> Vec<(usize, String)> {
    let mut items: Vec<(usize, String)> = Vec::new();
    let mut inside = false;
    for (at, line) in text.lines().enumerate() {
        if line.starts_with("## ") {
            inside = line == SECTION;
        } else if inside && line.starts_with(|c: char| c.is_ascii_digit()) {
            items.push((at + 1, line.to_owned()));
        } else if inside
            && line.starts_with("   ")
            && let Some((_, item)) = items.last_mut()
        {
            item.push(' ');
            item.push_str(line.trim());
        }
    }
    items
}

fn exists(tree: &Tree, name: &str) -> bool {
    if let Some(rule) = name.strip_prefix("tidy ") {
        return RULES.iter().any(|own| own.name == rule);
    }
    if let Some(lint) = name.strip_prefix("clippy ") {
        return tree.get("Cargo.toml").is_some_and(|manifest| manifest.contains(&format!("\n{lint} = ")))
            || tree.get("clippy.toml").is_some_and(|settings| settings.contains(lint));
    }
    match name.split_once("::") {
        Some((path, test)) => tree.get(path).is_some_and(|text| text.contains(&format!("fn {test}("))),
        None => tree.get(name).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(check: &str) -> String {
        let items: Vec<_> =
            (1..=COUNT).map(|n| format!("{n}. It holds\n   always. Check: {check}.\n")).collect();
        format!("# A\n\n## Invariants\n\n{}\n## More\n\n1. No invariant\n", items.concat())
    }

    fn violations(text: &str) -> Vec<String> {
        let tree = Tree::of(&[
            (PAGE, text),
            ("a/tests/b.rs", "#[test]\nfn it_holds() {}\n"),
            ("Cargo.toml", "[workspace.lints.clippy]\ntodo = \"deny\"\n"),
        ]);
        check(&tree).into_iter().map(|found| found.what).collect()
    }

    #[test]
    fn a_named_check_must_exist() {
        for good in ["`tidy purity`", "`a/tests/b.rs::it_holds` and `a/tests/b.rs`", "`clippy todo`"] {
            assert_eq!(violations(&page(good)), [""; 0]);
        }
        for bad in
            ["`tidy nothing`", "`a/tests/b.rs::it_fails`", "`a/tests/c.rs`", "`clippy nothing`", "by eye"]
        {
            assert_eq!(violations(&page(bad)).len(), COUNT, "{bad}");
        }
    }

    #[test]
    fn a_missing_invariant_is_found() {
        let text = page("`tidy purity`").replace("10. It holds", "   it holds");
        assert_eq!(violations(&text), ["9 invariants below `## Invariants`, not 10"]);
    }
}
