//! What cmd and PowerShell run: their own programs, `start` and the cmdlets that take code.

use std::rc::Rc;

use super::output::BASE64;
use super::{Around, hosts};
use crate::command_policy::fold;
use crate::command_policy::rules::{PROGRAMS, Shell};
use crate::command_policy::scan::powershell::cmdlet;
use crate::command_policy::state::{Code, Place, Scan, Upstream};
use crate::command_policy::verdict::View;
use crate::command_policy::word::{Word, joined, program};

use base64::Engine as _;

pub(super) fn place(place: Place, shell: Shell) -> Place {
    Place { shell, ..place }
}

/// Programs that run code on Windows, from whatever shell they are called.
pub(super) fn is_host(name: &[u8]) -> bool {
    matches!(name, b"cmd" | b"powershell" | b"pwsh" | b"powershell_ise" | b"start" | b"for" | b"if" | b"set")
}

/// `None` if the program is an ordinary one.
pub(super) fn run(scan: &mut Scan, name: &[u8], args: &[Word<'_>], around: &Around<'_>) -> Option<Upstream> {
    match name {
        b"cmd" => cmd(scan, args, around),
        b"powershell" | b"pwsh" | b"powershell_ise" => powershell(scan, args, around),
        b"start" if around.place.shell != Shell::Posix => start(scan, args, around),
        _ if around.place.shell == Shell::PowerShell => return cmdlets(scan, name, args, around),
        _ => return None,
    }
    Some(Upstream::default())
}

/// `cmd [options] /c text`
fn cmd(scan: &mut Scan, args: &[Word<'_>], around: &Around<'_>) {
    let place = place(around.place, Shell::Cmd);
    for (at, word) in args.iter().enumerate() {
        let text = &*word.text;
        if !text.starts_with(b"/") {
            continue;
        }
        // `/c`, `/s/c`, `/cdir`
        let found = text
            .windows(2)
            .position(|pair| pair[0] == b'/' && matches!(pair[1].to_ascii_lowercase(), b'c' | b'k' | b'r'));
        let Some(found) = found else { continue };
        let mut line = text[found + 2..].to_vec();
        for word in &args[at + 1..] {
            if !line.is_empty() {
                line.push(b' ');
            }
            let several = args.len() - at > 2;
            if several && word.text.contains(&b' ') && !word.text.contains(&b'"') {
                line.push(b'"');
                line.extend_from_slice(&word.text);
                line.push(b'"');
            } else {
                line.extend_from_slice(&word.text);
            }
        }
        let stdin = Rc::clone(around.stdin);
        // Quotes around all of it are taken off (cmd /?).
        let stripped = line.trim_ascii().strip_prefix(b"\"").map(<[u8]>::to_vec);
        if let Some(mut stripped) = stripped {
            if let Some(last) = stripped.iter().rposition(|&byte| byte == b'"') {
                stripped.remove(last);
            }
            scan.enqueue(stripped, Code::Script(Shell::Cmd), place, Rc::default(), Rc::clone(&stdin));
        }
        scan.enqueue(line, Code::Script(Shell::Cmd), place, Rc::default(), stdin);
        return;
    }
    if around.stdin.downloads {
        scan.event("@download-to-shell", &[], around.place);
    }
    if around.stdin.unseen {
        scan.event("@not-scanned", &[], around.place);
    }
    if let Some(text) = &around.stdin.output {
        scan.enqueue_stdin(text.clone(), Code::Script(Shell::Cmd), place);
    }
}

/// `start ["title"] [options] command`
fn start(scan: &mut Scan, args: &[Word<'_>], around: &Around<'_>) {
    if around.place.shell == Shell::PowerShell {
        start_process(scan, args, around);
        return;
    }
    let mut at = 0;
    if args.first().is_some_and(|word| word.has(crate::command_policy::word::QUOTED)) && args.len() > 1 {
        at = 1;
    }
    while let Some(word) = args.get(at) {
        let text = word.text.to_ascii_lowercase();
        match &*text {
            b"/d" | b"/node" | b"/affinity" | b"/machine" => at += 2,
            b"" => at += 1,
            _ if text.starts_with(b"/") => at += 1,
            _ => break,
        }
    }
    super::run(scan, &args[at.min(args.len())..], around);
}

/// Parameters of `powershell` and `pwsh` that take a value, with their shortest form (about_PowerShell_exe).
const VALUES: [(&str, usize); 13] = [
    ("windowstyle", 1),
    ("inputformat", 2),
    ("outputformat", 1),
    ("version", 1),
    ("configurationname", 3),
    ("configurationfile", 14),
    ("workingdirectory", 2),
    ("wd", 2),
    ("wo", 2),
    ("psconsolefile", 1),
    ("settingsfile", 2),
    ("custompipename", 2),
    ("removeworkingdirectorytrailingcharacter", 3),
];

fn powershell(scan: &mut Scan, args: &[Word<'_>], around: &Around<'_>) {
    let inner = place(around.place, Shell::PowerShell);
    let mut at = 0;
    while let Some(word) = args.get(at) {
        let text = fold::powershell(&word.text);
        let name = match text.first() {
            Some(b'-') if text.len() > 1 => text[1..].strip_prefix(b"-").unwrap_or(&text[1..]),
            Some(b'/') if text.len() > 1 && !text[1..].contains(&b'/') => &text[1..],
            Some(b'-') => {
                stdin(scan, around, inner);
                return;
            }
            _ => {
                command(scan, &args[at..], around, inner);
                return;
            }
        };
        let (name, given) = match name.iter().position(|&byte| byte == b':') {
            Some(colon) => (&name[..colon], Some(name[colon + 1..].to_vec())),
            None => (name, None),
        };
        let name = name.to_ascii_lowercase();
        let is = |full: &str, least: usize| name.len() >= least && full.as_bytes().starts_with(&name);
        let value = || given.clone().or_else(|| args.get(at + 1).map(|word| word.text.to_vec()));
        let step = if given.is_some() { 1 } else { 2 };
        if is("encodedcommand", 1) || name == b"ec" {
            scan.event("@encoded-command", &[], around.place);
            if let Some(script) = value().as_deref().and_then(decode) {
                let view = Place { view: View::Decoded, ..inner };
                scan.enqueue_alone(script, Code::Script(Shell::PowerShell), view);
            }
            at += step;
        } else if is("executionpolicy", 2) || name == b"ep" {
            if let Some(value) = value() {
                scan.event("@execution-policy", &[Word::owned(value)], around.place);
            }
            at += step;
        } else if is("command", 1) || is("commandwithargs", 8) || name == b"cwa" {
            let from = if given.is_some() { at } else { at + 1 };
            if args.get(from).is_some_and(|word| word.is("-")) {
                stdin(scan, around, inner);
            } else {
                command(scan, args.get(from..).unwrap_or_default(), around, inner);
            }
            return;
        } else if is("file", 1) {
            if args.get(at + 1).is_some_and(|word| word.is("-")) {
                stdin(scan, around, inner);
            }
            // The rest are the script's own arguments.
            return;
        } else if is("encodedarguments", 8)
            || name == b"ea"
            || VALUES.iter().any(|(full, least)| is(full, *least))
        {
            at += step;
        } else if is("help", 1) || name == b"?" {
            return;
        } else {
            at += 1;
        }
    }
    stdin(scan, around, inner);
}

fn command(scan: &mut Scan, words: &[Word<'_>], around: &Around<'_>, inner: Place) {
    let stdin = Rc::clone(around.stdin);
    scan.enqueue(joined(words), Code::Script(Shell::PowerShell), inner, Rc::default(), stdin);
}

fn stdin(scan: &mut Scan, around: &Around<'_>, inner: Place) {
    if around.stdin.unseen {
        scan.event("@not-scanned", &[], around.place);
    }
    if around.stdin.downloads {
        scan.event("@download-to-shell", &[], around.place);
    }
    if let Some(text) = &around.stdin.output {
        scan.enqueue_stdin(text.clone(), Code::Script(Shell::PowerShell), inner);
    }
}

/// Base64 of UTF-16LE; text in UTF-8 is taken as well.
pub(in crate::command_policy) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let text: Vec<u8> = text
        .iter()
        .copied()
        .filter(|byte| !byte.is_ascii_whitespace() && !matches!(byte, b'\'' | b'"'))
        .collect();
    let bytes = BASE64.decode(&text).ok()?;
    let wide = bytes.iter().skip(1).step_by(2).filter(|&&byte| byte == 0).count() * 3 > bytes.len();
    if !wide && std::str::from_utf8(&bytes).is_ok() && !bytes.contains(&0) {
        return Some(bytes);
    }
    let units = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let text: String =
        char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    Some(text.into_bytes())
}

/// Cmdlets: an alias is asked about by the cmdlet's full name too.
fn cmdlets(scan: &mut Scan, name: &[u8], args: &[Word<'_>], around: &Around<'_>) -> Option<Upstream> {
    let full = cmdlet(name);
    if full != name {
        let program = PROGRAMS.lookup(full);
        scan.check_known(program, full, args, around.place);
        super::writes::operands(scan, program, args, around.place);
    }
    match full {
        b"invoke-expression" => {
            let words: Vec<Word<'_>> =
                args.iter().filter(|word| !word.text.starts_with(b"-")).cloned().collect();
            let text = joined(&words);
            scan.enqueue_alone(text, Code::Script(Shell::PowerShell), around.place);
            if let (true, Some(text)) = (words.is_empty(), &around.stdin.output) {
                scan.enqueue_alone(text.clone(), Code::Script(Shell::PowerShell), around.place);
            }
        }
        b"start-process" => start_process(scan, args, around),
        b"set-alias" | b"new-alias" => {
            let mut words = args.iter().filter(|word| !word.text.starts_with(b"-"));
            if let (Some(alias), Some(command)) = (words.next(), words.next()) {
                let command = program(&command.text);
                scan.definitions.define(&alias.text.to_ascii_lowercase(), cmdlet(&command), true);
            }
        }
        b"remove-item" => {
            let mut words = args.to_vec();
            words.extend(around.stdin.names.iter().cloned().map(Word::owned));
            scan.check(full, &words, around.place);
        }
        b"get-childitem" | b"get-item" | b"resolve-path" => return Some(listed(args)),
        b"invoke-webrequest" | b"start-bitstransfer" | b"invoke-restmethod" => {
            for (at, word) in args.iter().enumerate() {
                let option = word.text.to_ascii_lowercase();
                let target = option.starts_with(b"-outf") || option.starts_with(b"-dest");
                if let (true, Some(next)) = (target, args.get(at + 1)) {
                    scan.remember_download(&next.text);
                }
                if full == b"start-bitstransfer"
                    && let Some(last) = word.text.iter().rposition(|&byte| byte == b'/')
                {
                    scan.remember_download(&word.text[last + 1..]);
                }
            }
        }
        b"invoke-wmimethod" | b"invoke-cimmethod" => {
            let words: Vec<_> = args
                .iter()
                .skip_while(|word| !word.text.to_ascii_lowercase().starts_with(b"-arg"))
                .skip(1)
                .cloned()
                .collect();
            super::run(scan, &words, around);
        }
        _ => return None,
    }
    Some(Upstream::default())
}

/// What a command that lists files hands on.
pub(in crate::command_policy) fn listing(words: &[Word<'_>]) -> Vec<Vec<u8>> {
    let Some((first, args)) = words.split_first() else { return Vec::new() };
    let name = program(&first.text);
    match cmdlet(&name) {
        b"get-childitem" | b"get-item" | b"resolve-path" => listed(args).names,
        _ => Vec::new(),
    }
}

/// What a listing hands on. With a filter it is only a part.
fn listed(args: &[Word<'_>]) -> Upstream {
    let filter = |word: &Word<'_>| {
        let option = word.text.to_ascii_lowercase();
        [&b"-fi"[..], b"-inc", b"-exc", b"-na"].iter().any(|start| option.starts_with(start))
            && option != b"-file"
    };
    if args.iter().any(filter) {
        return Upstream::default();
    }
    let recursive = args
        .iter()
        .any(|word| word.text.len() > 1 && b"-recurse".starts_with(&word.text.to_ascii_lowercase()));
    let mut names: Vec<Vec<u8>> =
        args.iter().filter(|word| !word.text.starts_with(b"-")).map(|word| word.text.to_vec()).collect();
    if names.is_empty() {
        names.push(b".".to_vec());
    }
    if recursive {
        names.push(b"-recurse".to_vec());
    }
    Upstream { names, ..Upstream::default() }
}

/// `Start-Process [-FilePath] program [-ArgumentList a, b]`
fn start_process(scan: &mut Scan, args: &[Word<'_>], around: &Around<'_>) {
    let mut words: Vec<Word<'_>> = Vec::new();
    let mut at = 0;
    while let Some(word) = args.get(at) {
        let option = word.text.to_ascii_lowercase();
        at += 1;
        match &*option {
            b"-wait" | b"-nonewwindow" | b"-passthru" | b"-loaduserprofile" => {}
            [b'-', name @ ..] if !name.is_empty() => {
                let known = |full: &[u8]| full.starts_with(name);
                if known(b"verb")
                    || known(b"windowstyle")
                    || known(b"workingdirectory")
                    || known(b"credential")
                    || known(b"redirectstandardoutput")
                    || known(b"redirectstandarderror")
                {
                    at += 1;
                } else if !known(b"filepath") && !known(b"argumentlist") && name != b"args" {
                    words.push(word.clone());
                }
            }
            _ => words.push(word.clone()),
        }
    }
    // One string may hold all arguments.
    if let [program_word, one] = &*words
        && one.text.contains(&b' ')
    {
        let parts: Vec<Word<'_>> = std::iter::once(program_word.clone())
            .chain(one.text.split(|&byte| byte == b' ').filter(|part| !part.is_empty()).map(Word::borrowed))
            .collect();
        let host = hosts::is_posix_shell(&program(&program_word.text));
        if !host {
            super::run(scan, &parts, around);
            return;
        }
    }
    super::run(scan, &words, around);
}

/// A script of `diskpart` or `diskshadow` on standard input, line by line.
pub(super) fn script_lines(scan: &mut Scan, name: &[u8], around: &Around<'_>) {
    let event = if name == b"diskpart" { "@diskpart" } else { "@diskshadow" };
    let Some(text) = &around.stdin.output else { return };
    for line in text.split(|byte| matches!(byte, b'\n' | b'\r')) {
        let words: Vec<Word<'_>> = line
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty())
            .take(16)
            .map(Word::borrowed)
            .collect();
        if !words.is_empty() {
            scan.event(event, &words, around.place);
        }
    }
}
