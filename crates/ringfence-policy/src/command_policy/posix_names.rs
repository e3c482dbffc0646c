/// `NAME=value` and `NAME+=value`.
pub(super) fn assignment(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(b'=', &text[..text.len().min(256)])?;
    let name = text[..at].strip_suffix(b"+").unwrap_or(&text[..at]);
    is_name(name).then(|| (name, &text[at + 1..]))
}

/// Whether this can be the name of a variable (POSIX.1-2024, Base Definitions 3.216).
pub(super) fn is_name(text: &[u8]) -> bool {
    !text.is_empty()
        && !text[0].is_ascii_digit()
        && text.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
