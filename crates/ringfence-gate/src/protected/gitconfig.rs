//! Reader of git's configuration files (git-config(1), CONFIGURATION FILE; the grammar as git's own reader
//! takes it). It keeps the place of each variable, so that a copy without some of them can be made.

use std::ops::Range;

/// One variable, as git would report it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Variable {
    /// `section.name` or `section.subsection.name`; section and name in lower case.
    pub(super) key: Vec<u8>,
    /// `None` for a variable without `=`, which means true.
    pub(super) value: Option<Vec<u8>>,
    /// Where it stands in the file, without the end of its line.
    pub(super) span: Range<usize>,
    /// Where the header of its section stands.
    pub(super) header: Range<usize>,
}

impl Variable {
    /// Up to the first dot.
    pub(super) fn section(&self) -> &[u8] {
        let end = self.key.iter().position(|&byte| byte == b'.').unwrap_or(0);
        &self.key[..end]
    }

    /// Between the first and the last dot, if these are two.
    pub(super) fn subsection(&self) -> Option<&[u8]> {
        let first = self.key.iter().position(|&byte| byte == b'.')?;
        let last = self.key.iter().rposition(|&byte| byte == b'.')?;
        (first < last).then(|| &self.key[first + 1..last])
    }

    /// After the last dot.
    pub(super) fn name(&self) -> &[u8] {
        let start = self.key.iter().rposition(|&byte| byte == b'.').map_or(0, |dot| dot + 1);
        &self.key[start..]
    }

    /// The key for messages.
    pub(super) fn display(&self) -> String {
        self.key.escape_ascii().to_string()
    }
}

/// A file that git refuses, or whose meaning depends on who reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad git configuration at byte {at}")]
pub(super) struct SyntaxError {
    at: usize,
}

/// Reads a whole file.
///
/// A NUL byte is an error although git takes it: git cuts names at it, so that `[core "pager\0"] x` is
/// `core.pager` for git.
pub(super) fn parse(text: &[u8]) -> Result<Vec<Variable>, SyntaxError> {
    if let Some(at) = text.iter().position(|&byte| byte == 0) {
        return Err(SyntaxError { at });
    }
    let start = if text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    Reader { text, at: start, last: start, ended: false }.read()
}

/// A copy of `text` without the variables that `drop` says, and without the headers of sections that are empty
/// thereby.
pub(super) fn without(text: &[u8], drop: impl Fn(&Variable) -> bool) -> Result<Vec<u8>, SyntaxError> {
    let variables = parse(text)?;
    let (dropped, kept): (Vec<_>, Vec<_>) = variables.into_iter().partition(drop);
    let mut spans: Vec<_> = dropped.iter().map(|variable| variable.span.clone()).collect();
    // Before the first section there is no header.
    let emptied = dropped.iter().map(|variable| &variable.header).filter(|header| !header.is_empty());
    spans.extend(emptied.filter(|header| kept.iter().all(|variable| variable.header != **header)).cloned());
    spans.sort_by_key(|span| span.start);
    spans.dedup();
    let mut out = Vec::with_capacity(text.len());
    let mut from = 0;
    for span in spans {
        out.extend_from_slice(&text[from..span.start]);
        from = span.end;
    }
    out.extend_from_slice(&text[from..]);
    Ok(out)
}

/// A value that git takes as a truth value or a number (git-config(1), VALUES).
pub(super) fn is_boolean(value: Option<&[u8]>) -> bool {
    let Some(value) = value else { return true };
    let words: [&[u8]; 6] = [b"true", b"false", b"yes", b"no", b"on", b"off"];
    value.is_empty()
        || words.iter().any(|word| value.eq_ignore_ascii_case(word))
        || value.iter().all(u8::is_ascii_digit)
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    /// Where the byte starts that was read last.
    last: usize,
    ended: bool,
}

