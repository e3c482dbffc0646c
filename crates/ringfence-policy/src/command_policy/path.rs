//! Spellings of paths. Nothing here asks a file system: `..` is resolved by the letter.

use std::borrow::Cow;

use memchr::memmem;

use super::word::UNKNOWN;

/// A POSIX path without repeated slashes, dots and a trailing slash; `..` is resolved. A relative path is joined to
/// `cwd` if that is known. `key=` in front of an absolute path stays.
pub(super) fn unix<'a>(path: &'a [u8], cwd: Option<&[u8]>) -> Cow<'a, [u8]> {
    if path.is_empty() {
        return Cow::Borrowed(path);
    }
    let start = match path[0] {
        b'/' | b'~' | UNKNOWN => 0,
        _ => match path.iter().take(32).position(|&byte| !byte.is_ascii_alphanumeric()) {
            Some(at) if path[at] == b'=' && matches!(path.get(at + 1), Some(b'/' | b'~' | b'.')) => at + 1,
            _ => 0,
        },
    };
    let (key, rest) = path.split_at(start);
    let rooted = matches!(rest.first(), Some(&(b'/' | b'~' | UNKNOWN)));
    if rooted && is_canonical(rest) {
        return Cow::Borrowed(path);
    }
    let mut out = Vec::with_capacity(path.len() + 16);
    out.extend_from_slice(key);
    let base = out.len();
    if !rooted {
        let Some(cwd) = cwd else { return relative(path) };
        out.extend_from_slice(cwd);
        if out.len() == base + 1 && out[base] == b'/' {
            out.truncate(base);
        }
    }
    components(&mut out, base, rest, rooted);
    if out.len() == base {
        out.push(b'/');
    }
    Cow::Owned(out)
}

/// A relative path whose start is not known keeps its `..`.
fn relative(path: &[u8]) -> Cow<'_, [u8]> {
    match path.strip_prefix(b"./") {
        Some(rest) if !rest.is_empty() => Cow::Borrowed(rest),
        _ => Cow::Borrowed(path),
    }
}

fn components(out: &mut Vec<u8>, base: usize, rest: &[u8], rooted: bool) {
    let home = rooted && rest.first() != Some(&b'/');
    for (at, part) in rest.split(|&byte| byte == b'/').enumerate() {
        match part {
            b"" | b"." => {}
            b".." => {
                let parent = out[base..].iter().rposition(|&byte| byte == b'/').map_or(base, |at| base + at);
                // Above a home directory or a variable nothing is known.
                if parent > base || out.get(base) == Some(&b'/') {
                    out.truncate(parent);
                }
            }
            _ => {
                if !(home && at == 0) {
                    out.push(b'/');
                }
                out.extend_from_slice(part);
            }
        }
    }
    // `$X/` may be the root directory, `$X` can't.
    if rest.first() == Some(&UNKNOWN) && rest.ends_with(b"/") && !out[base..].contains(&b'/') {
        out.push(b'/');
    }
}

fn is_canonical(path: &[u8]) -> bool {
    if path.len() > 1 && path.ends_with(b"/") {
        return false;
    }
    let mut after_slash = false;
    for (at, &byte) in path.iter().enumerate() {
        if after_slash {
            let dots = byte == b'.' && matches!(path[at + 1..].first(), None | Some(b'/' | b'.'));
            if byte == b'/' || dots {
                return false;
            }
        }
        after_slash = byte == b'/';
    }
    true
}

