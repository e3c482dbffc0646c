//! Runs the fuzz targets for a bounded time, with the corpus as seeds.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::error::Error;
use crate::tools;

/// Packages of fuzz targets; none is a member of the workspace.
const POLICY: &str = "crates/ringfence-policy/fuzz";
const POLICY_TARGETS: [&str; 3] = ["normaliser", "rules", "encoded"];
const POLICY_SEEDS: &str = "crates/ringfence-policy/tests/data/commands.jsonl";
/// The files below `seeds/TARGET` are the seeds.
const PROXY: &str = "crates/ringfence-proxy/fuzz";
const PROXY_TARGETS: [&str; 5] = ["head", "socks", "client_hello", "dns", "host_pattern"];
const TRIPLE: &str = "x86_64-unknown-linux-gnu";
/// What `cargo fuzz` gives the compiler: coverage for libFuzzer and the address sanitizer.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Zsanitizer=address -Ccodegen-units=1 --cfg fuzzing -Cdebug-assertions";

/// Each target for `seconds`, from libFuzzer's own `seed` if it is given. Without a nightly compiler nothing is run,
/// and that is said.
pub(crate) fn run(root: &Path, seconds: u32, seed: Option<u32>) -> Result<(), Error> {
    if !has_nightly() {
        println!(
            "fuzz: skipped, no nightly compiler; crates/ringfence-policy/tests/laws.rs and \
             crates/ringfence-proxy/tests/properties.rs have the bounded checks"
        );
        return Ok(());
    }
    let scratch = tempfile::tempdir()
        .map_err(|source| Error::Write { path: "a temporary directory".into(), source })?;
    let mut limits = vec![format!("-max_total_time={seconds}")];
    limits.extend(seed.map(|seed| format!("-seed={seed}")));
    let target = root.join("target/fuzz");
    build(root, POLICY, &target)?;
    let seeds = seeds(root)?;
    for name in POLICY_TARGETS {
        let corpus = scratch.path().join(name);
        write_seeds(&corpus, &seeds)?;
        fuzz(&target, name, &limits, scratch.path(), &[&corpus])?;
    }
    build(root, PROXY, &target)?;
    for name in PROXY_TARGETS {
        let corpus = scratch.path().join(name);
        write_seeds(&corpus, &[])?;
        let seeds = root.join(PROXY).join("seeds").join(name);
        fuzz(&target, name, &limits, scratch.path(), &[&corpus, &seeds])?;
    }
    Ok(())
}

fn build(root: &Path, folder: &str, target: &Path) -> Result<(), Error> {
    tools::run(
        Command::new("rustup")
            .args(["run", "nightly", "cargo", "build", "--release", "--target", TRIPLE])
            .current_dir(root.join(folder))
            .env("CARGO_TARGET_DIR", target)
            .env("RUSTFLAGS", FLAGS)
            // The compiler that runs this would be taken otherwise.
            .env_remove("RUSTUP_TOOLCHAIN")
            .env_remove("CARGO"),
    )
}

/// What is found goes to the first folder of the corpus, an input that fails to `scratch`.
fn fuzz(target: &Path, name: &str, limits: &[String], scratch: &Path, corpus: &[&Path]) -> Result<(), Error> {
    println!("\n== fuzz {name} {}", limits.join(" "));
    tools::run(
        Command::new(target.join(TRIPLE).join("release").join(name))
            .args(corpus)
            .args(limits)
            .args(["-max_len=4096", "-timeout=10", "-rss_limit_mb=2048", "-verbosity=0"])
            .current_dir(scratch),
    )
}

fn has_nightly() -> bool {
    Command::new("rustup")
        .args(["run", "nightly", "rustc", "--version"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The last word of each line of the corpus, or its standard input.
fn seeds(root: &Path) -> Result<Vec<String>, Error> {
    let path = root.join(POLICY_SEEDS);
    let text = fs::read_to_string(&path).map_err(|source| Error::Read { path, source })?;
    let seed = |line: &str| {
        let case: Value = line.parse().ok()?;
        let last = case["argv"].as_array().and_then(|words| words.last()?.as_str());
        last.or(case["stdin"].as_str()).map(str::to_owned)
    };
    Ok(text.lines().filter_map(seed).collect())
}

fn write_seeds(folder: &Path, seeds: &[String]) -> Result<(), Error> {
    fs::create_dir(folder).map_err(|source| Error::Write { path: folder.to_path_buf(), source })?;
    for (at, seed) in seeds.iter().enumerate() {
        let path = folder.join(at.to_string());
        fs::write(&path, seed).map_err(|source| Error::Write { path, source })?;
    }
    Ok(())
}
