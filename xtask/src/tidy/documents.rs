use super::{Tree, Violation};

const CHANGELOG: &str = "CHANGELOG.md";
const KINDS: [&str; 6] = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"];

/// `## [Unreleased]` first, then `## [1.2.3] - 2026-01-31`; below each only the six kinds, none empty.
pub(crate) fn changelog(tree: &Tree) -> Vec<Violation> {
    let Some(text) = tree.get(CHANGELOG) else { return vec![Violation::new(CHANGELOG, 1, "missing")] };
    let mut found = Vec::new();
    if text.lines().next() != Some("# Changelog") {
        found.push(Violation::new(CHANGELOG, 1, "the first line is not `# Changelog`"));
    }
    let releases: Vec<_> = headings(text, "## ").collect();
    for (at, (line, title)) in releases.iter().enumerate() {
        let good = if at == 0 { *title == "[Unreleased]" } else { is_release(title) };
        if !good {
            found.push(Violation::new(CHANGELOG, *line, format!("`{title}` is no release")));
        }
    }
    if releases.is_empty() {
        found.push(Violation::new(CHANGELOG, 1, "no `## [Unreleased]`"));
    }
    for (line, title) in headings(text, "### ") {
        if !KINDS.contains(&title) {
            found.push(Violation::new(CHANGELOG, line, format!("`{title}` is none of {}", KINDS.join(", "))));
        }
        let first = text.lines().skip(line).find(|next| !next.trim().is_empty());
        if first.is_none_or(|next| next.starts_with('#')) {
            found.push(Violation::new(CHANGELOG, line, format!("nothing below `{title}`")));
        }
    }
    found
}

fn is_release(title: &str) -> bool {
    let parse = || {
        let (version, date) = title.strip_prefix('[')?.split_once("] - ")?;
        let numbers = |text: &str, mark| {
            text.split(mark).all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
        };
        Some(
            version.split('.').count() == 3
                && numbers(version, '.')
                && date.len() == 10
                && numbers(date, '-'),
        )
    };
    parse().unwrap_or(false)
}

const DECISIONS: &str = "docs/adr/";
const PARTS: [&str; 5] = ["Problem", "Decision", "Alternatives", "Consequences", "Testing"];

/// `NNNN-title.md` without a gap, `# NNNN. Title`, a status, and the five parts in order.
pub(crate) fn decisions(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (at, (path, text)) in tree.find(DECISIONS, ".md").enumerate() {
        let number = format!("{:04}", at + 1);
        let name = &path[DECISIONS.len()..];
        if name.split_once('-').is_none_or(|(own, _)| own != number) {
            found.push(Violation::new(path, 1, format!("not the expected number {number}")));
        }
        if !text.starts_with(&format!("# {number}. ")) {
            found.push(Violation::new(path, 1, format!("the first line is not `# {number}. …`")));
        }
        let status = text.lines().find_map(|line| line.strip_prefix("Status: "));
        if !status.is_some_and(|status| status == "accepted" || status.starts_with("superseded by ")) {
            found.push(Violation::new(path, 1, "no line `Status: accepted` or `Status: superseded by NNNN`"));
        }
        let titles: Vec<_> = headings(text, "## ").map(|(_, title)| title).collect();
        if titles != PARTS {
            found.push(Violation::new(path, 1, format!("the parts are not {}", PARTS.join(", "))));
        }
    }
    found
}

/// Line number from 1 and title of each heading of one level, outside code blocks.
fn headings<'a>(text: &'a str, mark: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        if line.starts_with("```") {
            in_code = !in_code;
        }
        let title = line.strip_prefix(mark).filter(|_| !in_code)?;
        Some((at + 1, title.trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changelog_lines(text: &str) -> Vec<usize> {
        changelog(&Tree::of(&[(CHANGELOG, text)])).into_iter().map(|found| found.line).collect()
    }

    #[test]
    fn changelog_headings_are_checked() {
        let good = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- a\n\n## [0.1.0] - 2026-01-31\n\n### Fixed\n\n- b\n";
        assert_eq!(changelog_lines(good), [0; 0]);
        assert_eq!(changelog_lines(&good.replace("Added", "New")), [5]);
        assert_eq!(changelog_lines(&good.replace("[0.1.0] - 2026-01-31", "0.1.0")), [9]);
        assert_eq!(changelog_lines(&good.replace("- a\n", "")), [5]);
        assert_eq!(changelog_lines("# Changelog\n"), [1]);
    }

    #[test]
    fn decision_records_are_checked() {
        let good = "# 0001. Crates\n\nStatus: accepted\n\n## Problem\n## Decision\n## Alternatives\n## Consequences\n## Testing\n";
        let check = |name: &str, text: &str| decisions(&Tree::of(&[(name, text)])).len();
        assert_eq!(check("docs/adr/0001-crates.md", good), 0);
        assert_eq!(check("docs/adr/0002-crates.md", good), 1);
        assert_eq!(check("docs/adr/0001-crates.md", &good.replace("## Testing\n", "")), 1);
        assert_eq!(check("docs/adr/0001-crates.md", &good.replace("accepted", "maybe")), 1);
    }
}
