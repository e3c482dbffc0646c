//! The repository's own rules, each a function from the tree to its violations.

mod documents;
mod edges;
mod enforcement;
mod generated;
mod invariants;
mod length;
mod processes;
mod purity;
mod source;
mod unsafe_code;
mod words;

use std::fmt;
use std::path::Path;

use crate::error::Error;
use crate::tools;

/// A rule: its name, what it says, and its check.
struct Rule {
    name: &'static str,
    says: &'static str,
    check: fn(&Tree) -> Vec<Violation>,
}

const RULES: &[Rule] = &[
    Rule {
        name: "unsafe-code",
        says: "unsafe code only in ringfence-linux/src/sys and in the probe; each block says why it is sound",
        check: unsafe_code::check,
    },
    Rule {
        name: "purity",
        says: "types, policy and plan do no I/O and don't depend on the host system",
        check: purity::check,
    },
    Rule { name: "processes", says: "only a driver starts a process", check: processes::check },
    Rule { name: "edges", says: "crates depend on each other only as drawn", check: edges::check },
    Rule { name: "changelog", says: "CHANGELOG.md keeps to Keep a Changelog", check: documents::changelog },
    Rule {
        name: "adr",
        says: "decision records are numbered and have the five parts",
        check: documents::decisions,
    },
    Rule { name: "invariants", says: "each invariant names a check that exists", check: invariants::check },
    Rule {
        name: "enforcement-table",
        says: "docs/enforcement.md agrees with the code",
        check: enforcement::check,
    },
    Rule { name: "generated", says: "pages that are made from data are current", check: generated::check },
    Rule { name: "length", says: "a long file has a reason", check: length::check },
    Rule {
        name: "words",
        says: "no unfinished work, no switched-off test, no path of one machine",
        check: words::check,
    },
];

/// A place that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    path: String,
    line: usize,
    what: String,
}

impl Violation {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// The text files of the repository, by path from its root, sorted.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: Vec<(String, String)>,
}

impl Tree {
    /// All that git tracks or would track. Files that are not UTF-8 text are left out.
    fn load(root: &Path) -> Result<Self, Error> {
        let mut git = std::process::Command::new("git");
        git.current_dir(root).args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
            "--deduplicate",
        ]);
        let listed = tools::capture(&mut git)?;
        let mut files = Vec::new();
        for name in listed.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
            let Ok(name) = std::str::from_utf8(name) else { continue };
            let path = root.join(name);
            let bytes = match std::fs::read(&path) {
                Ok(bytes) => bytes,
                // Deleted and not yet committed, or a submodule's folder.
                Err(error)
                    if matches!(
                        error.kind(),
                        std::io::ErrorKind::NotFound | std::io::ErrorKind::IsADirectory
                    ) =>
                {
                    continue;
                }
                Err(source) => return Err(Error::Read { path, source }),
            };
            if let Ok(text) = String::from_utf8(bytes) {
                files.push((name.to_owned(), text));
            }
        }
        files.sort();
        Ok(Self { files })
    }

    fn get(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|(name, _)| name == path).map(|(_, text)| text.as_str())
    }

    /// Files whose path starts with `prefix` and ends with `suffix`.
    fn find<'a>(&'a self, prefix: &'a str, suffix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files
            .iter()
            .filter(move |(name, _)| name.starts_with(prefix) && name.ends_with(suffix))
            .map(|(name, text)| (name.as_str(), text.as_str()))
    }

    #[cfg(test)]
    fn of(files: &[(&str, &str)]) -> Self {
        Self { files: files.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect() }
    }
}

/// Whether a Rust file is compiled for tests only.
fn is_test_file(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs") || path.contains("/benches/")
}

/// Checks the repository at `root` against all rules and prints each violation.
pub(crate) fn run(root: &Path) -> Result<(), Error> {
    let tree = Tree::load(root)?;
    let mut count = 0;
    for rule in RULES {
        let violations = (rule.check)(&tree);
        if !violations.is_empty() {
            eprintln!("{}: {}", rule.name, rule.says);
        }
        for violation in &violations {
            eprintln!("  {violation}");
        }
        count += violations.len();
    }
    if count > 0 {
        return Err(Error::Untidy(count));
    }
    println!("tidy: {} files, {} rules", tree.files.len(), RULES.len());
    Ok(())
}
