//! What follows a `$` or a backtick in a POSIX shell's text. Values that the text itself sets are put in; all others
//! are marked as unknown.

use std::borrow::Cow;
use std::rc::Rc;

use super::posix::Posix;
use super::{ansi, closing};
use crate::command_policy::posix_names::is_name;
use crate::command_policy::rules::Shell;
use crate::command_policy::run::{is_downloader, simple_output};
use crate::command_policy::state::Code;
use crate::command_policy::word::{DOWNLOADED, NOT_EMPTY, QUOTED, UNKNOWN, program};

/// What `$0` of a script is.
pub(in crate::command_policy) const OWN_NAME: &[u8] = b"\x020";
/// How far the end of an arithmetic expression is looked for.
const ARITHMETIC_LIMIT: usize = 256;

pub(super) fn dollar(posix: &mut Posix<'_, '_>) {
    let double = posix.word.in_double();
    match posix.peek(1) {
        Some(b'\'') if !double => {
            posix.word.fold(posix.text, posix.pos);
            posix.word.flags |= QUOTED;
            let mut decoded = Vec::new();
            posix.pos = ansi::decode(posix.text, posix.pos + 2, &mut decoded);
            posix.word.quoted(&decoded);
        }
        Some(b'"') if !double => {
            posix.word.fold(posix.text, posix.pos);
            posix.pos += 1;
        }
        Some(b'(') => {
            posix.word.fold(posix.text, posix.pos);
            if posix.peek(2) == Some(b'(')
                && let Some(end) = arithmetic_end(posix, posix.pos + 3)
            {
                posix.word.fold_with(&[NOT_EMPTY]);
                posix.pos = end;
                return;
            }
            posix.pos += 2;
            posix.open_substitution(false);
        }
        Some(b'{') => braced(posix),
        Some(byte) if byte.is_ascii_alphabetic() || byte == b'_' => {
            let rest = &posix.text[posix.pos + 1..];
            let length = rest
                .iter()
                .position(|&byte| !byte.is_ascii_alphanumeric() && byte != b'_')
                .unwrap_or(rest.len());
            posix.word.fold(posix.text, posix.pos);
            let name = &rest[..length];
            posix.pos += 1 + length;
            if rest[length..].starts_with(b"\\\n") {
                let name = continued_name(posix, name);
                push(posix, &name);
            } else {
                push(posix, name);
            }
        }
        // The line goes on before the name does.
        Some(b'\\') if posix.peek(2) == Some(b'\n') && posix.peek(3).is_some_and(|next| next != b'\\') => {
            posix.word.fold(posix.text, posix.pos);
            posix.pos += 2;
            dollar(posix);
        }
        Some(byte @ (b'0'..=b'9' | b'@' | b'*' | b'#' | b'?' | b'$' | b'!' | b'-')) => {
            posix.word.fold(posix.text, posix.pos);
            posix.pos += 2;
            push(posix, &[byte]);
        }
        _ => {
            posix.word.extend(posix.text, posix.pos, posix.pos + 1);
            posix.pos += 1;
        }
    }
}

/// A name that goes on behind the end of a line.
fn continued_name(posix: &mut Posix<'_, '_>, start: &[u8]) -> Vec<u8> {
    let mut name = start.to_vec();
    while posix.text[posix.pos..].starts_with(b"\\\n") {
        posix.pos += 2;
        let rest = &posix.text[posix.pos..];
        let length = rest.iter().position(|&byte| !byte.is_ascii_alphanumeric() && byte != b'_');
        let length = length.unwrap_or(rest.len());
        name.extend_from_slice(&rest[..length]);
        posix.pos += length;
    }
    name
}

