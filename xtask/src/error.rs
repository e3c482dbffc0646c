use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// Why a command of this package failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0}")]
    Usage(&'static str),
    #[error("can't start `{command}`: {source}")]
    Start { command: String, source: io::Error },
    #[error("`{command}` failed: {status}")]
    Failed { command: String, status: ExitStatus },
    #[error("`{command}` printed what can't be understood: {output}")]
    Output { command: String, output: String },
    #[error("can't read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("can't write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{} has no line `{marker}`", path.display())]
    Marker { path: PathBuf, marker: &'static str },
    #[error("can't make a page of the documentation: {0}")]
    Generate(String),
    #[error("{0} is not installed, and the table compares with it")]
    Missing(&'static str),
    #[error("{tool} is not installed; the Debian package {package} brings it")]
    NotInstalled { tool: &'static str, package: &'static str },
    #[error("{0} things are not as they should be on other kernels")]
    OtherKernels(usize),
    #[error("the connections of a measurement failed: {0}")]
    Network(io::Error),
    #[error("{0} violations of the repository's rules")]
    Untidy(usize),
}
