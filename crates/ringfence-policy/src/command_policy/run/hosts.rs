//! POSIX shells as programs: where their script comes from.

use std::rc::Rc;

use super::Around;
use crate::command_policy::rules::Shell;
use crate::command_policy::state::{Code, LIST_LIMIT, Place, Scan, Upstream};
use crate::command_policy::word::{DOWNLOADED, Word};

/// Whether a program reads a POSIX shell's language, or one that is like it.
pub(super) fn is_posix_shell(name: &[u8]) -> bool {
    matches!(
        name,
        b"sh"
            | b"bash"
            | b"dash"
            | b"zsh"
            | b"ksh"
            | b"ksh93"
            | b"mksh"
            | b"pdksh"
            | b"ash"
            | b"yash"
            | b"rbash"
            | b"posh"
            | b"fish"
            | b"tcsh"
            | b"csh"
            | b"oil"
            | b"osh"
            | b"hush"
    )
}

/// `sh [options] [-c text [name [arg...]] | file [arg...]]` (sh(1)).
pub(super) fn posix(scan: &mut Scan, args: &[Word<'_>], around: &Around<'_>) -> Upstream {
    let place = Place { shell: Shell::Posix, ..around.place };
    let around = &Around { place, ..*around };
    let mut command = false;
    let mut stdin = false;
    let mut at = 0;
    while let Some(word) = args.get(at) {
        let text = &*word.text;
        match text {
            b"--" => {
                at += 1;
                break;
            }
            b"-" => {
                at += 1;
                break;
            }
            b"-o" | b"+o" | b"-O" | b"+O" | b"--rcfile" | b"--init-file" | b"-C" | b"--init-command" => {
                at += 2
            }
            b"--command" => {
                command = true;
                at += 1;
            }
            b"--version" | b"--help" => return Upstream::default(),
            _ if text.starts_with(b"--command=") => {
                script(scan, &Word::owned(text[10..].to_vec()), &args[at + 1..], around);
                return Upstream::default();
            }
            _ if text.starts_with(b"--") => at += 1,
            [b'-' | b'+', letters @ ..] if !letters.is_empty() => {
                command |= text[0] == b'-' && letters.contains(&b'c');
                stdin |= text[0] == b'-' && letters.contains(&b's');
                // The option `o` takes the next word.
                at += if letters.last() == Some(&b'o') { 2 } else { 1 };
            }
            _ => break,
        }
    }
    let rest = args.get(at..).unwrap_or_default();
    if command {
        if let Some((text, parameters)) = rest.split_first() {
            script(scan, text, parameters, around);
        }
        return Upstream::default();
    }
    match rest.first() {
        Some(word) if !stdin && !word.is("-") && !word.is("/dev/stdin") && !word.is("/dev/fd/0") => {
            file(scan, word, around);
        }
        _ => {
            read_stdin(scan, around);
            return Upstream { shell: true, ..Upstream::default() };
        }
    }
    Upstream::default()
}

/// `source file`
pub(super) fn source(scan: &mut Scan, args: &[Word<'_>], around: &Around<'_>) {
    match args.first() {
        Some(word) if word.is("/dev/stdin") || word.is("-") => read_stdin(scan, around),
        Some(word) => file(scan, word, around),
        None => {}
    }
}

/// A script in a file, which can't be read here unless a process substitution writes it.
fn file(scan: &mut Scan, word: &Word<'_>, around: &Around<'_>) {
    if word.has(DOWNLOADED) {
        scan.event("@download-to-shell", &[], around.place);
    }
    if scan.is_downloaded(&word.text) {
        scan.event("@download-then-run", &[], around.place);
    }
    for text in around.process {
        super::code(scan, text.clone(), around);
    }
}

fn script(scan: &mut Scan, text: &Word<'_>, parameters: &[Word<'_>], around: &Around<'_>) {
    if text.has(DOWNLOADED) {
        scan.event("@download-to-shell", &[], around.place);
    }
    if parameters.len() > LIST_LIMIT {
        scan.not_scanned(around.place);
    }
    let parameters = parameters.iter().take(LIST_LIMIT).map(|word| word.text.to_vec()).collect();
    let stdin = Rc::clone(around.stdin);
    scan.enqueue(text.text.to_vec(), Code::Script(Shell::Posix), around.place, Rc::new(parameters), stdin);
}

/// Each line of a table is a time and a command (crontab(5)).
pub(super) fn crontab(scan: &mut Scan, around: &Around<'_>) {
    let Some(text) = &around.stdin.output else { return };
    let mut code = Vec::new();
    for line in text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii) {
        let fields = if line.starts_with(b"@") { 1 } else { 5 };
        let mut rest = line;
        for _ in 0..fields {
            let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
            rest = rest[end..].trim_ascii_start();
        }
        code.extend_from_slice(rest);
        code.push(b'\n');
    }
    super::code(scan, code, around);
}

/// The script is what comes on standard input.
pub(super) fn read_stdin(scan: &mut Scan, around: &Around<'_>) {
    if around.stdin.downloads {
        scan.event("@download-to-shell", &[], around.place);
    }
    if around.stdin.unseen {
        scan.event("@not-scanned", &[], around.place);
    }
    if let Some(text) = &around.stdin.output {
        super::code_from_stdin(scan, text.clone(), around);
    }
}
