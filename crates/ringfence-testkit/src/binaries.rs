use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// The binaries under test, at paths that every user can execute.
#[derive(Clone, Debug)]
pub struct Binaries {
    /// `ringfence`.
    pub ringfence: PathBuf,
    /// `ringfence-probe`.
    pub probe: PathBuf,
}

impl Binaries {
    /// Takes `ringfence` as built and looks for the probe: `RINGFENCE_PROBE`, else beside it, built now if it is
    /// missing or older than its sources. Both are copied if another user could not reach them where they are.
    ///
    /// # Panics
    /// If the probe can't be built or a binary can't be copied.
    pub fn locate(ringfence: &Path) -> Self {
        let probe = match std::env::var_os("RINGFENCE_PROBE") {
            Some(path) => PathBuf::from(path),
            None => beside(ringfence),
        };
        Self { ringfence: reachable(ringfence), probe: reachable(&probe) }
    }
}

fn beside(ringfence: &Path) -> PathBuf {
    let folder = ringfence.parent().expect("the binary lies in a folder");
    let probe = folder.join("ringfence-probe");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("ringfence-probe");
    let built = fs::metadata(&probe).and_then(|found| found.modified()).ok();
    if built.is_none_or(|built| newest(&sources) > built) {
        build(folder);
    }
    probe
}

fn newest(path: &Path) -> SystemTime {
    let own = fs::metadata(path).and_then(|found| found.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let below = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| newest(&entry.path()));
    below.fold(own, SystemTime::max)
}

fn build(folder: &Path) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--package", "ringfence-probe", "--manifest-path"]);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"));
    if folder.ends_with("release") {
        command.arg("--release");
    }
    if let Some(target) = folder.parent() {
        command.arg("--target-dir").arg(target);
    }
    let status = command.status().expect("cargo starts");
    assert!(status.success(), "the probe can't be built: {status}");
}

/// Folders of which the box has private ones.
const PRIVATE: [&str; 3] = ["/tmp", "/run", "/dev"];

/// The path itself if all users can execute it, inside the box too, else that of a copy.
fn reachable(binary: &Path) -> PathBuf {
    let open = |path: &Path| fs::metadata(path).is_ok_and(|found| found.mode() & 0o005 == 0o005);
    let private = PRIVATE.iter().any(|folder| binary.starts_with(folder));
    let folders = || binary.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    if !private && open(binary) && folders().all(open) {
        return binary.to_path_buf();
    }
    let found = fs::metadata(binary).expect("the binary exists");
    let mut hasher = DefaultHasher::new();
    (binary, found.len(), found.mtime(), found.mtime_nsec()).hash(&mut hasher);
    let base = PathBuf::from(format!("/var/tmp/ringfence-tests-{}", rustix::process::geteuid().as_raw()));
    let folder = base.join(format!("{:016x}", hasher.finish()));
    let name = binary.file_name().expect("a binary has a name");
    let copy = folder.join(name);
    for folder in [&base, &folder] {
        let made = fs::create_dir(folder).is_ok();
        let owner = fs::symlink_metadata(folder).expect("the folder for binaries exists");
        let own = owner.is_dir() && owner.uid() == rustix::process::geteuid().as_raw();
        assert!(own, "{folder:?} is another's");
        if made {
            fs::set_permissions(folder, Permissions::from_mode(0o755)).expect("chmod");
        }
    }
    if !copy.exists() {
        let partial = folder.join(format!("{}.partial", std::process::id()));
        fs::copy(binary, &partial).expect("copy of the binary");
        fs::set_permissions(&partial, Permissions::from_mode(0o755)).expect("chmod");
        fs::rename(&partial, &copy).expect("rename of the copy");
        remove_older(&base, name, &folder);
    }
    copy
}

/// Earlier builds of the same binary are of no use.
fn remove_older(base: &Path, name: &OsStr, newest: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let folder = entry.path();
        if folder != newest && folder.join(name).exists() {
            let _ = fs::remove_dir_all(folder);
        }
    }
}
