//! pip and uv. Sources: pip's user guide on configuration, uv's reference of settings.

use std::path::{Path, PathBuf};

use ringfence_types::UnixPath;
use toml::{Table, Value};

use super::ini::entries;
use super::survey::{ConfigFile, Survey, Trust, entries_of, quoted_after};
use super::{Source, literal, url};

/// Variables that name the index, and those that name further ones.
const INDEX: [&str; 3] = ["PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"];
const FURTHER: [&str; 5] =
    ["PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"];

pub(super) fn read(survey: &mut Survey<'_>) {
    let mut chosen = false;
    for name in INDEX.into_iter().chain(FURTHER) {
        if let Some(value) = survey.variable(name) {
            for text in value.split_whitespace() {
                // uv takes `name=URL`.
                let url = text.split_once("=http").map_or(text, |(name, _)| &text[name.len() + 1..]);
                survey.url_of_variable("pip", url, name);
            }
            survey.tell(name, value);
            chosen |= INDEX.contains(&name);
        }
    }
    for path in pip_files(survey) {
        chosen |= pip(survey, &path);
    }
    for path in uv_files(survey) {
        chosen |= uv(survey, &path);
    }
    requirements(survey);
    locks(survey);
    if !chosen {
        default(survey);
    }
}

/// From the strongest to the weakest: site, user, global.
fn pip_files(survey: &Survey<'_>) -> Vec<PathBuf> {
    let host = survey.host;
    if let Some(file) = host.path_var("PIP_CONFIG_FILE") {
        return vec![file.to_path_buf()];
    }
    let mut files: Vec<PathBuf> =
        host.path_var("VIRTUAL_ENV").map(|env| env.join("pip.conf")).into_iter().collect();
    files.extend([".venv/pip.conf", "venv/pip.conf"].map(|file| survey.workspace.join(file)));
    files.extend(survey.config_home().map(|home| home.join("pip/pip.conf")));
    files.extend(host.home().map(|home| home.join(".pip/pip.conf")));
    let system = survey.variable("XDG_CONFIG_DIRS").unwrap_or("/etc/xdg");
    files.extend(std::env::split_paths(system).map(|directory| directory.join("pip/pip.conf")));
    files.push(PathBuf::from("/etc/pip.conf"));
    files
}

/// Whether it chooses the index, for the user.
fn pip(survey: &mut Survey<'_>, path: &Path) -> bool {
    let Some(file) = survey.config(path) else { return false };
    let mut chosen = false;
    for entry in entries(&file.text) {
        if !matches!(entry.section, "global" | "install" | "download" | "wheel" | "") {
            continue;
        }
        let variable = match entry.key.replace('_', "-").as_str() {
            "index-url" => "PIP_INDEX_URL",
            "extra-index-url" => "PIP_EXTRA_INDEX_URL",
            "find-links" => "PIP_FIND_LINKS",
            "proxy" => {
                survey.own_proxy("pip", &file);
                continue;
            }
            _ => continue,
        };
        let urls = entry.values.iter().flat_map(|value| value.split_whitespace());
        urls.for_each(|url| survey.url("pip", url, &file));
        if file.counts() {
            chosen |= variable == "PIP_INDEX_URL";
            if file.hidden && survey.variable(variable).is_none() {
                survey.tell(variable, &entry.values.join(" "));
            }
        }
    }
    chosen
}

fn uv_files(survey: &Survey<'_>) -> Vec<PathBuf> {
    let workspace = ["pyproject.toml", "uv.toml"].map(|file| survey.workspace.join(file));
    let user = match survey.host.path_var("UV_CONFIG_FILE") {
        Some(file) => Some(file.to_path_buf()),
        None => survey.config_home().map(|home| home.join("uv/uv.toml")),
    };
    workspace.into_iter().chain(user).chain([PathBuf::from("/etc/uv/uv.toml")]).collect()
}

/// Whether it chooses the index, for the user.
fn uv(survey: &mut Survey<'_>, path: &Path) -> bool {
    let Some(file) = survey.config(path) else { return false };
    let Ok(table) = file.text.parse::<Table>() else {
        survey.gap(&format!("{} is no valid TOML", UnixPath::from(path)));
        return false;
    };
    let section = |names: &[&str]| {
        names.iter().try_fold(&table, |table, name| table.get(*name).and_then(Value::as_table))
    };
    let (settings, poetry) = if path.ends_with("pyproject.toml") {
        (section(&["tool", "uv"]), section(&["tool", "poetry"]))
    } else {
        (Some(&table), None)
    };
    let mut chosen = false;
    for settings in
        settings.into_iter().flat_map(|own| [Some(own), own.get("pip").and_then(Value::as_table)]).flatten()
    {
        for key in ["index-url", "extra-index-url", "find-links"] {
            strings(settings.get(key)).for_each(|url| survey.url("uv", url, &file));
        }
        chosen |= settings.contains_key("index-url");
        for index in tables(settings.get("index")) {
            strings(index.get("url")).for_each(|url| survey.url("uv", url, &file));
            chosen |= index.get("default").and_then(Value::as_bool) == Some(true);
        }
    }
    for source in poetry.into_iter().flat_map(|poetry| tables(poetry.get("source"))) {
        strings(source.get("url")).for_each(|url| survey.url("poetry", url, &file));
    }
    chosen && file.counts()
}

