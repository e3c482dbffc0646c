//! Options of `run`, `shell` and `explain`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{NonEmptyStringValueParser, OsStringValueParser, TypedValueParser as _};
use clap::{ArgAction, Args, ValueEnum, ValueHint};
use ringfence_types::{HostPattern, LayerName, Publish};

use super::{Sni, values};

/// `ringfence run`
#[derive(Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) setup: SetupArgs,

    /// Capture the output and print one JSON object; standard input passes unless it is a terminal
    #[arg(long, help_heading = "Output", conflicts_with = "tty")]
    pub(crate) json: bool,

    /// The program and its arguments
    #[arg(value_name = "PROGRAM", help_heading = "Program", required = true, trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments)]
    pub(crate) program: Vec<OsString>,
}

/// `ringfence shell`
#[derive(Debug, Args)]
pub(crate) struct ShellArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) setup: SetupArgs,
}

/// `ringfence explain`
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) setup: SetupArgs,

    /// The system to plan for
    #[arg(long, value_name = "SYSTEM", default_value = "linux", help_heading = "Output")]
    pub(crate) target: Target,

    /// Print one JSON object on standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,

    /// The program and its arguments, as for `run`
    #[arg(value_name = "PROGRAM", help_heading = "Program", trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments)]
    pub(crate) program: Vec<OsString>,
}

/// What the box may see and change.
#[derive(Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Policy")]
pub(crate) struct PolicyArgs {
    /// What is allowed before the other options add or take [default: workspace-write]
    #[arg(long, value_name = "MODE", hide_default_value = true)]
    pub(crate) mode: Option<Mode>,

    /// Ecosystem profile (rust, node, python, go, java, git), one from the config, auto, or none [default: auto]
    #[arg(long, value_name = "NAME", action = ArgAction::Append, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) profile: Vec<String>,

    /// The directory that the box works in [default: the current directory]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "session")]
    pub(crate) workspace: Option<PathBuf>,

    /// Work in the session's own directory; commands of one session share it and their private /tmp
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) session: Option<String>,

    /// Working directory [default: the current directory if it lies inside the workspace]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) cwd: Option<PathBuf>,

    /// Let the box read this file or tree
    #[arg(long, value_name = "PATH", action = ArgAction::Append, value_hint = ValueHint::AnyPath)]
    pub(crate) read: Vec<PathBuf>,

    /// Let the box write this file or tree
    #[arg(long, value_name = "PATH", action = ArgAction::Append, value_hint = ValueHint::AnyPath)]
    pub(crate) write: Vec<PathBuf>,

    /// Hide this file or tree, or all that a pattern ('**/*.pem') finds
    #[arg(long, value_name = "PATH", action = ArgAction::Append, value_hint = ValueHint::AnyPath)]
    pub(crate) deny: Vec<PathBuf>,

    /// Let the box connect to this Unix socket of the host
    #[arg(long, value_name = "PATH", action = ArgAction::Append, value_hint = ValueHint::FilePath)]
    pub(crate) unix_socket: Vec<PathBuf>,

    /// Let the box use devices by name: gpu, kvm, fuse
    #[arg(long, value_name = "NAME", action = ArgAction::Append, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) device: Vec<String>,

    /// Set a variable, or pass the caller's own one through
    #[arg(
        long,
        value_name = "KEY[=VALUE]",
        action = ArgAction::Append,
        value_parser = OsStringValueParser::new().try_map(values::env_entry)
    )]
    pub(crate) env: Vec<OsString>,

    /// Refuse to start further processes from inside the box
    #[arg(long)]
    pub(crate) no_spawn: bool,

    /// Allow /, the home directory or a system directory as a writable root
    #[arg(long)]
    pub(crate) force_root: bool,
}

/// Network of the box.
#[derive(Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Network")]
pub(crate) struct NetworkArgs {
    /// No network, the public internet, or the host's network as it is [default: none]
    #[arg(long, value_name = "NET")]
    pub(crate) net: Option<Net>,

