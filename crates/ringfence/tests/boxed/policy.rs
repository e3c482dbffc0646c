//! Presets, secrets, caches, denials.

use std::fs;
use std::os::unix::fs::symlink;

use ringfence::{DenialKind, DenialSource, LayerName, LayerStatus, Mode, SandboxError, Stdin};

use super::{Test, World, runtime, text};

pub(super) const TESTS: &[Test] = &[
    ("strict_has_a_private_home_and_no_processes", strict),
    ("every_layer_that_was_asked_for_is_enforced", layers),
    ("workspace_write_writes_the_workspace_and_nothing_else", workspace_write),
    ("read_only_writes_nothing", read_only),
    ("secrets_are_denied", secrets),
    ("a_cache_keeps_what_the_box_writes_to_itself", cache),
    ("a_session_shares_its_temp", session_temp),
    ("programs_that_cannot_run_are_told_apart", no_program),
    ("input_and_output_flow_at_once", input),
];

fn strict() {
    let world = World::furnished(Mode::Strict, &[], |dir| fs::write(dir.join("home/secret"), "x").unwrap());
    let output =
        world.script("cat < ~/secret; echo kept > ~/mine; read line < ~/mine; echo $line; /bin/true");
    assert!(text(&output.stdout).starts_with("kept"), "{output:?}");
    assert_ne!(output.exit_code, Some(0), "no process may be started");
    assert!(!world.home("mine").exists());
}

fn layers() {
    let world = World::new(Mode::WorkspaceWrite, &[]);
    let output = world.script("true");
    assert_eq!(output.backend, "linux/native");
    for name in
        [LayerName::UserNs, LayerName::MountNs, LayerName::PidNs, LayerName::NetNs, LayerName::Seccomp]
    {
        assert_eq!(output.layers.get(name).unwrap().status, LayerStatus::Enforced, "{name}");
    }
}

fn workspace_write() {
    let world =
        World::furnished(Mode::WorkspaceWrite, &[], |dir| fs::write(dir.join("home/note"), "n").unwrap());
    let output = world.script("cat ~/note; echo in > made; echo out > ~/made");
    assert_eq!(text(&output.stdout), "n");
    assert_eq!(fs::read_to_string(world.work("made")).unwrap(), "in\n");
    assert!(!world.home("made").exists());
    let guess = output.denials.iter().find(|denial| denial.source == DenialSource::Stderr).unwrap();
    assert_eq!((guess.kind, guess.certain), (DenialKind::Write, false));
    assert_eq!(guess.target, world.home("made").to_str().unwrap());
    let flag = format!("--write {}", world.home("").to_str().unwrap().trim_end_matches('/'));
    assert_eq!(guess.allow_with.as_deref(), Some(flag.as_str()));
}

fn read_only() {
    let world = World::new(Mode::ReadOnly, &[]);
    let output = world.script("echo x > made || echo x > /tmp/made && cat /tmp/made");
    assert_eq!(text(&output.stdout), "x\n");
    assert!(!world.work("made").exists());
}

fn secrets() {
    let world = World::furnished(Mode::WorkspaceWrite, &[], |dir| {
        fs::create_dir(dir.join("home/.ssh")).unwrap();
        fs::write(dir.join("home/.ssh/id"), "key").unwrap();
        fs::write(dir.join("home/.npmrc"), "//r/:_authToken=t").unwrap();
        fs::write(dir.join("home/.yarnrc"), "registry x").unwrap();
        // Neither leads anywhere, and neither may keep a command from running.
        symlink("nowhere", dir.join("home/.aws")).unwrap();
        symlink(".kube", dir.join("home/.kube")).unwrap();
        fs::create_dir(dir.join("home/keys")).unwrap();
        fs::write(dir.join("home/keys/k"), "key").unwrap();
        symlink("keys", dir.join("home/.gnupg")).unwrap();
    });
    let output = world.script("cat ~/.ssh/id ~/.npmrc ~/.gnupg/k ~/keys/k; ls ~/.ssh; cat ~/.yarnrc");
    assert_eq!(text(&output.stdout), "registry x");
    let output = world.script("chmod 700 ~/.ssh; mv ~/.ssh ~/moved; cat ~/moved/id ~/.ssh/id");
    assert_eq!(text(&output.stdout), "");
}

fn cache() {
    let world = World::furnished(Mode::WorkspaceWrite, &["rust"], |dir| {
        fs::create_dir_all(dir.join("home/.cargo/registry")).unwrap();
        fs::create_dir_all(dir.join("home/.cargo/bin")).unwrap();
        fs::write(dir.join("home/.cargo/registry/crate"), "host's").unwrap();
    });
    let output = world.script(
        "cd ~/.cargo/registry && cat crate && echo changed > crate && echo new > new; \
         echo x > ../bin/tool; echo x > ../config.toml",
    );
    assert_eq!(text(&output.stdout), "host's");
    assert_eq!(fs::read_to_string(world.home(".cargo/registry/crate")).unwrap(), "host's");
    for path in [".cargo/registry/new", ".cargo/bin/tool", ".cargo/config.toml"] {
        assert!(!world.home(path).exists(), "{path}");
    }
    let output = world.script("cat ~/.cargo/registry/crate ~/.cargo/registry/new");
    assert_eq!(text(&output.stdout), "changed\nnew\n", "the next run sees what this one wrote");
}

fn session_temp() {
    let world = World::new(Mode::WorkspaceWrite, &[]);
    world.script("echo shared > $TMPDIR/file");
    assert_eq!(text(&world.script("cat /tmp/file").stdout), "shared\n");
    assert!(!std::path::Path::new("/tmp/file").exists());
}

fn no_program() {
    let world = World::new(Mode::WorkspaceWrite, &[]);
    fs::write(world.work("data"), "").unwrap();
    let run = |program: &str| runtime().block_on(world.execute(world.command(program, &[]))).unwrap_err();
    let absent = run("no-such-program");
    assert!(matches!(absent, SandboxError::NotFound(_)) && absent.exit_code() == 127, "{absent:?}");
    let data = run("./data");
    assert!(matches!(data, SandboxError::NotExecutable(_)) && data.exit_code() == 126, "{data:?}");
}

fn input() {
    let world = World::new(Mode::WorkspaceWrite, &[]);
    let mut command = world.command("cat", &[]);
    let sent: Vec<u8> = (0..400_000_u32).flat_map(u32::to_le_bytes).collect();
    command.stdin = Stdin::Bytes(sent.clone());
    let output = runtime().block_on(world.execute(command)).unwrap();
    assert_eq!(output.exit_code, Some(0));
    assert!(output.truncated);
    // The cut is marked in the text, which counts as output.
    let accounted = output.stdout.len() as u64 + output.dropped_stdout;
    let sent = sent.len() as u64;
    assert!((sent..sent + 200).contains(&accounted), "{accounted} of {sent}");
}
