//! What protected paths cost before and after a run, by the size of the workspace.
//!
//! `cargo bench -p ringfence-gate --bench protected`

#![allow(clippy::unwrap_used, missing_docs, reason = "a bench that can't go on stops")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use ringfence_gate::protected::{Found, Pending, Settings, UserGit, final_look, search};

/// A repository with so many directories of so many files each, and a state directory.
struct Workspace {
    _temp: tempfile::TempDir,
    roots: Vec<PathBuf>,
    state: PathBuf,
}

impl Workspace {
    fn new(directories: usize, files: usize) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        let root = base.join("root");
        fs::create_dir(&root).unwrap();
        let git = Command::new("git").args(["init", "-q"]).current_dir(&root).env_clear().status().unwrap();
        assert!(git.success());
        for directory in 0..directories {
            let dir = root.join(format!("{}/{}/{directory}", directory % 10, directory / 10 % 10));
            fs::create_dir_all(&dir).unwrap();
            for file in 0..files {
                fs::write(dir.join(file.to_string()), "").unwrap();
            }
        }
        // Past the grain of the kernel's clock, as after any ordinary pause.
        std::thread::sleep(Duration::from_millis(50));
        Self { _temp: temp, roots: vec![root], state: base.join("state") }
    }

    fn search(&self, settings: &Settings, state: Option<&Path>) -> Found {
        search(&self.roots, &[], settings, state).unwrap()
    }

    fn warm(&self) -> Found {
        self.search(&settings(), Some(&self.state))
    }
}

fn settings() -> Settings {
    Settings {
        exhaustive: false,
        search_ms: 60_000,
        user: UserGit::from_environment(),
        ..Settings::default()
    }
}

fn protected(criterion: &mut Criterion) {
    let sizes = [(10, 10), (1_000, 100), (10_000, 10)];
    let workspaces = sizes.map(|(directories, files)| (directories, Workspace::new(directories, files)));
    let mut group = criterion.benchmark_group("protected");
    group.sample_size(30);
    for (directories, workspace) in &workspaces {
        let id = |what: &str| BenchmarkId::new(what, directories);
        let found = workspace.warm();
        group.bench_function(id("search_warm"), |bench| bench.iter(|| workspace.warm()));
        group.bench_function(id("search_stale"), |bench| {
            let settings = Settings { recheck_seconds: 0, ..settings() };
            bench.iter(|| workspace.search(&settings, Some(&workspace.state)));
        });
        group.bench_function(id("search_cold"), |bench| bench.iter(|| workspace.search(&settings(), None)));
        group.bench_function(id("note"), |bench| {
            let quarantine = workspace.state.join("quarantine");
            bench.iter(|| Pending::begin(&found.snapshot, &quarantine, &workspace.state).unwrap());
        });
        group.bench_function(id("look"), |bench| {
            bench.iter_batched(
                || workspace.warm(),
                |found| final_look(&found.snapshot),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, protected);
criterion_main!(benches);
