use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::error::Error;
use crate::tools;

use super::report::{Report, millis};
use super::rounds::{medians, time};
use super::setup::Setup;

const FOLDERS: usize = 1_000;
const FILES_PER_FOLDER: usize = 100;

/// Start in a git repository of 100,000 files: the first run, which searches it for protected paths, and later
/// ones, which use the index, against an empty repository.
pub(crate) fn warm_and_cold(setup: &Setup, report: &mut Report) -> Result<(), Error> {
    let small = setup.folder("small-repository")?;
    let large = setup.folder("large-repository")?;
    for repository in [&small, &large] {
        tools::run(std::process::Command::new("git").args(["init", "--quiet"]).arg(repository))?;
    }
    fill(&large)?;
    let mut commands = [setup.inside(&small, &[], &["true"]), setup.inside(&large, &[], &["true"])];
    let cold: Vec<Duration> = commands.iter_mut().map(time).collect::<Result<_, _>>()?;
    let warm = medians(setup.rounds(200), &mut commands)?;
    let ([cold_small, cold_large], [warm_small, warm_large]) = (&cold[..], &warm[..]) else { return Ok(()) };
    report.add("first run in an empty repository", millis(*cold_small), "", None, None);
    report.add("first run in one of 100,000 files", millis(*cold_large), "", None, None);
    report.add("later run in an empty repository", millis(*warm_small), "", None, None);
    let ratio = warm_large.as_secs_f64() / warm_small.as_secs_f64();
    report.add("later run in one of 100,000 files", millis(*warm_large), "the empty one", Some(ratio), None);
    Ok(())
}

fn fill(root: &Path) -> Result<(), Error> {
    for folder in 0..FOLDERS {
        let folder = root.join(format!("part{}/folder{folder}", folder % 10));
        fs::create_dir_all(&folder).map_err(|source| Error::Write { path: folder.clone(), source })?;
        for file in 0..FILES_PER_FOLDER {
            let file = folder.join(format!("file{file}.txt"));
            fs::write(&file, b"").map_err(|source| Error::Write { path: file.clone(), source })?;
        }
    }
    Ok(())
}
