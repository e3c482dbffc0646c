use insta::assert_snapshot;
use ringfence_plan::linux::seccomp::SocketGate;
use ringfence_plan::linux::{
    Groundwork, HostRules, MountOp, NetworkPlan, PRIVATE, RootEntry, UsualView, linux,
};
use ringfence_plan::{LinuxFacts, ProfileError};
use ringfence_types::{
    CacheMount, HostPattern, Linux, Network, Owner, PathKind, Protected, ProxySettings, ResolvedPolicy,
};

use crate::fixture::{WORKSPACE, dir, facts, file, mounts, path, plan, strict, workspace_write};

#[test]
fn strict_shows_the_system_and_the_workspace() {
    assert_snapshot!(mounts(&plan(&strict())));
}

#[test]
fn workspace_write_shows_the_disk_without_secrets() {
    let mut policy = workspace_write();
    policy.deny = vec![dir("/home/u/.ssh"), file("/etc/shadow"), path("/home/u/.aws", PathKind::Missing)];
    policy.protected = Protected {
        read_only: vec![dir("/home/u/project/sub/.git/hooks"), file("/home/u/project/sub/.git/config")],
        pins: vec![dir("/home/u/project/sub/.git")],
        incomplete: None,
    };
    policy.caches = vec![CacheMount {
        at: dir("/home/u/.cargo/registry"),
        upper: "/state/u".into(),
        work: "/state/w".into(),
        env: None,
    }];
    let plan = plan(&policy);
    assert_snapshot!(mounts(&plan));
    let approved = |op: &MountOp| matches!(op, MountOp::Overlay { id, .. } if *id == policy.caches[0].at.id);
    assert!(plan.mounts.iter().any(approved), "what lies below a layer is what was approved");
}

#[test]
fn full_access_keeps_the_host_and_its_denials() {
    let mut policy = workspace_write();
    policy.write = vec![dir("/")];
    policy.network = Network::AllowAll;
    policy.deny = vec![dir("/home/u/.ringfence")];
    assert_snapshot!(mounts(&plan(&policy)));
}

#[test]
fn the_deepest_rule_decides() {
    let mut policy = workspace_write();
    policy.deny = vec![dir("/home/u/project/private")];
    policy.read = vec![dir("/"), dir("/home/u/project/private/docs")];
    policy.write = vec![dir("/home/u/project/private/docs/out")];
    assert_snapshot!(mounts(&plan(&policy)));
}

#[test]
fn a_workspace_below_tmp_is_there() {
    let mut policy = workspace_write();
    policy.workspace = dir("/tmp/a/b");
    policy.cwd = dir("/tmp/a/b");
    policy.host_tmpdir = Some("/var/folders/x".into());
    let plan = plan(&policy);
    let text = mounts(&plan);
    let at = |needle: &str| text.find(needle).unwrap_or_else(|| panic!("{needle} in\n{text}"));
    assert!(at("tmpfs at=\"/tmp\"") < at("directory at=\"/tmp/a\""));
    assert!(at("directory at=\"/tmp/a\"") < at("directory at=\"/tmp/a/b\""));
    assert!(at("directory at=\"/tmp/a/b\"") < at("bind access=\"read_write\" at=\"/tmp/a/b\""));
    assert!(text.contains("tmpfs at=\"/var/folders/x\""));
}

#[test]
fn a_temp_directory_in_the_workspace_hides_no_denial() {
    let mut policy = workspace_write();
    policy.host_tmpdir = Some(format!("{WORKSPACE}/tmp").into());
    policy.deny = vec![dir("/home/u/project/tmp/secret")];
    let text = mounts(&plan(&policy));
    assert!(text.contains("mask at=\"/home/u/project/tmp/secret\" directory=true"), "{text}");
    assert!(text.contains("pin at=\"/home/u/project/tmp\""), "{text}");
}

#[test]
fn listening_sockets_are_covered_unless_granted() {
    let mut facts = facts();
    facts.sockets = vec!["/home/u/agent".into(), "/run/docker.sock".into(), "/srv/db/socket".into()];
    let mut policy = workspace_write();
    policy.unix_sockets =
        vec![path("/run/docker.sock", PathKind::Special), path("/srv/db/socket", PathKind::Special)];
    let text = mounts(&linux(&policy, &facts).unwrap());
    assert!(text.contains("mask at=\"/home/u/agent\""), "{text}");
    assert!(!text.contains("mask at=\"/srv/db/socket\""), "{text}");
    assert!(text.contains("mount_point at=\"/run/docker.sock\"\nbind"), "{text}");
}

