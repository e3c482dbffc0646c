//! Characters that no program shows and some drop, and those that stand for others.

use std::borrow::Cow;

/// Drops invisible and bidirectional characters and takes full-width forms for their ASCII letters. Text that holds
/// none is not copied.
pub(super) fn invisible(text: &[u8]) -> Cow<'_, [u8]> {
    fold(text, |c| match c {
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{e0000}'..='\u{e007f}'
        | '\u{e0100}'..='\u{e01ef}' => Some(None),
        '\u{ff01}'..='\u{ff5e}' => Some(char::from_u32(u32::from(c) - 0xfee0)),
        _ => None,
    })
}

/// PowerShell's other dashes, quotes and blanks (about_Quoting_Rules; `CharTraits` of its source).
pub(super) fn powershell(text: &[u8]) -> Cow<'_, [u8]> {
    fold(text, |c| match c {
        '\u{2013}'..='\u{2015}' => Some(Some('-')),
        '\u{2018}'..='\u{201b}' => Some(Some('\'')),
        '\u{201c}'..='\u{201e}' => Some(Some('"')),
        '\u{a0}' | '\u{85}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => {
            Some(Some(' '))
        }
        _ => None,
    })
}

/// Replaces characters. Bytes that are not UTF-8 stay as they are.
fn fold(text: &[u8], replace: impl Fn(char) -> Option<Option<char>>) -> Cow<'_, [u8]> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut out: Option<Vec<u8>> = None;
    let mut done = 0;
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            let length = c.len_utf8();
            if c.is_ascii() {
                if let Some(out) = &mut out {
                    out.push(text[done]);
                }
            } else if let Some(replacement) = replace(c) {
                let out = out.get_or_insert_with(|| text[..done].to_vec());
                out.extend(replacement.and_then(|c| u8::try_from(c).ok()));
            } else if let Some(out) = &mut out {
                out.extend_from_slice(&text[done..done + length]);
            }
            done += length;
        }
        if let Some(out) = &mut out {
            out.extend_from_slice(chunk.invalid());
        }
        done += chunk.invalid().len();
    }
    out.map_or(Cow::Borrowed(text), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_folded_is_copied() {
        assert!(matches!(invisible("grüße".as_bytes()), Cow::Borrowed(_)));
        assert!(matches!(invisible(b"\xff\xfe"), Cow::Borrowed(_)));
        assert_eq!(&*invisible("r\u{200b}m\u{ad} ｒ".as_bytes()), b"rm r");
        assert_eq!(&*invisible(b"a\xffb\xe2\x80\x8bc\xff"), b"a\xffbc\xff");
        assert_eq!(&*powershell("–r ‘x’ “y”\u{a0}z".as_bytes()), b"-r 'x' \"y\" z");
    }
}
