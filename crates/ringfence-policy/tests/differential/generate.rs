//! Scripts in which every command runs, written in many ways.

use proptest::prelude::*;
use proptest::sample::select;

/// A text inside of single quotes.
fn single(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A part of a word; none of them holds a slash, so that nothing outside can be named.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "[a-z0-9.=:@%+-]{1,4}",
        3 => "[a-z ;|&$(){}<>#`\"*?!\\\\,\n]{0,6}".prop_map(|text| format!("'{text}'")),
        3 => double(),
        2 => "[ ;|&$(){}<>#`\"'*?!,a-z]".prop_map(|byte| format!("\\{byte}")),
        2 => select(vec![
            "$'\\n'", "$'a\\tb'", "$'\\x41\\x20'", "$'\\101\\0123'", "$'\\u41'", "$'\\''", "$'\\\\\"'", "$'\\cA'", "$'\\e['",
            "$'\\q'", "$\"a b\"",
        ])
        .prop_map(str::to_owned),
        1 => select(vec!["''", "\"\"", "\\\n", "x\\\ny"]).prop_map(str::to_owned),
        2 => variable(),
        1 => select(vec!["$((1+2))", "$((x = (1+2)*3))", "$(( 1 ))"]).prop_map(str::to_owned),
        1 => select(vec!["{a}", "{}", "{a,b", "a}", "{'a,b'}", ","]).prop_map(str::to_owned),
        1 => select(vec!["a#b", "!", "^", "~~", "[", "]", "%1"]).prop_map(str::to_owned),
    ]
}

fn double() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => "[a-z ;|&(){}<>#'*?,\n]{0,5}",
        2 => select(vec!["\\\"", "\\\\", "\\$", "\\`", "\\x", "\\\n", "\\'"]).prop_map(str::to_owned),
        2 => variable(),
        1 => select(vec!["$.", "$ ", "$(( 2 ))", "$()"]).prop_map(str::to_owned),
    ];
    prop::collection::vec(part, 0..4).prop_map(|parts| format!("\"{}\"", parts.concat()))
}

/// A parameter that the script sets to `one` or to `two words`, or one that is not set.
fn variable() -> impl Strategy<Value = String> {
    select(vec![
        "$v",
        "${v}",
        "$w",
        "${w}",
        "${v:-d}",
        "${none:-d}",
        "${none-d}",
        "${v:+d}",
        "${v#o}",
        "${v%e}",
        "${v/n/N}",
        "${v//e/}",
        "${v:0:2}",
        "${v:1}",
        "${#v}",
        "${v^^}",
        "${v,,}",
        "$none",
        "${none}",
        "${none:-a b}",
        "${v@Q}",
    ])
    .prop_map(str::to_owned)
}

/// Words in which braces stand for several. bash puts values in after that, so that none of them is split here.
fn braces() -> impl Strategy<Value = String> {
    let around = || select(vec!["", "x", "'a b'", "\\,", "\"$v\"", "$v", "\"{\""]);
    let braces = select(vec![
        "{a,b}",
        "{a,{b,c}d}",
        "{,x}",
        "{a,'b c'}",
        "{\"a,b\",c}",
        "{a,b}{c,d}",
        "{a,b}.{a",
        "{a,}",
    ]);
    (around(), braces, around()).prop_map(|(before, braces, after)| {
        // `$v{` would be read as the name of a variable with what the braces stand for.
        let before = if before == "$v" { "${v}" } else { before };
        [before, braces, after].concat()
    })
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof![8 => pieces(), 1 => braces()]
}

fn pieces() -> impl Strategy<Value = String> {
    prop::collection::vec(piece(), 1..4).prop_map(|pieces| {
        let word = pieces.concat();
        // A leading `#` is a comment, and a tilde a directory.
        if word.starts_with(['#', '~']) { format!("x{word}") } else { word }
    })
}

fn name() -> impl Strategy<Value = String> {
    select(vec![
        "alpha",
        "beta",
        "gamma",
        "'delta'",
        "al\\pha",
        "\"beta\"",
        "ga''mma",
        "$'\\x64elta'",
        "al\"\"pha",
        "be\\\nta",
        "${none}gamma",
        "{delta,x}",
        "$n",
    ])
    .prop_map(str::to_owned)
}

fn redirect() -> impl Strategy<Value = String> {
    select(vec![
        ">out", "> out", ">>out", ">|out", "2>&1", "2>err", "&>out", "<log", "3<>out", "{fd}>out", ">&2",
        "<<<'a b'", "<<< $v", "2>'er r'", "<&-", ">&-",
    ])
    .prop_map(str::to_owned)
}

/// One simple command.
fn simple() -> impl Strategy<Value = String> {
    // No name begins like the end of a here-document: bash 5.2 takes `E=` for the line `E` inside of `$( )`.
    let assignments = prop::collection::vec(select(vec!["P=1", "Q='x y'", "R=", "S+=1", "U=$v"]), 0..2);
    let words = prop::collection::vec(word(), 0..5);
    (
        assignments,
        name(),
        words,
        prop::collection::vec(redirect(), 0..2),
        any::<prop::sample::Index>(),
        select(vec![" ", "  ", "\t", " \\\n "]),
    )
        .prop_map(|(assignments, name, mut words, redirects, at, blank)| {
            for redirect in redirects {
                words.insert(at.index(words.len() + 1), redirect);
            }
            let mut all: Vec<String> = assignments.into_iter().map(str::to_owned).collect();
            all.push(name);
            all.extend(words);
            all.join(blank)
        })
}

