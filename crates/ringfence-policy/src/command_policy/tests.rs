use super::*;

fn script(shell: Shell, text: &str) -> Verdict {
    let policy = CommandPolicy::new(&CommandPolicyConfig::default());
    policy.evaluate(&Input { stdin: Some(text.as_bytes()), shell: Some(shell), ..Input::default() })
}

#[test]
fn every_example_of_a_rule_matches_and_every_near_miss_does_not() {
    let mut wrong = Vec::new();
    for rule in curated() {
        for text in rule.matches.iter() {
            if !script(rule.shell, text).rules().contains(&rule.name) {
                wrong.push(format!("{}: no match: {text}", rule.name));
            }
        }
        for text in rule.near.iter() {
            let verdict = script(rule.shell, text);
            if verdict.rules().contains(&rule.name) {
                wrong.push(format!("{}: match: {text}", rule.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}
