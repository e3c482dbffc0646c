//! Siblings of the corpus: each class in many spellings, and the same spellings around commands that must pass.

use ringfence_policy::command_policy::{CommandPolicy, CommandPolicyConfig, Disposition, Input, Shell};

/// Ways in which a POSIX command is wrapped. `@` is the command, `%` the command inside of single quotes.
const POSIX: [&str; 46] = [
    "@",
    "  @  ",
    "\n\n@\n",
    "true; @",
    "true && @",
    "false || @",
    "true & @",
    "echo x | cat; @",
    "(@)",
    "( @ )",
    "{ @; }",
    "if true; then @; fi",
    "while :; do @; break; done",
    "for i in 1; do @; done",
    "case x in x) @;; esac",
    "f() { @; }; f",
    "function f { @; }",
    "! @",
    "time @",
    "X=1 @",
    "X=1 Y='a b' @",
    ">/dev/null @",
    "2>&1 @",
    "@ >/dev/null 2>&1",
    "@ # done",
    "# first\n@",
    "echo 'it'\\''s'; @",
    "sudo @",
    "sudo -u root -H @",
    "sudo -n -- @",
    "env @",
    "env -i A=b @",
    "nohup @ &",
    "nice -n 19 @",
    "ionice -c3 @",
    "timeout 30 @",
    "timeout -k 5 -s KILL 60 @",
    "setsid @",
    "stdbuf -oL @",
    "command @",
    "exec @",
    "bash -c '%'",
    "sh -ec '%'",
    "eval '%'",
    "bash <<'EOF'\n@\nEOF",
    "printf '%s\\n' '%' | sh",
];
const CMD: [&str; 15] = [
    "@",
    "@ ",
    "echo x & @",
    "dir && @",
    "dir || @",
    "(@)",
    "if 1==1 @",
    "if exist x @",
    "call @",
    "start \"\" /b @",
    "cmd /c @",
    "cmd /c \"@\"",
    "\r\n@\r\n",
    "for %i in (1) do @",
    "rem first\r\n@",
];
const POWERSHELL: [&str; 13] = [
    "@",
    "Get-Date; @",
    "Get-Date\n@",
    "if ($true) { @ }",
    "1 | % { @ }",
    "try { @ } catch { }",
    "& { @ }",
    "foreach ($i in 1) { @ }",
    "$x = 1; @",
    "# first\n@",
    "<# note #> @",
    "powershell -Command { @ }",
    "@ | Out-Null",
];

/// Spellings that a shell reads alike.
fn spellings(command: &str, shell: Shell) -> Vec<String> {
    let mut found = vec![command.to_owned()];
    let (name, rest) = command.split_once(' ').unwrap_or((command, ""));
    let split = |mark: &str| format!("{}{mark}{}", &name[..1], &name[1..]);
    match shell {
        Shell::Posix => {
            found.push(format!("{} {rest}", split("\"\"")));
            found.push(format!("{} {rest}", split("''")));
            found.push(format!("{} {rest}", split("\\")));
            found.push(format!("{} {rest}", split("\\\n")));
            found.push(format!("\"{name}\" {rest}"));
            found.push(format!("/usr/bin/{name} {rest}"));
            found.push(command.replace(' ', "   "));
            found.push(command.replace(' ', "\t"));
            found.push(command.replace(' ', " \\\n "));
            found.push(format!("{} {rest}", split("\u{200b}")));
        }
        Shell::Cmd => {
            found.push(format!("{} {rest}", split("^")));
            found.push(command.replace(' ', "   "));
            found.push(command.to_ascii_uppercase());
            found.push(format!("@{command}"));
            found.push(format!("{} {rest}", split("\"\"")));
        }
        Shell::PowerShell => {
            found.push(command.replace(' ', "   "));
            found.push(command.to_ascii_uppercase());
            found.push(format!("{} {rest}", split("`")));
            found.push(command.replace(" -", " \u{2013}"));
            found.push(command.replace(' ', "\u{a0}"));
        }
    }
    found
}

