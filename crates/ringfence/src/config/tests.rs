use std::ffi::OsString;
use std::fs;
use std::time::Duration;

use ringfence_policy::{Category, RateLimitConfig};
use ringfence_types::ProxySettings;

use super::*;
use crate::Mode;

fn problems(text: &str) -> Vec<String> {
    check(text).err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

/// A home with a user's file, and a workspace with its own.
struct Files {
    dir: tempfile::TempDir,
    host: HostEnv,
}

impl Files {
    fn new(user: Option<&str>, workspace: Option<&str>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        fs::create_dir_all(home.join(".ringfence")).unwrap();
        fs::create_dir(dir.path().join("work")).unwrap();
        if let Some(text) = user {
            fs::write(home.join(".ringfence/config.toml"), text).unwrap();
        }
        if let Some(text) = workspace {
            fs::write(dir.path().join("work/.ringfence.toml"), text).unwrap();
        }
        let vars = vec![(OsString::from("HOME"), home.into_os_string())];
        Self { host: HostEnv::new(vars, 1000, PathBuf::from("/nonexistent")), dir }
    }

    fn load(&self) -> Result<Loaded, ConfigError> {
        let workspace = self.dir.path().join("work");
        Sources { host: &self.host, file: None, workspace: Some(&workspace) }.load()
    }

    fn problems(&self) -> Vec<String> {
        match self.load() {
            Err(ConfigError::Invalid { problems, .. }) => problems.iter().map(ToString::to_string).collect(),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn every_unknown_key_is_named_with_its_line_and_the_nearest_known_one() {
    let text = "\n[sandbox]\nenable = true\n\n[sandbox.linux]\nnested_user_ns = true\n[sandbx]\nx = 1\n";
    assert_eq!(
        problems(text),
        [
            "line 3: unknown key `sandbox.enable`, the nearest known one is `enabled`",
            "line 6: unknown key `sandbox.linux.nested_user_ns`, the nearest known one is `nested_userns`",
            "line 7: unknown key `sandbx`, the nearest known one is `sandbox`",
        ]
    );
    assert_eq!(problems("[sandbox]\nqqqq = 1"), ["line 2: unknown key `sandbox.qqqq`"]);
    assert_eq!(
        problems("[profile.p]\nreads = []"),
        ["line 2: unknown key `profile.p.reads`, the nearest known one is `read`"]
    );
}

#[test]
fn wrong_types_and_values_say_what_was_expected() {
    let text = r#"
[sandbox]
enabled = "yes"
default_timeout_seconds = 0
max_output_bytes = 1.5
workspace_root = 7
protected = []
[sandbox.rate_limit]
read = { burst = -1 }
tools = { a = "reads", b = 2 }
[profile.p]
mode = "wide"
read = "x"
write = ["a", 1]
env = ["=x"]
"#;
    assert_eq!(
        problems(text),
        [
            "line 3: `sandbox.enabled` expects a boolean, found string",
            "line 4: `sandbox.default_timeout_seconds` expects a whole number from 1 to 31536000",
            "line 5: `sandbox.max_output_bytes` expects a whole number, found float",
            "line 6: `sandbox.workspace_root` expects a string, found integer",
            "line 7: `sandbox.protected` expects a table, found array",
            "line 9: `sandbox.rate_limit.read.burst` expects a whole number from 0 to 100000",
            "line 10: `sandbox.rate_limit.tools.a` expects \"read\" or \"write\" or \"dangerous\" or \"admin\", found \"reads\"",
            "line 10: `sandbox.rate_limit.tools.b` expects a string, found integer",
            "line 12: `profile.p.mode` expects \"strict\" or \"read-only\" or \"workspace-write\" or \"full-access\", found \"wide\"",
            "line 13: `profile.p.read` expects an array of strings, found string",
            "line 14: `profile.p.write` expects an array of strings, found an array with other values",
            "line 15: `profile.p.env` expects entries of the form NAME or NAME=value",
        ]
    );
}

#[test]
fn keys_of_later_features_are_refused_by_name() {
    let text = "[sandbox.audit]\nx = 1\n[sandbox.macos]\n[sandbox.linux]\nmax_pids = 3\n[profile.p]\nmax_processes = 1\n";
    let found = problems(text);
    assert_eq!(found.len(), 4, "{found:#?}");
    assert_eq!(
        found[0],
        "line 1: `sandbox.audit` needs the durable audit ledger, which is not available yet"
    );
    assert!(found[2].starts_with("line 5: `sandbox.linux.max_pids` needs cgroup limits"), "{found:#?}");
    assert!(found[3].starts_with("line 7: `profile.p.max_processes`"), "{found:#?}");
}

#[test]
fn hosts_are_patterns() {
    let found = problems("[profile.p]\nallow_hosts = [\"https://a.com/\"]\n");
    assert_eq!(
        found,
        [
            "line 2: `profile.p.allow_hosts` expects host patterns: host pattern `https://a.com/` holds a scheme or a \
          path, expected only a host and an optional port"
        ]
    );
}

#[test]
fn syntax_errors_name_their_line() {
    let found = problems("[sandbox]\nenabled = tru\n");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("line 2: "), "{found:?}");
    assert!(problems("[sandbox]\nenabled = true\nenabled = true\n")[0].contains("line 3: duplicate key"));
}

#[test]
fn integers_keep_their_notation() {
    let files = Files::new(Some("[sandbox]\nmax_output_bytes = 0x10_0000\n"), None);
    assert_eq!(files.load().unwrap().config.max_output_bytes, 1 << 20);
    assert_eq!(problems("[sandbox]\nmax_output_bytes = 99999999999999999999999").len(), 1);
}

#[test]
fn the_commented_default_is_the_default() {
    let text = commented_default();
    assert_eq!(check(text), Ok(()));
    // With every setting uncommented it still says the same.
    let set = |line: &str| line.strip_prefix("# ").is_some_and(|rest| rest.split_once(" = ").is_some());
    let uncommented: String = text
        .lines()
        .take_while(|line| !line.contains("[profile.example]"))
        .map(|line| if set(line) { &line[2..] } else { line })
        .flat_map(|line| [line, "\n"])
        .collect();
    let files = Files::new(Some(&uncommented), None);
    let loaded = files.load().unwrap().config;
    let mut expected = SandboxConfig::new(loaded.home.clone());
    for category in [Category::Read, Category::Write, Category::Dangerous, Category::Admin] {
        assert_eq!(loaded.rate_limit.limit(category), expected.rate_limit.limit(category));
    }
    assert_eq!(loaded.rate_limit.tools.len(), 1);
    expected.rate_limit = loaded.rate_limit.clone();
    assert_eq!(loaded, expected);
    assert!(uncommented.matches(" = ").count() > 12);
}

#[test]
fn the_example_profile_is_valid() {
    let start = commented_default().find("# [profile.example]").unwrap();
    let example: String =
        commented_default()[start..].lines().flat_map(|line| [line.trim_start_matches("# "), "\n"]).collect();
    let files = Files::new(Some(&example), None);
    let config = files.load().unwrap().config;
    assert_eq!(config.profiles["example"].mode, Some(Mode::WorkspaceWrite));
    assert_eq!(config.profiles["example"].extends, ["rust"]);
}

#[test]
fn the_users_file_replaces_defaults() {
    let text = r#"
[sandbox]
workspace_root = "~/boxes"
enabled = false
default_timeout_seconds = 5
[sandbox.protected]
git = "all"
names = [".x"]
[sandbox.rate_limit.dangerous]
burst = 0
[profile.p]
extends = "rust"
timeout_seconds = 9
open_files = 64
"#;
    let files = Files::new(Some(text), None);
    let loaded = files.load().unwrap();
    let config = &loaded.config;
    assert_eq!(config.workspace_root, files.dir.path().join("home/boxes"));
    assert!(!config.enabled);
    assert_eq!(config.default_timeout, Some(Duration::from_secs(5)));
    assert_eq!(config.protected.git, GitProtection::All);
    assert_eq!(config.protected.names, [PathBuf::from(".x")]);
    assert_eq!(config.rate_limit.limit(Category::Dangerous).burst, 0);
    assert_eq!(config.rate_limit.limit(Category::Dangerous).max_requests, 10);
    assert_eq!(config.profiles["p"].extends, ["rust"]);
    assert_eq!(config.profiles["p"].rlimits.open_files, Some(64));
    assert_eq!(loaded.files, [files.dir.path().join("home/.ringfence/config.toml")]);
    let relative = Files::new(Some("[sandbox]\nworkspace_root = \"boxes\""), None);
    assert_eq!(
        relative.problems(),
        ["line 2: `sandbox.workspace_root` expects an absolute path, or one below `~/`"]
    );
}

#[test]
fn no_file_is_the_defaults_and_a_named_file_must_exist() {
    let files = Files::new(None, None);
    let loaded = files.load().unwrap();
    assert_eq!(loaded.config, SandboxConfig::new(files.dir.path().join("home/.ringfence")));
    assert!(loaded.files.is_empty());
    let absent = files.dir.path().join("absent.toml");
    let named = Sources { host: &files.host, file: Some(&absent), workspace: None }.load();
    assert!(matches!(named, Err(ConfigError::Read { .. })));
}

#[test]
fn a_workspace_tightens() {
    let text = r#"
[sandbox]
enabled = false
default_timeout_seconds = 10
max_output_bytes = 2048
[sandbox.protected]
git = "all"
names = [".mine"]
[sandbox.network]
sni = "strict"
max_connections = 8
[sandbox.linux]
tmp_size = 1048576
nested_userns = false
[sandbox.rate_limit]
admin = { max_requests = 1, window_seconds = 120 }
[profile.rust]
deny = ["keys"]
timeout_seconds = 3
"#;
    let config = Files::new(None, Some(text)).load().unwrap().config;
    assert!(!config.enabled);
    assert_eq!(config.default_timeout, Some(Duration::from_secs(10)));
    assert_eq!(config.max_output_bytes, 2048);
    assert_eq!(config.protected.git, GitProtection::All);
    assert!(
        config.protected.names.contains(&".mine".into())
            && config.protected.names.contains(&".vscode".into())
    );
    assert_eq!(config.linux.tmp_size, 1 << 20);
    assert_eq!(config.proxy, ProxySettings { max_connections: 8, ..ProxySettings::default() });
    assert_eq!(config.rate_limit.limit(Category::Admin).max_requests, 1);
    assert_eq!(config.rate_limit.limit(Category::Admin).window, Duration::from_secs(120));
    assert_eq!(config.profiles["rust"].deny, ["keys"]);
    assert_eq!(config.profiles["rust"].timeout, Some(Duration::from_secs(3)));
}

#[test]
fn a_workspace_can_loosen_nothing() {
    let user = r#"
[sandbox]
enabled = false
default_timeout_seconds = 5
[sandbox.protected]
git = "all"
[sandbox.rate_limit]
enabled = true
[profile.mine]
timeout_seconds = 5
"#;
    for (key, table, line) in [
        ("sandbox.workspace_root", "sandbox", "workspace_root = \"/tmp\""),
        ("sandbox.enabled", "sandbox", "enabled = true"),
        ("sandbox.default_timeout_seconds", "sandbox", "default_timeout_seconds = 6"),
        ("sandbox.max_output_bytes", "sandbox", "max_output_bytes = 1048577"),
        ("sandbox.protected.git", "sandbox.protected", "git = \"executable\""),
        ("sandbox.protected.search_ms", "sandbox.protected", "search_ms = 1"),
        ("sandbox.protected.recheck_seconds", "sandbox.protected", "recheck_seconds = 1"),
        ("sandbox.network.sni", "sandbox.network", "sni = \"log\""),
        ("sandbox.network.max_connections", "sandbox.network", "max_connections = 4097"),
        ("sandbox.linux.nested_userns", "sandbox.linux", "nested_userns = true"),
        ("sandbox.linux.allow_i386", "sandbox.linux", "allow_i386 = true"),
        ("sandbox.linux.tmp_size", "sandbox.linux", "tmp_size = 2147483649"),
        ("sandbox.rate_limit.enabled", "sandbox.rate_limit", "enabled = false"),
        ("sandbox.rate_limit.tools", "sandbox.rate_limit", "tools = { exec = \"read\" }"),
        ("sandbox.rate_limit.read.max_requests", "sandbox.rate_limit.read", "max_requests = 61"),
        ("sandbox.rate_limit.read.burst", "sandbox.rate_limit.read", "burst = 21"),
        ("sandbox.rate_limit.read.window_seconds", "sandbox.rate_limit.read", "window_seconds = 59"),
        ("profile.mine.extends", "profile.mine", "extends = \"rust\""),
        ("profile.mine.mode", "profile.mine", "mode = \"full-access\""),
        ("profile.mine.read", "profile.mine", "read = [\"/\"]"),
        ("profile.mine.write", "profile.mine", "write = [\"/\"]"),
        ("profile.mine.unix_sockets", "profile.mine", "unix_sockets = [\"/s\"]"),
        ("profile.mine.devices", "profile.mine", "devices = [\"kvm\"]"),
        ("profile.mine.env", "profile.mine", "env = [\"TOKEN\"]"),
        ("profile.mine.caches", "profile.mine", "caches = [\"/c\"]"),
        ("profile.mine.timeout_seconds", "profile.mine", "timeout_seconds = 6"),
    ] {
        let files = Files::new(Some(user), Some(&format!("[{table}]\n{line}\n")));
        let found = files.problems();
        assert_eq!(found.len(), 1, "{key}: {found:?}");
        let start = format!("line 2: `{key}` in a workspace's own file may only tighten: ");
        assert!(found[0].starts_with(&start), "{found:?}");
    }
}

#[test]
fn a_workspaces_file_is_read_as_hostile_input() {
    let files = Files::new(None, None);
    let path = files.dir.path().join("work/.ringfence.toml");
    let target = files.dir.path().join("outside.toml");
    fs::write(&target, "[sandbox]\n").unwrap();
    std::os::unix::fs::symlink(&target, &path).unwrap();
    assert!(matches!(files.load(), Err(ConfigError::NotRegular(_))), "symlink");
    fs::remove_file(&path).unwrap();

    fs::create_dir(&path).unwrap();
    assert!(matches!(files.load(), Err(ConfigError::NotRegular(_))), "directory");
    fs::remove_dir(&path).unwrap();

    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert!(matches!(files.load(), Err(ConfigError::NotRegular(_))), "pipe");
    fs::remove_file(&path).unwrap();

    let socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    assert!(matches!(files.load(), Err(ConfigError::NotRegular(_))), "socket");
    drop(socket);
    fs::remove_file(&path).unwrap();

    fs::write(&path, "#".repeat(WORKSPACE_LIMIT as usize + 1)).unwrap();
    assert!(matches!(files.load(), Err(ConfigError::TooLarge { .. })));
    fs::write(&path, b"# \xff\n").unwrap();
    assert!(matches!(files.load(), Err(ConfigError::NotUtf8(_))));
}

#[test]
fn errors_are_one_line_and_hints_are_apart() {
    let files = Files::new(Some("[sandbox]\nenable = true\nx = 1\n"), None);
    let error = files.load().unwrap_err();
    let text = error.to_string();
    assert!(
        text.ends_with(
            "line 2: unknown key `sandbox.enable`, the nearest known one is `enabled` (and 1 more)"
        ),
        "{text}"
    );
    assert!(!text.contains('\n'));
    assert!(error.hint().unwrap().contains("config check"));
    let default = RateLimitConfig::default();
    assert_eq!(files.host.home().map(SandboxConfig::new).unwrap().rate_limit, default);
}

/// On a thread with a usual stack: a text of the largest size must not exhaust it.
#[test]
fn deep_nesting_is_an_error_and_no_crash() {
    let size = WORKSPACE_LIMIT as usize;
    for text in [
        format!("a = {}", "[".repeat(size - 8)),
        format!("a = {}", "{a=".repeat(size / 3 - 8)),
        format!("{}a = 1", "a.".repeat(size / 2 - 8)),
        format!("[{}a]\n", "a.".repeat(size / 2 - 8)),
        format!("[[{}a]]\n", "a.".repeat(size / 2 - 8)),
        "[a]\n".repeat(size / 4),
    ] {
        let files = Files::new(None, Some(&text));
        assert!(matches!(files.load(), Err(ConfigError::Invalid { .. })), "{:.20}", text);
    }
}

/// Every TOML block of the guide is a configuration that this version accepts.
#[test]
fn the_guides_examples_are_valid() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide");
    let mut blocks = 0;
    for page in ["configuration.md", "profiles.md"] {
        let text = fs::read_to_string(guide.join(page)).unwrap();
        for block in text.split("```toml\n").skip(1) {
            let block = block.split("```").next().unwrap();
            assert_eq!(check(block), Ok(()), "{page}:\n{block}");
            blocks += 1;
        }
    }
    assert!(blocks >= 2);
}

#[test]
fn the_command_policy_is_configured_and_a_workspace_may_only_tighten_it() {
    use ringfence_policy::command_policy::Enforcement;

    let user = "[sandbox.command_policy]\nenforcement = 'warn'\nuse_default_rules = false\n\
                custom_rules = [{ name = 'a', regex = '(' }, { name = 'b', regex = 'b', action = 'warn' }]";
    let stricter = "[sandbox.command_policy]\nenforcement = 'block'\nuse_default_rules = true\n\
                    custom_rules = [{ name = 'c', regex = 'c' }]";
    let policy = Files::new(Some(user), Some(stricter)).load().unwrap().config.command_policy;
    assert_eq!((policy.enforcement, policy.use_default_rules), (Enforcement::Block, true));
    // A broken expression is no error here: it is named at the start, and the others stay in force.
    let names: Vec<_> = policy.custom_rules.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);

    let looser = "[sandbox.command_policy]\nenabled = false\nenforcement = 'off'\nuse_default_rules = false";
    assert_eq!(Files::new(None, Some(looser)).problems().len(), 3);
    assert_eq!(
        problems("[sandbox.command_policy]\nenforcment = 'off'\ncustom_rules = [{ regexp = 'x' }]"),
        [
            "line 2: unknown key `sandbox.command_policy.enforcment`, the nearest known one is `enforcement`",
            "line 3: unknown key `sandbox.command_policy.custom_rules[0].regexp`, the nearest known one is `regex`",
        ]
    );
}
