//! The speed table: each figure is measured side by side with what it is compared with, in one run, the
//! contenders taking turns, and given as medians.

mod concurrent;
mod files;
mod index;
mod proxy;
mod report;
mod rounds;
mod setup;
mod start;

use std::path::Path;

use crate::error::Error;
use report::Report;
use setup::Setup;

/// What `bench` was asked to do.
#[derive(Debug)]
pub(crate) struct Options {
    /// Fewer rounds: for a look, not for a record.
    quick: bool,
    /// Whether docs/performance.md is rewritten.
    write: bool,
    /// Names of the rows; empty means all.
    rows: Vec<String>,
}

/// Measures some rows of the table.
type Measure = fn(&Setup, &mut Report) -> Result<(), Error>;

const ROWS: &[(&str, Measure)] = &[
    ("start", start::command_line),
    ("library", start::library),
    ("files", files::opens_and_creates),
    ("build", files::build),
    ("index", index::warm_and_cold),
    ("concurrent", concurrent::runs),
    ("proxy", proxy::all),
];

impl Options {
    pub(crate) fn parse(arguments: &[&str]) -> Result<Self, Error> {
        let mut options = Self { quick: false, write: false, rows: Vec::new() };
        for &argument in arguments {
            match argument {
                "--quick" => options.quick = true,
                "--write" => options.write = true,
                row if ROWS.iter().any(|(name, _)| *name == row) => options.rows.push(row.to_owned()),
                _ => return Err(Error::Usage(crate::USAGE)),
            }
        }
        if options.write && (options.quick || !options.rows.is_empty()) {
            return Err(Error::Usage("--write records the whole table: neither --quick nor single rows"));
        }
        Ok(options)
    }

    fn wants(&self, row: &str) -> bool {
        self.rows.is_empty() || self.rows.iter().any(|own| own == row)
    }
}

/// Measures the wanted rows and prints the table.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), Error> {
    let setup = Setup::new(root, options.quick)?;
    let mut report = Report::new()?;
    for (name, measure) in ROWS.iter().filter(|(name, _)| options.wants(name)) {
        eprintln!("measuring: {name}");
        measure(&setup, &mut report)?;
    }
    println!("{report}");
    if options.write { report.write(root) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_of_the_whole_table() {
        assert!(Options::parse(&["--write"]).is_ok());
        assert!(Options::parse(&["--quick", "start"]).is_ok());
        assert!(Options::parse(&["--write", "start"]).is_err());
        assert!(Options::parse(&["--write", "--quick"]).is_err());
        assert!(Options::parse(&["nothing"]).is_err());
    }
}
