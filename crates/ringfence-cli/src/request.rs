//! Resolved arguments: options weighed against each other and against what this version can do, relative paths
//! made absolute, defaults filled in.

use std::env;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringfence::profiles::ProfileChoice;
use ringfence::{Mode, RunOptions};
use ringfence_types::{LayerName, NetworkPolicy, SniCheck};

use crate::args::{self, LimitArgs, NetworkArgs, PolicyArgs, SetupArgs};
use crate::error::CliError;
use crate::usage::UsageError;

/// One run, shell or explanation, ready for the library.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Where the box works.
    pub(crate) place: Place,
    /// Working directory; `None` is the root of the workspace.
    pub(crate) cwd: Option<PathBuf>,
    /// What the box may do.
    pub(crate) options: RunOptions,
    /// Config file of the caller's choice.
    pub(crate) config: Option<PathBuf>,
    /// Layers that must be fully in force.
    pub(crate) required: Vec<LayerName>,
    /// Whether what leaves the policy is asked on the terminal.
    pub(crate) prompt: bool,
    /// Wall-clock limit.
    pub(crate) timeout: Option<Duration>,
    /// Output budget in bytes.
    pub(crate) max_output: Option<usize>,
    /// A terminal inside whatever standard input is.
    pub(crate) tty: bool,
    /// Say nothing but errors.
    pub(crate) quiet: bool,
    /// Say what was enforced.
    pub(crate) verbose: bool,
}

/// The jail root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A directory of the caller's choice, absolute.
    Directory(PathBuf),
    /// The directory of a session.
    Session(String),
}

impl Request {
    /// Resolves the options that `run`, `shell` and `explain` share.
    ///
    /// # Errors
    /// [`CliError::Usage`] if options contradict each other, [`CliError::NotAvailable`] if one needs what this
    /// version has not, [`CliError::CurrentDir`] if a relative path can't be resolved.
    pub(crate) fn new(
        policy: &PolicyArgs,
        network: &NetworkArgs,
        limits: &LimitArgs,
        setup: &SetupArgs,
    ) -> Result<Self, CliError> {
        contradictions(policy, network)?;
        unavailable(limits, setup)?;
        let (place, cwd) = places(policy)?;
        let prompt = match setup.ask {
            Some(args::Ask::Prompt) => true,
            Some(args::Ask::Never) => false,
            None => io::stdin().is_terminal() && io::stderr().is_terminal(),
        };
        Ok(Self {
            place,
            cwd,
            options: options(policy, network, limits),
            config: setup.config.clone(),
            required: setup.require.clone(),
            prompt,
            timeout: limits.timeout,
            max_output: limits.max_output.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
            tty: setup.tty,
            quiet: setup.quiet,
            verbose: setup.verbose,
        })
    }
}

fn contradictions(policy: &PolicyArgs, network: &NetworkArgs) -> Result<(), UsageError> {
    if network.net == Some(args::Net::None) && !network.allow_host.is_empty() {
        return Err(UsageError::new("`--net none` contradicts `--allow-host`", "leave out one of the two"));
    }
    let single = [
        ("`--allow-host`", !network.allow_host.is_empty()),
        ("`--deny-host`", !network.deny_host.is_empty()),
        ("`--allow-loopback`", !network.allow_loopback.is_empty()),
        ("`--publish`", !network.publish.is_empty()),
    ];
    if let (Some(args::Net::All), Some((option, _))) = (network.net, single.iter().find(|(_, given)| *given))
    {
        return Err(UsageError::new(
            format!("`--net all` contradicts {option}: it is the host's whole network"),
            "leave out one of the two",
        ));
    }
    let none = policy.profile.iter().any(|name| name == "none");
    if none && policy.profile.iter().any(|name| name != "none") {
        return Err(UsageError::new(
            "`--profile none` contradicts another `--profile`",
            "leave out one of the two",
        ));
    }
    Ok(())
}

