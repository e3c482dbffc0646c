use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use ringfence_types::{SandboxCommand, SessionId};
use serde::{Deserialize, Serialize};

use crate::command_policy::{CommandPolicyConfig, CommandPolicyHook};
use crate::hygiene::ArgumentHygiene;
use crate::rate_limit::{Category, RateLimited};

/// Configuration of the floor. No key turns off what the floor refuses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PolicyConfig {
    /// What happens on matches outside the hardline rules.
    pub command_policy: CommandPolicyConfig,
}

impl PolicyConfig {
    /// The floor with this command policy.
    pub fn new(command_policy: CommandPolicyConfig) -> Self {
        Self { command_policy }
    }
}

/// What a hook may look at.
#[derive(Clone, Copy, Debug)]
pub struct HookContext<'a> {
    command: &'a SandboxCommand,
}

impl<'a> HookContext<'a> {
    /// The command as its caller wrote it.
    pub fn command(&self) -> &'a SandboxCommand {
        self.command
    }

    /// Name of the tool that asks, as opposed to the program that would be run.
    pub fn tool_name(&self) -> &'a str {
        &self.command.tool_name
    }

    /// Session that the command belongs to.
    pub fn session(&self) -> &'a SessionId {
        &self.command.session_id
    }
}

/// What a hook says about a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookDecision {
    /// The next hook is asked.
    Allow,
    /// The command ends here.
    Deny {
        /// One line for whoever wrote the command.
        reason: String,
    },
    /// The command came too soon.
    RateLimited(RateLimited),
}

/// A check that every command passes before anything is done for it.
#[async_trait]
pub trait SandboxBeforeHook: Send + Sync {
    /// Name of the hook in refusals and in the audit.
    fn name(&self) -> &'static str {
        std::any::type_name::<Self>()
    }

    /// Allows or denies a command. Hooks run in order; the first refusal ends the chain.
    async fn before(&self, ctx: &HookContext<'_>) -> HookDecision;

    /// Drops what the hook remembers of a session that has ended.
    fn forget(&self, session: &SessionId) {
        let _ = session;
    }
}

/// Why a command was refused by a hook.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HookDenied {
    /// A rule refuses the command.
    #[error("{reason}")]
    PolicyDenied {
        /// What the hook gives as its reason.
        reason: String,
        /// Name of the hook.
        hook: &'static str,
        /// Names of the rules that matched, if it was the command policy.
        rules: Vec<String>,
    },
    /// The session has used up its allowance of such calls.
    #[error(
        "rate limit: {count} of {limit} {category} calls used in {} s, retry in {} s",
        .window.as_secs(),
        whole_seconds(*.retry_after)
    )]
    RateLimited {
        /// Category of the tool.
        category: Category,
        /// Calls within the window.
        count: u32,
        /// Calls that a window allows, burst included.
        limit: u32,
        /// Length of the window.
        window: Duration,
        /// When the next call will pass, from now.
        retry_after: Duration,
    },
}

/// Rounded up, so that a caller who waits as told is not too early.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

/// The hooks in their order, the floor first.
pub struct HookChain {
    policy: CommandPolicyHook,
    hooks: Vec<Box<dyn SandboxBeforeHook>>,
}

impl HookChain {
    /// The floor, then `rest` in the given order. A chain without the floor can't be made.
    pub fn with_floor(cfg: &PolicyConfig, rest: Vec<Box<dyn SandboxBeforeHook>>) -> Self {
        let policy = CommandPolicyHook::new(&cfg.command_policy);
        let mut hooks: Vec<Box<dyn SandboxBeforeHook>> = vec![Box::new(ArgumentHygiene)];
        hooks.extend(rest);
        Self { policy, hooks }
    }

    /// The command policy, which every command passes first.
    pub fn command_policy(&self) -> &CommandPolicyHook {
        &self.policy
    }

    /// Asks every hook in order.
    ///
    /// # Errors
    /// [`HookDenied`] of the first hook that refuses; the later ones are not asked.
    pub async fn vet(&self, c: SandboxCommand) -> Result<VettedCommand, HookDenied> {
        let ctx = HookContext { command: &c };
        let verdict = self.policy.judge(&ctx);
        let rules = verdict.rules().into_iter().map(str::to_owned).collect();
        if let Some(reason) = verdict.refusal() {
            return Err(HookDenied::PolicyDenied { reason, hook: self.policy.name(), rules });
        }
        for hook in &self.hooks {
            match hook.before(&ctx).await {
                HookDecision::Allow => {}
                HookDecision::Deny { reason } => {
                    return Err(HookDenied::PolicyDenied { reason, hook: hook.name(), rules });
                }
                HookDecision::RateLimited(limited) => return Err(limited.into()),
            }
        }
        Ok(VettedCommand { command: c, rules })
    }

    /// Tells every hook that a session has ended.
    pub fn forget(&self, session: &SessionId) {
        for hook in &self.hooks {
            hook.forget(session);
        }
    }
}

impl fmt::Debug for HookChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = std::iter::once(self.policy.name()).chain(self.hooks.iter().map(|hook| hook.name()));
        f.debug_list().entries(names).finish()
    }
}

/// A command that every hook has allowed. Only [`HookChain::vet`] makes one.
#[derive(Debug)]
pub struct VettedCommand {
    command: SandboxCommand,
    rules: Vec<String>,
}

