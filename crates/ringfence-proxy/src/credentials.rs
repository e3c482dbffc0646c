/// The user and password that a listener wants, where other programs than the run's own can reach it.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials(Vec<u8>);

impl Credentials {
    /// A user without a colon, and a password.
    pub fn new(user: &str, password: &str) -> Self {
        Self(format!("{user}:{password}").into_bytes())
    }

    /// Whether `given`, as `user:password`, is the same. The time that it takes tells nothing but the length.
    pub(crate) fn are(&self, given: &[u8]) -> bool {
        let difference = self.0.iter().zip(given).fold(0, |sum, (own, other)| sum | (own ^ other));
        self.0.len() == given.len() && std::hint::black_box(difference) == 0
    }
}

/// Without the password.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credentials")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_pair_is_right() {
        let own = Credentials::new("u", "pass");
        assert!(own.are(b"u:pass"));
        for other in [&b""[..], b"u:pasS", b"u:pas", b"u:passs", b"u:"] {
            assert!(!own.are(other));
        }
        assert!(!format!("{own:?}").contains("pass"));
    }
}
