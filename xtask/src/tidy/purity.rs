use super::source::{Source, line_of, words};
use super::{Tree, Violation, is_test_file};

const PURE: [&str; 3] =
    ["crates/ringfence-types/src/", "crates/ringfence-policy/src/", "crates/ringfence-plan/src/"];

/// What asks the host system for anything, or is compiled only for some. `std::net`'s address types are plain
/// data, its sockets are not.
const BANNED: &[&str] = &[
    "target_os",
    "target_family",
    "cfg(unix)",
    "cfg(windows)",
    "not(unix)",
    "not(windows)",
    "std::os",
    "std::fs",
    "std::env",
    "std::process",
    "std::thread",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "ToSocketAddrs",
    "rustix",
    "libc",
    "tokio",
    ".exists()",
    ".try_exists()",
    ".canonicalize()",
    ".metadata()",
    ".symlink_metadata()",
    ".read_dir()",
    ".read_link()",
];

pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for crate_source in PURE {
        for (path, text) in tree.find(crate_source, ".rs").filter(|(path, _)| !is_test_file(path)) {
            let code = Source::parse(text).code_without_tests();
            for banned in BANNED {
                for at in words(&code, banned) {
                    found.push(Violation::new(
                        path,
                        line_of(text, at),
                        format!("`{banned}` in a pure crate"),
                    ));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_output_and_host_conditions_are_found_in_pure_crates_only() {
        let text =
            "#[cfg(target_os = \"linux\")]\nfn a(p: &Path) -> bool { p.exists() }\n// std::fs is fine here\n";
        let tree =
            Tree::of(&[("crates/ringfence-plan/src/a.rs", text), ("crates/ringfence-gate/src/a.rs", text)]);
        let lines: Vec<_> = check(&tree).into_iter().map(|found| (found.path, found.line)).collect();
        let path = "crates/ringfence-plan/src/a.rs".to_owned();
        assert_eq!(lines, [(path.clone(), 1), (path, 2)]);
    }
}
