use super::source::{line_of, words};
use super::{Tree, Violation};

/// In source files. Written so that this file does not hold them.
const IN_CODE: &[(&str, &str)] = &[
    (concat!("to", "do!("), "unfinished"),
    (concat!("unimple", "mented!("), "unfinished"),
    (concat!("FIX", "ME"), "unfinished"),
    (concat!("XX", "X"), "unfinished"),
    (concat!("#[ign", "ore"), "a test that is switched off"),
];

/// The one reason for a test that the runner leaves out: another test starts it in a process of its own.
const STARTED_BY_ANOTHER: &str = concat!("#[ign", "ore = \"a process of its own, started by another test\"]");

/// In any file.
const ANYWHERE: &[(&str, &str)] = &[
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/ro", "ot/.cargo"), "a path of one machine"),
    (concat!("/ro", "ot/.rustup"), "a path of one machine"),
];

pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.find("", "") {
        let code = if path.ends_with(".rs") { IN_CODE } else { &[] };
        for (banned, why) in ANYWHERE.iter().chain(code) {
            for at in words(text, banned).filter(|&at| !text[at..].starts_with(STARTED_BY_ANOTHER)) {
                found.push(Violation::new(path, line_of(text, at), format!("`{banned}`: {why}")));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_work_and_machine_paths_are_found() {
        let text = concat!("a\nFIX", "ME\n#[ign", "ore = \"slow\"]\ncd /wo", "rk/main\nhomework/x\n");
        let lines =
            |path| check(&Tree::of(&[(path, text)])).into_iter().map(|found| found.line).collect::<Vec<_>>();
        assert_eq!(lines("a.rs"), [4, 2, 3]);
        assert_eq!(lines("a.md"), [4]);
        assert_eq!(check(&Tree::of(&[("a.rs", STARTED_BY_ANOTHER)])), []);
    }
}
