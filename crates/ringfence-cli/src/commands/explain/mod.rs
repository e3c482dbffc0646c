//! `ringfence explain`: the plan of a run, without the run.

mod layers;
mod mounts;
mod report;
mod text;

use std::ffi::OsString;

use ringfence::LaunchPlan;
use ringfence_plan::LinuxPlan;
use ringfence_types::{EnvVar, UnixPath};

use super::prepare::{Purpose, prepare};
use super::run::{loopback_hosts, missing_grants, package_notes};
use crate::args::{ExplainArgs, Target};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{print_json, print_note, print_text};
use crate::request::Request;
use report::{ExplainReport, PlanReport, PolicyReport};
use text::Subject;

pub(crate) fn explain(args: &ExplainArgs) -> Result<Exit, CliError> {
    available(args.target)?;
    let request = Request::new(&args.policy, &args.network, &args.limits, &args.setup)?;
    let prepared = prepare(&request, Purpose::Explain)?;
    let (program, rest) = match args.program.split_first() {
        Some((program, rest)) => (program.clone(), rest),
        // The plan does not depend on it.
        None => (OsString::from("true"), &[][..]),
    };
    let command = prepared.command(&request, program, rest);
    let explanation = prepared
        .sandbox
        .explain(command)
        .map_err(|source| CliError::Sandbox { session: prepared.session.to_string(), source })?;
    if !request.quiet {
        print_note(&missing_grants(&explanation.policy));
        print_note(&loopback_hosts(&explanation.policy));
        print_note(&package_notes(&prepared.settings.packages));
    }
    let LaunchPlan::Linux(plan) = &explanation.plan;
    let settings = &prepared.settings;
    let variables = variables(plan, &settings.env);
    if args.json {
        let policy = PolicyReport::new(settings, &explanation.policy);
        let layers = layers::of(&explanation.policy, plan);
        let plan = PlanReport::new(plan, &variables);
        print_json(&ExplainReport::new(explanation.backend, layers, policy, plan))?;
    } else {
        print_text(&text::render(&Subject {
            backend: explanation.backend,
            mode: settings.mode.as_str(),
            profiles: &settings.profiles,
            packages: &settings.packages,
            program: (!args.program.is_empty()).then(|| shown(&args.program)),
            policy: &explanation.policy,
            beyond: &explanation.beyond,
            plan,
            variables: &variables,
            all: request.verbose,
        }))?;
    }
    Ok(Exit::Success)
}

/// The object of `explain --json` for an error.
pub(crate) fn failed(error: &CliError) -> ExplainReport<'static> {
    ExplainReport {
        target: None,
        backend: None,
        policy: None,
        plan: None,
        layers: Vec::new(),
        error: Some(error.into()),
    }
}

fn available(target: Target) -> Result<(), CliError> {
    let option = match target {
        Target::Linux => return Ok(()),
        Target::Macos => "`--target macos`",
        Target::Windows => "`--target windows`",
    };
    Err(CliError::NotAvailable {
        option,
        missing: "only Linux plans are made",
        hint: "use `--target linux`, or leave the option out",
    })
}

/// Names of the variables that the program would have, in order and each once.
fn variables(plan: &LinuxPlan, own: &[EnvVar]) -> Vec<UnixPath> {
    let host = plan.env_host.iter().chain(&plan.env_forced).map(|(name, _)| name.clone());
    let own = own.iter().map(|(name, _)| UnixPath::new(name.as_encoded_bytes()));
    let mut names: Vec<UnixPath> = host.chain(own).collect();
    names.sort();
    names.dedup();
    names
}

/// Program and arguments as a shell would take them.
fn shown(argv: &[OsString]) -> String {
    let word = |word: &OsString| {
        let text = UnixPath::new(word.as_encoded_bytes()).to_string();
        let plain = text.chars().all(|c| c.is_alphanumeric() || "/._-+:@%,=".contains(c));
        if plain && !text.is_empty() { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
    };
    argv.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_split_them() {
        let argv = ["sh", "-c", "echo 'a b'", ""].map(OsString::from);
        assert_eq!(shown(&argv), r"sh -c 'echo '\''a b'\''' ''");
    }

    #[test]
    fn other_systems_are_refused_by_name() {
        assert!(available(Target::Linux).is_ok());
        for (target, name) in [(Target::Macos, "macos"), (Target::Windows, "windows")] {
            let error = available(target).unwrap_err();
            assert_eq!(error.kind(), "unsupported_policy");
            assert!(error.message().contains(name));
        }
    }
}
