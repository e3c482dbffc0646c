//! Parentheses, braces and substitutions, and functions that call themselves.

use std::rc::Rc;

use super::{Command, Element, Frame, Function, Keyword, Pipeline, Posix};
use crate::command_policy::rules::Shell;
use crate::command_policy::scan::builder::Builder;
use crate::command_policy::scan::expand;
use crate::command_policy::state::{Code, LIST_LIMIT, Upstream};
use crate::command_policy::word::{DOWNLOADED, UNKNOWN, Word};

/// Most levels of parentheses, braces and substitutions whose ends are told apart.
const DEPTH_LIMIT: usize = 1000;

impl<'a, 's> Posix<'a, 's> {
    pub(super) fn open_paren(&mut self) {
        if self.in_pattern() || self.state.keyword == Keyword::Test {
            self.end_word();
            self.pos += 1;
            return;
        }
        if let Some(name) = self.word.assigned_name(self.text, self.pos) {
            self.word = Builder::default();
            let state = std::mem::take(&mut self.state);
            self.frames.push(Frame::Array { state, name });
            self.pos += 1;
            return;
        }
        let before = self.pos;
        self.end_word();
        if self.pos != before {
            // `function name()` has been read to its end.
            return;
        }
        let rest = self.text[self.pos + 1..].trim_ascii_start();
        if rest.first() == Some(&b')') && self.state.command.words.len() == 1 {
            // name ( )
            self.pending_function = self.state.command.words.pop().map(|word| word.text.into_owned());
            self.pos = self.text.len() - rest.len() + 1;
            return;
        }
        if self.peek(1) == Some(b'(')
            && self.state.command.words.is_empty()
            && let Some(end) = expand::arithmetic_end(self, self.pos + 2)
        {
            // Two subshells look the same up to their ends.
            let inner = self.text[self.pos + 2..end - 2].to_vec();
            let positional = Rc::clone(self.positional);
            self.scan.enqueue(inner, Code::Script(Shell::Posix), self.place, positional, Rc::default());
            self.pos = end;
            return;
        }
        if !self.state.command.words.is_empty() {
            self.end_command(false);
            self.end_pipeline();
        }
        if self.too_deep() {
            self.pos += 1;
            return;
        }
        let function = self.begin_function();
        let inner = self.inner_stdin();
        let pipeline = std::mem::replace(&mut self.state.pipeline, inner);
        let output = std::mem::take(&mut self.state.output);
        let cwd = self.scan.cwd.clone();
        self.frames.push(Frame::Subshell { pipeline, output, cwd, function });
        self.pos += 1;
    }

