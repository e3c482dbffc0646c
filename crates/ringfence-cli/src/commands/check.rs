//! `ringfence check`

use std::env;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead as _, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::Path;

use ringfence::HostEnv;
use ringfence::command_policy::{
    CommandPolicy, Disposition, Explained, Input, Match, Shell, Tier, Verdict, View, ViewLine,
};
use ringfence::config::Sources;
use serde::Serialize;
use serde_json::Value;

use crate::args::{CheckArgs, ShellName};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{HINT, check_stdout, one_line, print_json, print_note, print_text};

/// The object of `check --json`.
#[derive(Debug, Serialize)]
struct Report<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Value>,
    verdict: Disposition,
    truncated: bool,
    matches: &'a [Match],
    #[serde(skip_serializing_if = "Option::is_none")]
    views: Option<Vec<ViewReport<'a>>>,
}

/// One command that was found, with `--explain`.
#[derive(Debug, Serialize)]
struct ViewReport<'a> {
    view: View,
    command: String,
    rules: &'a [&'static str],
}

#[derive(Debug, Serialize)]
struct BadLine<'a> {
    id: &'a Value,
    error: &'a str,
}

pub(crate) fn check(args: &CheckArgs) -> Result<Exit, CliError> {
    let policy = policy(args)?;
    if args.batch {
        return batch(&policy);
    }
    let stdin = match &args.stdin_file {
        None => None,
        Some(path) if path.as_os_str() == "-" => {
            let mut text = Vec::new();
            io::stdin().lock().read_to_end(&mut text).map_err(CliError::Input)?;
            Some(text)
        }
        Some(path) => {
            Some(fs::read(path).map_err(|source| CliError::ReadStdinFile { path: path.clone(), source })?)
        }
    };
    if let [word] = &*args.program {
        print_note(&script_note(word));
    }
    let argv: Vec<&[u8]> = args.program.iter().map(|word| word.as_encoded_bytes()).collect();
    let stdin = stdin.as_deref();
    let shell = shell(args.shell, argv.is_empty().then_some(stdin.unwrap_or_default()));
    let explained = policy.explain(&Input { argv, stdin, shell, ..Input::default() });
    let Explained { verdict, lines } = &explained;
    if args.json {
        print_json(&Report {
            id: None,
            verdict: verdict.disposition,
            truncated: verdict.truncated,
            matches: &verdict.matches,
            views: args.explain.then(|| lines.iter().map(view).collect()),
        })?;
    } else {
        print_text(&render(&explained, args.explain))?;
    }
    Ok(match verdict.disposition {
        Disposition::Allow => Exit::Success,
        Disposition::Warn => Exit::Warned,
        Disposition::Block => Exit::Blocked,
    })
}

/// A script that is given as one word is the name of a program, which most likely nobody means.
fn script_note(word: &OsStr) -> String {
    let blank = word.as_encoded_bytes().iter().any(u8::is_ascii_whitespace);
    if !blank || Path::new(word).exists() {
        return String::new();
    }
    let word = one_line(&word.to_string_lossy());
    format!(
        "ringfence: `{word}` is one word, the name of a program\n{HINT}hint:{HINT:#} a script is read after \
         `ringfence check -- sh -c`, or with `ringfence check --stdin-file FILE`\n"
    )
}

/// The policy of the configuration that a run here would have.
fn policy(args: &CheckArgs) -> Result<CommandPolicy, CliError> {
    let host = HostEnv::current();
    let workspace = env::current_dir().ok();
    let sources = Sources { host: &host, file: args.config.as_deref(), workspace: workspace.as_deref() };
    let policy = CommandPolicy::new(&sources.load()?.config.command_policy);
    for (rule, reason) in policy.problems() {
        print_note(&format!(
            "ringfence: {}\n",
            one_line(&format!("custom rule `{rule}` left out: {reason}"))
        ));
    }
    Ok(policy)
}

fn shell(name: ShellName, script: Option<&[u8]>) -> Option<Shell> {
    match name {
        ShellName::Posix => Some(Shell::Posix),
        ShellName::Cmd => Some(Shell::Cmd),
        ShellName::PowerShell => Some(Shell::PowerShell),
        ShellName::Auto => script.map(Shell::guess),
    }
}

fn view(line: &ViewLine) -> ViewReport<'_> {
    ViewReport { view: line.view, command: shown(&line.text), rules: &line.rules }
}

/// A normalised command in one line; what is not known in it is shown as an ellipsis.
fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text).replace(['\u{1}', '\u{2}'], "…");
    one_line(&text)
}

fn render(explained: &Explained, explain: bool) -> String {
    let Explained { verdict, lines } = explained;
    let mut out = String::new();
    if explain {
        for line in lines {
            let rules =
                if line.rules.is_empty() { String::new() } else { format!("  <- {}", line.rules.join(", ")) };
            let _ = writeln!(out, "{:8} {}{rules}", line.view.name(), shown(&line.text));
        }
    }
    let _ = writeln!(out, "{}", word(verdict));
    for found in &verdict.matches {
        let tier = if found.tier == Tier::Block { "block" } else { "warn" };
        let text = format!("{tier} {} ({}): {}", found.rule, found.view.name(), found.why);
        let _ = writeln!(out, "  {}", one_line(&text));
        if !found.instead.is_empty() {
            let _ = writeln!(out, "    instead: {}", one_line(&found.instead));
        }
    }
    if verdict.truncated {
        out.push_str("  a part of the text was not read\n");
    }
    out
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict.disposition {
        Disposition::Allow => "allow",
        Disposition::Warn => "warn",
        Disposition::Block => "block",
    }
}

