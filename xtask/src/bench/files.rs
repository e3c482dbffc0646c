use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::error::Error;
use crate::tools::{self, capture, describe};

use super::report::{Report, millis, seconds};
use super::rounds::{take_turns, time};
use super::setup::Setup;

/// Steady state: 60,000 opens of a file and 20,000 creations, timed by the probe itself.
pub(crate) fn opens_and_creates(setup: &Setup, report: &mut Report) -> Result<(), Error> {
    let workspace = setup.folder("files")?;
    let probe = setup.probe.to_string_lossy().into_owned();
    for (act, count, what) in
        [("bench-opens", "60000", "60,000 opens"), ("bench-creates", "20000", "20,000 creations")]
    {
        let program = [probe.as_str(), act, ".", count];
        let mut commands = [setup.outside(&workspace, &program), setup.inside(&workspace, &[], &program)];
        let times = take_turns(setup.rounds(30), &mut commands, probe_time)?;
        let [outside, inside] = times[..] else { return Ok(()) };
        report.add(&format!("{what} outside"), millis(outside), "", None, None);
        report.add(&format!("{what} inside"), millis(inside), "outside", ratio(inside, outside), Some(1.05));
    }
    Ok(())
}

/// A real build from nothing, of this repository's own vocabulary crate and its dependencies.
pub(crate) fn build(setup: &Setup, report: &mut Report) -> Result<(), Error> {
    let workspace = setup.folder("build")?;
    copy_tracked_files(&setup.root, &workspace)?;
    let program = ["cargo", "build", "--quiet", "--offline", "--locked", "-p", "ringfence-types"];
    let mut commands = [setup.outside(&workspace, &program), setup.inside(&workspace, &[], &program)];
    for command in &mut commands {
        command.env_remove("CARGO_TARGET_DIR");
    }
    let target = workspace.join("target");
    let times = take_turns(setup.rounds(7), &mut commands, |command| {
        if target.exists() {
            std::fs::remove_dir_all(&target)
                .map_err(|source| Error::Write { path: target.clone(), source })?;
        }
        time(command)
    })?;
    let [outside, inside] = times[..] else { return Ok(()) };
    report.add("`cargo build` outside", seconds(outside), "", None, None);
    report.add("`cargo build` inside", seconds(inside), "outside", ratio(inside, outside), Some(1.02));
    Ok(())
}

/// What the probe measured: `detail.nanoseconds` of its JSON line.
fn probe_time(command: &mut Command) -> Result<Duration, Error> {
    let output = capture(command)?;
    let line: serde_json::Value = serde_json::from_slice(&output).unwrap_or_default();
    line["detail"]["nanoseconds"].as_u64().map(Duration::from_nanos).ok_or_else(|| Error::Output {
        command: describe(command),
        output: String::from_utf8_lossy(&output).into_owned(),
    })
}

/// A workspace of its own, since a build writes into it.
fn copy_tracked_files(root: &Path, to: &Path) -> Result<(), Error> {
    let archive = to.join("source.tar");
    let archive_argument = archive.to_string_lossy();
    tools::run(Command::new("git").current_dir(root).args([
        "archive",
        "--output",
        &archive_argument,
        "HEAD",
    ]))?;
    tools::run(Command::new("tar").current_dir(to).args(["-xf", &archive_argument]))
}

fn ratio(inside: Duration, outside: Duration) -> Option<f64> {
    (!outside.is_zero()).then(|| inside.as_secs_f64() / outside.as_secs_f64())
}
