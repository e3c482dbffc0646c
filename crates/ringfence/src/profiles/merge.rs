use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringfence_gate::CacheRequest;
use ringfence_types::{EnvVar, HostPattern, Rlimits};

use super::{BUILTIN, Builtin, BuiltinCache, Place, ProfileChoice, detect};
use crate::Mode;
use crate::config::{ConfigError, Profile, SandboxConfig};
use crate::host::HostEnv;
use crate::nearest::nearest;
use crate::run::variable;

/// What all the chosen profiles add together.
#[derive(Debug, Default)]
pub(crate) struct Selected {
    /// In the order in which they took effect.
    pub(crate) names: Vec<String>,
    pub(crate) mode: Option<Mode>,
    /// Existing paths that built-in profiles read.
    pub(crate) tool_reads: Vec<PathBuf>,
    /// Paths that own profiles name.
    pub(crate) read: Vec<PathBuf>,
    pub(crate) write: Vec<PathBuf>,
    pub(crate) deny: Vec<PathBuf>,
    pub(crate) unix_sockets: Vec<PathBuf>,
    pub(crate) devices: Vec<String>,
    pub(crate) allow_hosts: Vec<HostPattern>,
    pub(crate) deny_hosts: Vec<HostPattern>,
    pub(crate) env: Vec<EnvVar>,
    pub(crate) caches: Vec<CacheRequest>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) rlimits: Rlimits,
    /// Built-in ones that were named, or that a named one extends: not those that the workspace's files picked.
    pub(crate) named: Vec<&'static str>,
}

/// Resolves the choices, `extends` included.
pub(crate) fn select(
    config: &SandboxConfig,
    host: &HostEnv,
    workspace: &Path,
    choices: &[ProfileChoice],
) -> Result<Selected, ConfigError> {
    let mut merger =
        Merger { config, host, workspace, chain: Vec::new(), mode_of: None, selected: Selected::default() };
    if choices.contains(&ProfileChoice::None) {
        return Ok(merger.selected);
    }
    for choice in choices {
        match choice {
            ProfileChoice::Auto => {
                for profile in detect(workspace) {
                    merger.add(profile.name)?;
                }
            }
            ProfileChoice::Named(name) => merger.add(name)?,
            ProfileChoice::None => {}
        }
    }
    for choice in choices {
        if let ProfileChoice::Named(name) = choice {
            builtins(config, name, &mut HashSet::new(), &mut merger.selected.named);
        }
    }
    Ok(merger.selected)
}

/// Adds the built-in profiles that `name` stands for.
fn builtins<'a>(
    config: &'a SandboxConfig,
    name: &'a str,
    seen: &mut HashSet<&'a str>,
    found: &mut Vec<&'static str>,
) {
    if !seen.insert(name) {
        return;
    }
    if let Some(builtin) =
        BUILTIN.iter().find(|profile| profile.name == name && !found.contains(&profile.name))
    {
        found.push(builtin.name);
    }
    let extends = config.profiles.get(name).into_iter().flat_map(|own| &own.extends);
    extends.for_each(|base| builtins(config, base, seen, found));
}

struct Merger<'a> {
    config: &'a SandboxConfig,
    host: &'a HostEnv,
    workspace: &'a Path,
    /// Profiles being resolved, the outermost first.
    chain: Vec<String>,
    /// The chosen profile that named the mode.
    mode_of: Option<String>,
    selected: Selected,
}

