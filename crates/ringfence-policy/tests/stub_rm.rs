//! Generated scripts run in a restricted bash in which `rm` only says what it was given; the verdict must agree.
//!
//! A restricted shell runs nothing by a path (bash(1), RESTRICTED SHELL), and its `PATH` holds the stub alone.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use ringfence_policy::command_policy::{CommandPolicy, CommandPolicyConfig, Disposition, Input, Shell};

const STUB: &str = "#!/bin/bash\n{ printf 'rm'; printf '\\t%s' \"$@\"; echo; } >> \"$RM_LOG\"\n";
const SHELL: &str = "#!/bin/bash\nexec /bin/bash -r \"$@\"\n";

/// Flags and operands, and whether `rm` would be told to delete the root directory.
const CALLS: [(&str, bool); 12] = [
    ("-rf /", true),
    ("-r -f /", true),
    ("/ -fr", true),
    ("--recursive --force //", true),
    ("--r --f /.", true),
    ("-rf -- /", true),
    ("-rf x", false),
    ("-f x/y", false),
    ("-rf ./x", false),
    ("-rf -- -x", false),
    ("-rf x/..x", false),
    ("-r ...", false),
];

/// Spellings of the program's name and of a call, most of which run it.
const FORMS: [&str; 34] = [
    "rm @",
    "'rm' @",
    "\"rm\" @",
    "r''m @",
    "r\\m @",
    "r\"\"m @",
    "$'\\x72m' @",
    "x=rm; $x @",
    "x='rm @'; $x",
    "eval 'rm @'",
    "$(echo rm) @",
    "`echo rm` @",
    "(rm @)",
    "{ rm @; }",
    "if :; then rm @; fi",
    "for i in 1; do rm @; done",
    "! rm @",
    "time rm @",
    "A=b rm @",
    "f() { rm @; }; f",
    "f() { rm \"$@\"; }; f @",
    ": && rm @",
    "false || rm @",
    "command rm @",
    "bash -c 'rm @'",
    "sh -c 'eval \"rm @\"'",
    "bash <<'E'\nrm @\nE",
    "bash <<< 'rm @'",
    "printf '%s' 'rm @' | bash",
    "{rm,@}",
    "echo 'rm @'",
    "echo \"rm @\"",
    ": 'rm @'",
    "# rm @",
];

fn run(script: &str, tools: &Path, work: &Path) -> Vec<Vec<String>> {
    let log = work.join("log");
    let _ = fs::remove_file(&log);
    Command::new("/bin/bash")
        .args(["-r", "-c", script])
        .env_clear()
        .env("PATH", tools)
        .env("RM_LOG", &log)
        .current_dir(work)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("bash");
    let text = fs::read_to_string(&log).unwrap_or_default();
    text.lines().map(|line| line.split('\t').skip(1).map(str::to_owned).collect()).collect()
}

/// What GNU rm does with these arguments: options anywhere before `--`.
fn deletes_root(args: &[String]) -> bool {
    let end = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
    let recursive = args[..end].iter().any(|arg| {
        arg.starts_with("--r") || arg.starts_with('-') && !arg.starts_with("--") && arg.contains(['r', 'R'])
    });
    let root = |arg: &String| {
        arg.starts_with('/') && arg.split('/').all(|part| part.is_empty() || part == "." || part == "..")
    };
    recursive && args.iter().enumerate().any(|(at, arg)| (at > end || !arg.starts_with('-')) && root(arg))
}

#[test]
fn the_verdict_agrees_with_what_rm_is_given() {
    if !Path::new("/bin/bash").exists() {
        let must = std::env::var("RINGFENCE_MUST_HAVE").unwrap_or_default();
        let required = must.split(',').any(|entry| entry == "all" || entry == "bash");
        assert!(!required, "RINGFENCE_MUST_HAVE names `bash`, but there is no /bin/bash");
        eprintln!("SKIP: needs bash: no /bin/bash");
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let tools = dir.path().join("tools");
    let work = dir.path().join("work");
    fs::create_dir(&tools).expect("tools");
    fs::create_dir(&work).expect("work");
    for (name, text) in [("rm", STUB), ("bash", SHELL), ("sh", SHELL)] {
        fs::write(tools.join(name), text).expect("a stub");
        fs::set_permissions(tools.join(name), fs::Permissions::from_mode(0o755)).expect("a mode");
    }
    let policy = CommandPolicy::new(&CommandPolicyConfig::default());
    let (mut ran, mut blocked) = (0, 0);
    for form in FORMS {
        for (call, expected) in CALLS {
            let call = if form == "{rm,@}" { call.replace(' ', ",") } else { call.to_owned() };
            let script = form.replace('@', &call);
            let calls = run(&script, &tools, &work);
            let deletes = calls.iter().any(|args| deletes_root(args));
            ran += usize::from(!calls.is_empty());
            assert!(!deletes || expected, "the stub saw something else: {script:?}: {calls:?}");
            let input =
                Input { stdin: Some(script.as_bytes()), shell: Some(Shell::Posix), ..Input::default() };
            let verdict = policy.evaluate(&input).disposition;
            assert_eq!(verdict == Disposition::Block, deletes, "{script:?}: {calls:?}");
            blocked += usize::from(deletes);
        }
    }
    assert!(ran > 300 && blocked > 150, "the stub was called in {ran} scripts, {blocked} deleted the root");
}