/// On NixOS that is where all programs are.
#[test]
fn a_system_root_below_run_is_not_hidden_by_the_private_one() {
    let mut facts = facts();
    let path: std::path::PathBuf = "/run/current-system/sw".into();
    let target: std::path::PathBuf = "/nix/store/x-system-path".into();
    let symlink = "symlink at=\"/run/current-system/sw\" target=\"/nix/store/x-system-path\"";
    let bind = "bind access=\"read_only\" at=\"/run/current-system/sw\" from=\"/run/current-system/sw\"";
    for (entry, line) in
        [(RootEntry::Symlink { path: path.clone(), target }, symlink), (RootEntry::Directory(path), bind)]
    {
        facts.system.push(entry);
        for policy in [strict(), workspace_write()] {
            let text = mounts(&linux(&policy, &facts).unwrap());
            let at = |needle: &str| text.find(needle).unwrap_or_else(|| panic!("{needle} in\n{text}"));
            assert!(at("tmpfs at=\"/run\"") < at("directory at=\"/run/current-system\""), "{text}");
            assert!(at("directory at=\"/run/current-system\"") < at(line), "{text}");
        }
        // Where the host's own shows, nothing is to be made.
        let without_run = LinuxFacts { present: vec!["/tmp".into()], ..facts.clone() };
        assert!(!mounts(&linux(&workspace_write(), &without_run).unwrap()).contains("current-system"));
        facts.system.pop();
    }
}

/// A denial holds whatever the network needs.
#[test]
fn network_files_open_no_denial() {
    let hosts = vec!["a.com".parse().unwrap()];
    for network in [Network::AllowAll, Network::AllowHosts { hosts }] {
        for denied in [file("/run/systemd/resolve/stub-resolv.conf"), dir("/run/systemd"), dir("/etc")] {
            for base in [strict(), workspace_write()] {
                let policy = ResolvedPolicy { network: network.clone(), deny: vec![denied.clone()], ..base };
                let plan = plan(&policy);
                let opened = |op: &MountOp| match op {
                    MountOp::Bind { at, .. } | MountOp::Cover { at, .. } | MountOp::MountPoint { at } => {
                        at.starts_with(&denied.path.as_path().into())
                    }
                    _ => false,
                };
                let system = |op: &&MountOp| matches!(op, MountOp::Bind { at, .. } if at == &"/etc".into());
                let opens: Vec<_> = plan.mounts.iter().filter(|op| opened(op) && !system(op)).collect();
                assert!(opens.is_empty(), "{opens:?} though {denied:?} is denied");
            }
        }
    }
}

#[test]
fn the_environment_is_an_allowlist() {
    let plan = plan(&workspace_write());
    let names = |list: &[(ringfence_types::UnixPath, ringfence_types::UnixPath)]| {
        list.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
    };
    assert_eq!(names(&plan.env_host), ["PATH=/usr/bin", "HOME=/home/u", "LC_ALL=C", "TMPDIR=/tmp"]);
    assert_eq!(names(&plan.env_forced), ["RINGFENCE_SANDBOX=native", "RINGFENCE_NETWORK_DISABLED=1"]);
    let set = plan.environment(&[("TMPDIR".into(), "/x".into()), ("RINGFENCE_SANDBOX".into(), "no".into())]);
    let set: Vec<String> = set.iter().map(ToString::to_string).collect();
    assert!(
        set.contains(&"TMPDIR=/x".to_owned()) && set.contains(&"RINGFENCE_SANDBOX=native".to_owned()),
        "{set:?}"
    );
}

#[test]
fn root_becomes_the_owner_of_the_workspace() {
    let mut facts = facts();
    facts.uid = 0;
    facts.gid = 0;
    let plan = linux(&workspace_write(), &facts).unwrap();
    assert_eq!((plan.identity.uid, plan.identity.gid, plan.identity.switch), (1000, 1000, true));
    let mut policy = workspace_write();
    policy.workspace_owner = Some(Owner { uid: 999, gid: 0 });
    let identity = linux(&policy, &facts).unwrap().identity;
    assert_eq!(
        (identity.uid, identity.gid),
        (999, 65534),
        "neither root's group nor whosever has number 999"
    );
    policy.workspace_owner = Some(Owner { uid: 0, gid: 0 });
    let plan = linux(&policy, &facts).unwrap();
    assert_eq!((plan.identity.uid, plan.identity.switch), (0, false));
    assert!(plan.env_host.iter().any(|(name, _)| name.to_string() == "TAR_OPTIONS"));
}

#[test]
fn what_cannot_be_kept_is_an_error() {
    let mut policy = workspace_write();
    policy.write = vec![path("/srv/missing", PathKind::Missing)];
    assert_eq!(linux(&policy, &facts()), Err(ProfileError::MissingGrant("/srv/missing".into())));
    let mut policy = strict();
    policy.deny = vec![dir(WORKSPACE)];
    assert_eq!(linux(&policy, &facts()), Err(ProfileError::CwdHidden(WORKSPACE.into())));
    for own in ["/tmp", "/run", "/proc/1", "/dev/null", "/"] {
        let policy = ResolvedPolicy { deny: vec![dir(own)], ..strict() };
        assert!(matches!(linux(&policy, &facts()), Err(ProfileError::Unsupported { .. })), "{own}");
    }
    let full = ResolvedPolicy { write: vec![dir("/")], deny: vec![dir("/")], ..workspace_write() };
    assert!(matches!(linux(&full, &facts()), Err(ProfileError::Unsupported { .. })));
    let all = ResolvedPolicy { network: Network::AllowAll, ..strict() };
    for policy in [
        ResolvedPolicy { deny_hosts: vec!["a.com".parse().unwrap()], ..all.clone() },
        ResolvedPolicy { loopback_ports: vec![1], ..all.clone() },
        ResolvedPolicy { publish: vec!["1:1".parse().unwrap()], ..all.clone() },
        ResolvedPolicy { max_memory_mb: Some(1), ..strict() },
        ResolvedPolicy { max_processes: Some(1), ..strict() },
    ] {
        assert!(matches!(linux(&policy, &facts()), Err(ProfileError::Unsupported { .. })));
    }
}

