use serde::Serialize;

use crate::error::CliError;

/// An error as JSON shows it.
#[derive(Debug, Serialize)]
pub(crate) struct ErrorReport {
    kind: &'static str,
    step: Option<&'static str>,
    message: String,
    hint: Option<String>,
}

impl From<&CliError> for ErrorReport {
    fn from(error: &CliError) -> Self {
        Self { kind: error.kind(), step: error.step(), message: error.message(), hint: error.hint() }
    }
}
