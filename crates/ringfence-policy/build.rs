//! Turns the rules and the table of wrappers (`rules/*.toml`) into static tables, so that a start costs nothing and a
//! mistake in the data fails the build.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    patterns: BTreeMap<String, String>,
    rule: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    name: String,
    tier: String,
    programs: Vec<String>,
    #[serde(default)]
    dialects: Vec<String>,
    #[serde(default)]
    all: Vec<String>,
    #[serde(default)]
    none: Vec<String>,
    why: String,
    instead: String,
    #[serde(rename = "match")]
    matches: Vec<String>,
    near: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrapperFile {
    wrapper: Vec<Wrapper>,
    writer: Vec<Writer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wrapper {
    programs: Vec<String>,
    #[serde(default)]
    subcommands: Vec<String>,
    #[serde(default)]
    values: Vec<String>,
    #[serde(default)]
    pairs: Vec<String>,
    #[serde(default)]
    code: Vec<String>,
    #[serde(default)]
    query: Vec<String>,
    #[serde(default)]
    mounts: Vec<String>,
    #[serde(default)]
    dialects: Vec<String>,
    #[serde(default)]
    operands: usize,
    #[serde(default)]
    assignments: bool,
    #[serde(default)]
    appends: bool,
    #[serde(default)]
    permute: bool,
    #[serde(default)]
    slash: bool,
    then: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextFile {
    text: Vec<Text>,
}

/// Where a program has a text that it runs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    programs: Vec<String>,
    options: Vec<String>,
    #[serde(default)]
    values: Vec<String>,
    operands: Option<String>,
    #[serde(default)]
    stdin: bool,
    after: Option<String>,
    #[serde(default)]
    until: String,
    language: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Writer {
    programs: Vec<String>,
    operands: String,
    #[serde(default)]
    options: Vec<String>,
    #[serde(default)]
    values: Vec<String>,
    needs: Option<String>,
}

/// Distinct patterns, each compiled once when it is first needed.
#[derive(Default)]
struct Patterns {
    texts: Vec<String>,
}

impl Patterns {
    fn index(&mut self, text: String) -> usize {
        self.texts.iter().position(|known| *known == text).unwrap_or_else(|| {
            self.texts.push(text);
            self.texts.len() - 1
        })
    }
}

/// What belongs to a program: numbers of rules, wrappers, writers and texts.
type Index = BTreeMap<String, [Vec<usize>; 4]>;

const RULES: usize = 0;
const WRAPPERS: usize = 1;
const WRITERS: usize = 2;
const TEXTS: usize = 3;

const FILES: [(&str, &str); 3] = [("posix", "Posix"), ("cmd", "Cmd"), ("powershell", "PowerShell")];

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    println!("cargo::rerun-if-changed=rules");
    let mut out = String::new();
    let mut patterns = Patterns::default();
    let mut index = Index::default();
    let mut count = 0;
    out.push_str("pub(super) static RULES: &[Rule] = &[\n");
    for (file, shell) in FILES {
        let data: RuleFile = read(&root.join("rules").join(format!("{file}.toml")));
        for rule in data.rule {
            for program in &rule.programs {
                index.entry(program.clone()).or_default()[RULES].push(count);
            }
            count += 1;
            let insensitive = file != "posix";
            let mut conditions = |list: &[String]| {
                let parsed =
                    list.iter().map(|text| condition(text, &data.patterns, insensitive, &mut patterns));
                format!("&[{}]", parsed.collect::<Vec<_>>().join(", "))
            };
            let (all, none) = (conditions(&rule.all), conditions(&rule.none));
            let tier = match rule.tier.as_str() {
                "block" => "Block",
                "warn" => "Warn",
                other => panic!("{}: tier {other}", rule.name),
            };
            let Rule { name, programs, why, instead, matches, near, .. } = &rule;
            let dialects = dialects(&rule.dialects);
            writeln!(
                out,
                "    Rule {{ name: {name:?}, tier: Tier::{tier}, shell: Shell::{shell}, programs: &{programs:?}, \
                 dialects: {dialects}, all: {all}, none: {none}, why: {why:?}, instead: {instead:?}, \
                 matches: {}, near: {} }},",
                examples(matches),
                examples(near),
            )
            .expect("a string");
        }
    }
    out.push_str("];\n\n");
    wrappers(&read(&root.join("rules/wrappers.toml")), &mut index, &mut out, &mut patterns);
    texts(&read(&root.join("rules/texts.toml")), &mut index, &mut out, &mut patterns);
    table(&index, &mut out);
    writeln!(out, "pub(super) static PATTERNS: &[&str] = &{:?};", patterns.texts).expect("a string");
    let target = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("tables.rs");
    fs::write(&target, out).unwrap_or_else(|error| panic!("{}: {error}", target.display()));
}

fn wrappers(data: &WrapperFile, index: &mut Index, out: &mut String, patterns: &mut Patterns) {
    out.push_str("pub(super) static WRAPPERS: &[Wrapper] = &[\n");
    for (at, wrapper) in data.wrapper.iter().enumerate() {
        for program in &wrapper.programs {
            index.entry(program.clone()).or_default()[WRAPPERS].push(at);
        }
        let then = match wrapper.then.as_deref() {
            None | Some("command") => "Command",
            Some("code") => "Code",
            Some("first") => "First",
            Some("shell") => "Shell",
            Some("nothing") => "Nothing",
            Some(other) => panic!("{:?}: then {other}", wrapper.programs),
        };
        let Wrapper {
            subcommands,
            values,
            pairs,
            code,
            query,
            mounts,
            operands,
            assignments,
            appends,
            permute,
            slash,
            ..
        } = wrapper;
        let dialects = dialects(&wrapper.dialects);
        writeln!(
            out,
            "    Wrapper {{ subcommands: &{subcommands:?}, values: &{values:?}, pairs: &{pairs:?}, \
             code: &{code:?}, query: &{query:?}, mounts: &{mounts:?}, dialects: {dialects}, operands: {operands}, \
             assignments: {assignments}, appends: {appends}, permute: {permute}, slash: {slash}, \
             then: Then::{then} }},",
        )
        .expect("a string");
    }
    out.push_str("];\n\n");
    out.push_str("pub(super) static WRITERS: &[Writer] = &[\n");
    for (at, writer) in data.writer.iter().enumerate() {
        for program in &writer.programs {
            index.entry(program.clone()).or_default()[WRITERS].push(at);
        }
        let operands = operands(&writer.operands);
        let Writer { options, values, needs, .. } = writer;
        let needs = needs.as_ref().map(|text| patterns.index(whole(text, false)));
        writeln!(
            out,
            "    Writer {{ operands: Operands::{operands}, options: &{options:?}, values: &{values:?}, \
             needs: {needs:?} }},",
        )
        .expect("a string");
    }
    out.push_str("];\n\n");
}

fn texts(data: &TextFile, index: &mut Index, out: &mut String, patterns: &mut Patterns) {
    out.push_str("pub(super) static TEXTS: &[Text] = &[\n");
    for (at, text) in data.text.iter().enumerate() {
        for program in &text.programs {
            index.entry(program.clone()).or_default()[TEXTS].push(at);
        }
        let language = match text.language.as_deref() {
            None => "None",
            Some("shell") => "Some(Language::Shell)",
            Some("foreign") => "Some(Language::Foreign)",
            Some("sed") => "Some(Language::Sed)",
            Some(other) => panic!("{:?}: language {other}", text.programs),
        };
        assert!(text.after.is_some() || text.language.is_some(), "{:?}: nothing is run", text.programs);
        let operands = operands(text.operands.as_deref().unwrap_or("none"));
        let after = text.after.as_ref().map(|after| patterns.index(flags(&format!("^(?:{after})"), false)));
        let Text { options, values, stdin, until, .. } = text;
        writeln!(
            out,
            "    Text {{ options: &{options:?}, values: &{values:?}, operands: Operands::{operands}, \
             stdin: {stdin}, after: {after:?}, until: &{:?}, language: {language} }},",
            until.as_bytes(),
        )
        .expect("a string");
    }
    out.push_str("];\n\n");
}

fn operands(name: &str) -> &'static str {
    match name {
        "all" => "All",
        "first" => "First",
        "second" => "Second",
        "last" => "Last",
        "none" => "None",
        other => panic!("operands {other}"),
    }
}