/// Where `))` ends what `((` before `start` has begun; commands inside of it are read as well. `None` if these are
/// two parentheses.
pub(super) fn arithmetic_end(posix: &mut Posix<'_, '_>, start: usize) -> Option<usize> {
    if posix.arithmetic == 0 {
        return None;
    }
    let text = posix.text;
    let mut depth = 2u32;
    let mut at = start;
    let limit = text.len().min(start + ARITHMETIC_LIMIT);
    while at < limit {
        match text[at] {
            b'\\' => at += 1,
            quote @ (b'\'' | b'"') => {
                // What only looks like an end; without the other quote these are no arithmetic either.
                at += memchr::memchr(quote, &text[at + 1..limit])? + 1;
            }
            b'(' => depth += 1,
            b')' => {
                depth -= 1;
                if depth == 0 {
                    if text[at - 1] != b')' {
                        return None;
                    }
                    let inner = &text[start..at - 1];
                    if memchr::memmem::find(inner, b"$(").is_some() || inner.contains(&b'`') {
                        enqueue(posix, inner.to_vec(), Code::Expanded);
                    }
                    return Some(at + 1);
                }
            }
            b'\n' | b';' if depth == 2 => return None,
            _ => {}
        }
        at += 1;
    }
    posix.arithmetic = posix.arithmetic.saturating_sub(limit - start.min(limit));
    None
}

/// `${...}`
fn braced(posix: &mut Posix<'_, '_>) {
    let start = posix.pos + 2;
    let Some(end) = brace_end(posix, start) else {
        posix.word.extend(posix.text, posix.pos, posix.pos + 1);
        posix.pos += 1;
        return;
    };
    let text = posix.text;
    let inner = without_continuations(&text[start..end]);
    let inner = &*inner;
    posix.word.fold(text, posix.pos);
    posix.pos = end + 1;
    if memchr::memmem::find(inner, b"$(").is_some() || inner.contains(&b'`') {
        // With its continuations: a comment in it is ended by them all the same.
        enqueue(posix, text[start..end].to_vec(), Code::Expanded);
    }
    let length =
        inner.iter().position(|&byte| !byte.is_ascii_alphanumeric() && byte != b'_').unwrap_or(inner.len());
    let length = if length == 0 && matches!(inner.first(), Some(b'@' | b'*')) { 1 } else { length };
    let (name, mut operation) = inner.split_at(length);
    if name.is_empty() {
        // ${#x}, ${!x}
        posix.word.fold_with(&[if inner.first() == Some(&b'#') { NOT_EMPTY } else { UNKNOWN }]);
        return;
    }
    if operation.starts_with(b"[")
        && let Some(close) = memchr::memchr(b']', operation)
    {
        operation = &operation[close + 1..];
    }
    if operation.is_empty() || name == b"IFS" {
        push(posix, name);
        return;
    }
    let known = value(posix, name);
    let (operator, word) = if let Some(word) = operation.strip_prefix(b":")
        && matches!(word.first(), Some(b'-' | b'=' | b'?' | b'+'))
    {
        (word[0], &word[1..])
    } else {
        (operation[0], &operation[1..])
    };
    // A default takes the place of an empty value too; a parameter that is not given is empty here.
    let known = known.filter(|values| {
        !matches!(operator, b'-' | b'=' | b'?' | b'+') || values.iter().any(|value| !value.is_empty())
    });
    match (operator, known) {
        (b'-' | b'=' | b'?', Some(values)) => push_values(posix, &values),
        (b'-' | b'=', None) | (b'+', Some(_)) => {
            let word = unquoted(word);
            let word = if word == b"$HOME" || word == b"${HOME}" { b"~".to_vec() } else { word };
            if word.contains(&b'$') {
                posix.word.fold_with(&[UNKNOWN]);
            } else {
                posix.push_value(&word);
            }
        }
        (b'?', None) => posix.word.fold_with(&[NOT_EMPTY]),
        (b':', known) => {
            let text = known.and_then(|values| values.into_iter().next());
            substring(posix, name, text.as_deref(), word);
        }
        (b'/', Some(values)) => {
            let all = word.first() == Some(&b'/');
            let word = if all { &word[1..] } else { word };
            let mut parts = word.splitn(2, |&byte| byte == b'/');
            let (from, to) =
                (unquoted(parts.next().unwrap_or_default()), unquoted(parts.next().unwrap_or_default()));
            let values: Vec<_> = values.iter().map(|text| replace(text, &from, &to, all)).collect();
            push_values(posix, &values);
        }
        (b'%', Some(values)) if !word.contains(&b'*') => {
            let values: Vec<_> =
                values.iter().map(|text| text.strip_suffix(word).unwrap_or(text).to_vec()).collect();
            push_values(posix, &values);
        }
        (b'#', Some(values)) if !word.contains(&b'*') => {
            let values: Vec<_> =
                values.iter().map(|text| text.strip_prefix(word).unwrap_or(text).to_vec()).collect();
            push_values(posix, &values);
        }
        (b',' | b'^', Some(values)) => {
            let values: Vec<_> = values.iter().map(|text| in_case(text, operator, word)).collect();
            push_values(posix, &values);
        }
        (b'@', Some(values)) => {
            if word == b"P" {
                // A prompt: substitutions in it are run.
                for text in &values {
                    enqueue(posix, text.clone(), Code::Expanded);
                }
            }
            let values: Vec<_> = values.iter().map(|text| transformed(text, word)).collect();
            push_values(posix, &values);
        }
        _ => posix.word.fold_with(&[UNKNOWN]),
    }
}

