//! Strings and variables.

use super::{Command, PowerShell, key, text_key};
use crate::command_policy::scan::windows_env;
use crate::command_policy::word::QUOTED;

impl<'a> PowerShell<'a, '_> {
    pub(super) fn single_quoted(&mut self) {
        self.active = true;
        self.flags |= QUOTED;
        while self.pos < self.text.len() {
            let rest = &self.text[self.pos..];
            let end = memchr::memchr(b'\'', rest).unwrap_or(rest.len());
            self.word.extend_from_slice(&rest[..end]);
            self.pos = (self.pos + end + 1).min(self.text.len());
            if self.peek(0) != Some(b'\'') || end == rest.len() {
                return;
            }
            self.word.push(b'\'');
            self.pos += 1;
        }
    }

    pub(super) fn double_quoted(&mut self) {
        let byte = self.text[self.pos];
        self.pos += 1;
        match byte {
            b'"' if self.peek(0) == Some(b'"') => {
                self.pos += 1;
                self.push(b'"');
            }
            b'"' => self.string = false,
            b'`' => {
                if let Some(next) = self.peek(0) {
                    self.push(next);
                    self.pos += 1;
                }
            }
            b'$' if self.peek(0) == Some(b'(') => {
                self.pos += 1;
                self.open_paren();
            }
            b'$' => self.variable(),
            _ => self.push(byte),
        }
    }

    /// `@'` to a line that starts with `'@`.
    pub(super) fn here_string(&mut self) {
        let quote = self.text[self.pos];
        let end = [b'\n', quote, b'@'];
        let rest = &self.text[self.pos + 1..];
        let length = memchr::memmem::find(rest, &end).unwrap_or(rest.len());
        self.active = true;
        self.flags |= QUOTED;
        self.word.extend_from_slice(rest[..length].trim_ascii());
        self.pos = (self.pos + 1 + length + 3).min(self.text.len());
    }

    pub(super) fn variable(&mut self) {
        let rest = &self.text[self.pos..];
        let (name, length) = if rest.first() == Some(&b'{') {
            let end = memchr::memchr(b'}', &rest[..rest.len().min(256)]).unwrap_or(0);
            (&rest[1.min(end)..end], if end > 0 { end + 1 } else { 0 })
        } else {
            let end = rest
                .iter()
                .position(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'_' | b':' | b'?' | b'^'))
                .unwrap_or(rest.len());
            (&rest[..end], end)
        };
        // `$a::b` and a colon before a path are no part of the name.
        let (name, length) = match name.iter().position(|&byte| byte == b':') {
            Some(at)
                if rest.first() != Some(&b'{')
                    && !name[..at].eq_ignore_ascii_case(b"env")
                    && !self.scope(&name[..at]) =>
            {
                (&name[..at], at)
            }
            _ => (name, length),
        };
        self.pos += length;
        let lower = name.to_ascii_lowercase();
        let key = key(&lower);
        // `$_.FullName` of what is listed is what was listed.
        if matches!(&*lower, b"_" | b"psitem") && self.scan.variables.contains_key(&key) {
            let rest = &self.text[self.pos..self.text.len().min(self.pos + 16)].to_ascii_lowercase();
            let names: [&[u8]; 5] = [b".fullname", b".pspath", b".path", b".name", b".directory"];
            self.pos += names.iter().find(|name| rest.starts_with(name)).map_or(0, |name| name.len());
        }
        let value = match lower.strip_prefix(b"env:") {
            Some(name) => windows_env::value(name).map(<[u8]>::to_vec),
            None => match self.scan.variables.get(&key) {
                Some(values) => values.first().cloned(),
                None if lower == b"home" => Some(b"~".to_vec()),
                None => None,
            },
        };
        let value = value.filter(|value| self.scan.may_expand(value.len(), self.place));
        if !self.active && !self.string && self.command.words.is_empty() && value.is_some() {
            // A variable by itself is an expression, not the name of a command.
            self.flags |= QUOTED;
        }
        self.active = true;
        match value {
            Some(value) => self.word.extend_from_slice(&value),
            None => {
                self.word.push(b'$');
                self.word.extend_from_slice(name);
            }
        }
        // In an expression a variable stands for the statement that gave it its value.
        let texts = self.scan.variables.get(&text_key(&lower)).and_then(|texts| texts.first()).cloned();
        if let Some(text) = texts
            && self.scan.may_expand(text.len(), self.place)
        {
            self.statement.push(b' ');
            self.statement.extend_from_slice(&text);
        }
    }

    pub(super) fn scope(&self, name: &[u8]) -> bool {
        [&b"global"[..], b"script", b"local", b"private", b"using"]
            .iter()
            .any(|scope| name.eq_ignore_ascii_case(scope))
    }

    /// `'a'+'b'`
    pub(super) fn joins(&self) -> bool {
        let next = self.text[self.pos..].iter().find(|byte| **byte != b' ');
        self.active && self.flags & QUOTED != 0 && matches!(next, Some(b'\'' | b'"'))
    }

    /// Whether `=` follows a variable at the start of a command.
    pub(super) fn assigns(&self) -> bool {
        let first = match self.command.words.len() {
            0 => self.active,
            1 => !self.active,
            _ => false,
        };
        first && self.source_variable().is_some()
    }

    /// The name in `$name =` before the position, from the raw text: its value may have been put in.
    pub(super) fn source_variable(&self) -> Option<&'a [u8]> {
        let before = &self.text[..self.pos - 1];
        let before = before.strip_suffix(b"+").unwrap_or(before).trim_ascii_end();
        let start = before.len().saturating_sub(64);
        let at = before[start..].iter().rposition(|&byte| byte == b'$')? + start;
        let name = &before[at + 1..];
        let good = !name.is_empty()
            && name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':'));
        let fresh = before[..at].trim_ascii_end().last().is_none_or(|byte| b";\n\r{(|]".contains(byte));
        (good && fresh).then_some(name)
    }

    pub(super) fn assignment(&mut self) {
        let Some(name) = self.source_variable() else { return };
        self.word.clear();
        self.said = 0;
        self.active = false;
        self.flags = 0;
        self.command = Command::default();
        self.statement.push(b' ');
        self.assigned = Some((name.to_ascii_lowercase(), self.statement.len()));
    }
}
