//! What is left beyond a bound: every word may begin a command there.

use super::{Around, hosts, name_of, windows, writes};
use crate::command_policy::rules::{PROGRAMS, Shell};
use crate::command_policy::scan::powershell::cmdlet;
use crate::command_policy::state::{Code, Scan};
use crate::command_policy::word::Word;

/// Words after a command's name that are taken for its arguments.
const ARGUMENTS: usize = 32;
/// Texts among the words that are read as scripts.
const TEXTS: usize = 64;

/// Asks the rules about every word as if a command began there; nothing is called from here, so that it ends. With
/// `texts`, words that hold blanks are read as scripts.
pub(super) fn skim(scan: &mut Scan, words: &[Word<'_>], around: &Around<'_>, texts: bool) {
    let shell = around.place.shell;
    let mut scripts = 0;
    for (at, word) in words.iter().enumerate() {
        if !scan.may_skim() {
            scan.not_scanned(around.place);
            return;
        }
        let rest = &words[at + 1..];
        let rest = &rest[..rest.len().min(ARGUMENTS)];
        let name = name_of(word, shell);
        let program = PROGRAMS.lookup(&name);
        scan.check_known(program, &name, rest, around.place);
        writes::operands(scan, program, rest, around.place);
        if shell == Shell::PowerShell && cmdlet(&name) != &*name {
            scan.check(cmdlet(&name), rest, around.place);
        }
        if scripts == TEXTS || !texts {
            continue;
        }
        if hosts::is_posix_shell(&name) {
            scripts += 1;
            hosts::posix(scan, rest, around);
        } else if matches!(&*name, b"cmd" | b"powershell" | b"pwsh") {
            scripts += 1;
            windows::run(scan, &name, rest, around);
        } else if word.text.iter().any(u8::is_ascii_whitespace) {
            scripts += 1;
            let text = word.text.to_vec();
            scan.enqueue_alone(text, Code::Script(shell), around.place);
        }
    }
}
