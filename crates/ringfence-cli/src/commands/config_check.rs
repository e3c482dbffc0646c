//! `ringfence config check`

use std::env;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use ringfence::HostEnv;
use ringfence::config::{ConfigError, Sources};
use serde::Serialize;

use crate::args::ConfigCheckArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{one_line, print_json, print_text};

/// The object of `config check --json`.
#[derive(Debug, Serialize)]
struct CheckReport {
    /// Files without a problem.
    files: Vec<String>,
    problems: Vec<ProblemReport>,
}

#[derive(Debug, Serialize)]
struct ProblemReport {
    path: Option<String>,
    line: Option<usize>,
    key: Option<String>,
    message: String,
    hint: Option<String>,
}

pub(crate) fn config_check(args: &ConfigCheckArgs) -> Result<Exit, CliError> {
    let host = HostEnv::current();
    let workspace = if args.file.is_none() { env::current_dir().ok() } else { None };
    let report = check(&host, args.file.as_deref(), workspace.as_deref());
    if args.json {
        print_json(&report)?;
    } else {
        print_text(&render(&report))?;
    }
    Ok(if report.problems.is_empty() { Exit::Success } else { Exit::Negative })
}

fn check(host: &HostEnv, file: Option<&Path>, workspace: Option<&Path>) -> CheckReport {
    let report = |files: Vec<PathBuf>, problems| CheckReport {
        files: files.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
        problems,
    };
    match (Sources { host, file, workspace }).load() {
        Ok(loaded) => report(loaded.files, Vec::new()),
        Err(error) => report(Vec::new(), problems(&error)),
    }
}

fn problems(error: &ConfigError) -> Vec<ProblemReport> {
    let ConfigError::Invalid { path, problems } = error else {
        let message = crate::error::chain(error);
        return vec![ProblemReport { path: None, line: None, key: None, message, hint: error.hint() }];
    };
    let report = |problem: &ringfence::config::Problem| ProblemReport {
        path: Some(path.to_string_lossy().into_owned()),
        line: Some(problem.line),
        key: Some(problem.key.clone()).filter(|key| !key.is_empty()),
        message: problem.to_string(),
        hint: problem.hint(),
    };
    problems.iter().map(report).collect()
}

fn render(report: &CheckReport) -> String {
    let mut out = String::new();
    for path in &report.files {
        let _ = writeln!(out, "{}: no problem", one_line(path));
    }
    for problem in &report.problems {
        let place = problem.path.as_ref().map(|path| format!("{path}: ")).unwrap_or_default();
        let _ = writeln!(out, "{}", one_line(&format!("{place}{}", problem.message)));
    }
    if report.files.is_empty() && report.problems.is_empty() {
        out.push_str("no config file: the defaults are in force\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(home: &Path) -> HostEnv {
        HostEnv::new(vec![("RINGFENCE_HOME".into(), home.into())], 1000, PathBuf::from("/nonexistent"))
    }

    #[test]
    fn names_every_problem_of_a_file_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.toml");
        std::fs::write(&file, "[sandbox]\nenabeld = true\nmax_output_bytes = \"1M\"\n").unwrap();
        let report = check(&host(dir.path()), None, None);
        let lines: Vec<_> = report.problems.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [Some(2), Some(3)]);
        assert!(render(&report).contains("config.toml: line 2: unknown key `sandbox.enabeld`"));
        assert!(report.problems[0].hint.as_ref().unwrap().contains("enabled"));
    }

    #[test]
    fn no_file_is_no_problem_unless_it_was_named() {
        let dir = tempfile::tempdir().unwrap();
        let report = check(&host(dir.path()), None, Some(dir.path()));
        assert_eq!(render(&report), "no config file: the defaults are in force\n");
        let missing = dir.path().join("missing.toml");
        assert_eq!(check(&host(dir.path()), Some(&missing), None).problems.len(), 1);
    }
}
