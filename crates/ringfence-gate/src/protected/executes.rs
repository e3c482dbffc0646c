//! Which variables of a git configuration make git, or what is built on it, run a program (git-config(1),
//! gitattributes(5), git-lfs-config(5)).

use super::gitconfig::{Variable, is_boolean};

/// When a variable that a rule matches runs something.
#[derive(Clone, Copy)]
enum When {
    /// Whenever it is set to anything.
    Set,
    /// Unless it is a truth value.
    NotBoolean,
    /// If the value starts with `!`.
    Shell,
    /// If the value names a transport that runs a program.
    Transport,
    /// Unless it turns hooks off.
    NotDevNull,
    /// If the alias is more than a plain git command.
    Alias,
}

/// Section, whether a subsection is needed (`None`: either way), name or `*`, condition.
struct Rule(&'static str, Option<bool>, &'static str, When);

/// A rule for each variable that the endings below don't catch.
const RULES: &[Rule] = &[
    // Run by almost every command.
    Rule("core", Some(false), "hookspath", When::NotDevNull),
    Rule("core", Some(false), "fsmonitor", When::NotBoolean),
    Rule("core", Some(false), "gitproxy", When::Set),
    Rule("pager", Some(false), "*", When::NotBoolean),
    Rule("alias", None, "*", When::Alias),
    // More configuration from elsewhere.
    Rule("include", Some(false), "path", When::Set),
    Rule("includeif", Some(true), "path", When::Set),
    // Drivers chosen by attributes.
    Rule("filter", Some(true), "clean", When::Set),
    Rule("filter", Some(true), "smudge", When::Set),
    Rule("filter", Some(true), "process", When::Set),
    Rule("diff", Some(false), "external", When::Set),
    // Transports.
    Rule("remote", Some(true), "url", When::Transport),
    Rule("remote", Some(true), "pushurl", When::Transport),
    Rule("remote", Some(true), "vcs", When::Set),
    Rule("remote", Some(true), "uploadpack", When::Set),
    Rule("remote", Some(true), "receivepack", When::Set),
    Rule("remote", Some(false), "pushdefault", When::Transport),
    // The name of a remote, or a URL.
    Rule("branch", Some(true), "remote", When::Transport),
    Rule("branch", Some(true), "pushremote", When::Transport),
    Rule("submodule", Some(true), "url", When::Transport),
    Rule("submodule", Some(true), "update", When::Shell),
    Rule("uploadpack", None, "*", When::NotBoolean),
    Rule("imap", Some(false), "tunnel", When::Set),
    Rule("sendemail", None, "smtpserver", When::Set),
    // Tools that a person calls.
    Rule("difftool", Some(true), "path", When::Set),
    Rule("mergetool", Some(true), "path", When::Set),
    Rule("browser", Some(true), "path", When::Set),
    Rule("man", Some(true), "path", When::Set),
    Rule("web", Some(false), "browser", When::Set),
    Rule("help", Some(false), "browser", When::Set),
    Rule("instaweb", Some(false), "browser", When::Set),
    Rule("instaweb", Some(false), "httpd", When::Set),
    Rule("interactive", Some(false), "difffilter", When::Set),
    Rule("svn", Some(false), "authorsprog", When::Set),
    Rule("lfs", Some(true), "path", When::Set),
    Rule("lfs", Some(true), "clean", When::Set),
    Rule("lfs", Some(true), "smudge", When::Set),
    Rule("lfs", Some(false), "standalonetransferagent", When::Set),
    // Hooks for repositories that are made from this one's settings.
    Rule("init", Some(false), "templatedir", When::Set),
];

/// Endings of names whose value is a program in git and in whatever keeps its settings there:
/// `core.sshCommand`, `gpg.ssh.program`, `credential.helper`, `trailer.x.cmd`, `gc.recentObjectsHook` and so on.
const ENDINGS: [&[u8]; 11] = [
    b"command",
    b"cmd",
    b"program",
    b"helper",
    b"hook",
    b"driver",
    b"textconv",
    b"editor",
    b"pager",
    b"askpass",
    b"prog",
];

