//! What holds for every text: a verdict and no panic, the same twice, and no padding that hides a payload.

use proptest::prelude::*;
use ringfence_policy::command_policy::{
    CommandPolicy, CommandPolicyConfig, CustomAction, CustomRule, Disposition, Enforcement, Input,
    SCAN_LIMIT, Shell,
};

const SHELLS: [Shell; 3] = [Shell::Posix, Shell::Cmd, Shell::PowerShell];

fn policy() -> CommandPolicy {
    CommandPolicy::new(&CommandPolicyConfig::default())
}

fn script(text: &[u8], shell: Shell) -> Input<'_> {
    Input { stdin: Some(text), shell: Some(shell), ..Input::default() }
}

fn judge(text: &[u8], shell: Shell) -> Disposition {
    policy().evaluate(&script(text, shell)).disposition
}

/// Lines of the corpus as seeds.
fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for line in include_str!("data/commands.jsonl").lines() {
        let case: serde_json::Value = serde_json::from_str(line).expect("a line of the corpus");
        let words = case["argv"].as_array().cloned().unwrap_or_default();
        let last = words.last().and_then(|word| word.as_str()).or(case["stdin"].as_str());
        seeds.extend(last.map(|text| text.as_bytes().to_vec()));
    }
    seeds
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_have_a_verdict_and_always_the_same(text in prop::collection::vec(any::<u8>(), 0..400)) {
        for shell in SHELLS {
            let first = policy().evaluate(&script(&text, shell));
            prop_assert_eq!(&first, &policy().evaluate(&script(&text, shell)));
        }
    }

    #[test]
    fn changed_seeds_have_a_verdict(
        at in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 0..8),
        second in any::<prop::sample::Index>(),
    ) {
        let seeds = seeds();
        let mut text = at.get(&seeds).clone();
        for (place, byte, kind) in edits {
            if text.is_empty() { break; }
            let place = place.index(text.len());
            match kind {
                0 => text[place] = byte,
                1 => text.insert(place, byte),
                2 => { text.remove(place); }
                _ => { text.splice(place..place, second.get(&seeds).iter().copied()); }
            }
        }
        for shell in SHELLS {
            judge(&text, shell);
        }
    }

    #[test]
    fn what_stands_on_lines_before_and_after_hides_nothing(before in "[a-z0-9 ./-]{0,80}", after in "[ -~]{0,80}") {
        let text = format!("echo {before}\nrm -rf /\n{after}");
        prop_assert_eq!(judge(text.as_bytes(), Shell::Posix), Disposition::Block);
    }
}

#[test]
fn padding_hides_no_payload() {
    let payload = "\nrm -rf /\n";
    let line = "echo some ordinary line\n";
    let long = line.repeat(SCAN_LIMIT / line.len() - 2);
    for (before, after) in [("", long.as_str()), (long.as_str(), ""), (&long[..100_000], &long[..100_000])] {
        let text = format!("{before}{payload}{after}");
        assert_eq!(judge(text.as_bytes(), Shell::Posix), Disposition::Block);
    }
    // Beyond the limit head and tail are read, and a script that was cut is recorded at least.
    let longer = line.repeat(SCAN_LIMIT * 4 / line.len());
    for text in [format!("{payload}{longer}"), format!("{longer}{payload}")] {
        let verdict = policy().evaluate(&script(text.as_bytes(), Shell::Posix));
        assert_eq!((verdict.disposition, verdict.truncated), (Disposition::Block, true));
    }
    let verdict = policy().evaluate(&script(longer.as_bytes(), Shell::Posix));
    assert_eq!((verdict.disposition, verdict.truncated), (Disposition::Warn, true));
}

#[test]
fn a_text_just_above_the_limit_has_no_gaps() {
    let line = "echo some ordinary line\n";
    for size in [262_200, SCAN_LIMIT - 100, SCAN_LIMIT + 100, SCAN_LIMIT + 2000] {
        for percent in [10, 37, 50, 73, 90] {
            let lines = size / line.len();
            let before = lines * percent / 100;
            let text = format!("{}rm -rf /\n{}", line.repeat(before), line.repeat(lines - before));
            assert_eq!(judge(text.as_bytes(), Shell::Posix), Disposition::Block, "{size} {percent}");
        }
    }
}

