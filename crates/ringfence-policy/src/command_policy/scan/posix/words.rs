//! Where a word belongs, and what the end of a command, a pipeline and a line brings about.

use std::borrow::Cow;
use std::rc::Rc;

use super::{Command, Element, Frame, Keyword, Posix, Redirect, append, without_tabs};
use crate::command_policy::posix_names::{assignment, executed_variable};
use crate::command_policy::run::{Stdin, run_pipeline};
use crate::command_policy::scan::expand::without_continuations;
use crate::command_policy::scan::heredoc::{Pending, body};
use crate::command_policy::state::{Code, LIST_LIMIT};
use crate::command_policy::word::{DOWNLOADED, QUOTED, Word};

impl<'a, 's> Posix<'a, 's> {
    /// The value of an expansion: between double quotes as it is, else split at blanks.
    pub(in crate::command_policy::scan) fn push_value(&mut self, value: &[u8]) {
        // The text may have said what separates words.
        let own = self.scan.variables.get(&b"IFS"[..]).and_then(|values| values.first()).cloned();
        let separates = |byte: &u8| match &own {
            Some(own) => own.contains(byte),
            None => byte.is_ascii_whitespace(),
        };
        if self.word.in_double() || !value.iter().any(separates) {
            self.word.fold_with(value);
            return;
        }
        for (at, part) in value.split(separates).enumerate() {
            if at > 0 {
                self.break_word();
            }
            if !part.is_empty() {
                self.word.fold_with(part);
            }
        }
    }

    /// Ends the word as a blank in the value of an expansion does.
    pub(in crate::command_policy::scan) fn break_word(&mut self) {
        self.end_word();
    }

    pub(super) fn at_command_start(&self) -> bool {
        self.state.command.words.is_empty() && self.state.redirect.is_none()
    }

    /// Ends the word, if there is one, and gives it its place.
    pub(in crate::command_policy::scan) fn end_word(&mut self) {
        if !self.word.is_active() {
            return;
        }
        if let Some(word) = self.word.take_plain(self.text, self.pos) {
            self.place_word(word);
            return;
        }
        let word = std::mem::take(&mut self.word);
        let process = word.process.clone();
        if word.has_braces() {
            for expanded in word.expand(self.text, self.pos) {
                self.place_word(expanded);
            }
            return;
        }
        let Some(word) = word.finish(self.text, self.pos) else { return };
        if let Some(text) = process {
            if self.state.redirect == Some(Redirect::Read) {
                self.state.command.stdin = Stdin::Text(Cow::Owned(text.clone()));
            }
            self.state.command.process.push(text);
        }
        self.place_word(word);
    }

    pub(super) fn place_word(&mut self, word: Word<'a>) {
        if let Some(redirect) = self.state.redirect.take() {
            self.place_target(redirect, word);
            return;
        }
        if self.in_pattern() && self.state.keyword == Keyword::None {
            if word.is("esac") && !word.has(QUOTED) {
                self.frames.pop();
                self.close_compound();
            }
            return;
        }
        match self.state.keyword {
            Keyword::Case => {
                self.state.keyword = Keyword::CaseIn;
                return;
            }
            Keyword::CaseIn => {
                if word.is("in") {
                    self.state.keyword = Keyword::None;
                    self.frames.push(Frame::Case { pattern: true });
                }
                return;
            }
            Keyword::Function => {
                self.state.keyword = Keyword::None;
                self.pending_function = Some(word.text.into_owned());
                // `function name ( )`
                let rest = self.text[self.pos..].trim_ascii_start();
                if let Some(after) = rest.strip_prefix(b"(")
                    && let Some(after) = after.trim_ascii_start().strip_prefix(b")")
                {
                    self.pos = self.text.len() - after.len();
                }
                return;
            }
            Keyword::Test if word.is("]]") => {
                self.state.keyword = Keyword::None;
                self.state.command = Command::default();
                return;
            }
            Keyword::None | Keyword::For | Keyword::Test => {}
        }
        if self.state.command.words.is_empty() && self.state.keyword == Keyword::None {
            if let Some(name) = self.pending_function.take() {
                self.compound_function(name, &word);
            }
            if self.reserved(&word) || self.assignment(&word) {
                return;
            }
        }
        self.state.command.words.push(word);
    }

    /// Whether the word is reserved, and what follows from that.
    pub(super) fn reserved(&mut self, word: &Word<'a>) -> bool {
        if word.has(QUOTED) || word.text.len() > 8 {
            return false;
        }
        match &*word.text {
            // An option of `time`; no command is called like that.
            b"-p" => true,
            b"if" | b"while" | b"until" => {
                self.open_compound();
                true
            }
            b"then" | b"elif" | b"else" | b"!" | b"time" | b"coproc" => true,
            b"do" => {
                self.loops += 1;
                true
            }
            b"done" => {
                self.loops = self.loops.saturating_sub(1);
                self.close_compound();
                true
            }
            b"fi" => {
                self.close_compound();
                true
            }
            b"esac" => {
                self.close_compound();
                if matches!(self.frames.last(), Some(Frame::Case { .. })) {
                    self.frames.pop();
                }
                true
            }
            b"case" => {
                self.open_compound();
                self.state.keyword = Keyword::Case;
                true
            }
            b"for" | b"select" => {
                self.open_compound();
                self.state.keyword = Keyword::For;
                true
            }
            b"function" => {
                self.state.keyword = Keyword::Function;
                true
            }
            b"[[" => {
                self.state.keyword = Keyword::Test;
                true
            }
            _ => false,
        }
    }