/// An option whose feature this version has not is refused: ignoring one would mean less isolation than was asked
/// for.
fn unavailable(limits: &LimitArgs, setup: &SetupArgs) -> Result<(), CliError> {
    const CGROUP: (&str, &str) =
        ("cgroup limits are missing", "use `--timeout`, or set limits from outside with systemd-run");
    const BACKEND: (&str, &str) = ("only the native backend is built in", "use `--backend native`");
    let checks = [
        (limits.memory.is_some(), "`--memory`", CGROUP),
        (limits.pids.is_some(), "`--pids`", CGROUP),
        (limits.cpu.is_some(), "`--cpu`", CGROUP),
        (setup.backend == Some(args::Backend::Bwrap), "`--backend bwrap`", BACKEND),
        (setup.backend == Some(args::Backend::Landlock), "`--backend landlock`", BACKEND),
    ];
    match checks.into_iter().find(|(given, ..)| *given) {
        Some((_, option, (missing, hint))) => Err(CliError::NotAvailable { option, missing, hint }),
        None => Ok(()),
    }
}

/// The workspace and the working directory. The caller's current directory is asked for only where it matters, so
/// that an unreadable one is no obstacle to a run elsewhere.
fn places(policy: &PolicyArgs) -> Result<(Place, Option<PathBuf>), CliError> {
    let current = || env::current_dir().map_err(CliError::CurrentDir);
    let absolute = |path: &Path| -> Result<PathBuf, CliError> {
        if path.is_absolute() { Ok(path.to_owned()) } else { Ok(current()?.join(path)) }
    };
    let cwd = policy.cwd.as_deref().map(absolute).transpose()?;
    match (&policy.session, &policy.workspace) {
        (Some(session), _) => Ok((Place::Session(session.clone()), cwd)),
        (None, None) => {
            let workspace = current()?;
            Ok((Place::Directory(workspace.clone()), cwd.or(Some(workspace))))
        }
        (None, Some(workspace)) => {
            let workspace = absolute(workspace)?;
            let inside = || {
                let current = env::current_dir().ok()?;
                current.starts_with(workspace.canonicalize().ok()?).then_some(current)
            };
            let cwd = cwd.or_else(inside);
            Ok((Place::Directory(workspace), cwd))
        }
    }
}

fn options(policy: &PolicyArgs, network: &NetworkArgs, limits: &LimitArgs) -> RunOptions {
    let profiles = match policy.profile.as_slice() {
        [] => vec![ProfileChoice::Auto],
        names => names.iter().map(|name| profile(name)).collect(),
    };
    RunOptions {
        mode: policy.mode.map(mode),
        default_mode: Mode::WorkspaceWrite,
        profiles,
        read: policy.read.clone(),
        write: policy.write.clone(),
        deny: policy.deny.clone(),
        unix_sockets: policy.unix_socket.clone(),
        devices: policy.device.clone(),
        network: network.net.map(|net| match net {
            args::Net::All => NetworkPolicy::AllowAll,
            args::Net::Public => NetworkPolicy::Public { hosts: Vec::new() },
            args::Net::None => NetworkPolicy::None,
        }),
        allow_hosts: network.allow_host.clone(),
        deny_hosts: network.deny_host.clone(),
        loopback_ports: network.allow_loopback.clone(),
        publish: network.publish.clone(),
        sni: network.sni.map(SniCheck::from),
        timeout: limits.timeout,
        no_spawn: policy.no_spawn,
        env: policy.env.clone(),
        force_root: policy.force_root,
    }
}

fn profile(name: &str) -> ProfileChoice {
    match name {
        "auto" => ProfileChoice::Auto,
        "none" => ProfileChoice::None,
        name => ProfileChoice::Named(name.to_owned()),
    }
}

