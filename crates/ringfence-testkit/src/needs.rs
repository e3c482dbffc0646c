use std::process::{Command, Stdio};

use crate::{Binaries, Caller};

/// Names the requirements (joined by commas, or `all`) whose absence is a failure instead of a skip.
pub const MUST_HAVE: &str = "RINGFENCE_MUST_HAVE";

/// Leaves the test (or, with `else VALUE;`, returns that value) with a printed reason unless everything named is
/// there.
///
/// Names: `root`, `unprivileged-user`, `userns`, `landlock`, `i386`, or any program, searched in `PATH`.
#[macro_export]
macro_rules! needs {
    ($binaries:expr; else $value:expr; $($name:literal),+ $(,)?) => {
        if !$crate::met($binaries, &[$($name),+]) {
            return $value;
        }
    };
    ($binaries:expr; $($name:literal),+ $(,)?) => {
        $crate::needs!($binaries; else (); $($name),+)
    };
}

/// Whether all that is named is there. What is missing is printed.
///
/// # Panics
/// If [`MUST_HAVE`] names what is missing.
pub fn met(binaries: &Binaries, names: &[&str]) -> bool {
    let missing: Vec<_> =
        names.iter().filter_map(|name| check(binaries, name).err().map(|why| (*name, why))).collect();
    let must = std::env::var(MUST_HAVE).unwrap_or_default();
    for (name, why) in &missing {
        let required = must.split(',').any(|entry| entry == "all" || entry == *name);
        assert!(!required, "{MUST_HAVE} names `{name}`, but {why}");
        eprintln!("SKIP: needs {name}: {why}");
    }
    missing.is_empty()
}

fn check(binaries: &Binaries, name: &str) -> Result<(), String> {
    match name {
        "root" => Caller::all().contains(&Caller::Root).then_some(()).ok_or_else(|| "not root".to_owned()),
        "unprivileged-user" => probe(binaries, Caller::User, &["none"]),
        "userns" => {
            Caller::all().into_iter().try_for_each(|caller| probe(binaries, caller, &["clone", "user"]))
        }
        "landlock" => probe(binaries, Caller::User, &["syscall", "landlock_create_ruleset", "0", "0", "1"]),
        "i386" => probe(binaries, Caller::User, &["syscall-i386"]),
        program => find(program),
    }
}

fn probe(binaries: &Binaries, caller: Caller, act: &[&str]) -> Result<(), String> {
    let output = caller
        .command(&binaries.probe)
        .args(act)
        .current_dir("/")
        .output()
        .map_err(|error| format!("the probe can't be started as {caller:?}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if text.contains(r#""result":"allowed""#) {
        Ok(())
    } else {
        Err(format!("{caller:?} gets {}", text.trim()))
    }
}

fn find(program: &str) -> Result<(), String> {
    let status = Command::new("sh")
        .args(["-c", "command -v \"$1\"", "sh", program])
        .stdout(Stdio::null())
        .status()
        .map_err(|error| format!("sh can't be started: {error}"))?;
    if status.success() { Ok(()) } else { Err("not in PATH".to_owned()) }
}
