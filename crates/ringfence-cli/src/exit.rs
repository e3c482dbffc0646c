//! Exit statuses.

use std::process::ExitCode;

/// How this process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All is well.
    Success,
    /// An answer other than "all is well": an error in a config file, a host without a sandbox.
    Negative,
    /// A usage error of a command that runs no program.
    Usage,
    /// `check`: the command would run and be recorded.
    Warned,
    /// `check`: the command would not run.
    Blocked,
    /// Ringfence refused or failed: the program did not run, or was ended as a violation.
    Refused,
    /// The wall-clock limit ended the run.
    Timeout,
    /// The program exists and can't be executed.
    NotExecutable,
    /// There is no such program.
    NotFound,
    /// The program's own exit status.
    Program(i32),
    /// A signal ended the program.
    Signal(i32),
}

impl Exit {
    /// The status as the shell sees it.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Negative => 1,
            Self::Usage => 2,
            Self::Warned => 10,
            Self::Blocked => 20,
            Self::Timeout => 124,
            Self::Refused => 125,
            Self::NotExecutable => 126,
            Self::NotFound => 127,
            Self::Program(status) => low_byte(status),
            Self::Signal(signal) => 128 + (low_byte(signal) & 0x7f),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// What wait(2) keeps of a status.
fn low_byte(status: i32) -> u8 {
    status.to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_the_programs_own_and_a_signal_is_128_more() {
        assert_eq!(Exit::Program(0).code(), 0);
        assert_eq!(Exit::Program(127).code(), 127);
        assert_eq!(Exit::Program(255).code(), 255);
        assert_eq!(Exit::Signal(9).code(), 137);
        assert_eq!(Exit::Signal(64).code(), 192);
    }
}
