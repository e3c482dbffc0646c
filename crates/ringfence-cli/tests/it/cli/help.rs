//! Help texts and what is generated from them.

use insta::assert_snapshot;

use super::{fixture, ringfence};

#[test]
fn help() {
    assert_snapshot!(ringfence(&["--help"]), @"
    exit: 0
    --- stdout
    Runs a command that nobody has vetted so that it can touch only what it was granted

    Usage: ringfence <COMMAND>

    Commands:
      run          Run a program in the box
      shell        Start an interactive shell in the box
      check        Ask the command policy about a command, without running it
      explain      Show what a run would be allowed, without running it
      doctor       Check what this host can enforce, and how to fix what it can't
      init         Write a commented config file
      config       Examine config files
      proxy        Run the proxy that reaches hosts by name, without a box
      completions  Print a completion script
      man          Print the manual page
      version      Print the version
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Examples:
      ringfence run -- cargo test           only this directory is writable, no network
      ringfence run --mode strict -- ./tool one program, which sees this directory and system files
      ringfence shell                       look around in the box
      ringfence explain -- npm install      what a run would be allowed, without running it
      ringfence doctor                      what this host can enforce
    --- stderr
    ");
    assert_snapshot!(ringfence(&["run", "-h"]), @"
    exit: 0
    --- stdout
    Run a program in the box

    Usage: ringfence run [OPTIONS] -- PROGRAM [ARG]...

    Options:
      -h, --help  Print help (see more with '--help')

    Policy:
          --mode <MODE>         What is allowed before the other options add or take [default:
                                workspace-write] [possible values: strict, read-only, workspace-write,
                                full-access]
          --profile <NAME>      Ecosystem profile (rust, node, python, go, java, git), one from the
                                config, auto, or none [default: auto]
          --workspace <DIR>     The directory that the box works in [default: the current directory]
          --session <ID>        Work in the session's own directory; commands of one session share it
                                and their private /tmp
          --cwd <DIR>           Working directory [default: the current directory if it lies inside the
                                workspace]
          --read <PATH>         Let the box read this file or tree
          --write <PATH>        Let the box write this file or tree
          --deny <PATH>         Hide this file or tree, or all that a pattern ('**/*.pem') finds
          --unix-socket <PATH>  Let the box connect to this Unix socket of the host
          --device <NAME>       Let the box use devices by name: gpu, kvm, fuse
          --env <KEY[=VALUE]>   Set a variable, or pass the caller's own one through
          --no-spawn            Refuse to start further processes from inside the box
          --force-root          Allow /, the home directory or a system directory as a writable root

    Network:
          --net <NET>                   No network, the public internet, or the host's network as it is
                                        [default: none] [possible values: none, public, all]
          --allow-host <PATTERN>        Let the box reach this host: name, *.suffix, **.suffix, address
                                        or network, with :port or :* [default: ports 80 and 443]
          --deny-host <PATTERN>         Keep the box from this host, whatever else is allowed; without a
                                        port on every port
          --publish <[ADDR:]PORT:PORT>  Let the host reach a server in the box: the host's address
                                        [default: 127.0.0.1] and port, then the server's port
          --allow-loopback <PORT>       Let the box reach this port of the host's loopback, at the same
                                        port of its own
          --sni <CHECK>                 What to do with a TLS connection whose server name is not the
                                        allowed host [default: strict] [possible values: strict, log]

    Limits:
          --timeout <TIME>     End the run after this time: 60s, 5m, 1h30m [default: no limit]
          --max-output <SIZE>  Keep at most this much captured output: 512K, 1M [default: 1M]
          --memory <SIZE>      Memory of all processes together: 512M, 2G; not available yet
          --pids <N>           Number of processes and threads; not available yet
          --cpu <PERCENT>      Share of one processor: 50%; not available yet

    Setup:
          --backend <BACKEND>  Mechanism that builds the box; bwrap and landlock are not available yet
                               [default: auto] [possible values: auto, native, bwrap, landlock]
          --require <LAYER>    Refuse to run unless this layer is fully in force (see `doctor` for their
                               names)
          --ask <WHEN>         What leaves the policy is refused, or asked on the terminal [default:
                               prompt on a terminal, else never] [possible values: never, prompt]
          --tty                Give the program a terminal also when standard input is none
          --config <FILE>      Config file instead of $RINGFENCE_HOME/config.toml

    Output:
          --quiet    Say nothing but errors
          --verbose  Say what was enforced
          --json     Capture the output and print one JSON object; standard input passes unless it is a
                     terminal

    Program:
      <PROGRAM>...  The program and its arguments

    Examples:
      ringfence run -- cargo build
          The current directory is writable, the rest of the disk read-only, no network
      ringfence run --write ~/shared --deny .env -- make
          One more writable directory; one file of the workspace out of reach
      ringfence run --profile node --timeout 10m -- npm ci
          Node's caches and its package hosts, at most ten minutes
      ringfence run --json -- sh -c 'ls; exit 3'
          One JSON object: output, exit code, what was enforced, what was refused

    Everything after the program goes to it untouched. Relative paths of --read, --write and --deny
    count from the workspace.

    Exit status:
      the program's own, or
      128+N  signal N ended it
      124    the timeout ended it
      125    ringfence refused or failed
      126    the program is not executable
      127    the program was not found
    --- stderr
    ");
    assert_snapshot!(ringfence(&["doctor", "--help"]), @"
    exit: 0
    --- stdout
    Check what this host can enforce, and how to fix what it can't

    Usage: ringfence doctor [OPTIONS]

    Options:
          --json  Print one JSON object on standard output
      -h, --help  Print help

    Each backend is tried for at most half a second. What is missing is explained, with its fix.

    Exit status: 0 if `ringfence run` gives a sandbox on this host, else 1; 2 for a usage error.
    --- stderr
    ");
    assert_snapshot!(ringfence(&["config", "check", "--help"]), @"
    exit: 0
    --- stdout
    Check config files for unknown keys and wrong values

    Usage: ringfence config check [OPTIONS] [FILE]

    Arguments:
      [FILE]  Check this file instead of the user's config and the workspace's

    Options:
          --json  Print one JSON object on standard output
      -h, --help  Print help

    Without FILE: the user's config ($RINGFENCE_HOME/config.toml), then .ringfence.toml of the current
    directory; a missing one is no error. An unknown key is named with its line and the nearest known
    key.

    Exit status: 0 if all is well, 1 if a file has an error or can't be read, 2 for a usage error.
    --- stderr
    ");
    for version in ["--version", "version"] {
        assert_eq!(ringfence(&[version]), "exit: 0\n--- stdout\nringfence [VERSION]\n--- stderr\n");
    }
}

#[test]
fn help_is_a_command_too() {
    let pairs: [(&[&str], &[&str]); 4] = [
        (&["help"], &["--help"]),
        (&["help", "run"], &["run", "--help"]),
        (&["help", "version"], &["version", "--help"]),
        (&["help", "config", "check"], &["config", "check", "--help"]),
    ];
    for (command, option) in pairs {
        let shown = ringfence(command);
        assert!(shown.starts_with("exit: 0\n") && shown.contains("Usage: ringfence"), "{shown}");
        assert_eq!(shown, ringfence(option));
    }
    assert_snapshot!(ringfence(&["help", "rum"]), @"
    exit: 2
    --- stdout
    --- stderr
    ringfence: unknown command `rum`
    hint: to run a program: `ringfence run -- PROGRAM`; see `ringfence --help`
    ");
}

#[test]
fn completions_and_manual_pages_are_generated() {
    let fixture = fixture();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = fixture.ringfence(["completions", shell]).finish().code_is(0).out();
        assert!(script.contains("workspace-write") || script.contains("workspace"), "{shell}");
    }
    let script = fixture.ringfence(["completions", "bash"]).finish().out();
    let checked = fixture.outside("bash").args(["-n"]).stdin(script).finish();
    assert_eq!((checked.code, checked.err()), (Some(0), String::new()));
    let page = fixture.ringfence(["man", "run"]).finish().code_is(0).out();
    assert!(page.contains(".TH ringfence-run 1"));
    assert!(page.contains("\\-\\-unix\\-socket"));
}
