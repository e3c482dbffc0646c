use std::fs;

use ringfence_types::{SandboxCapabilities, WorkspaceAccess};

use super::*;
use crate::config::{Profile, Sources};

/// A home with a secret, and a workspace.
struct World {
    dir: tempfile::TempDir,
    host: HostEnv,
    config: SandboxConfig,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        fs::create_dir_all(home.join(".ssh")).unwrap();
        fs::create_dir(dir.path().join("work")).unwrap();
        let host = host(&home, &[("CI", "yes"), ("SECRET", "s")]);
        Self { config: SandboxConfig::new(home.join(".ringfence")), host, dir }
    }

    fn home(&self, path: &str) -> PathBuf {
        self.dir.path().join("home").join(path)
    }

    fn work(&self, path: &str) -> PathBuf {
        self.dir.path().join("work").join(path)
    }

    fn resolve(&self, options: &RunOptions) -> SessionSettings {
        SessionSettings::resolve(&self.config, &self.host, &self.work(""), options).unwrap()
    }

    fn mode(&self, mode: Mode) -> SessionSettings {
        self.resolve(&RunOptions { mode: Some(mode), ..RunOptions::default() })
    }
}

fn host(home: &Path, vars: &[(&str, &str)]) -> HostEnv {
    let mut all = vec![(OsString::from("HOME"), home.as_os_str().to_owned())];
    all.extend(vars.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))));
    HostEnv::new(all, 1000, PathBuf::from("/nonexistent"))
}

fn named(profile: &str) -> Vec<ProfileChoice> {
    vec![profile.parse().unwrap()]
}

#[test]
fn presets_are_the_documented_capabilities() {
    let world = World::new();
    let root = [PathBuf::from("/")];
    for mode in Mode::ALL {
        let settings = world.mode(mode);
        let base: &SandboxCapabilities = &settings.policy.baseline;
        assert_eq!(base.fs_read == root, matches!(mode, Mode::ReadOnly | Mode::WorkspaceWrite), "{mode}");
        assert_eq!(base.fs_write == root, mode == Mode::FullAccess, "{mode}");
        assert_eq!(base.loopback && base.spawn_subprocess, mode != Mode::Strict, "{mode}");
        assert_eq!(base.fs_deny.contains(&world.home(".ssh")), mode != Mode::FullAccess, "{mode}");
        let write = if mode == Mode::ReadOnly { WorkspaceAccess::Read } else { WorkspaceAccess::Write };
        assert_eq!(base.workspace, write, "{mode}");
        assert_eq!(base.network, NetworkPolicy::None, "{mode}");
        let private = (mode == Mode::Strict).then(|| world.host.home().unwrap());
        assert_eq!(settings.policy.private_home, private, "{mode}");
    }
}

#[test]
fn what_the_caller_names_is_added() {
    let world = World::new();
    let options = RunOptions {
        default_mode: Mode::WorkspaceWrite,
        read: vec!["data".into(), "/r".into()],
        write: vec!["/w".into()],
        deny: vec!["keys".into()],
        unix_sockets: vec!["/run/x.sock".into()],
        devices: vec!["kvm".into()],
        network: Some(NetworkPolicy::AllowAll),
        no_spawn: true,
        env: ["A=1", "CI", "ABSENT", "B="].map(OsString::from).to_vec(),
        force_root: true,
        ..RunOptions::default()
    };
    let settings = world.resolve(&options);
    let base = &settings.policy.baseline;
    assert_eq!(settings.mode, Mode::WorkspaceWrite);
    assert!(base.fs_read.contains(&world.work("data")) && base.fs_read.contains(&"/r".into()));
    assert_eq!(base.fs_write, [PathBuf::from("/w")]);
    assert!(base.fs_deny.contains(&world.work("keys")));
    assert_eq!((base.unix_sockets.len(), base.devices.len()), (1, 1));
    assert_eq!(base.network, NetworkPolicy::AllowAll);
    assert!(!base.spawn_subprocess && base.loopback && settings.policy.force_root);
    let pair = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
    assert_eq!(settings.env, [pair("A", "1"), pair("CI", "yes"), pair("B", "")]);
}

