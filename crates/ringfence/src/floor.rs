use std::borrow::Cow;

/// What is done to captured output before anybody sees it. Off by default, since it changes bytes; for output
/// that a model reads it belongs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputFloor {
    /// Replaces private keys and well-known shapes of tokens with a marker.
    pub redact_secrets: bool,
    /// Removes characters that are not seen or that reorder what is seen: zero-width ones, bidirectional
    /// controls (UAX 9), tag characters, soft hyphens. Bytes that are no UTF-8 stay.
    pub strip_invisible: bool,
}

impl OutputFloor {
    /// Both on.
    pub fn all() -> Self {
        Self { redact_secrets: true, strip_invisible: true }
    }

    /// The output as it may be seen. Stripping comes first: an invisible character inside a token must not
    /// hide it.
    pub fn apply(self, output: Vec<u8>) -> Vec<u8> {
        let stripped = if self.strip_invisible { strip(&output) } else { Cow::Borrowed(output.as_slice()) };
        let redacted = if self.redact_secrets { redact(&stripped) } else { Cow::Borrowed(&*stripped) };
        match redacted {
            Cow::Owned(bytes) => bytes,
            Cow::Borrowed(_) => match stripped {
                Cow::Owned(bytes) => bytes,
                Cow::Borrowed(_) => output,
            },
        }
    }
}

/// Ranges of characters without a visible form (Unicode categories Cf and the variation selectors' supplement).
const INVISIBLE: &[(char, char)] = &[
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{202a}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff9}', '\u{fffb}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

fn invisible(c: char) -> bool {
    c >= '\u{ad}' && INVISIBLE.iter().any(|&(first, last)| (first..=last).contains(&c))
}

fn strip(bytes: &[u8]) -> Cow<'_, [u8]> {
    let hidden = bytes.utf8_chunks().any(|chunk| chunk.valid().chars().any(invisible));
    if !hidden {
        return Cow::Borrowed(bytes);
    }
    let mut kept = Vec::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        let mut buffer = [0; 4];
        for c in chunk.valid().chars().filter(|c| !invisible(*c)) {
            kept.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
        }
        kept.extend_from_slice(chunk.invalid());
    }
    Cow::Owned(kept)
}

/// A shape of tokens: a fixed beginning, then at least `min` characters of a kind.
struct Shape {
    start: &'static str,
    min: usize,
    allowed: fn(u8) -> bool,
    name: &'static str,
}

const fn shape(start: &'static str, min: usize, allowed: fn(u8) -> bool, name: &'static str) -> Shape {
    Shape { start, min, allowed, name }
}

fn word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn dashed(byte: u8) -> bool {
    word(byte) || byte == b'-'
}

fn dotted(byte: u8) -> bool {
    dashed(byte) || byte == b'.'
}

fn upper(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

/// As the issuers document them. The longest beginning of those that match counts.
const SHAPES: &[Shape] = &[
    shape("AKIA", 16, upper, "AWS key id"),
    shape("ASIA", 16, upper, "AWS key id"),
    shape("ghp_", 36, word, "GitHub token"),
    shape("gho_", 36, word, "GitHub token"),
    shape("ghu_", 36, word, "GitHub token"),
    shape("ghs_", 36, word, "GitHub token"),
    shape("ghr_", 36, word, "GitHub token"),
    shape("github_pat_", 22, word, "GitHub token"),
    shape("glpat-", 20, dashed, "GitLab token"),
    shape("npm_", 36, word, "npm token"),
    shape("pypi-", 50, dashed, "PyPI token"),
    shape("xoxb-", 20, dashed, "Slack token"),
    shape("xoxp-", 20, dashed, "Slack token"),
    shape("xoxa-", 20, dashed, "Slack token"),
    shape("xapp-", 20, dashed, "Slack token"),
    shape("sk_live_", 20, word, "Stripe key"),
    shape("rk_live_", 20, word, "Stripe key"),
    shape("sk-ant-", 20, dashed, "API key"),
    shape("sk-proj-", 20, dashed, "API key"),
    shape("sk-", 32, dashed, "API key"),
    shape("AIza", 35, dashed, "Google API key"),
    shape("ya29.", 20, dotted, "Google token"),
    shape("hf_", 30, word, "Hugging Face token"),
    shape("dop_v1_", 40, word, "DigitalOcean token"),
    shape("SG.", 40, dotted, "SendGrid key"),
    // A JSON Web Token's header begins with `{"` (RFC 7515).
    shape("eyJ", 40, dotted, "JSON Web Token"),
];

/// Bytes with which a secret can begin: most bytes of an output are none.
const STARTS: [bool; 256] = {
    let mut starts = [false; 256];
    starts[KEY_BEGIN[0] as usize] = true;
    let mut at = 0;
    while at < SHAPES.len() {
        starts[SHAPES[at].start.as_bytes()[0] as usize] = true;
        at += 1;
    }
    starts
};

const KEY_BEGIN: &[u8] = b"-----BEGIN ";
const KEY_END: &[u8] = b"-----END ";

fn redact(bytes: &[u8]) -> Cow<'_, [u8]> {
    let mut kept: Vec<u8> = Vec::new();
    let mut copied = 0;
    let mut at = 0;
    while at < bytes.len() {
        if !STARTS[usize::from(bytes[at])] {
            at += 1;
            continue;
        }
        let Some((end, name)) = secret_at(bytes, at) else {
            at += 1;
            continue;
        };
        kept.extend_from_slice(&bytes[copied..at]);
        kept.extend_from_slice(format!("[redacted: {name}]").as_bytes());
        at = end;
        copied = end;
    }
    if copied == 0 {
        return Cow::Borrowed(bytes);
    }
    kept.extend_from_slice(&bytes[copied..]);
    Cow::Owned(kept)
}

