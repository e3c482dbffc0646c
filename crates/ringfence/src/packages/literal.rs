//! Defaults in the files of installed tools: a text that follows a known one.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use memchr::memmem;

/// Read at one time.
const CHUNK: usize = 1 << 20;
/// What may stand between the marker and the end of the text, in bytes.
const REACH: usize = 512;
/// A program with more bytes is not searched to its end.
const MAX_SEARCHED: u64 = 256 << 20;

/// The first text that `pick` makes of what follows a marker in a file of any size, within 512 bytes of it.
pub(super) fn after(path: &Path, marker: &str, pick: impl Fn(&[u8]) -> Option<String>) -> Option<String> {
    let mut file = File::open(path).ok().filter(|file| file.metadata().is_ok_and(|found| found.is_file()))?;
    let finder = memmem::Finder::new(marker.as_bytes());
    let mut window: Vec<u8> = Vec::with_capacity(CHUNK + REACH + marker.len());
    let mut searched = 0;
    loop {
        let kept = window.len();
        let read = (&mut file).take(CHUNK as u64).read_to_end(&mut window).ok()?;
        searched += read as u64;
        let last = read == 0 || searched > MAX_SEARCHED;
        for at in finder.find_iter(&window) {
            let rest = &window[at + marker.len()..];
            // What reaches beyond the window is looked at with the next one.
            if rest.len() < REACH && !last {
                break;
            }
            if let Some(found) = pick(&rest[..rest.len().min(REACH)]) {
                return Some(found);
            }
        }
        if last {
            return None;
        }
        let keep = (REACH + marker.len()).min(kept + read);
        window.drain(..kept + read - keep);
    }
}

/// The first URL between quotes.
pub(super) fn quoted_url(bytes: &[u8]) -> Option<String> {
    let start = memmem::find(bytes, b"http")?;
    let quote = *bytes.get(start.checked_sub(1)?)?;
    if !matches!(quote, b'"' | b'\'' | b'`') {
        return None;
    }
    let end = bytes[start..].iter().position(|&byte| byte == quote)?;
    String::from_utf8(bytes[start..start + end].to_vec()).ok()
}

/// What stands before the next double quote.
pub(super) fn to_quote(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|&byte| byte == b'"')?;
    String::from_utf8(bytes[..end].to_vec()).ok()
}

/// A host name that a slash ends, with at least one dot.
pub(super) fn host_name(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| !byte.is_ascii_alphanumeric() && !b".-".contains(byte))?;
    let name = (bytes[end] == b'/' && bytes[..end].contains(&b'.')).then(|| &bytes[..end])?;
    String::from_utf8(name.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_found_across_the_pieces_that_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tool");
        for before in [0, 10, CHUNK - 5, CHUNK - 600, 3 * CHUNK - 20] {
            let mut bytes = vec![b'.'; before];
            bytes.extend_from_slice(b"default: \"nothing\" default: \"https://a.test/\" end");
            std::fs::write(&path, &bytes).unwrap();
            let found = after(&path, "default: \"https://", host_name);
            assert_eq!(found.as_deref(), Some("a.test"), "{before}");
            assert_eq!(after(&path, "absent", to_quote), None);
        }
        assert_eq!(after(dir.path(), "x", to_quote), None, "a directory");
    }

    #[test]
    fn only_whole_texts_count() {
        assert_eq!(quoted_url(b": 'https://a.test/', x").as_deref(), Some("https://a.test/"));
        assert_eq!(quoted_url(b": https://a.test/, x"), None);
        assert_eq!(quoted_url(b": 'https://a.test/"), None);
        assert_eq!(host_name(b"iints_inheritance/"), None);
        assert_eq!(host_name(b"a.test"), None);
    }
}
