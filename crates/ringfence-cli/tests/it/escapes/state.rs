//! What the program finds itself with: environment, privileges, identity, files of the host's that a private one
//! replaces.

use libc::{EACCES, ENOENT};
use ringfence_testkit::{Caller, Fixture};
use serde_json::{Value, json};

use super::SECRET;
use super::row::{Closed, Row, Setup, row};

const fn state(
    name: &'static str,
    spec: &'static str,
    act: &'static [&'static str],
    holds: fn(&Value) -> bool,
) -> Row {
    row(name, spec, act, Closed::State(holds))
}

fn no_secret(detail: &Value) -> bool {
    !detail.to_string().contains(SECRET)
}

/// Whether a hexadecimal field of `/proc/self/status` is zero.
fn zero(status: &Value, field: &str) -> bool {
    let text = status.get(field).and_then(Value::as_str);
    text.is_some_and(|text| u64::from_str_radix(text, 16) == Ok(0))
}

fn no_core_dump(limits: &Value) -> bool {
    let hard = limits.pointer("/Max core file size/1").and_then(Value::as_str);
    hard.is_some_and(|hard| hard == "0" || hard == "1")
}

/// A setuid copy of the probe, owned by root.
fn setuid_probe(fixture: &Fixture) -> Setup {
    if !Caller::all().contains(&Caller::Root) {
        return Setup::moot("only root can make a setuid program of root's");
    }
    let bytes = std::fs::read(&fixture.binaries().probe).expect("the probe is readable");
    let copy = fixture.write("host/setuid", bytes);
    std::os::unix::fs::chown(&copy, Some(0), Some(0)).expect("chown");
    fixture.chmod("host/setuid", 0o6755);
    Setup::default()
}

/// A file that only members of one group can read.
fn group_file(fixture: &Fixture) -> Setup {
    let path = fixture.write("host/of-the-group", SECRET);
    std::os::unix::fs::chown(&path, Some(FOREIGN_ID), Some(FOREIGN_ID)).expect("chown");
    fixture.chmod("host/of-the-group", 0o440);
    Setup::default()
}

/// A file that nobody but another user can read.
fn foreign_file(fixture: &Fixture) -> Setup {
    let path = fixture.write("host/of-another", SECRET);
    std::os::unix::fs::chown(&path, Some(FOREIGN_ID), Some(FOREIGN_ID)).expect("chown");
    fixture.chmod("host/of-another", 0o400);
    Setup::default()
}

const FOREIGN_ID: u32 = 41_235;
const WITH_GROUP: &[&str] = &["{probe}", "as", "0", "0", "41235", "--"];

fn effective_user_is_not_root(exec: &Value) -> bool {
    let text = exec.get("stdout").and_then(Value::as_str).unwrap_or_default();
    let line: Value = serde_json::from_str(text).unwrap_or_default();
    line.pointer("/detail/euid").is_some_and(|euid| *euid != json!(0))
}

fn no_extra_groups(ids: &Value) -> bool {
    ids.get("groups").and_then(Value::as_array).is_some_and(|groups| !groups.contains(&json!(FOREIGN_ID)))
}

/// A file at the same place for every fixture: private directories of the box hide it.
fn shared(fixture: &Fixture, folder: &str) -> Setup {
    let file = tempfile::Builder::new().prefix("ringfence-shared-").tempfile_in(folder).expect("a file");
    std::fs::write(file.path(), SECRET).expect("write");
    fixture.caller().own(file.path());
    let path = file.path().to_string_lossy().into_owned();
    Setup::default().keep(file).name("{shared}", path)
}

const ABSENT: Closed = Closed::Errno(&[ENOENT, EACCES]);
const BARE: &[(&str, &str)] = &[("SESSION_TOKEN", SECRET)];