#[test]
fn a_program_of_an_interpreter_that_is_too_long_is_recorded() {
    let long = "x = 1\n".repeat(SCAN_LIMIT);
    for name in ["python3", "perl", "node", "bash"] {
        let code = if name == "python3" || name == "bash" { "-c" } else { "-e" };
        let argv: Vec<&[u8]> = vec![name.as_bytes(), code.as_bytes(), long.as_bytes()];
        let verdict = policy().evaluate(&Input { argv, ..Input::default() });
        assert_eq!((verdict.rules(), verdict.truncated), (vec!["not-scanned"], true), "{name}");
        let argv: Vec<&[u8]> = vec![b"cat", long.as_bytes()];
        assert_eq!(policy().evaluate(&Input { argv, ..Input::default() }).disposition, Disposition::Allow);
    }
}

#[test]
fn odd_bytes_hide_nothing() {
    for text in [
        &b"echo \xff\xfe; rm -rf /"[..],
        b"r\0m -rf /",
        b"echo a\r\nrm -rf /\r\n",
        b"\xef\xbb\xbfrm -rf /",
        b"# \xff \\\nrm -rf /",
        b"rm\t-rf\t/",
        b"rm -rf / \xff",
    ] {
        assert_eq!(judge(text, Shell::Posix), Disposition::Block, "{text:?}");
    }
}

#[test]
fn deep_nesting_has_a_verdict() {
    for depth in [1, 10, 100, 900] {
        for (open, close) in
            [("(", ")"), ("{ ", "; }"), ("$(", ")"), ("if true; then ", "; fi"), ("eval ", "")]
        {
            let text = format!("{}rm -rf /{}", open.repeat(depth), close.repeat(depth));
            let found = judge(text.as_bytes(), Shell::Posix);
            assert_eq!(found, Disposition::Block, "{open} {depth}");
        }
    }
    // What lies deeper than the bound on nested texts can't be seen, whatever it is.
    let verdict = policy().evaluate(&script(format!("{}true", "eval ".repeat(900)).as_bytes(), Shell::Posix));
    assert_eq!((verdict.rules(), verdict.disposition), (vec!["too-deep"], Disposition::Block));
    let text = format!("{}rm -rf /", "$( ( { ".repeat(50_000));
    assert_eq!(judge(text.as_bytes(), Shell::Posix), Disposition::Block);
    // Here-documents in here-documents.
    let mut text = String::from("rm -rf /");
    for level in 0..100 {
        text = format!("bash <<'E{level}'\n{text}\nE{level}");
    }
    assert_eq!(judge(text.as_bytes(), Shell::Posix), Disposition::Block);
}

#[test]
fn what_is_not_known_of_the_callers_input_is_recorded() {
    use ringfence_policy::CommandPolicyHook;
    use ringfence_policy::command_policy::executes_stdin;
    use ringfence_types::{SandboxCommand, Stdio};
    let hook = CommandPolicyHook::new(&CommandPolicyConfig::default());
    let judge = |words: &[&str], stdio: Stdio, known: Option<&str>| {
        let mut command = SandboxCommand::new("s", words[0]).args(&words[1..]);
        command.stdio = stdio;
        command.known_stdin = known.map(|text| text.as_bytes().to_vec());
        hook.evaluate(&command).disposition
    };
    for words in [
        &["sh"][..],
        &["bash", "-s", "x"],
        &["python3"],
        &["env", "A=b", "sh"],
        &["pwsh", "-"],
        &["sudo", "-i"],
    ] {
        let argv: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        assert!(executes_stdin(&argv), "{words:?}");
        assert_eq!(judge(words, Stdio::Inherit, None), Disposition::Warn, "{words:?}");
        assert_eq!(judge(words, Stdio::Pty, None), Disposition::Warn, "{words:?}");
        assert_eq!(judge(words, Stdio::Inherit, Some("")), Disposition::Allow, "{words:?}");
        assert_eq!(judge(words, Stdio::Capture, None), Disposition::Allow, "{words:?}");
    }
    assert_eq!(judge(&["sh"], Stdio::Inherit, Some("echo\nrm -rf /\n")), Disposition::Block);
    for words in
        [&["cat"][..], &["sh", "-c", "cat"], &["bash", "x.sh"], &["python3", "x.py"], &["cargo", "test"]]
    {
        let argv: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        assert!(!executes_stdin(&argv), "{words:?}");
        assert_eq!(judge(words, Stdio::Inherit, None), Disposition::Allow, "{words:?}");
    }
}

