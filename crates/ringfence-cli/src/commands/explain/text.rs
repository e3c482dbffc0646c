//! The plan for a reader.

use std::fmt::Write as _;

use ringfence::packages::{PackageHost, Packages};
use ringfence_plan::linux::seccomp::{Action, RuleSummary};
use ringfence_plan::linux::{LandlockAccess, LinuxPlan};
use ringfence_types::{
    HostPattern, Network, PortPattern, ResolvedPolicy, SniCheck, UnixPath, WorkspaceAccess,
};

use super::{layers, mounts};
use crate::output::{HEADING, Table};

/// Width of lists that are broken into lines.
const WIDTH: usize = 100;

/// What is shown besides the plan.
pub(super) struct Subject<'a> {
    pub(super) backend: &'a str,
    pub(super) mode: &'a str,
    pub(super) profiles: &'a [String],
    pub(super) packages: &'a Packages,
    /// The program and its arguments, if one was named.
    pub(super) program: Option<String>,
    pub(super) policy: &'a ResolvedPolicy,
    /// What a real run would ask for, one line each.
    pub(super) beyond: &'a [String],
    pub(super) plan: &'a LinuxPlan,
    /// Names of the environment's variables.
    pub(super) variables: &'a [UnixPath],
    /// Also what only serves other parts of the plan.
    pub(super) all: bool,
}

pub(super) fn render(subject: &Subject<'_>) -> String {
    let plan = subject.plan;
    let mut out = summary(subject).render();
    section(&mut out, "Files, in the order of mounting", &mounts::table(&plan.mounts, subject.all).render());
    section(&mut out, "Landlock", &landlock(plan));
    section(&mut out, "System calls", &system_calls(&plan.seccomp.rows()));
    let names: Vec<String> = subject.variables.iter().map(ToString::to_string).collect();
    section(&mut out, "Environment", &wrapped("  ", names.iter().map(String::as_str), " "));
    let mut table = Table::default();
    for layer in layers::of(subject.policy, plan) {
        table.plain([layer.name.as_str(), layer.status.as_str(), &layer.detail]);
    }
    section(&mut out, "Layers", &table.render());
    out
}

fn section(out: &mut String, title: &str, body: &str) {
    let _ = write!(out, "\n{HEADING}{title}{HEADING:#}\n{body}");
}

fn summary(subject: &Subject<'_>) -> Table {
    let Subject { policy, plan, .. } = subject;
    let workspace = |access| format!("{} ({access})", UnixPath::from(policy.workspace.path.as_path()));
    let mut table = Table::default();
    if let Some(program) = &subject.program {
        table.plain(["program", program]);
    }
    table.plain(["backend", subject.backend]);
    table.plain(["mode", subject.mode]);
    table.plain(["profiles", &joined(subject.profiles)]);
    table.plain([
        "workspace",
        &match policy.workspace_access {
            WorkspaceAccess::None => workspace("hidden"),
            WorkspaceAccess::Read => workspace("read-only"),
            WorkspaceAccess::Write => workspace("writable"),
        },
    ]);
    table.plain(["directory", &plan.cwd.to_string()]);
    table.plain([
        "identity",
        &format!("uid {}, gid {}, no capabilities", plan.identity.uid, plan.identity.gid),
    ]);
    table.plain(["network", &network(policy)]);
    packages(&mut table, subject.packages);
    if !policy.deny_hosts.is_empty() {
        let denied: Vec<String> = policy.deny_hosts.iter().map(denied).collect();
        table.plain(["hosts denied", &joined(&denied)]);
    }
    if policy.network.is_by_host() && policy.proxy.sni == SniCheck::Log {
        table.plain(["tls", "server names of other hosts pass"]);
    }
    for port in &policy.loopback_ports {
        table.plain(["port", &format!("{port} leads to the host's")]);
    }
    for publish in &policy.publish {
        table
            .plain(["published", &format!("{} leads to port {} inside", publish.host(), publish.box_port())]);
    }
    table.plain(["sockets", layers::gate(plan.socket_gate)]);
    table.plain(["processes", if policy.spawn { "may be started" } else { "none but the program itself" }]);
    for pattern in &policy.deny_patterns {
        table.plain(["denied", &format!("{} (what exists now)", UnixPath::from(pattern.as_path()))]);
    }
    for excess in subject.beyond {
        table.plain(["to be asked", excess]);
    }
    if let Some(seconds) = policy.timeout_secs {
        table.plain(["timeout", &format!("{seconds} s")]);
    }
    table
}

