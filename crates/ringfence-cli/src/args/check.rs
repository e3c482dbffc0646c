use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

/// Language that a command is written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShellName {
    Posix,
    Cmd,
    #[value(name = "powershell")]
    PowerShell,
    /// Taken from the program or from the script's text.
    #[default]
    Auto,
}

/// `ringfence check`
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Language of the command
    #[arg(long, value_enum, default_value_t, hide_possible_values = false)]
    pub(crate) shell: ShellName,

    /// What the program would read from its standard input; `-` is this command's own
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) stdin_file: Option<PathBuf>,

    /// Show every command that was found, and where a rule matched
    #[arg(long)]
    pub(crate) explain: bool,

    /// Print one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,

    /// Read JSON lines from standard input and print one object for each
    #[arg(long, conflicts_with_all = ["stdin_file", "explain", "program"])]
    pub(crate) batch: bool,

    /// Read this file instead of $RINGFENCE_HOME/config.toml
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,

    /// The program and its arguments
    #[arg(value_name = "PROGRAM", last = true, required_unless_present_any = ["batch", "stdin_file"])]
    pub(crate) program: Vec<OsString>,
}
