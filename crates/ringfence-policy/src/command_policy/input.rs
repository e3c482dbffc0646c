use super::rules::Shell;
use super::word::program;

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
