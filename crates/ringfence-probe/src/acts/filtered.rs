//! Many system calls at once under a filter of the test's own.

use std::io::Read;

use serde_json::{Value, json};

use super::{Act, act};
use crate::args::{Args, Failure, Outcome};
use crate::sys::{Arg, call, i386, sys};

pub(super) const ACTS: &[Act] = &[act("calls-from-stdin", "", calls)];

/// Size of `struct sock_filter`.
const INSTRUCTION: usize = 8;

/// Reads `{"filter": [[code, jt, jf, k]…] | null, "calls": [{"abi", "number", "args"}…]}`, installs the filter if
/// there is one, makes each call and answers with their errors, 0 for a success.
fn calls(_: &Args) -> Outcome {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let request: Value = serde_json::from_str(&text).map_err(|_| Failure::Usage)?;
    if let Some(filter) = request["filter"].as_array() {
        install(filter)?;
    }
    let calls = request["calls"].as_array().ok_or(Failure::Usage)?;
    Ok(json!(calls.iter().map(make).collect::<Result<Vec<_>, _>>()?))
}

/// seccomp(2) with `SECCOMP_SET_MODE_FILTER`.
fn install(filter: &[Value]) -> Result<(), Failure> {
    const SECCOMP_SET_MODE_FILTER: i64 = 1;
    let mut code = Vec::with_capacity(filter.len() * INSTRUCTION);
    for instruction in filter {
        let field = |at: usize| instruction[at].as_u64().ok_or(Failure::Usage);
        code.extend((field(0)? as u16).to_ne_bytes());
        code.extend([field(1)? as u8, field(2)? as u8]);
        code.extend((field(3)? as u32).to_ne_bytes());
    }
    // struct sock_fprog: the length, padding, and a pointer to the code, which lives until the call is over.
    let mut program = (filter.len() as u64).to_ne_bytes().to_vec();
    program.extend((code.as_ptr() as u64).to_ne_bytes());
    sys!(libc::SYS_prctl, libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)?;
    sys!(libc::SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, program)?;
    Ok(())
}

/// Makes one call; its error, or 0.
fn make(request: &Value) -> Result<i32, Failure> {
    let number = request["number"].as_u64().ok_or(Failure::Usage)?;
    let args = request["args"].as_array().ok_or(Failure::Usage)?;
    let args: Vec<u64> =
        args.iter().map(|arg| arg.as_u64().ok_or(Failure::Usage)).collect::<Result<_, _>>()?;
    let args: [u64; 6] = args.try_into().map_err(|_| Failure::Usage)?;
    let result = match request["abi"].as_str() {
        Some("i386") => i386(number as u32, args.map(|arg| arg as u32)),
        _ => call(number as i64, &mut args.map(|arg| Arg::Int(arg as i64))),
    };
    Ok(result.map_or_else(|error| error.raw_os_error().unwrap_or(-1), |_| 0))
}
