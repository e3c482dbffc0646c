use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use ringfence_types::{Excess, SandboxCommand, SessionId, UnixPath};

/// Most characters of a justification that are shown.
const JUSTIFICATION: usize = 240;

/// What somebody is asked to approve: everything that the question shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalAction {
    /// Session that asks.
    pub session: SessionId,
    /// Tool that asks.
    pub tool_name: String,
    /// Program.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Canonical working directory.
    pub cwd: PathBuf,
    /// What is asked for beyond the baseline.
    pub excess: Vec<Excess>,
    /// When it asks.
    pub occasion: Occasion,
    /// The model's reason, cleaned of control characters and cut to 240 characters.
    pub justification: Option<String>,
}

/// When a question is put.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Occasion {
    /// Before the command starts.
    #[default]
    Start,
    /// While the command runs: a connection of its is held.
    Connection {
        /// The program that wants it, if it could be found, by the name that it has given itself; without control
        /// and invisible characters, at most 32 characters.
        program: Option<String>,
    },
}

impl ApprovalAction {
    /// The question about a command that works in `cwd`.
    pub(crate) fn new(command: &SandboxCommand, cwd: PathBuf, excess: Vec<Excess>) -> Self {
        Self {
            session: command.session_id.clone(),
            tool_name: command.tool_name.clone(),
            program: command.program.clone(),
            args: command.args.clone(),
            cwd,
            excess,
            occasion: Occasion::Start,
            justification: command.justification.as_deref().map(clean).filter(|text| !text.is_empty()),
        }
    }

    /// Program and arguments in one line, quoted for a POSIX shell where they need it. What could move the
    /// cursor, reorder the line or hide in it is shown as an escape.
    pub fn command_line(&self) -> String {
        let words = std::iter::once(&self.program).chain(&self.args);
        words.map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }
}

/// One line without control and invisible characters, white space collapsed, at most 240 characters.
fn clean(text: &str) -> String {
    let visible: String =
        text.chars().map(|c| if c.is_control() || is_invisible(c) { ' ' } else { c }).collect();
    let line = visible.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(JUSTIFICATION).collect()
}

/// Characters that take no place or change the order of those that do.
pub(super) fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

fn quoted(word: &OsStr) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,@%+^".contains(c);
    match word.to_str() {
        Some(text) if !text.is_empty() && text.chars().all(plain) => text.to_owned(),
        _ => format!(
            "'{}'",
            visible(&UnixPath::new(word.as_encoded_bytes()).to_string()).replace('\'', r"'\''")
        ),
    }
}

/// Invisible characters as escapes. [`UnixPath`] has escaped control characters and bytes that are not text.
pub(super) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_invisible(c) || c.is_control() {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn action(command: &SandboxCommand) -> ApprovalAction {
        ApprovalAction::new(command, PathBuf::from("/w"), Vec::new())
    }

    #[test]
    fn nothing_hides_in_the_command_line() {
        let mut command =
            SandboxCommand::new("s", "rm").args(["a b", "", "it's", "x\r\u{1b}[2K", "\u{202e}txt.sh"]);
        command.args.push(OsStr::from_bytes(b"\xff").to_owned());
        let expected = concat!(r"rm 'a b' '' 'it'\''s' 'x\r", r"\u{1b}[2K' '\u{202e}txt.sh' '\xff'");
        assert_eq!(action(&command).command_line(), expected);
    }

    #[test]
    fn a_justification_is_one_clean_line() {
        let mut command = SandboxCommand::new("s", "true");
        command.justification = Some(String::from(" to\n\x1b[31mtest\u{200b}\u{202e} \t it\0 "));
        assert_eq!(action(&command).justification.unwrap(), "to [31mtest it");
        command.justification = Some("é".repeat(1000));
        assert_eq!(action(&command).justification.unwrap().chars().count(), 240);
        command.justification = Some(String::from("\n\u{feff}"));
        assert_eq!(action(&command).justification, None);
    }
}
