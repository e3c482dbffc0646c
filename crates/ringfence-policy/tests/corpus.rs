//! The corpus: what must be refused, recorded and let through. Lines marked as uncertain are listed, not failed on.

use std::collections::BTreeMap;

use ringfence_policy::command_policy::{
    CommandPolicy, CommandPolicyConfig, Disposition, Input, Shell, curated,
};
use serde::Deserialize;

#[derive(Clone, Deserialize)]
struct Case {
    #[serde(default)]
    id: String,
    shell: String,
    argv: Option<Vec<String>>,
    stdin: Option<String>,
    expect: String,
    #[serde(default)]
    uncertain: bool,
    #[serde(default)]
    class: String,
    #[serde(default)]
    why: String,
}

fn cases() -> Vec<Case> {
    read(include_str!("data/commands.jsonl"))
}

fn read(text: &str) -> Vec<Case> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line of the corpus")).collect()
}

fn verdict(policy: &CommandPolicy, case: &Case) -> &'static str {
    let shell = match case.shell.as_str() {
        "cmd" => Shell::Cmd,
        "powershell" => Shell::PowerShell,
        _ => Shell::Posix,
    };
    let argv = case.argv.iter().flatten().map(String::as_bytes).collect();
    let stdin = case.stdin.as_deref().map(str::as_bytes);
    let found = policy.evaluate(&Input { argv, stdin, shell: Some(shell), ..Input::default() });
    match found.disposition {
        Disposition::Allow => "allow",
        Disposition::Warn => "warn",
        Disposition::Block => "block",
    }
}

#[test]
fn the_corpus_is_judged_as_it_says() {
    let policy = CommandPolicy::new(&CommandPolicyConfig::default());
    let mut wrong = BTreeMap::<(bool, &str, &str), Vec<String>>::new();
    let mut total = BTreeMap::<(bool, &str), usize>::new();
    let cases = cases();
    for case in &cases {
        *total.entry((case.uncertain, case.expect.as_str())).or_default() += 1;
        let found = verdict(&policy, case);
        if found != case.expect {
            let line =
                format!("{} ({}): {:?} <<< {:?}: {}", case.id, case.class, case.argv, case.stdin, case.why);
            wrong.entry((case.uncertain, case.expect.as_str(), found)).or_default().push(line);
        }
    }
    for ((uncertain, expected, found), lines) in &wrong {
        let kind = if *uncertain { "uncertain" } else { "certain" };
        println!(
            "{kind}: {} of {} expected {expected}, found {found}",
            lines.len(),
            total[&(*uncertain, *expected)]
        );
        lines.iter().for_each(|line| println!("  {line}"));
    }
    let count = |expected, found| wrong.get(&(false, expected, found)).map_or(0, Vec::len);
    assert_eq!(count("block", "warn") + count("block", "allow"), 0, "every block line is refused");
    assert_eq!(count("allow", "block"), 0, "no allow line is refused");
    let missed = count("warn", "allow") + count("warn", "block");
    assert!(missed * 50 <= total[&(false, "warn")], "{missed} warn lines missed");
    let warned = count("allow", "warn");
    assert!(warned * 100 <= total[&(false, "allow")], "{warned} allow lines warned");
}

#[test]
fn no_line_of_the_corpus_is_a_pattern() {
    let rules = [
        include_str!("../rules/posix.toml"),
        include_str!("../rules/cmd.toml"),
        include_str!("../rules/powershell.toml"),
    ];
    let patterns: Vec<&str> = rules
        .iter()
        .flat_map(|text| text.lines())
        .filter(|line| !line.starts_with("match") && !line.starts_with("near") && !line.starts_with('#'))
        .collect();
    for case in cases() {
        let text = match (&case.argv, &case.stdin) {
            (Some(argv), _) if argv.len() > 1 && argv[argv.len() - 1].contains(' ') => {
                argv[argv.len() - 1].clone()
            }
            (Some(argv), _) => argv.join(" "),
            (None, stdin) => stdin.clone().unwrap_or_default(),
        };
        let found = text.len() > 12 && patterns.iter().any(|line| line.contains(&text));
        assert!(!found, "{}: {text}", case.id);
    }
    assert!(curated().len() > 60);
}

#[test]
fn further_cases_are_judged_as_they_say() {
    let policy = CommandPolicy::new(&CommandPolicyConfig::default());
    let cases = [include_str!("data/cases.jsonl"), include_str!("data/texts.jsonl")].map(read).concat();
    let wrong: Vec<_> = cases
        .iter()
        .filter_map(|case| {
            let found = verdict(&policy, case);
            (found != case.expect).then(|| {
                format!("expected {}, found {found}: {:?} <<< {:?}", case.expect, case.argv, case.stdin)
            })
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
