//! Go. Source: the Go modules reference, `go help environment`.

use std::path::{Path, PathBuf};

use ringfence_types::UnixPath;

use super::ini::unquoted;
use super::survey::{Survey, Trust};
use super::{Source, Target, literal, url};

/// A setting and who says it.
struct Setting {
    value: String,
    trust: Trust,
    source: Source,
}

pub(super) fn read(survey: &mut Survey<'_>) {
    let root = root(survey);
    if let Some(Setting { value, trust, source }) = setting(survey, root.as_deref(), "GOPROXY") {
        // A proxy is asked after the one before it has failed.
        let entries = || value.split([',', '|']).map(str::trim);
        if entries().next() == Some("direct") {
            survey
                .gap("Go fetches modules from their own hosts (GOPROXY=direct): name these by --allow-host");
        }
        for entry in entries() {
            survey.add("go", url::target(entry), trust, source.clone());
        }
    }
    if let Some(Setting { value, trust, source }) = setting(survey, root.as_deref(), "GOSUMDB") {
        // `off`, `NAME`, `NAME+KEY`, or either and a URL in its place.
        let (name, at) = value.split_once(' ').unwrap_or((&value, ""));
        let target = match (name, at) {
            ("off", _) => None,
            (name, "") => {
                let name = name.split_once('+').map_or(name, |(name, _)| name);
                let host = name.split_once('/').map_or(name, |(host, _)| host);
                url::named(host, 443)
            }
            (_, at) => url::target(at),
        };
        survey.add("go", target, trust, source);
    }
    for name in ["GOPRIVATE", "GONOPROXY"] {
        if let Some(Setting { value, trust, source }) = private(survey, name) {
            for pattern in value.split(',') {
                survey.add("go", host_of(pattern), trust, source.clone());
            }
        }
    }
    survey.pass(&["GOSUMDB", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOINSECURE"]);
    if let Some(proxies) = survey.variable("GOPROXY") {
        // Each entry is a URL of its own, with a login of its own.
        let clean = proxies.split_inclusive([',', '|']).filter_map(|entry| {
            let url = entry.trim_end_matches([',', '|']);
            Some(url::without_login(url)? + &entry[url.len()..])
        });
        let clean: String = clean.collect();
        survey.tell("GOPROXY", &clean);
    }
}

/// GOROOT: the variable, or where the program lies.
fn root(survey: &Survey<'_>) -> Option<PathBuf> {
    let named = survey.host.path_var("GOROOT").map(Path::to_path_buf);
    named.or_else(|| Some(survey.program("go")?.parent()?.parent()?.to_path_buf()))
}

/// The variable, the user's file, the machine's file, the built-in default.
fn setting(survey: &mut Survey<'_>, root: Option<&Path>, name: &'static str) -> Option<Setting> {
    let own = private(survey, name);
    if own.is_some() {
        return own;
    }
    let Some(root) = root else {
        survey.gap(
            "Go's default module proxy is not known, as no go was found in PATH: name it by --allow-host",
        );
        return None;
    };
    let machine = root.join("go.env");
    if let Some(found) = in_file(survey, &machine, name) {
        return Some(Setting { source: Source::Default(UnixPath::from(machine.as_path())), ..found });
    }
    // Before Go 1.21 the default stood in the source alone.
    let code = root.join("src/cmd/go/internal/cfg/cfg.go");
    let value = survey
        .is_believable(&code)
        .then(|| literal::after(&code, &format!("envOr(\"{name}\", \""), literal::to_quote))
        .flatten();
    match value {
        Some(value) => {
            let source = Source::Default(UnixPath::from(code.as_path()));
            Some(Setting { value, trust: Trust::Granted, source })
        }
        None => {
            survey.gap(&format!("Go's default of {name} is not known: name its host by --allow-host"));
            None
        }
    }
}

/// The variable or the user's file.
fn private(survey: &mut Survey<'_>, name: &'static str) -> Option<Setting> {
    if let Some(value) = survey.variable(name) {
        let source = Source::Variable(name.to_owned());
        return Some(Setting { value: value.to_owned(), trust: Trust::Granted, source });
    }
    let file = match survey.variable("GOENV") {
        Some("off") => return None,
        Some(file) => PathBuf::from(file),
        None => survey.config_home()?.join("go/env"),
    };
    in_file(survey, &file, name)
}

/// A line `NAME=value`; the last one counts.
fn in_file(survey: &mut Survey<'_>, path: &Path, name: &str) -> Option<Setting> {
    let file = survey.config(path)?;
    let mut lines = file.text.lines().filter_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='));
    let value =
        lines.next_back().map(|value| unquoted(value.trim()).to_owned()).filter(|value| !value.is_empty())?;
    Some(Setting { value, trust: file.trust, source: file.source() })
}

/// The host of a glob of module paths, as `*.a.test/x`: only a whole first label may be a wildcard.
fn host_of(pattern: &str) -> Option<Target> {
    let host = pattern.trim().split('/').next().filter(|host| host.contains('.'))?;
    format!("{host}:443").parse().ok().map(Target::Host)
}
