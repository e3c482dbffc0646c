//! The project's own commands: `cargo xtask ci`, `cargo xtask tidy`, `cargo xtask docs`, `cargo xtask bench`,
//! `cargo xtask vm`.

#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "these commands speak to a developer's terminal"
)]

mod bench;
mod ci;
mod docs;
mod error;
mod fuzz;
mod tidy;
mod tools;
mod vm;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use error::Error;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  ci                  all that must pass before a change lands; installs cargo-nextest and cargo-deny if missing
  tidy                the repository's own rules
  docs                the pages that are made from data
  fuzz [SECONDS]      the fuzz targets, 60 s each; needs a nightly compiler
  bench [--quick] [--write] [ROW...]
                      the speed table, measured side by side; --write puts it into docs/performance.md
                      rows: start library files build index concurrent proxy (default: all)
                      proxy compares with tinyproxy, microsocks and node; raise `ulimit -n` for it
  vm VMLINUZ...       boots these kernels in virtual machines and compares what Ringfence does there with what they have;
                      needs qemu-system-x86 and busybox-static";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let root = repository_root();
    let result = match args.as_slice() {
        ["ci"] => ci::run(&root),
        ["tidy"] => tidy::run(&root),
        ["docs"] => docs::write(&root),
        ["fuzz"] => fuzz::run(&root, 60, None),
        ["fuzz", seconds] => match seconds.parse() {
            Ok(seconds) => fuzz::run(&root, seconds, None),
            Err(_) => Err(Error::Usage(USAGE)),
        },
        ["bench", options @ ..] => {
            bench::Options::parse(options).and_then(|options| bench::run(&root, &options))
        }
        ["vm", kernels @ ..] if !kernels.is_empty() => vm::run(&root, kernels),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => Err(Error::Usage(USAGE)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Error::Usage(text)) => {
            eprintln!("{text}");
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The folder above this package's own.
fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(1)
        .map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}