#[test]
fn many_values_in_many_texts_are_bounded() {
    let values: String = (0..200).map(|at| format!("v{at}={}\n", "x".repeat(500))).collect();
    let text = format!("{values}{}", "a=b; sh -c c\n".repeat(10_000));
    let verdict = policy().evaluate(&script(text.as_bytes(), Shell::Posix));
    assert_eq!(verdict.rules(), ["not-scanned"]);
}

/// On the stack of a thread as programs start them.
fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(test).expect("a thread");
    thread.join().expect("a verdict");
}

#[test]
fn programs_that_call_each_other_without_end_hide_nothing() {
    on_a_small_stack(|| {
        for (unit, end, shell) in [
            ("xargs ", "rm -rf /", Shell::Posix),
            ("find . -exec ", "rm -rf /", Shell::Posix),
            ("find . -execdir ", "rm -rf /", Shell::Posix),
            ("sudo find . -exec ", "rm -rf /", Shell::Posix),
            ("xargs find . -exec ", "rm -rf /", Shell::Posix),
            ("docker run -v /x:/y image ", "rm -rf /", Shell::Posix),
            ("sudo ", "rm -rf /", Shell::Posix),
            ("xargs ", "sh -c 'rm -rf /'", Shell::Posix),
            ("start ", "rd /s /q C:\\", Shell::Cmd),
            ("start \"\" ", "rd /s /q C:\\", Shell::Cmd),
            ("xargs ", "rd /s /q C:\\", Shell::Cmd),
            ("if x==x ", "rd /s /q C:\\", Shell::Cmd),
            ("if exist x ", "rd /s /q C:\\", Shell::Cmd),
            ("start ", "Remove-Item -Recurse C:\\", Shell::PowerShell),
            ("xargs ", "Remove-Item -Recurse C:\\", Shell::PowerShell),
        ] {
            for count in [1, 20, 100, 6000] {
                let text = unit.repeat(count) + end;
                assert_eq!(judge(text.as_bytes(), shell), Disposition::Block, "{unit} {count} {end}");
                let harmless = unit.repeat(count) + "true";
                assert_ne!(judge(harmless.as_bytes(), shell), Disposition::Block, "{unit} {count}");
            }
        }
        for word in ["xargs", "start", "find"] {
            let mut argv = vec![word.as_bytes(); 30_000];
            argv.extend([&b"rm"[..], b"-rf", b"/"]);
            for shell in SHELLS {
                let input = Input { argv: argv.clone(), shell: Some(shell), ..Input::default() };
                policy().evaluate(&input);
            }
        }
        let many = vec![b"xargs".as_slice(); 30_000];
        let verdict = policy().evaluate(&Input { argv: many, ..Input::default() });
        assert_eq!(verdict.rules(), ["not-scanned"]);
    });
}

#[test]
fn parameters_that_call_each_other_hide_nothing() {
    for (unit, count) in
        [("sh -c '\"$@\"' x ", 20), ("sh -c '\"$@\"' x ", 200), ("sudo ", 62), ("nice ", 3000)]
    {
        let text = format!("sh -c '\"$@\"' x {}rm -rf /", unit.repeat(count));
        assert_eq!(judge(text.as_bytes(), Shell::Posix), Disposition::Block, "{unit} {count}");
    }
    for count in [600, 2000] {
        let text = format!("{}rm -rf /", "sh -c '\"$@\"' x ".repeat(count));
        assert_ne!(judge(text.as_bytes(), Shell::Posix), Disposition::Allow, "{count}");
    }
    let names = "name ".repeat(100);
    for text in [
        format!("for d in {names} /; do rm -rf \"$d\"; done"),
        format!("echo {names} / | xargs rm -rf"),
        format!("d=({names} /); rm -rf ${{d[@]}}"),
        format!("f() {{ \"$@\"; }}; {}rm -rf /", "f ".repeat(100)),
    ] {
        assert_eq!(judge(text.as_bytes(), Shell::Posix), Disposition::Block, "{text}");
    }
}

#[test]
fn a_glob_of_many_stars_has_a_verdict() {
    let text = format!("/bin/{}x", "*".repeat(50));
    assert_eq!(judge(text.as_bytes(), Shell::Posix), Disposition::Allow);
    assert_eq!(judge(b"/bin/r? -rf /; /bin/[q-s][!a-l] -rf /", Shell::Posix), Disposition::Block);
}