impl VettedCommand {
    /// Names of the rules of the command policy that the command matched and that let it run.
    pub fn rules(&self) -> &[String] {
        &self.rules
    }

    /// The command as its caller wrote it.
    pub fn command(&self) -> &SandboxCommand {
        &self.command
    }

    /// The command, for the next stage.
    pub fn into_command(self) -> SandboxCommand {
        self.command
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    struct Counting {
        calls: Arc<AtomicU32>,
        decision: HookDecision,
    }

    #[async_trait]
    impl SandboxBeforeHook for Counting {
        fn name(&self) -> &'static str {
            "counting"
        }

        async fn before(&self, _: &HookContext<'_>) -> HookDecision {
            self.calls.fetch_add(1, Ordering::Relaxed);
            self.decision.clone()
        }
    }

    async fn refusal(command: SandboxCommand) -> Option<String> {
        let chain = HookChain::with_floor(&PolicyConfig::default(), Vec::new());
        match chain.vet(command).await {
            Ok(_) => None,
            Err(HookDenied::PolicyDenied { reason, hook, .. }) => {
                assert_eq!(hook, "argument-hygiene");
                Some(reason)
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    fn with_env(name: &str, value: &str) -> SandboxCommand {
        let mut command = SandboxCommand::new("s", "true");
        command.env.push((OsString::from(name), OsString::from(value)));
        command
    }

    #[tokio::test]
    async fn the_floor_refuses_what_execve_would_change() {
        assert_eq!(refusal(SandboxCommand::new("s", "true").args(["", "a b", "é"])).await, None);
        assert_eq!(refusal(with_env("A", "b=c")).await, None);
        assert_eq!(refusal(SandboxCommand::new("s", "")).await.unwrap(), "program is empty");
        assert_eq!(refusal(SandboxCommand::new("s", "a\0b")).await.unwrap(), "program holds a NUL byte");
        let args = SandboxCommand::new("s", "a").args(["x", "y\0"]);
        assert_eq!(refusal(args).await.unwrap(), "argument 2 holds a NUL byte");
        assert_eq!(refusal(with_env("", "x")).await.unwrap(), "environment variable without a name");
        assert!(refusal(with_env("A=B", "x")).await.unwrap().contains("\"A=B\""));
        assert!(refusal(with_env("A\0", "x")).await.unwrap().contains("name"));
        assert!(refusal(with_env("A", "x\0")).await.unwrap().contains("value"));
        let mut command = SandboxCommand::new("s", "a");
        command.cwd = Some("/a\0b".into());
        assert!(refusal(command).await.unwrap().contains("working directory"));
    }

    #[tokio::test]
    async fn the_first_refusal_ends_the_chain() {
        let calls: Vec<_> = (0..3).map(|_| Arc::new(AtomicU32::new(0))).collect();
        let deny = HookDecision::Deny { reason: String::from("no") };
        let decisions = [HookDecision::Allow, deny, HookDecision::Allow];
        let hooks =
            calls.iter().cloned().zip(decisions).map(|(calls, decision)| -> Box<dyn SandboxBeforeHook> {
                Box::new(Counting { calls, decision })
            });
        let chain = HookChain::with_floor(&PolicyConfig::default(), hooks.collect());
        let denied = chain.vet(SandboxCommand::new("s", "true")).await.unwrap_err();
        assert_eq!(
            denied,
            HookDenied::PolicyDenied { reason: String::from("no"), hook: "counting", rules: Vec::new() }
        );
        assert_eq!(calls.iter().map(|calls| calls.load(Ordering::Relaxed)).collect::<Vec<_>>(), [1, 1, 0]);

        chain.vet(SandboxCommand::new("s", "")).await.unwrap_err();
        assert_eq!(calls[0].load(Ordering::Relaxed), 1, "the floor comes before every other hook");
    }

    #[tokio::test]
    async fn the_command_policy_comes_first_and_no_configuration_lifts_its_floor() {
        for config in ["", "[command_policy]\nenabled = false", "[command_policy]\nenforcement = 'off'"] {
            let chain = HookChain::with_floor(&toml::from_str(config).unwrap(), Vec::new());
            let command = SandboxCommand::new("s", "sh").args(["-c", "rm -rf /"]);
            match chain.vet(command).await {
                Err(HookDenied::PolicyDenied { reason, hook, rules }) => {
                    assert_eq!((hook, rules.as_slice()), ("command-policy", &["rm-root".to_owned()][..]));
                    assert!(reason.contains("rm-root") && !reason.contains("rm -rf"), "{reason}");
                }
                other => panic!("{config}: {other:?}"),
            }
            let warned = SandboxCommand::new("s", "sh").args(["-c", "reboot"]);
            let rules = chain.vet(warned).await.unwrap().rules().to_vec();
            assert_eq!(rules.is_empty(), !config.is_empty(), "{config}: {rules:?}");
        }
    }

    #[test]
    fn configuration_has_no_unknown_key() {
        assert!(toml::from_str::<PolicyConfig>("").is_ok());
        assert!(toml::from_str::<PolicyConfig>("enabled = false").is_err());
    }

    #[test]
    fn refusals_say_when_to_retry() {
        let denied = HookDenied::RateLimited {
            category: Category::Write,
            count: 40,
            limit: 40,
            window: Duration::from_secs(60),
            retry_after: Duration::from_millis(1200),
        };
        assert_eq!(denied.to_string(), "rate limit: 40 of 40 write calls used in 60 s, retry in 2 s");
    }
}
