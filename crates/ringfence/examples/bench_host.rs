//! What a call costs in a host of a given size: `bench_host [MIB [RUNS [LAUNCHER]]]`, by default 1024 MiB resident, 200
//! runs of `true` with the `workspace-write` preset, and this program as the launcher.
//!
//! Prints `name<TAB>median microseconds` for plain fork and exec, and for the library. The two alternate, so
//! that whatever else the machine does falls on both.

#![allow(clippy::print_stdout, reason = "its output is its result")]

use std::error::Error;
use std::hint::black_box;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringfence::{
    HostEnv, Lifetime, LinuxDriver, Mode, RunOptions, Sandbox, SandboxCommand, SandboxConfig, SandboxParts,
    SessionSettings, SessionStart, WorkspaceSandbox,
};

const PAGE: usize = 4096;

fn main() -> Result<(), Box<dyn Error>> {
    ringfence::init();
    let mut args = std::env::args().skip(1);
    let mib: usize = args.next().map_or(Ok(1024), |text| text.parse())?;
    let runs: usize = args.next().map_or(Ok(200), |text| text.parse())?;
    let launcher = args.next();
    if runs == 0 {
        return Err("runs must be at least 1".into());
    }

    let mut resident = vec![0_u8; mib << 20];
    // An untouched page takes no memory.
    resident.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    let (plain, library) = runtime.block_on(measure(runs, launcher.as_deref()))?;
    black_box(&resident);

    println!("fork_exec\t{}", median(plain).as_micros());
    println!("library\t{}", median(library).as_micros());
    Ok(())
}

async fn measure(
    runs: usize,
    launcher: Option<&str>,
) -> Result<(Vec<Duration>, Vec<Duration>), Box<dyn Error>> {
    let base = std::env::temp_dir().join(format!("ringfence-bench-{}", std::process::id()));
    let workspace = base.join("workspace");
    std::fs::create_dir_all(&workspace)?;
    let result = alternate(runs, &base, launcher).await;
    std::fs::remove_dir_all(&base)?;
    result
}

async fn alternate(
    runs: usize,
    base: &std::path::Path,
    launcher: Option<&str>,
) -> Result<(Vec<Duration>, Vec<Duration>), Box<dyn Error>> {
    let mut config = SandboxConfig::new(base.join("home"));
    config.rate_limit.enabled = false;
    let options = RunOptions { mode: Some(Mode::WorkspaceWrite), ..RunOptions::default() };
    let workspace = base.join("workspace");
    let settings = SessionSettings::resolve(&config, &HostEnv::current(), &workspace, &options)?;
    let capabilities = settings.policy.baseline.clone();
    config.session = Some(settings);
    let mut parts = SandboxParts::default();
    if let Some(launcher) = launcher {
        parts.driver = Some(Arc::new(LinuxDriver::with_launcher(launcher)));
    }
    let sandbox = WorkspaceSandbox::new(&config, parts)?;
    let start =
        SessionStart { directory: Some(workspace), lifetime: Lifetime::Run, ..SessionStart::default() };
    sandbox.start_session(&"bench".into(), start)?;

    let (mut plain, mut library) = (Vec::new(), Vec::new());
    for run in 0..=runs {
        let begun = Instant::now();
        let status =
            Command::new("true").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        let bare = begun.elapsed();

        let command = SandboxCommand::new("bench", "true").capabilities(capabilities.clone());
        let begun = Instant::now();
        let output = sandbox.execute(command).await?;
        let boxed = begun.elapsed();

        if !status.success() || output.exit_code != Some(0) {
            return Err(format!("true failed: {status}, {:?}", output.exit_code).into());
        }
        // The first run warms caches.
        if run > 0 {
            plain.push(bare);
            library.push(boxed);
        }
    }
    Ok((plain, library))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