/// Where each package host is named.
fn packages(table: &mut Table, packages: &Packages) {
    for PackageHost { tool, target, source } in &packages.granted {
        table.plain(["packages", &format!("{target} for {tool}, by {source}")]);
    }
    for PackageHost { tool, target, source } in &packages.wanted {
        table.plain(["not granted", &format!("{target} for {tool}, named by {source}")]);
    }
}

/// In a denial no port means every port, unlike in what is allowed.
fn denied(pattern: &HostPattern) -> String {
    match pattern.port() {
        PortPattern::Web => format!("{pattern} on every port"),
        PortPattern::Any | PortPattern::One(_) => pattern.to_string(),
    }
}

fn network(policy: &ResolvedPolicy) -> String {
    match &policy.network {
        Network::None => "none".to_owned(),
        Network::AllowAll => "the host's, as it is".to_owned(),
        Network::AllowHosts { hosts } => joined(hosts),
        Network::Public { hosts } if hosts.is_empty() => "every public address".to_owned(),
        Network::Public { hosts } => format!("every public address, {}", joined(hosts)),
    }
}

fn landlock(plan: &LinuxPlan) -> String {
    let Some(landlock) = &plan.landlock else {
        return "  not available: files are protected by the mounts alone\n".to_owned();
    };
    let mut table = Table::default();
    for rule in landlock.rules.iter().flatten() {
        let rights = match rule.access {
            LandlockAccess::List => "list",
            LandlockAccess::ReadExecute => "read, execute",
            LandlockAccess::All => "everything",
        };
        table.plain([rights, &rule.path.to_string()]);
    }
    if landlock.rules.is_none() {
        table.plain(["no file rules: files are protected by the mounts alone"]);
    }
    if landlock.scoped {
        table.plain(["abstract Unix sockets and signals stay inside"]);
    }
    table.render()
}

/// Calls by what happens to them; a call with several rows is named once.
fn system_calls(rows: &[RuleSummary]) -> String {
    let mut groups: Vec<(Action, Vec<&str>)> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|(action, _)| *action == row.action) {
            Some((_, calls)) if calls.contains(&row.call) => {}
            Some((_, calls)) => calls.push(row.call),
            None => groups.push((row.action, vec![row.call])),
        }
    }
    let mut out = String::new();
    for (action, calls) in groups {
        let _ = write!(out, "  {}\n{}", meaning(action), wrapped("    ", calls.into_iter(), ", "));
    }
    out
}

fn meaning(action: Action) -> String {
    match action {
        Action::Allow => "allowed only with certain arguments".to_owned(),
        Action::Kill => "ends the process".to_owned(),
        Action::Fail(errno) => format!("{errno:?}, some only with certain arguments"),
    }
}

/// Items on as few lines as fit.
fn wrapped<'a>(indent: &str, items: impl Iterator<Item = &'a str>, separator: &str) -> String {
    let mut out = String::new();
    let mut line = String::new();
    for item in items {
        if !line.is_empty() && indent.len() + line.len() + item.len() > WIDTH {
            let _ = writeln!(out, "{indent}{}", line.trim_end());
            line.clear();
        }
        line.push_str(item);
        line.push_str(separator);
    }
    let last = line.strip_suffix(separator).unwrap_or(&line);
    if !last.is_empty() {
        let _ = writeln!(out, "{indent}{last}");
    }
    out
}

fn joined<T: ToString>(items: &[T]) -> String {
    if items.is_empty() {
        return "none".to_owned();
    }
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_broken_into_lines() {
        let items: Vec<String> = (0..40).map(|n| format!("item{n}")).collect();
        let text = wrapped("  ", items.iter().map(String::as_str), ", ");
        assert!(text.lines().all(|line| line.len() <= WIDTH && line.starts_with("  item")));
        let again: Vec<&str> =
            text.split(|c: char| c == ',' || c.is_whitespace()).filter(|s| !s.is_empty()).collect();
        assert_eq!(again, items);
        assert_eq!(wrapped("  ", std::iter::empty(), ", "), "");
    }
}
