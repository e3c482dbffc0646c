use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

/// A home directory, a workspace and a directory of programs.
struct Machine {
    dir: tempfile::TempDir,
    vars: Vec<(OsString, OsString)>,
    hidden: Vec<PathBuf>,
    writable: Vec<PathBuf>,
}

impl Machine {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["home", "work", "bin"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let path = |name: &str| dir.path().join(name).into_os_string();
        let vars = vec![("HOME".into(), path("home")), ("PATH".into(), path("bin"))];
        Self { dir, vars, hidden: Vec::new(), writable: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn file(self, name: &str, text: &str) -> Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn var(mut self, name: &str, value: &str) -> Self {
        self.vars.push((name.into(), value.into()));
        self
    }

    /// A file that the box can't read.
    fn hidden(mut self, name: &str) -> Self {
        self.hidden.push(self.path(name));
        self
    }

    fn find(&self, profile: &str) -> Packages {
        let uid = rustix::process::geteuid().as_raw();
        let host = HostEnv::new(self.vars.clone(), uid, self.path("passwd"));
        let workspace = self.path("work");
        let site = Site { workspace: &workspace, writable: &self.writable, hidden: &self.hidden };
        find(&host, site, &[profile])
    }

    fn npm(self) -> Self {
        let machine = self.file("lib/npm/bin/npm-cli.js", "").file(
            "lib/npm/node_modules/@npmcli/config/lib/definitions/definitions.js",
            "define('registry', {\n  default: 'https://npm.default.test/',\n  type: url,\n",
        );
        symlink("../lib/npm/bin/npm-cli.js", machine.path("bin/npm")).unwrap();
        machine
    }

    fn pip(self) -> Self {
        let machine = self.file("py/bin/python3.11", "").file(
            "py/lib/python3.11/site-packages/pip/_internal/models/index.py",
            "PyPI = PackageIndex(\"https://pip.default.test/\", file_storage_domain=\"files.default.test\")\n\
             TestPyPI = PackageIndex(\n    \"https://other.default.test/\"\n",
        );
        symlink("../py/bin/python3.11", machine.path("bin/python3")).unwrap();
        machine
    }

    fn cargo(self) -> Self {
        fs::create_dir_all(self.path("home/.cargo/registry")).unwrap();
        self.file("bin/cargo", "\0sparse+https://scheme_of\0sparse+https://index.default.test/\0")
    }

    fn go(self) -> Self {
        let machine = self.file("goroot/bin/go", "").file(
            "goroot/go.env",
            "# a comment\nGOPROXY=https://proxy.default.test,direct\nGOSUMDB=sum.default.test\n",
        );
        symlink("../goroot/bin/go", machine.path("bin/go")).unwrap();
        machine
    }
}

fn granted(packages: &Packages) -> Vec<String> {
    packages.granted.iter().map(|named| named.target.to_string()).collect()
}

fn wanted(packages: &Packages) -> Vec<String> {
    packages.wanted.iter().map(|named| named.target.to_string()).collect()
}

fn env(packages: &Packages) -> Vec<(&str, &str)> {
    packages.env.iter().map(|(name, value)| (name.to_str().unwrap(), value.to_str().unwrap())).collect()
}

#[test]
fn what_nothing_configures_is_the_installed_tools_default() {
    for (profile, machine, expected) in [
        ("node", Machine::new().npm(), &["npm.default.test:443"][..]),
        ("python", Machine::new().pip(), &["pip.default.test:443", "files.default.test:443"]),
        ("rust", Machine::new().cargo(), &["index.default.test:443", "*.default.test:443"]),
        ("go", Machine::new().go(), &["proxy.default.test:443", "sum.default.test:443"]),
    ] {
        let packages = machine.find(profile);
        assert_eq!(granted(&packages), expected);
        assert!(packages.granted.iter().all(|named| matches!(named.source, Source::Default(_))), "{profile}");
        assert_eq!((packages.wanted, packages.gaps, packages.env), (vec![], vec![], vec![]), "{profile}");
    }
}

#[test]
fn without_the_tool_nothing_is_granted_and_that_is_said() {
    for profile in ["node", "python", "rust", "go", "java"] {
        let packages = Machine::new().find(profile);
        assert_eq!(granted(&packages), [""; 0], "{profile}");
        assert!(packages.gaps[0].contains("--allow-host"), "{profile}: {:?}", packages.gaps);
    }
    assert_eq!(Machine::new().find("git"), Packages::default());
}

#[test]
fn of_two_registries_in_one_file_the_last_counts() {
    let npm = Machine::new()
        .npm()
        .file("home/.npmrc", "registry=https://a.mirror.test\nregistry=https://b.mirror.test\n");
    assert_eq!(granted(&npm.find("node")), ["b.mirror.test:443"]);
}

#[test]
fn a_file_that_has_another_name_grants_nothing() {
    let npm = Machine::new().npm().file("home/.npmrc", "registry=https://npm.mirror.test\n");
    assert_eq!(granted(&npm.find("node")), ["npm.mirror.test:443"]);
    fs::hard_link(npm.path("home/.npmrc"), npm.path("work/n.rc")).unwrap();
    let packages = npm.find("node");
    assert!(!granted(&packages).contains(&"npm.mirror.test:443".to_owned()), "{packages:?}");
    assert_eq!(wanted(&packages), ["npm.mirror.test:443"]);
}

#[test]
fn what_the_user_configures_takes_the_place_of_the_default() {
    let npm = Machine::new().npm().file(
        "home/.npmrc",
        "registry = https://${NAME}.mirror.test/npm/\n@own:registry=https://own.mirror.test\nproxy=null\n",
    );
    assert_eq!(granted(&npm.var("NAME", "npm").find("node")), ["npm.mirror.test:443", "own.mirror.test:443"]);

    let pip = Machine::new().pip().file(
        "home/.config/pip/pip.conf",
        "[global]\nindex-url = https://pip.mirror.test:8443/simple\nextra-index-url =\n  https://one.test\n  https://two.test\n",
    );
    assert_eq!(granted(&pip.find("python")), ["pip.mirror.test:8443", "one.test:443", "two.test:443"]);

    let uv = Machine::new()
        .pip()
        .file("home/.config/uv/uv.toml", "[[index]]\nurl='https://uv.test'\ndefault=true\n");
    assert_eq!(granted(&uv.find("python")), ["uv.test:443"]);

    let cargo = Machine::new().cargo().file(
        "home/.cargo/config.toml",
        "[source.crates-io]\nreplace-with='m'\n[source.m]\nregistry='sparse+https://crates.mirror.test/index/'\n\
         [registries.own]\nindex='https://own.test'\n",
    );
    let cargo = cargo
        .file(
            "home/.cargo/registry/index/own.test-0123456789abcdef/config.json",
            "{\"dl\":\"https://files.own.test/x\"}",
        )
        .file(
            "home/.cargo/registry/index/else.test-0123456789abcdef/config.json",
            "{\"dl\":\"https://else.test/x\"}",
        );
    let mut hosts = granted(&cargo.find("rust"));
    hosts.sort();
    assert_eq!(hosts, ["crates.mirror.test:443", "files.own.test:443", "own.test:443"]);

    let go = Machine::new().go().file(
        "home/.config/go/env",
        "GOPROXY=https://go.mirror.test|off\nGOSUMDB=sum.own.test+0123+key https://sum.mirror.test\nGOPRIVATE=*.corp.test/x,git.test\n",
    );
    assert_eq!(
        granted(&go.find("go")),
        ["go.mirror.test:443", "sum.mirror.test:443", "*.corp.test:443", "git.test:443"]
    );
}

#[test]
fn variables_beat_files_and_reach_the_tool_without_their_logins() {
    let npm = Machine::new().npm().file("home/.npmrc", "registry=https://file.test/\n");
    let packages = npm.var("NPM_CONFIG_REGISTRY", "https://me:secret@env.test/").find("node");
    assert_eq!(granted(&packages), ["env.test:443"]);
    assert_eq!(env(&packages), [("npm_config_registry", "https://env.test/")]);
    assert!(
        packages.gaps[0].contains("login") && !format!("{packages:?}").contains("secret"),
        "{packages:?}"
    );

    let packages = Machine::new()
        .pip()
        .var("PIP_INDEX_URL", "https://a.test/simple")
        .var("PIP_EXTRA_INDEX_URL", "https://u:secret@b.test https://c.test")
        .find("python");
    assert_eq!(granted(&packages), ["a.test:443", "b.test:443", "c.test:443"]);
    assert_eq!(env(&packages)[1], ("PIP_EXTRA_INDEX_URL", "https://b.test/ https://c.test"));

    let packages =
        Machine::new().go().var("GOPROXY", "https://u:secret@a.test,direct").var("GOSUMDB", "off").find("go");
    assert_eq!(granted(&packages), ["a.test:443"]);
    assert_eq!(env(&packages), [("GOSUMDB", "off"), ("GOPROXY", "https://a.test/,direct")]);

    let proxies = "https://u:secret@a.test|https://b.test,off";
    let packages = Machine::new().go().var("GOPROXY", proxies).var("GOSUMDB", "off").find("go");
    assert_eq!(granted(&packages), ["a.test:443", "b.test:443"]);
    assert_eq!(env(&packages)[1], ("GOPROXY", "https://a.test/|https://b.test,off"));
    for (proxies, gaps) in [("off", 0), ("direct", 1)] {
        let packages = Machine::new().go().var("GOPROXY", proxies).var("GOSUMDB", "off").find("go");
        assert_eq!(
            (granted(&packages), packages.gaps.len()),
            (vec![], gaps),
            "{proxies}: {:?}",
            packages.gaps
        );
        assert_eq!(env(&packages)[1], ("GOPROXY", proxies));
    }

    let packages =
        Machine::new().cargo().var("CARGO_REGISTRIES_OWN_INDEX", "sparse+https://a.test/").find("rust");
    assert_eq!(granted(&packages)[0], "a.test:443");
}

#[test]
fn a_file_that_the_box_cannot_read_is_told_by_variables() {
    let text = "registry=https://a.test/\n@own:registry=https://b.test/\n//a.test/:_authToken=secret\n";
    let packages = Machine::new().npm().file("home/.npmrc", text).hidden("home/.npmrc").find("node");
    assert_eq!(granted(&packages), ["a.test:443", "b.test:443"]);
    assert_eq!(
        env(&packages),
        [("npm_config_registry", "https://a.test/"), ("npm_config_@own:registry", "https://b.test/")]
    );
    let text = "[global]\nindex-url=https://u:secret@a.test/simple\n";
    let packages =
        Machine::new().pip().file("home/.pip/pip.conf", text).hidden("home/.pip/pip.conf").find("python");
    assert_eq!(env(&packages), [("PIP_INDEX_URL", "https://a.test/simple")]);
    let text = "[registries.own]\nindex='https://a.test'\ntoken='secret'\n";
    let packages = Machine::new()
        .cargo()
        .file("home/.cargo/config.toml", text)
        .hidden("home/.cargo/config.toml")
        .find("rust");
    assert!(packages.gaps[0].contains("credentials.toml"), "{:?}", packages.gaps);
}

/// Whoever wrote the workspace must not choose where its packages come from.
#[test]
fn what_the_workspace_names_is_wanted_and_never_granted() {
    let lock =
        "{\"resolved\": \"https://npm.default.test/x.tgz\"}, {\"resolved\": \"https://evil.test/x.tgz\"}";
    let node = Machine::new()
        .npm()
        .file("work/.npmrc", "registry=https://project.test/\n@x:registry=http://127.0.0.1:4873/\n")
        .file("work/package-lock.json", lock);
    let packages = node.find("node");
    assert_eq!(granted(&packages), ["npm.default.test:443"]);
    assert_eq!(wanted(&packages), ["project.test:443", "port 4873 of this machine", "evil.test:443"]);
    assert_eq!(packages.wanted[1].target.allow_with(), "--allow-loopback 4873");

    let python = Machine::new()
        .pip()
        .file("work/requirements.txt", "-i https://a.test/simple\nx @ https://b.test/x.whl\nsix==1\n# https://no.test\n")
        .file("work/requirements-dev.txt", "--extra-index-url=https://c.test\n")
        .file("work/pyproject.toml", "[[tool.uv.index]]\nurl='https://d.test'\ndefault=true\n[[tool.poetry.source]]\nurl='https://e.test'\n")
        .file("work/.venv/pip.conf", "[global]\nindex-url=https://f.test\n")
        .file("work/uv.lock", "source = { registry = \"https://g.test/simple\" }\n");
    let packages = python.find("python");
    assert_eq!(granted(&packages), ["pip.default.test:443", "files.default.test:443"]);
    let mut hosts = wanted(&packages);
    hosts.sort();
    assert_eq!(hosts, ["a", "b", "c", "d", "e", "f", "g"].map(|name| format!("{name}.test:443")));

    let rust = Machine::new()
        .cargo()
        .file(
            "work/.cargo/config.toml",
            "[source.crates-io]\nreplace-with='m'\n[source.m]\nregistry='https://a.test'\n",
        )
        .file(
            "work/Cargo.lock",
            "source = \"git+https://b.test/x?rev=1#2\"\nsource = \"registry+https://c.test/index\"\n",
        );
    let packages = rust.find("rust");
    assert_eq!(granted(&packages), ["index.default.test:443", "*.default.test:443"]);
    assert_eq!(wanted(&packages), ["a.test:443", "b.test:443"]);
}

#[test]
fn a_file_counts_only_if_no_command_and_nobody_else_may_write_it() {
    let text = "registry=https://a.test/\n";
    let machine = || Machine::new().npm().file("home/.npmrc", text);
    assert_eq!(granted(&machine().find("node")), ["a.test:443"]);

    let mut home_is_writable = machine();
    home_is_writable.writable.push(home_is_writable.path("home"));
    let open_to_all = machine();
    fs::set_permissions(open_to_all.path("home/.npmrc"), fs::Permissions::from_mode(0o666)).unwrap();
    let from_the_workspace = machine().file("work/npmrc", text);
    fs::remove_file(from_the_workspace.path("home/.npmrc")).unwrap();
    symlink(from_the_workspace.path("work/npmrc"), from_the_workspace.path("home/.npmrc")).unwrap();
    for machine in [home_is_writable, open_to_all, from_the_workspace] {
        let packages = machine.find("node");
        assert_eq!(granted(&packages), ["npm.default.test:443"]);
        assert_eq!(wanted(&packages), ["a.test:443"]);
    }
}

#[test]
fn a_tool_that_a_command_may_write_says_nothing() {
    let machine = Machine::new().npm().file("work/lib/npm/bin/npm-cli.js", "").file(
        "work/lib/npm/node_modules/@npmcli/config/lib/definitions/definitions.js",
        "define('registry', { default: 'https://evil.test/' })",
    );
    let path = format!("{}:{}", machine.path("work/lib/npm/bin").display(), machine.path("bin").display());
    symlink("npm-cli.js", machine.path("work/lib/npm/bin/npm")).unwrap();
    let mut machine = machine;
    machine.vars[1].1 = path.into();
    assert_eq!(granted(&machine.find("node")), ["npm.default.test:443"]);
}

#[test]
fn yarn_has_a_registry_of_its_own() {
    let machine =
        Machine::new().npm().file("work/yarn.lock", "  resolved \"https://yarn.default.test/x.tgz#1\"\n");
    assert!(machine.find("node").gaps[0].contains("Yarn"));
    let machine = machine.file("lib/yarn/bin/yarn.js", "").file(
        "lib/yarn/lib/constants.js",
        "exports.YARN_REGISTRY = void 0; var YARN_REGISTRY = 'https://yarn.default.test';",
    );
    symlink("../lib/yarn/bin/yarn.js", machine.path("bin/yarnpkg")).unwrap();
    assert_eq!(granted(&machine.find("node")), ["npm.default.test:443", "yarn.default.test:443"]);
    let machine = machine.file("home/.yarnrc.yml", "npmRegistryServer: \"https://berry.test\"\n");
    assert_eq!(granted(&machine.find("node")), ["npm.default.test:443", "berry.test:443"]);
}

#[test]
fn a_tools_own_proxy_is_not_followed_unseen() {
    let npm = || Machine::new().npm().file("home/.npmrc", "https-proxy=http://proxy.test:3128\n");
    let packages = npm().find("node");
    assert!(packages.gaps[0].contains("set https_proxy"), "{:?}", packages.gaps);
    assert_eq!(npm().var("https_proxy", "http://proxy.test:3128").find("node").gaps, [""; 0]);
}

#[test]
fn unreadable_files_are_said_and_endless_ones_not_read() {
    let machine = Machine::new().npm().file("work/.npmrc", &"#".repeat(2 << 20));
    rustix::fs::mknodat(
        rustix::fs::CWD,
        machine.path("home/.npmrc"),
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    let packages = machine.find("node");
    assert_eq!(packages.gaps.len(), 2, "{:?}", packages.gaps);
    assert_eq!(granted(&packages), ["npm.default.test:443"]);
}

#[test]
fn cargo_without_a_cache_gets_another_home_unless_that_loses_configuration() {
    let machine = Machine::new().cargo();
    fs::remove_dir(machine.path("home/.cargo/registry")).unwrap();
    assert_eq!(env(&machine.find("rust")), [("CARGO_HOME", "/tmp/cargo-home")]);
    let packages = machine.file("home/.cargo/config.toml", "").find("rust");
    assert!(packages.env.is_empty() && packages.gaps[0].contains("create the directory"), "{packages:?}");
}

#[test]
fn mavens_mirrors_take_the_place_of_its_default() {
    let mirror = |of: &str| {
        format!(
            "<settings xmlns='urn:x'><mirrors><mirror><mirrorOf>{of}</mirrorOf><url> https://mvn.test/x </url></mirror>\
             <mirror><mirrorOf>*</mirrorOf><url>http://0.0.0.0/</url><blocked>true</blocked></mirror></mirrors></settings>"
        )
    };
    let packages = Machine::new().file("home/.m2/settings.xml", &mirror("*,!own")).find("java");
    assert_eq!((granted(&packages), packages.gaps), (vec!["mvn.test:443".to_owned()], vec![]));
    let other =
        Machine::new().file("home/.m2/settings.xml", &mirror("own")).file("work/gradlew", "").find("java");
    assert_eq!(granted(&other), ["mvn.test:443"]);
    assert_eq!(other.gaps.len(), 2, "the default, and Gradle: {:?}", other.gaps);

    let pom =
        "<project><repositories><repository><url>https://a.test</url></repository></repositories></project>";
    let project =
        Machine::new().file("work/pom.xml", pom).file("work/.mvn/settings.xml", &mirror("*")).find("java");
    assert_eq!(
        (granted(&project), wanted(&project)),
        (vec![], vec!["a.test:443".into(), "mvn.test:443".into()])
    );
    assert_eq!(project.gaps.len(), 1, "the default is still not known");
    assert!(Machine::new().file("work/pom.xml", "<a>").find("java").gaps[0].contains("valid XML"));
}

#[test]
fn mavens_default_stands_in_its_own_library() {
    let maven = |name: &str, compression| {
        let machine =
            Machine::new().file("maven/bin/mvn", "").file("maven/lib/maven-model-3.jar", "no archive");
        symlink("../maven/bin/mvn", machine.path("bin/mvn")).unwrap();
        let library = fs::File::create(machine.path("maven/lib/maven-model-builder-3.jar")).unwrap();
        let mut archive = zip::ZipWriter::new(library);
        let options = zip::write::SimpleFileOptions::default().compression_method(compression);
        archive.start_file(name, options).unwrap();
        let text = "<project><repositories><repository><url>https://mvn.default.test/2</url></repository></repositories>\
            <pluginRepositories><pluginRepository><url>https://plugins.default.test/</url></pluginRepository>\
            </pluginRepositories></project>";
        archive.write_all(text.as_bytes()).unwrap();
        archive.finish().unwrap();
        machine
    };
    let name = "org/apache/maven/model/pom-4.0.0.xml";
    for compression in [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated] {
        let packages = maven(name, compression).find("java");
        assert_eq!(granted(&packages), ["mvn.default.test:443", "plugins.default.test:443"]);
        assert!(packages.gaps.is_empty(), "{:?}", packages.gaps);
    }
    let missing = maven("other.xml", zip::CompressionMethod::Stored).find("java");
    assert_eq!((granted(&missing), missing.gaps.len()), (vec![], 1));
    // With a mirror nobody asks the default.
    let mirror = "<settings><mirrors><mirror><mirrorOf>central</mirrorOf><url>https://m.test</url></mirror></mirrors></settings>";
    let mirrored =
        maven(name, zip::CompressionMethod::Stored).file("home/.m2/settings.xml", mirror).find("java");
    assert_eq!(granted(&mirrored), ["m.test:443"]);
}

#[test]
fn what_a_gradle_wrapper_wants_is_listed() {
    let text = "# x\ndistributionBase=GRADLE_USER_HOME\ndistributionUrl=https\\://gradle.test/distributions/gradle-8-bin.zip\n";
    let packages = Machine::new()
        .file("work/gradlew", "")
        .file("work/gradle/wrapper/gradle-wrapper.properties", text)
        .find("java");
    assert_eq!((granted(&packages), wanted(&packages)), (vec![], vec!["gradle.test:443".to_owned()]));
}
