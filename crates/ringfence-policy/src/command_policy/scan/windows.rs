//! What cmd and PowerShell write alike.

use std::borrow::Cow;
use std::rc::Rc;

use super::posix::Pipeline;
use crate::command_policy::run::run_pipeline;
use crate::command_policy::state::{Place, Scan, Upstream};

/// A redirection of output or input.
pub(super) enum Redirection {
    /// To another handle, whose number has been read.
    Handle,
    /// A file follows.
    File,
}

/// Reads on after the first `<` or `>`.
pub(super) fn redirection(text: &[u8], pos: &mut usize) -> Redirection {
    while text.get(*pos) == Some(&b'>') {
        *pos += 1;
    }
    if text.get(*pos) == Some(&b'&') {
        *pos = (*pos + 2).min(text.len());
        return Redirection::Handle;
    }
    Redirection::File
}

/// Whether the word so far is the number of a handle, or `*` for all of them.
pub(super) fn is_handle(word: &[u8]) -> bool {
    matches!(word, [byte] if byte.is_ascii_digit() || *byte == b'*')
}

/// The end of the line that holds a position.
pub(super) fn line_end(text: &[u8], pos: usize) -> usize {
    memchr::memchr(b'\n', &text[pos..]).map_or(text.len(), |at| pos + at)
}

/// A word that has been read, borrowed where it stands in the text as it is.
pub(super) fn word<'a>(text: &'a [u8], start: usize, word: &mut Vec<u8>) -> Cow<'a, [u8]> {
    match text.get(start..start + word.len()) {
        Some(same) if same == &**word => {
            word.clear();
            Cow::Borrowed(same)
        }
        _ => Cow::Owned(std::mem::take(word)),
    }
}

/// Runs a pipeline that has ended; it is empty then.
pub(super) fn run(scan: &mut Scan, pipeline: &mut Pipeline<'_>, place: Place) -> Upstream {
    if pipeline.elements.is_empty() {
        return Upstream::default();
    }
    let parameters = Rc::clone(&scan.no_parameters);
    run_pipeline(scan, pipeline, place, &parameters)
}
