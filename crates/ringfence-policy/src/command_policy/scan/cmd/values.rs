//! `%variables%` and what gives them their values.

use super::Cmd;
use crate::command_policy::rules::Shell;
use crate::command_policy::scan::{expand, windows_env};
use crate::command_policy::state::Code;
use crate::command_policy::word::{UNKNOWN, Word};

impl<'a> Cmd<'a, '_> {
    pub(super) fn delayed(&self) -> bool {
        let rest = &self.text[self.pos..self.text.len().min(self.pos + 64)];
        memchr::memchr(b'!', rest).is_some_and(|end| {
            end > 0
                && rest[..end].iter().all(|byte| byte.is_ascii_alphanumeric() || b"_:~,-()".contains(byte))
        })
    }

    /// `%name%`, `%name:~n,m%`, `%name:a=b%`, `%1`, `%%x`
    pub(super) fn variable(&mut self, mark: u8) {
        let rest = &self.text[self.pos..self.text.len().min(self.pos + 256)];
        if mark == b'%' && rest.first() == Some(&b'%') {
            self.pos += 1;
            if let Some(&name) = self.text.get(self.pos).filter(|byte| byte.is_ascii_alphabetic()) {
                self.pos += 1;
                self.loop_variable(name);
            } else {
                self.push(b'%');
            }
            return;
        }
        let end = memchr::memchr(mark, rest).filter(|&end| {
            end > 0
                && !rest[..end].iter().any(|byte| matches!(byte, b'\n' | b'"' | b'&' | b'|'))
                && rest[0] != b' '
        });
        let Some(end) = end else {
            match rest.first() {
                Some(byte) if byte.is_ascii_digit() || *byte == b'*' => {
                    self.pos += 1;
                    if *byte == b'0' {
                        self.active = true;
                        self.word.extend_from_slice(expand::OWN_NAME);
                    } else {
                        self.push(UNKNOWN);
                    }
                }
                Some(b'~') => self.push(UNKNOWN),
                Some(&name) if name.is_ascii_alphabetic() => {
                    self.pos += 1;
                    self.loop_variable(name);
                }
                _ => self.push(b'%'),
            }
            return;
        };
        // In `for %a in (x) do y %a` the text between two marks is no name.
        if rest[..end].contains(&b' ') && !rest[..end].contains(&b'(')
            || rest[..end].contains(&b')') && end > 20
            || memchr::memmem::find(&rest[..end], b" in (").is_some()
        {
            match rest.first() {
                Some(&name) if name.is_ascii_alphabetic() => {
                    self.pos += 1;
                    self.loop_variable(name);
                }
                _ => self.push(UNKNOWN),
            }
            return;
        }
        let inner = &rest[..end];
        self.pos += end + 1;
        let (name, operation) = match inner.iter().position(|&byte| byte == b':') {
            Some(colon) => (&inner[..colon], &inner[colon + 1..]),
            None => (inner, &[][..]),
        };
        let key = key(name);
        let known = match self.scan.variables.get(&key) {
            Some(values) => values.first().cloned(),
            None => windows_env::value(name).map(<[u8]>::to_vec),
        };
        let value = match (known, operation.strip_prefix(b"~")) {
            (Some(value), Some(range)) => substring(&value, range),
            (Some(value), None) => match operation.iter().position(|&byte| byte == b'=') {
                Some(at) => replaced(&value, &operation[..at], &operation[at + 1..]),
                None => value,
            },
            (None, Some(range)) if range.ends_with(b",0") => Vec::new(),
            (None, _) => vec![UNKNOWN],
        };
        if !self.scan.may_expand(value.len(), self.place) {
            return;
        }
        // A value may hold separators: `%VAR%` is replaced before the line is read.
        self.value(&value);
    }

    pub(super) fn loop_variable(&mut self, name: u8) {
        self.loop_name = Some(name);
        let values = self.scan.variables.get(&[b'%', b'%', name][..]).cloned().unwrap_or_default();
        if values.is_empty() {
            self.push(UNKNOWN);
        }
        for (at, value) in values.iter().enumerate() {
            if at > 0 {
                self.end_word();
            }
            if self.scan.may_expand(value.len(), self.place) {
                self.active = true;
                self.word.extend_from_slice(value);
            }
        }
    }

    pub(super) fn value(&mut self, value: &[u8]) {
        if self.quote {
            self.active = true;
            self.word.extend_from_slice(value);
            return;
        }
        let starts = self.command.words.is_empty() && !self.active;
        for &byte in value {
            match byte {
                b' ' if starts && !value.starts_with(b"C:") => self.end_word(),
                b'&' | b'|' => self.end_line(),
                _ => self.push(byte),
            }
        }
    }

    /// `for [/f "options"] %x in (set) do`: the variable has each of the values.
    pub(super) fn bind_loop(&mut self, words: &[Word<'a>]) {
        let Some(inside) = words.iter().position(|word| word.text.eq_ignore_ascii_case(b"in")) else {
            return;
        };
        let trimmed = |word: &Word<'a>| -> Vec<u8> {
            word.text.iter().copied().filter(|byte| !matches!(byte, b'(' | b')')).collect()
        };
        let set: Vec<Vec<u8>> =
            words[inside + 1..].iter().take(64).map(trimmed).filter(|text| !text.is_empty()).collect();
        let lines = words.get(1).is_some_and(|word| word.text.eq_ignore_ascii_case(b"/f"));
        if lines {
            // A command in quotes, whose lines are the values.
            let text = set.join(&b' ');
            if matches!(text.first(), Some(b'\'' | b'`')) {
                let text = text[1..].strip_suffix(&text[..1]).unwrap_or(&text[1..]).to_vec();
                self.bind_listing(&text);
                self.scan.enqueue_alone(text, Code::Script(Shell::Cmd), self.place);
            }
        } else if let Some(name) = self.loop_name {
            let option = words.get(1).map(|word| word.text.to_ascii_lowercase());
            let set = match option.as_deref() {
                // `for /r [directory] %x in (set)`: everything below.
                Some(b"/r") => {
                    let root = match &words[2..inside] {
                        [root, _, ..] => root.text.to_vec(),
                        _ => self.scan.cwd.clone().unwrap_or_default(),
                    };
                    let all = set.iter().any(|text| matches!(&**text, b"*" | b"*.*" | b"."));
                    if !all || root.is_empty() {
                        return;
                    }
                    self.walked = true;
                    vec![[root.strip_suffix(b"\\").unwrap_or(&root), b"\\*"].concat()]
                }
                _ => set,
            };
            self.scan.set_variable(&[b'%', b'%', name], set);
        }
    }

    /// `for /f %x in ('dir /s /b directory')`: everything below.
    fn bind_listing(&mut self, text: &[u8]) {
        let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let lists = words.next().is_some_and(|word| word.eq_ignore_ascii_case(b"dir"));
        let (switches, operands): (Vec<&[u8]>, Vec<&[u8]>) = words.partition(|word| word.starts_with(b"/"));
        let below = switches.iter().any(|word| word.to_ascii_lowercase().starts_with(b"/s"));
        if let (true, true, Some(root), Some(name)) = (lists, below, operands.first(), self.loop_name) {
            self.walked = true;
            let root = root.iter().copied().filter(|&byte| byte != b'"').collect();
            self.scan.set_variable(&[b'%', b'%', name], vec![root]);
        }
    }

    pub(super) fn set(&mut self, words: &[Word<'a>]) {
        let text = crate::command_policy::word::joined(words);
        let text = text.strip_prefix(b"/a ").or(text.strip_prefix(b"/A ")).unwrap_or(&text);
        if let Some(at) = memchr::memchr(b'=', text) {
            let value = text[at + 1..].to_vec();
            self.scan.set_variable(&key(&text[..at]), vec![value]);
        }
    }
}

