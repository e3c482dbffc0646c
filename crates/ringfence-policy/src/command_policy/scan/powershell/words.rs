//! Words, commands, blocks and statements.

use super::{Command, Element, Frame, PowerShell, VALUE_LIMIT, cmdlet, is_keyword, key, only_text, text_key};
use crate::command_policy::run::listing;
use crate::command_policy::scan::windows;
use crate::command_policy::state::{LIST_LIMIT, Upstream};
use crate::command_policy::word::{QUOTED, UNKNOWN, Word, program};

/// Most levels of parentheses and blocks whose ends are told apart.
const DEPTH_LIMIT: usize = 1000;

impl<'a> PowerShell<'a, '_> {
    /// Punctuation in the statement's text.
    pub(super) fn mark(&mut self, byte: u8) {
        self.statement.push(b' ');
        self.statement.push(byte);
        self.blank = true;
    }

    pub(super) fn open_paren(&mut self) {
        // A cmdlet's name ends here, a method's goes on.
        let glued = self.active
            && !self.string
            && self.command.words.is_empty()
            && !self.word.contains(&b'.')
            && !self.word.contains(&b'$')
            && !self.word.contains(&b']')
            && self.flags & QUOTED == 0;
        if glued {
            self.end_word();
            self.blank = true;
        } else if self.active && !self.string {
            self.say_word();
        }
        self.statement.push(b'(');
        self.blank = false;
        if self.frames.len() >= DEPTH_LIMIT {
            self.string = false;
            self.end_line();
            self.scan.not_scanned(self.place);
            return;
        }
        let frame = Frame::Paren {
            called: std::mem::take(&mut self.called),
            command: std::mem::take(&mut self.command),
            pipeline: self.pipeline.begin(),
            word: std::mem::take(&mut self.word),
            said: std::mem::take(&mut self.said),
            active: std::mem::take(&mut self.active),
            flags: std::mem::take(&mut self.flags),
            string: std::mem::take(&mut self.string),
        };
        self.frames.push(frame);
    }

    pub(super) fn close_paren(&mut self) {
        while matches!(self.frames.last(), Some(Frame::Block { .. })) {
            self.close();
        }
        if self.frames.is_empty() {
            self.end_line();
        } else {
            self.close();
        }
    }

    pub(super) fn open_block(&mut self) {
        self.end_word();
        self.mark(b'{');
        if self.frames.len() >= DEPTH_LIMIT {
            self.end_line();
            self.scan.not_scanned(self.place);
            return;
        }
        self.bind_item();
        let command = std::mem::take(&mut self.command);
        let pipeline = self.pipeline.begin();
        self.frames.push(Frame::Block { command, pipeline });
    }

    /// `list | ForEach-Object { $_ }`: the variable is what the list names.
    fn bind_item(&mut self) {
        let each = self
            .command
            .words
            .first()
            .is_some_and(|word| cmdlet(&program(&word.text.to_ascii_lowercase())) == b"foreach-object");
        if !each {
            return;
        }
        let names = match self.pipeline.elements.last() {
            Some(Element::Command(command)) => listing(&command.words),
            Some(Element::Group(written)) => written.names.clone(),
            None => return,
        };
        if let Some(name) = names.into_iter().next() {
            self.scan.set_variable(&key(b"_"), vec![name.clone()]);
            self.scan.set_variable(&key(b"psitem"), vec![name]);
        }
    }

    pub(super) fn close_block(&mut self) {
        while matches!(self.frames.last(), Some(Frame::Paren { .. })) {
            self.close();
        }
        if !self.frames.is_empty() {
            self.close();
        }
    }

    pub(super) fn close(&mut self) {
        match self.frames.pop() {
            None => {}
            Some(Frame::Block { command, pipeline }) => {
                self.end_line();
                self.mark(b'}');
                self.command = command;
                self.pipeline = pipeline;
                // A block by itself ends its statement.
                if !self.command.is_empty() {
                    self.command.words.push(Word::borrowed(b"{}"));
                }
            }
            Some(Frame::Paren { called, command, pipeline, word, said, active, flags, string }) => {
                self.end_word();
                let value = self.single_value();
                self.end_line();
                self.statement.push(b')');
                self.blank = false;
                self.command = command;
                self.pipeline = pipeline;
                self.word = word;
                self.said = said;
                self.active = active;
                self.flags = flags;
                self.string = string;
                self.called = called;
                match value {
                    Some(value) => {
                        self.active = true;
                        self.flags |= QUOTED;
                        self.word.extend_from_slice(&value);
                        if value.len() > VALUE_LIMIT {
                            self.said = self.word.len();
                        }
                    }
                    None if self.active || !self.command.words.is_empty() => self.push(UNKNOWN),
                    None => self.active = true,
                }
            }
        }
    }

    /// The value of an expression that consists of strings alone, joined by `+`.
    pub(super) fn single_value(&self) -> Option<Vec<u8>> {
        if !self.pipeline.elements.is_empty() || self.command.words.is_empty() {
            return None;
        }
        // `(Get-Command name)`
        if let [first, second] = &*self.command.words
            && cmdlet(&program(&first.text)) == b"get-command"
        {
            return Some(second.text.to_vec());
        }
        let mut out = Vec::new();
        for word in &self.command.words {
            if word.is("+") {
                continue;
            }
            if !word.has(QUOTED)
                && !word.text.contains(&b'\\')
                && !word.text.ends_with(b":")
                && *word.text != *b"~"
            {
                return None;
            }
            out.extend_from_slice(&word.text);
        }
        Some(out)
    }

    /// Adds the word to the statement's text.
    pub(super) fn say_word(&mut self) {
        let hidden = self.command.words.first().is_some_and(|first| {
            let name = program(&first.text);
            only_text(&name) && !self.redirect
        });
        if self.blank && !self.statement.is_empty() {
            self.statement.push(b' ');
        }
        self.blank = false;
        if hidden {
            return;
        }
        let first = self.command.words.is_empty() && self.flags & QUOTED == 0 && self.said == 0;
        let quoted = self.flags & QUOTED != 0;
        if quoted {
            self.statement.push(b'\'');
        }
        if first {
            let name = program(&self.word);
            self.statement.extend_from_slice(if self.word.contains(&b'.') {
                &self.word
            } else {
                cmdlet(&name)
            });
        } else {
            self.statement.extend_from_slice(self.word.get(self.said..).unwrap_or_default());
        }
        self.said = self.word.len();
        if quoted {
            self.statement.push(b'\'');
        }
    }

    pub(super) fn end_word(&mut self) {
        if !self.active {
            return;
        }
        self.say_word();
        self.said = 0;
        self.active = false;
        let flags = std::mem::take(&mut self.flags);
        if self.word.is_empty() && flags & QUOTED == 0 {
            return;
        }
        let word = Word { text: windows::word(self.text, self.start, &mut self.word), flags };
        if std::mem::take(&mut self.redirect) {
            self.command.writes.push(word);
        } else if flags & QUOTED == 0 && word.is("--%") {
            // The rest of the line goes to the program as it is.
        } else if self.command.words.is_empty() && is_keyword(&word) {
            self.blank = true;
        } else {
            self.command.words.push(word);
        }
    }

    pub(super) fn end_command(&mut self) {
        self.redirect = false;
        if self.command.is_empty() {
            return;
        }
        let command = self.pipeline.take(&mut self.command);
        self.downloaded(&command);
        let called = std::mem::take(&mut self.called);
        if !called && command.words[..].first().is_some_and(|word| word.has(QUOTED)) {
            // An expression: it runs nothing, its value goes on through the pipeline.
            self.assign_value(&command);
            let lines: Vec<&[u8]> = command.words.iter().map(|word| &*word.text).collect();
            let output = lines.join(&b'\n');
            let names =
                command.words.into_iter().map(|word| word.text.into_owned()).take(LIST_LIMIT).collect();
            self.pipeline.elements.push(Element::Group(Upstream {
                output: Some(output),
                names,
                ..Upstream::default()
            }));
            return;
        }
        self.assign_value(&command);
        self.pipeline.elements.push(Element::Command(command));
    }

    /// `$name = value`
    fn assign_value(&mut self, command: &Command<'a>) {
        if let Some((name, _)) = &self.assigned
            && self.frames.is_empty()
            && let [word] = &*command.words
        {
            self.scan.set_variable(&key(name), vec![word.text.to_vec()]);
        }
    }

    /// Whether a file that was fetched before is run.
    pub(super) fn downloaded(&mut self, command: &Command<'a>) {
        if !self.scan.has_fetched() {
            return;
        }
        let matches = |word: &Word<'_>| self.scan.is_downloaded(&word.text);
        let Some(first) = command.words.first() else { return };
        let name = program(&first.text);
        let runs = matches(first)
            || matches!(
                &*name,
                b"powershell"
                    | b"pwsh"
                    | b"start-process"
                    | b"saps"
                    | b"start"
                    | b"invoke-item"
                    | b"ii"
                    | b"cmd"
                    | b"msiexec"
                    | b"rundll32"
            ) && command.words[1..].iter().any(matches);
        if runs {
            self.scan.event("@download-then-run", &[], self.place);
        }
    }

    pub(super) fn end_line(&mut self) {
        self.end_word();
        self.end_command();
        windows::run(self.scan, &mut self.pipeline, self.place);
    }

    pub(super) fn end_statement(&mut self) {
        self.end_line();
        let mut statement = std::mem::take(&mut self.statement);
        statement.make_ascii_lowercase();
        self.blank = false;
        if let Some((name, start)) = self.assigned.take() {
            let text = statement.get(start..).unwrap_or_default();
            let text = text[..text.len().min(VALUE_LIMIT)].to_vec();
            self.scan.set_variable(&text_key(&name), vec![text]);
        }
        if statement.len() > 3 {
            self.scan.event("@statement", &[Word::borrowed(&statement)], self.place);
        }
        statement.clear();
        self.statement = statement;
    }
}
