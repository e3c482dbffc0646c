//! Package managers with nothing but `--profile`: registries on this machine, named by the user's configuration.

use std::collections::BTreeMap;
use std::io::{BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use ringfence_testkit::{Caller, Fixture, Invocation, needs};

use crate::net::{denials, head, row};
use crate::support::{as_each_caller, binaries, has_box};

/// Files by their path on a server.
type Files = BTreeMap<String, Vec<u8>>;

/// A registry of files. As a proxy it answers for every host alike. Its thread ends with the test's process.
struct Registry {
    port: u16,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Registry {
    /// `files` are made for the URL at which the registry is found.
    fn start(place: Place, files: impl FnOnce(&str) -> Files) -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let base = match place {
            Place::Port => format!("http://127.0.0.1:{port}"),
            Place::Name => "http://packages.test".to_owned(),
        };
        let (files, seen) = (Arc::new(files(&base)), Arc::new(Mutex::new(Vec::new())));
        let log = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (files, log) = (Arc::clone(&files), Arc::clone(&log));
                thread::spawn(move || serve(&stream, &files, &log));
            }
        });
        (Self { port, seen }, base)
    }

    fn requests(&self) -> usize {
        self.seen.lock().expect("no writer panics").len()
    }

    /// Leads names to this server, as a proxy of the host's own.
    fn behind(&self, invocation: Invocation) -> Invocation {
        invocation.env("http_proxy", format!("http://127.0.0.1:{}", self.port))
    }
}

fn serve(stream: &std::net::TcpStream, files: &Files, log: &Mutex<Vec<String>>) {
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    while let Some(first) = head(&mut reader) {
        let target = first.split(' ').nth(1).unwrap_or_default();
        let path = match target.split_once("://") {
            Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
            None => target,
        };
        log.lock().expect("no writer panics").push(path.to_owned());
        let (status, body) = match files.get(path) {
            Some(body) => ("200 OK", body.as_slice()),
            None => ("404 Not Found", &b"nothing here"[..]),
        };
        let kind = if path.starts_with("/simple") && path.ends_with('/') {
            "text/html"
        } else {
            "application/octet-stream"
        };
        let head =
            format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n", body.len());
        if writer.write_all(&[head.as_bytes(), body].concat()).is_err() {
            return;
        }
    }
}

/// How the user's configuration names the registry.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// As a port of this machine.
    Port,
    /// As a host.
    Name,
}

/// Runs a package manager with the profile that the workspace's files pick, and with no network, which both have to
/// fail, then with the profile alone.
fn works_with_the_profile_alone(registry: &Registry, profile: &str, run: impl Fn(&[&str]) -> Invocation) {
    for flags in [&["--json"][..], &["--json", "--net", "none", "--profile", profile]] {
        let refused = registry.behind(run(flags)).finish();
        assert_ne!(refused.json()["exit_code"], 0, "{flags:?}: {}", refused.report());
        assert_eq!(registry.requests(), 0, "{flags:?}");
    }
    let finished = registry.behind(run(&["--json", "--profile", profile])).finish();
    assert_eq!(finished.json()["exit_code"], 0, "{}", finished.report());
    assert_eq!(denials(&finished.json()), [[""; 4]; 0]);
    assert!(registry.requests() >= 2, "the index and a package");
}

/// What a script writes to standard output, outside the box.
fn made(fixture: &Fixture, script: &str) -> Vec<u8> {
    fixture.outside("bash").args(["-euc", script]).current_dir(fixture.host()).finish().code_is(0).stdout
}

fn npm_registry(fixture: &Fixture, base: &str) -> Files {
    let package =
        r#"mkdir package; echo '{"name":"own","version":"1.0.0"}' >package/package.json; tar cz package"#;
    let tarball = made(fixture, &format!("rm -rf package; {package}"));
    let index = format!(
        r#"{{"name":"own","dist-tags":{{"latest":"1.0.0"}},"versions":{{"1.0.0":{{"name":"own","version":"1.0.0",
        "dist":{{"tarball":"{base}/own/-/own-1.0.0.tgz"}}}}}}}}"#
    );
    Files::from([("/own".to_owned(), index.into_bytes()), ("/own/-/own-1.0.0.tgz".to_owned(), tarball)])
}

fn npm_project(fixture: &Fixture) {
    fixture.write("ws/package.json", r#"{"name":"x","version":"1.0.0","dependencies":{"own":"1.0.0"}}"#);
    let lock = r#"{"name":"x","version":"1.0.0","lockfileVersion":3,"packages":{
        "":{"name":"x","version":"1.0.0","dependencies":{"own":"1.0.0"}},"node_modules/own":{"version":"1.0.0"}}}"#;
    fixture.write("ws/package-lock.json", lock);
}

const NPM_CI: [&str; 5] = ["npm", "ci", "--fetch-retries=0", "--no-audit", "--no-update-notifier"];

