use std::ops::Range;

/// A Rust source file split into what the compiler runs and what people read. Both texts have the bytes and
/// lines of the file, the other part blanked, so that an offset means the same place in each.
#[derive(Debug)]
pub(crate) struct Source {
    /// Comments and the contents of string and character literals are spaces.
    pub(crate) code: String,
    /// All but comments are spaces.
    pub(crate) comments: String,
}

impl Source {
    pub(crate) fn parse(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut parts = Parts { code: blank(bytes), comments: blank(bytes) };
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let end = if rest.starts_with(b"//") {
                parts.comment(bytes, at..at + rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len()))
            } else if rest.starts_with(b"/*") {
                parts.comment(bytes, at..at + block_comment(rest))
            } else if let Some(length) = raw_string(bytes, at) {
                parts.literal(bytes, at..at + length)
            } else if rest[0] == b'"' {
                parts.literal(bytes, at..at + quoted(rest, b'"'))
            } else if let Some(length) = character(text, at) {
                parts.literal(bytes, at..at + length)
            } else {
                parts.code[at] = bytes[at];
                at + 1
            };
            at = end;
        }
        Self { code: text_of(parts.code), comments: text_of(parts.comments) }
    }

    /// The code with each `#[cfg(test)]` item blanked.
    pub(crate) fn code_without_tests(&self) -> String {
        const MARK: &str = "#[cfg(test)]";
        let mut code = self.code.clone().into_bytes();
        let mut from = 0;
        while let Some(start) = self.code[from..].find(MARK).map(|offset| from + offset) {
            let end = item_end(self.code.as_bytes(), start + MARK.len());
            for byte in &mut code[start..end] {
                if *byte != b'\n' {
                    *byte = b' ';
                }
            }
            from = end;
        }
        text_of(code)
    }
}

/// Number of the line, from 1, that holds the byte at `offset`.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset].iter().filter(|&&byte| byte == b'\n').count() + 1
}

/// Offsets at which `needle` stands and is not part of a longer identifier.
pub(crate) fn words<'a>(text: &'a str, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = text.as_bytes();
    let starts_word = needle.as_bytes().first().copied().is_some_and(identifier);
    let ends_word = needle.as_bytes().last().copied().is_some_and(identifier);
    text.match_indices(needle).map(|(at, _)| at).filter(move |&at| {
        let before = at.checked_sub(1).map(|i| bytes[i]);
        let after = bytes.get(at + needle.len()).copied();
        !(starts_word && before.is_some_and(identifier) || ends_word && after.is_some_and(identifier))
    })
}

struct Parts {
    code: Vec<u8>,
    comments: Vec<u8>,
}

impl Parts {
    fn comment(&mut self, bytes: &[u8], range: Range<usize>) -> usize {
        self.comments[range.clone()].copy_from_slice(&bytes[range.clone()]);
        range.end
    }

    /// Keeps the quotes, which show that something stands here.
    fn literal(&mut self, bytes: &[u8], range: Range<usize>) -> usize {
        for at in [range.start, range.end - 1] {
            self.code[at] = bytes[at];
        }
        range.end
    }
}

fn blank(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|&byte| if byte == b'\n' { b'\n' } else { b' ' }).collect()
}

fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

fn identifier(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Length of the block comment that `rest` starts with; they nest.
fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => {
                (depth, at) = (depth - 1, at + 2);
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    rest.len()
}

/// Length of a literal between two `quote`s, with backslash escapes.
fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Length of the raw string (`r"…"`, `br#"…"#`, `cr"…"`) that starts at `at`.
fn raw_string(bytes: &[u8], at: usize) -> Option<usize> {
    if at > 0 && identifier(bytes[at - 1]) {
        return None;
    }
    let rest = &bytes[at..];
    let prefix = [&b"r"[..], b"br", b"cr"].into_iter().find(|prefix| rest.starts_with(prefix))?;
    let hashes = rest[prefix.len()..].iter().take_while(|&&byte| byte == b'#').count();
    let open = prefix.len() + hashes;
    if rest.get(open) != Some(&b'"') {
        return None;
    }
    let close: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let body = &rest[open + 1..];
    let length = body.windows(close.len()).position(|window| window == close)?;
    Some(open + 1 + length + close.len())
}

/// Length of the character literal at `at`; `None` for a lifetime.
fn character(text: &str, at: usize) -> Option<usize> {
    let rest = text.as_bytes()[at..].strip_prefix(b"'")?;
    if rest.first() == Some(&b'\\') {
        return Some(quoted(&text.as_bytes()[at..], b'\''));
    }
    let width = text.get(at + 1..)?.chars().next()?.len_utf8();
    (rest.get(width) == Some(&b'\'')).then_some(width + 2)
}

/// End of the item that follows the attribute ending at `from`: its closing brace or its semicolon.
fn item_end(code: &[u8], from: usize) -> usize {
    let mut depth = 0_usize;
    for (at, &byte) in code.iter().enumerate().skip(from) {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            b';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_are_not_code() {
        let text = r####"let a = "unsafe"; // unsafe
let b = r##"unsafe "# "##; /* unsafe /* nested */ unsafe */ let c = 'u'; let d: &'static str = "\"unsafe";
let e = b'\''; let é = 'é'; unsafe { }"####;
        let source = Source::parse(text);
        assert_eq!(source.code.len(), text.len());
        assert_eq!(words(&source.code, "unsafe").collect::<Vec<_>>(), [text.rfind("unsafe").unwrap()]);
        assert_eq!(words(&source.comments, "unsafe").count(), 3);
        assert!(source.code.contains("&'static str"));
        assert_eq!(line_of(text, text.rfind("unsafe").unwrap()), 3);
    }

    #[test]
    fn test_items_are_blanked_and_nothing_after_them() {
        let text = "fn a() { x(); }\n#[cfg(test)]\nmod tests { fn b() { y(); } }\nfn c() { z(); }\n#[cfg(test)]\nmod more;\nw();";
        let code = Source::parse(text).code_without_tests();
        assert!(!code.contains("y()") && !code.contains("more"));
        assert!(code.contains("x()") && code.contains("z()") && code.contains("w()"));
        assert_eq!(line_of(&code, code.find("w()").unwrap()), 7);
    }

    #[test]
    fn a_word_is_not_part_of_an_identifier() {
        assert_eq!(words("unsafe_code not_unsafe unsafe", "unsafe").collect::<Vec<_>>(), [23]);
        assert_eq!(words("a.exists() b.exists()", ".exists()").count(), 2);
    }
}
