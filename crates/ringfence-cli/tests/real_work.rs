//! Real work: the same script outside the box and inside, each in a workspace of its own. What they print, how
//! they end and what they leave in the workspace must be the same, and inside nothing else may change.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ringfence_testkit::{Binaries, Caller, Finished, Fixture, Invocation, Listing, MUST_HAVE, needs};

const SCRIPT: &str = "step.sh";
const PATIENCE: Duration = Duration::from_secs(600);

fn binaries() -> Binaries {
    Binaries::locate(Path::new(env!("CARGO_BIN_EXE_ringfence")))
}

macro_rules! work {
    ($($name:ident needs $($need:literal),+;)+) => {
        $(
            #[test]
            fn $name() {
                let binaries = binaries();
                needs!(&binaries; "userns", $($need),+);
                for caller in Caller::all() {
                    compare(&binaries, caller, include_str!(concat!("real_work/", stringify!($name), ".sh")));
                }
            }
        )+
    };
}

work! {
    git needs "git";
    make needs "gcc", "make";
    python needs "python3";
    node needs "node", "npm", "npx";
    script needs "bash", "flock";
    tools needs "tar", "sqlite3", "perl", "flock";
    debuggers needs "gcc", "strace", "gdb";
}

#[test]
fn cargo() {
    let binaries = binaries();
    needs!(&binaries; "userns", "cargo", "rustc");
    // Another user could not read the toolchain of whoever runs the tests.
    let caller = Caller::all()[0];
    let toolchain = Toolchain::find();
    let pair = Pair::new(&binaries, caller, include_str!("real_work/cargo.sh"));
    for fixture in [&pair.outside, &pair.inside] {
        copy_crate(fixture);
    }
    pair.compare(|invocation| toolchain.set(invocation));
}

/// Tests that need namespaces of their own say so and pass, when they are run in the box.
#[test]
fn own_tests_skip_inside() {
    let binaries = binaries();
    needs!(&binaries; "userns");
    let fixture = Fixture::new(&binaries, Caller::all()[0]);
    let own = std::env::current_exe().expect("the test's own path");
    // `target/debug`, with the binaries that the test looks for.
    let folder =
        own.parent().and_then(Path::parent).and_then(Path::to_str).expect("the target directory is text");
    let own = own.to_str().expect("its path is text");
    // The target directory may lie below /tmp, of which the box has a private one.
    let inside = fixture.inside(&["--read", folder], &[own, "--exact", "git", "--nocapture"]);
    let finished = inside.without_env(MUST_HAVE).finish();
    let finished = finished.code_is(0);
    assert!(finished.err().contains("SKIP: needs userns"), "{}", finished.report());
    assert!(finished.out().contains("1 passed"), "{}", finished.report());
}

fn compare(binaries: &Binaries, caller: Caller, script: &str) {
    Pair::new(binaries, caller, script).compare(|invocation| invocation);
}

/// Two fixtures with the same script in their workspaces.
struct Pair {
    outside: Fixture,
    inside: Fixture,
}

impl Pair {
    fn new(binaries: &Binaries, caller: Caller, script: &str) -> Self {
        let fixture = || {
            let fixture = Fixture::new(binaries, caller);
            fixture.write(Path::new("ws").join(SCRIPT), script);
            fixture
        };
        Self { outside: fixture(), inside: fixture() }
    }

    fn compare(&self, set_up: impl Fn(Invocation) -> Invocation) {
        let outside = set_up(self.outside.outside("bash").arg(SCRIPT)).patience(PATIENCE).finish().code_is(0);
        let elsewhere = [self.inside.home(), self.inside.host()];
        let before = elsewhere.each_ref().map(|folder| Listing::of(folder));
        let inside = set_up(self.inside.inside(&[], &["bash", SCRIPT])).patience(PATIENCE).finish();
        let printed = |fixture: &Fixture, finished: &Finished| fixture.redact(&finished.out());
        assert_eq!(inside.code, outside.code, "{}", inside.report());
        assert_eq!(printed(&self.inside, &inside), printed(&self.outside, &outside), "{}", inside.report());
        assert_eq!(names(&self.inside.ws()), names(&self.outside.ws()));
        for (folder, before) in elsewhere.iter().zip(before) {
            assert_eq!(Listing::of(folder).changes(&before), [""; 0]);
        }
    }
}

/// Path, mode and owner of all that lies in a workspace.
fn names(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the workspace") {
            let path = entry.expect("an entry").path();
            let metadata = fs::symlink_metadata(&path).expect("its metadata");
            let name =
                path.strip_prefix(root).expect("it lies below the root").to_string_lossy().into_owned();
            found.push(format!("{name} {:o} {}", metadata.mode(), metadata.uid()));
            if metadata.is_dir() {
                folders.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Where the tests' own user has cargo.
struct Toolchain {
    bin: PathBuf,
    home: PathBuf,
}

impl Toolchain {
    fn find() -> Self {
        let output = Command::new("rustc").args(["--print", "sysroot"]).output().expect("rustc starts");
        let sysroot = String::from_utf8(output.stdout).expect("the sysroot's path is text");
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from).unwrap_or_else(|| {
            PathBuf::from(std::env::var_os("HOME").expect("HOME or CARGO_HOME is set")).join(".cargo")
        });
        Self { bin: Path::new(sysroot.trim()).join("bin"), home }
    }

    fn set(&self, invocation: Invocation) -> Invocation {
        invocation
            .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", self.bin.display()))
            .env("CARGO_HOME", &self.home)
    }
}

/// The vocabulary crate as a workspace of its own, with this repository's lock file.
fn copy_crate(fixture: &Fixture) {
    let repository =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a crate lies two folders deep");
    let read =
        |path: &Path| fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let manifest = read(&repository.join("Cargo.toml")).replace(", \"xtask\"", "");
    fixture.write("ws/Cargo.toml", manifest);
    fixture.write("ws/Cargo.lock", read(&repository.join("Cargo.lock")));
    let mut folders = vec![PathBuf::from("crates/ringfence-types")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(repository.join(&folder)).expect("a folder of the crate") {
            let name = folder.join(entry.expect("an entry").file_name());
            let path = repository.join(&name);
            if path.is_dir() {
                folders.push(name);
            } else {
                fixture.write(Path::new("ws").join(&name), read(&path));
            }
        }
    }
}
