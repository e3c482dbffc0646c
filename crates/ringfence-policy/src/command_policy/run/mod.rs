//! What a command runs: wrappers are taken off one after the other, and texts that a program of the command would
//! execute are read too.

mod arguments;
mod find;
mod hosts;
mod interpreters;
mod output;
mod sed;
mod skim;
mod texts;
mod windows;
mod wrapper;
mod writes;

use std::borrow::Cow;
use std::rc::Rc;

pub(super) use output::{is_downloader, simple_output};
pub(super) use windows::listing;

use super::rules::{PROGRAMS, Program, RULES, Shell};
use super::scan::expand::OWN_NAME;
use super::scan::posix::{Element, Pipeline};
use super::state::{Called, Code, LIST_LIMIT, Place, Scan, Upstream};
use super::word::{DOWNLOADED, Word, program};

/// A simple command as its language's reader sees it.
#[derive(Clone, Debug, Default)]
pub(super) struct Command<'a> {
    pub(super) words: Vec<Word<'a>>,
    pub(super) reads: Vec<Word<'a>>,
    pub(super) writes: Vec<Word<'a>>,
    pub(super) stdin: Stdin<'a>,
    /// What process substitutions among the words write.
    pub(super) process: Vec<Vec<u8>>,
}

/// Where a command's own standard input comes from.
#[derive(Clone, Debug, Default)]
pub(super) enum Stdin<'a> {
    /// The pipeline.
    #[default]
    Inherited,
    Text(Cow<'a, [u8]>),
    /// A here-document, by its number.
    Heredoc(u32),
}

impl Command<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty() && self.writes.is_empty() && self.reads.is_empty()
    }

    /// What a group gets that this is piped into.
    pub(super) fn preview(&self) -> Upstream {
        output::of(&self.words, None, &Upstream::default())
    }

    /// `"$0"`, also as the script of a shell.
    pub(super) fn runs_itself(&self) -> bool {
        self.words.iter().take(2).any(|word| *word.text == *OWN_NAME)
    }
}

/// What surrounds the words of a command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around<'s> {
    pub(super) place: Place,
    pub(super) stdin: &'s Rc<Upstream>,
    pub(super) positional: &'s Rc<Vec<Vec<u8>>>,
    pub(super) process: &'s [Vec<u8>],
    /// Whether somebody gets what the command writes.
    pub(super) wanted: bool,
}

/// Runs the elements of a pipeline one after the other, which leaves it empty. Returns what the last one writes.
pub(super) fn run_pipeline(
    scan: &mut Scan,
    pipeline: &mut Pipeline<'_>,
    place: Place,
    positional: &Rc<Vec<Vec<u8>>>,
) -> Upstream {
    let mut stdin = Rc::clone(&pipeline.stdin);
    let mut elements = std::mem::take(&mut pipeline.elements);
    let mut left = elements.len();
    let mut written = Upstream::default();
    for element in elements.drain(..) {
        left -= 1;
        let last = left == 0;
        written = match element {
            Element::Group(mut written) => {
                written.downloads |= stdin.downloads;
                written
            }
            Element::Command(command) => {
                let wanted = !last || pipeline.wanted;
                let written = run_command(scan, &command, place, positional, &stdin, wanted);
                pipeline.recycle(command);
                written
            }
        };
        if !last {
            let written = std::mem::take(&mut written);
            stdin = if written.is_nothing() { Rc::clone(&scan.nothing) } else { Rc::new(written) };
        }
    }
    pipeline.elements = elements;
    written
}

