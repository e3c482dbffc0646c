use std::collections::BTreeMap;

use ringfence_gate::protected::GitProtection;
use ringfence_policy::Category;
use ringfence_policy::command_policy::{CustomAction, CustomRule, Enforcement};
use ringfence_types::{HostPattern, HostPatternError, SniCheck};
use toml::de::DeTable;

use super::problem::Problem;
use super::reader::{Problems, Reader, Setting};
use crate::Mode;

/// One configuration file as written: what is absent is `None`.
#[derive(Debug, Default)]
pub(crate) struct RawConfig {
    pub(crate) sandbox: RawSandbox,
    pub(crate) profiles: BTreeMap<String, RawProfile>,
}

#[derive(Debug, Default)]
pub(crate) struct RawSandbox {
    pub(crate) workspace_root: Option<Setting<String>>,
    pub(crate) enabled: Option<Setting<bool>>,
    pub(crate) default_timeout_seconds: Option<Setting<u64>>,
    pub(crate) max_output_bytes: Option<Setting<u64>>,
    pub(crate) protected: RawProtected,
    pub(crate) network: RawNetwork,
    pub(crate) linux: RawLinux,
    pub(crate) rate_limit: RawRateLimit,
    pub(crate) command_policy: RawCommandPolicy,
}

#[derive(Debug, Default)]
pub(crate) struct RawCommandPolicy {
    pub(crate) enabled: Option<Setting<bool>>,
    pub(crate) enforcement: Option<Setting<Enforcement>>,
    pub(crate) use_default_rules: Option<Setting<bool>>,
    pub(crate) custom_rules: Vec<CustomRule>,
}

#[derive(Debug, Default)]
pub(crate) struct RawProtected {
    pub(crate) git: Option<Setting<GitProtection>>,
    pub(crate) names: Option<Setting<Vec<String>>>,
    pub(crate) search_ms: Option<Setting<u64>>,
    pub(crate) recheck_seconds: Option<Setting<u64>>,
}

#[derive(Debug, Default)]
pub(crate) struct RawNetwork {
    pub(crate) sni: Option<Setting<SniCheck>>,
    pub(crate) max_connections: Option<Setting<u64>>,
}

#[derive(Debug, Default)]
pub(crate) struct RawLinux {
    pub(crate) nested_userns: Option<Setting<bool>>,
    pub(crate) allow_i386: Option<Setting<bool>>,
    pub(crate) tmp_size: Option<Setting<u64>>,
}

#[derive(Debug, Default)]
pub(crate) struct RawRateLimit {
    pub(crate) enabled: Option<Setting<bool>>,
    pub(crate) read: RawWindow,
    pub(crate) write: RawWindow,
    pub(crate) dangerous: RawWindow,
    pub(crate) admin: RawWindow,
    pub(crate) tools: Option<Setting<BTreeMap<String, Category>>>,
}

#[derive(Debug, Default)]
pub(crate) struct RawWindow {
    pub(crate) max_requests: Option<Setting<u64>>,
    pub(crate) burst: Option<Setting<u64>>,
    pub(crate) window_seconds: Option<Setting<u64>>,
}

#[derive(Debug, Default)]
pub(crate) struct RawProfile {
    pub(crate) extends: Option<Setting<Vec<String>>>,
    pub(crate) mode: Option<Setting<Mode>>,
    pub(crate) read: Option<Setting<Vec<String>>>,
    pub(crate) write: Option<Setting<Vec<String>>>,
    pub(crate) deny: Option<Setting<Vec<String>>>,
    pub(crate) unix_sockets: Option<Setting<Vec<String>>>,
    pub(crate) devices: Option<Setting<Vec<String>>>,
    pub(crate) allow_hosts: Option<Setting<Vec<HostPattern>>>,
    pub(crate) deny_hosts: Option<Setting<Vec<HostPattern>>>,
    pub(crate) env: Option<Setting<Vec<String>>>,
    pub(crate) caches: Option<Setting<Vec<String>>>,
    pub(crate) timeout_seconds: Option<Setting<u64>>,
    pub(crate) open_files: Option<Setting<u64>>,
    pub(crate) file_size: Option<Setting<u64>>,
}