#[test]
fn npm_ci() {
    needs!(binaries(); "npm");
    as_each_caller(|fixture| {
        for place in [Place::Port, Place::Name] {
            let (registry, base) = Registry::start(place, |base| npm_registry(fixture, base));
            npm_project(fixture);
            fixture.write("home/.npmrc", format!("registry={base}/\n"));
            works_with_the_profile_alone(&registry, "node", |flags| fixture.inside(flags, &NPM_CI));
            assert!(fixture.exists("ws/node_modules/own/package.json"));
        }
    });
}

/// The file that holds a token is hidden, and the mirror that it names is used nevertheless.
#[test]
fn npm_ci_from_a_mirror_beside_a_token() {
    needs!(binaries(); "npm");
    as_each_caller(|fixture| {
        let (registry, base) = Registry::start(Place::Name, |base| npm_registry(fixture, base));
        npm_project(fixture);
        fixture
            .write("home/.npmrc", format!("registry={base}/\n//packages.test/:_authToken=npm_0123456789\n"));
        let read = fixture.shell_inside(&["--json"], "cat ~/.npmrc").finish().json();
        assert!(!read["stdout"].as_str().unwrap().contains("npm_0123456789"), "{read}");
        works_with_the_profile_alone(&registry, "node", |flags| fixture.inside(flags, &NPM_CI));
    });
}

/// A registry that the workspace's own file names has to be allowed by a person.
#[test]
fn a_registry_of_the_workspaces_choice_is_not_granted() {
    needs!(binaries(); "npm");
    as_each_caller(|fixture| {
        let (registry, base) = Registry::start(Place::Name, |base| npm_registry(fixture, base));
        npm_project(fixture);
        fixture.write("ws/.npmrc", format!("registry={base}/\n"));
        let run = |flags: &[&str]| {
            let flags = [&["--json", "--profile", "node"], flags].concat();
            registry.behind(fixture.inside(&flags, &NPM_CI)).finish()
        };
        let refused = run(&[]);
        assert_ne!(refused.json()["exit_code"], 0, "{}", refused.report());
        assert_eq!(registry.requests(), 0);
        let denials = denials(&refused.json());
        assert!(denials.contains(&row("packages.test:80", "--allow-host packages.test:80")), "{denials:?}");
        let note = format!(
            "ringfence: {} names packages.test:80 for npm, which is not granted\n",
            fixture.expand("{ws}/.npmrc")
        );
        assert!(refused.err().contains(&note), "{}", refused.err());
        assert!(
            refused.err().contains("hint: --allow-host packages.test:80 would allow it"),
            "{}",
            refused.err()
        );

        let allowed = run(&["--allow-host", "packages.test:80"]);
        assert_eq!(allowed.json()["exit_code"], 0, "{}", allowed.report());
        assert!(!allowed.err().contains("not granted"), "{}", allowed.err());
    });
}

