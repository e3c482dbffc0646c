use std::ffi::OsStr;
use std::fs::{DirEntry, FileType};
use std::io;
use std::path::{Path, PathBuf};

use ringfence_types::DeviceGrant;

use super::ResolveError;

/// Devices that can be granted, and the nodes below `/dev` that each means: exact names, or a prefix that ends
/// in `*`. DRM render nodes, NVIDIA's, AMD's compute node, the one of WSL; KVM; FUSE.
const DEVICES: [(&str, &[&str]); 3] =
    [("gpu", &["dri", "nvidia*", "kfd", "dxg"]), ("kvm", &["kvm"]), ("fuse", &["fuse"])];

/// Finds the nodes of a device. `dev` is `/dev`.
pub(super) fn grant(dev: &Path, name: &str) -> Result<DeviceGrant, ResolveError> {
    let Some((_, patterns)) = DEVICES.iter().find(|(known, _)| *known == name) else {
        return Err(ResolveError::UnknownDevice(name.to_owned()));
    };
    let mut nodes: Vec<PathBuf> = Vec::new();
    for (path, file_type) in list(dev)? {
        let named =
            path.file_name().is_some_and(|name| patterns.iter().any(|pattern| matches(pattern, name)));
        if named && file_type.is_dir() {
            // Links by other names are no nodes.
            let below = list(&path)?.into_iter().filter(|(_, kind)| !kind.is_dir() && !kind.is_symlink());
            nodes.extend(below.map(|(path, _)| path));
        } else if named {
            nodes.push(path);
        }
    }
    if nodes.is_empty() {
        return Err(ResolveError::NoSuchDevice(name.to_owned()));
    }
    nodes.sort();
    Ok(DeviceGrant { name: name.to_owned(), nodes })
}

fn list(directory: &Path) -> Result<Vec<(PathBuf, FileType)>, ResolveError> {
    let entry = |entry: io::Result<DirEntry>| entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)));
    let entries = std::fs::read_dir(directory).and_then(|entries| entries.map(entry).collect());
    entries.map_err(|source| ResolveError::Io { path: directory.to_path_buf(), source })
}

fn matches(pattern: &str, name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix.as_bytes()),
        None => name == pattern.as_bytes(),
    }
}

/// The names that can be granted, for messages.
pub(super) fn names() -> String {
    DEVICES.map(|(name, _)| name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_the_nodes_that_exist() {
        let dev = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dev.path().join("dri/by-path")).unwrap();
        for node in ["dri/renderD128", "dri/card0", "nvidia0", "nvidia-uvm", "null", "kvm2"] {
            std::fs::write(dev.path().join(node), "").unwrap();
        }
        std::os::unix::fs::symlink("card0", dev.path().join("dri/link")).unwrap();
        let nodes: Vec<_> = ["dri/card0", "dri/renderD128", "nvidia-uvm", "nvidia0"]
            .iter()
            .map(|node| dev.path().join(node))
            .collect();
        assert_eq!(grant(dev.path(), "gpu").unwrap().nodes, nodes);
        assert!(matches!(grant(dev.path(), "kvm"), Err(ResolveError::NoSuchDevice(_))));
        let unknown = grant(dev.path(), "sda").unwrap_err();
        assert_eq!(unknown.to_string(), "unknown device `sda`, expected one of gpu, kvm, fuse");
    }
}