/// One text instead of one pointer for each example: nothing of them is read when a command runs.
fn examples(list: &[String]) -> String {
    assert!(
        list.iter().all(|text| !text.is_empty() && !text.contains('\0')),
        "an example that can't be listed"
    );
    format!("Examples({:?})", list.join("\0"))
}

/// A hash table with open addressing, at most an eighth full: most programs are in none.
///
/// It holds numbers only. Each pointer would be adjusted at every start of the binary, which can lie anywhere.
fn table(index: &Index, out: &mut String) {
    let mut slots = vec![0_usize; (index.len() * 8).next_power_of_two()];
    let (mut names, mut ids, mut entries) = (String::new(), Vec::<usize>::new(), Vec::new());
    for (number, (program, found)) in index.iter().enumerate() {
        let mut at = hash(program.as_bytes()) as usize % slots.len();
        while slots[at] != 0 {
            at = (at + 1) % slots.len();
        }
        slots[at] = number + 1;
        names.push_str(program);
        let ends = found.each_ref().map(|kind| {
            ids.extend(kind);
            ids.len()
        });
        entries.push((names.len(), ends));
    }
    writeln!(
        out,
        "pub(super) static PROGRAMS: Table = Table {{ slots: &{slots:?}, names: {names:?}, ids: &{ids:?}, \
         ends: &{entries:?} }};\n",
    )
    .expect("a string");
}

