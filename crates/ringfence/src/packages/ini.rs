//! Lines of `key = value`, in sections or without.

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    /// The section; empty before the first.
    pub(super) section: &'a str,
    pub(super) key: &'a str,
    /// The value and its continuation lines, without quotes around the whole.
    pub(super) values: Vec<&'a str>,
}

/// Reads settings. Comments begin with `#` or `;`; an indented line continues the value before it, as Python's
/// configparser has it. npm's format is the same but for continuation lines, which it has not.
pub(super) fn entries(text: &str) -> Vec<Entry<'_>> {
    let mut section = "";
    let mut entries: Vec<Entry<'_>> = Vec::new();
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.trim();
            continue;
        }
        if line.starts_with([' ', '\t'])
            && let Some(entry) = entries.last_mut()
            && entry.section == section
            && !trimmed.contains('=')
        {
            entry.values.push(trimmed);
            continue;
        }
        let Some((key, value)) = trimmed.split_once('=') else { continue };
        let value = unquoted(value.trim());
        let values = if value.is_empty() { Vec::new() } else { vec![value] };
        entries.push(Entry { section, key: key.trim(), values });
    }
    entries
}

/// The text between quotes, if the whole is quoted.
pub(super) fn unquoted(text: &str) -> &str {
    ['"', '\''].iter().find_map(|&quote| text.strip_prefix(quote)?.strip_suffix(quote)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_comments_quotes_and_continuations() {
        let text = "a=1\n# c=2\n[global]\nindex-url = \"https://a.test/x?y=z\"\nextra =\n  https://b.test\n  # no\n  https://c.test\n; d=4\nbroken\n";
        let found: Vec<_> =
            entries(text).into_iter().map(|entry| (entry.section, entry.key, entry.values)).collect();
        assert_eq!(
            found,
            [
                ("", "a", vec!["1"]),
                ("global", "index-url", vec!["https://a.test/x?y=z"]),
                ("global", "extra", vec!["https://b.test", "https://c.test"]),
            ]
        );
    }
}
