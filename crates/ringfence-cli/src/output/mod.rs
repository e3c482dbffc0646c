//! What is said, and where: data on standard output, everything else on standard error. Colour only on a terminal
//! that wants it (`NO_COLOR`, `TERM`), and never as the only sign of anything.

mod json;
mod layers;
mod run;
mod table;

use std::fmt::Write as _;
use std::io::{self, Write as _};

use anstyle::{AnsiColor, Style};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::Errno;
use serde::Serialize;

pub(crate) use json::ErrorReport;
pub(crate) use layers::{layer_lines, status_style, status_word};
pub(crate) use run::{RunReport, denial_lines};
pub(crate) use table::Table;

use crate::error::CliError;

/// Who speaks, at the start of an error.
pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
/// The word `hint:`.
pub(crate) const HINT: Style = AnsiColor::Cyan.on_default().bold();
/// Headings.
pub(crate) const HEADING: Style = Style::new().bold().underline();

/// Says what went wrong: one line, then a `hint:` line if something can be done about it. A standard error that
/// can't be written leaves nobody to tell.
pub(crate) fn print_error(error: &CliError) {
    let mut text = format!("{ERROR}ringfence:{ERROR:#} {}\n", one_line(&error.message()));
    if let Some(hint) = error.hint() {
        let _ = writeln!(text, "{HINT}hint:{HINT:#} {}", one_line(&hint));
    }
    let _ = anstream::stderr().lock().write_all(text.as_bytes());
}

/// Remarks on standard error.
pub(crate) fn print_note(text: &str) {
    let _ = anstream::stderr().lock().write_all(text.as_bytes());
}

/// Checks that there is a standard output at all, before something is done whose result would be lost.
///
/// # Errors
/// [`CliError::Output`] if it is closed, or open for reading only.
pub(crate) fn check_stdout() -> Result<(), CliError> {
    let flags = fcntl_getfl(io::stdout());
    let writable = |flags: OFlags| matches!(flags & OFlags::ACCMODE, OFlags::WRONLY | OFlags::RDWR);
    if ringfence::stdout_was_closed() || !flags.is_ok_and(writable) {
        return Err(CliError::Output(Errno::BADF.into()));
    }
    Ok(())
}

/// Data as text.
///
/// # Errors
/// [`CliError::Output`] if it can't be written; a reader that went away is no error.
pub(crate) fn print_text(text: &str) -> Result<(), CliError> {
    check_stdout()?;
    written(anstream::stdout().lock().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()))
}

/// Data as bytes, whatever the output is.
///
/// # Errors
/// As [`print_text`].
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), CliError> {
    check_stdout()?;
    let mut stdout = io::stdout().lock();
    written(stdout.write_all(bytes).and_then(|()| stdout.flush()))
}

/// Data as one JSON object on one line.
///
/// # Errors
/// As [`print_text`].
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    let mut line = serde_json::to_vec(value).map_err(|error| CliError::Output(error.into()))?;
    line.push(b'\n');
    print_bytes(&line)
}

fn written(result: io::Result<()>) -> Result<(), CliError> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CliError::Output(error)),
        _ => Ok(()),
    }
}

/// Text that stays on its line and can't reconfigure the terminal: control characters are shown escaped.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_bidirectional(c) {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

/// Characters that reorder what follows them (Unicode Standard Annex 9).
fn is_bidirectional(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(one_line("a\nb\x1b[31m\u{202e}é"), "a\\nb\\u{1b}[31m\\u{202e}é");
    }
}
