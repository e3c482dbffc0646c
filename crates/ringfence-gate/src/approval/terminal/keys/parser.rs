//! Keys as a terminal sends them, in whatever mode a program has left its keyboard, apart from all else that it sends:
//! the mouse, what is pasted, answers to a program's questions.

use vte::{Params, Parser, Perform};

/// What means something to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Enter,
    /// Ctrl-C, Ctrl-D, Ctrl-\, Escape.
    End,
    /// Backspace.
    Back,
    /// A printable ASCII character.
    Letter(u8),
}

const CTRL_C: u32 = 3;
const CTRL_D: u32 = 4;
const BACKSPACE: u32 = 8;
const LINE_FEED: u32 = 10;
const RETURN: u32 = 13;
const ESCAPE: u32 = 27;
const CTRL_BACKSLASH: u32 = 28;
const DELETE: u32 = 127;
/// Enter of the number pad (kitty's keyboard protocol).
const PAD_ENTER: u32 = 57414;

impl Key {
    /// The key of a character or control character.
    fn of(code: u32) -> Option<Self> {
        Some(match code {
            RETURN | LINE_FEED | PAD_ENTER => Self::Enter,
            CTRL_C | CTRL_D | CTRL_BACKSLASH | ESCAPE => Self::End,
            BACKSPACE | DELETE => Self::Back,
            _ => Self::Letter(u8::try_from(code).ok().filter(|code| matches!(code, b' '..=b'~'))?),
        })
    }

    /// The key of a character with modifiers: 1 more than the sum of Shift 1, Alt 2, Ctrl 4 and others, of which the
    /// locks 64 and 128 change nothing (xterm, `modifyOtherKeys`; kitty's keyboard protocol).
    fn modified(code: u32, modifiers: u16) -> Option<Self> {
        match modifiers.saturating_sub(1) & !(1 | 64 | 128) {
            0 => Self::of(code),
            4 => Self::of(code & 0x1f).filter(|key| *key == Self::End),
            _ => None,
        }
    }
}

/// Takes a keyboard's bytes apart, wherever they are cut.
#[derive(Default)]
pub(super) struct Keyboard {
    parser: Parser,
    found: Found,
    last: u8,
}

#[derive(Default)]
struct Found {
    keys: Vec<Key>,
    /// Between the marks of a bracketed paste.
    pasting: bool,
    /// Bytes that still belong to the sequence before.
    skipped: usize,
}

impl Keyboard {
    /// The keys among the next bytes.
    pub(super) fn keys(&mut self, bytes: &[u8]) -> Vec<Key> {
        for byte in bytes {
            self.last = *byte;
            if self.found.skipped > 0 {
                self.found.skipped -= 1;
            } else {
                self.parser.advance(&mut self.found, &[*byte]);
            }
        }
        std::mem::take(&mut self.found.keys)
    }

    /// Whether an escape came last: the key, or the beginning of something.
    pub(super) fn ends_in_escape(&self) -> bool {
        u32::from(self.last) == ESCAPE && !self.found.pasting
    }
}

impl Found {
    fn push(&mut self, key: Option<Key>) {
        self.keys.extend(key.filter(|_| !self.pasting));
    }
}

impl Perform for Found {
    fn print(&mut self, c: char) {
        self.push(Key::of(c.into()));
    }

    fn execute(&mut self, byte: u8) {
        self.push(Key::of(byte.into()));
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], ignored: bool, action: char) {
        if ignored || !intermediates.is_empty() {
            return;
        }
        let number = |at: usize, sub: usize| params.iter().nth(at).and_then(|all| all.get(sub)).copied();
        let first = number(0, 0).unwrap_or_default();
        match action {
            '~' if first == 200 || first == 201 => self.pasting = first == 200,
            // xterm's other keys: 27, modifiers, character.
            '~' if first == 27 => {
                let code = number(2, 0).unwrap_or_default();
                self.push(Key::modified(code.into(), number(1, 0).unwrap_or(1)));
            }
            // kitty's: character, modifiers and what happened, of which 3 is that the key was released.
            'u' if number(1, 1) != Some(3) => {
                self.push(Key::modified(first.into(), number(1, 0).unwrap_or(1)));
            }
            // X10's mouse: button, column and row follow as bytes.
            'M' if params.iter().flatten().all(|number| *number == 0) => self.skipped = 3,
            _ => {}
        }
    }

    fn esc_dispatch(&mut self, _intermediates: &[u8], _ignored: bool, byte: u8) {
        // Function keys, and the number pad in its own mode: one more byte.
        if byte == b'O' {
            self.skipped = 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<Key> {
        let whole = Keyboard::default().keys(text.as_bytes());
        let mut cut = Keyboard::default();
        let pieces: Vec<Key> = text.as_bytes().iter().flat_map(|byte| cut.keys(&[*byte])).collect();
        assert_eq!(whole, pieces, "{text:?}");
        whole
    }

    #[test]
    fn keys_are_the_same_in_every_mode_of_the_keyboard() {
        use Key::{Back, End, Enter, Letter};
        for (text, expected) in [
            ("y\r", &[Letter(b'y'), Enter][..]),
            ("Y\n", &[Letter(b'Y'), Enter]),
            ("\x7f\x08", &[Back, Back]),
            ("\x03\x04\x1c", &[End, End, End]),
            // kitty's protocol: y pressed and released, Y, Enter with the number lock, Ctrl-C, Escape, Backspace.
            ("\x1b[121u\x1b[121;1:3u", &[Letter(b'y')]),
            ("\x1b[121:89;2u", &[Letter(b'y')]),
            ("\x1b[13;129u", &[Enter]),
            ("\x1b[57414u", &[Enter]),
            ("\x1b[99;5u\x1b[27u\x1b[127u", &[End, End, Back]),
            // xterm's other keys.
            ("\x1b[27;1;121~\x1b[27;5;99~", &[Letter(b'y'), End]),
            // With Alt, Super or Ctrl they are others.
            ("\x1b[121;3u\x1b[121;9u\x1by", &[]),
            ("\x1b[121;5u\x1b[109;5u", &[]),
        ] {
            assert_eq!(keys(text), expected, "{text:?}");
        }
    }

    #[test]
    fn nothing_else_is_a_key() {
        for text in [
            "\x1b[A\x1bOA\x1bOy\x1b[1;5D\x1b[3~\x1b[I",
            "\x1b[<0;121;13M\x1b[<0;121;13m\x1b[121;13;13M",
            "\x1b[M yy\x1b[M\ry\r",
            "\x1b[200~y\rs\r\x1b[121u\x1b[201~",
            "\x1b[?121u\x1b[?62;121c\x1b[121;13R\x1b[?2026;2$y\x1b[>41;121;0c",
            "\x1b]10;rgb:79/79/79\x07\x1b]ly\x1b\\\x1bP1+r79=79\x1b\\\x1b_Gi=1;y\x1b\\",
            "é\u{79f9}",
        ] {
            assert_eq!(keys(text), [], "{text:?}");
        }
        let mut keyboard = Keyboard::default();
        for (part, at_escape) in [(&b"y"[..], false), (b"\x1b", true), (b"[A", false)] {
            keyboard.keys(part);
            assert_eq!(keyboard.ends_in_escape(), at_escape, "{part:?}");
        }
    }
}
