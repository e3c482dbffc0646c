//! Reads PowerShell: commands and their pipelines, and the text of each statement for rules about expressions.

mod values;
mod words;

use std::rc::Rc;

use crate::command_policy::fold;
use crate::command_policy::run::Command;
use crate::command_policy::scan::posix::{Element, Pipeline};
use crate::command_policy::scan::windows::{self, Redirection};
use crate::command_policy::state::{Job, Place, Scan};
use crate::command_policy::word::{QUOTED, Word};

/// Longest text of a variable that is put into a statement.
const VALUE_LIMIT: usize = 1024;

/// A cmdlet's full name.
pub(in crate::command_policy) fn cmdlet(name: &[u8]) -> &[u8] {
    match name {
        b"ri" | b"rm" | b"rd" | b"rmdir" | b"del" | b"erase" => b"remove-item",
        b"rp" => b"remove-itemproperty",
        b"sp" => b"set-itemproperty",
        b"gci" | b"ls" | b"dir" => b"get-childitem",
        b"gi" => b"get-item",
        b"ni" => b"new-item",
        b"si" => b"set-item",
        b"cpi" | b"copy" | b"cp" => b"copy-item",
        b"sc" => b"set-content",
        b"ac" => b"add-content",
        b"clc" => b"clear-content",
        b"tee" => b"tee-object",
        b"gwmi" => b"get-wmiobject",
        b"gcim" => b"get-ciminstance",
        b"rwmi" => b"remove-wmiobject",
        b"rcim" => b"remove-ciminstance",
        b"iwmi" => b"invoke-wmimethod",
        b"icim" => b"invoke-cimmethod",
        b"swmi" => b"set-wmiinstance",
        b"iwr" | b"curl" | b"wget" => b"invoke-webrequest",
        b"irm" => b"invoke-restmethod",
        b"iex" => b"invoke-expression",
        b"icm" => b"invoke-command",
        b"saps" | b"start" => b"start-process",
        b"spsv" => b"stop-service",
        b"foreach" | b"%" => b"foreach-object",
        b"where" | b"?" => b"where-object",
        b"echo" | b"write" => b"write-output",
        b"sls" => b"select-string",
        b"gcm" => b"get-command",
        b"sal" => b"set-alias",
        b"nal" => b"new-alias",
        b"rvpa" => b"resolve-path",
        b"sl" | b"cd" | b"chdir" => b"set-location",
        other => other,
    }
}

/// Commands whose arguments are only text to them: what they show, search or keep is not run.
fn only_text(name: &[u8]) -> bool {
    const VERBS: [&[u8]; 11] = [
        b"write-",
        b"select-string",
        b"get-help",
        b"get-command",
        b"out-",
        b"set-content",
        b"add-content",
        b"get-content",
        b"test-",
        b"format-",
        b"measure-",
    ];
    let full = cmdlet(name);
    full.contains(&b'-') && VERBS.iter().any(|verb| full.starts_with(verb))
        || matches!(
            full,
            b"git"
                | b"gh"
                | b"hg"
                | b"svn"
                | b"grep"
                | b"egrep"
                | b"fgrep"
                | b"rg"
                | b"ag"
                | b"ack"
                | b"findstr"
                | b"find"
                | b"sed"
                | b"awk"
                | b"cat"
                | b"less"
                | b"more"
                | b"type"
                | b"head"
                | b"tail"
                | b"diff"
                | b"vim"
                | b"code"
                | b"notepad"
                | b"help"
                | b"man"
                | b"where.exe"
                | b"which"
                | b"cargo"
                | b"npm"
        )
}

enum Frame<'a> {
    /// `( )`, `$( )`, `@( )`: the word goes on afterwards.
    Paren {
        called: bool,
        command: Command<'a>,
        pipeline: Pipeline<'a>,
        word: Vec<u8>,
        said: usize,
        active: bool,
        flags: u8,
        string: bool,
    },
    /// `{ }`
    Block { command: Command<'a>, pipeline: Pipeline<'a> },
}

struct PowerShell<'a, 's> {
    text: &'a [u8],
    pos: usize,
    scan: &'s mut Scan,
    place: Place,
    word: Vec<u8>,
    /// Where the word begins in the text.
    start: usize,
    /// How much of the word is in the statement already.
    said: usize,
    active: bool,
    flags: u8,
    command: Command<'a>,
    pipeline: Pipeline<'a>,
    redirect: bool,
    /// The command's name is given as a string, after `&` or `.`.
    called: bool,
    frames: Vec<Frame<'a>>,
    /// The statement so far, in lower case.
    statement: Vec<u8>,
    /// Where the value of an assignment begins in it, and the variable.
    assigned: Option<(Vec<u8>, usize)>,
    blank: bool,
    /// Inside of `"..."`.
    string: bool,
}

