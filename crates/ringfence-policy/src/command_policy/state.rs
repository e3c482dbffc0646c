//! What one evaluation keeps: texts still to be read, what is known of variables, and what matched.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

pub(super) use super::definitions::{Called, Definitions};
use super::path;
use super::rules::{self, Condition, Kind, PROGRAMS, Program, RULES, Rule, Shell};
use super::verdict::View;
use super::word::{LITERAL_TILDE, UNKNOWN, Word};

/// Most bytes of nested text that one evaluation reads, all levels together, and what each costs apart from its bytes.
const NESTED_LIMIT: usize = 2 << 20;
const NESTED_COST: usize = 160;
/// Deepest level of nested text.
const DEPTH_LIMIT: u16 = 512;
/// Deepest call of one program by another in one argument vector.
const CALL_LIMIT: u16 = 64;
/// Most commands that are looked at in full; an ordinary text of the greatest size has a third of it.
const COMMAND_LIMIT: usize = 1 << 15;
/// Most words that programs hand to each other, all calls together.
const WORD_LIMIT: usize = 1 << 18;
/// Most values of a list: parameters, loops, and what `xargs` gets.
pub(super) const LIST_LIMIT: usize = 4096;
/// Most bytes that values of variables may add.
const EXPANSION_LIMIT: usize = 1 << 20;
/// Longest value of a variable, and most variables, that are kept.
const VALUE_LIMIT: usize = 4096;
const VARIABLES_LIMIT: usize = 256;

/// Values of variables; each is a list, which most often has one element.
pub(super) type Variables = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

/// What is known of the standard input that a command gets.
#[derive(Clone, Debug, Default)]
pub(super) struct Upstream {
    /// The text itself.
    pub(super) output: Option<Vec<u8>>,
    /// Whether it comes from the network.
    pub(super) downloads: bool,
    /// Whether the caller's own standard input, which can't be looked at, is read.
    pub(super) unseen: bool,
    /// Names of files that are listed in it.
    pub(super) names: Vec<Vec<u8>>,
    /// Whether a shell that reads its commands from somewhere writes it.
    pub(super) shell: bool,
}

impl Upstream {
    /// Whether nothing is known of it.
    pub(super) fn is_nothing(&self) -> bool {
        self.output.is_none() && !self.downloads && !self.unseen && self.names.is_empty() && !self.shell
    }
}

/// A text to be read.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) text: Vec<u8>,
    pub(super) kind: Code,
    pub(super) place: Place,
    pub(super) positional: Rc<Vec<Vec<u8>>>,
    pub(super) variables: Rc<Variables>,
    pub(super) cwd: Option<Vec<u8>>,
    pub(super) stdin: Rc<Upstream>,
}

/// How a text is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    Script(Shell),
    /// Only substitutions of a POSIX shell are run, as in a here-document.
    Expanded,
    /// A program in Python, Perl, Ruby, JavaScript, PHP, Lua or awk.
    Foreign,
}

/// Where a command stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) shell: Shell,
    pub(super) view: View,
    pub(super) depth: u16,
}

/// A command line as the rules see it, for `check --explain`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewLine {
    /// Where it was found.
    pub view: View,
    /// Program and arguments after normalisation, one line.
    pub text: Vec<u8>,
    /// Rules that matched here.
    pub rules: Vec<&'static str>,
}

/// Names of custom rules are looked for in these.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) wanted: bool,
    pub(super) lines: Vec<ViewLine>,
}

#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) found: Vec<(&'static Rule, View)>,
    pub(super) queue: VecDeque<Job>,
    /// Standard input that nothing is known of, and parameters of which there are none.
    pub(super) nothing: Rc<Upstream>,
    pub(super) no_parameters: Rc<Vec<Vec<u8>>>,
    pub(super) variables: Rc<Variables>,
    pub(super) cwd: Option<Vec<u8>>,
    pub(super) lines: Lines,
    /// Positional parameters that the text itself has set.
    pub(super) parameters: Option<Rc<Vec<Vec<u8>>>>,
    /// Functions and aliases that the text defines.
    pub(super) definitions: Definitions,
    /// Variables whose value comes from the network.
    pub(super) downloaded: Vec<Vec<u8>>,
    /// Background runs of the script by itself in the current pipeline.
    pub(super) self_runs: u32,
    /// Names of files that were fetched.
    fetched: Vec<Vec<u8>>,
    heredocs: BTreeMap<u32, Vec<u8>>,
    next_heredoc: u32,
    nested: usize,
    calls: u16,
    words: usize,
    skimmed: usize,
    commands: usize,
    expanded: usize,
    truncated: bool,
    /// Values of variables were given up.
    pub(super) forgot: bool,
}

