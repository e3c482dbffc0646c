use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ringfence_types::SessionId;
use serde::{Deserialize, Serialize};

use crate::chain::{HookContext, HookDecision, HookDenied, SandboxBeforeHook};

/// How much harm a tool can do; each category has an allowance of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Looks at things.
    Read,
    /// Changes files.
    Write,
    /// Runs programs, or is not known.
    Dangerous,
    /// Changes the agent itself.
    Admin,
}

impl Category {
    /// The category of the tools known by name; any other tool counts as dangerous.
    fn of_known(tool: &str) -> Self {
        match tool {
            "file_read" | "read_file" | "list_dir" | "glob" | "grep" | "search" => Self::Read,
            "file_ops" | "apply_patch" | "write_file" | "edit_file" => Self::Write,
            "self_config" | "skill_install" => Self::Admin,
            _ => Self::Dangerous,
        }
    }

    fn defaults(self) -> Limit {
        let (max_requests, burst) = match self {
            Self::Read => (60, 20),
            Self::Write => (30, 10),
            Self::Dangerous => (10, 5),
            Self::Admin => (5, 2),
        };
        Limit { max_requests, burst, window: Duration::from_secs(60) }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Dangerous => "dangerous",
            Self::Admin => "admin",
        })
    }
}

/// What one session may do in one category: at most `max_requests + burst` calls in any `window`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Calls that a window allows.
    pub max_requests: u32,
    /// Calls that it allows on top.
    pub burst: u32,
    /// Length of the sliding window.
    pub window: Duration,
}

/// One category's table in the configuration. What it leaves out keeps that category's own default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitConfig {
    /// Calls that a window allows.
    pub max_requests: Option<u32>,
    /// Calls that it allows on top.
    pub burst: Option<u32>,
    /// Length of the window in seconds.
    pub window_seconds: Option<NonZeroU32>,
}

/// `[sandbox.rate_limit]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RateLimitConfig {
    /// Whether calls are counted at all.
    pub enabled: bool,
    /// Default 60 + 20 calls in 60 s.
    pub read: LimitConfig,
    /// Default 30 + 10 calls in 60 s.
    pub write: LimitConfig,
    /// Default 10 + 5 calls in 60 s.
    pub dangerous: LimitConfig,
    /// Default 5 + 2 calls in 60 s.
    pub admin: LimitConfig,
    /// Category of further tools by name.
    pub tools: BTreeMap<String, Category>,
}

impl Default for RateLimitConfig {
    fn default() -> Self {
        let keep = LimitConfig::default();
        Self { enabled: true, read: keep, write: keep, dangerous: keep, admin: keep, tools: BTreeMap::new() }
    }
}

impl RateLimitConfig {
    /// The allowance of one category.
    pub fn limit(&self, category: Category) -> Limit {
        let table = match category {
            Category::Read => self.read,
            Category::Write => self.write,
            Category::Dangerous => self.dangerous,
            Category::Admin => self.admin,
        };
        let defaults = category.defaults();
        Limit {
            max_requests: table.max_requests.unwrap_or(defaults.max_requests),
            burst: table.burst.unwrap_or(defaults.burst),
            window: table.window_seconds.map_or(defaults.window, |s| Duration::from_secs(s.get().into())),
        }
    }

    /// The category of a tool. A name that neither the configuration nor we know is dangerous.
    pub fn category(&self, tool: &str) -> Category {
        self.tools.get(tool).copied().unwrap_or_else(|| Category::of_known(tool))
    }
}

/// A refusal for lack of allowance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimited {
    /// Category of the tool.
    pub category: Category,
    /// Calls within the window.
    pub count: u32,
    /// Calls that a window allows, burst included.
    pub limit: u32,
    /// Length of the window.
    pub window: Duration,
    /// When the next call will pass, from now.
    pub retry_after: Duration,
}

