use super::{Tree, Violation};

const LIMIT: usize = 500;
/// A file that has become so much shorter needs no reason any more; one near the limit may keep it.
const CLEARLY_SHORT: usize = 400;

/// Longer files, each with the reason why it is one file.
const REASONS: &[(&str, &str)] = &[
    (
        "crates/ringfence-gate/src/protected/survey.rs",
        "one walk over git's layout, whose parts call each other",
    ),
    ("crates/ringfence-gate/tests/protected/look.rs", "one case for each thing that a run can leave behind"),
    ("crates/ringfence-gate/tests/protected/search.rs", "one case for each kind of repository"),
    (
        "crates/ringfence-linux/src/io/pty/tests.rs",
        "one case for each event of a terminal, on shared helpers",
    ),
    ("crates/ringfence/tests/pipeline.rs", "one case for each way out of the pipeline"),
];

pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    check_against(tree, REASONS)
}

fn check_against(tree: &Tree, reasons: &[(&str, &str)]) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.find("", ".rs") {
        let lines = text.lines().count();
        let listed = reasons.iter().any(|(own, _)| *own == path);
        if lines > LIMIT && !listed {
            found.push(Violation::new(
                path,
                LIMIT,
                format!("{lines} lines and no reason in xtask/src/tidy/length.rs"),
            ));
        } else if lines <= CLEARLY_SHORT && listed {
            found.push(Violation::new(
                path,
                1,
                "no longer long: its reason in xtask/src/tidy/length.rs goes",
            ));
        }
    }
    for (path, _) in reasons.iter().filter(|(path, _)| tree.get(path).is_none()) {
        found.push(Violation::new(path, 1, "gone: its reason in xtask/src/tidy/length.rs goes"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_needs_a_reason_and_a_reason_a_long_file() {
        let long = "\n".repeat(LIMIT + 1);
        let tree = Tree::of(&[("a.rs", &long), ("b.rs", "\n")]);
        assert_eq!(check_against(&tree, &[]).len(), 1);
        assert_eq!(check_against(&tree, &[("a.rs", "one table")]), []);
        assert_eq!(check_against(&tree, &[("a.rs", "one table"), ("b.rs", "x"), ("c.rs", "y")]).len(), 2);
    }
}