fn run_command(
    scan: &mut Scan,
    command: &Command<'_>,
    place: Place,
    positional: &Rc<Vec<Vec<u8>>>,
    piped: &Rc<Upstream>,
    wanted: bool,
) -> Upstream {
    writes::redirects(scan, command, place);
    let own = match &command.stdin {
        Stdin::Inherited => None,
        Stdin::Text(text) => Some(text.to_vec()),
        Stdin::Heredoc(id) => Some(scan.heredoc(*id).unwrap_or_default().to_vec()),
    };
    let stdin = match own {
        Some(text) => &Rc::new(Upstream { output: Some(text), ..Upstream::default() }),
        None => piped,
    };
    if command.words.is_empty() {
        return Upstream::default();
    }
    let around = Around { place, stdin, positional, process: &command.process, wanted };
    let written = run(scan, &command.words, &around);
    if written.downloads
        && let Some(file) = command.writes.first()
    {
        scan.remember_download(&file.text);
    }
    // What goes to a file does not go to the next command.
    if command.writes.is_empty() { written } else { Upstream { output: None, ..written } }
}

/// Takes wrappers off until a program remains, asks the rules about each, and reads what would be run.
pub(super) fn run(scan: &mut Scan, words: &[Word<'_>], around: &Around<'_>) -> Upstream {
    let few = scan.count_command();
    if !few || !scan.enter(words.len()) {
        scan.not_scanned(around.place);
        skim::skim(scan, words, around, true);
        return Upstream::default();
    }
    let written = peel(scan, words, around);
    scan.leave();
    written
}

fn peel(scan: &mut Scan, mut words: &[Word<'_>], around: &Around<'_>) -> Upstream {
    loop {
        let Some(first) = words.first() else { return Upstream::default() };
        let mut name = name_of(first, around.place.shell);
        if around.place.shell == Shell::PowerShell
            && let Some(known) = scan.definitions.alias(&name)
        {
            name = Cow::Owned(known);
        }
        let args = &words[1..];
        let program = PROGRAMS.lookup(&name);
        texts::read(scan, program, args, around);
        if let Some(next) = wrapper::take_off(scan, program, &name, args, around) {
            match next {
                wrapper::Next::Words(rest) => {
                    words = rest;
                    continue;
                }
                wrapper::Next::Done(written) => return written,
            }
        }
        return plain(scan, program, &name, first, args, around);
    }
}

/// A program that is no wrapper.
fn plain(
    scan: &mut Scan,
    program: Program,
    name: &[u8],
    first: &Word<'_>,
    args: &[Word<'_>],
    around: &Around<'_>,
) -> Upstream {
    // `./init` is a program of the workspace, not the first process.
    if !(name == b"init" && first.text.starts_with(b"./")) {
        scan.check_known(program, name, args, around.place);
    }
    if name.starts_with(b"mkfs.") {
        scan.check(b"mkfs", args, around.place);
    }
    if hosts::is_posix_shell(name) {
        return hosts::posix(scan, args, around);
    }
    if (around.place.shell == Shell::PowerShell || windows::is_host(name))
        && let Some(written) = windows::run(scan, name, args, around)
    {
        return written;
    }
    match name {
        b"find" | b"gfind" | b"fd" | b"fdfind" | b"bfs" => return find::find(scan, args, around),
        b"." | b"source" if around.place.shell == Shell::Posix => {
            hosts::source(scan, args, around);
            return Upstream::default();
        }
        b"cd" | b"pushd" | b"chdir" | b"popd" | b"set-location" | b"sl" | b"push-location" => {
            change_directory(scan, name, args, around.place.shell);
            return Upstream::default();
        }
        b"export" | b"declare" | b"local" | b"readonly" | b"typeset" => {
            for word in args {
                if let Some((variable, value)) = super::posix_names::assignment(&word.text) {
                    scan.set_variable(variable, vec![value.to_vec()]);
                    if word.has(DOWNLOADED) {
                        scan.downloaded.push(variable.to_vec());
                    }
                }
            }
            return Upstream::default();
        }
        b"at" | b"batch" => hosts::read_stdin(scan, around),
        b"crontab" => hosts::crontab(scan, around),
        b"set" if around.place.shell == Shell::Posix => {
            if let Some(at) = args.iter().position(|word| word.is("--")) {
                let parameters = std::iter::once(Vec::new())
                    .chain(args[at + 1..].iter().take(LIST_LIMIT).map(|word| word.text.to_vec()));
                scan.parameters = Some(Rc::new(parameters.collect()));
            }
        }
        b"alias" => {
            for word in args {
                if let Some((alias, text)) = super::posix_names::assignment(&word.text) {
                    scan.definitions.define(alias, text, true);
                }
            }
        }
        _ => {}
    }
    match scan.definitions.call(&first.text) {
        Called::Nothing => {}
        Called::Text(text, alias) => {
            // A text of its own does not see the functions: what one hands to another is looked at here.
            if args.first().is_some_and(|word| scan.definitions.has(&word.text)) {
                skim::skim(scan, args, around, false);
            }
            call(scan, text, alias, args, around);
            return Upstream::default();
        }
        Called::TooOften => skim::skim(scan, args, around, false),
    }
    if first.has(DOWNLOADED) {
        scan.event("@download-to-shell", &[], around.place);
    }
    if first.text.contains(&b'/') && scan.is_downloaded(&first.text) {
        scan.event("@download-then-run", &[], around.place);
    }
    if is_downloader(name) {
        output::remember_file(scan, name, args);
    }
    interpreters::run(scan, name, args, around);
    writes::operands(scan, program, args, around.place);
    let written = if around.wanted {
        output::of_named(name, args, around.stdin.output.as_deref(), around.stdin)
    } else {
        Upstream { downloads: around.stdin.downloads || is_downloader(name), ..Upstream::default() }
    };
    if written_by_shell(name, around) {
        scan.event("@reverse-shell", &[], around.place);
    }
    if name == b"diskpart" || name == b"diskshadow" {
        windows::script_lines(scan, name, around);
    }
    written
}

/// Whether a shell's output goes to a host of the network.
fn written_by_shell(name: &[u8], around: &Around<'_>) -> bool {
    around.stdin.shell
        && matches!(
            name,
            b"nc"
                | b"ncat"
                | b"netcat"
                | b"nc.traditional"
                | b"nc.openbsd"
                | b"telnet"
                | b"socat"
                | b"openssl"
        )
}

/// Runs a function or an alias with its arguments.
fn call(scan: &mut Scan, mut text: Vec<u8>, alias: bool, args: &[Word<'_>], around: &Around<'_>) {
    let mut parameters = Vec::new();
    if alias {
        text.push(b' ');
        text.extend(super::word::joined(args));
    } else {
        parameters.push(Vec::new());
        parameters.extend(args.iter().take(LIST_LIMIT).map(|word| word.text.to_vec()));
    }
    let stdin = Rc::clone(around.stdin);
    scan.enqueue(text, Code::Script(Shell::Posix), around.place, Rc::new(parameters), stdin);
}

/// A program's name. A glob in a path stands for the programs of rules that it matches.
fn name_of<'w>(word: &'w Word<'_>, shell: Shell) -> Cow<'w, [u8]> {
    // `@` in front of a command of cmd keeps it from being shown.
    let text = match shell {
        Shell::Cmd => word.text.strip_prefix(b"@").unwrap_or(&word.text),
        Shell::Posix | Shell::PowerShell => &word.text,
    };
    let name = program(text);
    if shell == Shell::Posix
        && name.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
        && word.text.contains(&b'/')
    {
        let programs = RULES.iter().flat_map(|rule| rule.programs);
        if let Some(known) = programs.into_iter().find(|known| glob(&name, known.as_bytes())) {
            return Cow::Borrowed(known.as_bytes());
        }
    }
    name
}

/// Whether a shell's pattern matches; it is as short as a file's name.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    if pattern.len() > 64 || text.starts_with(b"@") {
        return false;
    }
    let (mut at, mut read) = (0, 0);
    // Where the last `*` stands, and how much of the text it takes: the only place to go back to.
    let mut star: Option<(usize, usize)> = None;
    loop {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, read));
                at += 1;
                continue;
            }
            None if read == text.len() => return true,
            Some(_) if read < text.len() => {
                if let Some(length) = one(&pattern[at..], text[read]) {
                    at += length;
                    read += 1;
                    continue;
                }
            }
            _ => {}
        }
        let Some((place, taken)) = star.as_mut() else { return false };
        *taken += 1;
        if *taken > text.len() {
            return false;
        }
        (at, read) = (*place + 1, *taken);
    }
}