/// Largest value that TOML integers and every consumer of a byte count can hold.
const MAX_BYTES: u64 = i64::MAX as u64;
const CATEGORIES: [(&str, Category); 4] = [
    ("read", Category::Read),
    ("write", Category::Write),
    ("dangerous", Category::Dangerous),
    ("admin", Category::Admin),
];
/// Syntax errors that are reported; a hostile text may have one on each line.
const MAX_ERRORS: usize = 100;
/// Names that `--profile` gives a meaning of their own.
const RESERVED: [&str; 2] = ["auto", "none"];
const DAY: u64 = 24 * 60 * 60;

/// Reads a whole text.
///
/// # Errors
/// Every problem found, in the order of the lines.
pub(crate) fn parse(text: &str) -> Result<RawConfig, Vec<Problem>> {
    let problems = Problems::new(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        // After a syntax error the rest may be read wrongly: its problems would mislead.
        errors.iter().take(MAX_ERRORS).for_each(|error| problems.syntax(error));
        return Err(problems.into_sorted());
    }
    let mut root = Reader::root(&problems, table.get_ref());
    let config = RawConfig {
        sandbox: root.table("sandbox", sandbox).unwrap_or_default(),
        profiles: root.tables("profile", profile),
    };
    root.finish();
    let found = problems.into_sorted();
    if found.is_empty() { Ok(config) } else { Err(found) }
}

fn sandbox(reader: &mut Reader<'_>) -> RawSandbox {
    reader.not_available(&["macos"], "the macOS backend");
    reader.not_available(&["windows"], "the Windows backend");
    reader.not_available(&["audit"], "the durable audit ledger");
    RawSandbox {
        workspace_root: reader.string("workspace_root"),
        enabled: reader.boolean("enabled"),
        default_timeout_seconds: reader.integer("default_timeout_seconds", 1..365 * DAY + 1),
        max_output_bytes: reader.integer("max_output_bytes", 1024..(1 << 30) + 1),
        protected: reader.table("protected", protected).unwrap_or_default(),
        network: reader.table("network", network).unwrap_or_default(),
        linux: reader.table("linux", linux).unwrap_or_default(),
        rate_limit: reader.table("rate_limit", rate_limit).unwrap_or_default(),
        command_policy: reader.table("command_policy", command_policy).unwrap_or_default(),
    }
}

fn command_policy(reader: &mut Reader<'_>) -> RawCommandPolicy {
    let words = [("block", Enforcement::Block), ("warn", Enforcement::Warn), ("off", Enforcement::Off)];
    RawCommandPolicy {
        enabled: reader.boolean("enabled"),
        enforcement: reader.word("enforcement", &words),
        use_default_rules: reader.boolean("use_default_rules"),
        custom_rules: reader.array_of_tables("custom_rules", custom_rule),
    }
}

/// A rule that is incomplete, or whose expression can't be used, is left out at the start and named there: the others
/// must stay in force.
fn custom_rule(reader: &mut Reader<'_>) -> CustomRule {
    let words = [("block", CustomAction::Block), ("warn", CustomAction::Warn)];
    let text = |setting: Option<Setting<String>>| setting.map(|text| text.value).unwrap_or_default();
    CustomRule {
        name: text(reader.string("name")),
        regex: text(reader.string("regex")),
        action: reader.word("action", &words).map(|action| action.value).unwrap_or_default(),
        description: text(reader.string("description")),
    }
}

fn protected(reader: &mut Reader<'_>) -> RawProtected {
    let words = [("executable", GitProtection::Executable), ("all", GitProtection::All)];
    let names = reader.strings("names");
    if let Some(Setting { value, line }) = &names {
        let bad =
            value.iter().any(|name| name.is_empty() || name.contains('/') || name == "." || name == "..");
        if bad {
            reader.invalid(*line, "names", "file names without a slash".into());
        }
    }
    RawProtected {
        git: reader.word("git", &words),
        names,
        search_ms: reader.integer("search_ms", 1..600_001),
        recheck_seconds: reader.integer("recheck_seconds", 0..DAY + 1),
    }
}

