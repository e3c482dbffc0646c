//! Where the `}` of a `${` stands. Substitutions between them are scripts of their own: their quotes, comments,
//! here-documents and patterns of `case` may hold braces and parentheses that close nothing.

use super::ansi;
use super::heredoc::{Pending, body};

/// What is open.
enum Open {
    /// `${`; `double` if it stands between double quotes, where a single quote is a character like others.
    Brace {
        double: bool,
    },
    Double,
    /// `$((`, and parentheses in it
    Arithmetic,
    Script(Script),
}

/// `$(`, `<(`, or a parenthesis in a script
#[derive(Default)]
struct Script {
    /// `case` words without their `esac`: a `)` ends a pattern.
    cases: usize,
    /// Whether a word here is the first one of a command.
    inside_command: bool,
    heredocs: Vec<Pending>,
}

/// The `}` that belongs to the `${` before `start`, or `None` if it has none.
pub(super) fn brace(text: &[u8], start: usize, double: bool) -> Option<usize> {
    let mut open = vec![Open::Brace { double }];
    let mut at = start;
    while let Some(&byte) = text.get(at) {
        let next = text.get(at + 1).copied();
        let level = open.last_mut()?;
        let single = !matches!(level, Open::Double | Open::Brace { double: true });
        match (byte, &mut *level) {
            (b'\\', level) => {
                at += 1;
                if let Open::Script(script) = level {
                    script.inside_command |= next != Some(b'\n');
                }
            }
            (b'\'', level) if single => {
                at += memchr::memchr(b'\'', &text[at + 1..]).map_or(0, |length| length + 1);
                level.word();
            }
            (b'$', level) if single && next == Some(b'\'') => {
                at = ansi::decode(text, at + 2, &mut Vec::new()) - 1;
                level.word();
            }
            (b'`', level) => {
                at = backtick_end(text, at + 1).unwrap_or(at);
                level.word();
            }
            (b'$', level) if matches!(next, Some(b'{' | b'(')) => {
                let double = matches!(level, Open::Double | Open::Brace { double: true });
                level.word();
                at += 1;
                open.push(match text.get(at + 1) {
                    _ if text[at] == b'{' => Open::Brace { double },
                    Some(b'(') => Open::Arithmetic,
                    _ => Open::Script(Script::default()),
                });
            }
            (b'"', Open::Double) => {
                open.pop();
            }
            (_, Open::Double) => {}
            (b'"', level) => {
                level.word();
                open.push(Open::Double);
            }
            (b'}', Open::Brace { .. }) => {
                open.pop();
                if open.is_empty() {
                    return Some(at);
                }
            }
            (_, Open::Brace { .. }) => {}
            (b'(', Open::Arithmetic) => open.push(Open::Arithmetic),
            (b')', Open::Arithmetic) => {
                open.pop();
            }
            (_, Open::Arithmetic) => {}
            (b'(', Open::Script(script)) => {
                script.inside_command = true;
                open.push(Open::Script(Script::default()));
            }
            (b')', Open::Script(Script { cases: 0, .. })) => {
                open.pop();
            }
            (_, Open::Script(script)) => {
                at = script.step(text, at);
                continue;
            }
        }
        at += 1;
    }
    None
}

impl Open {
    /// A part of a word has been read.
    fn word(&mut self) {
        if let Open::Script(script) = self {
            script.inside_command = true;
        }
    }
}

impl Script {
    /// Reads on in a script from a byte that opens and closes nothing. Returns where it goes on.
    fn step(&mut self, text: &[u8], at: usize) -> usize {
        let rest = &text[at..];
        let begins = is_boundary(text[at - 1]);
        match rest[0] {
            b'\n' => {
                self.inside_command = false;
                self.heredocs.drain(..).fold(at + 1, |at, pending| body(text, at, &pending).2)
            }
            b'#' if begins => memchr::memchr(b'\n', rest).map_or(text.len(), |length| at + length),
            b'<' if rest.starts_with(b"<<<") => at + 3,
            b'<' if rest.starts_with(b"<<") => self.heredoc(text, at + 2),
            b';' | b'&' | b'|' | b')' => {
                self.inside_command = false;
                at + 1
            }
            byte if is_boundary(byte) => at + 1,
            _ => {
                let length = rest.iter().position(|&byte| is_boundary(byte) || is_quote(byte));
                let word = &rest[..length.unwrap_or(rest.len()).max(1)];
                let whole = begins && rest.get(word.len()).is_none_or(|&byte| is_boundary(byte));
                self.named(if whole { word } else { b"" });
                at + word.len()
            }
        }
    }

    /// A word that may be reserved.
    fn named(&mut self, word: &[u8]) {
        match word {
            b"case" if !self.inside_command => {
                self.cases += 1;
                self.inside_command = true;
            }
            b"esac" if !self.inside_command => self.cases = self.cases.saturating_sub(1),
            // A pattern follows.
            b"in" if self.cases > 0 => self.inside_command = false,
            b"if" | b"then" | b"elif" | b"else" | b"while" | b"until" | b"do" | b"!" | b"{" | b"time"
                if !self.inside_command => {}
            _ => self.inside_command = true,
        }
    }

    /// Takes down the delimiter behind `<<`. Returns where it ends.
    fn heredoc(&mut self, text: &[u8], start: usize) -> usize {
        let tabs = text.get(start) == Some(&b'-');
        let start = start + usize::from(tabs);
        let blank = text[start..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let word = &text[start + blank..];
        let word = &word[..word.iter().position(|&byte| is_boundary(byte)).unwrap_or(word.len())];
        let delimiter =
            word.iter().copied().filter(|byte| !matches!(byte, b'\'' | b'"' | b'\\' | b'$')).collect();
        self.heredocs.push(Pending { delimiter, tabs, quoted: true, id: 0 });
        start + blank + word.len()
    }
}

/// Whether a byte stands between words.
fn is_boundary(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b'(' | b')' | b';' | b'&' | b'|' | b'<' | b'>')
}

/// Whether something begins at a byte that is not read as a part of a plain word.
fn is_quote(byte: u8) -> bool {
    matches!(byte, b'\\' | b'\'' | b'"' | b'`' | b'$')
}

/// Where the backtick stands that ends what begins at `start`.
fn backtick_end(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    loop {
        at += memchr::memchr2(b'`', b'\\', &text[at..])?;
        if text[at] == b'`' {
            return Some(at);
        }
        at += 2;
        if at > text.len() {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_closes_nothing_is_passed_over() {
        for text in [
            "a",
            "${a}",
            "$(b '}' \"}\" \\} $'\\'}' `c }`)",
            "$(# 'comment } \\\n)",
            "$(a#')'})",
            "$(case x in a) b;; (c) }; esac)",
            "$(if case $x in }) a; esac; then b; fi)",
            "$(echo case)",
            "$(a <<E; b\n } ) '\nE\n)",
            "$(a <<-'E'\n\t$(\n\tE\n)",
            "$(a \"$(b \")\" })\" })",
            "$((1<<2))",
            "$((16#ff))$(( (1) ))",
            "'}'",
            "\"}\"",
        ] {
            let end = text.len();
            let text = format!("{text}}} }} ) '\" ` E");
            assert_eq!(brace(text.as_bytes(), 0, false), Some(end), "{text}");
        }
        assert_eq!(brace(b"it's}'}", 0, true), Some(4));
        for text in ["", "\"}", "$(}", "$(case x in a) b;;)}"] {
            assert_eq!(brace(text.as_bytes(), 0, true), None, "{text}");
        }
    }
}
