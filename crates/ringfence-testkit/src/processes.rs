use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Ids of the processes whose command line holds `token`. Zombies have none and are not found.
pub fn with_token(token: &str) -> Vec<i32> {
    let own = std::process::id() as i32;
    let names = fs::read_dir("/proc").into_iter().flatten().flatten();
    names
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|&pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            pid != own && line.windows(token.len()).any(|window| window == token.as_bytes())
        })
        .collect()
}

/// Waits until no process' command line holds `token`; what is left after `patience` is ended and reported.
pub fn end_all(token: &str, patience: Duration) -> Vec<i32> {
    let deadline = Instant::now() + patience;
    while !with_token(token).is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    let left = with_token(token);
    for pid in left.iter().filter_map(|&pid| Pid::from_raw(pid)) {
        // It may end by itself in between.
        let _ = kill_process(pid, Signal::KILL);
    }
    left
}
