use std::borrow::Cow;
use std::ffi::OsStr;
use std::sync::Arc;

use async_trait::async_trait;
use ringfence_types::{SandboxCommand, Stdin, Stdio};
use sha2::{Digest as _, Sha256};

use super::{CommandPolicy, CommandPolicyConfig, Disposition, Input, Verdict};
use crate::chain::{HookContext, HookDecision, SandboxBeforeHook};

/// Target of the `tracing` events of the command policy.
pub const COMMAND_POLICY_TARGET: &str = "command_policy";

/// Asks the command policy about every command. It is a part of the floor of every
/// [`HookChain`](crate::HookChain); a library host that must not have it runs commands without the chain.
#[derive(Clone, Debug)]
pub struct CommandPolicyHook {
    policy: Arc<CommandPolicy>,
}

impl CommandPolicyHook {
    /// Compiles the configuration. Custom rules that can't be used are logged by name; the curated ones and the other
    /// custom ones stay in force.
    pub fn new(config: &CommandPolicyConfig) -> Self {
        let policy = CommandPolicy::new(config);
        for (rule, problem) in policy.problems() {
            tracing::warn!(target: COMMAND_POLICY_TARGET, rule, problem, "custom rule left out");
        }
        Self { policy: Arc::new(policy) }
    }

    /// Custom rules that are not in force: name and reason.
    pub fn problems(&self) -> &[(String, String)] {
        self.policy.problems()
    }

    /// The verdict on a command, which is recorded if it matches a rule.
    pub(crate) fn judge(&self, ctx: &HookContext<'_>) -> Verdict {
        let verdict = self.evaluate(ctx.command());
        if verdict.disposition != Disposition::Allow {
            record(ctx, &verdict);
        }
        verdict
    }

    /// The verdict on a command.
    pub fn evaluate(&self, command: &SandboxCommand) -> Verdict {
        let mut argv: Vec<&[u8]> = vec![bytes(&command.program)];
        argv.extend(command.args.iter().map(|arg| bytes(arg)));
        let known = command.known_stdin.as_deref();
        let (stdin, unseen) = match (&command.stdin, command.stdio) {
            (Stdin::Bytes(text), _) => (Some(text.as_slice()), false),
            (Stdin::Null, Stdio::Capture) => (None, false),
            // The caller's own standard input.
            (Stdin::Null, Stdio::Inherit | Stdio::Pty) | (Stdin::Stream(_), _) => (known, known.is_none()),
        };
        let env = command.env.iter().map(|(name, value)| (bytes(name), bytes(value))).collect();
        self.policy.evaluate(&Input { argv, stdin, unseen, env, shell: None })
    }
}

fn bytes(text: &OsStr) -> &[u8] {
    text.as_encoded_bytes()
}

#[async_trait]
impl SandboxBeforeHook for CommandPolicyHook {
    fn name(&self) -> &'static str {
        "command-policy"
    }

    async fn before(&self, ctx: &HookContext<'_>) -> HookDecision {
        match self.judge(ctx).refusal() {
            Some(reason) => HookDecision::Deny { reason },
            None => HookDecision::Allow,
        }
    }
}

/// One event for a command that matched: names of rules and a digest of the text, never the text.
fn record(ctx: &HookContext<'_>, verdict: &Verdict) {
    let rules = verdict.rules().join(",");
    let digest = digest(ctx.command());
    macro_rules! event {
        ($level:expr, $disposition:expr) => {
            tracing::event!(
                target: COMMAND_POLICY_TARGET,
                $level,
                session = ctx.session().as_str(),
                tool = ctx.tool_name(),
                disposition = $disposition,
                rules,
                command_sha256 = digest,
                truncated = verdict.truncated,
            )
        };
    }
    if verdict.disposition == Disposition::Block {
        event!(tracing::Level::WARN, "block");
    } else {
        event!(tracing::Level::INFO, "warn");
    }
}

/// SHA-256 over program, arguments and standard input, each followed by a NUL byte.
fn digest(command: &SandboxCommand) -> String {
    let mut digest = Sha256::new();
    let stdin = match &command.stdin {
        Stdin::Bytes(text) => Cow::Borrowed(text.as_slice()),
        Stdin::Null | Stdin::Stream(_) => Cow::Borrowed(&[][..]),
    };
    let words = std::iter::once(&command.program).chain(&command.args).map(|word| bytes(word));
    for part in words.chain([&*stdin]) {
        digest.update(part);
        digest.update([0]);
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
