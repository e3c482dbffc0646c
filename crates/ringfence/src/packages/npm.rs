//! npm, pnpm and Yarn. Sources: npmrc(5), npm-config(7), `.yarnrc` and `.yarnrc.yml` of Yarn's documentation.

use std::path::{Path, PathBuf};

use ringfence_types::UnixPath;

use super::ini::{Entry, entries, unquoted};
use super::survey::{ConfigFile, Survey, Trust, quoted_after};
use super::{Source, literal, url};

pub(super) fn read(survey: &mut Survey<'_>) {
    let chosen = npm(survey);
    yarn(survey);
    locks(survey, chosen.default);
}

/// What npm would use.
#[derive(Default)]
struct Registry {
    /// The registry is named by the environment or a file.
    chosen: bool,
    /// npm's built-in one, in whose place the chosen one is asked for what a lock file names.
    default: Option<String>,
}

fn npm(survey: &mut Survey<'_>) -> Registry {
    let program = survey.program("npm");
    let mut registry = Registry::default();
    let mut own_project = false;
    for (name, value) in variables(survey) {
        if name.ends_with(":registry") || name == "registry" {
            survey.url_of_variable("npm", &value, &format!("npm_config_{name}"));
            survey.tell(&format!("npm_config_{name}"), &value);
            registry.chosen |= name == "registry";
        }
    }
    for path in files(survey, program.as_deref()) {
        let Some(file) = survey.config(&path) else { continue };
        let all = entries(&file.text);
        for (at, Entry { key, values, section }) in all.iter().enumerate() {
            // npm takes the last of two.
            if all[at + 1..].iter().any(|later| later.key == *key && later.section == *section) {
                continue;
            }
            let Some(value) = values.first().map(|value| expand(survey, value)) else { continue };
            match *key {
                "registry" if file.counts() && registry.chosen => {}
                "registry" => {
                    survey.url("npm", &value, &file);
                    own_project |= !file.counts();
                    registry.chosen |= file.counts();
                    if file.counts() && file.hidden && !own_project {
                        survey.tell("npm_config_registry", &value);
                    }
                }
                "proxy" | "https-proxy" if value != "null" => survey.own_proxy("npm", &file),
                scope if scope.starts_with('@') && scope.ends_with(":registry") => {
                    survey.url("npm", &value, &file);
                    if file.counts() && file.hidden {
                        survey.tell(&format!("npm_config_{scope}"), &value);
                    }
                }
                _ => {}
            }
        }
    }
    registry.default = default(survey, program.as_deref(), registry.chosen);
    registry
}

/// npm takes its variables in either case, and `-` for `_`.
fn variables(survey: &Survey<'_>) -> Vec<(String, String)> {
    let text = survey.host.vars().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
    text.filter(|(_, value)| !value.is_empty())
        .filter_map(|(name, value)| {
            let (prefix, rest) = name.split_at_checked("npm_config_".len())?;
            prefix.eq_ignore_ascii_case("npm_config_").then(|| (rest.to_ascii_lowercase(), value.to_owned()))
        })
        .collect()
}

/// From the strongest to the weakest: project, user, global, built in.
fn files(survey: &Survey<'_>, program: Option<&Path>) -> Vec<PathBuf> {
    let host = survey.host;
    let named = |name: &str| host.path_var(name).or_else(|| host.path_var(&name.to_ascii_lowercase()));
    let mut files = vec![survey.workspace.join(".npmrc")];
    files.extend(match named("NPM_CONFIG_USERCONFIG") {
        Some(path) => Some(path.to_path_buf()),
        None => host.home().map(|home| home.join(".npmrc")),
    });
    files.extend(survey.config_home().map(|home| home.join("pnpm/rc")));
    match named("NPM_CONFIG_GLOBALCONFIG") {
        Some(path) => files.push(path.to_path_buf()),
        None => {
            let prefix = survey.program("node").and_then(|node| Some(node.parent()?.parent()?.to_path_buf()));
            files.extend(prefix.map(|prefix| prefix.join("etc/npmrc")));
            files.push(PathBuf::from("/etc/npmrc"));
        }
    }
    files.extend(program.and_then(package_of).map(|package| package.join("npmrc")));
    files
}

/// The directory of the package that `bin/npm-cli.js` belongs to.
fn package_of(program: &Path) -> Option<&Path> {
    program.parent()?.parent()
}

/// Where npm keeps the default of `registry`, by version: 9, 7, 6.
const DEFAULTS: [&str; 4] = [
    "node_modules/@npmcli/config/lib/definitions/definitions.js",
    "../@npmcli/config/lib/definitions/definitions.js",
    "lib/utils/config/definitions.js",
    "lib/config/defaults.js",
];

