use std::rc::Rc;

use super::{Around, hosts, windows};
use crate::command_policy::posix_names::assignment;
use crate::command_policy::rules::{PROGRAMS, Program, Shell, Then, WRAPPERS, Wrapper};
use crate::command_policy::state::{Code, LIST_LIMIT, Scan, Upstream};
use crate::command_policy::word::{DOWNLOADED, LITERAL_TILDE, Word, joined, program};

/// What is left when a wrapper has been taken off.
pub(super) enum Next<'w, 'a> {
    /// The command that it runs.
    Words(&'w [Word<'a>]),
    /// Nothing that runs as words.
    Done(Upstream),
}

/// A wrapper's own part of its arguments.
#[derive(Default)]
struct Parsed {
    /// Where the command begins.
    command: usize,
    /// Text of an option for a shell.
    code: Option<usize>,
    /// Where in that argument the text begins.
    code_offset: usize,
    query: bool,
    /// Host directories and where a container sees them.
    mounts: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Whether what a wrapper runs is a text for a shell.
pub(super) fn runs_code(name: &[u8]) -> bool {
    let mut entries = PROGRAMS.lookup(name).wrappers.iter().map(|&at| &WRAPPERS[usize::from(at)]);
    entries.any(|wrapper| matches!(wrapper.then, Then::Code | Then::First))
}

/// Whether a wrapper without a command starts a shell, `sudo` if it is asked for one.
pub(super) fn starts_a_shell(name: &[u8]) -> bool {
    matches!(name, b"sudo" | b"ssh" | b"su" | b"chroot" | b"unshare" | b"nsenter" | b"capsh")
}

/// Takes off `name`, if it is a wrapper; `None` if it is none.
pub(super) fn take_off<'w, 'a>(
    scan: &mut Scan,
    program: Program,
    name: &[u8],
    args: &'w [Word<'a>],
    around: &Around<'_>,
) -> Option<Next<'w, 'a>> {
    let wrapper = choose(program, args, around)?;
    let start = if wrapper.subcommands.is_empty() { 0 } else { subcommand(wrapper, args)? + 1 };
    let mut parsed = parse(wrapper, args, start, around.place.shell);
    // Rules about the wrapper see its own options only.
    let own = if wrapper.then == Then::Command { &args[..parsed.command] } else { args };
    scan.check(name, own, around.place);
    if parsed.query && name == b"command" {
        let output = args.iter().find(|word| !word.text.starts_with(b"-")).map(|word| word.text.to_vec());
        return Some(Next::Done(Upstream { output, ..Upstream::default() }));
    }
    if parsed.query {
        return Some(Next::Done(Upstream::default()));
    }
    if let Some(at) = parsed.code {
        let mut text = args[at].text[parsed.code_offset..].to_vec();
        if wrapper.appends {
            let rest = &args[parsed.command..];
            // `--exec program ... -- arguments`
            let start = rest.iter().position(|word| word.is("--")).map_or(0, |end| end + 1);
            for word in &rest[start..] {
                push_word(&mut text, word);
            }
        }
        if args[at].has(DOWNLOADED) {
            scan.event("@download-to-shell", &[], around.place);
        }
        if wrapper.slash {
            // A program of Windows starts another one, or cmd.
            let place = windows::place(around.place, Shell::Cmd);
            scan.enqueue_alone(text, Code::Script(Shell::Cmd), place);
        } else {
            super::code(scan, text, around);
        }
        return Some(Next::Done(Upstream::default()));
    }
    let rest = &args[parsed.command..];
    if rest.is_empty() {
        // A login shell, or a remote one, reads its standard input.
        let asked = ["-s", "-i", "--shell", "--login"];
        let shell = starts_a_shell(name)
            && (name != b"sudo" || own.iter().any(|word| asked.iter().any(|option| word.is(option))));
        if shell {
            hosts::read_stdin(scan, around);
        }
        return Some(Next::Done(Upstream::default()));
    }
    if name == b"xargs" || name == b"gxargs" {
        return Some(xargs(scan, &args[..parsed.command], rest, around));
    }
    match wrapper.then {
        Then::Shell => Some(Next::Done(hosts::posix(scan, rest, around))),
        Then::Nothing => Some(Next::Done(Upstream::default())),
        Then::Code if name == b"runas" || name.starts_with(b"psexec") || name == b"paexec" => {
            let place = windows::place(around.place, Shell::Cmd);
            scan.enqueue_alone(joined(rest), Code::Script(Shell::Cmd), place);
            Some(Next::Done(Upstream::default()))
        }
        Then::First | Then::Code => {
            let words = if wrapper.then == Then::First { &rest[..1] } else { rest };
            if words.iter().any(|word| word.has(DOWNLOADED)) {
                scan.event("@download-to-shell", &[], around.place);
            }
            let parallel = matches!(name, b"parallel" | b"sem" | b"rush");
            let text = if parallel { with_data(words) } else { joined(words) };
            let stdin = Rc::clone(around.stdin);
            // What `eval` runs is a part of this shell.
            let positional = if name == b"eval" { Rc::clone(around.positional) } else { Rc::default() };
            scan.enqueue(text, Code::Script(Shell::Posix), around.place, positional, stdin);
            Some(Next::Done(Upstream::default()))
        }
        Then::Command if name == b"env" && directory(own).is_some() => {
            let before = std::mem::replace(&mut scan.cwd, directory(own));
            let written = super::run(scan, rest, around);
            scan.cwd = before;
            Some(Next::Done(written))
        }
        Then::Command if parsed.mounts.is_empty() => Some(Next::Words(rest)),
        Then::Command => {
            let mounts = std::mem::take(&mut parsed.mounts);
            let words: Vec<_> = rest.iter().map(|word| on_host(word, &mounts)).collect();
            Some(Next::Done(super::run(scan, &words, around)))
        }
    }
}