    pub(super) fn assignment(&mut self, word: &Word<'a>) -> bool {
        let Some((name, value)) = assignment(&word.text) else { return false };
        self.scan.set_variable(name, vec![value.to_vec()]);
        if let Some(kind) = executed_variable(name) {
            self.scan.enqueue_alone(value.to_vec(), kind, self.place);
        }
        if word.has(DOWNLOADED) {
            self.scan.downloaded.push(name.to_vec());
        }
        true
    }

    pub(super) fn place_target(&mut self, redirect: Redirect, word: Word<'a>) {
        match redirect {
            Redirect::Read => self.state.command.reads.push(word),
            Redirect::Write => self.state.command.writes.push(word),
            Redirect::Both => {
                self.state.command.reads.push(word.clone());
                self.state.command.writes.push(word);
            }
            Redirect::HereString => {
                self.state.command.stdin = Stdin::Text(word.text);
            }
            Redirect::Heredoc { tabs } => {
                let id = self.scan.heredoc_id();
                self.state.command.stdin = Stdin::Heredoc(id);
                let quoted = word.has(QUOTED);
                self.waiting.heredocs.push(Pending { delimiter: word.text.into_owned(), tabs, quoted, id });
            }
        }
    }

    /// Ends the command, its pipeline, and what a newline or `;` ends.
    pub(super) fn end_line(&mut self) {
        self.end_word();
        self.end_command(false);
        self.end_pipeline();
    }

    pub(super) fn end_command(&mut self, background: bool) {
        self.end_word();
        self.after_bar = false;
        self.state.redirect = None;
        let keyword = std::mem::take(&mut self.state.keyword);
        match keyword {
            Keyword::For => {
                self.bind_loop();
                return;
            }
            // `a && b` inside of a test.
            Keyword::Test => {
                self.state.keyword = Keyword::Test;
                self.state.command.words.clear();
                return;
            }
            _ => {}
        }
        if self.state.command.is_empty() {
            if background {
                self.in_background();
            }
            return;
        }
        let command = self.state.pipeline.take(&mut self.state.command);
        self.self_call(&command);
        self.state.pipeline.elements.push(Element::Command(command));
        if background {
            self.in_background();
        }
    }

    /// `for x in a b`: the variable has each of the values.
    pub(super) fn bind_loop(&mut self) {
        let words = std::mem::take(&mut self.state.command).words;
        let mut words = words.into_iter();
        let Some(name) = words.next() else { return };
        let values: Vec<_> = words.skip(1).take(LIST_LIMIT).map(|word| word.text.into_owned()).collect();
        if !values.is_empty() {
            self.scan.set_variable(&name.text, values);
        }
    }

    pub(super) fn end_pipeline(&mut self) {
        for function in self.functions.iter_mut().rev().take(8) {
            function.in_pipeline = 0;
        }
        self.scan.self_runs = 0;
        if self.state.pipeline.elements.is_empty() {
            return;
        }
        let pipeline = &mut self.state.pipeline;
        // The script's own output goes where nothing reads it.
        pipeline.wanted = !self.frames.is_empty();
        if self.waiting.heredocs.is_empty() {
            let written = run_pipeline(self.scan, pipeline, self.place, self.positional);
            append(&mut self.state.output, written);
        } else {
            self.waiting.pipelines.push(pipeline.begin());
            self.state.output.output = None;
        }
    }

    /// At the end of a line the bodies of its here-documents follow.
    pub(super) fn read_heredocs(&mut self) {
        if self.waiting.heredocs.is_empty() {
            return;
        }
        for pending in std::mem::take(&mut self.waiting.heredocs) {
            let (start, end, next) = body(self.text, self.pos, &pending);
            let text = &self.text[start..end];
            self.pos = next;
            if !pending.quoted && memchr::memchr2(b'$', b'`', text).is_some() {
                self.scan.enqueue(
                    without_continuations(text).into_owned(),
                    Code::Expanded,
                    self.place,
                    Rc::clone(self.positional),
                    Rc::default(),
                );
            }
            let text = if pending.tabs { Cow::Owned(without_tabs(text)) } else { Cow::Borrowed(text) };
            self.scan.set_heredoc(pending.id, &text);
        }
        for mut pipeline in std::mem::take(&mut self.waiting.pipelines) {
            let written = run_pipeline(self.scan, &mut pipeline, self.place, self.positional);
            append(&mut self.state.output, written);
        }
        self.scan.drop_heredocs();
    }
}
