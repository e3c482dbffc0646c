//! `ringfence run` and `ringfence shell`

use std::env;
use std::io::{self, IsTerminal as _};

use ringfence::command_policy::{Disposition, Verdict};
use ringfence::packages::{PackageHost, Packages};
use ringfence::{LinuxDriver, SandboxCommand, SandboxOutput, Stdin, StdinStream, Stdio};
use ringfence_types::{Host, HostPattern, PathKind, PortPattern, ResolvedPath, ResolvedPolicy, UnixPath};

use super::prepare::{Prepared, Purpose, prepare};
use super::script;
use super::shell::Shell;
use crate::args::{RunArgs, ShellArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{
    HINT, RunReport, check_stdout, denial_lines, layer_lines, one_line, print_json, print_note,
};
use crate::request::Request;

pub(crate) fn run(args: &RunArgs) -> Result<Exit, CliError> {
    if args.json {
        check_stdout()?;
    }
    let request = Request::new(&args.policy, &args.network, &args.limits, &args.setup)?;
    let mut prepared = prepare(&request, Purpose::Run)?;
    // The parser has insisted on a program.
    let Some((program, rest)) = args.program.split_first() else { return Ok(Exit::Refused) };
    let mut command = prepared.command(&request, program.clone(), rest);
    command.stdio = stdio(args.json, request.tty);
    if args.json && !io::stdin().is_terminal() {
        command.stdin = Stdin::Stream(StdinStream::new(io::stdin()));
    }
    let output = execute(&mut prepared, &request, command)?;
    if args.json {
        print_json(&RunReport::finished(Some(prepared.session.as_str()), &output))?;
    }
    Ok(exit(&output))
}

pub(crate) fn shell(args: &ShellArgs) -> Result<Exit, CliError> {
    let request = Request::new(&args.policy, &args.network, &args.limits, &args.setup)?;
    let mut prepared = prepare(&request, Purpose::Run)?;
    let shell = Shell::of(env::var_os("SHELL"));
    let mut command = prepared.command(&request, shell.program.clone(), &shell.args);
    command.env.extend(shell.env);
    command.stdio = stdio(false, request.tty);
    if !request.quiet && io::stderr().is_terminal() {
        print_note("ringfence: this shell is inside the box; leave it with `exit`\n");
    }
    execute(&mut prepared, &request, command).map(|output| exit(&output))
}

fn stdio(json: bool, tty: bool) -> Stdio {
    match (json, tty) {
        (true, _) => Stdio::Capture,
        (false, true) => Stdio::Pty,
        (false, false) => Stdio::Inherit,
    }
}

/// Runs the command on this thread, and says on standard error what is known about it.
fn execute(
    prepared: &mut Prepared,
    request: &Request,
    mut command: SandboxCommand,
) -> Result<SandboxOutput, CliError> {
    script::look(&mut command);
    let captured = command.stdio == Stdio::Capture;
    for line in prepared.sandbox.recovered() {
        print_note(&format!("ringfence: left by a run that crashed: {}\n", one_line(&line)));
    }
    for line in prepared.sandbox.policy_problems() {
        print_note(&format!("ringfence: {}\n", one_line(&line)));
    }
    if request.verbose {
        print_note(&summary(prepared));
    }
    if !request.quiet {
        print_note(&package_notes(&prepared.settings.packages));
    }
    if !request.quiet {
        print_note(&warnings(&prepared.sandbox.policy_verdict(&command)));
    }
    let Prepared { sandbox, hosted, .. } = prepared;
    let result = sandbox.run_blocking(command, |run| {
        if !request.quiet {
            print_note(&missing_grants(run.policy()));
            print_note(&loopback_hosts(run.policy()));
        }
        LinuxDriver::new().run_here(run, hosted)
    });
    let result = result.map_err(|source| CliError::Sandbox { session: prepared.session.to_string(), source });
    let layers = match &result {
        Ok(output) => Some(&output.layers),
        Err(error) => error.layers(),
    };
    if let Some(layers) = layers.filter(|_| request.verbose) {
        print_note(&layer_lines(layers.iter()));
    }
    // Also of a run that was ended: what had been refused by then may be why.
    let output = result.as_ref().map_or_else(CliError::output, Some);
    if let Some(output) = output.filter(|_| !captured && !request.quiet) {
        print_note(&denial_lines(&output.denials));
    }
    result
}

/// What the command policy lets run and wants recorded, one line for each rule. Nobody needs to be told that what is
/// typed at a terminal can't be read beforehand.
fn warnings(verdict: &Verdict) -> String {
    if verdict.disposition != Disposition::Warn {
        return String::new();
    }
    let mut lines: Vec<String> = Vec::new();
    for found in
        verdict.matches.iter().filter(|found| found.rule != "not-scanned" || !io::stdin().is_terminal())
    {
        let text = format!("warning of the command policy, rule {}: {}", found.rule, found.why);
        let line = format!("ringfence: {}\n", one_line(&text));
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.concat()
}

/// Grants of paths where nothing lies, one line each. Below a writable root they are no errors, and add nothing.
pub(super) fn missing_grants(policy: &ResolvedPolicy) -> String {
    let grants = policy.read.iter().chain(&policy.write);
    let missing = grants.filter(|path| path.kind == PathKind::Missing);
    let line = |path: &ResolvedPath| {
        let path = UnixPath::from(path.path.as_path());
        format!("ringfence: granted path {path} does not exist; it lies where the box may write anyway\n")
    };
    missing.map(line).collect()
}

/// Hosts that are the box itself inside: listed, they are reached by programs that ask the proxy for them, and by no other.
pub(super) fn loopback_hosts(policy: &ResolvedPolicy) -> String {
    let is_own = |pattern: &&HostPattern| match pattern.network() {
        Some((ip, _)) => ip.is_loopback(),
        None => pattern.matches_host(&Host::Name("localhost".to_owned())),
    };
    let line = |pattern: &HostPattern| {
        let port = match pattern.port() {
            PortPattern::One(port) => port.to_string(),
            PortPattern::Web | PortPattern::Any => "PORT".to_owned(),
        };
        format!(
            "ringfence: {pattern} is the box itself to most programs inside\n\
             {HINT}hint:{HINT:#} --allow-loopback {port} leads to that port of this host\n"
        )
    };
    policy.network.hosts().iter().filter(is_own).map(line).collect()
}

/// Package hosts that are wanted and not granted, and what is not known of them.
pub(super) fn package_notes(packages: &Packages) -> String {
    /// More are counted only.
    const SHOWN: usize = 5;
    let mut notes: String =
        packages.gaps.iter().map(|gap| format!("ringfence: {}\n", one_line(gap))).collect();
    for wanted in packages.wanted.iter().take(SHOWN) {
        let PackageHost { tool, target, source } = wanted;
        notes.push_str(&format!(
            "ringfence: {} names {target} for {tool}, which is not granted\n{HINT}hint:{HINT:#} {} would allow it\n",
            one_line(&source.to_string()),
            target.allow_with()
        ));
    }
    if let Some(more @ 1..) = packages.wanted.len().checked_sub(SHOWN) {
        notes.push_str(&format!(
            "ringfence: {more} more package hosts are not granted, `ringfence explain` lists them\n"
        ));
    }
    notes
}

/// What is about to be run, in one line.
fn summary(prepared: &Prepared) -> String {
    let profiles = match prepared.settings.profiles.as_slice() {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    format!("ringfence: mode {}, profiles {}\n", prepared.settings.mode, one_line(&profiles))
}

fn exit(output: &SandboxOutput) -> Exit {
    match (output.exit_code, output.signal) {
        (Some(status), _) => Exit::Program(status),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_not_taken_for_a_status() {
        let output = |exit_code, signal| SandboxOutput { exit_code, signal, ..SandboxOutput::default() };
        assert_eq!(exit(&output(Some(125), None)), Exit::Program(125));
        assert_eq!(exit(&output(None, Some(15))).code(), 143);
    }
}