/// The absolute directory of `env -C directory`.
fn directory(own: &[Word<'_>]) -> Option<Vec<u8>> {
    let at = own.iter().position(|word| word.is("-C") || word.is("--chdir"));
    let text = match at {
        Some(at) => &*own.get(at + 1)?.text,
        None => own.iter().find_map(|word| word.text.strip_prefix(b"--chdir="))?,
    };
    text.starts_with(b"/").then(|| crate::command_policy::path::unix(text, None).into_owned())
}

/// `parallel command ::: data`: each of the data is one argument of the command, or a command if there is none.
fn with_data(words: &[Word<'_>]) -> Vec<u8> {
    let Some(at) = words.iter().position(|word| word.is(":::")) else { return joined(words) };
    if at == 0 {
        return words[1..].iter().flat_map(|word| [&word.text, &b"\n"[..]].concat()).collect();
    }
    let mut text = joined(&words[..at]);
    for word in &words[at + 1..] {
        push_word(&mut text, word);
    }
    text
}

/// Adds a word to a command line so that a shell takes it as it is. A home directory stays one.
fn push_word(text: &mut Vec<u8>, word: &Word<'_>) {
    text.push(b' ');
    let home = usize::from(word.text.starts_with(b"~") && !word.has(LITERAL_TILDE));
    text.extend_from_slice(&word.text[..home]);
    if word.text.len() == home && home > 0 {
        return;
    }
    let slash = usize::from(home > 0 && word.text.get(home) == Some(&b'/'));
    text.extend_from_slice(&word.text[home..home + slash]);
    text.push(b'\'');
    for &byte in &word.text[home + slash..] {
        if byte == b'\'' {
            text.extend_from_slice(b"'\\'");
        }
        text.push(byte);
    }
    text.push(b'\'');
}

/// The table's entry for a program; one with subcommands only if one of these is there.
fn choose(program: Program, args: &[Word<'_>], around: &Around<'_>) -> Option<&'static Wrapper> {
    let entries = program.wrappers.iter().map(|&at| &WRAPPERS[usize::from(at)]);
    entries
        .filter(|wrapper| wrapper.dialects.holds(around.place.shell))
        .find(|wrapper| wrapper.subcommands.is_empty() || subcommand(wrapper, args).is_some())
}

/// Where the subcommand stands: the first words may be options, or a group that it belongs to.
fn subcommand(wrapper: &Wrapper, args: &[Word<'_>]) -> Option<usize> {
    let mut operands = 0;
    for (at, word) in args.iter().enumerate().take(12) {
        if word.text.starts_with(b"-") {
            continue;
        }
        let known = wrapper.subcommands.iter().find_map(|known| match known.split_once(' ') {
            Some((group, own)) => {
                (word.is(group) && args.get(at + 1).is_some_and(|next| next.is(own))).then_some(at + 1)
            }
            None => word.is(known).then_some(at),
        });
        if known.is_some() {
            return known;
        }
        operands += 1;
        if operands > 2 {
            return None;
        }
    }
    None
}

fn parse(wrapper: &Wrapper, args: &[Word<'_>], start: usize, shell: Shell) -> Parsed {
    let mut parsed = Parsed::default();
    let mut operands = wrapper.operands;
    let mut at = start;
    while at < args.len() {
        let text = &*args[at].text;
        if text == b"--" {
            at += 1;
            // What follows are operands of the wrapper, then the command.
            at = (at + operands).min(args.len());
            break;
        }
        let slash = wrapper.slash && text.len() > 1 && text[0] == b'/';
        let dash = text.len() > 1 && text[0] == b'-';
        if dash || slash {
            let step = option(wrapper, args, at, &mut parsed, shell);
            if parsed.code.is_some() {
                at += step;
                break;
            }
            at += step;
        } else if text == b"-" || wrapper.assignments && assignment(text).is_some() {
            at += 1;
        } else if operands > 0 {
            operands -= 1;
            at += 1;
        } else if !wrapper.assignments
            && wrapper.code.iter().any(|known| args.get(at + 1).is_some_and(|next| next.is(known)))
        {
            // `runuser -l name -c text`
            at += 1;
        } else if wrapper.permute || wrapper.then == Then::Nothing {
            at += 1;
        } else {
            break;
        }
    }
    parsed.command = at.min(args.len());
    parsed
}

/// Reads one option; returns how many words it takes.
fn option(wrapper: &Wrapper, args: &[Word<'_>], at: usize, parsed: &mut Parsed, shell: Shell) -> usize {
    let text = &*args[at].text;
    let same = |known: &&str| {
        if shell == Shell::Posix {
            text == known.as_bytes()
        } else {
            text.eq_ignore_ascii_case(known.as_bytes())
        }
    };
    if wrapper.query.iter().any(same) {
        parsed.query = true;
    }
    if wrapper.pairs.iter().any(same) {
        return 3;
    }
    let mut value = |from: usize, offset: usize, known: &str| {
        if wrapper.mounts.contains(&known)
            && let Some(word) = args.get(from)
        {
            parsed.mounts.extend(mount(&word.text[offset..]));
        }
    };
    // --name=value
    if text.starts_with(b"--") || wrapper.slash && text[0] == b'/' {
        let (name, given) = match text.iter().position(|&byte| byte == b'=') {
            Some(end) => (&text[..end], Some(end + 1)),
            None => (text, None),
        };
        let is = |known: &&str| name.eq_ignore_ascii_case(known.as_bytes());
        if wrapper.code.iter().any(is) {
            parsed.code = Some(given.map_or(at + 1, |_| at)).filter(|&at| at < args.len());
            parsed.code_offset = given.unwrap_or(0);
            return if given.is_some() { 1 } else { 2 };
        }
        if let Some(known) = wrapper.values.iter().find(|known| is(known)) {
            value(if given.is_some() { at } else { at + 1 }, given.unwrap_or(0), known);
            return if given.is_some() { 1 } else { 2 };
        }
        return 1;
    }
    if wrapper.values.iter().any(same) {
        let known = wrapper.values.iter().find(|known| same(known)).copied().unwrap_or_default();
        value(at + 1, 0, known);
        return 2;
    }
    if wrapper.code.iter().any(same) {
        parsed.code = Some(at + 1).filter(|&at| at < args.len());
        return 2;
    }
    // -abc, where one of them may take the rest or the next word
    for (index, &letter) in text.iter().enumerate().skip(1) {
        let last = index + 1 == text.len();
        let short = [b'-', letter];
        if wrapper.code.iter().any(|known| known.as_bytes() == short) {
            parsed.code = Some(if last { at + 1 } else { at }).filter(|&at| at < args.len());
            parsed.code_offset = if last { 0 } else { index + 1 };
            return if last { 2 } else { 1 };
        }
        if let Some(known) = wrapper.values.iter().find(|known| known.as_bytes() == short) {
            value(if last { at + 1 } else { at }, if last { 0 } else { index + 1 }, known);
            return if last { 2 } else { 1 };
        }
        if wrapper.query.iter().any(|known| known.as_bytes() == short) {
            parsed.query = true;
        }
    }
    1
}

/// `HOST:CONTAINER[:OPTIONS]`; one that is read-only can do no harm.
fn mount(text: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut parts = text.split(|&byte| byte == b':');
    let (host, container, options) = (parts.next()?, parts.next()?, parts.next());
    let read_only =
        options.is_some_and(|options| options.split(|&byte| byte == b',').any(|one| one == b"ro"));
    (!read_only && host.starts_with(b"/")).then(|| (host.to_vec(), container.to_vec()))
}

/// A container's path as the host's.
fn on_host<'a>(word: &Word<'a>, mounts: &[(Vec<u8>, Vec<u8>)]) -> Word<'a> {
    for (host, container) in mounts {
        if let Some(rest) = word.text.strip_prefix(&**container)
            && (rest.is_empty() || rest.starts_with(b"/"))
        {
            let mut path = host.clone();
            path.extend_from_slice(rest);
            return Word { flags: word.flags, ..Word::owned(path) };
        }
    }
    word.clone()
}

/// `xargs`: what is known of its input becomes arguments, or takes the place of a mark.
fn xargs<'w, 'a>(
    scan: &mut Scan,
    own: &[Word<'a>],
    rest: &'w [Word<'a>],
    around: &Around<'_>,
) -> Next<'w, 'a> {
    let mut given: Vec<Vec<u8>> = around.stdin.names.iter().take(LIST_LIMIT).cloned().collect();
    if let Some(text) = &around.stdin.output {
        let words = text.split(|byte| byte.is_ascii_whitespace() || *byte == 0);
        given.extend(words.filter(|word| !word.is_empty()).take(LIST_LIMIT).map(<[u8]>::to_vec));
    }
    let mark = own.iter().enumerate().find_map(|(at, word)| {
        if word.is("-I") || word.is("-J") {
            return own.get(at + 1).map(|word| word.text.to_vec());
        }
        word.text
            .strip_prefix(b"-I")
            .or(word.text.strip_prefix(b"--replace="))
            .map(<[u8]>::to_vec)
            .or_else(|| (word.is("-i") || word.is("--replace")).then(|| b"{}".to_vec()))
    });
    // Without a command it is `echo`; a shell without one gets its script from the arguments.
    let runs_code = |word: &&Word<'_>| hosts::is_posix_shell(&program(&word.text));
    if around.stdin.downloads && rest.iter().take(2).any(|word| runs_code(&word)) {
        scan.event("@download-to-shell", &[], around.place);
    }
    let host = rest.first().is_some_and(|word| hosts::is_posix_shell(&program(&word.text)));
    if given.is_empty() || host && mark.is_none() {
        let inner = Around { stdin: &Rc::default(), ..*around };
        return Next::Done(super::run(scan, rest, &inner));
    }
    let mut words: Vec<Word<'_>> = match mark {
        Some(mark) => {
            let all = given.join(&b' ');
            rest.iter()
                .map(|word| match memchr::memmem::find(&word.text, &mark) {
                    Some(at) => {
                        let mut text = word.text[..at].to_vec();
                        text.extend_from_slice(&all);
                        text.extend_from_slice(&word.text[at + mark.len()..]);
                        Word::owned(text)
                    }
                    None => word.clone(),
                })
                .collect()
        }
        None => rest.iter().cloned().chain(given.into_iter().map(Word::owned)).collect(),
    };
    // Every file below is named, one by one.
    if !around.stdin.names.is_empty() && words.first().is_some_and(|word| &*program(&word.text) == b"rm") {
        words.insert(1, Word::borrowed(b"-r"));
    }
    let inner = Around { stdin: &Rc::default(), ..*around };
    Next::Done(super::run(scan, &words, &inner))
}
