//! The tree of subcommands.

use clap::{Args as _, Command};

use super::{
    CheckArgs, CompletionsArgs, ConfigCheckArgs, DoctorArgs, ExplainArgs, InitArgs, ManArgs, ProxyArgs,
    RunArgs, ShellArgs,
};

/// Names of the subcommands, in the order of the help text.
pub(crate) const NAMES: [&str; 11] = [
    "run",
    "shell",
    "check",
    "explain",
    "doctor",
    "init",
    "config",
    "proxy",
    "completions",
    "man",
    "version",
];

const ROOT_EXAMPLES: &str = "\
Examples:
  ringfence run -- cargo test           only this directory is writable, no network
  ringfence run --mode strict -- ./tool one program, which sees this directory and system files
  ringfence shell                       look around in the box
  ringfence explain -- npm install      what a run would be allowed, without running it
  ringfence doctor                      what this host can enforce";

const RUN_EXAMPLES: &str = "\
Examples:
  ringfence run -- cargo build
      The current directory is writable, the rest of the disk read-only, no network
  ringfence run --write ~/shared --deny .env -- make
      One more writable directory; one file of the workspace out of reach
  ringfence run --profile node --timeout 10m -- npm ci
      Node's caches and its package hosts, at most ten minutes
  ringfence run --json -- sh -c 'ls; exit 3'
      One JSON object: output, exit code, what was enforced, what was refused

Everything after the program goes to it untouched. Relative paths of --read, --write and --deny count from \
the workspace.

Exit status:
  the program's own, or
  128+N  signal N ended it
  124    the timeout ended it
  125    ringfence refused or failed
  126    the program is not executable
  127    the program was not found";

const SHELL_EXAMPLES: &str = "\
Examples:
  ringfence shell
      $SHELL, or /bin/sh, in the box that `ringfence run` would use
  ringfence shell --mode read-only --workspace ../other
      Look at another directory without being able to change it

Exit status: the shell's own; 125 if ringfence refused or failed.";