fn run(commands: &[&str], shell: Shell, wrappers: &[&str], expected: Disposition) -> usize {
    let policy = CommandPolicy::new(&CommandPolicyConfig::default());
    let mut count = 0;
    let mut wrong = Vec::new();
    for command in commands {
        for spelling in spellings(command, shell) {
            for wrapper in wrappers {
                // What stands inside of single quotes must not hold one.
                if wrapper.contains('%') && spelling.contains('\'') && wrapper.contains("'%'") {
                    continue;
                }
                let text = if wrapper.contains("'%'") {
                    wrapper.replace("'%'", &format!("'{spelling}'"))
                } else {
                    wrapper.replacen('@', &spelling, 1)
                };
                let input = Input { stdin: Some(text.as_bytes()), shell: Some(shell), ..Input::default() };
                let verdict = policy.evaluate(&input);
                count += 1;
                if verdict.disposition != expected {
                    wrong.push(format!("{:?} {:?}: {text:?}", verdict.disposition, verdict.rules()));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {count}, expected {expected:?}:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(60)].join("\n")
    );
    count
}

#[test]
fn posix_commands_that_destroy() {
    let commands = [
        "rm -rf /",
        "rm / --recursive --force",
        "rm -v -r -f //",
        "rm -fR /*",
        "rm -rf ~",
        "rm --no-preserve-root -r x",
        "dd if=/dev/zero of=/dev/sda",
        "dd of=/dev/nvme0n1 bs=1M",
        "mkfs.ext4 -F /dev/sdb1",
        "mkswap /dev/vda2",
        "tee /dev/sda",
        "cp disk.img /dev/mmcblk0",
        "wipefs -a /dev/sda",
        "blkdiscard /dev/nvme0n1",
        "shred -n 1 /dev/sdc",
        "find / -delete",
        "find / -exec rm -rf {} +",
    ];
    assert!(run(&commands, Shell::Posix, &POSIX, Disposition::Block) > 2000);
}

#[test]
fn posix_commands_that_are_recorded() {
    let commands =
        ["rm -rf /etc/app", "chmod -R 777 /usr", "reboot", "systemctl poweroff", "sed -i s/a/b/ /etc/passwd"];
    assert!(run(&commands, Shell::Posix, &POSIX, Disposition::Warn) > 500);
}

#[test]
fn posix_commands_that_pass() {
    let commands = [
        "rm -rf build",
        "rm -f /tmp/x",
        "dd if=/dev/sda of=x.img",
        "mkfs.ext4 x.img",
        "cp /dev/sda x.img",
        "shred -u x",
        "find . -delete",
        "chmod 755 /usr/bin/x",
        "systemctl restart x",
        "git rm -rf x",
        "echo \"rm -rf /\"",
        "grep -r \"rm -rf /\" docs",
        "git commit -m \"x; rm -rf /\"",
    ];
    assert!(run(&commands, Shell::Posix, &POSIX, Disposition::Allow) > 2000);
}

#[test]
fn windows_commands() {
    let block = [
        "format d: /y",
        "rd /s /q C:\\",
        "del /f /s /q D:\\*",
        "vssadmin delete shadows /all",
        "wmic shadowcopy delete",
        "wbadmin delete catalog",
        "bcdedit /set {default} recoveryenabled No",
        "reg delete HKLM /f",
    ];
    let allow = [
        "rd /s /q build",
        "del /q x.obj",
        "vssadmin list shadows",
        "reg query HKLM",
        "dir C:\\",
        "cargo build",
    ];
    let mut count = run(&block, Shell::Cmd, &CMD, Disposition::Block);
    count += run(&allow, Shell::Cmd, &CMD, Disposition::Allow);
    let block = ["Remove-Item C:\\ -Recurse -Force", "Format-Volume -DriveLetter D", "Clear-Disk -Number 0"];
    let allow = ["Remove-Item build -Recurse -Force", "Get-Volume", "Get-ChildItem C:\\ -Recurse"];
    count += run(&block, Shell::PowerShell, &POWERSHELL, Disposition::Block);
    count += run(&allow, Shell::PowerShell, &POWERSHELL, Disposition::Allow);
    assert!(count > 1000, "{count}");
}
