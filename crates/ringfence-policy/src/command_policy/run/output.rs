//! What a command is known to write.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::command_policy::state::{Scan, Upstream};
use crate::command_policy::word::{UNKNOWN, Word, joined, program};

/// Most bytes of output that are kept.
const LIMIT: usize = 1 << 18;

pub(in crate::command_policy) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Programs that write what a server sends.
pub(in crate::command_policy) fn is_downloader(name: &[u8]) -> bool {
    matches!(
        name,
        b"curl"
            | b"wget"
            | b"wget2"
            | b"fetch"
            | b"aria2c"
            | b"http"
            | b"https"
            | b"httpie"
            | b"xh"
            | b"curlie"
            | b"lwp-request"
            | b"lynx"
            | b"w3m"
            | b"links"
            | b"axel"
    )
}

/// The file that a downloader writes: named by an option, or by the URL.
pub(super) fn remember_file(scan: &mut Scan, name: &[u8], args: &[Word<'_>]) {
    let wget = name.starts_with(b"wget");
    let mut named = false;
    for (at, word) in args.iter().enumerate() {
        let text = &*word.text;
        let takes =
            |letter: u8| text.len() > 1 && text[0] == b'-' && text[1] != b'-' && text.last() == Some(&letter);
        let value =
            if takes(if wget { b'O' } else { b'o' }) || text == b"--output" || text == b"--output-document" {
                args.get(at + 1).map(|word| &*word.text)
            } else {
                text.strip_prefix(b"--output=").or(text.strip_prefix(b"--output-document="))
            };
        if let Some(value) = value {
            named = true;
            scan.remember_download(value);
        }
    }
    let by_url = wget
        || args.iter().any(|word| {
            word.is("--remote-name")
                || word.text.starts_with(b"-") && !word.text.starts_with(b"--") && word.text.contains(&b'O')
        });
    if by_url && !named {
        for word in args.iter().filter(|word| memchr::memmem::find(&word.text, b"://").is_some()) {
            scan.remember_download(&word.text);
        }
    }
}

pub(super) fn of(words: &[Word<'_>], stdin: Option<&[u8]>, piped: &Upstream) -> Upstream {
    // Wrappers before a downloader change nothing of what it writes.
    let Some(first) = words.first() else { return Upstream::default() };
    of_named(&program(&first.text), &words[1..], stdin, piped)
}

pub(super) fn of_named(name: &[u8], args: &[Word<'_>], stdin: Option<&[u8]>, piped: &Upstream) -> Upstream {
    let downloads = piped.downloads || is_downloader(name);
    let output = match name {
        b"echo" | b"write-output" | b"write" => Some(echo(args)),
        b"printf" => Some(printf(args)),
        b"which" => located(args),
        b"type" | b"whence" if args.iter().any(|word| word.is("-p") || word.is("-P")) => located(args),
        b"cat" | b"tee" | b"pv" | b"sponge" | b"sort" | b"uniq" | b"head" | b"tail" | b"dos2unix" | b"nl"
            if name == b"tee" || args.iter().all(|word| word.text.starts_with(b"-")) =>
        {
            stdin.map(<[u8]>::to_vec)
        }
        b"base64" | b"gbase64"
            if args.iter().any(|word| {
                matches!(&*word.text, b"-d" | b"-D" | b"--decode" | b"-di" | b"-id" | b"--d" | b"--dec")
            }) =>
        {
            stdin.and_then(decoded)
        }
        b"xxd" if args.iter().any(|word| word.text.starts_with(b"-") && word.text.contains(&b'r')) => {
            stdin.and_then(hex)
        }
        b"rev" => stdin.map(|text| {
            text.split(|&byte| byte == b'\n')
                .map(|line| line.iter().rev().copied().collect::<Vec<_>>())
                .collect::<Vec<_>>()
                .join(&b'\n')
        }),
        b"true" | b":" | b"false" | b"cd" | b"set" | b"sleep" | b"test" | b"[" => Some(Vec::new()),
        _ => None,
    };
    let names = match name {
        b"ls" | b"sort" | b"cat" | b"tee" | b"head" | b"tail" | b"uniq" => piped.names.clone(),
        _ => Vec::new(),
    };
    Upstream {
        output: output.filter(|text| text.len() <= LIMIT),
        downloads,
        names,
        unseen: false,
        shell: false,
    }
}

fn echo(args: &[Word<'_>]) -> Vec<u8> {
    let mut escapes = false;
    let mut newline = true;
    let mut start = 0;
    while let Some(word) = args.get(start) {
        let flags = match word.text.split_first() {
            Some((b'-', flags)) if !flags.is_empty() && flags.iter().all(|b| b"neE".contains(b)) => flags,
            _ => break,
        };
        escapes |= flags.contains(&b'e');
        newline &= !flags.contains(&b'n');
        start += 1;
    }
    let mut text = joined(&args[start..]);
    // dash expands escapes without being asked.
    if escapes || text.contains(&b'\\') {
        text = unescaped(&text);
    }
    if newline {
        text.push(b'\n');
    }
    text
}

/// `printf format arg...`: each `%` takes the next argument; the format is used again as long as there are any.
fn printf(args: &[Word<'_>]) -> Vec<u8> {
    let args = match args.first() {
        Some(word) if word.is("--") => &args[1..],
        Some(word) if word.is("-v") => return Vec::new(),
        _ => args,
    };
    let Some((format, rest)) = args.split_first() else { return Vec::new() };
    let format = unescaped(&format.text);
    let mut rest = rest.iter();
    let mut out = Vec::new();
    loop {
        let before = rest.len();
        let mut at = 0;
        while at < format.len() {
            if format[at] != b'%' {
                out.push(format[at]);
                at += 1;
                continue;
            }
            at += 1;
            if format.get(at) == Some(&b'%') {
                out.push(b'%');
                at += 1;
                continue;
            }
            while format.get(at).is_some_and(|byte| !byte.is_ascii_alphabetic()) {
                at += 1;
            }
            let escapes = format.get(at) == Some(&b'b');
            at += 1;
            if let Some(word) = rest.next() {
                if escapes {
                    out.extend(unescaped(&word.text));
                } else {
                    out.extend_from_slice(&word.text);
                }
            }
        }
        if rest.len() == 0 || rest.len() == before || out.len() > LIMIT {
            return out;
        }
    }
}

/// Escapes of `printf` and `echo -e`.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        if text[at] != b'\\' || at + 1 == text.len() {
            out.push(text[at]);
            at += 1;
            continue;
        }
        let digits = |from: usize, most: usize, radix: u32| {
            text[from.min(text.len())..]
                .iter()
                .take(most)
                .take_while(|byte| char::from(**byte).is_digit(radix))
                .count()
        };
        let (from, most, radix) = match text[at + 1] {
            b'x' => (at + 2, 2, 16),
            b'0'..=b'7' => (at + 1, if text[at + 1] == b'0' { 4 } else { 3 }, 8),
            other => {
                let byte = match other {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'\\' => b'\\',
                    b'c' => return out,
                    _ => {
                        out.push(b'\\');
                        other
                    }
                };
                out.push(byte);
                at += 2;
                continue;
            }
        };
        let count = digits(from, most, radix);
        let value = std::str::from_utf8(&text[from..from + count])
            .ok()
            .and_then(|digits| u32::from_str_radix(digits, radix).ok());
        match value {
            Some(value) => out.push(value.to_le_bytes()[0]),
            None => out.extend_from_slice(&text[at..from]),
        }
        at = from + count;
    }
    out
}

pub(in crate::command_policy) fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let text: Vec<u8> = text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    BASE64.decode(&text).ok()
}

fn hex(text: &[u8]) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .iter()
        .filter(|byte| !byte.is_ascii_whitespace())
        .map(|byte| char::from(*byte).to_digit(16).map(|digit| digit.to_le_bytes()[0]))
        .collect();
    Some(digits?.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// What a text of one `echo` or `printf` with plain words writes.
pub(in crate::command_policy) fn simple_output(text: &[u8]) -> Option<Vec<u8>> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b" /._-'\"\\%*~=:,@+".contains(byte);
    if !text.iter().all(plain) || text.len() > 256 {
        return None;
    }
    let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let name = words.next()?;
    let strip = |word: &[u8]| word.iter().copied().filter(|byte| !matches!(byte, b'\'' | b'"')).collect();
    let words: Vec<Word<'_>> = words.map(|word| Word::owned(strip(word))).collect();
    let option = words.first().map_or(&[][..], |word| &*word.text);
    let mut output = match name {
        b"echo" => echo(&words),
        b"printf" => printf(&words),
        b"which" => located(&words)?,
        b"command" if matches!(option, b"-v" | b"-V") => located(&words)?,
        b"type" | b"whence" if matches!(option, b"-p" | b"-P") => located(&words)?,
        _ => return None,
    };
    while output.last() == Some(&b'\n') {
        output.pop();
    }
    Some(output).filter(|output| !output.contains(&UNKNOWN))
}

/// The program that `which` and its like look for; where it lies does not matter.
fn located(words: &[Word<'_>]) -> Option<Vec<u8>> {
    words.iter().find(|word| !word.text.starts_with(b"-")).map(|word| word.text.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(args: &[&'static str]) -> Vec<Word<'static>> {
        args.iter().map(|arg| Word::borrowed(arg.as_bytes())).collect()
    }

    #[test]
    fn what_is_written_is_known() {
        assert_eq!(printf(&words(&["%s\\n", "rm -rf /"])), b"rm -rf /\n");
        assert_eq!(printf(&words(&["%s %s", "rm", "-rf", "/"])), b"rm -rf/ ");
        assert_eq!(printf(&words(&["\\162m\\x20-rf /"])), b"rm -rf /");
        assert_eq!(echo(&words(&["-e", "r\\x6d"])), b"rm\n");
        assert_eq!(echo(&words(&["-n", "a", "b"])), b"a b");
        assert_eq!(decoded(b"cm0gLXJmIC8=\n").unwrap(), b"rm -rf /");
        assert_eq!(decoded(b"cm0gLXJmIC8").unwrap(), b"rm -rf /");
        assert_eq!(hex(b"72 6d").unwrap(), b"rm");
        assert_eq!(simple_output(b"echo rm").unwrap(), b"rm");
        assert_eq!(simple_output(b"which -a rm").unwrap(), b"rm");
        assert_eq!(simple_output(b"command -v rm").unwrap(), b"rm");
        assert_eq!(simple_output(b"command rm"), None);
        assert_eq!(simple_output(b"date"), None);
    }
}