impl From<RateLimited> for HookDenied {
    fn from(limited: RateLimited) -> Self {
        let RateLimited { category, count, limit, window, retry_after } = limited;
        Self::RateLimited { category, count, limit, window, retry_after }
    }
}

/// Counts the calls of each session and category in a sliding window.
///
/// A refused call is not counted. Windows that have run out are dropped as time goes on, and all of a session's
/// with [`SandboxBeforeHook::forget`].
#[derive(Debug)]
pub struct RateLimitHook {
    config: RateLimitConfig,
    windows: Mutex<Windows>,
}

#[derive(Debug, Default)]
struct Windows {
    sessions: HashMap<SessionId, HashMap<Category, VecDeque<Instant>>>,
    swept: Option<Instant>,
}

impl RateLimitHook {
    /// A hook with no calls counted.
    pub fn new(config: RateLimitConfig) -> Self {
        Self { config, windows: Mutex::default() }
    }

    fn check(&self, session: &SessionId, tool: &str, now: Instant) -> Result<(), RateLimited> {
        if !self.config.enabled {
            return Ok(());
        }
        let category = self.config.category(tool);
        let Limit { max_requests, burst, window } = self.config.limit(category);
        let limit = max_requests.saturating_add(burst);

        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        self.sweep(&mut windows, now);
        let calls = windows.sessions.entry(session.clone()).or_default().entry(category).or_default();
        drop_expired(calls, window, now);
        let count = u32::try_from(calls.len()).unwrap_or(u32::MAX);
        if count < limit {
            calls.push_back(now);
            return Ok(());
        }
        let oldest = calls.front().map_or(Duration::ZERO, |&call| now.saturating_duration_since(call));
        Err(RateLimited { category, count, limit, window, retry_after: window.saturating_sub(oldest) })
    }

    /// Drops every window that has run out. Done once in the shortest window's time, so that its cost is spread
    /// and what an idle session leaves behind is bounded.
    fn sweep(&self, windows: &mut Windows, now: Instant) {
        let all = [Category::Read, Category::Write, Category::Dangerous, Category::Admin];
        let period =
            all.map(|category| self.config.limit(category).window).into_iter().min().unwrap_or_default();
        match windows.swept {
            Some(last) if now.saturating_duration_since(last) < period => return,
            _ => windows.swept = Some(now),
        }
        windows.sessions.retain(|_, categories| {
            categories.retain(|&category, calls| {
                drop_expired(calls, self.config.limit(category).window, now);
                !calls.is_empty()
            });
            !categories.is_empty()
        });
    }
}

/// Differences of instants saturate: a clock that has just started can't be subtracted from.
fn drop_expired(calls: &mut VecDeque<Instant>, window: Duration, now: Instant) {
    while calls.front().is_some_and(|&call| now.saturating_duration_since(call) >= window) {
        calls.pop_front();
    }
}

