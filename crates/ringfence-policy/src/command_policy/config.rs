use regex::bytes::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use super::input::Input;
use super::rules::Rule;
use super::state::ViewLine;
use super::verdict::{Disposition, Match, Tier, Verdict, View};

/// What happens on a match outside the floor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Enforcement {
    /// Custom rules that block do block, the others warn.
    #[default]
    Block,
    /// They all only warn.
    Warn,
    /// Nothing.
    Off,
}

/// What a custom rule's match means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CustomAction {
    /// The command does not run.
    #[default]
    Block,
    /// The command runs; the match is recorded.
    Warn,
}

/// A rule of the user's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CustomRule {
    /// Name in verdicts and in the audit.
    pub name: String,
    /// Regular expression; looked for in each normalised command and in the raw text.
    pub regex: String,
    /// What a match means.
    pub action: CustomAction,
    /// Why.
    pub description: String,
}

/// `[sandbox.command_policy]`. No key lifts the floor: rules of the block tier always count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CommandPolicyConfig {
    /// False leaves the floor alone.
    pub enabled: bool,
    /// What happens on a match outside the floor.
    pub enforcement: Enforcement,
    /// False leaves the floor and the custom rules.
    pub use_default_rules: bool,
    /// Rules of the user's own.
    pub custom_rules: Vec<CustomRule>,
}

impl Default for CommandPolicyConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            enforcement: Enforcement::default(),
            use_default_rules: true,
            custom_rules: Vec::new(),
        }
    }
}

/// Most custom rules, and most memory of one that is compiled.
const CUSTOM_LIMIT: usize = 256;
const SIZE_LIMIT: usize = 1 << 20;

/// The configuration, ready to be used.
#[derive(Debug)]
pub(super) struct Compiled {
    enforcement: Enforcement,
    warns: bool,
    custom: Vec<(CustomRule, Regex)>,
    pub(super) problems: Vec<(String, String)>,
}

impl Compiled {
    pub(super) fn new(config: &CommandPolicyConfig) -> Self {
        let enforcement = if config.enabled { config.enforcement } else { Enforcement::Off };
        let mut custom = Vec::new();
        let mut problems = Vec::new();
        for (at, rule) in config.custom_rules.iter().enumerate() {
            match check(rule, at, &custom) {
                Ok(regex) => custom.push((rule.clone(), regex)),
                Err(reason) => problems.push((rule.name.clone(), reason)),
            }
        }
        if enforcement == Enforcement::Off {
            custom.clear();
        }
        Self {
            enforcement,
            warns: config.use_default_rules && enforcement != Enforcement::Off,
            custom,
            problems,
        }
    }

    /// Whether custom rules look at the normalised commands.
    pub(super) fn wants_lines(&self) -> bool {
        !self.custom.is_empty()
    }

    /// What the curated rules amount to.
    pub(super) fn verdict(&self, found: &[(&'static Rule, View)]) -> Verdict {
        let mut verdict = Verdict::default();
        for &(rule, view) in found {
            if rule.tier == Tier::Warn && !self.warns {
                continue;
            }
            verdict.matches.push(Match {
                rule: rule.name.to_owned(),
                tier: rule.tier,
                why: rule.why.to_owned(),
                view,
                instead: rule.instead.to_owned(),
            });
        }
        settle(&mut verdict);
        verdict
    }

    /// Adds what the custom rules say.
    pub(super) fn custom(&self, verdict: &mut Verdict, input: &Input<'_>, lines: &[ViewLine]) {
        if self.custom.is_empty() {
            return;
        }
        let arguments = input.argv.join(&b' ');
        for (rule, regex) in &self.custom {
            let view = lines
                .iter()
                .find(|line| regex.is_match(&line.text))
                .map(|line| line.view)
                .or_else(|| regex.is_match(&arguments).then_some(View::Argv))
                .or_else(|| input.stdin.is_some_and(|text| regex.is_match(text)).then_some(View::Stdin));
            let Some(view) = view else { continue };
            let block = rule.action == CustomAction::Block && self.enforcement == Enforcement::Block;
            verdict.matches.push(Match {
                rule: rule.name.clone(),
                tier: if block { Tier::Block } else { Tier::Warn },
                why: rule.description.clone(),
                view,
                instead: String::new(),
            });
        }
        settle(verdict);
    }
}

fn settle(verdict: &mut Verdict) {
    let worst = verdict.matches.iter().map(|found| found.tier).max();
    verdict.disposition = match worst {
        None => Disposition::Allow,
        Some(Tier::Warn) => Disposition::Warn,
        Some(Tier::Block) => Disposition::Block,
    };
}

fn check(rule: &CustomRule, at: usize, known: &[(CustomRule, Regex)]) -> Result<Regex, String> {
    if rule.name.trim().is_empty() {
        return Err(format!("rule {} has no name", at + 1));
    }
    if known.iter().any(|(other, _)| other.name == rule.name) {
        return Err("the name is used twice".into());
    }
    if super::rules::curated().iter().any(|curated| curated.name == rule.name) {
        return Err("the name is that of a curated rule".into());
    }
    if rule.regex.is_empty() {
        return Err("the regular expression is empty".into());
    }
    if at >= CUSTOM_LIMIT {
        return Err(format!("more than {CUSTOM_LIMIT} custom rules"));
    }
    let regex = RegexBuilder::new(&rule.regex).size_limit(SIZE_LIMIT).dfa_size_limit(SIZE_LIMIT).build();
    regex.map_err(|error| {
        let text = error.to_string();
        text.lines().last().unwrap_or("it does not compile").trim_start_matches("error: ").to_owned()
    })
}
