/// A here-document whose body is still to come.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) delimiter: Vec<u8>,
    /// `<<-`: leading tabs don't count.
    pub(super) tabs: bool,
    /// Nothing in the body is expanded.
    pub(super) quoted: bool,
    pub(super) id: u32,
}

/// Start and end of the body, and where the text goes on. Only the exact bytes of the delimiter end it; the end of
/// the text does too.
pub(super) fn body(text: &[u8], start: usize, pending: &Pending) -> (usize, usize, usize) {
    let mut at = start;
    while at < text.len() {
        let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |found| at + found);
        let mut line = &text[at..end];
        if pending.tabs {
            line = &line[line.iter().position(|&byte| byte != b'\t').unwrap_or(line.len())..];
        }
        if line == &*pending.delimiter {
            return (start, at, (end + 1).min(text.len()));
        }
        at = end + 1;
    }
    (start.min(text.len()), text.len(), text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_line_ends_it() {
        let pending = |tabs| Pending { delimiter: b"E".to_vec(), tabs, quoted: false, id: 0 };
        assert_eq!(body(b"a\nE\r\nE\nb", 0, &pending(false)), (0, 5, 7));
        assert_eq!(body(b"a\n\tE\nb", 0, &pending(true)), (0, 2, 5));
        assert_eq!(body(b"a\n\tE", 0, &pending(false)), (0, 4, 4));
        assert_eq!(body(b"", 0, &pending(false)), (0, 0, 0));
    }
}