#[async_trait]
impl SandboxBeforeHook for RateLimitHook {
    fn name(&self) -> &'static str {
        "rate-limit"
    }

    async fn before(&self, ctx: &HookContext<'_>) -> HookDecision {
        match self.check(ctx.session(), ctx.tool_name(), Instant::now()) {
            Ok(()) => HookDecision::Allow,
            Err(limited) => HookDecision::RateLimited(limited),
        }
    }

    fn forget(&self, session: &SessionId) {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner).sessions.remove(session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(config: &str) -> RateLimitHook {
        RateLimitHook::new(toml::from_str(config).unwrap())
    }

    fn allowed(hook: &RateLimitHook, session: &SessionId, tool: &str, now: Instant) -> usize {
        (0..1000).take_while(|_| hook.check(session, tool, now).is_ok()).count()
    }

    #[test]
    fn defaults_are_those_of_each_category() {
        let hook = hook("");
        let (session, now) = (SessionId::new("s"), Instant::now());
        for (tool, expected) in [("file_read", 80), ("apply_patch", 40), ("bash", 15), ("self_config", 7)] {
            assert_eq!(allowed(&hook, &session, tool, now), expected, "{tool}");
        }
        assert_eq!(allowed(&hook, &SessionId::new("t"), "bash", now), 15, "sessions don't share");
    }

    #[test]
    fn an_unknown_tool_is_dangerous_and_shares_that_window() {
        let hook = hook("");
        let (session, now) = (SessionId::new("s"), Instant::now());
        assert_eq!(allowed(&hook, &session, "never-heard-of", now), 15);
        assert_eq!(allowed(&hook, &session, "bash", now), 0);
        assert_eq!(hook.config.category(""), Category::Dangerous);
    }

    #[test]
    fn a_partial_table_keeps_the_rest_of_its_own_category() {
        let hook = hook("[admin]\nmax_requests = 1\n[write]\nwindow_seconds = 5\n[tools]\nlook = 'read'");
        let limit = |category| hook.config.limit(category);
        let seconds = Duration::from_secs;
        assert_eq!(limit(Category::Admin), Limit { max_requests: 1, burst: 2, window: seconds(60) });
        assert_eq!(limit(Category::Write), Limit { max_requests: 30, burst: 10, window: seconds(5) });
        assert_eq!(hook.config.category("look"), Category::Read);
    }

    #[test]
    fn configuration_mistakes_are_errors() {
        for text in ["[read]\nmax = 1", "reads = {}", "[read]\nwindow_seconds = 0", "[tools]\nx = 'harmless'"]
        {
            assert!(toml::from_str::<RateLimitConfig>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_window_slides_and_says_when() {
        let hook = hook("[dangerous]\nmax_requests = 1\nburst = 1");
        let (session, start) = (SessionId::new("s"), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(hook.check(&session, "bash", at(0)).is_ok());
        assert!(hook.check(&session, "bash", at(20)).is_ok());
        let refused = hook.check(&session, "bash", at(25)).unwrap_err();
        assert_eq!((refused.count, refused.limit), (2, 2));
        assert_eq!(refused.retry_after, Duration::from_secs(35));
        assert!(hook.check(&session, "bash", at(25) + refused.retry_after).is_ok(), "the first has run out");
        assert_eq!(hook.check(&session, "bash", at(61)).unwrap_err().retry_after, Duration::from_secs(19));
    }

    #[test]
    fn time_that_goes_backwards_does_not_panic() {
        let hook = hook("[dangerous]\nmax_requests = 1\nburst = 0");
        let (session, now) = (SessionId::new("s"), Instant::now());
        let later = now + Duration::from_secs(3600);
        assert!(hook.check(&session, "bash", later).is_ok());
        assert_eq!(hook.check(&session, "bash", now).unwrap_err().retry_after, Duration::from_secs(60));
    }

    #[test]
    fn an_allowance_of_nothing_refuses() {
        let hook = hook("[dangerous]\nmax_requests = 0\nburst = 0");
        let refused = hook.check(&SessionId::new("s"), "bash", Instant::now()).unwrap_err();
        assert_eq!(refused.retry_after, Duration::from_secs(60));
    }

    #[test]
    fn idle_sessions_and_ended_ones_are_forgotten() {
        let hook = hook("");
        let start = Instant::now();
        for n in 0..100 {
            hook.check(&SessionId::new(n.to_string()), "bash", start).unwrap();
        }
        let tracked = || hook.windows.lock().unwrap().sessions.len();
        assert_eq!(tracked(), 100);
        hook.check(&SessionId::new("late"), "bash", start + Duration::from_secs(61)).unwrap();
        assert_eq!(tracked(), 1);
        hook.forget(&SessionId::new("late"));
        assert_eq!(tracked(), 0);
    }

    #[test]
    fn disabled_counts_nothing() {
        let hook = hook("enabled = false");
        assert_eq!(allowed(&hook, &SessionId::new("s"), "bash", Instant::now()), 1000);
    }
}
