//! Links the `ringfence` binary statically where the parts for that are installed, and has it written in one piece
//! where the linker can (`docs/adr/0009`).
//!
//! `-C target-feature=+crt-static` is meant for this, but cargo passes it to procedural macros too, which then can't be
//! built, unless a target is named, which moves the binary. So the shared libraries that the compiler names get
//! stand-ins: linker scripts (ld(1)) that lead to the static ones.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the compiler links a program of a glibc target with.
const SYSTEM: [&str; 6] = ["c", "m", "rt", "pthread", "util", "dl"];

/// An option of LLVM's linker, which otherwise fills a mapped file. The kernel keeps such a file in single pages, and one
/// that is written in one piece in large ones, which it maps at a stroke. The option says the opposite: up to LLD 22 it
/// and its negation are confused. One that isn't takes it for its default.
const WRITTEN_IN_ONE_PIECE: &str = "-Wl,--mmap-output-file";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    println!("cargo:rustc-check-cfg=cfg(static_binary)");
    if links_with(WRITTEN_IN_ONE_PIECE) {
        println!("cargo:rustc-link-arg-bins={WRITTEN_IN_ONE_PIECE}");
    }
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let glibc = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    let feature = env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    let asked_for = feature.split(',').any(|name| name == "crt-static");
    if !glibc || asked_for || env::var("HOST")? != env::var("TARGET")? {
        return Ok(());
    }
    let stand_ins = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo names no OUT_DIR")?).join("static");
    match write_stand_ins(&stand_ins) {
        Ok(()) => {
            // For binaries only: tests are linked as ever.
            println!("cargo:rustc-link-arg-bins=-L{}", stand_ins.display());
            println!("cargo:rustc-link-arg-bins=-static");
            println!("cargo:rustc-link-arg-bins=-no-pie");
            // For the test that looks at the result.
            println!("cargo:rustc-cfg=static_binary");
        }
        Err(missing) => {
            println!("cargo:warning=`ringfence` is linked dynamically and starts slower: {missing}")
        }
    }
    Ok(())
}

/// Whether the compiler's linker, whichever it is, takes an option.
fn links_with(option: &str) -> bool {
    let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let (Some(compiler), Some(target), Some(out)) =
        (variable("RUSTC"), variable("TARGET"), variable("OUT_DIR"))
    else {
        return false;
    };
    let source = Path::new(&out).join("trial.rs");
    let mut trial = Command::new(compiler);
    trial.args(["--target", &target, "--out-dir", &out, "-C", &format!("link-arg={option}")]).arg(&source);
    if let Some(linker) = variable("RUSTC_LINKER") {
        trial.args(["-C", &format!("linker={linker}")]);
    }
    trial.args(variable("CARGO_ENCODED_RUSTFLAGS").iter().flat_map(|flags| flags.split('\u{1f}')));
    fs::write(&source, "fn main() {}").is_ok() && trial.output().is_ok_and(|output| output.status.success())
}

fn write_stand_ins(dir: &Path) -> Result<(), Box<dyn Error>> {
    let linker = env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let find = |file: &str| -> Result<String, Box<dyn Error>> {
        let output = Command::new(&linker).arg(format!("-print-file-name={file}")).output()?;
        let path = String::from_utf8(output.stdout)?.trim_end().to_owned();
        // A name that comes back as it is was not found.
        if Path::new(&path).is_absolute() { Ok(path) } else { Err(format!("{file} is not installed").into()) }
    };
    let (unwinder, runtime) = (find("libgcc_eh.a")?, find("libgcc.a")?);
    fs::create_dir_all(dir)?;
    for name in SYSTEM {
        let own = find(&format!("lib{name}.a"))?;
        // The unwinder and the C library need each other.
        let script = format!("GROUP ( \"{own}\" \"{unwinder}\" \"{runtime}\" )\n");
        fs::write(dir.join(format!("lib{name}.so")), script)?;
    }
    fs::write(dir.join("libgcc_s.so"), format!("GROUP ( \"{unwinder}\" \"{runtime}\" )\n"))?;
    Ok(())
}
