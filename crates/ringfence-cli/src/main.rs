//! The `ringfence` command: arguments in, exit status out. What it decides is decided in the library.

#![forbid(unsafe_code)]

mod args;
mod commands;
mod error;
mod exit;
mod output;
mod request;
mod usage;

use std::any::Any;
use std::ffi::OsString;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

use crate::args::Invocation;
use crate::error::CliError;
use crate::exit::Exit;

fn main() -> ExitCode {
    ringfence::init();
    ringfence::ignore_file_size_signal();
    let argv: Vec<OsString> = std::env::args_os().collect();
    let mut invocation = Invocation::of(&argv);
    panic::set_hook(Box::new(|info| {
        let place = info.location().map(|at| format!(" ({}:{})", at.file(), at.line())).unwrap_or_default();
        output::print_error(&CliError::Panic(format!("{}{place}", panic_text(info.payload()))));
    }));
    // The hook has said what happened; unwinding has restored the terminal and ended the run.
    let exit = panic::catch_unwind(AssertUnwindSafe(|| commands::run(&argv, &mut invocation)))
        .unwrap_or_else(|payload| {
            commands::report_in_json(&invocation, &CliError::Panic(panic_text(payload.as_ref()).to_owned()));
            Exit::Refused
        });
    exit.into()
}

fn panic_text(payload: &(dyn Any + Send)) -> &str {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "panic",
    }
}