/// Whether the variable makes something run.
pub(super) fn executes(variable: &Variable) -> bool {
    let (section, subsection, name) = (variable.section(), variable.subsection(), variable.name());
    let value = variable.value.as_deref();
    if section == b"url" && matches!(name, b"insteadof" | b"pushinsteadof") {
        return subsection.is_some_and(names_program_transport);
    }
    if section == b"protocol" && name == b"allow" {
        return value.is_some_and(|value| value != b"never");
    }
    let rule = RULES.iter().find(|Rule(rule_section, needs, rule_name, _)| {
        section == rule_section.as_bytes()
            && needs.is_none_or(|needs| needs == subsection.is_some())
            && (*rule_name == "*" || name == rule_name.as_bytes())
    });
    match rule {
        Some(Rule(.., when)) => when.holds(value),
        // An empty value takes earlier ones back.
        None => {
            ENDINGS.iter().any(|ending| name.ends_with(ending))
                && value.is_some_and(|value| !value.is_empty())
        }
    }
}

impl When {
    fn holds(self, value: Option<&[u8]>) -> bool {
        let text = value.unwrap_or_default();
        match self {
            Self::Set => !text.is_empty(),
            Self::NotBoolean => !is_boolean(value),
            Self::Shell => text.starts_with(b"!"),
            Self::Transport => names_program_transport(text),
            Self::NotDevNull => !text.is_empty() && text != b"/dev/null",
            Self::Alias => alias_executes(text),
        }
    }
}

/// `ext::` and `fd::` (gitremote-helpers(7)), also behind another helper's prefix.
fn names_program_transport(url: &[u8]) -> bool {
    let has = |needle: &[u8]| url.windows(needle.len()).any(|part| part.eq_ignore_ascii_case(needle));
    has(b"ext::") || has(b"fd::")
}

