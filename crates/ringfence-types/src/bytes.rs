use std::borrow::Borrow;
use std::fmt;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::Visitor;
use serde::{Deserialize, Serialize};

/// A path of a Unix system as its bytes, whatever system this code runs on.
///
/// Plans for Linux and macOS are made and tested on every host, where a `PathBuf` would follow the host's own
/// rules. Text formats show it as text if it is UTF-8, with `\xNN` for other bytes; binary formats keep bytes.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UnixPath(Vec<u8>);

impl UnixPath {
    /// Wraps the bytes as they are.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes, without a terminating NUL.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path's components, without empty ones and `.`.
    pub fn components(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".")
    }

    /// Number of components; `/` has none.
    pub fn depth(&self) -> usize {
        self.components().count()
    }

    /// Whether `self` is `ancestor` or lies below it, component-wise.
    pub fn starts_with(&self, ancestor: &Self) -> bool {
        let mut own = self.components();
        ancestor.components().all(|part| own.next() == Some(part))
    }

    /// The path without its last component; `None` for `/`.
    pub fn parent(&self) -> Option<Self> {
        parent(&self.0).map(Self::new)
    }

    /// The path itself, its parent, and so on up to `/`.
    pub fn ancestors(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::successors(Some(self.as_bytes()), |path| parent(path))
    }

    /// `self` with one more component.
    pub fn join(&self, name: impl AsRef<[u8]>) -> Self {
        let mut bytes = self.0.clone();
        if bytes.last() != Some(&b'/') {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name.as_ref());
        Self(bytes)
    }
}

fn parent(path: &[u8]) -> Option<&[u8]> {
    let last = path.iter().rposition(|&byte| byte == b'/')?;
    match (last, path.len()) {
        (0, 1) => None,
        (0, _) => Some(b"/"),
        _ => Some(&path[..last]),
    }
}

/// Equality, order and hash are those of the bytes.
impl Borrow<[u8]> for UnixPath {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl From<&Path> for UnixPath {
    fn from(path: &Path) -> Self {
        Self(path.as_os_str().as_encoded_bytes().to_vec())
    }
}

impl From<&str> for UnixPath {
    fn from(path: &str) -> Self {
        Self(path.as_bytes().to_vec())
    }
}

impl fmt::Display for UnixPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                if c.is_control() { write!(f, "{}", c.escape_default())? } else { write!(f, "{c}")? }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for UnixPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl Serialize for UnixPath {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_bytes(&self.0)
        }
    }
}

impl<'de> Deserialize<'de> for UnixPath {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            String::deserialize(deserializer).map(|text| Self(text.into_bytes()))
        } else {
            deserializer.deserialize_byte_buf(BytesVisitor)
        }
    }
}

/// Takes the bytes as they are; serde's own types would take them one by one.
struct BytesVisitor;

impl Visitor<'_> for BytesVisitor {
    type Value = UnixPath;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bytes of a path")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<UnixPath, E> {
        Ok(UnixPath(bytes.to_vec()))
    }

    fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<UnixPath, E> {
        Ok(UnixPath(bytes))
    }
}

/// Bytes prepared for JSON: text where they are UTF-8, else base64 (RFC 4648 section 4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// The text or the base64.
    pub text: String,
    /// `utf-8` or `base64`.
    pub encoding: &'static str,
}

impl Encoded {
    /// Encodes `bytes`.
    pub fn new(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self { text: text.to_owned(), encoding: "utf-8" },
            Err(_) => Self { text: STANDARD.encode(bytes), encoding: "base64" },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_component_wise() {
        let path = UnixPath::from("/a/bc/d");
        assert!(path.starts_with(&"/a/bc".into()));
        assert!(path.starts_with(&"/".into()));
        assert!(path.starts_with(&path));
        assert!(!path.starts_with(&"/a/b".into()));
        assert!(!UnixPath::from("/a").starts_with(&path));
    }

    #[test]
    fn parents_end_at_the_root() {
        assert_eq!(UnixPath::from("/a/b").parent(), Some("/a".into()));
        assert_eq!(UnixPath::from("/a").parent(), Some("/".into()));
        assert_eq!(UnixPath::from("/").parent(), None);
    }

    #[test]
    fn bytes_that_are_not_text_are_shown() {
        assert_eq!(UnixPath::new(b"/a\n\xff".to_vec()).to_string(), "/a\\n\\xff");
        assert_eq!(Encoded::new(b"\xff").encoding, "base64");
    }
}
