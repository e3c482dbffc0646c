use super::rules::Shell;
use super::word::program;
use super::{CommandPolicy, CommandPolicyConfig};

/// A command as the rules look at it. All texts are bytes.
#[derive(Clone, Debug, Default)]
pub struct Input<'a> {
    /// Program and arguments; empty if standard input is the script.
    pub argv: Vec<&'a [u8]>,
    /// What comes on standard input, as far as it is known.
    pub stdin: Option<&'a [u8]>,
    /// Whether something comes on standard input that can't be looked at.
    pub unseen: bool,
    /// Variables that the command is given.
    pub env: Vec<(&'a [u8], &'a [u8])>,
    /// Language of the caller; `None` is taken from the program.
    pub shell: Option<Shell>,
}

/// Whether a command executes what comes on its standard input. Most programs are told by their name alone.
pub fn executes_stdin(argv: &[&[u8]]) -> bool {
    let input = Input { argv: argv.to_vec(), unseen: true, ..Input::default() };
    let shell = |word: &&[u8]| super::run::starts_a_shell(&program(word));
    if argv.is_empty() || !(input.is_executed() || argv.iter().take(64).any(shell)) {
        return false;
    }
    let verdict = CommandPolicy::new(&CommandPolicyConfig::default()).evaluate(&input);
    verdict.rules().contains(&"not-scanned")
}

impl Input<'_> {
    /// The language in which the command itself is meant.
    pub(super) fn shell(&self) -> Shell {
        self.shell.unwrap_or(Shell::Posix)
    }

    /// Whether standard input, or an argument, is code for a shell.
    pub(super) fn is_executed(&self) -> bool {
        let Some(first) = self.argv.first() else { return true };
        let name = program(first);
        super::run::runs_code(&name)
            || self.argv.iter().skip(1).take(64).any(|word| super::run::runs_code(&program(word)))
    }
}
