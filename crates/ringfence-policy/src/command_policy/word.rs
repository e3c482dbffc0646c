use std::borrow::Cow;

/// Stands in a word for a value that is not known, and may be empty.
pub(super) const UNKNOWN: u8 = 1;
/// Stands for a value that is not known, and is not empty.
pub(super) const NOT_EMPTY: u8 = 2;

/// A word as a program would get it. What nothing folds is borrowed from the text.
#[derive(Clone, Debug, Default)]
pub(super) struct Word<'a> {
    pub(super) text: Cow<'a, [u8]>,
    pub(super) flags: u8,
}

/// A part of the word was quoted.
pub(super) const QUOTED: u8 = 1;
/// A part of the word comes from the network.
pub(super) const DOWNLOADED: u8 = 2;
/// A leading `~` is the name of a file.
pub(super) const LITERAL_TILDE: u8 = 4;

impl<'a> Word<'a> {
    pub(super) fn borrowed(text: &'a [u8]) -> Self {
        Self { text: Cow::Borrowed(text), flags: 0 }
    }

    pub(super) fn owned(text: Vec<u8>) -> Self {
        Self { text: Cow::Owned(text), flags: 0 }
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn is(&self, text: &str) -> bool {
        *self.text == *text.as_bytes()
    }
}

/// Words joined by spaces, as `eval`, `ssh` and `echo` do it.
pub(super) fn joined(words: &[Word<'_>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(words.iter().map(|word| word.text.len() + 1).sum());
    for (at, word) in words.iter().enumerate() {
        if at > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(&word.text);
    }
    out
}

/// Name of a program: without its directory and a suffix that Windows adds, in lower case. What is unknown in it is
/// taken for empty.
pub(super) fn program(text: &[u8]) -> Cow<'_, [u8]> {
    let windows = text.contains(&b'\\')
        && (text.starts_with(b"\\") || text.get(1) == Some(&b':') || !text.contains(&b'/'));
    let start =
        text.iter().rposition(|&byte| byte == b'/' || windows && byte == b'\\').map_or(0, |at| at + 1);
    let name = &text[start..];
    let name = match name.len().checked_sub(4).map(|at| name.split_at(at)) {
        Some((stem, suffix))
            if !stem.is_empty()
                && suffix[0] == b'.'
                && [&b".exe"[..], b".com", b".cmd", b".bat"]
                    .iter()
                    .any(|known| suffix.eq_ignore_ascii_case(known)) =>
        {
            stem
        }
        _ => name,
    };
    if name.iter().all(|byte| !byte.is_ascii_uppercase() && *byte > NOT_EMPTY) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(name.iter().filter(|&&byte| byte > NOT_EMPTY).map(u8::to_ascii_lowercase).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_known_by_their_last_name() {
        for (text, name) in [
            ("rm", "rm"),
            ("/bin/rm", "rm"),
            ("//bin//rm", "rm"),
            ("C:\\Windows\\System32\\VSSADMIN.EXE", "vssadmin"),
            ("C:/x/format.com", "format"),
            ("Storage\\Format-Volume", "format-volume"),
            ("r\u{1}m", "rm"),
            (".exe", ".exe"),
            ("dir/", ""),
        ] {
            assert_eq!(&*program(text.as_bytes()), name.as_bytes(), "{text}");
        }
    }
}
