use super::{Tree, Violation};

const LIMIT: usize = 500;

/// Longer files, each with the reason why it is one file.
const REASONS: &[(&str, &str)] = &[];

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
        } else if lines <= LIMIT && listed {
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
