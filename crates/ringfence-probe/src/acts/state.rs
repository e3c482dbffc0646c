//! What the process finds itself with.

use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde_json::{Map, Value, json};

use super::{Act, act};
use crate::args::{Args, Outcome};
use crate::sys::{Arg, call, sys};

pub(super) const ACTS: &[Act] = &[
    act("env", "", |_| {
        let vars = std::env::vars_os();
        let text = |part: std::ffi::OsString| part.to_string_lossy().into_owned();
        Ok(Value::Object(vars.map(|(name, value)| (text(name), json!(text(value)))).collect()))
    }),
    act("args", "[ARGS…]", |args| {
        Ok(json!(args.all().iter().map(|arg| hex(arg.as_bytes())).collect::<Vec<_>>()))
    }),
    act("env-bytes", "NAME", |args| {
        Ok(json!(std::env::var_os(args.os(0)?).map(|value| hex(&value.into_vec()))))
    }),
    act("cwd", "", |_| Ok(json!(hex(std::env::current_dir()?.as_os_str().as_bytes())))),
    act("ids", "", ids),
    act("status", "", status),
    act("rlimits", "", rlimits),
    act("mounts", "", |_| Ok(json!(String::from_utf8_lossy(&fs::read("/proc/self/mountinfo")?)))),
    act("hostname", "", |_| Ok(json!(fs::read_to_string("/proc/sys/kernel/hostname")?.trim_end()))),
    act("dumpable", "", |_| Ok(json!(sys!(libc::SYS_prctl, libc::PR_GET_DUMPABLE, 0, 0, 0, 0)?))),
    act("umask", "", |_| Ok(json!(sys!(libc::SYS_umask, 0)?))),
    act("none", "", |_| Ok(Value::Null)),
];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// User, group, supplementary groups, process, parent, group and session ids.
fn ids(_: &Args) -> Outcome {
    let mut groups = [Arg::from(64), Arg::from(vec![0; 4 * 64])];
    let count = call(libc::SYS_getgroups, &mut groups)? as usize;
    let Arg::Bytes(bytes) = &groups[1] else { return Err(crate::args::Failure::Usage) };
    let groups: Vec<_> = bytes
        .chunks_exact(4)
        .take(count)
        .map(|id| u32::from_ne_bytes([id[0], id[1], id[2], id[3]]))
        .collect();
    Ok(json!({
        "uid": sys!(libc::SYS_getuid)?,
        "euid": sys!(libc::SYS_geteuid)?,
        "gid": sys!(libc::SYS_getgid)?,
        "egid": sys!(libc::SYS_getegid)?,
        "groups": groups,
        "pid": std::process::id(),
        "ppid": std::os::unix::process::parent_id(),
        "pgid": sys!(libc::SYS_getpgid, 0)?,
        "sid": sys!(libc::SYS_getsid, 0)?,
    }))
}

/// `/proc/self/status` by field: capability sets, `NoNewPrivs`, `Seccomp`, …
fn status(_: &Args) -> Outcome {
    let text = fs::read_to_string("/proc/self/status")?;
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    Ok(Value::Object(fields.map(|(name, value)| (name.to_owned(), json!(value.trim()))).collect()))
}

/// Soft and hard limits as the kernel prints them.
fn rlimits(_: &Args) -> Outcome {
    const NAME_WIDTH: usize = 26;
    let text = fs::read_to_string("/proc/self/limits")?;
    let mut limits = Map::new();
    for line in text.lines().skip(1) {
        let (name, values) = line.split_at(line.len().min(NAME_WIDTH));
        let values: Vec<_> = values.split_whitespace().take(2).collect();
        limits.insert(name.trim().to_owned(), json!(values));
    }
    Ok(Value::Object(limits))
}
