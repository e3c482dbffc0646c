use std::path::Path;
use std::sync::OnceLock;

use ringfence_testkit::{Binaries, Caller, Finished, Fixture, needs};

/// The binaries under test, looked for once.
pub(crate) fn binaries() -> &'static Binaries {
    static BINARIES: OnceLock<Binaries> = OnceLock::new();
    BINARIES.get_or_init(|| Binaries::locate(Path::new(env!("CARGO_BIN_EXE_ringfence"))))
}

/// Whether the box can be had at all; the reason why not is printed.
pub(crate) fn has_box() -> bool {
    needs!(binaries(); else false; "userns", "landlock", "unprivileged-user");
    true
}

/// Runs a test as each caller that this process can be, with a fixture of its own.
pub(crate) fn as_each_caller(test: impl Fn(&Fixture)) {
    if has_box() {
        for caller in Caller::all() {
            test(&Fixture::new(binaries(), caller));
        }
    }
}

/// Runs git outside the box in a folder, with a fixed identity.
#[track_caller]
pub(crate) fn git(fixture: &Fixture, dir: &Path, words: &[&str]) -> Finished {
    let identity =
        ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "init.defaultBranch=main"];
    fixture.outside("git").args(identity).args(words).current_dir(dir).finish().code_is(0)
}
