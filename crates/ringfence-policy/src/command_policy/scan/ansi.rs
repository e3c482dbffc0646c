/// Decodes the inside of `$'...'` (bash(1), QUOTING), from the byte after the quote. Returns the position after the
/// closing quote.
pub(super) fn decode(text: &[u8], start: usize, out: &mut Vec<u8>) -> usize {
    let mut at = start;
    let mut ended = None;
    while at < text.len() {
        match text[at] {
            b'\'' => {
                at += 1;
                break;
            }
            b'\\' if at + 1 < text.len() => {
                at = escape(text, at + 1, out);
                // A NUL byte ends the text, though not the quotes.
                if out.last() == Some(&0) && ended.is_none() {
                    ended = Some(out.len() - 1);
                }
            }
            byte => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out.truncate(ended.unwrap_or(out.len()));
    at
}

fn escape(text: &[u8], at: usize, out: &mut Vec<u8>) -> usize {
    let simple = match text[at] {
        b'a' => 7,
        b'b' => 8,
        b'e' | b'E' => 27,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 11,
        b'x' => return number(text, at + 1, 2, 16, out),
        b'u' => return number(text, at + 1, 4, 16, out),
        b'U' => return number(text, at + 1, 8, 16, out),
        b'c' => {
            out.extend(text.get(at + 1).map(|byte| byte & 0x1f));
            return at + 2;
        }
        b'0'..=b'7' => return number(text, at, 3, 8, out),
        quoted @ (b'\\' | b'\'' | b'"' | b'?') => quoted,
        other => {
            out.push(b'\\');
            other
        }
    };
    out.push(simple);
    at + 1
}

fn number(text: &[u8], start: usize, most: usize, radix: u32, out: &mut Vec<u8>) -> usize {
    let digits = text[start.min(text.len())..]
        .iter()
        .take(most)
        .take_while(|byte| char::from(**byte).is_digit(radix))
        .count();
    let value = text[start..start + digits]
        .iter()
        .fold(0u32, |value, &byte| value.wrapping_mul(radix) + char::from(byte).to_digit(radix).unwrap_or(0));
    if digits == 0 {
        return start;
    }
    if most <= 3 {
        out.push(value.to_le_bytes()[0]);
    } else {
        let mut buffer = [0; 4];
        let c = char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER);
        out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
    }
    start + digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded() {
        for (text, decoded) in [
            ("\\162\\155'", "rm"),
            ("\\x72m' x", "rm"),
            ("\\u0072m'", "rm"),
            ("\\U00000072'", "r"),
            ("/", "/"),
            ("\\x", ""),
            ("\\q\\'\\\\", "\\q'\\"),
            ("r\\x6d\\0x'", "rm"),
            ("rm\\x00\\'\\00'", "rm"),
        ] {
            let mut out = Vec::new();
            decode(text.as_bytes(), 0, &mut out);
            assert_eq!(out, decoded.as_bytes(), "{text}");
        }
    }
}