/// A string, or the strings of an array.
fn strings(value: Option<&Value>) -> impl Iterator<Item = &str> {
    let list = match value {
        Some(Value::Array(list)) => list.as_slice(),
        Some(value) => std::slice::from_ref(value),
        None => &[],
    };
    list.iter().filter_map(Value::as_str)
}

fn tables(value: Option<&Value>) -> impl Iterator<Item = &Table> {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default().iter().filter_map(Value::as_table)
}

/// Options and URLs in requirement files at the top of the workspace.
fn requirements(survey: &mut Survey<'_>) {
    const OPTIONS: [&str; 5] = ["--index-url", "--extra-index-url", "--find-links", "-i", "-f"];
    for path in entries_of(survey.workspace) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !(name.starts_with("requirements") && name.ends_with(".txt")) {
            continue;
        }
        let Some(file) = survey.config(&path) else { continue };
        for line in file.text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            let option = OPTIONS.iter().find_map(|option| line.strip_prefix(option));
            let url = match option {
                Some(rest) => rest.trim_start_matches(['=', ' ', '\t']).split_whitespace().next(),
                None => line.split_whitespace().find(|word| word.contains("://")),
            };
            if let Some(url) = url {
                survey.url("pip", url, &file);
            }
        }
    }
}

/// Indexes and files that uv has locked.
fn locks(survey: &mut Survey<'_>) {
    let Some(file) = survey.lock("uv.lock") else { return };
    add_all(survey, &file, "registry = \"");
    add_all(survey, &file, "url = \"");
}

fn add_all(survey: &mut Survey<'_>, file: &ConfigFile, marker: &'static str) {
    quoted_after(&file.text, marker).for_each(|url| survey.url("uv", url, file));
}

/// pip's own index and the host of its files, from the first pip that is installed. uv has the same.
fn default(survey: &mut Survey<'_>) {
    const MODULE: &str = "pip/_internal/models/index.py";
    let found = libraries(survey).into_iter().map(|library| library.join(MODULE)).find_map(|path| {
        if !survey.is_believable(&path) {
            return None;
        }
        let index = literal::after(&path, "PyPI = PackageIndex(", literal::quoted_url)?;
        let files = literal::after(&path, "file_storage_domain=\"", literal::to_quote).or_else(|| {
            literal::after(&path, "file_storage_domain='", |bytes| {
                let end = bytes.iter().position(|&byte| byte == b'\'')?;
                String::from_utf8(bytes[..end].to_vec()).ok()
            })
        });
        Some((index, files, path))
    });
    let Some((index, files, path)) = found else {
        survey.gap("pip's default index is not known, as no pip was found beside a Python in PATH: name it by --allow-host");
        return;
    };
    let source = Source::Default(UnixPath::from(path.as_path()));
    survey.add("pip", url::target(&index), Trust::Granted, source.clone());
    survey.add("pip", files.and_then(|files| url::named(&files, 443)), Trust::Granted, source);
}

/// Directories that hold packages of the interpreters in `PATH`, and of those that pyenv keeps.
fn libraries(survey: &Survey<'_>) -> Vec<PathBuf> {
    let named = ["python3", "python", "pip3", "pip"];
    let mut prefixes: Vec<PathBuf> = named
        .iter()
        .flat_map(|name| survey.programs(name))
        .filter_map(|program| Some(program.parent()?.parent()?.to_path_buf()))
        .collect();
    let pyenv = match survey.host.path_var("PYENV_ROOT") {
        Some(root) => Some(root.to_path_buf()),
        None => survey.host.home().map(|home| home.join(".pyenv")),
    };
    prefixes.extend(pyenv.into_iter().flat_map(|root| entries_of(&root.join("versions"))));
    prefixes.dedup();
    let of = |prefix: &PathBuf| {
        let library = prefix.join("lib");
        let versions = entries_of(&library).into_iter().filter(|path| {
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("python"))
        });
        versions
            .flat_map(|version| [version.join("site-packages"), version.join("dist-packages")])
            .collect::<Vec<_>>()
    };
    prefixes.iter().flat_map(of).collect()
}