pub(crate) const ROWS: &[Row] = &[
    state("read a secret of the caller's environment", "1.7", &["env"], no_secret).env(BARE),
    state("inherit a preloaded library", "1.7", &["env"], no_secret).env(&[("LD_PRELOAD", SECRET)]),
    state("inherit a library path", "1.7", &["env"], no_secret).env(&[("LD_LIBRARY_PATH", SECRET)]),
    state("inherit a shell's start-up file", "1.7", &["env"], no_secret).env(&[("BASH_ENV", SECRET)]),
    state("inherit a shell function", "1.7", &["env"], no_secret).env(&[("BASH_FUNC_ls%%", SECRET)]),
    state("inherit Python's start-up file", "1.7", &["env"], no_secret).env(&[("PYTHONSTARTUP", SECRET)]),
    state("inherit Node's options", "1.7", &["env"], no_secret).env(&[("NODE_OPTIONS", SECRET)]),
    state("inherit an agent of SSH", "1.7", &["env"], no_secret).env(&[("SSH_AUTH_SOCK", SECRET)]),
    state("inherit the address of the session bus", "1.7", &["env"], no_secret)
        .env(&[("DBUS_SESSION_BUS_ADDRESS", SECRET)]),
    state("inherit the runtime folder", "1.7", &["env"], no_secret).env(&[("XDG_RUNTIME_DIR", SECRET)]),
    state("see the state folder's place", "1.7", &["env"], |env| env.get("RINGFENCE_HOME").is_none()),
    state("deny being in the box", "1.7", &["env"], |env| {
        env.get("RINGFENCE_SANDBOX").is_some_and(|value| *value != json!("none"))
    })
    .flags(&["--env", "RINGFENCE_SANDBOX=none"]),
    state("deny being without network", "1.7", &["env"], |env| {
        env.get("RINGFENCE_NETWORK_DISABLED") == Some(&json!("1"))
    })
    .flags(&["--env", "RINGFENCE_NETWORK_DISABLED=0"]),
    state("hold capabilities", "2.2.10", &["status"], |status| {
        zero(status, "CapEff") && zero(status, "CapPrm") && zero(status, "CapInh") && zero(status, "CapBnd")
    }),
    state("hold ambient capabilities", "2.2.10", &["status"], |status| {
        zero(status, "CapAmb") && zero(status, "CapBnd")
    }),
    state("gain privileges by execution", "2.2.10", &["status"], |status| {
        status.get("NoNewPrivs") == Some(&json!("1"))
    }),
    state("run unfiltered", "2.5", &["status"], |status| status.get("Seccomp") == Some(&json!("2"))),
    state("dump core to a handler outside", "2.2.9", &["rlimits"], no_core_dump),
    state(
        "become root by a setuid program",
        "2.3",
        &["exec", "{host}/setuid", "ids"],
        effective_user_is_not_root,
    )
    .setup(setuid_probe)
    .only(Caller::User),
    state("keep supplementary groups", "2.2.3", &["ids"], no_extra_groups)
        .prefix(WITH_GROUP)
        .only(Caller::Root),
    row("read a file by a supplementary group", "2.2.3", &["read", "{host}/of-the-group"], Closed::Hidden)
        .setup(group_file)
        .prefix(WITH_GROUP)
        .only(Caller::Root),
    row("read a file of another user as root", "2.2.3", &["read", "{host}/of-another"], Closed::Hidden)
        .setup(foreign_file)
        .only(Caller::Root),
    row("read the host's /tmp", "2.3", &["read", "{shared}"], ABSENT)
        .setup(|fixture| shared(fixture, "/tmp")),
    row("write the host's /tmp", "2.3", &["write", "{shared}"], ABSENT)
        .setup(|fixture| shared(fixture, "/tmp")),
    row("read the host's shared memory files", "2.3", &["read", "{shared}"], ABSENT)
        .setup(|fixture| shared(fixture, "/dev/shm")),
    row("read the host's /run", "2.3", &["read", "{shared}"], ABSENT)
        .setup(|fixture| shared(fixture, "/run"))
        .only(Caller::Root),
];
