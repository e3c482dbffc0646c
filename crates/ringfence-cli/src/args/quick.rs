//! `ringfence run` without clap, whose description of all options takes longer to build than the rest of the command
//! line to parse.
//!
//! Only what is spelled in the plain way is understood: `--option value`, each at most once unless it is a list. Everything
//! else, mistakes and requests for help first of all, is left to clap, which alone decides what is right.

use std::ffi::OsString;
use std::path::PathBuf;
use std::slice::Iter;
use std::str::FromStr;

use clap::ValueEnum;

use super::{RunArgs, values};

/// Parses what follows `run`. `None`: clap has to look at it.
pub(super) fn run(words: &[OsString]) -> Option<RunArgs> {
    let mut args = RunArgs::default();
    let mut words = words.iter();
    loop {
        let rest = words.as_slice();
        let word = words.next()?.to_str()?;
        match word {
            "--" => {
                args.program = words.as_slice().to_vec();
                break;
            }
            option if option.starts_with("--") => set(&mut args, option, &mut words)?,
            program if program.is_empty() || program.starts_with('-') => return None,
            _ => {
                args.program = rest.to_vec();
                break;
            }
        }
    }
    let contradicts = args.json && args.setup.tty
        || args.setup.quiet && args.setup.verbose
        || args.policy.workspace.is_some() && args.policy.session.is_some();
    (!args.program.is_empty() && !contradicts).then_some(args)
}

fn set(args: &mut RunArgs, option: &str, words: &mut Iter<'_, OsString>) -> Option<()> {
    let RunArgs { policy, network, limits, setup, json, .. } = args;
    match option {
        "--mode" => once(&mut policy.mode, choice(words)?),
        "--profile" => more(&mut policy.profile, text(words)?.to_owned()),
        "--workspace" => once(&mut policy.workspace, path(words)?),
        "--session" => once(&mut policy.session, text(words)?.to_owned()),
        "--cwd" => once(&mut policy.cwd, path(words)?),
        "--read" => more(&mut policy.read, path(words)?),
        "--write" => more(&mut policy.write, path(words)?),
        "--deny" => more(&mut policy.deny, path(words)?),
        "--unix-socket" => more(&mut policy.unix_socket, path(words)?),
        "--device" => more(&mut policy.device, text(words)?.to_owned()),
        "--env" => more(&mut policy.env, values::env_entry(value(words)?.clone()).ok()?),
        "--no-spawn" => flag(&mut policy.no_spawn),
        "--force-root" => flag(&mut policy.force_root),
        "--net" => once(&mut network.net, choice(words)?),
        "--timeout" => once(&mut limits.timeout, values::duration(text(words)?).ok()?),
        "--max-output" => once(&mut limits.max_output, values::size(text(words)?).ok()?),
        "--require" => more(&mut setup.require, FromStr::from_str(text(words)?).ok()?),
        "--ask" => once(&mut setup.ask, choice(words)?),
        "--tty" => flag(&mut setup.tty),
        "--config" => once(&mut setup.config, path(words)?),
        "--quiet" => flag(&mut setup.quiet),
        "--verbose" => flag(&mut setup.verbose),
        "--json" => flag(json),
        _ => None,
    }
}

/// The option's value; one that looks like an option or is empty is clap's to judge.
fn value<'a>(words: &mut Iter<'a, OsString>) -> Option<&'a OsString> {
    words.next().filter(|word| !matches!(word.as_encoded_bytes(), [] | [b'-', ..]))
}

fn text<'a>(words: &mut Iter<'a, OsString>) -> Option<&'a str> {
    value(words)?.to_str()
}

fn path(words: &mut Iter<'_, OsString>) -> Option<PathBuf> {
    value(words).map(PathBuf::from)
}

fn choice<T: ValueEnum>(words: &mut Iter<'_, OsString>) -> Option<T> {
    T::from_str(text(words)?, false).ok()
}

fn once<T>(slot: &mut Option<T>, value: T) -> Option<()> {
    slot.replace(value).is_none().then_some(())
}

fn more<T>(list: &mut Vec<T>, value: T) -> Option<()> {
    list.push(value);
    Some(())
}

fn flag(flag: &mut bool) -> Option<()> {
    (!std::mem::replace(flag, true)).then_some(())
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches as _;

    use super::super::subcommand;
    use super::*;

    fn words(line: &[&str]) -> Vec<OsString> {
        line.iter().map(OsString::from).collect()
    }

    /// As clap parses it; `None` if it doesn't.
    fn by_clap(words: &[OsString]) -> Option<RunArgs> {
        let line = std::iter::once(OsString::from("run")).chain(words.iter().cloned());
        let matches = subcommand("run").try_get_matches_from(line).ok()?;
        RunArgs::from_arg_matches(&matches).ok()
    }

    #[test]
    fn what_is_usual_is_understood() {
        for line in [
            "true",
            "-- true",
            "-- --odd name -- x",
            "ls -l -- --json",
            "--mode strict --read a --read b --write c --deny d --env K=V --env P -- make -j",
            "--net all --timeout 1m --max-output 1M --workspace w --cwd w/c ls",
            "--session s --profile rust --profile git --require landlock --ask never --json --quiet -- x",
            "--unix-socket s --device kvm --no-spawn --force-root --tty --config c --verbose x",
        ] {
            let words = words(&line.split(' ').collect::<Vec<_>>());
            let parsed = run(&words);
            assert!(parsed.is_some(), "{line}");
            assert_eq!(parsed, by_clap(&words), "{line}");
        }
    }

    #[test]
    fn nothing_is_understood_otherwise_than_by_clap() {
        let command = subcommand("run");
        let longs: Vec<String> =
            command.get_arguments().filter_map(|arg| Some(format!("--{}", arg.get_long()?))).collect();
        let values =
            ["", "-", "--", "-x", "x", "x=y", "=y", "strict", "all", "never", "5", "0", "2M", "seccomp"];
        let mut lines =
            vec![vec![], vec!["--"], vec!["-"], vec![""], vec!["-h"], vec!["--help"], vec!["--", ""]];
        for long in longs.iter().map(String::as_str).chain(["--unknown", "--mode=strict", "--rea"]) {
            lines.push(vec![long]);
            for value in values {
                lines.push(vec![long, value]);
                lines.push(vec![long, value, "true"]);
                lines.push(vec![long, value, "--", "true"]);
                lines.push(vec![long, value, long, value, "--", "true"]);
            }
            for other in &longs {
                lines.push(vec![long, other, "x", "y"]);
                lines.push(vec![long, "x", other, "--", "true"]);
            }
        }
        let mut understood = 0;
        for line in lines {
            let words = words(&line);
            if let Some(parsed) = run(&words) {
                understood += 1;
                assert_eq!(Some(parsed), by_clap(&words), "{line:?}");
            }
        }
        assert!(understood > 100, "{understood}");
    }

    #[cfg(unix)]
    #[test]
    fn bytes_that_are_not_text_survive() {
        use std::os::unix::ffi::OsStringExt as _;
        let odd = OsString::from_vec(b"\xff\n=\xfe".to_vec());
        let line =
            ["--write".into(), odd.clone(), "--env".into(), odd.clone(), "--".into(), odd.clone(), odd];
        let parsed = run(&line);
        assert!(parsed.is_some());
        assert_eq!(parsed, by_clap(&line));
        assert_eq!(run(&line[..1]), None);
    }
}