fn network(reader: &mut Reader<'_>) -> RawNetwork {
    RawNetwork {
        sni: reader.word("sni", &[("strict", SniCheck::Strict), ("log", SniCheck::Log)]),
        max_connections: reader.integer("max_connections", 1..65_537),
    }
}

fn linux(reader: &mut Reader<'_>) -> RawLinux {
    reader.not_available(&["backend"], "a choice of backends");
    reader.not_available(
        &["cpu_quota_percent", "max_pids", "address_space_limit", "cgroup_root"],
        "cgroup limits",
    );
    RawLinux {
        nested_userns: reader.boolean("nested_userns"),
        allow_i386: reader.boolean("allow_i386"),
        tmp_size: reader.integer("tmp_size", (1 << 20)..MAX_BYTES),
    }
}

fn rate_limit(reader: &mut Reader<'_>) -> RawRateLimit {
    RawRateLimit {
        enabled: reader.boolean("enabled"),
        read: reader.table("read", window).unwrap_or_default(),
        write: reader.table("write", window).unwrap_or_default(),
        dangerous: reader.table("dangerous", window).unwrap_or_default(),
        admin: reader.table("admin", window).unwrap_or_default(),
        tools: reader.words("tools", &CATEGORIES),
    }
}

fn window(reader: &mut Reader<'_>) -> RawWindow {
    RawWindow {
        max_requests: reader.integer("max_requests", 0..100_001),
        burst: reader.integer("burst", 0..100_001),
        window_seconds: reader.integer("window_seconds", 1..DAY + 1),
    }
}

fn profile(name: &str, reader: &mut Reader<'_>) -> RawProfile {
    if RESERVED.contains(&name) {
        reader.refuse_table(format!("another name: `{name}` is a word of --profile"));
    }
    reader.not_available(&["max_memory_mb", "max_processes", "cpu_quota_percent"], "cgroup limits");
    let modes = Mode::ALL.map(|mode| (mode.as_str(), mode));
    RawProfile {
        extends: reader.one_or_more("extends"),
        mode: reader.word("mode", &modes),
        read: reader.strings("read"),
        write: reader.strings("write"),
        deny: reader.strings("deny"),
        unix_sockets: reader.strings("unix_sockets"),
        devices: reader.strings("devices"),
        allow_hosts: hosts(reader, "allow_hosts"),
        deny_hosts: hosts(reader, "deny_hosts"),
        env: env(reader),
        caches: reader.strings("caches"),
        timeout_seconds: reader.integer("timeout_seconds", 1..365 * DAY + 1),
        open_files: reader.integer("open_files", 16..MAX_BYTES),
        file_size: reader.integer("file_size", 0..MAX_BYTES),
    }
}

/// Host patterns, as `--allow-host` takes them.
fn hosts(reader: &mut Reader<'_>, key: &'static str) -> Option<Setting<Vec<HostPattern>>> {
    let Setting { value, line } = reader.strings(key)?;
    match value.iter().map(|text| text.parse()).collect::<Result<Vec<_>, HostPatternError>>() {
        Ok(value) => Some(Setting { value, line }),
        Err(error) => {
            reader.invalid(line, key, format!("host patterns: {error}"));
            None
        }
    }
}

/// `NAME` or `NAME=value`, as `--env` takes them.
fn env(reader: &mut Reader<'_>) -> Option<Setting<Vec<String>>> {
    let setting = reader.strings("env")?;
    let bad =
        setting.value.iter().any(|entry| entry.is_empty() || entry.starts_with('=') || entry.contains('\0'));
    if bad {
        reader.invalid(setting.line, "env", "entries of the form NAME or NAME=value".into());
    }
    Some(setting)
}
