//! Pages of the documentation that are made from data.

use std::fmt::Write as _;
use std::path::Path;

use toml::{Table, Value};

use crate::error::Error;

/// The page of the command policy.
pub(crate) const PAGE: &str = "docs/guide/command-policy.md";
/// Where its text is, and where the rules are put into it.
pub(crate) const FRAME: &str = "docs/guide/command-policy.in.md";
const MARK: &str = "<!-- rules -->\n";
/// Files with rules, and what they are about.
pub(crate) const RULES: [(&str, &str); 3] = [
    ("crates/ringfence-policy/rules/posix.toml", "POSIX shells"),
    ("crates/ringfence-policy/rules/cmd.toml", "cmd and Windows programs"),
    ("crates/ringfence-policy/rules/powershell.toml", "PowerShell"),
];

/// Writes the generated pages.
pub(crate) fn write(root: &Path) -> Result<(), Error> {
    let read = |path: &str| {
        let path = root.join(path);
        std::fs::read_to_string(&path).map_err(|source| Error::Read { path, source })
    };
    let frame = read(FRAME)?;
    let mut files = Vec::new();
    for (path, _) in RULES {
        files.push(read(path)?);
    }
    let page = page(&frame, &files).map_err(Error::Generate)?;
    let path = root.join(PAGE);
    std::fs::write(&path, page).map_err(|source| Error::Write { path, source })?;
    println!("{PAGE}");
    Ok(())
}

/// The page, from its frame and the texts of the rule files in the order of [`RULES`].
pub(crate) fn page(frame: &str, files: &[String]) -> Result<String, String> {
    let (before, after) =
        frame.split_once(MARK).ok_or_else(|| format!("{FRAME}: no line `{}`", MARK.trim_end()))?;
    let mut out = format!("<!-- Made by `cargo xtask docs` from {FRAME} and the rules. -->\n\n{before}");
    for ((path, title), text) in RULES.into_iter().zip(files) {
        let table: Table = text.parse().map_err(|error| format!("{path}: {error}"))?;
        let rules = table.get("rule").and_then(Value::as_array).ok_or_else(|| format!("{path}: no rules"))?;
        let _ = write!(
            out,
            "### {title}\n\n| rule | tier | what such a command does | example | instead |\n|---|---|---|---|---|\n"
        );
        for rule in rules {
            let text = |key: &str| rule.get(key).and_then(Value::as_str).unwrap_or_default();
            let example = rule
                .get("match")
                .and_then(Value::as_array)
                .and_then(|all| all.first())
                .and_then(Value::as_str);
            let example = example.map(code).unwrap_or_default();
            let _ = writeln!(
                out,
                "| `{}` | {} | {} | {example} | {} |",
                text("name"),
                text("tier"),
                text("why"),
                text("instead")
            );
        }
        let _ = writeln!(out);
    }
    out.push_str(after);
    Ok(out)
}

/// An example in a cell of a table.
fn code(text: &str) -> String {
    let text = text.replace('\n', " ⏎ ").replace('|', "\\|");
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_become_rows() {
        let rules = "[[rule]]\nname = 'a'\ntier = 'block'\nwhy = 'w'\ninstead = 'i'\nmatch = ['x | y']\n";
        let files = vec![rules.to_owned(); 3];
        let page = page("top\n<!-- rules -->\nend\n", &files).unwrap();
        assert_eq!(page.matches("| `a` | block | w | `x \\| y` | i |").count(), 3);
        assert!(page.ends_with("end\n"));
        assert!(super::page("no mark", &files).is_err());
    }
}
