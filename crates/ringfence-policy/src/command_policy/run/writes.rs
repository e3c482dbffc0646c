//! Files that a command writes: by redirection, and because the program is told to.

use super::Command;
use crate::command_policy::rules::{self, Operands, WRITERS, WRITERS_BY_PROGRAM};
use crate::command_policy::state::{Place, Scan};
use crate::command_policy::word::Word;

pub(super) fn redirects(scan: &mut Scan, command: &Command<'_>, place: Place) {
    for word in &command.writes {
        if may_matter(&word.text) {
            write(scan, word, place);
        }
    }
    for word in command.reads.iter().chain(&command.writes) {
        if word.text.starts_with(b"/dev") {
            scan.event("@redirect", std::slice::from_ref(word), place);
        }
    }
}

/// Descriptors, and the place where output most often goes to be forgotten.
fn may_matter(text: &[u8]) -> bool {
    text != b"/dev/null" && text != b"-" && !text.iter().all(u8::is_ascii_digit)
}

fn write(scan: &mut Scan, word: &Word<'_>, place: Place) {
    scan.event("@write", std::slice::from_ref(word), place);
}

/// What `tee`, `cp`, `dd` and their like write.
pub(super) fn operands(scan: &mut Scan, name: &[u8], args: &[Word<'_>], place: Place) {
    for &at in WRITERS_BY_PROGRAM.lookup(name) {
        let writer = &WRITERS[usize::from(at)];
        if let Some(pattern) = writer.needs
            && !args.iter().any(|word| rules::matches(pattern, &word.text))
        {
            continue;
        }
        let mut operands: Vec<&Word<'_>> = Vec::new();
        let mut skip = false;
        let mut options = true;
        let mut by_option = false;
        for (index, word) in args.iter().enumerate() {
            let text = &*word.text;
            if std::mem::take(&mut skip) {
                continue;
            }
            if options && text == b"--" {
                options = false;
                continue;
            }
            if let Some((known, value)) = value_of(writer.options, text) {
                by_option = true;
                match value {
                    Some(value) => {
                        write(scan, &Word { text: value.to_vec().into(), flags: word.flags }, place)
                    }
                    None => {
                        if let Some(next) = args.get(index + 1) {
                            write(scan, next, place);
                        }
                        skip = !known.ends_with('=');
                    }
                }
                continue;
            }
            let dash = options && text.len() > 1 && text[0] == b'-';
            if dash {
                skip = writer.values.iter().any(|known| text.eq_ignore_ascii_case(known.as_bytes()));
                continue;
            }
            operands.push(word);
        }
        match writer.operands {
            Operands::All => operands.iter().for_each(|word| write(scan, word, place)),
            Operands::Last if operands.len() > 1 && !by_option => {
                if let Some(word) = operands.last() {
                    write(scan, word, place);
                }
            }
            Operands::First if !by_option => {
                if let Some(word) = operands.first() {
                    write(scan, word, place);
                }
            }
            _ => {}
        }
    }
}

/// The option that this is, and its value if it is in the same word.
fn value_of<'t>(options: &[&'static str], text: &'t [u8]) -> Option<(&'static str, Option<&'t [u8]>)> {
    options.iter().find_map(|known| {
        let head = text.get(..known.len())?;
        if !head.eq_ignore_ascii_case(known.as_bytes()) || known.len() == 2 && head != known.as_bytes() {
            return None;
        }
        let rest = &text[known.len()..];
        if known.ends_with('=') {
            return Some((*known, Some(rest)));
        }
        match rest.first() {
            None => Some((*known, None)),
            Some(b'=' | b':') => Some((*known, Some(&rest[1..]))),
            Some(_) if known.len() == 2 => Some((*known, Some(rest))),
            Some(_) => None,
        }
    })
}
