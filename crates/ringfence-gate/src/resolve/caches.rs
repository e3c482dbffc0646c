use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ringfence_types::{CacheMount, PathKind};
use sha2::{Digest, Sha256};

use super::{Host, ResolveError, Resolver, Root};
use crate::config::CacheRequest;
use crate::files;

/// Resolves the caches of a session and creates their private layers:
/// `RINGFENCE_HOME/cache/<workspace>/<cache>/{upper,work}`, both names by hash.
///
/// Workspaces don't share a layer, so that nothing planted by the box of one reaches the box of another.
pub(super) fn prepare(
    host: &Host,
    root: &Root,
    resolver: &Resolver<'_>,
    requests: &[CacheRequest],
) -> Result<Vec<CacheMount>, ResolveError> {
    let layers = host.home.join("cache").join(hash(&root.path.path));
    let mut caches = Vec::with_capacity(requests.len());
    for CacheRequest { at, env } in requests {
        let at = resolver.grant(at)?.path;
        if host.owns(&at.path) {
            return Err(ResolveError::RingfenceHome(at.path));
        }
        let layer = layers.join(hash(&at.path));
        let (upper, work) = (layer.join("upper"), layer.join("work"));
        if at.kind == PathKind::Directory {
            for path in [&upper, &work] {
                let fail = |source| ResolveError::Cache { path: path.clone(), source };
                files::private_directory(path).map_err(fail)?;
                files::give_to(path, root.owner).map_err(fail)?;
            }
        }
        caches.push(CacheMount { at, upper, work, env: env.clone() });
    }
    caches.sort_by(|a, b| a.at.cmp(&b.at));
    caches.dedup_by(|a, b| a.at.path == b.at.path);
    Ok(caches)
}

/// 16 bytes of the SHA-256 of a path, in hex.
fn hash(path: &Path) -> String {
    let digest = Sha256::digest(path.as_os_str().as_bytes());
    digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}
