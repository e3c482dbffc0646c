//! Reads a POSIX shell's text in one pass: quotes, comments and here-documents from the raw text, commands as they
//! end. Nesting is kept on a heap stack, so that depth costs no stack.

mod groups;
mod pipeline;
mod words;

use std::rc::Rc;

pub(in crate::command_policy) use pipeline::{Element, Pipeline};

use crate::command_policy::run::Command;
use crate::command_policy::scan::builder::Builder;
use crate::command_policy::scan::class::{self, BLANK, PLAIN};
use crate::command_policy::scan::expand::{self, Braces};
use crate::command_policy::scan::heredoc::Pending;
use crate::command_policy::state::{Code, Job, Place, Scan, Upstream};
use crate::command_policy::word::QUOTED;

/// What is read at one level of nesting.
#[derive(Debug, Default)]
struct State<'a> {
    command: Command<'a>,
    pipeline: Pipeline<'a>,
    /// What the commands of this level have written so far.
    output: Upstream,
    redirect: Option<Redirect>,
    keyword: Keyword,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Redirect {
    Read,
    Write,
    Both,
    HereString,
    Heredoc { tabs: bool },
}

/// Which reserved word the words of the command belong to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Keyword {
    #[default]
    None,
    /// The word after `case`.
    Case,
    /// `in` after that word.
    CaseIn,
    /// The words of `for` and `select`.
    For,
    /// `[[`
    Test,
    /// The name after `function`.
    Function,
}

#[derive(Debug)]
enum Frame<'a> {
    /// `$( )`, `<( )` and `>( )`: the word that it is a part of goes on afterwards.
    Substitution {
        state: State<'a>,
        word: Builder,
        process: bool,
        cwd: Option<Vec<u8>>,
        waiting: Waiting<'a>,
    },
    /// `( )`
    Subshell {
        pipeline: Pipeline<'a>,
        output: Upstream,
        cwd: Option<Vec<u8>>,
        function: bool,
    },
    /// `{ }`
    Group {
        pipeline: Pipeline<'a>,
        output: Upstream,
        function: bool,
    },
    Case {
        pattern: bool,
    },
    /// `name=( )`
    Array {
        state: State<'a>,
        name: Vec<u8>,
    },
}

/// Here-documents whose bodies are still to come. Those of a substitution come before those around it.
#[derive(Debug, Default)]
struct Waiting<'a> {
    heredocs: Vec<Pending>,
    /// Pipelines that wait for them.
    pipelines: Vec<Pipeline<'a>>,
}

/// A function whose body is being read, and how often it calls itself.
#[derive(Debug)]
struct Function {
    name: Vec<u8>,
    /// Where its body begins.
    start: usize,
    in_pipeline: u32,
    in_background: u32,
    piped: bool,
    /// Open `if`, loops and `case` of a body that is one of these.
    compound: Option<u32>,
}

pub(in crate::command_policy) struct Posix<'a, 's> {
    pub(super) text: &'a [u8],
    pub(super) pos: usize,
    pub(super) scan: &'s mut Scan,
    pub(super) place: Place,
    pub(super) positional: &'s Rc<Vec<Vec<u8>>>,
    pub(super) word: Builder,
    state: State<'a>,
    frames: Vec<Frame<'a>>,
    waiting: Waiting<'a>,
    functions: Vec<Function>,
    pending_function: Option<Vec<u8>>,
    loops: u32,
    /// The last command was ended by `|`.
    after_bar: bool,
    /// How many bytes may still be searched for a `))` in vain; two parentheses are read as such then.
    pub(super) arithmetic: usize,
    /// How the end of `${` is found.
    pub(super) braces: Braces,
}

/// Reads one text to its end.
pub(in crate::command_policy) fn read(scan: &mut Scan, job: &Job, text: &[u8]) {
    let mut posix = Posix::new(scan, text, job.place, &job.positional);
    posix.state.pipeline.stdin = Rc::clone(&job.stdin);
    if job.kind == Code::Expanded {
        posix.expanded();
    } else {
        posix.script();
    }
}