include!("src/command_policy/hash.rs");

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> T {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// `kind:pattern`, `kind:pattern!!exception` or `param:Name/least=pattern` as the value that the engine reads.
fn condition(
    text: &str,
    named: &BTreeMap<String, String>,
    insensitive: bool,
    patterns: &mut Patterns,
) -> String {
    let (kind, rest) = text.split_once(':').unwrap_or_else(|| panic!("{text}: no kind"));
    if kind == "param" {
        let (name, value) = rest.split_once('=').map_or((rest, None), |(name, value)| (name, Some(value)));
        let (name, least) = name.split_once('/').unwrap_or_else(|| panic!("{text}: no least length"));
        let least: usize = least.parse().unwrap_or_else(|_| panic!("{text}: no least length"));
        let value = value.map(|value| patterns.index(whole(&expand(value, named), true)));
        let name = name.to_ascii_lowercase();
        return format!("Condition::Param {{ name: {name:?}, least: {least}, value: {value:?} }}");
    }
    let (rest, except) = rest.split_once("!!").map_or((rest, None), |(rest, except)| (rest, Some(except)));
    let line = kind == "line";
    let mut pattern = |text: &str| {
        let text = expand(text, named);
        patterns.index(if line { flags(&text, insensitive) } else { whole(&text, insensitive) })
    };
    let (pattern, except) = (pattern(rest), except.map(&mut pattern));
    let kind = match kind {
        "opt" => "Option",
        "arg" => "Argument",
        "path" => "Path",
        "win" => "WindowsPath",
        "first" => "First",
        "last" => "Last",
        "line" => "Line",
        other => panic!("{text}: kind {other}"),
    };
    format!("Condition::Text {{ kind: Kind::{kind}, pattern: {pattern}, except: {except:?} }}")
}

/// Puts named patterns in the place of `{name}`.
fn expand(text: &str, named: &BTreeMap<String, String>) -> String {
    let mut out = text.to_owned();
    for (name, pattern) in named {
        out = out.replace(&format!("{{{name}}}"), &format!("(?:{pattern})"));
    }
    out
}

fn whole(text: &str, insensitive: bool) -> String {
    flags(&format!("^(?:{text})$"), insensitive)
}

/// Bytes instead of characters: the automata stay small and text that is no UTF-8 is matched too.
fn flags(text: &str, insensitive: bool) -> String {
    format!("{}{text}", if insensitive { "(?i-u)" } else { "(?-u)" })
}

fn dialects(names: &[String]) -> String {
    if names.is_empty() {
        return String::from("Dialects::ALL");
    }
    let one = |name: &String| match name.as_str() {
        "posix" => "Dialects::POSIX",
        "cmd" => "Dialects::CMD",
        "powershell" => "Dialects::POWERSHELL",
        other => panic!("dialect {other}"),
    };
    names.iter().map(one).collect::<Vec<_>>().join(".and(") + &")".repeat(names.len() - 1)
}