pub(in crate::command_policy) fn read(scan: &mut Scan, job: &Job, text: &[u8]) {
    let text = fold::powershell(text);
    let pipeline = Pipeline::new(Rc::clone(&job.stdin));
    let mut reader = PowerShell {
        text: &text,
        pos: 0,
        scan,
        place: job.place,
        word: Vec::new(),
        start: 0,
        said: 0,
        active: false,
        flags: 0,
        command: Command::default(),
        pipeline,
        redirect: false,
        called: false,
        frames: Vec::new(),
        statement: Vec::new(),
        assigned: None,
        blank: false,
        string: false,
    };
    reader.script();
}

impl<'a> PowerShell<'a, '_> {
    fn script(&mut self) {
        while self.pos < self.text.len() {
            if self.string {
                self.double_quoted();
            } else {
                self.step();
            }
        }
        self.string = false;
        while !self.frames.is_empty() {
            self.close();
        }
        self.end_statement();
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
            b'\n' | b'\r' => self.newline(),
            b';' => {
                self.end_line();
                self.mark(b';');
                if self.frames.is_empty() {
                    self.end_statement();
                }
            }
            b' ' | b'\t' | 0x0b | 0x0c => {
                self.end_word();
                self.blank = true;
            }
            0 => {}
            b'`' => match self.peek(0) {
                Some(b'\r') if self.peek(1) == Some(b'\n') => {
                    self.pos += 2;
                    self.end_word();
                }
                Some(b'\n') => {
                    self.pos += 1;
                    self.end_word();
                }
                Some(next) => {
                    self.push(next);
                    self.pos += 1;
                }
                None => {}
            },
            b'\'' => self.single_quoted(),
            b'"' => {
                self.active = true;
                self.flags |= QUOTED;
                self.string = true;
            }
            b'#' if !self.active => {
                self.pos = self.line_end();
            }
            b'<' if self.peek(0) == Some(b'#') => {
                let rest = &self.text[self.pos..];
                self.pos = memchr::memmem::find(rest, b"#>").map_or(self.text.len(), |at| self.pos + at + 2);
            }
            b'@' if matches!(self.peek(0), Some(b'\'' | b'"')) && !self.active => self.here_string(),
            b'@' if matches!(self.peek(0), Some(b'(' | b'{')) => {}
            b'$' if self.peek(0) == Some(b'(') => {
                self.pos += 1;
                self.open_paren();
            }
            b'$' => self.variable(),
            b'(' => self.open_paren(),
            b')' => self.close_paren(),
            b'{' => self.open_block(),
            b'}' => self.close_block(),
            b'|' => {
                if self.peek(0) == Some(b'|') {
                    self.pos += 1;
                    self.end_line();
                } else {
                    self.end_word();
                    self.end_command();
                    self.mark(b'|');
                }
            }
            b'&' => {
                if self.peek(0) == Some(b'&') {
                    self.pos += 1;
                    self.end_line();
                } else {
                    self.end_line();
                    self.called = true;
                }
            }
            b',' => {
                self.end_word();
                self.statement.push(b',');
            }
            b'>' => self.redirection(),
            b'=' if self.assigns() => self.assignment(),
            b'.' if !self.active
                && self.command.words.is_empty()
                && self.peek(0).is_none_or(|b| b == b' ') =>
            {
                self.called = true;
            }
            b'+' if self.joins() => {}
            _ => self.push(byte),
        }
    }

    fn line_end(&self) -> usize {
        windows::line_end(self.text, self.pos)
    }

    fn newline(&mut self) {
        self.end_word();
        // A pipeline goes on after `|`.
        if self.command.words.is_empty() && !self.pipeline.elements.is_empty() {
            return;
        }
        self.end_line();
        if self.frames.is_empty() {
            self.end_statement();
        } else {
            self.mark(b';');
        }
    }

    fn redirection(&mut self) {
        if self.active && windows::is_handle(&self.word) {
            self.word.clear();
            self.active = false;
        } else {
            self.end_word();
        }
        if let Redirection::Handle = windows::redirection(self.text, &mut self.pos) {
            return;
        }
        self.redirect = true;
    }
}

/// Words that begin a construct and are followed by a command or an expression.
fn is_keyword(word: &Word<'_>) -> bool {
    let mut lower = [0; 7];
    let Some(lower) = lower.get_mut(..word.text.len()) else { return false };
    lower.copy_from_slice(&word.text);
    lower.make_ascii_lowercase();
    word.flags & QUOTED == 0
        && matches!(
            &*lower,
            b"if"
                | b"else"
                | b"elseif"
                | b"while"
                | b"do"
                | b"until"
                | b"try"
                | b"catch"
                | b"finally"
                | b"return"
                | b"process"
                | b"begin"
                | b"end"
                | b"throw"
                | b"&"
        )
}

/// Variables are kept apart from those of other languages.
fn key(name: &[u8]) -> Vec<u8> {
    let mut key = b"$".to_vec();
    let name = name.rsplit(|&byte| byte == b':').next().unwrap_or(name);
    key.extend_from_slice(name);
    key
}

fn text_key(name: &[u8]) -> Vec<u8> {
    let mut key = key(name);
    key.push(b'=');
    key
}
