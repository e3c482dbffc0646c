use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::tools::describe;

use super::report::{Report, mebibytes, millis};
use super::rounds::median;
use super::setup::Setup;

/// Runs at the same time: whether the cost stays linear, and what each supervisor keeps in memory.
pub(crate) fn runs(setup: &Setup, report: &mut Report) -> Result<(), Error> {
    let workspace = setup.folder("empty")?;
    let mut per_run = Vec::new();
    for count in [50, 200] {
        let samples: Result<Vec<_>, Error> = (0..setup.rounds(50).min(5))
            .map(|_| {
                let start = Instant::now();
                let children = spawn(count, || setup.inside(&workspace, &[], &["true"]))?;
                wait(children)?;
                Ok(start.elapsed())
            })
            .collect();
        let total = median(samples?);
        let each = total / u32::try_from(count).unwrap_or(u32::MAX);
        per_run.push(each);
        let ratio = (per_run.len() > 1).then(|| each.as_secs_f64() / per_run[0].as_secs_f64());
        let text = format!("{}, {} a run", millis(total), millis(each));
        report.add(
            &format!("{count} runs at once"),
            text,
            if ratio.is_some() { "a run of 50" } else { "" },
            ratio,
            None,
        );
    }
    memory(setup, report, "", &[])?;
    // Nobody asks for this host: what a proxy costs that has nothing to do.
    memory(setup, report, ", with a proxy", &["--allow-host", "a.invalid"])
}

/// Proportional set size of each supervisor while 200 programs sleep inside.
fn memory(setup: &Setup, report: &mut Report, kind: &str, options: &[&str]) -> Result<(), Error> {
    let workspace = setup.folder("empty")?;
    let children = spawn(200, || setup.inside(&workspace, options, &["sleep", "6"]))?;
    // All of them are up when each has its program below it.
    let deadline = Instant::now() + Duration::from_secs(4);
    while Instant::now() < deadline && !children.iter().all(|(child, _)| started(child.id())) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut sizes: Vec<u64> = Vec::new();
    let mut with_init: Vec<u64> = Vec::new();
    for (child, _) in &children {
        let supervisor = proportional_kib(child.id())?;
        let init = children_of(child.id()).into_iter().map(proportional_kib).sum::<Result<u64, _>>()?;
        sizes.push(supervisor);
        with_init.push(supervisor + init);
    }
    wait(children)?;
    for (what, mut kib) in [("supervisor", sizes), ("supervisor and PID 1 of the box", with_init)] {
        kib.sort_unstable();
        let middle = kib[kib.len() / 2];
        let bar = (what == "supervisor").then_some(2.0);
        let text = mebibytes(middle);
        report.add(
            &format!("memory of 200 runs{kind}, each: {what}"),
            text,
            "MiB",
            Some(middle as f64 / 1024.0),
            bar,
        );
    }
    Ok(())
}

fn spawn(count: usize, command: impl Fn() -> Command) -> Result<Vec<(Child, String)>, Error> {
    (0..count)
        .map(|_| {
            let mut command = command();
            command.stdin(Stdio::null()).stdout(Stdio::null());
            let text = describe(&command);
            let child = command.spawn().map_err(|source| Error::Start { command: text.clone(), source })?;
            Ok((child, text))
        })
        .collect()
}

fn wait(children: Vec<(Child, String)>) -> Result<(), Error> {
    for (mut child, command) in children {
        let status = child.wait().map_err(|source| Error::Start { command: command.clone(), source })?;
        if !status.success() {
            return Err(Error::Failed { command, status });
        }
    }
    Ok(())
}

/// Whether the supervisor's child has a child of its own.
fn started(supervisor: u32) -> bool {
    children_of(supervisor).into_iter().any(|init| !children_of(init).is_empty())
}

fn children_of(process: u32) -> Vec<u32> {
    let path = format!("/proc/{process}/task/{process}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

/// `Pss` of proc_pid_smaps(5): private pages, and each shared one divided by the number of its users.
pub(super) fn proportional_kib(process: u32) -> Result<u64, Error> {
    let path = std::path::PathBuf::from(format!("/proc/{process}/smaps_rollup"));
    let text = fs::read_to_string(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
    text.lines()
        .find_map(|line| line.strip_prefix("Pss:")?.trim().strip_suffix("kB")?.trim().parse().ok())
        .ok_or(Error::Marker { path, marker: "Pss:" })
}
