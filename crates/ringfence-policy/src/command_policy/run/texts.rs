//! Texts that a program runs because an argument is one, or standard input: an editor's commands, a debugger's, options
//! that name a program. Which programs these are is data (`rules/texts.toml`).

use super::{Around, arguments, sed};
use crate::command_policy::rules::{Language, Operands, Program, Shell, TEXTS, Text, prefix};
use crate::command_policy::state::{Code, Scan};
use crate::command_policy::word::{DOWNLOADED, Word};

/// Most lines of a text that are looked at.
const LINES: usize = 4096;

pub(super) fn read(scan: &mut Scan, program: Program, args: &[Word<'_>], around: &Around<'_>) {
    for &at in program.texts {
        let table = &TEXTS[usize::from(at)];
        let found = arguments::read(args, table.options, table.values);
        for (word, offset) in &found.given {
            text(scan, table, word, *offset, around);
        }
        let count = match table.operands {
            Operands::All => found.operands.len(),
            // The program is in an option.
            Operands::First if !found.given.is_empty() => 0,
            Operands::First => 1,
            Operands::Second | Operands::Last | Operands::None => 0,
        };
        for word in found.operands.iter().take(count) {
            text(scan, table, word, 0, around);
        }
        if let (true, Some(input)) = (table.stdin, &around.stdin.output) {
            let word = Word::owned(input.clone());
            text(scan, table, &word, 0, around);
        }
    }
}

fn text(scan: &mut Scan, table: &Text, word: &Word<'_>, offset: usize, around: &Around<'_>) {
    let text = &word.text[offset..];
    if let Some(pattern) = table.after {
        for (at, line) in text.split(|&byte| byte == b'\n').enumerate() {
            if at == LINES {
                scan.not_scanned(around.place);
                break;
            }
            let Some(start) = prefix(pattern, line) else { continue };
            let code = &line[start..];
            let end = code.iter().position(|byte| table.until.contains(byte)).unwrap_or(code.len());
            run(scan, code[..end].to_vec(), Code::Script(Shell::Posix), word, around);
        }
    }
    match table.language {
        None => {}
        Some(Language::Shell) => run(scan, text.to_vec(), Code::Script(Shell::Posix), word, around),
        Some(Language::Foreign) => run(scan, text.to_vec(), Code::Foreign, word, around),
        Some(Language::Sed) => {
            for code in sed::commands(text) {
                run(scan, code, Code::Script(Shell::Posix), word, around);
            }
        }
    }
}

fn run(scan: &mut Scan, code: Vec<u8>, kind: Code, word: &Word<'_>, around: &Around<'_>) {
    if word.has(DOWNLOADED) {
        scan.event("@download-to-shell", &[], around.place);
    }
    scan.enqueue_alone(code, kind, around.place);
}
