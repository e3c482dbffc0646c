//! What the command policy costs: typical commands, a long benign script, texts made to be expensive, and the benign
//! script again after those.

use std::fmt::Write as _;
use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use ringfence_policy::command_policy::{CommandPolicy, CommandPolicyConfig, Input, Shell};

/// Size of the long texts.
const SIZE: usize = 256 * 1024;

/// Commands as agents and people run them.
const TYPICAL: [&[&str]; 6] = [
    &["cargo", "test", "--workspace"],
    &["git", "commit", "-m", "fix: don't lose the last line"],
    &["bash", "-lc", "cd crates/x && cargo build 2>&1 | tail -20"],
    &["rm", "-rf", "target/debug/build"],
    &["bash", "-c", "for f in *.txt; do wc -l \"$f\"; done"],
    &["find", ".", "-name", "*.rs", "-not", "-path", "./target/*"],
];

fn benign() -> String {
    let mut text = String::new();
    let mut n = 0;
    while text.len() < SIZE {
        n += 1;
        let _ = writeln!(
            text,
            "# step {n}\nif [ -f \"src/file{n}.c\" ]; then\n  gcc -O2 -Wall -Iinclude -c \"src/file{n}.c\" -o build/file{n}.o \
             || exit 1\n  cp build/file{n}.o out/ 2>/dev/null\nfi\necho \"built $n of ${{total:-100}}\" | tee -a log.txt\n\
             rm -f build/tmp{n} && mkdir -p out/{{a,b}}"
        );
    }
    text.truncate(SIZE);
    text
}

/// Words that rules are about, in no order that means anything.
fn soup(separator: &str) -> String {
    const WORDS: [&str; 45] = [
        "rm",
        "-rf",
        "/",
        "dd",
        "of=/dev/sda",
        "mkfs.ext4",
        "sudo",
        "-S",
        "curl",
        "|",
        "sh",
        "chmod",
        "777",
        "/etc",
        "$(",
        ")",
        "\"",
        "\\",
        "find",
        "-delete",
        "-exec",
        "{}",
        ";",
        "eval",
        "bash",
        "-c",
        "'",
        "<<EOF",
        "${x:-",
        "}",
        "`",
        "&",
        "shred",
        "/dev/sda",
        ">",
        "tee",
        "xargs",
        "env",
        "-S",
        "nohup",
        "timeout",
        "5",
        "(",
        "x=",
        "$x",
    ];
    let mut text = String::new();
    let mut state = 12345u32;
    while text.len() < SIZE {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.push_str(WORDS[(state >> 8) as usize % WORDS.len()]);
        text.push_str(separator);
    }
    text.truncate(SIZE);
    text
}

/// Texts that a scanner or a rule engine may stumble over.
fn hostile() -> Vec<(&'static str, String)> {
    let repeated = |part: &str| part.repeat(SIZE / part.len());
    vec![
        ("soup", soup(" ")),
        ("soup of lines", soup("\n")),
        ("rm", repeated("rm -rf x\n")),
        ("open", repeated("$(")),
        ("braces", repeated("${")),
        ("arithmetic", repeated("$((")),
        ("eval", repeated("eval ")),
        ("sudo", repeated("sudo ")),
        ("heredocs", repeated("<<E\n")),
        ("groups", repeated("{ ( ")),
        ("backticks", repeated("`x ")),
        ("values", format!("x=aaaaaaaaaaaaaaaa\n{}", repeated("x=$x$x\n"))),
        ("alternatives", repeated("{a,b}")),
        ("nested", repeated("sh -c '")),
        ("pipes", repeated("a|")),
        ("functions", repeated("f(){ f|f& };")),
        ("short commands", repeated("a\n")),
        ("short pipelines", repeated("a|b\n")),
        ("two parentheses", repeated("((")),
        ("quotes", repeated("'a'\"b\" ")),
        ("defaults", repeated("${a:-$(b)}")),
        ("files", repeated("tee a /b c\n")),
        ("nested texts", repeated("ssh h a\n")),
        ("blocks", repeated("a | % { ")),
        ("members", repeated("(gi x).Delete($true)\n")),
        ("loops", repeated("for /r C:\\ %i in (*) do del %i\n")),
        ("percent signs", repeated("%a:~0,1%")),
        ("assignments", format!("$x='{}'\n{}", "a".repeat(40), repeated("$x "))),
    ]
}

fn script(text: &str, shell: Shell) -> Input<'_> {
    Input { stdin: Some(text.as_bytes()), shell: Some(shell), ..Input::default() }
}

fn benches(c: &mut Criterion) {
    let policy = CommandPolicy::new(&CommandPolicyConfig::default());
    let typical: Vec<Input<'_>> = TYPICAL
        .iter()
        .map(|argv| Input { argv: argv.iter().map(|word| word.as_bytes()).collect(), ..Input::default() })
        .collect();
    let benign = benign();
    let before = |c: &mut Criterion, when: &str| {
        for (input, argv) in typical.iter().zip(TYPICAL) {
            c.bench_function(&format!("typical{when}/{} {}", argv[0], argv[1]), |b| {
                b.iter(|| policy.evaluate(black_box(input)));
            });
        }
        c.bench_function(&format!("benign script of 256 KiB{when}"), |b| {
            b.iter(|| policy.evaluate(black_box(&script(&benign, Shell::Posix))));
        });
    };
    before(c, "");
    for (name, text) in hostile() {
        for (language, shell) in
            [("posix", Shell::Posix), ("cmd", Shell::Cmd), ("powershell", Shell::PowerShell)]
        {
            c.bench_function(&format!("hostile/{name}/{language}"), |b| {
                b.iter(|| policy.evaluate(black_box(&script(&text, shell))));
            });
        }
    }
    before(c, " after hostile");
}

criterion_group! {
    name = command_policy;
    config = Criterion::default().sample_size(10).warm_up_time(std::time::Duration::from_millis(300))
        .measurement_time(std::time::Duration::from_secs(1));
    targets = benches
}
criterion_main!(command_policy);
