//! Maven. Sources: its settings reference, and the POM reference on repositories.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use ringfence_types::UnixPath;
use roxmltree::{Document, Node};

use super::survey::{ConfigFile, Survey, Trust, entries_of};
use super::{Source, url};

/// The text that every project inherits ("super POM"), within a library of Maven's.
const SUPER_POM: &str = "org/apache/maven/model/pom-4.0.0.xml";
/// Bytes of that text.
const MAX_SUPER_POM: u64 = 1 << 20;
/// What the Gradle wrapper of a project fetches Gradle from.
const WRAPPER: &str = "gradle/wrapper/gradle-wrapper.properties";

/// Files that say that a project is built by Gradle.
const GRADLE: [&str; 5] =
    ["build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "gradlew"];

pub(super) fn read(survey: &mut Survey<'_>) {
    let mut mirrored = false;
    for path in files(survey) {
        mirrored |= config(survey, &path);
    }
    if !mirrored && !defaults(survey) {
        survey.gap(
            "Maven's default repository is not known, as neither a mirror of it nor the installed Maven names it: \
             name it by --allow-host",
        );
    }
    if let Some(file) = survey.config(&survey.workspace.join(WRAPPER)) {
        // Colons are escaped in Java's properties.
        let distribution = file
            .text
            .lines()
            .find_map(|line| line.trim().strip_prefix("distributionUrl")?.trim().strip_prefix('='));
        if let Some(url) = distribution {
            survey.url("gradle", &url.replace("\\:", ":"), &file);
        }
    }
    if GRADLE.iter().any(|name| survey.workspace.join(name).symlink_metadata().is_ok()) {
        survey.gap("the package hosts of Gradle are not read: name them by --allow-host");
    }
}

/// Project, user, machine.
fn files(survey: &Survey<'_>) -> Vec<PathBuf> {
    let project = ["pom.xml", ".mvn/settings.xml"].map(|name| survey.workspace.join(name));
    let user = survey.host.home().map(|home| home.join(".m2/settings.xml"));
    project.into_iter().chain(user).chain(root(survey).map(|root| root.join("conf/settings.xml"))).collect()
}

/// Where Maven is installed.
fn root(survey: &Survey<'_>) -> Option<PathBuf> {
    match survey.host.path_var("MAVEN_HOME") {
        Some(root) => Some(root.to_path_buf()),
        None => survey.program("mvn").and_then(|program| Some(program.parent()?.parent()?.to_path_buf())),
    }
}

/// Adds the repositories that the installed Maven uses by itself. Whether there are any.
fn defaults(survey: &mut Survey<'_>) -> bool {
    let libraries = root(survey).map(|root| entries_of(&root.join("lib"))).unwrap_or_default();
    let is_model = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("maven-model-builder-") && name.ends_with(".jar")
    };
    let Some(library) = libraries.into_iter().find(|path| is_model(path) && survey.is_believable(path))
    else {
        return false;
    };
    let text = super_pom(&library).unwrap_or_default();
    let Ok(document) = Document::parse(&text) else { return false };
    let mut any = false;
    for node in document.descendants() {
        if let ("repository" | "pluginRepository", Some(url)) = (node.tag_name().name(), child(node, "url")) {
            let source = Source::Default(UnixPath::from(library.as_path()));
            survey.add("maven", url::target(url), Trust::Granted, source);
            any = true;
        }
    }
    any
}

/// `None` if the library can't be read or has no such text.
fn super_pom(library: &Path) -> Option<String> {
    let mut archive = zip::ZipArchive::new(File::open(library).ok()?).ok()?;
    let mut text = String::new();
    archive.by_name(SUPER_POM).ok()?.take(MAX_SUPER_POM).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Whether a mirror stands in for the default repository, for the user.
fn config(survey: &mut Survey<'_>, path: &Path) -> bool {
    let Some(file) = survey.config(path) else { return false };
    let Ok(document) = Document::parse(&file.text) else {
        survey.gap(&format!("{} is no valid XML", UnixPath::from(path)));
        return false;
    };
    let mut mirrored = false;
    let mut named = false;
    for node in document.descendants() {
        let url = || child(node, "url");
        match node.tag_name().name() {
            "mirror" if child(node, "blocked") != Some("true") => {
                let of = child(node, "mirrorOf").unwrap_or_default();
                mirrored |= of.split(',').any(|of| matches!(of.trim(), "*" | "external:*" | "central"));
                url().into_iter().for_each(|url| survey.url("maven", url, &file));
                named = true;
            }
            "repository" | "pluginRepository" => {
                url().into_iter().for_each(|url| survey.url("maven", url, &file));
                named |= url().is_some();
            }
            "proxy" if child(node, "host").is_some() => survey.own_proxy("Maven", &file),
            _ => {}
        }
    }
    if named {
        hidden(survey, &file);
    }
    mirrored && file.counts()
}

fn hidden(survey: &mut Survey<'_>, file: &ConfigFile) {
    if file.hidden && file.counts() {
        let path = UnixPath::from(file.path.as_path());
        survey.gap(&format!("{path} holds a login and is hidden in the box, with the mirrors that it names"));
    }
}

/// The text of a child element.
fn child<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    node.children().find(|child| child.tag_name().name() == name)?.text().map(str::trim)
}