/// A Windows path in lower case with backslashes: device and UNC prefixes of a drive are gone, dots are resolved,
/// trailing dots and spaces dropped. `None` for what can't be a path, such as a switch.
pub(super) fn windows(path: &[u8], cwd: Option<&[u8]>) -> Option<Vec<u8>> {
    // Without any of these it is a name below a directory that is not known.
    let plain = !path.iter().any(|byte| matches!(byte, b'\\' | b':')) && !path.starts_with(b"//");
    if plain && !cwd.is_some_and(is_drive) {
        return None;
    }
    let path = path.trim_ascii();
    // `-Path:C:\\x`
    let path = match path.iter().position(|&byte| byte == b':') {
        Some(at) if path[0] == b'-' && path[1..at].iter().all(u8::is_ascii_alphabetic) => &path[at + 1..],
        _ => path,
    };
    let path = match path.iter().position(|&byte| byte == b'=') {
        Some(at) if at < 8 && path[..at].iter().all(u8::is_ascii_alphabetic) => &path[at + 1..],
        _ => path,
    };
    if path.is_empty() || is_switch(path) {
        return None;
    }
    let mut text: Vec<u8> =
        path.iter().map(|&byte| if byte == b'/' { b'\\' } else { byte.to_ascii_lowercase() }).collect();
    if let Some(at) = memmem::find(&text, b"filesystem::") {
        text.drain(..at + b"filesystem::".len());
    }
    let device = strip_prefixes(&mut text);
    if device && !is_drive(&text) {
        text.splice(..0, br"\\.\".iter().copied());
        return Some(text);
    }
    if device && text.len() == 2 {
        // `\\.\C:` is the volume itself.
        text.splice(..0, br"\\.\".iter().copied());
        return Some(text);
    }
    if text.starts_with(br"\\") {
        return Some(text);
    }
    let mut out = Vec::with_capacity(text.len() + 8);
    let rest: &[u8] = if is_drive(&text) {
        out.extend_from_slice(&text[..2]);
        match (text.get(2), cwd) {
            (Some(b'\\') | None, _) => {}
            // Relative to that drive's own directory.
            (Some(_), _) => return Some(text),
        }
        &text[2..]
    } else if text[0] == b'\\' {
        if let Some(cwd) = cwd.filter(|cwd| is_drive(cwd)) {
            out.extend_from_slice(&cwd[..2]);
        }
        &text[..]
    } else {
        let cwd = cwd.filter(|cwd| is_drive(cwd) && !text.contains(&b':'));
        let Some(cwd) = cwd else { return Some(text) };
        out.extend_from_slice(cwd);
        &text[..]
    };
    let base = out.len().min(2);
    if out.len() > 2 && out.ends_with(b"\\") {
        out.pop();
    }
    for part in rest.split(|&byte| byte == b'\\') {
        let trimmed = trim_end(part);
        if part == b".." {
            let parent = out[base..].iter().rposition(|&byte| byte == b'\\').map_or(base, |at| base + at);
            out.truncate(parent);
        } else if !trimmed.is_empty() {
            out.push(b'\\');
            out.extend_from_slice(trimmed);
        }
    }
    let bare_drive = is_drive(&text) && text.len() == 2;
    if is_drive(&out) && out.len() == 2 && !bare_drive || out.is_empty() {
        out.push(b'\\');
    }
    Some(out)
}

/// Trailing dots and spaces of a name don't count.
fn trim_end(name: &[u8]) -> &[u8] {
    let end = name.iter().rposition(|&byte| byte != b'.' && byte != b' ').map_or(0, |at| at + 1);
    &name[..end]
}

pub(super) fn is_drive(text: &[u8]) -> bool {
    text.len() >= 2 && text[0].is_ascii_alphabetic() && text[1] == b':'
}

/// `/s`, `/q:x`, `/fs:ntfs`: a slash, then letters. `/c/x` and `//?/` are paths.
fn is_switch(text: &[u8]) -> bool {
    text[0] == b'/'
        && text.len() > 1
        && text[1] != b'/'
        && !text[1..].contains(&b'\\')
        && text[1] != b'*'
        && text[1] != b'?'
}

/// Removes `\\?\`, `\\.\`, `\??\`, `GLOBALROOT`, and the admin share of a drive; whether a device prefix was there.
fn strip_prefixes(text: &mut Vec<u8>) -> bool {
    let mut device = false;
    for _ in 0..8 {
        let prefixes: [&[u8]; 7] =
            [br"\\?\", br"\\.\", br"\??\", br"globalroot\", br"dosdevices\", br"global??\", br"device\"];
        let found =
            prefixes.iter().enumerate().find(|(at, prefix)| (*at < 3 || device) && text.starts_with(prefix));
        let Some((_, prefix)) = found else { break };
        text.drain(..prefix.len());
        device = true;
    }
    if device && text.starts_with(br"unc\") {
        text.splice(..3, b"\\".iter().copied());
        device = false;
    }
    // \\host\c$\x
    if let Some(share) = text.strip_prefix(br"\\") {
        let mut parts = share.splitn(3, |&byte| byte == b'\\');
        if let (Some(_), Some([letter, b'$']), rest) = (parts.next(), parts.next(), parts.next()) {
            let mut drive = vec![*letter, b':', b'\\'];
            drive.extend_from_slice(rest.unwrap_or_default());
            *text = drive;
            return false;
        }
    }
    device
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unix_text(path: &str, cwd: Option<&str>) -> String {
        String::from_utf8(unix(path.as_bytes(), cwd.map(str::as_bytes)).into_owned()).unwrap()
    }

    #[test]
    fn unix_paths() {
        for (path, expected) in [
            ("/", "/"),
            ("//", "/"),
            ("/.//.", "/"),
            ("/../", "/"),
            ("/usr/../", "/"),
            ("/usr/", "/usr"),
            ("//etc", "/etc"),
            ("/./*", "/*"),
            ("/...", "/..."),
            ("/.cache", "/.cache"),
            ("~/", "~"),
            ("~/*", "~/*"),
            ("~/a/..", "~"),
            ("of=/dev//sda", "of=/dev/sda"),
            ("\x01/", "\x01/"),
            ("\x01", "\x01"),
            ("\x01/x", "\x01/x"),
            ("./x", "x"),
            ("a/../b", "a/../b"),
        ] {
            assert_eq!(unix_text(path, None), expected, "{path}");
        }
        assert_eq!(unix_text(".", Some("/")), "/");
        assert_eq!(unix_text("*", Some("/")), "/*");
        assert_eq!(unix_text("..", Some("/etc")), "/");
        assert_eq!(unix_text("x", Some("/etc")), "/etc/x");
    }

    #[test]
    fn windows_paths() {
        for (path, expected) in [
            (r"C:\", r"c:\"),
            ("C:/", r"c:\"),
            ("C:", "c:"),
            (r"\\?\C:\", r"c:\"),
            (r"\\.\C:\", r"c:\"),
            ("//?/C:/", r"c:\"),
            (r"\\.\C:", r"\\.\c:"),
            (r"\\.\PhysicalDrive0", r"\\.\physicaldrive0"),
            ("//./PhysicalDrive0", r"\\.\physicaldrive0"),
            (r"\\?\PhysicalDrive0", r"\\.\physicaldrive0"),
            (r"\\?\GLOBALROOT\DosDevices\C:\", r"c:\"),
            (r"\\?\UNC\localhost\C$\", r"c:\"),
            (r"\\localhost\c$\Windows", r"c:\windows"),
            (r"C:\Windows\..", r"c:\"),
            (r"C:\.\Windows", r"c:\windows"),
            (r"C:\.", r"c:\"),
            (r"C:\Windows. \", r"c:\windows"),
            (r"C:build", "c:build"),
            (r"\*", r"\*"),
        ] {
            let found = windows(path.as_bytes(), None).map(|path| String::from_utf8(path).unwrap());
            assert_eq!(found.as_deref(), Some(expected), "{path}");
        }
        assert_eq!(windows(b"/s", None), None);
        assert_eq!(windows(b"build", None), None);
        assert_eq!(windows(b".", Some(br"c:\")).unwrap(), br"c:\");
        assert_eq!(windows(b"*", Some(br"c:\")).unwrap(), br"c:\*");
    }
}
