use super::rules::Shell;
use super::state::Code;

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

/// How the value of a variable is read by shells, loaders and programs that run commands; `None` if it is only text.
pub(super) fn executed_variable(name: &[u8]) -> Option<Code> {
    match name {
        b"PROMPT_COMMAND" | b"GIT_SSH_COMMAND" | b"GIT_PAGER" | b"PAGER" | b"MANPAGER" | b"GIT_EDITOR"
        | b"EDITOR" | b"VISUAL" | b"GIT_EXTERNAL_DIFF" | b"GIT_ASKPASS" | b"SSH_ASKPASS" | b"BROWSER"
        | b"RSYNC_RSH" | b"LESSOPEN" | b"LESSCLOSE" => Some(Code::Script(Shell::Posix)),
        b"BASH_ENV" | b"ENV" | b"PS0" | b"PS1" | b"PS2" | b"PS4" | b"LD_PRELOAD" | b"LD_AUDIT"
        | b"LD_LIBRARY_PATH" | b"ZDOTDIR" => Some(Code::Expanded),
        name if name.starts_with(b"BASH_FUNC_") => Some(Code::Script(Shell::Posix)),
        _ => None,
    }
}