/// Variables of cmd have names in either case; they must not be taken for a POSIX shell's.
fn key(name: &[u8]) -> Vec<u8> {
    let mut key = b"%".to_vec();
    key.extend(name.trim_ascii().iter().map(u8::to_ascii_lowercase));
    key
}

fn substring(value: &[u8], range: &[u8]) -> Vec<u8> {
    let length = i64::try_from(value.len()).unwrap_or(i64::MAX);
    let number =
        |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.trim().parse::<i64>().ok());
    let mut parts = range.splitn(2, |&byte| byte == b',');
    let start = number(parts.next().unwrap_or_default()).unwrap_or(0);
    let start = if start < 0 { (length + start).max(0) } else { start.min(length) };
    let end = match parts.next().and_then(number) {
        Some(count) if count < 0 => (length + count).max(start),
        Some(count) => start.saturating_add(count).min(length),
        None => length,
    };
    let bound = |at: i64| usize::try_from(at).unwrap_or(0);
    value[bound(start)..bound(end)].to_vec()
}

fn replaced(value: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let lower = value.to_ascii_lowercase();
    let from = from.to_ascii_lowercase();
    let mut out = Vec::new();
    let mut at = 0;
    while !from.is_empty()
        && let Some(found) = memchr::memmem::find(&lower[at..], &from)
        && out.len() < 8192
    {
        out.extend_from_slice(&value[at..at + found]);
        out.extend_from_slice(to);
        at += found + from.len();
    }
    out.extend_from_slice(&value[at..]);
    out
}
