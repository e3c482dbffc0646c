//! What a script of GNU sed runs: the `e` command and the `e` flag of `s` (sed(1)).

/// Texts for a shell.
pub(super) fn commands(script: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < script.len() {
        at = address(script, at);
        let Some(&command) = script.get(at) else { break };
        at += 1;
        match command {
            b'e' => {
                let end = line_end(script, at);
                found.push(script[at..end].trim_ascii().to_vec());
                at = end;
            }
            b's' => at = substitution(script, at, &mut found),
            b'y' => {
                let (_, next) = delimited(script, at + 1, script.get(at).copied());
                at = delimited(script, next, script.get(at).copied()).1;
            }
            // Text, names of files and labels go on to the end of the line.
            b'a' | b'i' | b'c' | b'r' | b'R' | b'w' | b'W' | b'#' => {
                at = line_end(script, at);
                while at < script.len() && script[at - 1] == b'\\' {
                    at = line_end(script, at + 1);
                }
            }
            _ => {}
        }
    }
    found
}

fn line_end(text: &[u8], at: usize) -> usize {
    let at = at.min(text.len());
    memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |end| at + end)
}

/// Skips addresses, blanks and what separates commands.
fn address(text: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = text.get(at) {
        at = match byte {
            b'/' => {
                let end = delimited(text, at + 1, Some(b'/')).1;
                end + text[end.min(text.len())..]
                    .iter()
                    .take_while(|byte| matches!(byte, b'I' | b'M'))
                    .count()
            }
            b'\\' => delimited(text, at + 2, text.get(at + 1).copied()).1,
            b'0'..=b'9' | b'$' | b',' | b'~' | b'+' | b'!' | b';' | b'{' | b'}' => at + 1,
            _ if byte.is_ascii_whitespace() => at + 1,
            _ => return at,
        };
    }
    at
}

/// What stands before the next delimiter, and the position after it.
fn delimited(text: &[u8], start: usize, delimiter: Option<u8>) -> (Vec<u8>, usize) {
    let mut out = Vec::new();
    let mut at = start;
    while at < text.len() {
        if Some(text[at]) == delimiter {
            return (out, at + 1);
        }
        if text[at] == b'\\' && at + 1 < text.len() {
            at += 1;
        }
        out.push(text[at]);
        at += 1;
    }
    (out, text.len())
}

/// `s/regexp/replacement/flags`: with `e` the result is run, of which the replacement is known.
fn substitution(text: &[u8], at: usize, found: &mut Vec<Vec<u8>>) -> usize {
    let delimiter = text.get(at).copied();
    let (_, replacement) = delimited(text, at + 1, delimiter);
    let (replacement, flags) = delimited(text, replacement, delimiter);
    let flags_text = text.get(flags..).unwrap_or_default();
    let length = flags_text.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    if flags_text[..length].split(|&byte| byte == b'w').next().unwrap_or_default().contains(&b'e') {
        found.push(replacement);
    }
    if flags_text[..length].contains(&b'w') { line_end(text, flags) } else { flags + length }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_e_runs_something() {
        for (script, expected) in [
            ("1e rm -rf /", vec!["rm -rf /"]),
            ("e", vec![""]),
            ("/x/,$ e date\np", vec!["date"]),
            ("s/.*/rm -rf \\//e", vec!["rm -rf /"]),
            ("s|a|b|;s,x,id,ge", vec!["id"]),
            ("s/e/x/e2", vec!["x"]),
            ("s/e/x/", vec![]),
            ("s/a/e rm/g;p", vec![]),
            ("a e rm -rf /", vec![]),
            ("a\\\ne rm\\\ne x\ne id", vec!["id"]),
            ("/e rm/d", vec![]),
            ("y/abc/def/;d", vec![]),
            ("s/x/y/w e", vec![]),
            ("$!{N;D}", vec![]),
            ("s/unfinished", vec![]),
        ] {
            let found: Vec<_> = commands(script.as_bytes())
                .into_iter()
                .map(|text| String::from_utf8(text).unwrap())
                .collect();
            assert_eq!(found, expected, "{script}");
        }
    }
}