impl Reader<'_> {
    fn read(mut self) -> Result<Vec<Variable>, SyntaxError> {
        let mut variables = Vec::new();
        let mut prefix = Vec::new();
        let mut header = 0..0;
        let mut comment = false;
        loop {
            let byte = self.next();
            match byte {
                b'\n' if self.ended => return Ok(variables),
                b'\n' => comment = false,
                _ if comment || is_space(byte) => {}
                b'#' | b';' => comment = true,
                b'[' => {
                    let start = self.last;
                    prefix = self.section()?;
                    header = start..self.at;
                }
                _ if byte.is_ascii_alphabetic() => {
                    let start = self.last;
                    let mut key = prefix.clone();
                    key.push(byte.to_ascii_lowercase());
                    let value = self.variable(&mut key)?;
                    variables.push(Variable { key, value, span: start..self.last, header: header.clone() });
                }
                _ => return Err(self.error()),
            }
        }
    }

    /// The next byte; a line feed for CR LF, and for the end of the file.
    fn next(&mut self) -> u8 {
        self.last = self.at;
        match self.text.get(self.at) {
            None => {
                self.ended = true;
                b'\n'
            }
            Some(b'\r') if self.text.get(self.at + 1) == Some(&b'\n') => {
                self.at += 2;
                b'\n'
            }
            Some(&byte) => {
                self.at += 1;
                byte
            }
        }
    }

    fn error(&self) -> SyntaxError {
        SyntaxError { at: self.last }
    }

    /// `section]`, `section.sub]` or `section "sub"]`, with a dot after it.
    fn section(&mut self) -> Result<Vec<u8>, SyntaxError> {
        let mut name = Vec::new();
        loop {
            let byte = self.next();
            match byte {
                _ if self.ended => return Err(self.error()),
                b']' => break,
                _ if is_space(byte) => {
                    self.subsection(byte, &mut name)?;
                    break;
                }
                _ if is_key(byte) || byte == b'.' => name.push(byte.to_ascii_lowercase()),
                _ => return Err(self.error()),
            }
        }
        if name.is_empty() {
            return Err(self.error());
        }
        name.push(b'.');
        Ok(name)
    }

    fn subsection(&mut self, mut byte: u8, name: &mut Vec<u8>) -> Result<(), SyntaxError> {
        while is_space(byte) {
            if byte == b'\n' {
                return Err(self.error());
            }
            byte = self.next();
        }
        if byte != b'"' {
            return Err(self.error());
        }
        name.push(b'.');
        loop {
            match self.next() {
                b'\n' => return Err(self.error()),
                b'"' => break,
                b'\\' => match self.next() {
                    b'\n' => return Err(self.error()),
                    escaped => name.push(escaped),
                },
                byte => name.push(byte),
            }
        }
        if self.next() == b']' { Ok(()) } else { Err(self.error()) }
    }

    /// The rest of a variable's name, and its value.
    fn variable(&mut self, key: &mut Vec<u8>) -> Result<Option<Vec<u8>>, SyntaxError> {
        let mut byte = self.next();
        while !self.ended && is_key(byte) {
            key.push(byte.to_ascii_lowercase());
            byte = self.next();
        }
        while byte == b' ' || byte == b'\t' {
            byte = self.next();
        }
        match byte {
            b'\n' => Ok(None),
            b'=' => self.value().map(Some),
            _ => Err(self.error()),
        }
    }

    fn value(&mut self) -> Result<Vec<u8>, SyntaxError> {
        let mut value = Vec::new();
        let mut quoted = false;
        let mut comment = false;
        // Length without the white space at the end, while there is some.
        let mut trimmed = None;
        loop {
            let byte = self.next();
            match byte {
                b'\n' if quoted => return Err(self.error()),
                b'\n' => {
                    value.truncate(trimmed.unwrap_or(value.len()));
                    return Ok(value);
                }
                _ if comment => {}
                _ if is_space(byte) && !quoted => {
                    if !value.is_empty() {
                        trimmed.get_or_insert(value.len());
                        value.push(byte);
                    }
                }
                b'#' | b';' if !quoted => comment = true,
                _ => {
                    trimmed = None;
                    match byte {
                        b'\\' => value.extend(self.escape()?),
                        b'"' => quoted = !quoted,
                        _ => value.push(byte),
                    }
                }
            }
        }
    }

    /// What follows a backslash in a value; nothing for the end of a line, which is thereby continued.
    fn escape(&mut self) -> Result<Option<u8>, SyntaxError> {
        match self.next() {
            b'\n' => Ok(None),
            b't' => Ok(Some(b'\t')),
            b'b' => Ok(Some(8)),
            b'n' => Ok(Some(b'\n')),
            byte @ (b'\\' | b'"') => Ok(Some(byte)),
            _ => Err(self.error()),
        }
    }
}