impl Scan {
    pub(super) fn new(wanted: bool) -> Self {
        Self { lines: Lines { wanted, lines: Vec::new() }, ..Self::default() }
    }

    /// Reads a text later, unless too much has been read already.
    pub(super) fn enqueue(
        &mut self,
        text: Vec<u8>,
        kind: Code,
        place: Place,
        positional: Rc<Vec<Vec<u8>>>,
        stdin: Rc<Upstream>,
    ) {
        let view = if place.view == View::Decoded { View::Decoded } else { View::Nested };
        self.push(Job {
            text,
            kind,
            place: Place { view, ..place },
            positional,
            variables: Rc::default(),
            cwd: None,
            stdin,
        });
    }

    /// Reads later a text that gets neither parameters nor standard input.
    pub(super) fn enqueue_alone(&mut self, text: Vec<u8>, kind: Code, place: Place) {
        self.enqueue(text, kind, place, Rc::default(), Rc::default());
    }

    /// Reads later what comes on a program's standard input.
    pub(super) fn enqueue_stdin(&mut self, text: Vec<u8>, kind: Code, place: Place) {
        let view = if place.view == View::Argv { View::Stdin } else { place.view };
        self.push(Job {
            text,
            kind,
            place: Place { view, ..place },
            positional: Rc::default(),
            variables: Rc::default(),
            cwd: None,
            stdin: Rc::default(),
        });
    }

    /// Reads later what a variable of the environment holds.
    pub(super) fn enqueue_env(&mut self, text: Vec<u8>, kind: Code, place: Place) {
        self.enqueue_stdin(text, kind, place);
    }

    fn push(&mut self, job: Job) {
        let Job { text, kind, place, .. } = &job;
        let (kind, place) = (*kind, *place);
        if text.is_empty() {
            return;
        }
        let size = text.len() + NESTED_COST + job.positional.iter().map(|word| word.len() + 8).sum::<usize>();
        if place.depth >= DEPTH_LIMIT {
            // Nobody writes that; what is inside can't be seen.
            self.truncated = true;
            self.event("@too-deep", &[], place);
            return;
        }
        if self.nested + size > NESTED_LIMIT {
            self.not_scanned(place);
            return;
        }
        self.nested += size;
        let shell = match kind {
            Code::Script(shell) => shell,
            Code::Expanded | Code::Foreign => Shell::Posix,
        };
        let place = Place { shell, depth: place.depth + 1, ..place };
        let (variables, cwd) = (Rc::clone(&self.variables), self.cwd.clone());
        self.queue.push_back(Job { place, variables, cwd, ..job });
    }

    /// Counts a command. Where it returns false there have been too many: further ones are only skimmed.
    pub(super) fn count_command(&mut self) -> bool {
        self.commands += 1;
        self.commands <= COMMAND_LIMIT
    }

    /// Counts a call of one program by another. Where it returns false, nothing further may be called.
    pub(super) fn enter(&mut self, words: usize) -> bool {
        if self.calls > 0 {
            self.words += words;
        }
        if self.calls >= CALL_LIMIT || self.words > WORD_LIMIT {
            return false;
        }
        self.calls += 1;
        true
    }

    /// The end of a call that [`Scan::enter`] has allowed.
    pub(super) fn leave(&mut self) {
        self.calls -= 1;
    }

    /// Whether another word may be taken for a command that can't be reached otherwise.
    pub(super) fn may_skim(&mut self) -> bool {
        self.skimmed += 1;
        self.skimmed <= WORD_LIMIT
    }

    /// A file that a command has fetched.
    pub(super) fn remember_download(&mut self, path: &[u8]) {
        let name = file_name(path);
        if self.fetched.len() < 64 && !name.is_empty() {
            self.fetched.push(name);
        }
    }

