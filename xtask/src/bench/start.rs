use std::process::{Command, Stdio};
use std::time::Duration;

use crate::error::Error;
use crate::tools::{capture, describe};

use super::report::{Report, millis};
use super::rounds::medians;
use super::setup::Setup;

/// What bubblewrap is asked for: the namespaces and mounts that the native backend has too, and neither
/// Landlock nor seccomp.
const BWRAP: &[&str] = &["--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "true"];

/// The whole stack from the command line, by mode, against bare bubblewrap.
pub(crate) fn command_line(setup: &Setup, report: &mut Report) -> Result<(), Error> {
    let workspace = setup.folder("empty")?;
    let mut commands = [
        setup.outside(&workspace, &["true"]),
        bwrap(setup, &workspace)?,
        setup.inside(&workspace, &[], &["true"]),
        setup.inside(&workspace, &["--mode", "strict"], &["true"]),
    ];
    let times = medians(setup.rounds(400), &mut commands)?;
    let [plain, bare, default, strict] = times[..] else { return Ok(()) };
    report.add("plain `true`", millis(plain), "", None, None);
    report.add("bare `bwrap … true`", millis(bare), "", None, None);
    let cost = |time: Duration| overhead(time, plain, bare);
    report.add("`ringfence run -- true`, default mode", millis(default), &share(), cost(default), Some(0.60));
    report.add("`ringfence run --mode strict -- true`", millis(strict), &share(), cost(strict), None);
    Ok(())
}

/// A library call in a host with 1 GiB resident, against bare bubblewrap.
pub(crate) fn library(setup: &Setup, report: &mut Report) -> Result<(), Error> {
    let workspace = setup.folder("empty")?;
    let rounds = setup.rounds(300);
    let mut commands = [setup.outside(&workspace, &["true"]), bwrap(setup, &workspace)?];
    let times = medians(rounds, &mut commands)?;
    let [plain, bare] = times[..] else { return Ok(()) };
    let launchers = [("0", None), ("1024", None), ("1024", Some(&setup.ringfence))];
    for (resident, launcher) in launchers {
        let mut host = Command::new(&setup.host);
        host.args([resident, &rounds.to_string()]).args(launcher);
        setup.set_up(&mut host, &workspace);
        let (own_plain, call) = medians_of_host(&mut host)?;
        let by = if launcher.is_some() { ", launched by `ringfence`" } else { "" };
        let what = format!("library call, {resident} MiB resident in the host{by}");
        let bar = (resident != "0").then_some(0.50);
        let beyond = call.saturating_sub(own_plain);
        report.add(&what, millis(call), &share(), overhead(plain + beyond, plain, bare), bar);
    }
    Ok(())
}

fn bwrap(setup: &Setup, workspace: &std::path::Path) -> Result<Command, Error> {
    let found = Command::new("bwrap").arg("--version").stdout(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        return Err(Error::Missing("bwrap"));
    }
    let mut command = Command::new("bwrap");
    command.args(BWRAP);
    setup.set_up(&mut command, workspace);
    Ok(command)
}

/// The host times plain starts and its own calls in turn and prints `name<TAB>median in microseconds` of each.
fn medians_of_host(host: &mut Command) -> Result<(Duration, Duration), Error> {
    let output = String::from_utf8_lossy(&capture(host)?).into_owned();
    let median = |name: &str| {
        let line = output.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('\t'));
        line.and_then(|micros| micros.parse().ok()).map(Duration::from_micros)
    };
    match (median("fork_exec"), median("library")) {
        (Some(plain), Some(call)) => Ok((plain, call)),
        _ => Err(Error::Output { command: describe(host), output }),
    }
}

fn share() -> String {
    "share of bwrap's overhead".to_owned()
}

/// Time beyond plain fork and exec, as a share of what bubblewrap needs beyond it.
fn overhead(time: Duration, plain: Duration, bare: Duration) -> Option<f64> {
    let beyond = |time: Duration| time.as_secs_f64() - plain.as_secs_f64();
    (beyond(bare) > 0.0).then(|| beyond(time) / beyond(bare))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overhead_is_counted_from_the_plain_program() {
        let ms = Duration::from_millis;
        assert_eq!(overhead(ms(3), ms(1), ms(5)), Some(0.5));
        assert_eq!(overhead(ms(3), ms(5), ms(5)), None);
    }
}
