//! Raw arguments: what was typed, parsed and typed but not yet weighed against each other.

mod check;
mod command;
mod proxy;
mod quick;
mod run;
mod values;

use std::any::TypeId;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches as _, ValueHint};
use clap_complete::Shell;

pub(crate) use check::{CheckArgs, ShellName};
use command::subcommand;
pub(crate) use command::{NAMES, command};
pub(crate) use proxy::{ProxyArgs, ProxyNet, Sni};
pub(crate) use run::{
    Ask, Backend, ExplainArgs, LimitArgs, Mode, Net, NetworkArgs, PolicyArgs, RunArgs, SetupArgs, ShellArgs,
    Target,
};

/// A parsed command line.
#[derive(Debug)]
pub(crate) enum Parsed {
    Run(Box<RunArgs>),
    Shell(Box<ShellArgs>),
    Check(CheckArgs),
    Explain(Box<ExplainArgs>),
    Doctor(DoctorArgs),
    ConfigCheck(ConfigCheckArgs),
    Init(InitArgs),
    Proxy(Box<ProxyArgs>),
    Completions(CompletionsArgs),
    Man(ManArgs),
    Version,
}

impl Parsed {
    /// Whether one JSON object is asked for.
    pub(crate) fn json(&self) -> bool {
        match self {
            Self::Run(args) => args.json,
            Self::Check(args) => args.json,
            Self::Explain(args) => args.json,
            Self::Doctor(args) => args.json,
            Self::ConfigCheck(args) => args.json,
            Self::Proxy(args) => args.json,
            Self::Shell(_) | Self::Init(_) | Self::Completions(_) | Self::Man(_) | Self::Version => false,
        }
    }
}

/// `ringfence doctor`
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `ringfence config check`
#[derive(Debug, Args)]
pub(crate) struct ConfigCheckArgs {
    /// Check this file instead of the user's config and the workspace's
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,

    /// Print one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `ringfence init`
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Write here instead of $RINGFENCE_HOME/config.toml
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
}

/// `ringfence completions`
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell to complete for
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// `ringfence man`
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The page of this command instead of the one of ringfence itself
    #[arg(value_name = "COMMAND", value_parser = PossibleValuesParser::new(NAMES))]
    pub(crate) command: Option<String>,
}

/// What can be told of a command line before it is parsed, and also if it can't be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Invocation {
    /// The subcommand that was typed, if there is one of that name.
    pub(crate) name: Option<&'static str>,
    /// Whether `--json` stands among ringfence's own arguments. A guess before they are parsed: without `--` it may
    /// be the program's.
    pub(crate) json: bool,
}

impl Invocation {
    /// Looks at `argv`, the program's own name first. What follows `--` is the program's.
    pub(crate) fn of(argv: &[OsString]) -> Self {
        let name = argv.get(1).and_then(|name| NAMES.into_iter().find(|known| name == known));
        let mut own = argv.iter().skip(1).take_while(|arg| *arg != "--");
        Self { name, json: own.any(|arg| arg == "--json") }
    }
}

/// Parses `argv`, the program's own name first.
///
/// Only the subcommand that was typed is built, and for a plain `run` not even that: a start costs less than clap's
/// description of the options.
///
/// # Errors
/// Those of clap, which include a request for help or the version.
pub(crate) fn parse(argv: &[OsString]) -> Result<Parsed, clap::Error> {
    let Some(name) = Invocation::of(argv).name else {
        // Whatever name the binary was called by, the texts say `ringfence`.
        let words = std::iter::once(OsString::from("ringfence")).chain(argv.iter().skip(1).cloned());
        return match command().try_get_matches_from(words) {
            Err(error) => Err(error),
            Ok(_) => Err(clap::Error::new(ErrorKind::MissingSubcommand)),
        };
    };
    if let Some(args) = argv.get(2..).filter(|_| name == "run").and_then(quick::run) {
        return Ok(Parsed::Run(Box::new(args)));
    }
    let mut command = subcommand(name);
    let matches =
        command.try_get_matches_from_mut(&argv[1..]).map_err(|error| name_option(error, &command, argv))?;
    dispatch(name, &matches).map_err(|error| error.format(&mut command))
}

/// Says whose value is not UTF-8, which clap does not.
fn name_option(mut error: clap::Error, command: &Command, argv: &[OsString]) -> clap::Error {
    if error.kind() == ErrorKind::InvalidUtf8
        && let Some(option) = option_with_bytes(command, argv)
    {
        error.insert(ContextKind::InvalidArg, ContextValue::String(option));
    }
    error
}

/// The first option whose value must be text and is not.
fn option_with_bytes(command: &Command, argv: &[OsString]) -> Option<String> {
    let takes_bytes = |arg: &Arg| {
        let value = arg.get_value_parser().type_id();
        value == TypeId::of::<OsString>() || value == TypeId::of::<PathBuf>()
    };
    let own: Vec<&[u8]> = argv.iter().map(|word| word.as_encoded_bytes()).collect();
    let end = own.iter().position(|word| *word == b"--").unwrap_or(own.len());
    let separate = own[..end].windows(2).map(|pair| (pair[0], pair[1]));
    let joined = own[..end].iter().filter_map(|word| {
        let equals = word.iter().position(|byte| *byte == b'=')?;
        Some((&word[..equals], &word[equals + 1..]))
    });
    separate.chain(joined).filter(|(_, value)| std::str::from_utf8(value).is_err()).find_map(|(option, _)| {
        let name = std::str::from_utf8(option).ok()?.strip_prefix("--")?;
        let arg = command.get_arguments().find(|arg| arg.get_long() == Some(name))?;
        (!takes_bytes(arg)).then(|| format!("--{name}"))
    })
}

fn dispatch(name: &str, matches: &ArgMatches) -> Result<Parsed, clap::Error> {
    match name {
        "run" => RunArgs::from_arg_matches(matches).map(|args| Parsed::Run(Box::new(args))),
        "shell" => ShellArgs::from_arg_matches(matches).map(|args| Parsed::Shell(Box::new(args))),
        "explain" => ExplainArgs::from_arg_matches(matches).map(|args| Parsed::Explain(Box::new(args))),
        "check" => CheckArgs::from_arg_matches(matches).map(Parsed::Check),
        "doctor" => DoctorArgs::from_arg_matches(matches).map(Parsed::Doctor),
        "config" => match matches.subcommand() {
            Some(("check", sub)) => ConfigCheckArgs::from_arg_matches(sub).map(Parsed::ConfigCheck),
            _ => Err(clap::Error::new(ErrorKind::MissingSubcommand)),
        },
        "init" => InitArgs::from_arg_matches(matches).map(Parsed::Init),
        "proxy" => ProxyArgs::from_arg_matches(matches).map(|args| Parsed::Proxy(Box::new(args))),
        "completions" => CompletionsArgs::from_arg_matches(matches).map(Parsed::Completions),
        "man" => ManArgs::from_arg_matches(matches).map(Parsed::Man),
        _ => Ok(Parsed::Version),
    }
}

#[cfg(test)]
mod tests;