    /// Whether any file has been fetched.
    pub(super) fn has_fetched(&self) -> bool {
        !self.fetched.is_empty()
    }

    pub(super) fn is_downloaded(&self, path: &[u8]) -> bool {
        self.has_fetched() && self.fetched.contains(&file_name(path))
    }

    /// Accounts for values that are put in. A text whose variables hold each other grows without bound.
    pub(super) fn may_expand(&mut self, size: usize, place: Place) -> bool {
        if self.expanded > EXPANSION_LIMIT {
            return false;
        }
        self.expanded += size;
        if self.expanded > EXPANSION_LIMIT {
            self.not_scanned(place);
            return false;
        }
        true
    }

    /// A part of the text could not be taken into account as a whole.
    pub(super) fn not_scanned(&mut self, place: Place) {
        if !self.truncated {
            self.truncated = true;
            self.event("@not-scanned", &[], place);
        }
    }

    pub(super) fn heredoc_id(&mut self) -> u32 {
        self.next_heredoc += 1;
        self.next_heredoc
    }

    pub(super) fn set_heredoc(&mut self, id: u32, text: &[u8]) {
        self.heredocs.insert(id, text.to_vec());
    }

    pub(super) fn heredoc(&self, id: u32) -> Option<&[u8]> {
        self.heredocs.get(&id).map(Vec::as_slice)
    }

    pub(super) fn drop_heredocs(&mut self) {
        self.heredocs.clear();
    }

    /// Whether a part of the text was not read.
    pub(super) fn truncated(&self) -> bool {
        self.truncated
    }

    pub(super) fn set_variable(&mut self, name: &[u8], value: Vec<Vec<u8>>) {
        if self.variables.len() >= VARIABLES_LIMIT && !self.variables.contains_key(name) {
            return;
        }
        if Rc::strong_count(&self.variables) > 1 {
            // A text that is read later keeps the values that it has seen.
            let size = |(name, values): (&Vec<u8>, &Vec<Vec<u8>>)| {
                name.len() + values.iter().map(|value| value.len() + 32).sum::<usize>()
            };
            self.nested += self.variables.iter().map(size).sum::<usize>();
            if self.nested > NESTED_LIMIT {
                self.variables = Rc::default();
                self.forgot = true;
            }
        }
        let fits = value.iter().map(Vec::len).sum::<usize>() <= VALUE_LIMIT && value.len() <= LIST_LIMIT;
        let variables = Rc::make_mut(&mut self.variables);
        if fits {
            variables.insert(name.to_vec(), value);
        } else {
            variables.remove(name);
        }
    }