/// JSON lines in, JSON lines out, in the same order.
fn batch(policy: &CommandPolicy) -> Result<Exit, CliError> {
    check_stdout()?;
    let input = io::stdin().as_fd().try_clone_to_owned().map_err(CliError::Input)?;
    let mut input = io::BufReader::new(fs::File::from(input));
    let mut output = io::BufWriter::new(io::stdout().lock());
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line).map_err(CliError::Input)? == 0 {
            break;
        }
        let written = answer(policy, &line).and_then(|mut answer| {
            answer.push(b'\n');
            output.write_all(&answer)
        });
        // Whoever waits for an answer before the next line gets it; who has sent more is answered in larger pieces.
        let flushed = if input.buffer().contains(&b'\n') { Ok(()) } else { output.flush() };
        match written.and(flushed) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Exit::Success),
            other => other.map_err(CliError::Output)?,
        }
    }
    match output.flush() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CliError::Output(error)),
        _ => Ok(Exit::Success),
    }
}

fn answer(policy: &CommandPolicy, line: &[u8]) -> io::Result<Vec<u8>> {
    let parsed: Result<Value, _> = serde_json::from_slice(line);
    let id = match &parsed {
        Ok(Value::Object(object)) => object.get("id").cloned().unwrap_or(Value::Null),
        _ => Value::Null,
    };
    let result = parsed.map_err(|_| "not a line of JSON").and_then(|value| Question::read(&value));
    let json = match result {
        Ok(question) => {
            let argv: Vec<&[u8]> = question.argv.iter().flatten().map(String::as_bytes).collect();
            let stdin = question.stdin.as_deref().map(str::as_bytes);
            let shell = shell(question.shell, argv.is_empty().then_some(stdin.unwrap_or_default()));
            let verdict = policy.evaluate(&Input { argv, stdin, shell, ..Input::default() });
            serde_json::to_vec(&Report {
                id: Some(&id),
                verdict: verdict.disposition,
                truncated: verdict.truncated,
                matches: &verdict.matches,
                views: None,
            })
        }
        Err(error) => serde_json::to_vec(&BadLine { id: &id, error }),
    };
    json.map_err(io::Error::from)
}

/// One line of a batch.
#[derive(Debug)]
struct Question {
    shell: ShellName,
    argv: Option<Vec<String>>,
    stdin: Option<String>,
}

impl Question {
    fn read(value: &Value) -> Result<Self, &'static str> {
        let object = value.as_object().ok_or("not an object")?;
        let shell = match object.get("shell") {
            None | Some(Value::Null) => ShellName::Auto,
            Some(Value::String(name)) => match name.as_str() {
                "posix" => ShellName::Posix,
                "cmd" => ShellName::Cmd,
                "powershell" => ShellName::PowerShell,
                "auto" => ShellName::Auto,
                _ => return Err("`shell` is none of posix, cmd, powershell, auto"),
            },
            Some(_) => return Err("`shell` is not a string"),
        };
        let stdin = match object.get("stdin") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(_) => return Err("`stdin` is not a string"),
        };
        let argv = match object.get("argv") {
            None | Some(Value::Null) => None,
            Some(Value::Array(words)) if words.is_empty() => return Err("`argv` is empty"),
            Some(Value::Array(words)) => {
                let words: Option<Vec<String>> =
                    words.iter().map(|word| word.as_str().map(str::to_owned)).collect();
                Some(words.ok_or("`argv` holds something else than strings")?)
            }
            Some(_) => return Err("`argv` is not an array"),
        };
        if argv.is_none() && stdin.is_none() {
            return Err("neither `argv` nor `stdin`");
        }
        Ok(Self { shell, argv, stdin })
    }
}

#[cfg(test)]
mod tests {
    use ringfence::CommandPolicyConfig;

    use super::*;

    fn ask(line: &str) -> Value {
        let policy = CommandPolicy::new(&CommandPolicyConfig::default());
        serde_json::from_slice(&answer(&policy, line.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn each_line_has_its_answer() {
        let value = ask(r#"{"id":"a","shell":"posix","argv":["rm","-rf","/"],"stdin":null}"#);
        assert_eq!((&value["id"], &value["verdict"]), (&"a".into(), &"block".into()));
        let keys: Vec<&String> = value["matches"][0].as_object().unwrap().keys().collect();
        assert_eq!(keys, ["rule", "tier", "view", "why"]);
        assert_eq!(ask(r#"{"id":1,"argv":null,"stdin":"rm -rf /"}"#)["matches"][0]["view"], "stdin");
        assert_eq!(ask(r#"{"id":1,"argv":["ls"]}"#)["verdict"], "allow");
    }

    #[test]
    fn a_bad_line_keeps_its_id_and_says_why() {
        for (line, id, error) in [
            ("\n", Value::Null, "not a line of JSON"),
            ("nonsense", Value::Null, "not a line of JSON"),
            (r#"{"id":7}"#, 7.into(), "neither `argv` nor `stdin`"),
            (r#"{"id":"x","argv":[1]}"#, "x".into(), "`argv` holds something else than strings"),
            (
                r#"{"id":"x","argv":["a"],"shell":"fish"}"#,
                "x".into(),
                "`shell` is none of posix, cmd, powershell, auto",
            ),
            ("[]", Value::Null, "not an object"),
        ] {
            let value = ask(line);
            assert_eq!((&value["id"], &value["error"]), (&id, &error.into()), "{line}");
        }
    }
}
