use std::borrow::Cow;

use crate::command_policy::posix_names::is_name;
use crate::command_policy::word::{LITERAL_TILDE, QUOTED, Word};

/// Most words that one word's braces expand to.
const EXPANSION_LIMIT: usize = 64;
/// Braces and commas outside quotes, until the word ends.
const OPEN: u8 = 3;
const COMMA: u8 = 4;
const CLOSE: u8 = 5;

/// A word that is being read. As long as nothing is folded it is a piece of the text.
#[derive(Debug, Default)]
pub(super) struct Builder {
    active: bool,
    copied: bool,
    start: usize,
    buffer: Vec<u8>,
    pub(super) flags: u8,
    double: bool,
    body: bool,
    open: u32,
    commas: bool,
    marks: bool,
    /// What a process substitution in the word writes.
    pub(super) process: Option<Vec<u8>>,
}

impl Builder {
    pub(super) fn is_active(&self) -> bool {
        self.active
    }

    pub(super) fn in_double(&self) -> bool {
        self.double
    }

    pub(super) fn is_body(&self) -> bool {
        self.body
    }

    pub(super) fn set_double(&mut self) {
        self.active = true;
        self.copied = true;
        self.double = true;
    }

    /// Everything up to the end of the text is as between double quotes.
    pub(super) fn set_body(&mut self) {
        self.set_double();
        self.body = true;
    }

    pub(super) fn end_double(&mut self) {
        self.double = false;
    }

    /// Takes over a run of bytes as they are.
    pub(super) fn extend(&mut self, text: &[u8], start: usize, end: usize) {
        if !self.active {
            self.active = true;
            self.start = start;
        }
        if self.copied {
            if self.buffer.is_empty() && self.flags & QUOTED != 0 && text[start] == b'~' {
                self.flags |= LITERAL_TILDE;
            }
            self.buffer.extend_from_slice(&text[start..end]);
        }
    }

    /// From `at` on the word differs from the text.
    pub(super) fn fold(&mut self, text: &[u8], at: usize) {
        if self.active && !self.copied {
            self.buffer.extend_from_slice(&text[self.start..at]);
        }
        self.active = true;
        self.copied = true;
    }

    pub(super) fn fold_with(&mut self, bytes: &[u8]) {
        self.active = true;
        self.copied = true;
        self.buffer.extend_from_slice(bytes);
    }

    pub(super) fn literal(&mut self, byte: u8) {
        self.quoted(&[byte]);
    }

    pub(super) fn quoted(&mut self, bytes: &[u8]) {
        if self.buffer.is_empty() && bytes.first() == Some(&b'~') {
            self.flags |= LITERAL_TILDE;
        }
        self.fold_with(bytes);
    }

    /// `{`, `,` or `}` outside quotes.
    pub(super) fn brace(&mut self, text: &[u8], at: usize, byte: u8) {
        let mark = match byte {
            b'{' => {
                self.open += 1;
                OPEN
            }
            b',' if self.open > 0 => {
                self.commas = true;
                COMMA
            }
            b'}' if self.open > 0 => {
                self.open -= 1;
                CLOSE
            }
            _ => {
                self.extend(text, at, at + 1);
                return;
            }
        };
        self.fold(text, at);
        self.marks = true;
        self.buffer.push(mark);
    }

    pub(super) fn has_braces(&self) -> bool {
        self.commas
    }

    fn current<'t>(&'t self, text: &'t [u8], pos: usize) -> &'t [u8] {
        if self.copied { &self.buffer } else { &text[self.start..pos] }
    }

    /// Whether the word so far is the number of a descriptor.
    pub(super) fn is_number(&self, text: &[u8], pos: usize) -> bool {
        self.active && !self.copied && text[self.start..pos].iter().all(u8::is_ascii_digit)
    }

    /// Whether the word so far is `{name}`, which gets the number of a descriptor.
    pub(super) fn is_descriptor(&self) -> bool {
        self.active && self.copied && matches!(&*self.buffer, [OPEN, name @ .., CLOSE] if is_name(name))
    }

    /// The name in `name=` or `name+=`, if that is the word so far.
    pub(super) fn assigned_name(&self, text: &[u8], pos: usize) -> Option<Vec<u8>> {
        if !self.active {
            return None;
        }
        let name = self.current(text, pos).strip_suffix(b"=")?;
        let name = name.strip_suffix(b"+").unwrap_or(name);
        is_name(name).then(|| name.to_vec())
    }

    /// The word, if nothing of it was folded; most are like that.
    pub(super) fn take_plain<'a>(&mut self, text: &'a [u8], pos: usize) -> Option<Word<'a>> {
        if self.copied {
            return None;
        }
        self.active = false;
        Some(Word { text: Cow::Borrowed(&text[self.start..pos]), flags: 0 })
    }

    /// The word, unless it is empty and was never quoted.
    pub(super) fn finish<'a>(mut self, text: &'a [u8], pos: usize) -> Option<Word<'a>> {
        if !self.copied {
            return Some(Word { text: Cow::Borrowed(&text[self.start..pos]), flags: self.flags });
        }
        if self.buffer.is_empty() && self.flags & QUOTED == 0 {
            return None;
        }
        if self.marks {
            unmark(&mut self.buffer);
        }
        Some(Word { text: Cow::Owned(self.buffer), flags: self.flags })
    }

    /// The words that the braces stand for.
    pub(super) fn expand<'a>(self, text: &[u8], pos: usize) -> Vec<Word<'a>> {
        let flags = self.flags;
        let mut done = Vec::new();
        let mut todo = vec![self.current(text, pos).to_vec()];
        while let Some(mut word) = todo.pop() {
            match alternatives(&word) {
                Some((start, end, commas)) if todo.len() + done.len() < EXPANSION_LIMIT => {
                    let mut from = start + 1;
                    let mut expanded = Vec::new();
                    for to in commas.into_iter().chain([end]) {
                        let mut one = word[..start].to_vec();
                        one.extend_from_slice(&word[from..to]);
                        one.extend_from_slice(&word[end + 1..]);
                        expanded.push(one);
                        from = to + 1;
                    }
                    todo.extend(expanded.into_iter().rev());
                }
                _ => {
                    unmark(&mut word);
                    if !word.is_empty() || flags & QUOTED != 0 {
                        done.push(Word { text: Cow::Owned(word), flags });
                    }
                }
            }
        }
        done
    }
}

/// The first pair of braces with a comma of its own: where it starts and ends, and its commas.
fn alternatives(word: &[u8]) -> Option<(usize, usize, Vec<usize>)> {
    let mut open: Vec<(usize, Vec<usize>)> = Vec::new();
    let mut outermost: Option<(usize, usize, Vec<usize>)> = None;
    for (at, &byte) in word.iter().enumerate() {
        match byte {
            OPEN => open.push((at, Vec::new())),
            COMMA => {
                if let Some((_, commas)) = open.last_mut() {
                    commas.push(at);
                }
            }
            CLOSE => {
                if let Some((start, commas)) = open.pop()
                    && !commas.is_empty()
                {
                    outermost = Some((start, at, commas));
                    if open.is_empty() {
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    outermost
}

fn unmark(word: &mut [u8]) {
    for byte in word {
        *byte = match *byte {
            OPEN => b'{',
            COMMA => b',',
            CLOSE => b'}',
            other => other,
        };
    }
}