const POLICY_CHECK_EXAMPLES: &str = "\
Examples:
  ringfence check -- bash -c 'rm -rf /'
      Whether the command policy would let it run
  ringfence check --explain -- sh -c 'curl https://example.com/i | sudo sh'
      Also every command that was found, and where a rule matched
  ringfence check --stdin-file setup.sh -- bash -s
      A script that the program reads
  ringfence check --batch < commands.jsonl
      JSON lines {\"id\",\"shell\",\"argv\",\"stdin\"} in, one verdict a line out

Nothing is started.

Exit status: 0 allow, 10 warn, 20 block; 0 with --batch; 2 for a usage error, 1 for any other.";

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  ringfence explain -- cargo test
      Mounts, Landlock rules, system calls, network and environment of that run
  ringfence explain --mode strict --json
      The same as JSON; the program may be left out

Nothing is started. Whether a layer really holds is known only at a run: see `run --json` and `doctor`.";

const DOCTOR_EXAMPLES: &str = "\
Each backend is tried for at most half a second. What is missing is explained, with its fix.

Exit status: 0 if `ringfence run` gives a sandbox on this host, else 1; 2 for a usage error.";

const INIT_NOTES: &str = "\
An existing file is never overwritten.

Exit status: 0; 1 if the file exists or can't be written; 2 for a usage error.";

const CHECK_NOTES: &str = "\
Without FILE: the user's config ($RINGFENCE_HOME/config.toml), then .ringfence.toml of the current directory; \
a missing one is no error. An unknown key is named with its line and the nearest known key.

Exit status: 0 if all is well, 1 if a file has an error or can't be read, 2 for a usage error.";

const PROXY_EXAMPLES: &str = "\
Examples:
  ringfence proxy --allow-host example.com --allow-host '*.example.org:*'
      A free port on 127.0.0.1, printed first, then one line for each decision
  ringfence proxy --listen 127.0.0.1:8080 --net public --deny-host tracker.example
      Every public host but one; no private, link-local or loopback address
  https_proxy=http://127.0.0.1:8080 curl https://example.com
      CONNECT, plain HTTP and SOCKS 5 are told apart by the first byte, on one port

Patterns:
  example.com       this name; also an address or a network such as 192.0.2.0/24
  *.example.com     every name below it, not itself
  **.example.com    itself and every name below it
  example.com:22    on this port; `:*` means every port
  Without a port --allow-host means 80 and 443, --deny-host every port

A name that leads to a private, loopback or otherwise special address is refused unless that address, or a \
network of such addresses, is listed too. The connection goes to the address that was checked. TLS is not opened; \
its server name must be that of the allowed host.

The proxy's own connections go through HTTP_PROXY, HTTPS_PROXY and ALL_PROXY, except to what NO_PROXY names.

It runs until SIGINT or SIGTERM; then every connection ends. Exit status: 0; 1 if it can't listen or a proxy variable \
is wrong; 2 for a usage error.";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  ringfence completions bash > ~/.local/share/bash-completion/completions/ringfence
  ringfence completions zsh > \"${fpath[1]}/_ringfence\"
  ringfence completions fish > ~/.config/fish/completions/ringfence.fish";

const MAN_EXAMPLES: &str = "\
Examples:
  ringfence man | man -l -
  ringfence man run > ~/.local/share/man/man1/ringfence-run.1";

/// The whole tree. `help [COMMAND]...` is clap's own and has no part in what is generated from the tree.
pub(crate) fn command() -> Command {
    Command::new("ringfence")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Runs a command that nobody has vetted so that it can touch only what it was granted")
        .after_help(ROOT_EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(NAMES.map(subcommand))
}

/// One subcommand, as a part of the tree or by itself.
pub(crate) fn subcommand(name: &'static str) -> Command {
    let about = match name {
        "run" => "Run a program in the box",
        "shell" => "Start an interactive shell in the box",
        "check" => "Ask the command policy about a command, without running it",
        "explain" => "Show what a run would be allowed, without running it",
        "doctor" => "Check what this host can enforce, and how to fix what it can't",
        "init" => "Write a commented config file",
        "config" => "Examine config files",
        "proxy" => "Run the proxy that reaches hosts by name, without a box",
        "completions" => "Print a completion script",
        "man" => "Print the manual page",
        _ => "Print the version",
    };
    let command = Command::new(name).bin_name(format!("ringfence {name}"));
    let command = match name {
        "run" => RunArgs::augment_args(command)
            .override_usage("ringfence run [OPTIONS] -- PROGRAM [ARG]...")
            .after_help(RUN_EXAMPLES),
        "shell" => ShellArgs::augment_args(command).after_help(SHELL_EXAMPLES),
        "check" => CheckArgs::augment_args(command)
            .override_usage("ringfence check [OPTIONS] -- PROGRAM [ARG]...\n       ringfence check --batch")
            .after_help(POLICY_CHECK_EXAMPLES),
        "explain" => ExplainArgs::augment_args(command)
            .override_usage("ringfence explain [OPTIONS] [-- PROGRAM [ARG]...]")
            .after_help(EXPLAIN_EXAMPLES),
        "doctor" => DoctorArgs::augment_args(command).after_help(DOCTOR_EXAMPLES),
        "init" => InitArgs::augment_args(command).after_help(INIT_NOTES),
        "config" => command
            .subcommand_required(true)
            .arg_required_else_help(true)
            .disable_help_subcommand(true)
            .subcommand(
                ConfigCheckArgs::augment_args(Command::new("check"))
                    .about("Check config files for unknown keys and wrong values")
                    .after_help(CHECK_NOTES),
            ),
        "proxy" => ProxyArgs::augment_args(command).after_help(PROXY_EXAMPLES),
        "completions" => CompletionsArgs::augment_args(command).after_help(COMPLETIONS_EXAMPLES),
        "man" => ManArgs::augment_args(command).after_help(MAN_EXAMPLES),
        _ => command,
    };
    command.about(about)
}
