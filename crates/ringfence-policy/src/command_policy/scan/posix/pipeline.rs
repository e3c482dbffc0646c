//! Commands that are piped into each other, in all three languages.

use std::rc::Rc;

use crate::command_policy::run::Command;
use crate::command_policy::state::Upstream;
use crate::command_policy::word::Word;

/// One element of a pipeline.
#[derive(Debug)]
pub(in crate::command_policy) enum Element<'a> {
    Command(Command<'a>),
    /// A group that has been read already, with what it writes.
    Group(Upstream),
}

#[derive(Debug, Default)]
pub(in crate::command_policy) struct Pipeline<'a> {
    pub(in crate::command_policy) elements: Vec<Element<'a>>,
    pub(in crate::command_policy) stdin: Rc<Upstream>,
    /// Whether somebody gets what the last element writes.
    pub(in crate::command_policy) wanted: bool,
    /// Storage of commands that have run.
    spare: Vec<Vec<Word<'a>>>,
}

/// Commands whose storage is kept.
const SPARE: usize = 8;

impl<'a> Pipeline<'a> {
    /// A new one, whose output somebody gets.
    pub(in crate::command_policy) fn new(stdin: Rc<Upstream>) -> Self {
        Self { elements: Vec::new(), stdin, wanted: true, spare: Vec::new() }
    }

    /// Begins a new one that gets the same standard input, and hands over the old one.
    pub(in crate::command_policy) fn begin(&mut self) -> Pipeline<'a> {
        let stdin = Rc::clone(&self.stdin);
        std::mem::replace(self, Self::new(stdin))
    }

    /// Takes a command that has been read; the next one gets the storage of one that has run.
    pub(in crate::command_policy) fn take(&mut self, command: &mut Command<'a>) -> Command<'a> {
        let words = self.spare.pop().unwrap_or_default();
        std::mem::replace(command, Command { words, ..Command::default() })
    }

    /// Keeps the storage of a command that has run.
    pub(in crate::command_policy) fn recycle(&mut self, command: Command<'a>) {
        let mut words = command.words;
        if self.spare.len() < SPARE {
            words.clear();
            self.spare.push(words);
        }
    }
}