#[test]
fn only_a_person_lifts_the_denial_of_a_secret_and_only_by_its_name() {
    let world = World::new();
    let ssh = world.home(".ssh");
    let denied = |read: &Path| {
        let options = RunOptions {
            default_mode: Mode::WorkspaceWrite,
            read: vec![read.to_path_buf()],
            ..RunOptions::default()
        };
        world.resolve(&options).policy.baseline.fs_deny.contains(&ssh)
    };
    assert!(!denied(&ssh));
    assert!(denied(&world.home("")), "a directory above it is not its name");

    fs::write(world.home(".npmrc"), "//r/:_authToken=x").unwrap();
    let options = RunOptions { profiles: named("node"), ..RunOptions::default() };
    let settings = world.resolve(&options);
    assert!(settings.policy.baseline.fs_read.contains(&world.home(".npmrc")));
    assert!(
        settings.policy.baseline.fs_deny.contains(&world.home(".npmrc")),
        "a built-in profile lifts none"
    );
}

#[test]
fn secrets_that_could_not_be_looked_for_are_told() {
    let world = World::new();
    assert!(world.mode(Mode::WorkspaceWrite).policy.deny_incomplete.is_empty());
    for number in 0..=256 {
        fs::create_dir_all(world.home(&format!(".config/opera{number}"))).unwrap();
    }
    let told = |mode| world.mode(mode).policy.deny_incomplete;
    assert_eq!(told(Mode::WorkspaceWrite), [PathBuf::from("~/.config/opera*")]);
    assert!(told(Mode::FullAccess).is_empty(), "which hides none");
}

#[test]
fn the_callers_limit_of_time_beats_that_of_a_profile() {
    let mut world = World::new();
    let profile = Profile { timeout: Some(Duration::from_secs(7)), ..Profile::default() };
    world.config.profiles = [("slow".into(), profile)].into();
    let mut options = RunOptions { profiles: named("slow"), ..RunOptions::default() };
    for (own, expected) in
        [(None, 7), (Some(Duration::from_millis(8500)), 9), (Some(Duration::from_secs(2)), 2)]
    {
        options.timeout = own;
        assert_eq!(world.resolve(&options).policy.baseline.timeout_secs, Some(expected), "{own:?}");
    }
}

#[test]
fn profiles_extend_each_other_and_their_mode_gives_way_to_the_callers() {
    let mut world = World::new();
    let base = Profile {
        mode: Some(Mode::ReadOnly),
        read: vec!["~/shared".into(), "sub".into()],
        env: vec!["X=1".into(), "CI".into()],
        ..Profile::default()
    };
    let top = Profile {
        extends: vec!["base".into(), "git".into()],
        mode: Some(Mode::WorkspaceWrite),
        write: vec!["~/scratch".into()],
        timeout: Some(std::time::Duration::from_secs(7)),
        ..Profile::default()
    };
    world.config.profiles = [("base".into(), base), ("top".into(), top)].into();
    let options = RunOptions { profiles: named("top"), ..RunOptions::default() };
    let settings = world.resolve(&options);
    assert_eq!(settings.profiles, ["base", "git", "top"]);
    assert_eq!(settings.mode, Mode::WorkspaceWrite);
    let base = &settings.policy.baseline;
    assert!(base.fs_read.contains(&world.home("shared")) && base.fs_read.contains(&world.work("sub")));
    assert_eq!(base.fs_write, [world.home("scratch")]);
    assert_eq!(base.timeout_secs, Some(7));
    assert_eq!(settings.env.len(), 2);
    let options = RunOptions { mode: Some(Mode::Strict), ..options };
    assert_eq!(world.resolve(&options).mode, Mode::Strict);
}

