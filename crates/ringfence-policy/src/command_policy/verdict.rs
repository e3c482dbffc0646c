use serde::{Deserialize, Serialize};

/// What a rule's match means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// The command runs; the match is recorded.
    Warn,
    /// The command does not run.
    Block,
}

/// What becomes of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Disposition {
    /// It runs.
    #[default]
    Allow,
    /// It runs, and is recorded.
    Warn,
    /// It does not run.
    Block,
}

/// One rule that a command matched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Match {
    /// Name of the rule.
    pub rule: String,
    /// Tier that the match has under the configuration in force.
    pub tier: Tier,
    /// What such a command does.
    pub why: String,
    /// Where it was found: `argv`, `stdin`, `env`, `nested` (a text that a program of the command would run) or
    /// `decoded`.
    pub view: View,
    /// What to do instead.
    #[serde(skip)]
    pub instead: String,
}

/// Where a command was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// Program and arguments.
    Argv,
    /// Standard input that the program executes.
    Stdin,
    /// A variable that a shell or loader executes.
    Env,
    /// A text inside of another one.
    Nested,
    /// A text that was encoded.
    Decoded,
}

impl View {
    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Argv => "argv",
            Self::Stdin => "stdin",
            Self::Env => "env",
            Self::Nested => "nested",
            Self::Decoded => "decoded",
        }
    }
}

/// What the command policy says of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What becomes of the command.
    pub disposition: Disposition,
    /// Rules that matched, in the order in which they were found, each once for each view.
    pub matches: Vec<Match>,
    /// Whether a part of the text was not looked at.
    pub truncated: bool,
}

impl Verdict {
    /// Names of the rules that matched, without repetition, the blocking ones first.
    pub fn rules(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for tier in [Tier::Block, Tier::Warn] {
            for found in self.matches.iter().filter(|found| found.tier == tier) {
                if !names.contains(&found.rule.as_str()) {
                    names.push(found.rule.as_str());
                }
            }
        }
        names
    }

    /// Why the command does not run and what to do instead, in one line; `None` if it runs.
    pub fn refusal(&self) -> Option<String> {
        let found = self.matches.iter().find(|found| found.tier == Tier::Block)?;
        let names = self.matches.iter().filter(|found| found.tier == Tier::Block).map(|found| &*found.rule);
        let mut unique: Vec<&str> = Vec::new();
        names.for_each(|name| {
            if !unique.contains(&name) {
                unique.push(name);
            }
        });
        let mut text = format!("command policy, rule {}: {}", unique.join(", "), found.why);
        if !found.instead.is_empty() {
            text.push_str("; instead, ");
            text.push_str(&found.instead);
        }
        Some(text)
    }
}