#[test]
fn a_network_by_host_has_a_proxy_and_its_own_resolver() {
    let host: HostPattern = "a.com".parse().unwrap();
    let plan =
        plan(&ResolvedPolicy { network: Network::AllowHosts { hosts: vec![host.clone()] }, ..strict() });
    assert!(plan.own_network);
    assert_eq!(plan.socket_gate, SocketGate::ProxyRouted);
    let rules = HostRules { public: false, allow: vec![host], deny: Vec::new(), internal: Vec::new() };
    let expected = NetworkPlan {
        hosts: Some(rules),
        loopback_ports: Vec::new(),
        publish: Vec::new(),
        proxy: ProxySettings::default(),
    };
    assert_eq!(plan.network, Some(expected));
    let forced = |name: &str| plan.env_forced.iter().find(|(known, _)| known.to_string() == name);
    for name in ["HTTPS_PROXY", "http_proxy", "npm_config_proxy", "PIP_PROXY", "CARGO_HTTP_PROXY"] {
        assert_eq!(forced(name).unwrap().1.to_string(), "http://127.0.0.1:808", "{name}");
    }
    assert!(forced("RINGFENCE_NETWORK_DISABLED").is_none());
    let text = mounts(&plan);
    for file in ["/run/systemd/resolve/stub-resolv.conf", "/etc/nsswitch.conf", "/etc/hosts"] {
        assert!(text.contains(&format!("cover at=\"{file}\"")), "{file}: {text}");
    }

    let none = self::plan(&strict());
    assert_eq!((none.network, none.socket_gate), (None, SocketGate::UnixOnly));
    assert!(none.env_forced.iter().all(|(name, _)| !name.to_string().ends_with("_PROXY")));
}

#[test]
fn a_host_without_merged_usr_is_shown_as_it_is() {
    let mut facts = facts();
    facts.system = vec![RootEntry::Directory("/bin".into()), RootEntry::Directory("/usr".into())];
    let text = mounts(&linux(&strict(), &facts).unwrap());
    assert!(text.contains("bind access=\"read_only\" at=\"/bin\" from=\"/bin\""), "{text}");
}

#[test]
fn a_missing_cache_moves_by_its_variable() {
    let mut policy = workspace_write();
    policy.caches = vec![CacheMount {
        at: path("/home/u/.npm", PathKind::Missing),
        upper: "/state/u".into(),
        work: "/state/w".into(),
        env: Some("npm_config_cache".into()),
    }];
    let plan = plan(&policy);
    assert!(plan.env_host.iter().any(|(name, value)| {
        name.to_string() == "npm_config_cache" && value.to_string() == "/tmp/.ringfence-cache/.npm"
    }));
}

#[test]
fn a_usual_plan_goes_on_from_the_groundwork() {
    let disk = || UsualView::Disk { private: PRIVATE.map(|(path, _)| path).into() };
    let plans = [(disk(), plan(&workspace_write())), (UsualView::System, plan(&strict()))];
    for (view, plan) in &plans {
        let linux = Linux::default();
        let owner = Some(Owner { uid: 1000, gid: 1000 });
        let usual = Groundwork::usual(view, &linux, 1000, 1000, owner);
        assert!(usual.carries(plan), "{view:?}");
        assert!(usual.mounts.iter().any(|op| matches!(op, MountOp::Proc { .. })));
        assert!(Groundwork::of(plan).carries(plan));

        let as_root = Groundwork::usual(view, &linux, 0, 0, owner);
        assert!(!as_root.carries(plan), "another identity");
        let small = Linux { tmp_size: 1 << 20, ..linux.clone() };
        assert!(!Groundwork::usual(view, &small, 1000, 1000, owner).carries(plan), "another size");
        let nests = Linux { nested_userns: true, ..linux };
        assert!(!Groundwork::usual(view, &nests, 1000, 1000, owner).carries(plan), "nesting");
        assert!(!Groundwork { own_network: false, ..usual }.carries(plan), "another network");
    }
    let is_private = |op: &&MountOp| matches!(op, MountOp::Tmpfs { at, .. } if at == &"/tmp".into() || at == &"/run".into());
    let usual = Groundwork::usual(&disk(), &Linux::default(), 1000, 1000, None);
    assert_eq!(usual.mounts.iter().filter(is_private).count(), 2);
    let [(_, disk), (_, system)] = &plans;
    assert!(!usual.carries(system));
    assert!(!Groundwork::usual(&UsualView::System, &Linux::default(), 1000, 1000, None).carries(disk));
}
