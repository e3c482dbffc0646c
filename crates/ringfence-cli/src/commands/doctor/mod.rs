//! `ringfence doctor`: what this host can enforce, found out by doing it.

mod diagnose;
mod host;
mod probe;

use std::env;
use std::path::Path;

use anstyle::{AnsiColor, Style};
use ringfence_types::{Layer, LayerName, LayerStatus};
use serde::Serialize;

use crate::args::DoctorArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{HEADING, HINT, Table, one_line, print_json, print_text, status_style, status_word};
use diagnose::Advice;
use host::Host;
use probe::Outcome;

/// The object of `doctor --json`.
#[derive(Debug, Serialize)]
struct DoctorReport {
    backends: Vec<BackendReport>,
    layers: Vec<LayerFinding>,
    /// Name of the backend that `--backend auto` arrives at.
    default: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct BackendReport {
    name: &'static str,
    usable: bool,
    why: String,
    fix: Option<String>,
}

#[derive(Debug, Serialize)]
struct LayerFinding {
    name: LayerName,
    status: LayerStatus,
    why: String,
    fix: Option<String>,
}

pub(crate) fn doctor(args: &DoctorArgs) -> Result<Exit, CliError> {
    let host = Host::gather(Path::new("/"), |name| env::var_os(name));
    let report = examine(&try_native(), &host);
    if args.json {
        print_json(&report)?;
    } else {
        print_text(&render(&report))?;
    }
    Ok(if report.default.is_some() { Exit::Success } else { Exit::Negative })
}

fn try_native() -> Outcome {
    let workspace = tempfile::Builder::new().prefix("ringfence-doctor-").tempdir();
    match (env::current_exe(), workspace) {
        (Ok(ringfence), Ok(workspace)) => probe::default_run(&ringfence, workspace.path()),
        (Err(error), _) | (_, Err(error)) => probe::failed(format!("cannot prepare the trial: {error}")),
    }
}

fn examine(native: &Outcome, host: &Host) -> DoctorReport {
    let usable = native.failure.is_none();
    let advice = match &native.failure {
        Some(failure) => diagnose::native(failure, host),
        None => Advice { why: "ran a program in the default box".to_owned(), fix: None },
    };
    let layers = LayerName::ALL.iter().map(|&name| finding(name, native, &advice, host)).collect();
    DoctorReport {
        backends: vec![
            BackendReport { name: "native", usable, why: advice.why, fix: advice.fix },
            not_built_in("bwrap"),
            not_built_in("landlock"),
        ],
        layers,
        default: usable.then_some("native"),
    }
}

/// A backend that `--backend` knows and this version has not. There is nothing to fix on the host.
fn not_built_in(name: &'static str) -> BackendReport {
    BackendReport { name, usable: false, why: "not built into this version".to_owned(), fix: None }
}

/// What a layer's part in the trial was.
fn finding(name: LayerName, native: &Outcome, advice: &Advice, host: &Host) -> LayerFinding {
    let known = native.layers.iter().find(|layer| layer.name == name);
    let Layer { status, detail, .. } = match (known, &native.failure) {
        (Some(layer), _) => layer.clone(),
        (None, None) => Layer { name, status: LayerStatus::NotRequested, detail: unused(name).to_owned() },
        (None, Some(_)) => {
            Layer { name, status: LayerStatus::Missing, detail: "the trial did not get that far".to_owned() }
        }
    };
    let fix = match (known, &native.failure) {
        (None, Some(_)) => advice.fix.clone(),
        _ => diagnose::layer_fix(&Layer { name, status, detail: detail.clone() }, host),
    };
    let why = match diagnose::home_note(host).filter(|_| name == LayerName::MountNs) {
        Some(note) if detail.is_empty() => note,
        Some(note) => format!("{detail}; {note}"),
        None => detail,
    };
    LayerFinding { name, status, why, fix }
}

fn unused(name: LayerName) -> &'static str {
    match name {
        LayerName::Cgroup => "limits of memory, processes and processors are not available yet",
        _ => "the default policy has no need of it",
    }
}

