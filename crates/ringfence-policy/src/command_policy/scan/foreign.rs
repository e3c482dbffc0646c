//! Python, Perl, Ruby, JavaScript, PHP, Lua and awk, as far as they call a shell or another program.
//!
//! These languages are not parsed. A string counts if it is an argument of a call that runs commands; what only prints
//! it, compares it or writes it to a file does not count.

use std::rc::Rc;

use crate::command_policy::rules::Shell;
use crate::command_policy::run::{Around, run};
use crate::command_policy::state::{Code, Job, Scan};
use crate::command_policy::word::Word;

/// Functions whose string is for a shell, or whose strings are an argument vector.
const RUNS: [&[u8]; 36] = [
    b"system",
    b"exec",
    b"execSync",
    b"execFile",
    b"execFileSync",
    b"spawn",
    b"spawnSync",
    b"popen",
    b"popen2",
    b"popen3",
    b"Popen",
    b"run",
    b"call",
    b"check_call",
    b"check_output",
    b"getoutput",
    b"getstatusoutput",
    b"passthru",
    b"shell_exec",
    b"proc_open",
    b"pcntl_exec",
    b"execl",
    b"execlp",
    b"execle",
    b"execv",
    b"execvp",
    b"execve",
    b"spawnl",
    b"spawnv",
    b"spawnvp",
    b"capture2",
    b"capture3",
    b"execute",
    b"shelljs",
    // Erlang and Elixir
    b"cmd",
    // Perl and Ruby: `open("|command")`
    b"open",
];
/// Functions that delete a whole tree.
const DELETES: [&[u8]; 10] = [
    b"rmtree",
    b"rm_rf",
    b"rm_r",
    b"remove_dir_all",
    b"remove_tree",
    b"rmSync",
    b"rmdirSync",
    b"remove_entry_secure",
    b"removeSync",
    b"deltree",
];
/// Strings of one call that are looked at.
const STRINGS: usize = 32;

pub(in crate::command_policy) fn read(scan: &mut Scan, job: &Job, text: &[u8]) {
    let mut reader = Foreign { scan, job, text };
    reader.calls();
    if forks(text) {
        reader.scan.event("@fork-bomb", &[], job.place);
    }
    if connects_a_shell(text) {
        reader.scan.event("@reverse-shell", &[], job.place);
    }
}

/// An endless loop around fork(2), and nothing else.
fn forks(text: &[u8]) -> bool {
    let compact: Vec<u8> = text
        .iter()
        .take(256)
        .filter(|byte| !byte.is_ascii_whitespace())
        .map(u8::to_ascii_lowercase)
        .collect();
    let has = |part: &[u8]| memchr::memmem::find(&compact, part).is_some();
    has(b"forkwhilefork")
        || has(b"fork")
            && [
                &b"while1:os.fork"[..],
                b"whiletrue:os.fork",
                b"while(1){fork",
                b"while(true){fork",
                b"loop{fork",
                b"loopdofork",
                b"while1{fork",
                b"fork()while",
                b"while(1)fork",
                b"forkuntil",
                b"for(;;){fork",
            ]
            .iter()
            .any(|part| has(part))
}

/// A socket, a shell, and what makes the one the other's input and output.
fn connects_a_shell(text: &[u8]) -> bool {
    let has = |parts: &[&[u8]]| parts.iter().any(|part| memchr::memmem::find(text, part).is_some());
    has(&[b"ocket", b"SOCK_STREAM", b"fsockopen", b"net.connect", b"createConnection"])
        && has(&[
            b"/bin/sh",
            b"/bin/bash",
            b"/bin/zsh",
            b"'sh'",
            b"\"sh\"",
            b"'bash'",
            b"\"bash\"",
            b"sh -i",
            b"bash -i",
            b"cmd.exe",
        ])
        && has(&[
            b"dup2",
            b">&",
            b"<&",
            b"stdin.pipe",
            b"stdout.pipe",
            b"proc_open",
            b"pty.spawn",
            b"popen",
            b"stdin=",
        ])
}

