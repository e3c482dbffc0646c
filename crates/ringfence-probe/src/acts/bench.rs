//! Acts that measure instead of attacking: the steady state inside the box against that outside.

use std::fs::{self, File, OpenOptions};
use std::time::Instant;

use serde_json::json;

use super::{Act, act};
use crate::args::{Args, Failure, Outcome};

pub(super) const ACTS: &[Act] =
    &[act("bench-opens", "DIRECTORY COUNT", opens), act("bench-creates", "DIRECTORY COUNT", creates)];

/// Opens and closes one file `COUNT` times.
fn opens(args: &Args) -> Outcome {
    let path = args.path(0)?.join("bench-open");
    let count = count(args)?;
    File::create(&path)?;
    let start = Instant::now();
    for _ in 0..count {
        File::open(&path)?;
    }
    let elapsed = start.elapsed();
    fs::remove_file(&path)?;
    Ok(json!({ "nanoseconds": elapsed.as_nanos() as u64 }))
}

/// Creates and closes `COUNT` files; they are removed off the clock.
fn creates(args: &Args) -> Outcome {
    let directory = args.path(0)?.join("bench-create");
    let count = count(args)?;
    fs::create_dir(&directory)?;
    let paths: Vec<_> = (0..count).map(|number| directory.join(number.to_string())).collect();
    let start = Instant::now();
    for path in &paths {
        OpenOptions::new().write(true).create_new(true).open(path)?;
    }
    let elapsed = start.elapsed();
    fs::remove_dir_all(&directory)?;
    Ok(json!({ "nanoseconds": elapsed.as_nanos() as u64 }))
}

fn count(args: &Args) -> Result<u32, Failure> {
    u32::try_from(args.int(1)?).map_err(|_| Failure::Usage)
}