/// How long the first element of a pattern is, if it stands for this byte.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern[0] {
        b'?' => Some(1),
        b'[' => {
            let end = pattern.iter().skip(2).position(|&byte| byte == b']')? + 2;
            let (set, negated) = match &pattern[1..end] {
                [b'!' | b'^', set @ ..] => (set, true),
                set => (set, false),
            };
            let ranges =
                set.windows(3).any(|range| range[1] == b'-' && (range[0]..=range[2]).contains(&byte));
            (set.contains(&byte) || ranges).ne(&negated).then_some(end + 1)
        }
        known => (known == byte).then_some(1),
    }
}

fn change_directory(scan: &mut Scan, name: &[u8], args: &[Word<'_>], shell: Shell) {
    let windows = shell != Shell::Posix;
    let target = args.iter().find(|word| {
        let option = word.text.len() > 1 && word.text.starts_with(b"-");
        let switch = windows && word.text.len() == 2 && word.text.starts_with(b"/");
        !option && !switch
    });
    scan.cwd = match target {
        _ if name == b"popd" => None,
        None if windows => return,
        None => Some(b"~".to_vec()),
        Some(word) if word.is("-") => None,
        Some(word) if windows && word.is("/") => Some(
            scan.cwd
                .as_deref()
                .filter(|cwd| super::path::is_drive(cwd))
                .map_or_else(|| b"c:\\".to_vec(), |cwd| [&cwd[..2], b"\\"].concat()),
        ),
        Some(word) => {
            let path = super::path::windows(&word.text, scan.cwd.as_deref());
            match path.filter(|path| super::path::is_drive(path)) {
                Some(path) if path.len() > 2 => Some(path),
                _ if windows && word.text.starts_with(b"\\") => Some(word.text.replace_slashes()),
                _ => {
                    let path = super::path::unix(&word.text, scan.cwd.as_deref()).into_owned();
                    matches!(path.first(), Some(b'/' | b'~')).then_some(path)
                }
            }
        }
    };
}

/// Backslashes in lower case.
trait Slashes {
    fn replace_slashes(&self) -> Vec<u8>;
}

impl Slashes for [u8] {
    fn replace_slashes(&self) -> Vec<u8> {
        let mut path = b"c:".to_vec();
        path.extend(self.iter().map(|byte| if *byte == b'/' { b'\\' } else { byte.to_ascii_lowercase() }));
        path
    }
}

/// Gives a text to a POSIX shell.
pub(super) fn code(scan: &mut Scan, text: Vec<u8>, around: &Around<'_>) {
    let stdin = Rc::clone(around.stdin);
    scan.enqueue(text, Code::Script(Shell::Posix), around.place, Rc::default(), stdin);
}

/// Gives what comes on standard input to a POSIX shell.
pub(super) fn code_from_stdin(scan: &mut Scan, text: Vec<u8>, around: &Around<'_>) {
    scan.enqueue_stdin(text, Code::Script(Shell::Posix), around.place);
}

/// Whether a program without a command starts a shell that reads its standard input.
pub(super) fn starts_a_shell(name: &[u8]) -> bool {
    wrapper::starts_a_shell(name)
}

/// Whether a program runs code that it is given.
pub(super) fn runs_code(name: &[u8]) -> bool {
    hosts::is_posix_shell(name)
        || windows::is_host(name)
        || interpreters::is_interpreter(name)
        || wrapper::runs_code(name)
}
