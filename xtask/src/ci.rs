use std::path::Path;
use std::time::Instant;

use crate::error::Error;
use crate::fuzz;
use crate::tidy;
use crate::tools::{self, cargo, describe};

/// Everything that must pass before a change lands, the cheap checks first. It stops at the first failure.
pub(crate) fn run(root: &Path) -> Result<(), Error> {
    tools::ensure(root)?;
    tidy::run(root)?;
    let steps: &[&[&str]] = &[
        &["fmt", "--all", "--check"],
        &["deny", "--workspace", "check", "bans", "licenses", "sources"],
        &["clippy", "--workspace", "--all-targets", "--all-features", "--locked", "--", "--deny", "warnings"],
        &["doc", "--workspace", "--no-deps", "--locked"],
        // The enforcement tests run it; nextest builds the binaries of the tests' own package only.
        &["build", "--locked", "--package", "ringfence-probe"],
        &["test", "--doc", "--workspace", "--locked"],
        &FAULTS,
    ];
    for arguments in steps {
        step(root, arguments)?;
    }
    fuzz::run(root, 20, Some(1))?;
    // Last, so that its summary is what one sees.
    step(root, &["nextest", "run", "--workspace", "--locked", "--profile", "ci"])
}

/// Faults are built into a binary of these tests' own; all other tests run what users get.
const FAULTS: [&str; 13] = [
    "nextest",
    "run",
    "--package",
    "ringfence-cli",
    "--locked",
    "--features",
    "fault-injection",
    "--test",
    "it",
    "--profile",
    "ci",
    "faults::",
    "net::lost::",
];

fn step(root: &Path, arguments: &[&str]) -> Result<(), Error> {
    let mut command = cargo(root);
    command.args(arguments).env("RUSTDOCFLAGS", "--deny warnings");
    println!("\n== {}", describe(&command));
    let start = Instant::now();
    tools::run(&mut command)?;
    println!("== {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}
