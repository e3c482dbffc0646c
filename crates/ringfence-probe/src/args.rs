//! Arguments of an act, and how it fails.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

/// Why an act gave no result.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The kernel refused it; the outcome that is looked for.
    Kernel(io::Error),
    /// The act was called with the wrong arguments.
    Usage,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Kernel(error)
    }
}

/// What an act yields: details of the success.
pub(crate) type Outcome = Result<serde_json::Value, Failure>;

/// The words after the act's name.
#[derive(Debug)]
pub(crate) struct Args(Vec<OsString>);

impl Args {
    pub(crate) fn new(words: Vec<OsString>) -> Self {
        Self(words)
    }

    pub(crate) fn all(&self) -> &[OsString] {
        &self.0
    }

    pub(crate) fn os(&self, at: usize) -> Result<&OsStr, Failure> {
        self.0.get(at).map(OsString::as_os_str).ok_or(Failure::Usage)
    }

    pub(crate) fn path(&self, at: usize) -> Result<&Path, Failure> {
        self.os(at).map(Path::new)
    }

    pub(crate) fn text(&self, at: usize) -> Result<&str, Failure> {
        self.os(at)?.to_str().ok_or(Failure::Usage)
    }

    /// A decimal, `0x` or `0o` number, possibly negative.
    pub(crate) fn int(&self, at: usize) -> Result<i64, Failure> {
        parse_int(self.text(at)?).ok_or(Failure::Usage)
    }

    /// The words after `--`, and those before.
    pub(crate) fn split(&self) -> Result<(&[OsString], &[OsString]), Failure> {
        let at = self.0.iter().position(|word| word == "--").ok_or(Failure::Usage)?;
        Ok((&self.0[..at], &self.0[at + 1..]))
    }
}

/// A decimal, `0x` or `0o` number, possibly negative.
pub(crate) fn parse_int(text: &str) -> Option<i64> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let magnitude = if let Some(hex) = digits.strip_prefix("0x") {
        u64::from_str_radix(hex, 16).ok()? as i64
    } else if let Some(octal) = digits.strip_prefix("0o") {
        i64::from_str_radix(octal, 8).ok()?
    } else {
        digits.parse().ok()?
    };
    Some(sign * magnitude)
}