/// The built-in registry, which is granted unless another was chosen.
fn default(survey: &mut Survey<'_>, program: Option<&Path>, chosen: bool) -> Option<String> {
    let package = program.and_then(package_of);
    let found = DEFAULTS.iter().filter_map(|rest| Some(package?.join(rest))).find_map(|path| {
        if !survey.is_believable(&path) {
            return None;
        }
        let of = |marker: &str| literal::after(&path, marker, literal::quoted_url);
        let registry = of("define('registry',")
            .or_else(|| of("new Definition('registry',"))
            .or_else(|| of("registry: "));
        Some((registry?, path))
    });
    if chosen {
        return found.map(|(registry, _)| registry);
    }
    let Some((registry, path)) = found else {
        survey
            .gap("npm's default registry is not known, as no npm was found in PATH: name it by --allow-host");
        return None;
    };
    let source = Source::Default(UnixPath::from(path.as_path()));
    survey.add("npm", url::target(&registry), Trust::Granted, source);
    Some(registry)
}

/// `${NAME}` in a value.
fn expand(survey: &Survey<'_>, value: &str) -> String {
    let mut parts = value.split("${");
    let mut expanded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('}') {
            Some((name, rest)) => {
                expanded.push_str(survey.variable(name).unwrap_or_default());
                expanded.push_str(rest);
            }
            None => expanded.push_str(part),
        }
    }
    expanded
}

/// Yarn matters where the workspace has its lock file.
fn yarn(survey: &mut Survey<'_>) {
    if survey.workspace.join("yarn.lock").symlink_metadata().is_err() {
        return;
    }
    let mut chosen = false;
    for name in ["YARN_REGISTRY", "YARN_NPM_REGISTRY_SERVER"] {
        if let Some(value) = survey.variable(name) {
            survey.url_of_variable("yarn", value, name);
            survey.tell(name, value);
            chosen = true;
        }
    }
    let home = survey.host.home();
    for directory in [Some(survey.workspace.to_path_buf()), home].into_iter().flatten() {
        for (name, key) in [(".yarnrc", "registry "), (".yarnrc.yml", "npmRegistryServer:")] {
            let Some(file) = survey.config(&directory.join(name)) else { continue };
            for value in file.text.lines().filter_map(|line| line.trim_start().strip_prefix(key)) {
                survey.url("yarn", unquoted(value.trim()), &file);
                chosen |= file.counts();
            }
        }
    }
    if chosen {
        return;
    }
    match yarn_default(survey) {
        Some((registry, path)) => {
            let source = Source::Default(UnixPath::from(path.as_path()));
            survey.add("yarn", url::target(&registry), Trust::Granted, source);
        }
        None => survey.gap("Yarn's default registry is not known: name it by --allow-host"),
    }
}

/// The default of Yarn 1 beside the program, of later versions in what Corepack has fetched.
fn yarn_default(survey: &Survey<'_>) -> Option<(String, PathBuf)> {
    let beside =
        ["yarn", "yarnpkg"].into_iter().filter_map(|name| survey.program(name)).flat_map(|program| {
            let package = program.parent().and_then(Path::parent).map(Path::to_path_buf).unwrap_or_default();
            ["lib/constants.js", "lib/cli.js"].map(|rest| package.join(rest))
        });
    let cache = match survey.host.path_var("COREPACK_HOME") {
        Some(home) => Some(home.to_path_buf()),
        None => survey.host.home().map(|home| home.join(".cache/node/corepack")),
    };
    let fetched = cache
        .into_iter()
        .flat_map(|cache| [cache.join("v1/yarn"), cache.join("yarn")])
        .flat_map(|versions| super::survey::entries_of(&versions))
        .flat_map(|version| [version.join("yarn.js"), version.join("lib/cli.js")]);
    beside.chain(fetched).filter(|path| survey.is_believable(path)).find_map(|path| {
        let of = |marker: &str| literal::after(&path, marker, literal::quoted_url);
        Some((of("YARN_REGISTRY = ").or_else(|| of("npmRegistryServer:"))?, path))
    })
}

/// Hosts of the packages that the project has locked. npm asks the registry that is configured for those of its
/// built-in one.
fn locks(survey: &mut Survey<'_>, default: Option<String>) {
    let default = default.as_deref().and_then(url::target);
    for (name, marker) in [
        ("package-lock.json", "\"resolved\": \""),
        ("npm-shrinkwrap.json", "\"resolved\": \""),
        ("yarn.lock", "resolved \""),
    ] {
        let Some(file) = survey.lock(name) else { continue };
        add_all(survey, &file, quoted_after(&file.text, marker), default.as_ref());
    }
    if let Some(file) = survey.lock("pnpm-lock.yaml") {
        let tarballs =
            file.text.split("tarball: ").skip(1).filter_map(|rest| rest.split([',', '}', '\n']).next());
        add_all(survey, &file, tarballs, default.as_ref());
    }
}

fn add_all<'t>(
    survey: &mut Survey<'_>,
    file: &ConfigFile,
    urls: impl Iterator<Item = &'t str>,
    default: Option<&super::Target>,
) {
    for text in urls {
        let target = url::target(text).filter(|target| Some(target) != default);
        survey.add("npm", target, file.trust, file.source());
    }
}
