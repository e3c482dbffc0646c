use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::Error;

/// A cargo subcommand that `ci` needs.
struct Tool {
    subcommand: &'static str,
    package: &'static str,
    /// Installed if none is there: this one is known to build with our toolchain. An existing one is taken as it is.
    version: &'static str,
}

const TOOLS: [Tool; 2] = [
    Tool { subcommand: "nextest", package: "cargo-nextest", version: "0.9.143" },
    Tool { subcommand: "deny", package: "cargo-deny", version: "0.20.2" },
];

/// Installs the cargo subcommands that are missing, by cargo itself.
pub(crate) fn ensure(root: &Path) -> Result<(), Error> {
    for tool in &TOOLS {
        let found = cargo(root)
            .args([tool.subcommand, "--version"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if !found {
            run(cargo(root).args(["install", "--locked", tool.package, "--version", tool.version]))?;
        }
    }
    Ok(())
}

/// The cargo that started us, in the repository's root.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// Runs a command with our own standard streams and insists on success.
pub(crate) fn run(command: &mut Command) -> Result<(), Error> {
    let text = describe(command);
    let status = command.status().map_err(|source| Error::Start { command: text.clone(), source })?;
    if status.success() { Ok(()) } else { Err(Error::Failed { command: text, status }) }
}

/// Runs a command, insists on success and returns its standard output.
pub(crate) fn capture(command: &mut Command) -> Result<Vec<u8>, Error> {
    let text = describe(command);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|source| Error::Start { command: text.clone(), source })?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(Error::Failed { command: text, status: output.status })
    }
}

/// The command line as a person would type it, without quoting.
pub(crate) fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy();
    let args = command.get_args().map(|arg| arg.to_string_lossy());
    std::iter::once(program).chain(args).collect::<Vec<_>>().join(" ")
}