/// White space for git, whatever the locale: no vertical tab, no form feed.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn is_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use proptest::prelude::*;

    use super::*;

    /// Pairs of key and value.
    type Pairs = Vec<(Vec<u8>, Option<Vec<u8>>)>;

    /// What git itself reads; `None` if it refuses the file.
    fn by_git(text: &[u8]) -> Option<Pairs> {
        let mut git = Command::new("git")
            .args(["config", "--list", "-z", "--file", "-"])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("git runs");
        git.stdin.take().unwrap().write_all(text).unwrap();
        let output = git.wait_with_output().unwrap();
        output.status.success().then(|| {
            let entries = output.stdout.split(|&byte| byte == 0).filter(|entry| !entry.is_empty());
            let pair = |entry: &[u8]| match entry.iter().position(|&byte| byte == b'\n') {
                Some(end) => (entry[..end].to_vec(), Some(entry[end + 1..].to_vec())),
                None => (entry.to_vec(), None),
            };
            entries.map(pair).collect()
        })
    }

    fn by_us(text: &[u8]) -> Option<Pairs> {
        let variables = parse(text).ok()?;
        Some(variables.into_iter().map(|variable| (variable.key, variable.value)).collect())
    }

    #[track_caller]
    fn agree(text: &[u8]) {
        assert_eq!(by_us(text), by_git(text), "{}", text.escape_ascii());
    }

    #[test]
    fn reads_as_git_does() {
        for text in [
            &b""[..],
            b"\xef\xbb\xbf[core]\na=b",
            b"\xef\xbb[core]\na=b",
            b"[core]\n\tbare = true\n",
            b"[CORE]\r\nBare = True\r\n",
            b"[a]b=c",
            b"[a]b\n[c]d=\n",
            b"[a] ; c\n# d\nb = c ; d\ne = \"f;g\" # h\n",
            b"[a \"B c\"]\nd=e",
            b"[a \"b\\\"\\c\\\\\"]\nd=e",
            b"[a.B]\nc=d",
            b"[a.B \"C\"]\nd=e",
            b"[ \"x\"]\ny=z",
            b"[a\t \"b\"]\nc=d",
            b"[a \"b\" ]\nc=d",
            b"[a \"b\n\"]\nc=d",
            b"[a\n\"b\"]\nc=d",
            b"[]\na=b",
            b"[a]\nb = c \\\n  d\n",
            b"[a]\nb = c  \\\n\ne=f",
            b"[a]\nb = \\\n",
            b"[a]\nb = c\\",
            b"[a]\nb = \"c\\\nd\"\n",
            b"[a]\nb = \"c\n\"",
            b"[a]\nb = \\t\\b\\n\\\\\\\"\n",
            b"[a]\nb = \\x\n",
            b"[a]\nb = c\"d e \"f  \"  \" g\n",
            b"[a]\nb =  c \t d  \t \n",
            b"[a]\nb\n = c",
            b"[a]\nb c",
            b"[a]\n1b=c",
            b"[a]\nb-1=c",
            b"[a]\nb_1=c",
            b"[a]\n-b=c",
            b"b=c",
            b"[a_b]\nc=d",
            b"[a",
            b"[a \"",
            b"[a]]\nb=c",
            b"[a] [b]\nc=d",
            b"[a] b = c [d]\ne=f",
            b"[a]\nb=c\x0b\x0c d\n\x0be=f",
            b"[a]\nb=\xff\xfe",
            b"[a \"\xff\"]\nb=c",
            b"[a]\rb=c",
            b"[a]\nb=c\rd\r\r\n",
        ] {
            agree(text);
        }
    }

    /// Git reads these as other variables than they seem to be.
    #[test]
    fn a_nul_byte_is_refused() {
        assert_eq!(by_git(b"[core \"pager\0\"]\nx = evil").unwrap()[0].0, b"core.pager");
        assert!(parse(b"[core \"pager\0\"]\nx = evil").is_err());
    }

    #[test]
    fn a_copy_leaves_out_what_it_should() {
        let text = b"[a]\n x = 1 ; c\n\ty = 2\n[b]\nx=3\n[c] x = \\\n 4\r\n[d]\n";
        let left = without(text, |variable| variable.name() == b"x").unwrap();
        assert_eq!(left, b"[a]\n \n\ty = 2\n\n\n \r\n[d]\n");
        assert_eq!(by_git(&left).unwrap(), [(b"a.y".to_vec(), Some(b"2".to_vec()))]);
    }

    #[test]
    fn parts_of_a_key() {
        let variables = parse(b"[A \"B.c\"]\nD=e\n[f]\ng\n").unwrap();
        let parts: Vec<_> = variables.iter().map(|v| (v.section(), v.subsection(), v.name())).collect();
        assert_eq!(parts, [(&b"a"[..], Some(&b"B.c"[..]), &b"d"[..]), (b"f", None, b"g")]);
        assert!(is_boolean(variables[1].value.as_deref()));
        assert!(!is_boolean(Some(b"x")) && is_boolean(Some(b"YES")) && is_boolean(Some(b"12")));
    }

    fn fragments() -> impl Strategy<Value = Vec<u8>> {
        let parts = prop::sample::select(vec![
            "[",
            "]",
            "\"",
            "\\",
            "\n",
            "\r\n",
            "\r",
            "=",
            " ",
            "\t",
            "#",
            ";",
            ".",
            "-",
            "core",
            "a",
            "B",
            "1",
            "[a]\n",
            "[a \"b\"]\n",
            "x = y\n",
            "\\\n",
            "\\t",
            "_",
            "\u{e9}",
            "\u{b}",
        ]);
        prop::collection::vec(parts, 0..14).prop_map(|parts| parts.concat().into_bytes())
    }

    proptest! {
        #[test]
        fn reads_pieces_as_git_does(text in fragments()) {
            prop_assert_eq!(by_us(&text), by_git(&text));
        }

        #[test]
        fn a_copy_has_what_is_left(text in fragments(), seed: usize) {
            let Ok(variables) = parse(&text) else { return Ok(()) };
            let drop = |variable: &Variable| variable.span.start % 3 == seed % 3;
            let left = by_us(&without(&text, drop).unwrap());
            let expected: Vec<_> =
                variables.iter().filter(|v| !drop(v)).map(|v| (v.key.clone(), v.value.clone())).collect();
            prop_assert_eq!(left, Some(expected));
        }
    }
}
