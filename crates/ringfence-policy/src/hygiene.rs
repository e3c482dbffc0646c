use std::ffi::OsStr;

use async_trait::async_trait;

use crate::chain::{HookContext, HookDecision, SandboxBeforeHook};

/// Refuses what execve(2) can't carry unchanged: a string that ends at a NUL byte would reach the program as
/// something else than what later stages have seen.
#[derive(Debug)]
pub(crate) struct ArgumentHygiene;

#[async_trait]
impl SandboxBeforeHook for ArgumentHygiene {
    fn name(&self) -> &'static str {
        "argument-hygiene"
    }

    async fn before(&self, ctx: &HookContext<'_>) -> HookDecision {
        match fault(ctx) {
            Some(reason) => HookDecision::Deny { reason },
            None => HookDecision::Allow,
        }
    }
}

fn fault(ctx: &HookContext<'_>) -> Option<String> {
    let command = ctx.command();
    if command.program.is_empty() {
        return Some(String::from("program is empty"));
    }
    if has_nul(&command.program) {
        return Some(String::from("program holds a NUL byte"));
    }
    if let Some(at) = command.args.iter().position(|arg| has_nul(arg)) {
        return Some(format!("argument {} holds a NUL byte", at + 1));
    }
    if command.cwd.as_ref().is_some_and(|cwd| has_nul(cwd.as_os_str())) {
        return Some(String::from("working directory holds a NUL byte"));
    }
    command.env.iter().find_map(|(name, value)| {
        if name.is_empty() {
            Some(String::from("environment variable without a name"))
        } else if name.as_encoded_bytes().contains(&b'=') || has_nul(name) {
            Some(format!("environment variable name {name:?} holds `=` or a NUL byte"))
        } else if has_nul(value) {
            Some(format!("value of environment variable {name:?} holds a NUL byte"))
        } else {
            None
        }
    })
}

fn has_nul(text: &OsStr) -> bool {
    text.as_encoded_bytes().contains(&0)
}
