//! Files that a command writes: by redirection, and because the program is told to.

use super::{Command, arguments};
use crate::command_policy::rules::{self, Operands, Program, WRITERS};
use crate::command_policy::state::{Place, Scan};
use crate::command_policy::word::Word;

pub(super) fn redirects(scan: &mut Scan, command: &Command<'_>, place: Place) {
    for word in &command.writes {
        write(scan, word, place);
    }
    for word in command.reads.iter().chain(&command.writes) {
        if word.text.starts_with(b"/dev") {
            scan.event("@redirect", std::slice::from_ref(word), place);
        }
    }
}

fn write(scan: &mut Scan, word: &Word<'_>, place: Place) {
    if may_matter(scan, &word.text) {
        scan.event("@write", std::slice::from_ref(word), place);
    }
}

/// Descriptors don't, nor the place where output most often goes to be forgotten, nor a name in a directory that is not
/// known: no rule speaks of it.
fn may_matter(scan: &Scan, text: &[u8]) -> bool {
    let place = scan.cwd.is_some() || scan.lines.wanted || text.iter().any(|byte| b"/\\:~".contains(byte));
    place && text != b"/dev/null" && text != b"-" && !text.iter().all(u8::is_ascii_digit)
}

/// What `tee`, `cp`, `dd` and their like write.
pub(super) fn operands(scan: &mut Scan, program: Program, args: &[Word<'_>], place: Place) {
    for &at in program.writers {
        let writer = &WRITERS[usize::from(at)];
        if let Some(pattern) = writer.needs
            && !args.iter().any(|word| rules::matches(pattern, &word.text))
        {
            continue;
        }
        let arguments::Arguments { given, operands } = arguments::read(args, writer.options, writer.values);
        for (word, offset) in &given {
            let text = word.text[*offset..].to_vec();
            write(scan, &Word { text: text.into(), flags: word.flags }, place);
        }
        let by_option = !given.is_empty();
        match writer.operands {
            Operands::All => operands.iter().for_each(|word| write(scan, word, place)),
            Operands::Last if operands.len() > 1 && !by_option => {
                if let Some(word) = operands.last() {
                    write(scan, word, place);
                }
            }
            Operands::First | Operands::Second if !by_option => {
                let at = usize::from(writer.operands == Operands::Second);
                if let Some(word) = operands.get(at) {
                    write(scan, word, place);
                }
            }
            _ => {}
        }
    }
}
