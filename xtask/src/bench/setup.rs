use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::error::Error;
use crate::tools::{self, cargo};

/// The programs that are measured, and a folder that goes away with it.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) quick: bool,
    /// The repository.
    pub(crate) root: PathBuf,
    pub(crate) ringfence: PathBuf,
    pub(crate) probe: PathBuf,
    /// A host of the library, from `crates/ringfence/examples/bench_host.rs`.
    pub(crate) host: PathBuf,
    temp: TempDir,
}

impl Setup {
    /// Builds with optimisation what is measured.
    pub(crate) fn new(root: &Path, quick: bool) -> Result<Self, Error> {
        tools::run(cargo(root).args(["build", "--release", "-p", "ringfence-cli", "-p", "ringfence-probe"]))?;
        tools::run(cargo(root).args(["build", "--release", "-p", "ringfence", "--example", "bench_host"]))?;
        let release = target_directory(root)?.join("release");
        let temp = TempDir::with_prefix("ringfence-bench-")
            .map_err(|source| Error::Write { path: std::env::temp_dir(), source })?;
        let setup = Self {
            quick,
            root: root.to_path_buf(),
            ringfence: release.join("ringfence"),
            probe: release.join("ringfence-probe"),
            host: release.join("examples/bench_host"),
            temp,
        };
        setup.folder("home")?;
        setup.folder("empty")?;
        Ok(setup)
    }

    /// A folder below the temporary one, made if it is missing.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.temp.path().join(name);
        std::fs::create_dir_all(&path).map_err(|source| Error::Write { path: path.clone(), source })?;
        Ok(path)
    }

    /// `rounds`, or a tenth of it for a quick look.
    pub(crate) fn rounds(&self, rounds: usize) -> usize {
        if self.quick { (rounds / 10).max(3) } else { rounds }
    }

    /// `ringfence run OPTIONS -- PROGRAM…` in `workspace`, with state of its own.
    pub(crate) fn inside(&self, workspace: &Path, options: &[&str], program: &[&str]) -> Command {
        let mut command = Command::new(&self.ringfence);
        command.arg("run").args(options).arg("--").args(program);
        self.set_up(&mut command, workspace);
        command
    }

    /// The same program without a box, in the same folder and environment.
    pub(crate) fn outside(&self, workspace: &Path, program: &[&str]) -> Command {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]);
        self.set_up(&mut command, workspace);
        command
    }

    pub(crate) fn set_up(&self, command: &mut Command, workspace: &Path) {
        command.current_dir(workspace).env("RINGFENCE_HOME", self.temp.path().join("home"));
    }
}

/// Where cargo puts what it builds.
fn target_directory(root: &Path) -> Result<PathBuf, Error> {
    let mut command = cargo(root);
    command.args(["metadata", "--format-version", "1", "--no-deps"]);
    let output = tools::capture(&mut command)?;
    let metadata: serde_json::Value = serde_json::from_slice(&output).unwrap_or_default();
    metadata["target_directory"].as_str().map(PathBuf::from).ok_or_else(|| Error::Output {
        command: tools::describe(&command),
        output: String::from_utf8_lossy(&output).into_owned(),
    })
}
