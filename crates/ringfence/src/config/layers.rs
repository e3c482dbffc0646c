use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use ringfence_gate::protected::GitProtection;
use ringfence_policy::command_policy::Enforcement;
use ringfence_policy::{Category, Limit, LimitConfig, RateLimitConfig};
use ringfence_types::SniCheck;

use super::problem::{Problem, ProblemKind};
use super::raw::{RawCommandPolicy, RawConfig, RawProfile, RawRateLimit, RawWindow};
use super::reader::Setting;
use super::settings::{Profile, SandboxConfig};
use crate::host::HostEnv;

/// Replaces what the user's own file names.
pub(super) fn apply(config: &mut SandboxConfig, raw: RawConfig, host: &HostEnv) -> Result<(), Vec<Problem>> {
    let sandbox = raw.sandbox;
    let mut problems = Vec::new();
    if let Some(root) = &sandbox.workspace_root {
        match expand_absolute(&root.value, host) {
            Some(path) => config.workspace_root = path,
            None => problems.push(Problem {
                line: root.line,
                key: "sandbox.workspace_root".into(),
                kind: ProblemKind::Invalid { expected: "an absolute path, or one below `~/`".into() },
            }),
        }
    }
    set(&mut config.enabled, sandbox.enabled);
    set(&mut config.default_timeout, sandbox.default_timeout_seconds.map(seconds).map(some));
    set(&mut config.max_output_bytes, sandbox.max_output_bytes.map(size));
    set(&mut config.protected.git, sandbox.protected.git);
    let names = sandbox
        .protected
        .names
        .map(|names| names.map(|names| names.into_iter().map(PathBuf::from).collect()));
    set(&mut config.protected.names, names);
    set(&mut config.protected.search_ms, sandbox.protected.search_ms);
    set(&mut config.protected.recheck_seconds, sandbox.protected.recheck_seconds);
    set(&mut config.proxy.sni, sandbox.network.sni);
    set(&mut config.proxy.max_connections, sandbox.network.max_connections.map(count));
    set(&mut config.linux.nested_userns, sandbox.linux.nested_userns);
    set(&mut config.linux.allow_i386, sandbox.linux.allow_i386);
    set(&mut config.linux.tmp_size, sandbox.linux.tmp_size);
    apply_rates(config, sandbox.rate_limit);
    let policy = sandbox.command_policy;
    set(&mut config.command_policy.enabled, policy.enabled);
    set(&mut config.command_policy.enforcement, policy.enforcement);
    set(&mut config.command_policy.use_default_rules, policy.use_default_rules);
    config.command_policy.custom_rules.extend(policy.custom_rules);
    config.profiles.extend(raw.profiles.into_iter().map(|(name, profile)| (name, profile.into())));
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

fn apply_rates(config: &mut SandboxConfig, raw: RawRateLimit) {
    let rates = &mut config.rate_limit;
    set(&mut rates.enabled, raw.enabled);
    let windows = [
        (&mut rates.read, raw.read),
        (&mut rates.write, raw.write),
        (&mut rates.dangerous, raw.dangerous),
        (&mut rates.admin, raw.admin),
    ];
    for (limit, raw) in windows {
        set(&mut limit.max_requests, raw.max_requests.map(count).map(some));
        set(&mut limit.burst, raw.burst.map(count).map(some));
        set(&mut limit.window_seconds, raw.window_seconds.map(window).map(some));
    }
    set(&mut rates.tools, raw.tools);
}

/// Narrows by what the workspace's own file says. Whoever wrote the workspace wrote that file too, so each
/// key that would allow more is an error.
pub(super) fn tighten(config: &mut SandboxConfig, raw: RawConfig) -> Result<(), Vec<Problem>> {
    let mut tightener = Tightener::default();
    let sandbox = raw.sandbox;
    tightener.forbid("sandbox.workspace_root", &sandbox.workspace_root);
    tightener.only(&mut config.enabled, "sandbox.enabled", sandbox.enabled, |new, old| new <= old);
    let timeout = sandbox.default_timeout_seconds.map(seconds).map(some);
    tightener.only(&mut config.default_timeout, "sandbox.default_timeout_seconds", timeout, |new, old| {
        old.is_none() || new <= old
    });
    let output = sandbox.max_output_bytes.map(size);
    tightener.only(&mut config.max_output_bytes, "sandbox.max_output_bytes", output, |new, old| new <= old);
    tightener.only(&mut config.protected.git, "sandbox.protected.git", sandbox.protected.git, |new, old| {
        new == old || *new == GitProtection::All
    });
    tightener.forbid("sandbox.protected.search_ms", &sandbox.protected.search_ms);
    tightener.forbid("sandbox.protected.recheck_seconds", &sandbox.protected.recheck_seconds);
    if let Some(names) = sandbox.protected.names {
        for name in names.value.into_iter().map(PathBuf::from) {
            if !config.protected.names.contains(&name) {
                config.protected.names.push(name);
            }
        }
    }
    tightener.only(&mut config.proxy.sni, "sandbox.network.sni", sandbox.network.sni, |new, old| new <= old);
    let connections = sandbox.network.max_connections.map(count);
    let known = &mut config.proxy.max_connections;
    tightener.only(known, "sandbox.network.max_connections", connections, |new, old| new <= old);
    let linux = &mut config.linux;
    let raw_linux = sandbox.linux;
    tightener.only(
        &mut linux.nested_userns,
        "sandbox.linux.nested_userns",
        raw_linux.nested_userns,
        |new, old| new <= old,
    );
    tightener
        .only(&mut linux.allow_i386, "sandbox.linux.allow_i386", raw_linux.allow_i386, |new, old| new <= old);
    tightener.only(&mut linux.tmp_size, "sandbox.linux.tmp_size", raw_linux.tmp_size, |new, old| new <= old);
    tightener.rates(config, sandbox.rate_limit);
    tightener.command_policy(config, sandbox.command_policy);
    for (name, profile) in raw.profiles {
        tightener.profile(config.profiles.entry(name.clone()).or_default(), &name, profile);
    }
    let Tightener { problems } = tightener;
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

#[derive(Default)]
struct Tightener {
    problems: Vec<Problem>,
}

impl Tightener {
    /// Takes the new value if `narrower(new, old)`.
    fn only<T: Shown>(
        &mut self,
        old: &mut T,
        key: &str,
        new: Option<Setting<T>>,
        narrower: impl Fn(&T, &T) -> bool,
    ) {
        let Some(Setting { value, line }) = new else { return };
        if narrower(&value, old) {
            *old = value;
        } else {
            self.loosens(line, key, format!("the user's own configuration says {}", old.shown()));
        }
    }

    fn forbid<T>(&mut self, key: &str, setting: &Option<Setting<T>>) {
        if let Some(Setting { line, .. }) = setting {
            self.loosens(*line, key, "only the user's own configuration may set it".into());
        }
    }

    fn loosens(&mut self, line: usize, key: &str, allowed: String) {
        self.problems.push(Problem { line, key: key.to_owned(), kind: ProblemKind::Loosens { allowed } });
    }

    fn rates(&mut self, config: &mut SandboxConfig, raw: RawRateLimit) {
        let rates = &mut config.rate_limit;
        self.only(&mut rates.enabled, "sandbox.rate_limit.enabled", raw.enabled, |new, old| new >= old);
        self.forbid("sandbox.rate_limit.tools", &raw.tools);
        for (category, raw) in [
            (Category::Read, raw.read),
            (Category::Write, raw.write),
            (Category::Dangerous, raw.dangerous),
            (Category::Admin, raw.admin),
        ] {
            self.window(rates, category, raw);
        }
    }

    /// A workspace may switch on and add, never take away.
    fn command_policy(&mut self, config: &mut SandboxConfig, raw: RawCommandPolicy) {
        let policy = &mut config.command_policy;
        let key = |part| format!("sandbox.command_policy.{part}");
        self.only(&mut policy.enabled, &key("enabled"), raw.enabled, |new, old| new >= old);
        self.only(&mut policy.enforcement, &key("enforcement"), raw.enforcement, |new, old| {
            strictness(*new) >= strictness(*old)
        });
        self.only(
            &mut policy.use_default_rules,
            &key("use_default_rules"),
            raw.use_default_rules,
            |new, old| new >= old,
        );
        policy.custom_rules.extend(raw.custom_rules);
    }

    fn window(&mut self, rates: &mut RateLimitConfig, category: Category, raw: RawWindow) {
        let key = |part| format!("sandbox.rate_limit.{category}.{part}");
        let Limit { max_requests: mut max, mut burst, window: mut length } = rates.limit(category);
        self.only(&mut max, &key("max_requests"), raw.max_requests.map(count), |new, old| new <= old);
        self.only(&mut burst, &key("burst"), raw.burst.map(count), |new, old| new <= old);
        let seconds = raw.window_seconds.map(seconds);
        self.only(&mut length, &key("window_seconds"), seconds, |new, old| new >= old);
        let target = match category {
            Category::Read => &mut rates.read,
            Category::Write => &mut rates.write,
            Category::Dangerous => &mut rates.dangerous,
            Category::Admin => &mut rates.admin,
        };
        let window_seconds = u32::try_from(length.as_secs()).ok().and_then(NonZeroU32::new);
        *target = LimitConfig { max_requests: Some(max), burst: Some(burst), window_seconds };
    }

    /// Denials and limits are added to the user's or the built-in profile of that name.
    fn profile(&mut self, profile: &mut Profile, name: &str, raw: RawProfile) {
        let key = |part| format!("profile.{name}.{part}");
        self.forbid(&key("extends"), &raw.extends);
        self.forbid(&key("mode"), &raw.mode);
        self.forbid(&key("read"), &raw.read);
        self.forbid(&key("write"), &raw.write);
        self.forbid(&key("unix_sockets"), &raw.unix_sockets);
        self.forbid(&key("devices"), &raw.devices);
        self.forbid(&key("allow_hosts"), &raw.allow_hosts);
        self.forbid(&key("env"), &raw.env);
        self.forbid(&key("caches"), &raw.caches);
        profile.deny.extend(raw.deny.into_iter().flat_map(|deny| deny.value));
        profile.deny_hosts.extend(raw.deny_hosts.into_iter().flat_map(|deny| deny.value));
        let limit = |new: &Option<_>, old: &Option<_>| old.is_none() || new <= old;
        let limits = &mut profile.rlimits;
        self.only(&mut limits.open_files, &key("open_files"), raw.open_files.map(some), limit);
        self.only(&mut limits.file_size, &key("file_size"), raw.file_size.map(some), limit);
        let timeout = raw.timeout_seconds.map(seconds).map(some);
        self.only(&mut profile.timeout, &key("timeout_seconds"), timeout, |new, old| {
            old.is_none() || new <= old
        });
    }
}

fn strictness(enforcement: Enforcement) -> u8 {
    match enforcement {
        Enforcement::Off => 0,
        Enforcement::Warn => 1,
        Enforcement::Block => 2,
    }
}

/// A value as a configuration file would hold it.
trait Shown {
    fn shown(&self) -> String;
}

impl Shown for bool {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Shown for u32 {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Shown for u64 {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Shown for usize {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Shown for Duration {
    fn shown(&self) -> String {
        self.as_secs().to_string()
    }
}

impl Shown for Enforcement {
    fn shown(&self) -> String {
        match self {
            Self::Off => "\"off\"".into(),
            Self::Warn => "\"warn\"".into(),
            Self::Block => "\"block\"".into(),
        }
    }
}

impl Shown for SniCheck {
    fn shown(&self) -> String {
        match self {
            Self::Strict => "\"strict\"".into(),
            Self::Log => "\"log\"".into(),
        }
    }
}

impl Shown for GitProtection {
    fn shown(&self) -> String {
        match self {
            Self::Executable => "\"executable\"".into(),
            Self::All => "\"all\"".into(),
        }
    }
}

impl<T: Shown> Shown for Option<T> {
    fn shown(&self) -> String {
        self.as_ref().map_or_else(|| "nothing".into(), Shown::shown)
    }
}

impl From<RawProfile> for Profile {
    fn from(raw: RawProfile) -> Self {
        let list = |setting: Option<Setting<Vec<String>>>| setting.map(|list| list.value).unwrap_or_default();
        Self {
            extends: list(raw.extends),
            mode: raw.mode.map(|mode| mode.value),
            read: list(raw.read),
            write: list(raw.write),
            deny: list(raw.deny),
            unix_sockets: list(raw.unix_sockets),
            devices: list(raw.devices),
            allow_hosts: raw.allow_hosts.map(|hosts| hosts.value).unwrap_or_default(),
            deny_hosts: raw.deny_hosts.map(|hosts| hosts.value).unwrap_or_default(),
            env: list(raw.env),
            caches: list(raw.caches),
            timeout: raw.timeout_seconds.map(|limit| Duration::from_secs(limit.value)),
            rlimits: ringfence_types::Rlimits {
                open_files: raw.open_files.map(|limit| limit.value),
                file_size: raw.file_size.map(|limit| limit.value),
            },
        }
    }
}

fn set<T>(target: &mut T, setting: Option<Setting<T>>) {
    if let Some(Setting { value, .. }) = setting {
        *target = value;
    }
}

impl<T> Setting<T> {
    fn map<U>(self, convert: impl FnOnce(T) -> U) -> Setting<U> {
        Setting { value: convert(self.value), line: self.line }
    }
}

fn seconds(setting: Setting<u64>) -> Setting<Duration> {
    setting.map(Duration::from_secs)
}

fn some<T>(setting: Setting<T>) -> Setting<Option<T>> {
    setting.map(Some)
}

/// The reader has checked the range.
fn size(setting: Setting<u64>) -> Setting<usize> {
    setting.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// The reader has refused 0.
fn window(setting: Setting<u64>) -> Setting<NonZeroU32> {
    setting.map(|seconds| u32::try_from(seconds).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX))
}

fn count(setting: Setting<u64>) -> Setting<u32> {
    setting.map(|count| u32::try_from(count).unwrap_or(u32::MAX))
}

fn expand_absolute(text: &str, host: &HostEnv) -> Option<PathBuf> {
    let path = match text.strip_prefix("~/") {
        Some(rest) => host.home()?.join(rest),
        None => PathBuf::from(text),
    };
    path.is_absolute().then_some(path)
}