#[test]
fn a_megabyte_of_arguments_has_a_verdict() {
    let many: Vec<&[u8]> = vec![b"x".as_slice(); 500_000];
    let mut argv: Vec<&[u8]> = vec![b"rm", b"-rf"];
    argv.extend(&many);
    argv.push(b"/");
    let verdict = policy().evaluate(&Input { argv, ..Input::default() });
    assert_eq!(verdict.disposition, Disposition::Block);
    let long = "a ".repeat(500_000) + "; rm -rf /";
    let argv: Vec<&[u8]> = vec![b"sh", b"-c", long.as_bytes()];
    assert_eq!(policy().evaluate(&Input { argv, ..Input::default() }).disposition, Disposition::Block);
}

#[test]
fn variables_of_shells_are_read() {
    for (name, value, expected) in [
        ("PROMPT_COMMAND", "rm -rf /", Disposition::Block),
        ("BASH_ENV", "$(rm -rf /)", Disposition::Block),
        ("BASH_FUNC_ls%%", "() { rm -rf /; }", Disposition::Block),
        ("BASH_FUNC_ls%%", "() { ls -l; }", Disposition::Allow),
        ("MESSAGE", "rm -rf /", Disposition::Allow),
    ] {
        let env = vec![(name.as_bytes(), value.as_bytes())];
        let input = Input { argv: vec![b"bash"], env, ..Input::default() };
        assert_eq!(policy().evaluate(&input).disposition, expected, "{name}");
    }
}

#[test]
fn standard_input_counts_where_it_is_code() {
    for (argv, expected) in [
        (&["bash", "-s"][..], Disposition::Block),
        (&["sh"], Disposition::Block),
        (&["sudo", "bash", "-"], Disposition::Block),
        (&["cat"], Disposition::Allow),
        (&["tee", "notes"], Disposition::Allow),
        (&["git", "commit", "-F", "-"], Disposition::Allow),
        (&["bash", "script.sh"], Disposition::Allow),
    ] {
        let argv = argv.iter().map(|word| word.as_bytes()).collect();
        let input = Input { argv, stdin: Some(b"rm -rf /\n"), ..Input::default() };
        assert_eq!(policy().evaluate(&input).disposition, expected);
    }
    let unseen = Input { argv: vec![b"bash", b"-s"], unseen: true, ..Input::default() };
    assert_eq!(policy().evaluate(&unseen).rules(), ["not-scanned"]);
}

fn custom(name: &str, regex: &str, action: CustomAction) -> CustomRule {
    CustomRule { name: name.into(), regex: regex.into(), action, description: "why".into() }
}

#[test]
fn custom_rules_follow_the_enforcement_and_a_broken_one_takes_nothing_with_it() {
    let rules = vec![
        custom("broken", "(", CustomAction::Block),
        custom("no-push", "^git push .*--force", CustomAction::Block),
        custom("", "x", CustomAction::Warn),
    ];
    let judge = |enabled, enforcement, use_default_rules, text: &str| {
        let config =
            CommandPolicyConfig { enabled, enforcement, use_default_rules, custom_rules: rules.clone() };
        let policy = CommandPolicy::new(&config);
        assert_eq!(policy.problems().len(), 2);
        policy.evaluate(&script(text.as_bytes(), Shell::Posix)).disposition
    };
    let push = "cd x && sudo git push origin --force";
    use Disposition::{Allow, Block, Warn};
    assert_eq!(judge(true, Enforcement::Block, true, push), Block);
    assert_eq!(judge(true, Enforcement::Warn, true, push), Warn);
    assert_eq!(judge(true, Enforcement::Off, true, push), Allow);
    assert_eq!(judge(false, Enforcement::Block, true, push), Allow);
    assert_eq!(judge(true, Enforcement::Block, true, "reboot"), Warn);
    assert_eq!(judge(true, Enforcement::Block, false, "reboot"), Allow);
    assert_eq!(judge(true, Enforcement::Block, false, push), Block);
    for enforcement in [Enforcement::Block, Enforcement::Warn, Enforcement::Off] {
        for enabled in [true, false] {
            assert_eq!(judge(enabled, enforcement, false, "rm -rf /"), Block);
        }
    }
}
