//! Reads the language of the Windows command processor: carets, `%variables%`, redirections, `if` and `for`.

mod values;

use std::rc::Rc;

use crate::command_policy::run::Command;
use crate::command_policy::scan::posix::{Element, Pipeline};
use crate::command_policy::scan::windows::{self, Redirection};
use crate::command_policy::state::{Job, Place, Scan, Upstream};
use crate::command_policy::word::{QUOTED, Word};

/// Commands of cmd itself: `,`, `;` and `=` separate their words as blanks do, and a switch may be glued to them.
const BUILTINS: [&[u8]; 24] = [
    b"rd", b"rmdir", b"del", b"erase", b"copy", b"move", b"ren", b"rename", b"md", b"mkdir", b"cd", b"chdir",
    b"type", b"dir", b"call", b"start", b"if", b"for", b"pushd", b"popd", b"format", b"attrib", b"mklink",
    b"else",
];

struct Cmd<'a, 's> {
    text: &'a [u8],
    pos: usize,
    scan: &'s mut Scan,
    place: Place,
    word: Vec<u8>,
    /// Where the word begins in the text.
    start: usize,
    active: bool,
    flags: u8,
    quote: bool,
    command: Command<'a>,
    pipeline: Pipeline<'a>,
    redirect: Option<bool>,
    /// The variable of `for` that was named last.
    loop_name: Option<u8>,
    /// A variable stands for everything below a directory.
    walked: bool,
    depth: u32,
    /// Pipelines outside of open parentheses, with what has been written in them.
    groups: Vec<(Pipeline<'a>, Vec<u8>)>,
    written: Vec<u8>,
}

pub(in crate::command_policy) fn read(scan: &mut Scan, job: &Job, text: &[u8]) {
    let pipeline = Pipeline::new(Rc::clone(&job.stdin));
    let mut cmd = Cmd {
        text,
        pos: 0,
        scan,
        place: job.place,
        word: Vec::new(),
        start: 0,
        active: false,
        flags: 0,
        quote: false,
        command: Command::default(),
        pipeline,
        redirect: None,
        loop_name: None,
        walked: false,
        depth: 0,
        groups: Vec::new(),
        written: Vec::new(),
    };
    cmd.script();
}

impl<'a> Cmd<'a, '_> {
    fn script(&mut self) {
        while self.pos < self.text.len() {
            self.step();
        }
        self.end_line();
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.pos + ahead).copied()
    }

    fn push(&mut self, byte: u8) {
        if !self.active {
            self.active = true;
            self.start = self.pos - 1;
        }
        self.word.push(byte);
    }

    fn step(&mut self) {
        let byte = self.text[self.pos];
        self.pos += 1;
        match byte {
            b'\n' | b'\r' => {
                self.quote = false;
                self.end_line();
            }
            0 => {}
            b'%' => self.variable(b'%'),
            b'!' if self.delayed() => self.variable(b'!'),
            b'"' => self.quote(),
            _ if self.quote => self.push(byte),
            b'^' => match self.peek(0) {
                Some(b'\r') if self.peek(1) == Some(b'\n') => self.pos += 2,
                Some(b'\n') => self.pos += 1,
                // The name of a command of cmd ends here all the same.
                Some(b' ' | b'\t') if self.command.words.is_empty() => {}
                Some(next) => {
                    self.push(next);
                    self.pos += 1;
                }
                None => {}
            },
            b' ' | b'\t' | 0x0b | 0x0c => self.end_word(),
            b',' | b';' | b'=' if self.separates() => self.end_word(),
            b'@' if !self.active && self.command.words.is_empty() => {}
            b'&' => self.end_line(),
            b'|' => {
                if self.peek(0) == Some(b'|') {
                    self.pos += 1;
                    self.end_line();
                } else {
                    self.end_word();
                    self.end_command();
                }
            }
            b'<' | b'>' => self.angle(byte),
            b'(' if !self.active && (self.command.words.is_empty() || self.is_else()) => self.open(),
            b')' if self.depth > 0 => self.close(),
            b':' if !self.active && self.command.words.is_empty() => self.skip_line(),
            _ => self.push(byte),
        }
    }

    /// A program sees `\"` as a quote; where a word ends there, the backslash belongs to a path.
    fn quote(&mut self) {
        self.active = true;
        let escaped = self.word.last() == Some(&b'\\');
        let ends = self.peek(0).is_none_or(|next| b" \t\r\n&|<>)".contains(&next));
        if escaped && !ends {
            self.word.pop();
            self.word.push(b'"');
            return;
        }
        self.flags |= QUOTED;
        self.quote = !self.quote;
    }

    fn separates(&self) -> bool {
        if !self.active && self.command.words.is_empty() {
            return true;
        }
        let first = match self.command.words.first() {
            Some(word) => &*word.text,
            None => &*self.word,
        };
        let stem = first[..first.len().min(16)].split(|&byte| byte == b'/').next().unwrap_or_default();
        let stem = stem.to_ascii_lowercase();
        BUILTINS.contains(&&*stem) && stem != b"start"
    }

    fn angle(&mut self, byte: u8) {
        if self.active && windows::is_handle(&self.word) && self.flags == 0 {
            self.word.clear();
            self.active = false;
        } else {
            self.end_word();
        }
        if let Redirection::Handle = windows::redirection(self.text, &mut self.pos) {
            return;
        }
        self.redirect = Some(byte == b'>');
    }

    fn is_else(&self) -> bool {
        matches!(self.command.words.last(), Some(word) if matches!(&*word.text.to_ascii_lowercase(), b"do" | b"else"))
            || self.command.words.first().is_some_and(|word| word.text.eq_ignore_ascii_case(b"if"))
    }

    fn open(&mut self) {
        self.end_word();
        // The words of `if` or `for` in front end here.
        self.end_command();
        self.run();
        if self.groups.len() >= 1000 {
            self.scan.not_scanned(self.place);
            return;
        }
        self.depth += 1;
        let outer = self.pipeline.begin();
        self.groups.push((outer, std::mem::take(&mut self.written)));
    }

    fn close(&mut self) {
        self.end_line();
        self.depth -= 1;
        if let Some((outer, before)) = self.groups.pop() {
            let written = std::mem::replace(&mut self.written, before);
            self.pipeline = outer;
            let output = Upstream { output: Some(written), ..Upstream::default() };
            self.pipeline.elements.push(Element::Group(output));
        }
    }

    fn skip_line(&mut self) {
        self.pos = windows::line_end(self.text, self.pos);
    }

    fn end_word(&mut self) {
        if !std::mem::take(&mut self.active) {
            return;
        }
        let flags = std::mem::take(&mut self.flags);
        if self.word.is_empty() && flags & QUOTED == 0 {
            return;
        }
        let word = Word { text: windows::word(self.text, self.start, &mut self.word), flags };
        if let Some(write) = self.redirect.take() {
            let list = if write { &mut self.command.writes } else { &mut self.command.reads };
            list.push(word);
            return;
        }
        if self.command.words.is_empty() {
            self.first_word(word);
            return;
        }
        if word.text.eq_ignore_ascii_case(b"do") && self.command.words[0].text.eq_ignore_ascii_case(b"for") {
            let words = std::mem::take(&mut self.command.words);
            self.bind_loop(&words);
            return;
        }
        // `format C:/q`
        if word.text.len() > 3
            && word.text[1..].starts_with(b":/")
            && self.command.words.len() == 1
            && self.command.words[0].text.eq_ignore_ascii_case(b"format")
        {
            let (drive, switch) = word.text.split_at(2);
            self.command.words.extend([Word::owned(drive.to_vec()), Word::owned(switch.to_vec())]);
            return;
        }
        // `/s/q`
        let glued = word.text.len() > 3
            && word.text.iter().step_by(2).all(|&byte| byte == b'/')
            && word.text.iter().skip(1).step_by(2).all(u8::is_ascii_alphabetic);
        if glued {
            self.command.words.extend(word.text.chunks(2).map(|part| Word::owned(part.to_vec())));
        } else {
            self.command.words.push(word);
        }
    }

    fn first_word(&mut self, word: Word<'a>) {
        let lower = word.text.to_ascii_lowercase();
        match &*lower {
            b"rem" => {
                self.skip_line();
                return;
            }
            b"else" | b"do" | b"@" => return,
            _ => {}
        }
        // `rd/s`
        let stem = lower.iter().position(|&byte| byte == b'/').filter(|&at| at > 0);
        if let Some(at) = stem
            && (BUILTINS.contains(&&lower[..at]) || lower.starts_with(b"cmd/"))
        {
            self.command.words.push(Word::owned(word.text[..at].to_vec()));
            self.active = true;
            self.word = word.text[at..].to_vec();
            self.end_word();
            return;
        }
        // `echo.`, `cd\`, `cd..`
        for builtin in [&b"echo"[..], b"cd", b"chdir"] {
            if let Some(rest) = lower.strip_prefix(builtin)
                && matches!(rest.first(), Some(b'.' | b'\\' | b'(' | b':' | b'+'))
            {
                let rest = word.text[builtin.len()..].to_vec();
                self.command.words.push(Word::borrowed(builtin));
                self.command.words.push(Word::owned(rest));
                return;
            }
        }
        self.command.words.push(word);
    }

    fn end_line(&mut self) {
        self.end_word();
        self.end_command();
        self.run();
    }

    fn end_command(&mut self) {
        self.redirect = None;
        if self.command.is_empty() {
            return;
        }
        let mut command = self.pipeline.take(&mut self.command);
        let mut start = 0;
        while let Some(words) = self.keyword(&command.words[start..]) {
            start += words;
        }
        if start > 0 {
            command.words.drain(..start);
        }
        if command.is_empty() {
            return;
        }
        // Each of the files is deleted by itself, which is as thorough.
        if self.walked
            && command.words.len() > 1
            && matches!(&*command.words[0].text.to_ascii_lowercase(), b"del" | b"erase" | b"rd" | b"rmdir")
        {
            command.words.push(Word::borrowed(b"/s"));
        }
        let repeats = command.runs_itself();
        if repeats
            && self
                .pipeline
                .elements
                .iter()
                .any(|element| matches!(element, Element::Command(first) if first.runs_itself()))
        {
            self.scan.event("@fork-bomb", &[], self.place);
        }
        self.pipeline.elements.push(Element::Command(command));
    }

    /// `if` and `set`: how many words stand before what is to be run.
    fn keyword(&mut self, words: &[Word<'a>]) -> Option<usize> {
        let first = words.first()?.text.to_ascii_lowercase();
        match &*first {
            b"if" => Some(condition_end(words)),
            b"set" => {
                self.set(&words[1..]);
                None
            }
            _ if first.len() == 2 && first[1] == b':' && words.len() == 1 => {
                let mut root = first;
                root.push(b'\\');
                self.scan.cwd = Some(root);
                None
            }
            _ => None,
        }
    }

    fn run(&mut self) {
        let written = windows::run(self.scan, &mut self.pipeline, self.place);
        if let Some(text) = written.output
            && self.written.len() < 1 << 18
        {
            self.written.extend_from_slice(&text);
        }
    }
}

/// How many words the condition of `if` has.
fn condition_end(words: &[Word<'_>]) -> usize {
    let is = |at: usize, name: &[u8]| words.get(at).is_some_and(|word| word.text.eq_ignore_ascii_case(name));
    let mut at = 1;
    while is(at, b"/i") || is(at, b"not") {
        at += 1;
    }
    let Some(word) = words.get(at) else { return words.len() };
    let lower = word.text.to_ascii_lowercase();
    match &*lower {
        b"exist" | b"defined" | b"errorlevel" | b"cmdextversion" => (at + 2).min(words.len()),
        // a==b was split at the equals signs.
        _ if words.get(at + 1).is_some_and(|next| {
            [&b"equ"[..], b"neq", b"lss", b"leq", b"gtr", b"geq", b"=="]
                .iter()
                .any(|op| next.text.eq_ignore_ascii_case(op))
        }) =>
        {
            (at + 3).min(words.len())
        }
        _ if memchr::memmem::find(&lower, b"==").is_some() => (at + 1).min(words.len()),
        _ => (at + 2).min(words.len()),
    }
}
