use super::source::{Source, line_of, words};
use super::{Tree, Violation};

/// Where unsafe code may stand.
const ALLOWED: [&str; 2] = ["crates/ringfence-linux/src/sys/", "crates/ringfence-probe/"];

/// Crates that hold one of those places; every other forbids unsafe code.
const UNSAFE_CRATES: [&str; 2] = ["crates/ringfence-linux/", "crates/ringfence-probe/"];

/// Says nothing about why the block is sound.
const EMPTY_PHRASES: [&str; 5] =
    ["parameters are valid", "arguments are valid", "trivially safe", "this is safe", "always safe"];

pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.find("", ".rs") {
        let source = Source::parse(text);
        let allowed = ALLOWED.iter().any(|place| path.starts_with(place));
        for at in words(&source.code, "unsafe") {
            let line = line_of(text, at);
            if !allowed {
                found.push(Violation::new(path, line, "unsafe code outside its allowed places"));
            } else if needs_reason(&source.code[at..])
                && let Err(what) = reason(&source, line)
            {
                found.push(Violation::new(path, line, what));
            }
        }
        found.extend(missing_attribute(path, &source.code));
    }
    found
}

/// Blocks and implementations discharge a duty; an `unsafe fn` and its type only state one.
fn needs_reason(code: &str) -> bool {
    let next = code["unsafe".len()..].trim_start();
    next.starts_with('{') || next.starts_with("impl")
}

/// A comment with `SAFETY:` must stand directly above the statement that holds the unsafe block.
fn reason(source: &Source, line: usize) -> Result<(), String> {
    let code: Vec<&str> = source.code.lines().collect();
    let comments: Vec<&str> = source.comments.lines().collect();
    let mut at = line - 1;
    // Up to the statement's first line, or to a comment between its lines.
    while at > 0 && comments[at - 1].trim().is_empty() && continues(code[at - 1]) {
        at -= 1;
    }
    let mut block = Vec::new();
    while at > 0
        && (!comments[at - 1].trim().is_empty() && code[at - 1].trim().is_empty() || attribute(code[at - 1]))
    {
        at -= 1;
        block.push(comments[at].trim());
    }
    block.reverse();
    let block = block.join(" ");
    let Some((_, text)) = block.split_once("SAFETY:") else {
        return Err("no SAFETY comment directly above".to_owned());
    };
    let text = text.replace("//", " ").to_lowercase();
    if text.split_whitespace().count() < 4 || EMPTY_PHRASES.iter().any(|phrase| text.contains(phrase)) {
        return Err("the SAFETY comment names no invariant".to_owned());
    }
    Ok(())
}

/// Whether the statement goes on after this line of code.
fn continues(line: &str) -> bool {
    let line = line.trim_end();
    !line.trim().is_empty() && !attribute(line) && !line.ends_with([';', '{', '}', ','])
}

fn attribute(line: &str) -> bool {
    line.trim_start().starts_with("#[")
}

/// The root file of each crate forbids unsafe code, or denies it where some modules may allow it.
fn missing_attribute(path: &str, code: &str) -> Option<Violation> {
    let is_root = path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs");
    let lint = match UNSAFE_CRATES.iter().any(|name| path.starts_with(name)) {
        true if path.ends_with("/src/lib.rs") => "#![deny(unsafe_code)]",
        true => return None,
        false => "#![forbid(unsafe_code)]",
    };
    (is_root && !code.contains(lint)).then(|| Violation::new(path, 1, format!("no `{lint}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYS: &str = "crates/ringfence-linux/src/sys/fd.rs";

    fn violations(path: &str, text: &str) -> Vec<(usize, String)> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|found| (found.line, found.what)).collect()
    }

    #[test]
    fn unsafe_outside_its_places_is_found_and_a_mention_of_it_is_not() {
        let text = "// unsafe\nlet a = \"unsafe\";\nunsafe { b() }\n";
        assert_eq!(violations("crates/ringfence-gate/src/a.rs", text).len(), 1);
        assert_eq!(violations("crates/ringfence-linux/src/driver.rs", text)[0].0, 3);
    }

    #[test]
    fn a_block_has_its_reason_directly_above() {
        let good = "// SAFETY: fd is owned by this call and closed nowhere else.\nlet a =\n    unsafe { close(fd) };\n";
        assert_eq!(violations(SYS, good), []);
        let far = "// SAFETY: fd is owned by this call and closed nowhere else.\nb();\nlet a = unsafe { close(fd) };\n";
        assert_eq!(violations(SYS, far).len(), 1);
        let second = "// SAFETY: fd is owned by this call alone.\nunsafe { a() };\nunsafe { b() };\n";
        assert_eq!(violations(SYS, second)[0].0, 3);
    }

    #[test]
    fn an_empty_reason_is_none() {
        for text in [
            "// SAFETY: ok\nunsafe { a() }",
            "// SAFETY: all of the parameters are valid here\nunsafe { a() }",
        ] {
            assert_eq!(violations(SYS, text), [(2, "the SAFETY comment names no invariant".to_owned())]);
        }
    }

    #[test]
    fn each_crate_states_its_lint() {
        assert_eq!(violations("crates/ringfence/src/lib.rs", "//! Docs.\n").len(), 1);
        assert_eq!(violations("crates/ringfence/src/lib.rs", "#![forbid(unsafe_code)]\n"), []);
        assert_eq!(violations("crates/ringfence-linux/src/lib.rs", "#![deny(unsafe_code)]\n"), []);
        assert_eq!(violations("crates/ringfence-linux/src/lib.rs", "\n").len(), 1);
    }
}