impl Merger<'_> {
    fn add(&mut self, name: &str) -> Result<(), ConfigError> {
        if let Some(at) = self.chain.iter().position(|outer| outer == name) {
            let mut cycle = self.chain[at..].to_vec();
            cycle.push(name.to_owned());
            return Err(ConfigError::ProfileCycle(cycle));
        }
        if self.selected.names.iter().any(|known| known == name) {
            return Ok(());
        }
        let builtin = BUILTIN.iter().find(|profile| profile.name == name);
        let own = self.config.profiles.get(name);
        if builtin.is_none() && own.is_none() {
            return Err(self.unknown(name));
        }
        self.chain.push(name.to_owned());
        if let Some(builtin) = builtin {
            self.builtin(builtin);
        }
        if let Some(own) = own {
            for base in &own.extends {
                self.add(base)?;
            }
            self.own(name, own)?;
        }
        self.chain.pop();
        self.selected.names.push(name.to_owned());
        Ok(())
    }

    fn unknown(&self, name: &str) -> ConfigError {
        let known: BTreeSet<&str> = BUILTIN
            .iter()
            .map(|profile| profile.name)
            .chain(self.config.profiles.keys().map(String::as_str))
            .collect();
        let nearest = nearest(name, known.iter().copied()).map(str::to_owned);
        let known = known.into_iter().map(str::to_owned).collect();
        ConfigError::UnknownProfile { name: name.to_owned(), known, nearest }
    }

    fn builtin(&mut self, profile: &Builtin) {
        for place in profile.reads {
            if let Some(path) = self.locate(place)
                && path.symlink_metadata().is_ok()
            {
                self.selected.tool_reads.push(path);
                self.pass_variables(place);
            }
        }
        for BuiltinCache { place, env } in profile.caches {
            if let Some(at) = self.locate(place) {
                if at.is_dir() {
                    self.pass_variables(place);
                }
                self.selected.caches.push(CacheRequest { at, env: env.map(String::from) });
            }
        }
        for name in profile.env {
            self.pass(name);
        }
    }

    /// The tools inside must look where the host's look.
    fn pass_variables(&mut self, place: &Place) {
        if let Some((name, _)) = place.var {
            self.pass(name);
        }
        if let Some((name, _)) = place.base.xdg() {
            self.pass(name);
        }
    }

    fn pass(&mut self, name: &str) {
        let var = variable(&OsString::from(name), self.host);
        self.selected.env.extend(var.filter(|var| !self.selected.env.contains(var)));
    }

    fn own(&mut self, name: &str, profile: &Profile) -> Result<(), ConfigError> {
        if let Some(mode) = profile.mode {
            self.mode(name, mode)?;
        }
        for (paths, list) in [
            (&profile.read, &mut self.selected.read),
            (&profile.write, &mut self.selected.write),
            (&profile.deny, &mut self.selected.deny),
            (&profile.unix_sockets, &mut self.selected.unix_sockets),
        ] {
            for path in paths {
                list.push(expand(path, self.host, self.workspace)?);
            }
        }
        self.selected.devices.extend(profile.devices.iter().cloned());
        self.selected.allow_hosts.extend(profile.allow_hosts.iter().cloned());
        self.selected.deny_hosts.extend(profile.deny_hosts.iter().cloned());
        for path in &profile.caches {
            let at = expand(path, self.host, self.workspace)?;
            self.selected.caches.push(CacheRequest { at, env: None });
        }
        let vars = profile.env.iter().filter_map(|entry| variable(&OsString::from(entry), self.host));
        self.selected.env.extend(vars);
        let Selected { timeout, rlimits, .. } = &mut self.selected;
        *timeout = smaller(*timeout, profile.timeout);
        rlimits.open_files = smaller(rlimits.open_files, profile.rlimits.open_files);
        rlimits.file_size = smaller(rlimits.file_size, profile.rlimits.file_size);
        Ok(())
    }

    /// A profile's mode beats those that it extends; two chosen side by side must agree.
    fn mode(&mut self, name: &str, mode: Mode) -> Result<(), ConfigError> {
        let chosen = self.chain.first().map_or(name, String::as_str).to_owned();
        if let (Some(first), Some(old)) = (&self.mode_of, self.selected.mode)
            && *first != chosen
            && old != mode
        {
            return Err(ConfigError::ModesDiffer {
                first: first.clone(),
                second: chosen,
                modes: (old, mode),
            });
        }
        self.mode_of = Some(chosen);
        self.selected.mode = Some(mode);
        Ok(())
    }

    fn locate(&self, place: &Place) -> Option<PathBuf> {
        if let Some((name, suffix)) = place.var
            && let Some(base) = self.host.path_var(name)
        {
            return Some(below(base, suffix));
        }
        let base = match place.base.xdg() {
            None => self.host.home(),
            Some((name, default)) => match self.host.path_var(name) {
                Some(base) => Some(base.to_path_buf()),
                None => Some(self.host.home()?.join(default)),
            },
        }?;
        Some(below(&base, place.path))
    }
}

/// `base.join(path)`, without the slash that an empty path would leave.
fn below(base: &Path, path: &str) -> PathBuf {
    if path.is_empty() { base.to_path_buf() } else { base.join(path) }
}

/// `~` and `~/…` is the home directory, a relative path counts from the workspace.
fn expand(path: &str, host: &HostEnv, workspace: &Path) -> Result<PathBuf, ConfigError> {
    match path.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => {
            let home = host.home().ok_or_else(|| ConfigError::TildeWithoutHome(path.to_owned()))?;
            Ok(below(&home, rest.trim_start_matches('/')))
        }
        _ => Ok(below(workspace, path)),
    }
}

fn smaller<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