#[test]
fn pip_install() {
    needs!(binaries(); "/usr/bin/python3");
    const WHEEL: &str = r#"
import sys, zipfile
with zipfile.ZipFile(sys.stdout.buffer, "w") as wheel:
    wheel.writestr("own.py", "")
    wheel.writestr("own-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: own\nVersion: 1.0\n")
    wheel.writestr("own-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr("own-1.0.dist-info/RECORD", "")
"#;
    as_each_caller(|fixture| {
        fixture.outside("/usr/bin/python3").args(["-m", "venv", "venv"]).finish().code_is(0);
        let (registry, base) = Registry::start(Place::Name, |base| {
            let wheel = made(fixture, &format!("/usr/bin/python3 -c '{WHEEL}'"));
            let page =
                format!("<a href=\"{base}/files/own-1.0-py3-none-any.whl\">own-1.0-py3-none-any.whl</a>");
            let file = ("/files/own-1.0-py3-none-any.whl".to_owned(), wheel);
            Files::from([("/simple/own/".to_owned(), page.into_bytes()), file])
        });
        let config = format!("[global]\nindex-url = {base}/simple\ntrusted-host = packages.test\n");
        fixture.write("home/.config/pip/pip.conf", config);
        let pip = [
            "venv/bin/pip",
            "install",
            "--no-cache-dir",
            "--retries=0",
            "--disable-pip-version-check",
            "-t",
            "lib",
            "own",
        ];
        works_with_the_profile_alone(&registry, "python", |flags| fixture.inside(flags, &pip));
        assert!(fixture.exists("ws/lib/own.py"));
    });
}

#[test]
fn cargo_fetch() {
    needs!(binaries(); "cargo", "sha256sum");
    // Another user could not read the toolchain of whoever runs the tests.
    if !has_box() {
        return;
    }
    let fixture = Fixture::new(binaries(), Caller::all()[0]);
    let cargo = Command::new("rustc").args(["--print", "sysroot"]).output().expect("rustc starts").stdout;
    let bin = Path::new(String::from_utf8_lossy(&cargo).trim()).join("bin");
    for (number, place) in [Place::Port, Place::Name].into_iter().enumerate() {
        let (registry, base) = Registry::start(place, |base| {
            let package = "rm -rf own-1.0.0; mkdir -p own-1.0.0/src; touch own-1.0.0/src/lib.rs; cd own-1.0.0; \
                printf '[package]\nname=\"own\"\nversion=\"1.0.0\"\n' >Cargo.toml; cd ..; tar cz own-1.0.0";
            let package = made(&fixture, package);
            fixture.write("host/own.crate", &package);
            let sum =
                String::from_utf8(made(&fixture, "sha256sum own.crate | cut -c-64 | tr -d '\n'")).unwrap();
            let line = format!(
                r#"{{"name":"own","vers":"1.0.0","deps":[],"cksum":"{sum}","features":{{}},"yanked":false}}"#
            );
            Files::from([
                ("/index/config.json".to_owned(), format!(r#"{{"dl":"{base}/dl"}}"#).into_bytes()),
                ("/index/3/o/own".to_owned(), line.into_bytes()),
                ("/dl/own/1.0.0/download".to_owned(), package),
            ])
        });
        let home = format!("cargo{number}");
        let config = format!(
            "[source.crates-io]\nreplace-with=\"m\"\n[source.m]\nregistry=\"sparse+{base}/index/\"\n"
        );
        fixture.write(format!("home/{home}/config.toml"), config);
        fixture.mkdir(format!("home/{home}/registry"));
        let manifest =
            "[package]\nname=\"x\"\nversion=\"0.1.0\"\nedition=\"2021\"\n[dependencies]\nown=\"1\"\n";
        fixture.write("ws/Cargo.toml", manifest);
        fixture.write("ws/src/lib.rs", "");
        // The second registry packs the package anew.
        let _ = std::fs::remove_file(fixture.ws().join("Cargo.lock"));
        works_with_the_profile_alone(&registry, "rust", |flags| {
            let path = format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display());
            let inside = fixture.inside(flags, &["cargo", "fetch", "--config=net.retry=0"]);
            inside.env("PATH", path).env("CARGO_HOME", fixture.home().join(&home))
        });
    }
}

#[test]
fn go_mod_download() {
    needs!(binaries(); "go", "/usr/bin/python3");
    const MODULE: &str = r#"
import sys, zipfile
with zipfile.ZipFile(sys.stdout.buffer, "w") as module:
    module.writestr("own.test/m@v1.0.0/go.mod", "module own.test/m\n")
    module.writestr("own.test/m@v1.0.0/m.go", "package m\n")
"#;
    as_each_caller(|fixture| {
        for place in [Place::Port, Place::Name] {
            let (registry, base) = Registry::start(place, |_| {
                let module = made(fixture, &format!("/usr/bin/python3 -c '{MODULE}'"));
                let info = br#"{"Version":"v1.0.0","Time":"2020-01-01T00:00:00Z"}"#;
                let file = |name: &str| format!("/own.test/m/@v/{name}");
                Files::from([
                    (file("v1.0.0.info"), info.to_vec()),
                    (file("v1.0.0.mod"), b"module own.test/m\n".to_vec()),
                    (file("v1.0.0.zip"), module),
                ])
            });
            fixture.write("home/.config/go/env", format!("GOPROXY={base}\nGOSUMDB=off\n"));
            fixture.write("ws/go.mod", "module x\ngo 1.19\nrequire own.test/m v1.0.0\n");
            // Each place with a cache of its own.
            let cache = fixture.mkdir(format!("home/modules-{}", registry.port));
            works_with_the_profile_alone(&registry, "go", |flags| {
                fixture.inside(flags, &["go", "mod", "download"]).env("GOMODCACHE", &cache)
            });
        }
    });
}

/// Each host with the file that names it, and what is not granted.
#[test]
fn explain_says_where_each_host_comes_from() {
    needs!(binaries(); "npm");
    as_each_caller(|fixture| {
        fixture.write("home/.npmrc", "registry=https://mirror.test/\n");
        fixture.write("ws/.npmrc", "registry=https://project.test/\n");
        let explain = |words: &[&str]| {
            let words = [&["explain", "--profile", "node"], words].concat();
            fixture.ringfence(words).arg("--workspace").arg(fixture.ws()).finish().code_is(0)
        };
        let packages = &explain(&["--json"]).json()["policy"]["packages"];
        let file = |name: &str| serde_json::json!({ "file": fixture.expand(name) });
        let host = |host: &str, name: &str| serde_json::json!([{ "tool": "npm", "host": host, "source": file(name) }]);
        assert_eq!(packages["granted"], host("mirror.test:443", "{home}/.npmrc"));
        assert_eq!(packages["wanted"], host("project.test:443", "{ws}/.npmrc"));
        let text = explain(&[]).out();
        let line = fixture.expand("mirror.test:443 for npm, by {home}/.npmrc");
        assert!(text.contains(&line), "{text}");
        let line = fixture.expand("project.test:443 for npm, named by {ws}/.npmrc");
        assert!(text.contains(&line), "{text}");
    });
}