/// How the end of `${` is looked for. A text that never has one is not searched again and again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Braces {
    #[default]
    Balanced,
    First,
    None,
}

/// A text whose lines that end in a backslash go on, even between quotes.
pub(super) fn without_continuations(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memmem::find(text, b"\\\n").is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &text[at..]) {
        out.extend_from_slice(&text[at..at + found]);
        at += found;
        let end = (at + 2).min(text.len());
        if text.get(at + 1) != Some(&b'\n') {
            out.extend_from_slice(&text[at..end]);
        }
        at = end;
    }
    out.extend_from_slice(&text[at..]);
    Cow::Owned(out)
}

/// The `}` that belongs to the `${` before `start`.
fn brace_end(posix: &mut Posix<'_, '_>, start: usize) -> Option<usize> {
    let text = posix.text;
    let first = || memchr::memchr(b'}', &text[start..]).map(|at| start + at);
    match posix.braces {
        Braces::Balanced => {}
        Braces::First => {
            let found = first();
            if found.is_none() {
                posix.braces = Braces::None;
            }
            return found;
        }
        Braces::None => return None,
    }
    if let Some(end) = closing::brace(text, start, posix.word.in_double()) {
        return Some(end);
    }
    // It has no end, or quotes that are read otherwise here: from now on the first brace is one.
    posix.braces = Braces::First;
    first()
}

fn substring(posix: &mut Posix<'_, '_>, name: &[u8], known: Option<&[u8]>, word: &[u8]) {
    let mut numbers = word
        .split(|&byte| byte == b':')
        .map(|part| std::str::from_utf8(part.trim_ascii()).ok().and_then(|text| text.parse::<usize>().ok()));
    let (offset, length) = (numbers.next().flatten(), numbers.next().flatten());
    let absolute = [&b"HOME"[..], b"PWD", b"OLDPWD", b"PATH", b"SHELL", b"BASH", b"TMPDIR"].contains(&name);
    match (offset, length, known) {
        (Some(0), Some(1), _) if absolute => posix.push_value(b"/"),
        (Some(offset), length, Some(text)) if !absolute => {
            let start = offset.min(text.len());
            let end = length.map_or(text.len(), |length| (start + length).min(text.len()));
            let part = text[start..end].to_vec();
            posix.push_value(&part);
        }
        _ => posix.word.fold_with(&[UNKNOWN]),
    }
}

/// `${x,}`, `${x,,}`, `${x^}`, `${x^^}`; a pattern says which letters are meant and is taken for all.
fn in_case(text: &[u8], operator: u8, word: &[u8]) -> Vec<u8> {
    let all = word.first() == Some(&operator);
    let mut out = text.to_vec();
    let end = if all { out.len() } else { out.len().min(1) };
    if operator == b',' {
        out[..end].make_ascii_lowercase();
    } else {
        out[..end].make_ascii_uppercase();
    }
    out
}

/// `${x@Q}` and its like.
fn transformed(text: &[u8], operator: &[u8]) -> Vec<u8> {
    match operator {
        b"U" => text.to_ascii_uppercase(),
        b"L" => text.to_ascii_lowercase(),
        b"u" => in_case(text, b'^', b""),
        b"E" => {
            let mut out = Vec::new();
            ansi::decode(text, 0, &mut out);
            out
        }
        b"Q" | b"K" => {
            let mut out = b"'".to_vec();
            for &byte in text {
                out.extend_from_slice(if byte == b'\'' { b"'\\''" } else { std::slice::from_ref(&byte) });
            }
            out.push(b'\'');
            out
        }
        _ => text.to_vec(),
    }
}