#[test]
fn profiles_that_make_no_sense_are_errors() {
    let mut world = World::new();
    let extends = |names: &[&str]| Profile {
        extends: names.iter().map(|name| (*name).to_owned()).collect(),
        ..Profile::default()
    };
    let mode = |mode| Profile { mode: Some(mode), ..Profile::default() };
    world.config.profiles = [
        ("a".to_owned(), extends(&["b"])),
        ("b".to_owned(), extends(&["c"])),
        ("c".to_owned(), extends(&["b"])),
        ("own".to_owned(), extends(&["own"])),
        ("lost".to_owned(), extends(&["rst"])),
        ("ro".to_owned(), mode(Mode::ReadOnly)),
        ("ww".to_owned(), mode(Mode::WorkspaceWrite)),
    ]
    .into();
    let error = |names: &[&str]| {
        let profiles = names.iter().map(|name| name.parse().unwrap()).collect();
        let options = RunOptions { profiles, ..RunOptions::default() };
        SessionSettings::resolve(&world.config, &world.host, &world.work(""), &options).unwrap_err()
    };
    assert_eq!(error(&["a"]).to_string(), "profile `b` extends itself: b -> c -> b");
    assert_eq!(error(&["own"]).to_string(), "profile `own` extends itself: own -> own");
    let unknown = error(&["lost"]);
    assert!(unknown.to_string().starts_with("unknown profile `rst`, expected one of "), "{unknown}");
    assert_eq!(unknown.hint().unwrap(), "did you mean `rust`?");
    assert!(error(&["ro", "ww"]).to_string().contains("name different modes: read-only and workspace-write"));
}

#[test]
fn auto_follows_the_workspace_and_none_beats_it() {
    let world = World::new();
    fs::write(world.work("go.mod"), "").unwrap();
    let profiles = |choices: &[&str]| {
        let profiles = choices.iter().map(|choice| choice.parse().unwrap()).collect();
        world.resolve(&RunOptions { profiles, ..RunOptions::default() }).profiles
    };
    assert_eq!(profiles(&["auto"]), ["go"]);
    assert_eq!(profiles(&["auto", "git"]), ["go", "git"]);
    assert_eq!(profiles(&["git", "auto", "git"]), ["git", "go"]);
    assert!(profiles(&["auto", "none"]).is_empty());
    assert!(profiles(&[]).is_empty());
}

#[test]
fn caches_are_where_the_tools_look_for_them() {
    let world = World::new();
    let moved = world.dir.path().join("gocache");
    fs::create_dir(&moved).unwrap();
    let home = world.home("");
    let vars = [("GOCACHE", moved.to_str().unwrap()), ("XDG_CACHE_HOME", "/xdg"), ("GOMODCACHE", "/nowhere")];
    let host = host(&home, &vars);
    let options = RunOptions {
        mode: Some(Mode::WorkspaceWrite),
        profiles: ["go", "python", "java"].map(|name| name.parse().unwrap()).to_vec(),
        ..RunOptions::default()
    };
    let settings = SessionSettings::resolve(&world.config, &host, &world.work(""), &options).unwrap();
    let at = |path: &str| settings.policy.caches.iter().find(|cache| cache.at == Path::new(path));
    assert_eq!(at(moved.to_str().unwrap()).unwrap().env.as_deref(), Some("GOCACHE"));
    assert!(at("/xdg/pip").is_some() && at("/nowhere").is_some());
    assert!(at(home.join(".m2/repository").to_str().unwrap()).is_some());
    // A tool inside must find what is mounted, and must not be led to what is not.
    let passed: Vec<_> = settings.env.iter().map(|(name, _)| name.to_str().unwrap()).collect();
    assert!(passed.contains(&"GOCACHE") && !passed.contains(&"GOMODCACHE"), "{passed:?}");
}