/// How programs of other languages say where the user's home directory is.
fn names_home(text: &[u8]) -> bool {
    const NAMES: [&[u8]; 12] = [
        b"Path.home()",
        b"os.homedir()",
        b"homedir()",
        b"Dir.home",
        b"ENV['HOME']",
        b"ENV[\"HOME\"]",
        b"process.env.HOME",
        b"environ['HOME']",
        b"environ[\"HOME\"]",
        b"getenv('HOME')",
        b"getenv(\"HOME\")",
        b"$ENV{HOME}",
    ];
    NAMES.iter().any(|name| memchr::memmem::find(text, name).is_some())
}

struct Foreign<'s, 'j> {
    scan: &'s mut Scan,
    job: &'j Job,
    text: &'j [u8],
}

impl Foreign<'_, '_> {
    fn calls(&mut self) {
        let text = self.text;
        let mut at = 0;
        while at < text.len() {
            let byte = text[at];
            match byte {
                b'#' if at == 0 || text[at - 1].is_ascii_whitespace() => at = line_end(text, at),
                b'/' if text.get(at + 1) == Some(&b'/') => at = line_end(text, at),
                b'\'' | b'"' => at = self.literal(at),
                b'`' => {
                    // Perl, Ruby, PHP: a command. JavaScript: a string.
                    let (inner, end) = string(text, at);
                    if !self.looks_like_javascript() {
                        self.shell(inner);
                    }
                    at = end;
                }
                b'%' if text.get(at + 1) == Some(&b'x')
                    && text.get(at + 2).is_some_and(|b| b"({[".contains(b)) =>
                {
                    let close = match text[at + 2] {
                        b'(' => b')',
                        b'{' => b'}',
                        _ => b']',
                    };
                    let end = memchr::memchr(close, &text[at..]).map_or(text.len(), |found| at + found);
                    self.shell(text[at + 3..end.max(at + 3)].to_vec());
                    at = end + 1;
                }
                _ if byte.is_ascii_alphabetic() || byte == b'_' => {
                    let end = text[at..]
                        .iter()
                        .position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')
                        .map_or(text.len(), |length| at + length);
                    at = self.name(at, end);
                }
                _ => at += 1,
            }
        }
    }

    /// A string by itself. awk runs one at either end of a pipe, Groovy and Scala by a method of it.
    fn literal(&mut self, start: usize) -> usize {
        let text = self.text;
        let (inner, end) = string(text, start);
        let before = text[..start].trim_ascii_end();
        let after = text[end..].trim_ascii_start();
        let piped = before.ends_with(b"|") && !before.ends_with(b"||") || before.ends_with(b"|&");
        let read = after.strip_prefix(b"|&").or(after.strip_prefix(b"|"));
        if piped
            || read.is_some_and(|rest| rest.trim_ascii_start().starts_with(b"getline"))
            || [&b".execute("[..], b".!"].iter().any(|method| after.starts_with(method))
        {
            self.shell(inner);
        }
        end
    }

    fn looks_like_javascript(&self) -> bool {
        let head = &self.text[..self.text.len().min(4096)];
        [&b"require("[..], b"const ", b"let ", b"=>", b"console."]
            .iter()
            .any(|part| memchr::memmem::find(head, part).is_some())
    }

