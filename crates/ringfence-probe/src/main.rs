//! `ringfence-probe ACT [ARGS…]` tries one act and prints one JSON line:
//! `{"act","result":"allowed|denied|error","errno":N|null,"detail":…}`.
//!
//! `denied` is an errno that a sandbox answers with, `error` any other; who judges compares the errno. The exit
//! status is 0 whenever the line was printed, 2 for a usage error. `ringfence-probe --list` prints the acts.

mod acts;
mod args;
mod sys;

use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::args::{Args, Failure};

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let Some(name) = words.next() else { return usage("usage: ringfence-probe ACT [ARGS…] | --list") };
    if name == "--list" {
        let names: Vec<_> =
            acts::all().map(|act| format!("{} {}", act.name, act.usage).trim_end().to_owned()).collect();
        return print(&names.join("\n"));
    }
    match run(&name.to_string_lossy(), Args::new(words.collect())) {
        Ok(line) => print(&line.to_string()),
        Err(message) => usage(&message),
    }
}

/// Runs one act and renders the outcome; `Err` is a usage error.
fn run(name: &str, args: Args) -> Result<Value, String> {
    let act = acts::find(name).ok_or_else(|| format!("unknown act `{name}`"))?;
    match (act.run)(&args) {
        Ok(detail) => Ok(line(name, "allowed", None, detail)),
        Err(Failure::Kernel(error)) => {
            let errno = error.raw_os_error();
            let result = if errno.is_some_and(is_denial) { "denied" } else { "error" };
            Ok(line(name, result, errno, json!(error.to_string())))
        }
        Err(Failure::Usage) => Err(format!("usage: ringfence-probe {name} {}", act.usage)),
    }
}

fn line(act: &str, result: &str, errno: Option<i32>, detail: Value) -> Value {
    json!({ "act": act, "result": result, "errno": errno, "detail": detail })
}

fn is_denial(errno: i32) -> bool {
    matches!(
        errno,
        libc::EPERM | libc::EACCES | libc::EROFS | libc::EBUSY | libc::ENOSYS | libc::EAFNOSUPPORT
    )
}

fn print(text: &str) -> ExitCode {
    match writeln!(io::stdout(), "{text}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn usage(message: &str) -> ExitCode {
    // Nothing can be done about a closed standard error.
    let _ = writeln!(io::stderr(), "{message}");
    ExitCode::from(2)
}
