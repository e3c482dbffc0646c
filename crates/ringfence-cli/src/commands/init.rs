//! `ringfence init`

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use ringfence::HostEnv;
use ringfence::config::{CONFIG_FILE, commented_default};

use crate::args::InitArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{one_line, print_text};

pub(crate) fn init(args: &InitArgs) -> Result<Exit, CliError> {
    let path = match &args.config {
        Some(path) => path.clone(),
        None => HostEnv::current().ringfence_home()?.join(CONFIG_FILE),
    };
    create(&path)?;
    print_text(&format!("{}\n", one_line(&path.to_string_lossy())))?;
    Ok(Exit::Success)
}

fn create(path: &Path) -> Result<(), CliError> {
    write_new(path, commented_default().as_bytes()).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => CliError::ConfigExists { path: path.to_owned() },
        _ => CliError::WriteConfig { path: path.to_owned(), source },
    })
}

/// Creates the file and the directories above it for their owner alone.
fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut directories = DirBuilder::new();
    let mut file = OpenOptions::new();
    directories.recursive(true);
    file.write(true).create_new(true);
    #[cfg(unix)]
    {
        std::os::unix::fs::DirBuilderExt::mode(&mut directories, 0o700);
        std::os::unix::fs::OpenOptionsExt::mode(&mut file, 0o600);
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        directories.create(parent)?;
    }
    let mut file = file.open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_file_is_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/config.toml");
        create(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), commented_default());
        std::fs::write(&path, "mine").unwrap();
        assert!(matches!(create(&path), Err(CliError::ConfigExists { .. })));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    }

    #[test]
    fn a_dangling_symlink_is_not_written_through() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        let path = dir.path().join("config.toml");
        std::os::unix::fs::symlink(&target, &path).unwrap();
        assert!(matches!(create(&path), Err(CliError::ConfigExists { .. })));
        assert!(!target.exists());
    }
}