/// The end of the secret that begins at `at`, and what it is.
fn secret_at(bytes: &[u8], at: usize) -> Option<(usize, &'static str)> {
    let rest = &bytes[at..];
    if rest.starts_with(KEY_BEGIN) {
        return private_key(rest).map(|length| (at + length, "private key"));
    }
    if at > 0 && dashed(bytes[at - 1]) {
        return None;
    }
    let shape = SHAPES.iter().filter(|shape| rest.starts_with(shape.start.as_bytes()));
    shape.max_by_key(|shape| shape.start.len()).and_then(|shape| {
        let body = rest[shape.start.len()..].iter().take_while(|byte| (shape.allowed)(**byte)).count();
        (body >= shape.min).then_some((at + shape.start.len() + body, shape.name))
    })
}

/// Bytes in which the label of a PEM text stands; looking further at each beginning would cost the square of the length.
const LABEL: usize = 128;

/// Length of a private key in PEM (RFC 7468); one that is cut off is redacted to the end.
fn private_key(rest: &[u8]) -> Option<usize> {
    let head = &rest[..rest.len().min(LABEL)];
    let line_end = head.iter().position(|&byte| byte == b'\n' || byte == b'\\').unwrap_or(head.len());
    if !contains(&head[..line_end], b"PRIVATE KEY") {
        return None;
    }
    let Some(end) = find(rest, KEY_END) else { return Some(rest.len()) };
    let label = end + KEY_END.len();
    Some(find(&rest[label..], b"-----").map_or(rest.len(), |dashes| label + dashes + 5))
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    find(bytes, part).is_some()
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(text: &str) -> String {
        String::from_utf8(OutputFloor { redact_secrets: true, strip_invisible: false }.apply(text.into()))
            .unwrap()
    }

    #[test]
    fn nothing_changes_unless_it_is_switched_on() {
        let output = format!("ghp_{}\u{202e}", "a".repeat(36)).into_bytes();
        assert_eq!(OutputFloor::default().apply(output.clone()), output);
    }

    #[test]
    fn every_shape_is_redacted_at_its_least_length_and_no_shorter() {
        for Shape { start, min, name, .. } in SHAPES {
            let token = |length| format!("{start}{}", "A".repeat(length));
            assert_eq!(redacted(&format!("x={} y", token(*min))), format!("x=[redacted: {name}] y"));
            let short = format!("x={} y", token(*min - 1));
            assert_eq!(redacted(&short), short, "{start}");
            let inside = format!("x{}", token(*min));
            assert_eq!(redacted(&inside), inside, "part of another word");
        }
    }

    #[test]
    fn private_keys_are_redacted_whole_and_certificates_are_not() {
        let key = "a\n-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n-----END OPENSSH PRIVATE KEY-----\nb";
        assert_eq!(redacted(key), "a\n[redacted: private key]\nb");
        assert_eq!(redacted("-----BEGIN PRIVATE KEY-----\nMII"), "[redacted: private key]");
        assert_eq!(
            redacted(r#""-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----\n""#),
            r#""[redacted: private key]\n""#
        );
        let certificate = "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n";
        assert_eq!(redacted(certificate), certificate);
        let far = format!("-----BEGIN CERTIFICATE-----{}a PRIVATE KEY", "A".repeat(LABEL));
        assert_eq!(redacted(&far), far, "no label is that long");
    }

    #[test]
    fn invisible_characters_go_and_other_bytes_stay() {
        let floor = OutputFloor { redact_secrets: false, strip_invisible: true };
        let output = "a\u{200b}b\u{202e}c\u{e0041}é\u{1f600}\t\n".as_bytes();
        assert_eq!(
            floor.apply([output, b"\xff\xfe"].concat()),
            ["abcé\u{1f600}\t\n".as_bytes(), b"\xff\xfe"].concat()
        );
        assert_eq!(floor.apply(vec![0xff; 3]), [0xff; 3]);
    }

    #[test]
    fn an_invisible_character_hides_no_token() {
        let output = format!("ghp_aaaa\u{200b}{}", "a".repeat(32));
        assert_eq!(OutputFloor::all().apply(output.into_bytes()), b"[redacted: GitHub token]");
    }
}
