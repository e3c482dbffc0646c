//! One module a command. Each gets parsed arguments and gives an exit status.

mod check;
mod config_check;
mod doctor;
mod explain;
mod generate;
mod init;
mod prepare;
mod proxy;
mod run;
mod script;
mod shell;

use std::ffi::OsString;
use std::io;

use clap::error::ErrorKind;
use rustix::process::{Resource, getrlimit};
use serde::Serialize;

use crate::args::{self, Invocation, Parsed};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{ErrorReport, RunReport, check_stdout, print_error, print_json};
use crate::usage::UsageError;

/// Bytes of stack without which the kernel ends this program in the middle of its work.
const LEAST_STACK: u64 = 256 << 10;

/// Does what the command line asks for, says what went wrong, and tells how to end.
pub(crate) fn run(argv: &[OsString], invocation: &mut Invocation) -> Exit {
    enough_stack().and_then(|()| answer(argv, invocation)).unwrap_or_else(|error| {
        print_error(&error);
        report_in_json(invocation, &error);
        exit_status(invocation, &error)
    })
}

fn enough_stack() -> Result<(), CliError> {
    match getrlimit(Resource::Stack).current {
        Some(limit) if limit < LEAST_STACK => Err(CliError::Stack { kib: limit >> 10 }),
        _ => Ok(()),
    }
}

fn answer(argv: &[OsString], invocation: &mut Invocation) -> Result<Exit, CliError> {
    match args::parse(argv) {
        Ok(parsed) => {
            invocation.json = parsed.json();
            dispatch(parsed)
        }
        Err(error) if !error.use_stderr() => Ok(help(&error)),
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Ok(match help(&error) {
                Exit::Success => Exit::Usage,
                failed => failed,
            })
        }
        Err(error) => Err(UsageError::from_clap(&error, invocation.name).into()),
    }
}

fn dispatch(parsed: Parsed) -> Result<Exit, CliError> {
    match parsed {
        Parsed::Run(args) => run::run(&args),
        Parsed::Shell(args) => run::shell(&args),
        Parsed::Check(args) => check::check(&args),
        Parsed::Explain(args) => explain::explain(&args),
        Parsed::Doctor(args) => doctor::doctor(&args),
        Parsed::ConfigCheck(args) => config_check::config_check(&args),
        Parsed::Init(args) => init::init(&args),
        Parsed::Proxy(args) => proxy::proxy(&args),
        Parsed::Completions(args) => generate::completions(&args),
        Parsed::Man(args) => generate::man(&args),
        Parsed::Version => generate::version(),
    }
}

/// Help and version, which clap writes with the colours that the terminal wants. A reader that went away is no
/// error.
fn help(error: &clap::Error) -> Exit {
    let printed = check_stdout().and_then(|()| match error.print() {
        Err(source) if source.kind() != io::ErrorKind::BrokenPipe => Err(CliError::Output(source)),
        _ => Ok(()),
    });
    match printed {
        Ok(()) => Exit::Success,
        Err(error) => {
            print_error(&error);
            Exit::Negative
        }
    }
}

/// The JSON object of an error, if JSON was asked for.
pub(crate) fn report_in_json(invocation: &Invocation, error: &CliError) {
    if !invocation.json || matches!(error, CliError::Output(_)) {
        return;
    }
    // Nothing is left to be done if it can't be written: the line on standard error has said what happened.
    let _ = match invocation.name {
        Some("run" | "shell") => print_json(&RunReport::failed(error)),
        Some("explain") => print_json(&explain::failed(error)),
        _ => print_json(&Failed { error: error.into() }),
    };
}

/// The object of a command without a shape of its own for errors.
#[derive(Serialize)]
struct Failed {
    error: ErrorReport,
}

fn exit_status(invocation: &Invocation, error: &CliError) -> Exit {
    match invocation.name {
        Some("run" | "shell" | "explain") => error.run_exit(),
        _ => error.plain_exit(),
    }
}
