//! Stage 1: what must be asked of a command before anything is done for it.
//!
//! A [`HookChain`] always begins with the floor: checks that no configuration leaves out. What passes the whole
//! chain is a [`VettedCommand`], which only [`HookChain::vet`] constructs and without which the later stages
//! can't begin. Nothing here performs I/O.

#![forbid(unsafe_code)]

mod chain;
pub mod command_policy;
mod hygiene;
mod rate_limit;

pub use chain::{
    HookChain, HookContext, HookDecision, HookDenied, PolicyConfig, SandboxBeforeHook, VettedCommand,
};
pub use command_policy::{CommandPolicy, CommandPolicyConfig, CommandPolicyHook};
pub use rate_limit::{Category, Limit, LimitConfig, RateLimitConfig, RateLimitHook, RateLimited};