    /// A group's commands get what is piped into the group.
    pub(super) fn inner_stdin(&self) -> Pipeline<'a> {
        let stdin = match self.state.pipeline.elements.last() {
            Some(Element::Group(upstream)) => Rc::new(upstream.clone()),
            Some(Element::Command(command)) => Rc::new(command.preview()),
            None => Rc::clone(&self.state.pipeline.stdin),
        };
        Pipeline::new(stdin)
    }

    pub(super) fn begin_function(&mut self) -> bool {
        let Some(name) = self.pending_function.take() else { return false };
        self.push_function(name, self.pos + 1, None);
        true
    }

    fn push_function(&mut self, name: Vec<u8>, start: usize, compound: Option<u32>) {
        let function = Function { name, start, in_pipeline: 0, in_background: 0, piped: false, compound };
        self.functions.push(function);
    }

    /// `name() if ...; fi`
    pub(super) fn compound_function(&mut self, name: Vec<u8>, first: &Word<'a>) {
        if matches!(&*first.text, b"if" | b"while" | b"until" | b"for" | b"select" | b"case") {
            self.push_function(name, self.pos.saturating_sub(first.text.len()), Some(0));
        }
    }

    /// `if`, `while` and their like inside of a function that is one itself.
    pub(super) fn open_compound(&mut self) {
        if let Some(Function { compound: Some(open), .. }) = self.functions.last_mut() {
            *open += 1;
        }
    }

    pub(super) fn close_compound(&mut self) {
        if let Some(Function { compound: Some(open), .. }) = self.functions.last_mut() {
            *open = open.saturating_sub(1);
            if *open == 0 {
                self.end_function(self.pos);
            }
        }
    }

    /// The body ends before `end`.
    pub(super) fn end_function(&mut self, end: usize) {
        let Some(Function { name, start, in_background, piped, .. }) = self.functions.pop() else { return };
        if piped || in_background >= 2 {
            self.scan.event("@fork-bomb", &[], self.place);
        }
        let end = end.max(start);
        self.scan.definitions.define(&name, self.text.get(start..end).unwrap_or_default(), false);
    }

    pub(super) fn close_paren(&mut self) {
        self.end_word();
        if self.state.keyword == Keyword::Test {
            self.pos += 1;
            return;
        }
        if let Some(Frame::Case { pattern }) = self.frames.last_mut()
            && *pattern
        {
            *pattern = false;
            self.state.command = Command::default();
            self.pos += 1;
            return;
        }
        self.pos += 1;
        if matches!(self.frames.last(), Some(Frame::Array { .. })) {
            self.close_frame();
            return;
        }
        self.end_line();
        while matches!(self.frames.last(), Some(Frame::Case { .. } | Frame::Group { .. })) {
            self.close_frame();
        }
        self.close_frame();
    }

    pub(super) fn close_frame(&mut self) {
        match self.frames.pop() {
            None | Some(Frame::Case { .. }) => {}
            Some(Frame::Subshell { pipeline, output, cwd, function }) => {
                self.scan.cwd = cwd;
                self.end_group(pipeline, output, function);
            }
            Some(Frame::Group { pipeline, output, function }) => self.end_group(pipeline, output, function),
            Some(Frame::Array { state, name }) => {
                let words = std::mem::replace(&mut self.state, state).command.words;
                let values = words.into_iter().take(LIST_LIMIT).map(|word| word.text.into_owned()).collect();
                self.scan.set_variable(&name, values);
            }
            Some(Frame::Substitution { state, word, process, cwd, waiting }) => {
                self.scan.cwd = cwd;
                // What it has left open comes at the end of the line around it.
                let inner = std::mem::replace(&mut self.waiting, waiting);
                self.waiting.heredocs.extend(inner.heredocs);
                self.waiting.pipelines.extend(inner.pipelines);
                let inner = std::mem::replace(&mut self.state, state);
                self.word = word;
                self.substituted(inner.output, process);
            }
        }
    }

    /// What a substitution has written becomes a part of the word.
    pub(super) fn substituted(&mut self, output: Upstream, process: bool) {
        if output.downloads {
            self.word.flags |= DOWNLOADED;
        }
        if process {
            let path = output.output.unwrap_or_default();
            self.word.fold_with(b"/dev/fd/63");
            self.word.process = Some(path);
            return;
        }
        match output.output {
            Some(text) => {
                let end = text.iter().rposition(|&byte| byte != b'\n').map_or(0, |at| at + 1);
                self.push_value(&text[..end]);
            }
            None => self.word.fold_with(&[UNKNOWN]),
        }
    }

    pub(super) fn end_group(&mut self, pipeline: Pipeline<'a>, output: Upstream, function: bool) {
        let written = std::mem::replace(&mut self.state.output, output);
        self.state.pipeline = pipeline;
        if function {
            self.end_function(self.pos.saturating_sub(1));
        } else {
            self.state.pipeline.elements.push(Element::Group(written));
        }
    }

    pub(super) fn brace(&mut self, byte: u8) {
        if byte == b'{' && !self.word.is_active() {
            let alone =
                self.pending_function.is_some() || self.peek(1).is_none_or(|next| next.is_ascii_whitespace());
            if alone && self.at_command_start() && self.too_deep() {
                self.pos += 1;
                return;
            }
            if alone && self.at_command_start() {
                let function = self.begin_function();
                let inner = self.inner_stdin();
                let pipeline = std::mem::replace(&mut self.state.pipeline, inner);
                let output = std::mem::take(&mut self.state.output);
                self.frames.push(Frame::Group { pipeline, output, function });
                self.pos += 1;
                return;
            }
        }
        if byte == b'}' && !self.word.is_active() && self.at_command_start() {
            self.pos += 1;
            self.end_line();
            while matches!(self.frames.last(), Some(Frame::Case { .. })) {
                self.frames.pop();
            }
            if matches!(self.frames.last(), Some(Frame::Group { .. })) {
                self.close_frame();
            }
            return;
        }
        self.word.brace(self.text, self.pos, byte);
        self.pos += 1;
    }

    /// Beyond some depth commands are still found, but what belongs to which level is not kept.
    fn too_deep(&mut self) -> bool {
        let deep = self.frames.len() >= DEPTH_LIMIT;
        if deep {
            self.scan.not_scanned(self.place);
        }
        deep
    }

    pub(in crate::command_policy::scan) fn open_substitution(&mut self, process: bool) {
        if self.too_deep() {
            self.word = Builder::default();
            self.end_line();
            return;
        }
        let word = std::mem::take(&mut self.word);
        let state = std::mem::take(&mut self.state);
        let cwd = self.scan.cwd.clone();
        let waiting = std::mem::take(&mut self.waiting);
        self.frames.push(Frame::Substitution { state, word, process, cwd, waiting });
    }

    /// Counts calls of a function in its own body.
    pub(super) fn self_call(&mut self, command: &Command<'a>) {
        // `command f` is `f`.
        let prefix = |word: &&Word<'_>| {
            word.text.starts_with(b"-")
                || matches!(
                    &*word.text,
                    b"command" | b"builtin" | b"exec" | b"eval" | b"nohup" | b"setsid" | b"time" | b"nice"
                )
        };
        let Some(first) = command.words.iter().find(|word| !prefix(word)) else { return };
        if let Some(function) = self.functions.iter_mut().rev().take(8).find(|f| *f.name == *first.text) {
            function.in_pipeline += 1;
            function.piped |= function.in_pipeline >= 2;
        }
        // while true; do "$0" & done
        if self.loops > 0 && command.runs_itself() {
            self.scan.self_runs += 1;
        }
    }

    pub(super) fn in_background(&mut self) {
        for function in self.functions.iter_mut().rev().take(8).filter(|f| f.in_pipeline > 0) {
            function.in_background += 1;
        }
        if std::mem::take(&mut self.scan.self_runs) > 0 {
            self.scan.event("@fork-bomb", &[], self.place);
        }
    }
}