fn replace(text: &[u8], from: &[u8], to: &[u8], all: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while !from.is_empty()
        && let Some(at) = memchr::memmem::find(rest, from)
        && out.len() < 8192
    {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(to);
        rest = &rest[at + from.len()..];
        if !all {
            break;
        }
    }
    out.extend_from_slice(rest);
    out
}

/// A default value without its quotes and escapes.
fn unquoted(word: &[u8]) -> Vec<u8> {
    word.iter().copied().filter(|byte| !matches!(byte, b'\'' | b'"' | b'\\')).collect()
}

fn push(posix: &mut Posix<'_, '_>, name: &[u8]) {
    if name == b"IFS" {
        if posix.word.in_double() {
            posix.word.fold_with(b" ");
        } else {
            posix.break_word();
        }
        return;
    }
    if posix.scan.downloaded.iter().any(|known| known == name) {
        posix.word.flags |= DOWNLOADED;
    }
    match value(posix, name) {
        Some(values) => push_values(posix, &values),
        None => posix.word.fold_with(&[UNKNOWN]),
    }
}

fn push_values(posix: &mut Posix<'_, '_>, values: &[Vec<u8>]) {
    if !posix.scan.may_expand(values.iter().map(Vec::len).sum(), posix.place) {
        posix.word.fold_with(&[UNKNOWN]);
        return;
    }
    for (at, text) in values.iter().enumerate() {
        if at > 0 {
            let double = posix.word.in_double();
            posix.word.end_double();
            posix.end_word();
            if double {
                posix.word.set_double();
            }
        }
        posix.push_value(text);
    }
}

/// The value of a parameter, if the text or the caller says what it is.
fn value(posix: &Posix<'_, '_>, name: &[u8]) -> Option<Vec<Vec<u8>>> {
    if let [digit @ b'0'..=b'9'] = name {
        let at = usize::from(digit - b'0');
        let given = posix.scan.parameters.as_ref().unwrap_or(posix.positional).get(at).cloned();
        let absent = if at == 0 { OWN_NAME.to_vec() } else { Vec::new() };
        return Some(vec![given.unwrap_or(absent)]);
    }
    match name {
        b"@" | b"*" => {
            let parameters = posix.scan.parameters.as_ref().unwrap_or(posix.positional);
            let rest = parameters.get(1..).unwrap_or_default();
            return Some(if rest.is_empty() { vec![Vec::new()] } else { rest.to_vec() });
        }
        b"#" | b"?" | b"$" | b"!" | b"-" => return Some(vec![vec![NOT_EMPTY]]),
        _ => {}
    }
    if !is_name(name) {
        return None;
    }
    if let Some(values) = posix.scan.variables.get(name) {
        return Some(values.clone());
    }
    let fixed: &[u8] = match name {
        b"HOME" => b"~",
        b"SHELL" => b"/bin/sh",
        b"BASH" => b"/bin/bash",
        b"PWD" => return Some(vec![posix.scan.cwd.clone().unwrap_or_else(|| vec![NOT_EMPTY])]),
        _ => return None,
    };
    Some(vec![fixed.to_vec()])
}

/// `` `...` ``: its text is read like a script of its own.
pub(super) fn backtick(posix: &mut Posix<'_, '_>) {
    posix.word.fold(posix.text, posix.pos);
    let start = posix.pos + 1;
    let mut inner = Vec::new();
    let mut at = start;
    while at < posix.text.len() && posix.text[at] != b'`' {
        if posix.text[at] == b'\\' && matches!(posix.text.get(at + 1), Some(b'`' | b'\\' | b'$')) {
            at += 1;
        }
        inner.extend(posix.text.get(at));
        at += 1;
    }
    posix.pos = (at + 1).min(posix.text.len());
    let inner = inner.trim_ascii().to_vec();
    if inner.is_empty() {
        return;
    }
    let first = inner.split(u8::is_ascii_whitespace).next().unwrap_or_default();
    if is_downloader(&program(first)) {
        posix.word.flags |= DOWNLOADED;
    }
    match simple_output(&inner) {
        Some(output) => posix.push_value(&output),
        None => posix.word.fold_with(&[UNKNOWN]),
    }
    enqueue(posix, inner, Code::Script(Shell::Posix));
}

fn enqueue(posix: &mut Posix<'_, '_>, text: Vec<u8>, kind: Code) {
    posix.scan.enqueue(text, kind, posix.place, Rc::clone(posix.positional), Rc::default());
}