impl<'a, 's> Posix<'a, 's> {
    fn new(scan: &'s mut Scan, text: &'a [u8], place: Place, positional: &'s Rc<Vec<Vec<u8>>>) -> Self {
        Self {
            text,
            pos: 0,
            scan,
            place,
            positional,
            word: Builder::default(),
            state: State::default(),
            frames: Vec::new(),
            waiting: Waiting::default(),
            functions: Vec::new(),
            pending_function: None,
            loops: 0,
            after_bar: false,
            arithmetic: text.len() + 4096,
            braces: Braces::default(),
        }
    }

    pub(super) fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.pos + ahead).copied()
    }

    fn script(&mut self) {
        while self.pos < self.text.len() {
            if self.word.in_double() {
                self.double_quoted();
            } else {
                self.unquoted();
            }
        }
        self.finish();
    }

    /// A here-document's body, or a prompt: everything is as between double quotes.
    fn expanded(&mut self) {
        self.word.set_body();
        while self.pos < self.text.len() {
            if self.word.in_double() {
                self.double_quoted();
            } else if self.frames.is_empty() {
                self.word.set_body();
            } else {
                self.unquoted();
            }
        }
        self.word = Builder::default();
        self.finish();
    }

    /// The end of the text ends everything that is open.
    fn finish(&mut self) {
        loop {
            self.end_command(false);
            self.end_pipeline();
            if self.frames.is_empty() {
                break;
            }
            self.close_frame();
        }
        self.read_heredocs();
    }

    fn unquoted(&mut self) {
        let byte = self.text[self.pos];
        match class::of(byte) {
            PLAIN => {
                let end = class::plain_end(self.text, self.pos);
                self.word.extend(self.text, self.pos, end);
                self.pos = end;
            }
            BLANK => {
                self.end_word();
                self.pos += 1;
            }
            _ => self.special(byte),
        }
    }

    fn special(&mut self, byte: u8) {
        match byte {
            b'\n' if matches!(self.frames.last(), Some(Frame::Array { .. })) => {
                self.end_word();
                self.pos += 1;
            }
            b'\n' => {
                self.end_word();
                // A pipeline goes on after `|`.
                if self.state.command.is_empty() && !self.state.pipeline.elements.is_empty() && self.after_bar
                {
                    self.pos += 1;
                    self.read_heredocs();
                    return;
                }
                self.end_line();
                self.pos += 1;
                self.read_heredocs();
            }
            b'\r' if self.peek(1) == Some(b'\n') || self.peek(1).is_none() => {
                self.end_word();
                self.pos += 1;
            }
            b'\\' => self.backslash(),
            b'\'' => self.single_quoted(),
            b'"' => {
                self.word.fold(self.text, self.pos);
                self.word.flags |= QUOTED;
                self.pos += 1;
                self.word.set_double();
            }
            b'$' => expand::dollar(self),
            b'`' => expand::backtick(self),
            b'#' if !self.word.is_active() => {
                self.pos =
                    memchr::memchr(b'\n', &self.text[self.pos..]).map_or(self.text.len(), |at| self.pos + at);
            }
            b';' => {
                self.end_word();
                let case = self.peek(1) == Some(b';') || self.peek(1) == Some(b'&');
                self.end_line();
                self.pos += 1;
                if case {
                    while matches!(self.peek(0), Some(b';' | b'&')) {
                        self.pos += 1;
                    }
                    if let Some(Frame::Case { pattern }) = self.frames.last_mut() {
                        *pattern = true;
                    }
                }
            }
            b'&' => self.ampersand(),
            b'|' => self.bar(),
            b'<' | b'>' => self.angle(byte),
            b'(' => self.open_paren(),
            b')' => self.close_paren(),
            b'{' | b',' | b'}' => self.brace(byte),
            0 => {
                // Shells drop it.
                self.word.fold(self.text, self.pos);
                self.pos += 1;
            }
            _ => {
                self.word.extend(self.text, self.pos, self.pos + 1);
                self.pos += 1;
            }
        }
    }

    fn in_pattern(&self) -> bool {
        matches!(self.frames.last(), Some(Frame::Case { pattern: true }))
    }

    fn backslash(&mut self) {
        self.word.fold(self.text, self.pos);
        match self.peek(1) {
            Some(b'\n') => self.pos += 2,
            Some(b'\r') if self.peek(2) == Some(b'\n') => self.pos += 3,
            Some(byte) => {
                self.word.flags |= QUOTED;
                self.word.literal(byte);
                self.pos += 2;
            }
            None => self.pos += 1,
        }
    }

    fn single_quoted(&mut self) {
        self.word.fold(self.text, self.pos);
        self.word.flags |= QUOTED;
        let start = self.pos + 1;
        let end = memchr::memchr(b'\'', &self.text[start..]).map_or(self.text.len(), |at| start + at);
        self.word.quoted(&self.text[start..end]);
        self.pos = (end + 1).min(self.text.len());
    }

    fn double_quoted(&mut self) {
        let byte = self.text[self.pos];
        match byte {
            b'"' if !self.word.is_body() => {
                self.word.fold(self.text, self.pos);
                self.word.end_double();
                self.pos += 1;
            }
            b'\\' => {
                self.word.fold(self.text, self.pos);
                match self.peek(1) {
                    Some(b'\n') => self.pos += 2,
                    Some(next @ (b'$' | b'`' | b'"' | b'\\')) => {
                        self.word.literal(next);
                        self.pos += 2;
                    }
                    _ => {
                        self.word.literal(b'\\');
                        self.pos += 1;
                    }
                }
            }
            b'$' => expand::dollar(self),
            b'`' => expand::backtick(self),
            0 => {
                self.word.fold(self.text, self.pos);
                self.pos += 1;
            }
            _ => {
                let rest = &self.text[self.pos..];
                let end = memchr::memchr3(b'"', b'\\', b'$', rest).unwrap_or(rest.len());
                let end = memchr::memchr2(b'`', 0, &rest[..end]).unwrap_or(end).max(1);
                self.word.extend(self.text, self.pos, self.pos + end);
                self.pos += end;
            }
        }
    }

    fn ampersand(&mut self) {
        match self.peek(1) {
            Some(b'&') => {
                self.end_line();
                self.pos += 2;
            }
            Some(b'>') => {
                self.end_word();
                self.pos += 1;
                self.angle(b'>');
            }
            _ => {
                self.end_word();
                self.end_command(true);
                self.end_pipeline();
                self.pos += 1;
            }
        }
    }

    fn bar(&mut self) {
        self.end_word();
        if self.in_pattern() || self.state.keyword == Keyword::Test {
            self.pos += 1;
            return;
        }
        if self.peek(1) == Some(b'|') {
            self.end_line();
            self.pos += 2;
            return;
        }
        self.end_command(false);
        self.after_bar = true;
        self.pos += if self.peek(1) == Some(b'&') { 2 } else { 1 };
    }

    fn angle(&mut self, byte: u8) {
        if self.state.keyword == Keyword::Test || self.in_pattern() {
            self.end_word();
            self.pos += 1;
            return;
        }
        // A descriptor's number in front.
        let number = self.word.is_number(self.text, self.pos) || self.word.is_descriptor();
        if number {
            self.word = Builder::default();
        } else {
            self.end_word();
        }
        if self.peek(1) == Some(b'(') {
            self.pos += 2;
            self.open_substitution(true);
            return;
        }
        self.pos += 1;
        let redirect = match (byte, self.peek(0)) {
            (b'<', Some(b'<')) => {
                self.pos += 1;
                match self.peek(0) {
                    Some(b'<') => {
                        self.pos += 1;
                        Redirect::HereString
                    }
                    Some(b'-') => {
                        self.pos += 1;
                        Redirect::Heredoc { tabs: true }
                    }
                    _ => Redirect::Heredoc { tabs: false },
                }
            }
            (b'<', Some(b'>')) => {
                self.pos += 1;
                Redirect::Both
            }
            (b'<', Some(b'&')) => {
                self.pos += 1;
                Redirect::Read
            }
            (b'<', _) => Redirect::Read,
            (_, Some(b'>' | b'|' | b'&' | b'!')) => {
                self.pos += 1;
                Redirect::Write
            }
            _ => Redirect::Write,
        };
        self.state.redirect = Some(redirect);
    }
}

fn append(output: &mut Upstream, mut written: Upstream) {
    output.downloads |= written.downloads;
    output.names.append(&mut written.names);
    match (&mut output.output, written.output) {
        (Some(text), Some(more)) if text.len() + more.len() < 1 << 20 => text.extend_from_slice(&more),
        (None, more) => output.output = more,
        _ => {}
    }
}

fn without_tabs(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let start = line.iter().position(|&byte| byte != b'\t').unwrap_or(line.len());
        out.extend_from_slice(&line[start..]);
    }
    out
}