fn render(report: &DoctorReport) -> String {
    let mut out = format!("{HEADING}Backends{HEADING:#}\n");
    let mut table = Table::default();
    for backend in &report.backends {
        let (word, style) = match backend.usable {
            true => ("works", AnsiColor::Green.on_default()),
            false => ("missing", AnsiColor::Red.on_default()),
        };
        table.row([(backend.name, Style::new()), (word, style), (&backend.why, Style::new())]);
    }
    out.push_str(&table.render());
    out.push_str(&format!("\n{HEADING}Layers of the default box{HEADING:#}\n"));
    let mut table = Table::default();
    for layer in &report.layers {
        table.row([
            (layer.name.as_str(), Style::new()),
            (status_word(layer.status), status_style(layer.status)),
            (&layer.why, Style::new()),
        ]);
    }
    out.push_str(&table.render());
    let mut fixes: Vec<&str> = report.backends.iter().filter_map(|backend| backend.fix.as_deref()).collect();
    fixes.extend(report.layers.iter().filter_map(|layer| layer.fix.as_deref()));
    let mut said = Vec::new();
    fixes.retain(|fix| {
        !said.contains(fix) && {
            said.push(fix);
            true
        }
    });
    if !fixes.is_empty() {
        out.push('\n');
    }
    for fix in fixes {
        out.push_str(&format!("{HINT}hint:{HINT:#} {}\n", one_line(fix)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use probe::Failure;

    fn layer(name: LayerName, status: LayerStatus, detail: &str) -> Layer {
        Layer { name, status, detail: detail.to_owned() }
    }

    #[test]
    fn a_trial_that_worked_gives_the_default_backend() {
        let host = Host { kernel: "6.1.0".to_owned(), ..Host::default() };
        let outcome = Outcome {
            layers: vec![
                layer(LayerName::MountNs, LayerStatus::Enforced, ""),
                layer(LayerName::Landlock, LayerStatus::Partial, "ABI 2"),
            ],
            failure: None,
        };
        let report = examine(&outcome, &Host { network_home: Some("nfs4".to_owned()), ..host });
        assert_eq!(report.default, Some("native"));
        assert_eq!(report.layers.len(), LayerName::ALL.len());
        let of = |name| report.layers.iter().find(|layer| layer.name == name).unwrap();
        assert_eq!(of(LayerName::Cgroup).status, LayerStatus::NotRequested);
        assert!(of(LayerName::MountNs).why.contains("nfs4"));
        assert!(of(LayerName::Landlock).fix.as_ref().unwrap().contains("6.12"));
        let text = anstream::adapter::strip_str(&render(&report)).to_string();
        assert!(text.contains("native    works"), "{text}");
        let backends: Vec<_> = report.backends.iter().map(|backend| (backend.name, backend.usable)).collect();
        assert_eq!(backends, [("native", true), ("bwrap", false), ("landlock", false)]);
        assert!(!of(LayerName::Proxy).why.contains("not available"));
        assert!(text.contains("landlock     partly      ABI 2"), "{text}");
    }

    #[test]
    fn a_trial_that_failed_names_its_fix_once() {
        let failure =
            Failure { step: Some("clone".to_owned()), message: "step clone failed".to_owned(), hint: None };
        let host = Host { namespaces_max: Some(("user", 0)), uid: Some(1000), ..Host::default() };
        let report = examine(&Outcome { layers: Vec::new(), failure: Some(failure) }, &host);
        assert_eq!(report.default, None);
        assert!(report.layers.iter().all(|layer| layer.status == LayerStatus::Missing));
        let text = anstream::adapter::strip_str(&render(&report)).to_string();
        assert_eq!(text.matches("sysctl -w user.max_user_namespaces").count(), 1, "{text}");
    }
}
