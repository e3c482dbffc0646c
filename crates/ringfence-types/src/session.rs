use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Names one session: commands of a session share a workspace, a private temp and the grants given to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(String);

impl SessionId {
    /// Any text is a session id; it never becomes part of a path by itself.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// The id as given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Name of the session's directory: the first 16 bytes of the SHA-256 of the id written as JSON, in hex
    /// (32 characters).
    ///
    /// ```
    /// # use ringfence_types::SessionId;
    /// assert_eq!(SessionId::new("demo").directory_name(), "99e5095aacce94d035c31d3e08425401");
    /// ```
    pub fn directory_name(&self) -> String {
        let digest = Sha256::digest(json_string(&self.0));
        digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for SessionId {
    fn from(id: &str) -> Self {
        Self::new(id)
    }
}

impl From<String> for SessionId {
    fn from(id: String) -> Self {
        Self(id)
    }
}

/// RFC 8259 section 7, with the short escapes, as `serde_json` writes a string.
fn json_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_as_serde_json_does() {
        for text in ["demo", "", "a\"b\\c", "tab\tnl\n\u{1}\u{7f}é\u{1f600}\u{8}\u{c}\r"] {
            assert_eq!(json_string(text), serde_json::to_string(text).unwrap());
        }
    }
}