/// A shell command, or a git command that brings a program of its own: `-c core.pager=… log`,
/// `rebase --exec …`, `grep -O…`, `fetch --upload-pack=…`.
fn alias_executes(text: &[u8]) -> bool {
    /// Commands that run what they are given.
    const RUNNERS: [&[u8]; 7] =
        [b"submodule", b"bisect", b"filter-branch", b"difftool", b"mergetool", b"send-email", b"instaweb"];
    /// Options that name a program, or set a variable that does. Git takes any beginning of them.
    const LONG: [&[u8]; 6] =
        [b"--exec", b"--open-files-in-pager", b"--upload-pack", b"--receive-pack", b"--extcmd", b"--config"];
    /// The same in one letter, which other commands use otherwise.
    const SHORT: [(&[u8], u8); 5] =
        [(b"rebase", b'x'), (b"grep", b'O'), (b"clone", b'u'), (b"clone", b'c'), (b"ls-remote", b'u')];

    // Quotes and backslashes are taken out as git's own splitting would, so that `"-"c` is `-c`.
    let plain: Vec<u8> = text.iter().copied().filter(|byte| !matches!(byte, b'"' | b'\'' | b'\\')).collect();
    let mut words = plain.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let Some(command) = words.next() else { return false };
    command.starts_with(b"!")
        || command.starts_with(b"-")
        || RUNNERS.contains(&command)
        || words.any(|word| {
            let name = word.split(|&byte| byte == b'=').next().unwrap_or(word);
            match word {
                [b'-', b'-', _, ..] => LONG.iter().any(|option| option.starts_with(name)),
                [b'-', letters @ ..] => {
                    SHORT.iter().any(|(of, letter)| command == *of && letters.contains(letter))
                }
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use super::super::gitconfig::parse;
    use super::*;

    /// Each line is one variable in the form `key=value` that git config would print.
    fn check(lines: &[&str], expected: bool) {
        for line in lines {
            let (key, value) = line.split_once('=').unwrap_or((line, ""));
            let first = key.find('.').unwrap();
            let last = key.rfind('.').unwrap();
            let head = if first == last {
                format!("[{}]", &key[..first])
            } else {
                format!("[{} \"{}\"]", &key[..first], &key[first + 1..last])
            };
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"");
            let text = format!("{head}\n{} = \"{escaped}\"\n", &key[last + 1..]);
            let variables = parse(text.as_bytes()).unwrap();
            assert_eq!(variables.len(), 1, "{line}");
            assert_eq!(executes(&variables[0]), expected, "{line}");
        }
    }

    #[test]
    fn variables_that_run_programs() {
        check(
            &[
                "core.hooksPath=.hooks",
                "CORE.HOOKSPATH=x",
                "core.fsmonitor=.git/watch",
                "core.sshCommand=x",
                "core.gitProxy=x",
                "core.pager=x",
                "core.editor=x",
                "core.askPass=x",
                "core.alternateRefsCommand=x",
                "sequence.editor=x",
                "pager.log=x",
                "alias.st=!x",
                "alias.st= !x",
                "alias.st=-c core.pager=x status",
                "alias.st=\"-\"c core.pager=x log",
                "alias.st=-C x status",
                "alias.st=fetch --upload-p=x",
                "alias.st=grep -O x",
                "alias.st=rebase -ix x",
                "alias.st=rebase --exec=x",
                "alias.st=submodule foreach x",
                "alias.st=clone -c core.sshCommand=x",
                "alias.st=clone --conf core.sshCommand=x",
                "alias.st=instaweb --httpd=x",
                "branch.main.remote=ext::x",
                "branch.main.pushRemote=ext::x",
                "remote.pushDefault=ext::x",
                "filter.x.clean=x",
                "filter.x.smudge=x",
                "filter.x.process=x",
                "diff.external=x",
                "diff.x.command=x",
                "diff.x.textconv=x",
                "merge.x.driver=x",
                "credential.helper=store",
                "credential.https://a.b/c.helper=!x",
                "include.path=x",
                "includeIf.gitdir:/a.path=x",
                "gpg.program=x",
                "gpg.ssh.program=x",
                "gpg.ssh.defaultKeyCommand=x",
                "uploadpack.packObjectsHook=x",
                "gc.recentObjectsHook=x",
                "remote.o.url=ext::sh -c x",
                "remote.o.pushurl=EXT::x",
                "remote.o.uploadpack=x",
                "remote.o.receivepack=x",
                "remote.o.vcs=ext",
                "url.ext::sh -c x.insteadOf=https://",
                "url.ext::x.pushInsteadOf=https://",
                "protocol.ext.allow=always",
                "protocol.allow=user",
                "submodule.x.update=!x",
                "submodule.x.url=ext::x",
                "trailer.x.cmd=x",
                "interactive.diffFilter=x",
                "difftool.x.path=x",
                "mergetool.x.cmd=x",
                "man.x.path=x",
                "imap.tunnel=x",
                "sendemail.sendmailCmd=x",
                "sendemail.me.smtpServer=/x",
                "lfs.customtransfer.x.path=x",
                "init.templateDir=x",
                "hook.x.command=x",
            ],
            true,
        );
    }

    #[test]
    fn variables_that_run_nothing() {
        check(
            &[
                "core.bare=false",
                "core.repositoryformatversion=0",
                "core.fsmonitor=true",
                "core.fsmonitorHookVersion=2",
                "core.hooksPath=/dev/null",
                "core.hooksPath=",
                "core.editor=",
                "pager.log=false",
                "alias.lg=log --oneline --graph --color",
                "alias.co=checkout",
                "alias.rb=rebase -i",
                "alias.nb=switch -c",
                "alias.p=push -u origin",
                "alias.cp=cherry-pick -x --edit",
                "alias.fx=log --exclude=x",
                "credential.helper=",
                "credential.username=me",
                "diff.x.xfuncname=x",
                "diff.algorithm=histogram",
                "merge.conflictStyle=zdiff3",
                "branch.main.remote=origin",
                "branch.main.merge=refs/heads/main",
                "remote.origin.url=https://a.b/text.git",
                "remote.origin.url=git@a.b:c/d.git",
                "remote.origin.fetch=+refs/heads/*:refs/remotes/origin/*",
                "url.https://a.b/.insteadOf=git://a.b/",
                "submodule.x.url=../y.git",
                "submodule.x.update=rebase",
                "submodule.x.active=true",
                "uploadpack.allowFilter=true",
                "user.name=me",
                "user.signingkey=x",
                "gpg.format=ssh",
                "protocol.ext.allow=never",
                "extensions.worktreeConfig=true",
                "lfs.repositoryformatversion=0",
                "init.defaultBranch=main",
                "browser.x=y",
            ],
            false,
        );
    }

    #[test]
    fn a_variable_without_a_value_is_a_truth_value() {
        let variables = parse(b"[core]\nfsmonitor\neditor\n[alias]\nx\n").unwrap();
        assert!(variables.iter().all(|variable| !executes(variable)));
    }
}
