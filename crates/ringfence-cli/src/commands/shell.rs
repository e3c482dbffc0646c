//! The interactive shell of `ringfence shell`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// An interactive shell whose prompt says where it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shell {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
}

/// Starts bash with start-up files of the user's and, after them, one of our own, which is gone once it has been read.
/// The mark is the last of the commands that run before each prompt, some of which make the prompt anew. Where no
/// file can be made, it is the first, and start-up files may drop it.
const BASH_MARK: &str = include_str!("shell.bash");

/// Wraps the prompt that fish has after its start-up files. Where fish can't write its directories it complains of
/// each; it then gets a private copy of its configuration and history, among symlinks to all that lies beside them.
const FISH_MARK: &str = include_str!("shell.fish.sh");

/// The same for zsh, whose start-up files lie in one directory. Those of the user see `ZDOTDIR` as it was. Where no
/// directory can be made, the right prompt is marked.
const ZSH_MARK: &str = include_str!("shell.zsh");

impl Shell {
    /// `SHELL` if it is an absolute path, else `/bin/sh`.
    pub(super) fn of(variable: Option<OsString>) -> Self {
        let program =
            variable.filter(|shell| Path::new(shell).is_absolute()).unwrap_or_else(|| "/bin/sh".into());
        let name = Path::new(&program).file_name().and_then(OsStr::to_str);
        let is_fish = name == Some("fish");
        let args = match name {
            // The word after the script is its `$0`: the shell to go on with.
            Some("bash") => {
                let quiet = ["--norc", "--noprofile", "-c", BASH_MARK].map(OsString::from);
                quiet.into_iter().chain([program.clone()]).collect()
            }
            Some("zsh") => vec!["-f".into(), "-c".into(), ZSH_MARK.into(), program.clone()],
            Some("fish") => vec!["-c".into(), FISH_MARK.into(), program.clone()],
            _ => Vec::new(),
        };
        let env = match name {
            Some("bash" | "zsh" | "fish") => Vec::new(),
            _ => vec![("PS1".into(), "(ringfence) $ ".into())],
        };
        let program = if is_fish { "/bin/sh".into() } else { program };
        Self { program, args, env }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_is_an_absolute_path_with_a_marked_prompt() {
        for (variable, program) in [
            (Some("/usr/bin/zsh"), "/usr/bin/zsh"),
            (Some("bash"), "/bin/sh"),
            (Some(""), "/bin/sh"),
            (None, "/bin/sh"),
        ] {
            let shell = Shell::of(variable.map(OsString::from));
            assert_eq!(shell.program, program);
        }
        for program in ["/bin/sh", "/bin/bash", "/bin/zsh", "/usr/bin/fish", "/bin/busybox"] {
            let shell = Shell::of(Some(program.into()));
            let said = format!("{shell:?}");
            assert!(said.contains("(ringfence)"), "{said}");
        }
    }
}