const SETUP: &str = "export v=one w='two words' n=alpha\n";

/// A simple command after the variables that it uses.
pub(crate) fn command() -> impl Strategy<Value = String> {
    simple().prop_map(|command| format!("{SETUP}{command}"))
}

/// `§` is a script, `%` the same in single quotes, `%%` that in single quotes again.
fn put(form: &str, script: &str) -> String {
    // A here-document ends at the first line that says so, be it meant for another one.
    let lines = |text: &str, line: &str| text.lines().any(|own| own.trim_start_matches('\t') == line);
    if ["A", "B", "E", "T"].iter().any(|end| lines(form, end) && lines(script, end)) {
        return script.to_owned();
    }
    let quoted = single(script);
    let twice = single(&quoted);
    let grouped = format!("{{ {script}\n}}");
    let marks = ["%%", "%", "§"];
    let mut out = String::new();
    let mut rest = form;
    while let Some(at) = rest.find(['%', '§']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let mark = marks.iter().find(|mark| rest.starts_with(**mark)).expect("one of them");
        rest = &rest[mark.len()..];
        out.push_str(match *mark {
            "%%" => &twice,
            "%" => &quoted,
            // A here-document's last line stands alone.
            _ if script.contains("<<") && !rest.is_empty() && !rest.starts_with('\n') => &grouped,
            _ => script,
        });
    }
    out + rest
}

/// Texts in which what stands for `§` runs, with everything else in them.
const FORMS: [&str; 44] = [
    "§",
    "(§\n)",
    "{ §\n}",
    "( ( §\n) )",
    "if :; then §\nfi",
    "if false; then :; else §\nfi",
    "if false; then :; elif :; then §\nfi",
    "if §\nthen :; fi",
    "while :; do §\nbreak; done",
    "until false; do §\nbreak; done",
    "for i in 1; do §\ndone",
    "for ((i=0; i<1; i++)); do §\ndone",
    "case x in (x|y) §\n;; *) ;; esac",
    "case x in y) : ;; x) §\nesac",
    "case x in x) §\n;& y) : ;; esac",
    "case \"a)b\" in *) §\n;; esac",
    "if ! { §\n}\nthen :; fi",
    "{ time §\n}",
    ": && §",
    "false || §",
    "{ § &\n}",
    "§ # a comment; 'with a quote",
    "# 'comment \\\n§",
    "§ | :",
    ": | §",
    ": |& §",
    ":;§",
    "eval %",
    "eval eval %%",
    "bash -c %",
    "sh -ec %",
    "bash <<'E'\n§\nE",
    "bash <<-\\T\n§\n\tT",
    "bash <<< %",
    "x=$( §\n)",
    ": \"$( §\n)\"",
    ": ${none:-$( §\n)}",
    ": $(: $( §\n))",
    ": <<E\n$( §\n)\nE",
    ": <<E >out\n it's \"$( §\n)\n\\$(gone) 'E'\nE",
    "[[ a == a && ( b < c ) ]] && §",
    "(( 1 < 2 )) && §",
    "a=(1 'b c' \"$v\"); §",
    ": <<A; : <<'B'; x=$( §\n)\n$v ' \"\nA\n$(gone) `gone`\nB",
];

fn composed() -> impl Strategy<Value = String> {
    simple().prop_recursive(4, 12, 3, |inner| {
        prop_oneof![
            3 => (select(FORMS.to_vec()), inner.clone()).prop_map(|(form, script)| put(form, &script)),
            1 => (select(vec!["\n", "; ", "\n\n", " && "]), inner.clone(), inner).prop_map(|(between, first, second)| {
                // A here-document or a comment ends with its line.
                let between = if first.contains(['\n', '#']) || first.ends_with('&') { "\n" } else { between };
                format!("{first}{between}{second}")
            }),
        ]
    })
}

/// Compound commands in each other.
pub(crate) fn script() -> impl Strategy<Value = String> {
    composed().prop_map(|script| format!("{SETUP}{script}"))
}

/// Commands behind names, loops over several values and backticks: what is found may be more than what runs.
pub(crate) fn indirect() -> impl Strategy<Value = String> {
    let forms = select(vec![
        "f() { §\n}; f",
        "function f { §\n}; f",
        "function f() (§\n); f",
        "f() if :; then §\nfi; f",
        "f() { \"$@\"\n}; f §",
        "g() { §\n}; f() { g; }; f",
        "for i in 1 2; do §\ndone",
        "trap % EXIT",
        "set -- % x; eval \"$1\"",
        "c=%; eval \"$c\"",
        "false && : || §",
        "coproc { §\n}; wait",
        "shopt -s expand_aliases\nalias q=%\nq",
    ]);
    (forms, simple()).prop_map(|(form, script)| format!("{SETUP}{}", put(form, &script)))
}
