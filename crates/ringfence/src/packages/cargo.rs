//! Cargo. Source: the Cargo book on configuration, source replacement and registries.

use std::path::{Path, PathBuf};

use ringfence_types::UnixPath;
use serde_json::Value as Json;
use toml::{Table, Value};

use super::survey::{ConfigFile, Survey, Trust, entries_of, quoted_after};
use super::{Source, Target, literal, url};

pub(super) fn read(survey: &mut Survey<'_>) {
    for (name, value) in variables(survey) {
        survey.url_of_variable("cargo", &value, &name);
        survey.tell(&name, &value);
    }
    cache(survey);
    let mut replaced = false;
    let mut registries = Vec::new();
    for path in files(survey) {
        let Some(file) = survey.config(&path) else { continue };
        let Ok(table) = file.text.parse::<Table>() else {
            survey.gap(&format!("{} is no valid TOML", UnixPath::from(path.as_path())));
            continue;
        };
        config(survey, &file, &table, &mut registries);
        let builtin = table.get("source").and_then(|sources| sources.get("crates-io"));
        replaced |= file.counts() && builtin.is_some_and(|source| source.get("replace-with").is_some());
    }
    if !replaced {
        default(survey);
    }
    for (index, source) in registries {
        downloads(survey, &index, &source);
    }
    lock(survey);
}

/// `CARGO_REGISTRIES_NAME_INDEX`.
fn variables(survey: &Survey<'_>) -> Vec<(String, String)> {
    let text = survey.host.vars().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
    text.filter(|(name, _)| name.starts_with("CARGO_REGISTRIES_") && name.ends_with("_INDEX"))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn home(survey: &Survey<'_>) -> Option<PathBuf> {
    let named = survey.host.path_var("CARGO_HOME").map(Path::to_path_buf);
    named.or_else(|| Some(survey.host.home()?.join(".cargo")))
}

/// Without a directory of the host's, no layer can lie above one. Where there is no configuration to lose, Cargo gets
/// another home.
fn cache(survey: &mut Survey<'_>) {
    let Some(home) = home(survey) else { return };
    if home.join("registry").is_dir() {
        return;
    }
    let configured = ["config", "config.toml", "credentials", "credentials.toml"];
    if configured.iter().all(|name| home.join(name).symlink_metadata().is_err()) {
        survey.tell("CARGO_HOME", "/tmp/cargo-home");
    } else {
        let path = UnixPath::from(home.join("registry").as_path());
        survey.gap(&format!("Cargo has nowhere to keep packages in the box: create the directory {path}"));
    }
}

/// From the workspace upwards, then Cargo's own directory.
fn files(survey: &Survey<'_>) -> Vec<PathBuf> {
    let directories =
        survey.workspace.ancestors().map(|directory| directory.join(".cargo")).chain(home(survey));
    let mut files: Vec<PathBuf> = Vec::new();
    for file in directories.flat_map(|directory| [directory.join("config"), directory.join("config.toml")]) {
        if !files.contains(&file) {
            files.push(file);
        }
    }
    files
}

fn config(survey: &mut Survey<'_>, file: &ConfigFile, table: &Table, registries: &mut Vec<(String, Source)>) {
    let section = |name: &str| table.get(name).and_then(Value::as_table);
    let text = |table: &Table, key: &str| table.get(key).and_then(Value::as_str).map(str::to_owned);
    let indexes = section("registries")
        .into_iter()
        .flatten()
        .filter_map(|(_, registry)| text(registry.as_table()?, "index"));
    let sources = section("source");
    let replacing = sources.into_iter().flatten().filter_map(|(_, source)| {
        let source = source.as_table()?;
        text(source, "registry").or_else(|| text(source, "git"))
    });
    let old = section("registry").and_then(|registry| text(registry, "index"));
    let mut named = false;
    for index in indexes.chain(replacing).chain(old) {
        survey.url("cargo", &index, file);
        if file.counts() {
            registries.push((index, file.source()));
        }
        named = true;
    }
    if section("http").is_some_and(|http| http.contains_key("proxy")) {
        survey.own_proxy("cargo", file);
    }
    if named && file.hidden && file.counts() {
        let path = UnixPath::from(file.path.as_path());
        survey.gap(&format!(
            "{path} holds a token and is hidden in the box, with the registries that it names: move the token to credentials.toml"
        ));
    }
}

/// The built-in registry, from the text of an installed Cargo.
fn default(survey: &mut Survey<'_>) {
    let found = programs(survey)
        .into_iter()
        .find_map(|path| Some((literal::after(&path, "sparse+https://", literal::host_name)?, path)));
    let Some((index, path)) = found else {
        survey.gap(
            "Cargo's default registry is not known, as no cargo was found in PATH: name it by --allow-host",
        );
        return;
    };
    let source = Source::Default(UnixPath::from(path.as_path()));
    survey.add("cargo", url::named(&index, 443), Trust::Granted, source.clone());
    if downloads(survey, &format!("https://{index}/"), &source) {
        return;
    }
    // The index says where its files lie, which is known once it has been fetched. The built-in registry has them
    // beside it.
    if let Some((_, domain)) = index.split_once('.').filter(|(_, domain)| domain.contains('.'))
        && let Ok(beside) = format!("*.{domain}:443").parse()
    {
        survey.add("cargo", Some(Target::Host(beside)), Trust::Granted, source);
    }
}

/// Cargo itself: rustup's `cargo` only starts that of a toolchain.
fn programs(survey: &Survey<'_>) -> Vec<PathBuf> {
    let Some(cargo) = survey.program("cargo") else { return Vec::new() };
    let root = match survey.host.path_var("RUSTUP_HOME") {
        Some(root) => Some(root.to_path_buf()),
        None => survey.host.home().map(|home| home.join(".rustup")),
    };
    let toolchains = root.into_iter().flat_map(|root| entries_of(&root.join("toolchains")));
    let installed = toolchains.map(|toolchain| toolchain.join("bin/cargo"));
    installed.filter(|path| survey.is_believable(path)).chain([cargo]).collect()
}

/// The host of a registry's files, as its index says in what Cargo has fetched of it. Whether anything is known.
fn downloads(survey: &mut Survey<'_>, index: &str, source: &Source) -> bool {
    let Some(Target::Host(host)) = url::target(index) else { return false };
    let host = host.to_string();
    let Some((name, _)) = host.rsplit_once(':') else { return false };
    let fetched = home(survey).map(|home| entries_of(&home.join("registry/index"))).unwrap_or_default();
    let mut known = false;
    for directory in fetched {
        // NAME-HASH
        let of = directory.file_name().and_then(|own| own.to_str()).and_then(|own| own.rsplit_once('-'));
        if of.is_none_or(|(own, _)| own != name) {
            continue;
        }
        let Some(file) = survey.config(&directory.join("config.json")).filter(ConfigFile::counts) else {
            continue;
        };
        let Ok(config) = serde_json::from_str::<Json>(&file.text) else { continue };
        if let Some(dl) = config.get("dl").and_then(Json::as_str) {
            survey.add("cargo", url::target(dl), Trust::Granted, source.clone());
            known = true;
        }
    }
    known
}

/// Repositories and registries that the project has locked.
fn lock(survey: &mut Survey<'_>) {
    let Some(file) = survey.lock("Cargo.lock") else { return };
    for marker in ["source = \"git+", "source = \"sparse+"] {
        quoted_after(&file.text, marker).for_each(|url| survey.url("cargo", url, &file));
    }
}