#[test]
fn no_cache_lies_over_what_configures_or_starts_later_builds() {
    let world = World::new();
    let names = profiles::BUILTIN.iter().map(|profile| profile.name.parse().unwrap()).collect();
    let options = RunOptions { mode: Some(Mode::WorkspaceWrite), profiles: names, ..RunOptions::default() };
    let caches = world.resolve(&options).policy.caches;
    assert!(caches.len() > 20);
    for path in [
        ".cargo/bin",
        ".cargo/config.toml",
        ".cargo/env",
        ".rustup",
        ".gradle/init.d",
        ".gradle/gradle.properties",
        ".m2/settings.xml",
        ".npmrc",
        ".yarnrc.yml",
        ".local/bin",
        ".config/pip/pip.conf",
        "go/bin",
        ".bun/bin",
        ".ssh",
        ".gitconfig",
        ".cache",
        ".config",
    ] {
        let path = world.home(path);
        let over = caches.iter().find(|cache| path.starts_with(&cache.at));
        assert_eq!(over, None, "{}", path.display());
    }
}

#[test]
fn a_workspaces_denials_reach_the_session() {
    let world = World::new();
    fs::write(world.work(".ringfence.toml"), "[profile.git]\ndeny = [\"keys\"]\n").unwrap();
    fs::create_dir(world.work(".git")).unwrap();
    let config =
        Sources { host: &world.host, file: None, workspace: Some(&world.work("")) }.load().unwrap().config;
    let options = RunOptions { profiles: named("auto"), ..RunOptions::default() };
    let settings = SessionSettings::resolve(&config, &world.host, &world.work(""), &options).unwrap();
    assert!(settings.policy.baseline.fs_deny.contains(&world.work("keys")));
}

/// A file that a box can create must not open the network of the next run.
#[test]
fn only_a_profile_that_was_named_brings_package_hosts() {
    let mut world = World::new();
    fs::write(world.home(".npmrc"), "registry=https://mirror.test/\n@own:registry=http://localhost:4873\n")
        .unwrap();
    fs::write(world.work(".npmrc"), "registry=https://project.test/\n").unwrap();
    fs::write(world.work("package.json"), "{}").unwrap();
    let own = Profile { extends: vec!["node".into()], ..Profile::default() };
    world.config.profiles.insert("web".into(), own);
    // The test's files belong to whoever runs it.
    let uid = rustix::process::geteuid().as_raw();
    let vars = vec![(OsString::from("HOME"), world.home("").into_os_string())];
    world.host = HostEnv::new(vars, uid, PathBuf::from("/nonexistent"));

    let hosts = |settings: &SessionSettings| settings.policy.baseline.network.clone();
    let mirror = NetworkPolicy::AllowHosts { hosts: vec!["mirror.test:443".into()] };
    for profile in ["node", "web"] {
        let settings = world.resolve(&RunOptions { profiles: named(profile), ..RunOptions::default() });
        assert_eq!(hosts(&settings), mirror, "{profile}");
        assert_eq!(settings.policy.baseline.internal_hosts, ["mirror.test:443"]);
        assert_eq!(settings.policy.baseline.loopback_ports, [4873]);
        assert_eq!(settings.packages.wanted.len(), 1);
    }
    let both = [named("auto"), named("node")].concat();
    assert_eq!(hosts(&world.resolve(&RunOptions { profiles: both, ..RunOptions::default() })), mirror);

    let auto = world.resolve(&RunOptions { profiles: named("auto"), ..RunOptions::default() });
    assert_eq!(auto.profiles, ["node"]);
    let none =
        RunOptions { profiles: named("node"), network: Some(NetworkPolicy::None), ..RunOptions::default() };
    for settings in [auto, world.resolve(&none)] {
        assert_eq!(hosts(&settings), NetworkPolicy::None);
        assert_eq!(settings.packages, Packages::default());
        let baseline = &settings.policy.baseline;
        assert!(baseline.internal_hosts.is_empty() && baseline.loopback_ports.is_empty());
    }

    for (network, allowed) in
        [(None, "project.test"), (Some(NetworkPolicy::Public { hosts: vec![] }), "else.test")]
    {
        let allow_hosts = vec![allowed.parse().unwrap()];
        let options = RunOptions { profiles: named("node"), network, allow_hosts, ..RunOptions::default() };
        assert_eq!(world.resolve(&options).packages.wanted, [], "{allowed}: nothing is left to be said");
    }
}
