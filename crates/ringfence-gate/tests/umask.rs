//! A umask that takes the owner's own rights away. It belongs to the process, so this file holds one test.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use common::{Fixture, block_on, command};
use ringfence_gate::{ApprovalGate, Gate, GateConfig};
use ringfence_types::SandboxCapabilities;

#[test]
fn a_umask_of_everything_locks_nobody_out() {
    let directory = tempfile::tempdir().unwrap();
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o777));
    let home = directory.path().join("deep/home");
    let gate = Gate::new(GateConfig::new(&home), ApprovalGate::new(None)).unwrap();
    let fixture = Fixture { directory, gate: gate.into() };
    for _ in 0..2 {
        block_on(fixture.permit(command("true", SandboxCapabilities::strict()))).unwrap();
    }
    let again = Gate::new(GateConfig::new(&home), ApprovalGate::new(None)).unwrap();
    again.sessions().open(&"session".into()).unwrap();

    let mut pending: Vec<PathBuf> = vec![home];
    let mut seen = 0;
    while let Some(path) = pending.pop() {
        seen += 1;
        let metadata = path.metadata().unwrap();
        let needed = if metadata.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(metadata.mode() & 0o777, needed, "{}", path.display());
        if metadata.is_dir() {
            pending.extend(path.read_dir().unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    assert!(seen > 5, "home, workspaces, state, locks, temp and what they hold");
}