    /// Let the box reach this host: name, *.suffix, **.suffix, address or network, with :port or :* [default: ports 80
    /// and 443]
    #[arg(long, value_name = "PATTERN", action = ArgAction::Append)]
    pub(crate) allow_host: Vec<HostPattern>,

    /// Keep the box from this host, whatever else is allowed; without a port on every port
    #[arg(long, value_name = "PATTERN", action = ArgAction::Append)]
    pub(crate) deny_host: Vec<HostPattern>,

    /// Let the host reach a server in the box: the host's address [default: 127.0.0.1] and port, then the server's port
    #[arg(long, value_name = "[ADDR:]PORT:PORT", action = ArgAction::Append)]
    pub(crate) publish: Vec<Publish>,

    /// Let the box reach this port of the host's loopback, at the same port of its own
    #[arg(long, value_name = "PORT", action = ArgAction::Append, value_parser = values::port)]
    pub(crate) allow_loopback: Vec<u16>,

    /// What to do with a TLS connection whose server name is not the allowed host [default: strict]
    #[arg(long, value_name = "CHECK")]
    pub(crate) sni: Option<Sni>,
}

/// Limits of a run.
#[derive(Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// End the run after this time: 60s, 5m, 1h30m [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) timeout: Option<Duration>,

    /// Keep at most this much captured output: 512K, 1M [default: 1M]
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    pub(crate) max_output: Option<u64>,

    /// Memory of all processes together: 512M, 2G; not available yet
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    pub(crate) memory: Option<u64>,

    /// Number of processes and threads; not available yet
    #[arg(long, value_name = "N", value_parser = values::count)]
    pub(crate) pids: Option<u64>,

    /// Share of one processor: 50%; not available yet
    #[arg(long, value_name = "PERCENT", value_parser = values::percent)]
    pub(crate) cpu: Option<u32>,
}

/// How the box is built, and what is said about it.
#[derive(Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Setup")]
pub(crate) struct SetupArgs {
    /// Mechanism that builds the box; bwrap and landlock are not available yet [default: auto]
    #[arg(long, value_name = "BACKEND")]
    pub(crate) backend: Option<Backend>,

    /// Refuse to run unless this layer is fully in force (see `doctor` for their names)
    #[arg(long, value_name = "LAYER", action = ArgAction::Append)]
    pub(crate) require: Vec<LayerName>,

    /// What leaves the policy is refused, or asked on the terminal [default: prompt on a terminal, else never]
    #[arg(long, value_name = "WHEN")]
    pub(crate) ask: Option<Ask>,

    /// Give the program a terminal also when standard input is none
    #[arg(long)]
    pub(crate) tty: bool,

    /// Config file instead of $RINGFENCE_HOME/config.toml
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,

    /// Say nothing but errors
    #[arg(long, help_heading = "Output", conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Say what was enforced
    #[arg(long, help_heading = "Output")]
    pub(crate) verbose: bool,
}

/// Presets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// System files and the workspace; a private HOME; no localhost, no further processes
    Strict,
    /// Everything but secrets is readable, nothing but a private /tmp is writable
    ReadOnly,
    /// Everything but secrets is readable; the workspace is writable
    WorkspaceWrite,
    /// Everything that you may read and write; still a box of its own
    FullAccess,
}

/// `--net`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Net {
    /// None but the box's own loopback
    None,
    /// Every public address
    Public,
    /// The host's network as it is
    All,
}

/// `--backend`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// The strongest that works
    Auto,
    /// Own namespaces, Landlock and seccomp
    Native,
    /// bubblewrap; not available yet
    Bwrap,
    /// Landlock and seccomp alone; not available yet
    Landlock,
}

/// `--ask`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ask {
    /// Refuse
    Never,
    /// Ask on the terminal
    Prompt,
}

/// `--target`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    /// Namespaces, Landlock, seccomp
    Linux,
    /// Seatbelt; not available yet
    Macos,
    /// Restricted tokens and ACLs; not available yet
    Windows,
}
