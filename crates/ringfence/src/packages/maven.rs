//! Maven. Sources: its settings reference, and the POM reference on repositories.

use std::path::{Path, PathBuf};

use ringfence_types::UnixPath;
use roxmltree::{Document, Node};

use super::survey::{ConfigFile, Survey};

/// Files that say that a project is built by Gradle.
const GRADLE: [&str; 5] =
    ["build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "gradlew"];

pub(super) fn read(survey: &mut Survey<'_>) {
    let mut mirrored = false;
    for path in files(survey) {
        mirrored |= config(survey, &path);
    }
    if !mirrored {
        survey.gap("Maven's default repository is not known, as no mirror of it is configured: name it by --allow-host");
    }
    if GRADLE.iter().any(|name| survey.workspace.join(name).symlink_metadata().is_ok()) {
        survey.gap("the package hosts of Gradle are not read: name them by --allow-host");
    }
}

/// Project, user, machine.
fn files(survey: &Survey<'_>) -> Vec<PathBuf> {
    let project = ["pom.xml", ".mvn/settings.xml"].map(|name| survey.workspace.join(name));
    let user = survey.host.home().map(|home| home.join(".m2/settings.xml"));
    let root = match survey.host.path_var("MAVEN_HOME") {
        Some(root) => Some(root.to_path_buf()),
        None => survey.program("mvn").and_then(|program| Some(program.parent()?.parent()?.to_path_buf())),
    };
    project.into_iter().chain(user).chain(root.map(|root| root.join("conf/settings.xml"))).collect()
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
