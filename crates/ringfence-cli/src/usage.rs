//! Usage errors in the one-line style of every other message: what is wrong, then a hint.

use std::fmt;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// A command line that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UsageError {
    message: String,
    hint: String,
}

impl UsageError {
    /// `message` as in every error; `hint` says what to do.
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }

    /// Translates clap's error; `subcommand` is the one that was typed, if it is known.
    pub(crate) fn from_clap(error: &clap::Error, subcommand: Option<&str>) -> Self {
        Self { message: message(error), hint: hint(error, subcommand) }
    }

    /// What to do about it.
    pub(crate) fn hint(&self) -> &str {
        &self.hint
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for UsageError {}

fn message(error: &clap::Error) -> String {
    let invalid = text(error, ContextKind::InvalidArg).map(|arg| option_name(&arg));
    let value = text(error, ContextKind::InvalidValue);
    match (error.kind(), invalid, value) {
        (ErrorKind::UnknownArgument, Some(arg), _) if arg.starts_with('-') => {
            format!("unknown option `{arg}`")
        }
        (ErrorKind::UnknownArgument, Some(arg), _) => format!("unexpected argument `{arg}`"),
        (ErrorKind::InvalidValue, Some(arg), Some(value)) if !value.is_empty() => {
            format!("`{value}` is no value of `{arg}`")
        }
        (
            ErrorKind::InvalidValue | ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues,
            Some(arg),
            _,
        ) => {
            format!("`{arg}` needs a value")
        }
        (ErrorKind::ValueValidation, Some(arg), Some(value)) => match std::error::Error::source(error) {
            Some(source) => format!("`{value}` is no value of `{arg}`: {source}"),
            None => format!("`{value}` is no value of `{arg}`"),
        },
        (ErrorKind::TooManyValues, Some(arg), Some(value)) => {
            format!("`{arg}` takes no value, found `{value}`")
        }
        (ErrorKind::ArgumentConflict, Some(arg), _) => match text(error, ContextKind::PriorArg) {
            Some(prior) if option_name(&prior) != arg => {
                format!("`{arg}` contradicts `{}`", option_name(&prior))
            }
            _ => format!("`{arg}` was given more than once"),
        },
        (ErrorKind::MissingRequiredArgument, Some(arg), _) => format!("no {arg} given"),
        (ErrorKind::InvalidSubcommand, ..) => match text(error, ContextKind::InvalidSubcommand) {
            Some(name) => format!("unknown command `{name}`"),
            None => String::from("unknown command"),
        },
        (ErrorKind::MissingSubcommand, ..) => String::from("no command given"),
        (ErrorKind::InvalidUtf8, Some(arg), _) => format!("the value of `{arg}` is not valid UTF-8"),
        (ErrorKind::InvalidUtf8, ..) => String::from("an option's value is not valid UTF-8"),
        (kind, ..) => kind.as_str().unwrap_or("wrong usage").to_owned(),
    }
}

fn hint(error: &clap::Error, subcommand: Option<&str>) -> String {
    let help = match subcommand {
        Some(name) => format!("see `ringfence {name} --help`"),
        None => String::from("see `ringfence --help`"),
    };
    let suggestion = text(error, ContextKind::SuggestedArg).or(text(error, ContextKind::SuggestedSubcommand));
    if let Some(suggestion) = suggestion {
        return format!("did you mean `{suggestion}`? {help}");
    }
    match error.kind() {
        ErrorKind::InvalidValue => match error.get(ContextKind::ValidValue) {
            Some(ContextValue::Strings(values)) if !values.is_empty() => {
                format!("expected one of {}", values.join(", "))
            }
            _ => help,
        },
        ErrorKind::MissingRequiredArgument if matches!(subcommand, Some("run")) => {
            String::from("write the program after the options: `ringfence run -- PROGRAM [ARG]...`")
        }
        ErrorKind::MissingSubcommand | ErrorKind::InvalidSubcommand => {
            format!("to run a program: `ringfence run -- PROGRAM`; {help}")
        }
        ErrorKind::MissingRequiredArgument if matches!(subcommand, Some("check")) => {
            String::from("write the program after `--`: `ringfence check -- PROGRAM [ARG]...`")
        }
        ErrorKind::UnknownArgument if matches!(subcommand, Some("check")) => {
            format!("put `--` before the program: `ringfence check -- PROGRAM [ARG]...`; {help}")
        }
        ErrorKind::UnknownArgument if matches!(subcommand, Some("run" | "explain")) => {
            format!("options of the program go after it; {help}")
        }
        _ => help,
    }
}

/// The context's first text.
fn text(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => texts.first().cloned(),
        _ => None,
    }
}

/// `--mode <MODE>` is `--mode`, `<PROGRAM>...` is PROGRAM.
fn option_name(arg: &str) -> String {
    match arg.split_once(' ') {
        Some((name, _)) if name.starts_with('-') => name.to_owned(),
        _ => arg.trim_end_matches("...").trim_matches(['<', '>', '[', ']']).to_owned(),
    }
}
