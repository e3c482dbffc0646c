use std::path::PathBuf;

/// Why no plan can be made that keeps the policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message says it")]
pub enum ProfileError {
    #[error("granted path {} does not exist", .0.display())]
    MissingGrant(PathBuf),
    #[error("working directory {} is not visible under this policy", .0.display())]
    CwdHidden(PathBuf),
    #[error("{feature} is not available: {reason}")]
    Unsupported { feature: &'static str, reason: &'static str },
    #[error("seccomp filter: {0}")]
    Seccomp(#[from] crate::linux::seccomp::SeccompError),
}