fn mode(mode: args::Mode) -> Mode {
    match mode {
        args::Mode::Strict => Mode::Strict,
        args::Mode::ReadOnly => Mode::ReadOnly,
        args::Mode::WorkspaceWrite => Mode::WorkspaceWrite,
        args::Mode::FullAccess => Mode::FullAccess,
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::args::{Invocation, Parsed};

    fn request(options: &[&str]) -> Result<Request, CliError> {
        let argv: Vec<OsString> =
            ["ringfence", "run"].iter().chain(options).chain(&["--", "true"]).map(OsString::from).collect();
        assert_eq!(Invocation::of(&argv).name, Some("run"));
        match args::parse(&argv) {
            Ok(Parsed::Run(args)) => Request::new(&args.policy, &args.network, &args.limits, &args.setup),
            other => panic!("{options:?}: {other:?}"),
        }
    }

    #[test]
    fn the_defaults_are_the_current_directory_and_workspace_write() {
        let request = request(&[]).unwrap();
        let here = env::current_dir().unwrap();
        assert_eq!(request.place, Place::Directory(here.clone()));
        assert_eq!(request.cwd, Some(here));
        assert_eq!(request.options.default_mode, Mode::WorkspaceWrite);
        assert_eq!(request.options.profiles, [ProfileChoice::Auto]);
        assert_eq!((request.options.network, request.timeout), (None, None));
    }

    #[test]
    fn the_working_directory_is_the_current_one_only_inside_the_workspace() {
        let here = env::current_dir().unwrap();
        let parent = here.parent().unwrap().to_str().unwrap().to_owned();
        assert_eq!(request(&["--workspace", &parent]).unwrap().cwd, Some(here.clone()));
        assert_eq!(request(&["--workspace", ".."]).unwrap().cwd, Some(here.clone()));
        assert_eq!(request(&["--workspace", "src"]).unwrap().cwd, None);
        assert_eq!(request(&["--workspace", "src"]).unwrap().place, Place::Directory(here.join("src")));
        assert_eq!(
            request(&["--workspace", "src", "--cwd", "src/args"]).unwrap().cwd,
            Some(here.join("src/args"))
        );
        assert_eq!(request(&["--workspace", "/nonexistent"]).unwrap().cwd, None);
        assert_eq!(request(&["--session", "s"]).unwrap().place, Place::Session("s".to_owned()));
        assert_eq!(request(&["--session", "s"]).unwrap().cwd, None);
    }

    #[test]
    fn contradictions_are_usage_errors() {
        for options in [
            &["--net", "none", "--allow-host", "a.example"][..],
            &["--net", "all", "--allow-host", "a.example"],
            &["--net", "all", "--deny-host", "a.example"],
            &["--net", "all", "--allow-loopback", "5432"],
            &["--net", "all", "--publish", "8080:80"],
            &["--profile", "none", "--profile", "rust"],
        ] {
            assert_eq!(request(options).unwrap_err().kind(), "usage", "{options:?}");
        }
        assert!(request(&["--net", "none"]).is_ok());
        assert_eq!(request(&["--profile", "none"]).unwrap().options.profiles, [ProfileChoice::None]);
    }

    #[test]
    fn options_of_missing_features_are_refused_by_name() {
        for options in [
            &["--memory", "512M"][..],
            &["--pids", "10"],
            &["--cpu", "50%"],
            &["--backend", "bwrap"],
            &["--backend", "landlock"],
        ] {
            let error = request(options).unwrap_err();
            assert_eq!(error.kind(), "unsupported_policy", "{options:?}");
            assert!(error.message().contains(options[0]), "{}", error.message());
            assert!(error.hint().is_some());
        }
        for backend in ["auto", "native"] {
            assert!(request(&["--backend", backend]).is_ok());
        }
    }

    #[test]
    fn the_network_is_the_hosts_only_if_it_says_so() {
        assert_eq!(request(&["--net", "all"]).unwrap().options.network, Some(NetworkPolicy::AllowAll));
        assert_eq!(request(&["--net", "none"]).unwrap().options.network, Some(NetworkPolicy::None));
        let public = NetworkPolicy::Public { hosts: Vec::new() };
        assert_eq!(request(&["--net", "public"]).unwrap().options.network, Some(public));
    }
}
