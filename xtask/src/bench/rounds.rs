use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::tools::describe;

/// Median time of each command from its start to its end. The commands take turns, and the first of a round is
/// another one each time, so that a change of the machine's speed meets all of them alike.
pub(crate) fn medians(rounds: usize, commands: &mut [Command]) -> Result<Vec<Duration>, Error> {
    take_turns(rounds, commands, time)
}

/// As [`medians`], of whatever `measure` reads off one run of a command.
pub(crate) fn take_turns(
    rounds: usize,
    commands: &mut [Command],
    measure: impl Fn(&mut Command) -> Result<Duration, Error>,
) -> Result<Vec<Duration>, Error> {
    // One round that does not count fills caches and shows a failure early.
    for command in commands.iter_mut() {
        measure(command)?;
    }
    let mut samples = vec![Vec::with_capacity(rounds); commands.len()];
    for round in 0..rounds {
        for turn in 0..commands.len() {
            let at = (round + turn) % commands.len();
            samples[at].push(measure(&mut commands[at])?);
        }
    }
    Ok(samples.into_iter().map(median).collect())
}

/// Time of one run; it must succeed.
pub(crate) fn time(command: &mut Command) -> Result<Duration, Error> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
    let start = Instant::now();
    let status = command.status();
    let elapsed = start.elapsed();
    let status = status.map_err(|source| Error::Start { command: describe(command), source })?;
    if status.success() { Ok(elapsed) } else { Err(Error::Failed { command: describe(command), status }) }
}

/// The middle sample; of an even number, the mean of the two in the middle.
pub(crate) fn median(mut samples: Vec<Duration>) -> Duration {
    samples.sort_unstable();
    match samples.len() {
        0 => Duration::ZERO,
        n if n % 2 == 1 => samples[n / 2],
        n => (samples[n / 2 - 1] + samples[n / 2]) / 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_and_even_numbers() {
        let ms = |n: &[u64]| median(n.iter().map(|&n| Duration::from_millis(n)).collect());
        assert_eq!(ms(&[9, 1, 5]), Duration::from_millis(5));
        assert_eq!(ms(&[9, 1, 5, 7]), Duration::from_millis(6));
        assert_eq!(ms(&[]), Duration::ZERO);
    }

    #[test]
    fn a_command_that_fails_gives_no_figure() {
        let mut commands = [Command::new("true"), Command::new("false")];
        assert!(matches!(medians(1, &mut commands), Err(Error::Failed { .. })));
    }
}
