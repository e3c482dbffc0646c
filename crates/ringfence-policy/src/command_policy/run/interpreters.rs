//! Programs in other languages, as far as they are given as arguments or on standard input.

use super::Around;
use crate::command_policy::state::{Code, Scan};
use crate::command_policy::word::Word;

/// How an interpreter is given a program.
struct Interpreter {
    /// Options whose value is a program.
    code: &'static [&'static str],
    /// Options with a value of another kind.
    values: &'static [&'static str],
    /// Whether it reads a program from standard input if no file is named.
    stdin: bool,
    /// Whether the first operand is a program.
    operand: bool,
}

const GENERAL: Interpreter =
    Interpreter { code: &["-c", "-e"], values: &["-W", "-X", "-m"], stdin: true, operand: false };

fn interpreter(name: &[u8]) -> Option<Interpreter> {
    // Most programs are none; a glance tells.
    if !matches!(
        name.first(),
        Some(b'a' | b'b' | b'd' | b'g' | b'l' | b'm' | b'n' | b'o' | b'p' | b'r' | b't')
    ) {
        return None;
    }
    let known = |stem: &[u8]| {
        name.strip_prefix(stem)
            .is_some_and(|version| version.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.'))
    };
    if known(b"python") || known(b"pypy") || name == b"py" {
        return Some(Interpreter { code: &["-c"], ..GENERAL });
    }
    if known(b"perl") || known(b"ruby") {
        return Some(Interpreter { code: &["-e", "-E"], values: &["-I", "-M", "-r"], ..GENERAL });
    }
    if name == b"node" || name == b"nodejs" || name == b"deno" || name == b"bun" {
        return Some(Interpreter {
            code: &["-e", "-p", "--eval", "--print", "-pe", "eval"],
            values: &["-r", "--require"],
            ..GENERAL
        });
    }
    if known(b"php") {
        return Some(Interpreter { code: &["-r", "-B", "-E"], values: &["-d", "-f"], ..GENERAL });
    }
    if known(b"lua") || name == b"luajit" || name == b"rscript" || name == b"osascript" || name == b"tclsh" {
        return Some(Interpreter { values: &["-l", "-L"], ..GENERAL });
    }
    if matches!(name, b"awk" | b"gawk" | b"mawk" | b"nawk") {
        return Some(Interpreter {
            code: &["-e", "--source"],
            values: &["-F", "-v", "-f"],
            stdin: false,
            operand: true,
        });
    }
    None
}

/// Whether a program runs one in another language.
pub(super) fn is_interpreter(name: &[u8]) -> bool {
    interpreter(name).is_some()
}

/// Reads the program that an interpreter is given.
pub(super) fn run(scan: &mut Scan, name: &[u8], args: &[Word<'_>], around: &Around<'_>) {
    let Some(interpreter) = interpreter(name) else { return };
    let mut code = Vec::new();
    let mut file = false;
    let mut at = 0;
    while let Some(word) = args.get(at) {
        at += 1;
        let text = &*word.text;
        if interpreter.code.iter().any(|known| word.is(known)) {
            code.extend(args.get(at));
            at += 1;
        } else if interpreter.values.iter().any(|known| word.is(known)) {
            // `-m module` is a program of its own.
            file |= text == b"-m" || text == b"-f";
            at += 1;
        } else if text.len() > 2 && text[0] == b'-' && text[1..].iter().all(u8::is_ascii_alphanumeric) {
            // -ne, -pie, -wc
            let last = [b'-', text[text.len() - 1]];
            if interpreter.code.iter().any(|known| known.as_bytes() == last) {
                code.extend(args.get(at));
                at += 1;
            }
        } else if text == b"-" || text.starts_with(b"-") {
            if matches!(text, b"--version" | b"-V" | b"-v" | b"--help" | b"-h") {
                return;
            }
        } else {
            if interpreter.operand && code.is_empty() {
                code.push(word);
            }
            file = true;
            break;
        }
    }
    for word in &code {
        scan.enqueue_alone(word.text.to_vec(), Code::Foreign, around.place);
    }
    if interpreter.stdin && code.is_empty() && !file {
        if around.stdin.downloads {
            scan.event("@download-to-shell", &[], around.place);
        }
        if around.stdin.unseen {
            scan.event("@not-scanned", &[], around.place);
        }
        if let Some(text) = &around.stdin.output {
            scan.enqueue_alone(text.clone(), Code::Foreign, around.place);
        }
    }
}