    /// A name: if it is a call that matters, its strings are read. Returns where to go on.
    fn name(&mut self, start: usize, end: usize) -> usize {
        let name = &self.text[start..end];
        let runs = RUNS.contains(&name) || name == b"qx" || name == b"shell";
        let deletes = DELETES.contains(&name) || name == b"rm" && self.text[..start].ends_with(b"fs.");
        if !runs && !deletes {
            return end;
        }
        let mut at = end;
        // `do shell script "..."` of AppleScript
        if name == b"shell" {
            match self.text[at..].strip_prefix(b" script ") {
                Some(_) => at += b" script ".len(),
                None => return end,
            }
        }
        let (mut strings, after) = self.strings(at);
        if deletes
            && names_home(&self.text[at..after])
            && strings.iter().all(|text| matches!(&**text, b"HOME" | b"os"))
        {
            strings = vec![b"~".to_vec()];
        }
        if strings.is_empty() {
            return end;
        }
        if name == b"open" {
            // Any other one is the name of a file.
            let piped = strings.iter().find(|text| text.starts_with(b"|") || text.ends_with(b"|"));
            let mode = strings.iter().position(|text| matches!(&**text, b"|-" | b"-|"));
            match (mode, piped) {
                (Some(mode), _) if mode + 1 < strings.len() => {
                    self.shell(strings[mode + 1..].join(&b' '));
                }
                (_, Some(text)) => self.shell(text.iter().copied().filter(|&byte| byte != b'|').collect()),
                _ => {}
            }
            return end;
        }
        if deletes {
            self.delete(&strings, &self.text[at..after]);
        } else if let [one] = &*strings {
            self.shell(one.clone());
        } else {
            // An argument vector; some interfaces repeat the program's name.
            self.vector(&strings);
            if strings[0] == strings[1] || strings[0].ends_with(&strings[1]) {
                self.vector(&strings[1..]);
            }
            if strings[0].contains(&b' ') {
                self.shell(strings[0].clone());
            }
        }
        after
    }

    /// The strings that follow: in parentheses, a list, or right away.
    fn strings(&self, start: usize) -> (Vec<Vec<u8>>, usize) {
        let text = self.text;
        let mut found = Vec::new();
        let mut at = start;
        let mut depth = 0u32;
        while at < text.len() && found.len() < STRINGS {
            match text[at] {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return (found, at + 1);
                    }
                }
                b'\'' | b'"' | b'`' => {
                    let (inner, end) = string(text, at);
                    found.push(inner);
                    at = end;
                    continue;
                }
                b';' | b'\n' if depth == 0 => return (found, at),
                b'=' | b'<' | b'>' if depth == 0 => return (found, at),
                _ => {}
            }
            at += 1;
        }
        (found, at)
    }

    fn shell(&mut self, text: Vec<u8>) {
        let place = crate::command_policy::state::Place { shell: Shell::Posix, ..self.job.place };
        self.scan.enqueue_alone(text, Code::Script(Shell::Posix), place);
    }

    fn vector(&mut self, strings: &[Vec<u8>]) {
        let words: Vec<Word<'_>> = strings.iter().map(|text| Word::borrowed(text)).collect();
        self.run(&words);
    }

    fn run(&mut self, words: &[Word<'_>]) {
        let (place, stdin, positional) = (self.job.place, &Rc::default(), &Rc::default());
        run(self.scan, words, &Around { place, stdin, positional, process: &[], wanted: false });
    }

    /// A call that deletes a tree is the same as `rm -rf`.
    fn delete(&mut self, strings: &[Vec<u8>], arguments: &[u8]) {
        let recursive = memchr::memmem::find(arguments, b"recursive: false").is_none();
        if let (Some(path), true) = (strings.first(), recursive) {
            let words =
                [Word::borrowed(b"rm"), Word::borrowed(b"-rf"), Word::borrowed(b"--"), Word::borrowed(path)];
            self.run(&words);
            if crate::command_policy::path::is_drive(path) {
                let words = [Word::borrowed(b"/s"), Word::borrowed(b"/q"), Word::borrowed(path)];
                self.scan.check(b"rd", &words, self.job.place);
            }
        }
    }
}

fn line_end(text: &[u8], at: usize) -> usize {
    memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |end| at + end)
}

/// A string's contents with its escapes resolved, and the position after it. Three quotes are one.
fn string(text: &[u8], start: usize) -> (Vec<u8>, usize) {
    let quote = text[start];
    let triple = text[start..].starts_with(&[quote; 3]) && quote != b'`';
    let mut at = start + if triple { 3 } else { 1 };
    let mut out = Vec::new();
    while at < text.len() {
        let byte = text[at];
        if byte == b'\\' && at + 1 < text.len() {
            out.push(match text[at + 1] {
                b'n' => b'\n',
                b't' => b'\t',
                other => other,
            });
            at += 2;
            continue;
        }
        if byte == quote && (!triple || text[at..].starts_with(&[quote; 3])) {
            return (out, at + if triple { 3 } else { 1 });
        }
        out.push(byte);
        at += 1;
    }
    (out, at)
}
