//! What the arguments of a program are: values of its options, and operands.

use crate::command_policy::word::Word;

/// Values of the options that matter, and the operands.
#[derive(Debug, Default)]
pub(super) struct Arguments<'w, 'a> {
    /// The word, and where in it the value begins.
    pub(super) given: Vec<(&'w Word<'a>, usize)>,
    pub(super) operands: Vec<&'w Word<'a>>,
}

/// Reads arguments: `options` have a value that matters, `values` another one. Options may follow operands, and stand
/// in one word with others that have none.
pub(super) fn read<'w, 'a>(args: &'w [Word<'a>], options: &[&str], values: &[&str]) -> Arguments<'w, 'a> {
    let mut found = Arguments::default();
    let mut at = 0;
    let mut ended = false;
    while let Some(word) = args.get(at) {
        let text = &*word.text;
        at += 1;
        if ended {
            found.operands.push(word);
        } else if text == b"--" {
            ended = true;
        } else if let Some((known, value)) = value_of(options, text) {
            match value {
                Some(offset) => found.given.push((word, offset)),
                None => {
                    found.given.extend(args.get(at).map(|next| (next, 0)));
                    at += usize::from(!known.ends_with('='));
                }
            }
        } else if text.len() < 2 || text[0] != b'-' {
            found.operands.push(word);
        } else if values.iter().any(|known| text.eq_ignore_ascii_case(known.as_bytes())) {
            at += 1;
        } else {
            at += cluster(args, at - 1, options, values, &mut found);
        }
    }
    found
}

/// `-abc value`, `-abcvalue`: returns how many further words it takes.
fn cluster<'w, 'a>(
    args: &'w [Word<'a>],
    at: usize,
    options: &[&str],
    values: &[&str],
    found: &mut Arguments<'w, 'a>,
) -> usize {
    let word = &args[at];
    let letters = &word.text[1..];
    if letters.first() == Some(&b'-') {
        return 0;
    }
    let holds = |list: &[&str], letter: u8| list.iter().any(|known| known.as_bytes() == [b'-', letter]);
    for (index, &letter) in letters.iter().enumerate() {
        if !letter.is_ascii_alphanumeric() {
            return 0;
        }
        let last = index + 1 == letters.len();
        if holds(options, letter) {
            match last {
                true => found.given.extend(args.get(at + 1).map(|next| (next, 0))),
                false => found.given.push((word, index + 2)),
            }
            return usize::from(last);
        }
        if holds(values, letter) {
            return usize::from(last);
        }
    }
    0
}

/// The option that this is, and where its value begins if it is in the same word.
fn value_of<'o>(options: &[&'o str], text: &[u8]) -> Option<(&'o str, Option<usize>)> {
    if let Some(known) = options.iter().find(|known| known.len() > 1 && text == known.as_bytes()) {
        return Some((*known, if known.ends_with('=') { Some(text.len()) } else { None }));
    }
    options.iter().find_map(|known| {
        let length = known.len();
        let head = text.get(..length)?;
        if !head.eq_ignore_ascii_case(known.as_bytes()) || length <= 2 && head != known.as_bytes() {
            return None;
        }
        if known.ends_with('=') {
            return Some((*known, Some(length)));
        }
        match text.get(length) {
            None if length == 1 => None,
            None => Some((*known, None)),
            Some(b'=' | b':') => Some((*known, Some(length + 1))),
            Some(_) if length <= 2 => Some((*known, Some(length))),
            Some(_) => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(line: &str) -> (Vec<String>, Vec<String>) {
        let words: Vec<Word<'_>> = line.split(' ').map(|word| Word::borrowed(word.as_bytes())).collect();
        let found = read(&words, &["-o", "--output", "+", "of="], &["-b", "--bytes"]);
        let text = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        (
            found.given.iter().map(|(word, offset)| text(&word.text[*offset..])).collect(),
            found.operands.iter().map(|word| text(&word.text)).collect(),
        )
    }

    #[test]
    fn values_are_told_from_operands() {
        for (line, values, operands) in [
            ("a -o x b", vec!["x"], vec!["a", "b"]),
            ("-ox --output=y --output z", vec!["x", "y", "z"], vec![]),
            ("-so x -sox a", vec!["x", "x"], vec!["a"]),
            ("-b 5 -sb 5 -b5 a", vec![], vec!["a"]),
            ("+!x + a", vec!["!x"], vec!["+", "a"]),
            ("of=x if=y", vec!["x"], vec!["if=y"]),
            ("-- -o x", vec![], vec!["-o", "x"]),
            ("a - -o", vec![], vec!["a", "-"]),
        ] {
            let (found, rest) = given(line);
            assert_eq!(
                (found, rest),
                (
                    values.iter().map(ToString::to_string).collect(),
                    operands.iter().map(ToString::to_string).collect()
                ),
                "{line}"
            );
        }
    }
}