    /// Reports what the normaliser itself has found.
    pub(super) fn event(&mut self, name: &'static str, args: &[Word<'_>], place: Place) {
        self.check(name.as_bytes(), args, place);
    }

    /// Asks the rules of a program about its arguments.
    pub(super) fn check(&mut self, name: &[u8], args: &[Word<'_>], place: Place) {
        self.check_known(PROGRAMS.lookup(name), name, args, place);
    }

    /// The same for a program that has been looked up.
    pub(super) fn check_known(&mut self, program: Program, name: &[u8], args: &[Word<'_>], place: Place) {
        let mut matched = Vec::new();
        let line = OnceCell::new();
        for &id in program.rules {
            let rule = &RULES[usize::from(id)];
            if rule.dialects.holds(place.shell) && self.holds(rule, args, &line) {
                matched.push(rule.name);
                if !self.found.iter().any(|(known, view)| known.name == rule.name && *view == place.view) {
                    self.found.push((rule, place.view));
                }
            }
        }
        if self.lines.wanted {
            self.lines.lines.push(ViewLine { view: place.view, text: one_line(name, args), rules: matched });
        }
    }

    fn holds<'w>(&self, rule: &Rule, args: &'w [Word<'_>], line: &OnceCell<Cow<'w, [u8]>>) -> bool {
        rule.all.iter().all(|condition| self.satisfied(condition, args, line))
            && !rule.none.iter().any(|condition| self.satisfied(condition, args, line))
    }

    fn satisfied<'w>(
        &self,
        condition: &Condition,
        args: &'w [Word<'_>],
        line: &OnceCell<Cow<'w, [u8]>>,
    ) -> bool {
        let (kind, pattern, except) = match condition {
            Condition::Param { name, least, value } => return parameter(args, name, *least, *value),
            Condition::Text { kind, pattern, except } => (*kind, *pattern, *except),
        };
        let hit = |text: &[u8]| {
            rules::matches(pattern, text) && !except.is_some_and(|except| rules::matches(except, text))
        };
        // Where the options end.
        let end = || args.iter().position(|word| word.is("--")).unwrap_or(args.len());
        match kind {
            Kind::Option => {
                args[..end()].iter().any(|word| {
                    word.text.len() > 1
                        && word.text[0] == b'-'
                        && match memchr::memchr(UNKNOWN, &word.text) {
                            None => hit(&word.text),
                            // What is not known may be empty.
                            Some(_) => hit(&word
                                .text
                                .iter()
                                .copied()
                                .filter(|&byte| byte != UNKNOWN)
                                .collect::<Vec<_>>()),
                        }
                })
            }
            Kind::Argument => args.iter().any(|word| hit(&word.text)),
            Kind::Last => operands(args, end())
                .last()
                .is_some_and(|word| hit(&path::unix(&word.text, self.cwd.as_deref()))),
            Kind::First => operands(args, end()).next().is_some_and(|word| hit(&word.text)),
            Kind::Path => operands(args, end()).any(|word| {
                if word.has(LITERAL_TILDE) && word.text.first() == Some(&b'~') {
                    return false;
                }
                hit(&path::unix(&word.text, self.cwd.as_deref()))
            }),
            Kind::WindowsPath => args
                .iter()
                .any(|word| path::windows(&word.text, self.cwd.as_deref()).is_some_and(|path| hit(&path))),
            Kind::Line => hit(line.get_or_init(|| match args {
                [one] => Cow::Borrowed(&*one.text),
                _ => Cow::Owned(super::word::joined(args)),
            })),
        }
    }
}

/// Arguments that are no options; all of them after `--`.
fn operands<'w, 'a>(args: &'w [Word<'a>], end: usize) -> impl Iterator<Item = &'w Word<'a>> {
    args.iter().enumerate().filter_map(move |(at, word)| {
        let option = at <= end && word.text.len() > 1 && word.text[0] == b'-';
        (!option).then_some(word)
    })
}

/// Whether a PowerShell parameter is given: a prefix of its name, with a value after `:` or in the next word.
fn parameter(args: &[Word<'_>], name: &str, least: usize, value: Option<usize>) -> bool {
    args.iter().enumerate().any(|(at, word)| {
        let Some(text) = word.text.strip_prefix(b"-") else { return false };
        let (own, given) = match text.iter().position(|&byte| byte == b':') {
            Some(colon) => (&text[..colon], Some(&text[colon + 1..])),
            None => (text, None),
        };
        let fits = own.len() >= least
            && own.len() <= name.len()
            && own.eq_ignore_ascii_case(&name.as_bytes()[..own.len()]);
        if !fits {
            return false;
        }
        let off = given.is_some_and(|given| {
            [&b"$false"[..], b"0", b"false"].iter().any(|no| given.eq_ignore_ascii_case(no))
        });
        match value {
            None => !off,
            Some(pattern) => {
                let next = args.get(at + 1).map(|word| &*word.text);
                given.or(next).is_some_and(|given| rules::matches(pattern, given))
            }
        }
    })
}

/// A command as one line; arguments that hold blanks are quoted.
fn one_line(name: &[u8], args: &[Word<'_>]) -> Vec<u8> {
    let mut out = name.to_vec();
    for word in args {
        out.push(b' ');
        let plain = !word.text.is_empty()
            && !word.text.iter().any(|byte| byte.is_ascii_whitespace() || matches!(byte, b'\'' | b'"'));
        if plain {
            out.extend_from_slice(&word.text);
        } else {
            out.push(b'\'');
            out.extend(word.text.iter().map(|&byte| if byte == b'\n' { b' ' } else { byte }));
            out.push(b'\'');
        }
    }
    out
}

/// A path's last name in lower case.
fn file_name(path: &[u8]) -> Vec<u8> {
    path.rsplit(|byte| matches!(byte, b'/' | b'\\')).next().unwrap_or_default().to_ascii_lowercase()
}
