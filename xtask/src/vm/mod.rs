//! `cargo xtask vm`: the binary on other kernels, in virtual machines of qemu's software emulation. Each has nothing but
//! busybox, `ringfence` and the probe, in memory.

mod judge;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use self::judge::{Report, judge};
use crate::error::Error;
use crate::tools::{capture, cargo, run as run_tool};

/// The hosts that are made of each kernel: a name, and what is added to the kernel's command line.
const HOSTS: [(&str, &str); 3] = [
    ("plain", ""),
    ("without landlock", "lsm=yama,apparmor"),
    ("without user namespaces", "user_namespaces=0"),
];
/// Seconds after which a machine is given up. It takes ten where nothing else runs.
const PATIENCE: &str = "180";

/// Boots each kernel image as each host and compares what Ringfence does there with what the kernel can.
pub(crate) fn run(root: &Path, kernels: &[&str]) -> Result<(), Error> {
    for (tool, package) in
        [("qemu-system-x86_64", "qemu-system-x86"), ("busybox", "busybox-static"), ("strip", "binutils")]
    {
        let found = Command::new(tool).arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status();
        found.map_err(|_| Error::NotInstalled { tool, package })?;
    }
    let work = tempfile::tempdir().map_err(|source| Error::Write { path: std::env::temp_dir(), source })?;
    let initrd = initrd(root, work.path())?;
    let mut wrong = 0;
    for kernel in kernels {
        for (host, append) in HOSTS {
            let report = Report::parse(&boot(Path::new(kernel), &initrd, append)?);
            let problems = judge(&report, host);
            println!(
                "{} {host}: {}",
                report.kernel(),
                if problems.is_empty() { "as it should" } else { "WRONG" }
            );
            problems.iter().for_each(|problem| println!("  {problem}"));
            wrong += problems.len();
        }
    }
    if wrong == 0 { Ok(()) } else { Err(Error::OtherKernels(wrong)) }
}

fn boot(kernel: &Path, initrd: &Path, append: &str) -> Result<String, Error> {
    fs::metadata(kernel).map_err(|source| Error::Read { path: kernel.to_path_buf(), source })?;
    let mut machine = Command::new("timeout");
    machine.args([PATIENCE, "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", "1024"]);
    machine.args(["-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio"]);
    machine.arg("-kernel").arg(kernel).arg("-initrd").arg(initrd);
    machine.args(["-append", &format!("console=ttyS0 quiet panic=-1 {append}")]);
    Ok(String::from_utf8_lossy(&capture(&mut machine)?).into_owned())
}

/// An archive (cpio(5), `newc`) with all that the machine has.
fn initrd(root: &Path, work: &Path) -> Result<PathBuf, Error> {
    let tree = work.join("tree");
    let write = |path: &Path, source: io::Error| Error::Write { path: path.to_path_buf(), source };
    for folder in ["bin", "dev", "etc", "proc", "root", "sys"] {
        let path = tree.join(folder);
        fs::create_dir_all(&path).map_err(|source| write(&path, source))?;
    }
    let mut programs = executables(root)?;
    programs.extend([find("busybox")?, find("setpriv")?]);
    for program in programs {
        let name = program.file_name().unwrap_or_default();
        let at = tree.join("bin").join(name);
        fs::copy(&program, &at).map_err(|source| write(&at, source))?;
        run_tool(Command::new("strip").arg("--strip-debug").arg(&at))?;
        for library in libraries(&program)? {
            let at = tree.join(library.strip_prefix("/").unwrap_or(&library));
            let folder = at.parent().unwrap_or(&tree);
            fs::create_dir_all(folder).map_err(|source| write(folder, source))?;
            fs::copy(&library, &at).map_err(|source| write(&at, source))?;
        }
    }
    let files = [
        ("init", include_str!("init.sh")),
        ("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nu:x:1000:1000:u:/home/u:/bin/sh\n"),
        ("etc/group", "root:x:0:\nu:x:1000:\n"),
        ("etc/hosts", "127.0.0.1 localhost\n"),
    ];
    for (name, text) in files {
        let path = tree.join(name);
        fs::write(&path, text).map_err(|source| write(&path, source))?;
    }
    let pack = "chmod 755 init && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1 >../initrd";
    run_tool(Command::new("sh").args(["-c", pack]).current_dir(&tree))?;
    Ok(work.join("initrd"))
}

/// Builds `ringfence` and the probe, and says where cargo put them.
fn executables(root: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut build = cargo(root);
    build.args(["build", "--locked", "--package", "ringfence-cli", "--package", "ringfence-probe"]);
    let messages = capture(build.arg("--message-format=json-render-diagnostics"))?;
    let text = String::from_utf8_lossy(&messages).into_owned();
    let executable = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        message["executable"].as_str().map(PathBuf::from)
    };
    Ok(text.lines().filter_map(executable).collect())
}

fn find(program: &str) -> Result<PathBuf, Error> {
    let found = capture(Command::new("sh").args(["-c", "command -v \"$1\"", "sh", program]))?;
    Ok(PathBuf::from(String::from_utf8_lossy(&found).trim()))
}

/// What a program is linked with (ldd(1)); nothing if it is static.
fn libraries(program: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut ldd = Command::new("ldd");
    let output = ldd.arg(program).stderr(Stdio::null()).output();
    let output = output.map_err(|source| Error::Start { command: "ldd".to_owned(), source })?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect())
}
