//! The mount plan in words: one row for each thing that a reader cares about.

use anstyle::{AnsiColor, Style};
use ringfence_plan::linux::{Access, MountOp};
use ringfence_types::UnixPath;

use crate::output::Table;

const PLAIN: Style = Style::new();
const READ: Style = AnsiColor::Cyan.on_default();
const WRITE: Style = AnsiColor::Green.on_default();
const HIDDEN: Style = AnsiColor::Red.on_default();
const INNER: Style = Style::new().dimmed();

/// Rows of access, path and remark, in the order of mounting. What only serves other mounts (directories, mount
/// points, symlinks, seals) is shown if `all`.
pub(super) fn table(mounts: &[MountOp], all: bool) -> Table {
    let mut table = Table::default();
    let nodes: Vec<String> = mounts.iter().filter_map(device_node).map(ToString::to_string).collect();
    let mut nodes_shown = false;
    for op in mounts {
        if device_node(op).is_some() {
            if !nodes_shown {
                table.row([("devices", WRITE), (&nodes.join(" "), PLAIN)]);
                nodes_shown = true;
            }
            continue;
        }
        let Some((word, style, path, remark)) = row(op, all) else { continue };
        table.row([(word, style), (&path.to_string(), PLAIN), (&remark, INNER)]);
    }
    table
}

fn device_node(op: &MountOp) -> Option<&UnixPath> {
    match op {
        MountOp::Bind { at, devices: true, .. } if at.depth() > 1 => Some(at),
        _ => None,
    }
}

fn row(op: &MountOp, all: bool) -> Option<(&'static str, Style, UnixPath, String)> {
    let root = || UnixPath::from("/");
    Some(match op {
        MountOp::HostTree { access } => {
            let (word, style) = access_word(*access);
            (word, style, root(), "the whole disk".to_owned())
        }
        MountOp::EmptyRoot => ("empty", READ, root(), "nothing but what follows".to_owned()),
        MountOp::Tmpfs { at, size, .. } => {
            ("private", WRITE, at.clone(), format!("tmpfs, at most {}", bytes(*size)))
        }
        MountOp::Bind { from, at, access, .. } => {
            let (word, style) = access_word(*access);
            let remark = if from == at { String::new() } else { format!("from {from}") };
            (word, style, at.clone(), remark)
        }
        MountOp::Overlay { upper, at, .. } => {
            ("overlay", WRITE, at.clone(), format!("the host's below, writes go to {upper}"))
        }
        MountOp::Mask { at, .. } => ("hidden", HIDDEN, at.clone(), String::new()),
        MountOp::Cover { at, .. } => ("replaced", READ, at.clone(), "content of the box's own".to_owned()),
        MountOp::Pin { at, read_only: true, .. } => {
            ("protected", READ, at.clone(), "read-only, stays in place".to_owned())
        }
        MountOp::Pin { at, .. } => ("pinned", INNER, at.clone(), "stays in place".to_owned()),
        MountOp::Devpts { at } => ("private", WRITE, at.clone(), "terminals of the box".to_owned()),
        MountOp::Proc { at, .. } => ("private", WRITE, at.clone(), "processes of the box".to_owned()),
        MountOp::Directory { at, .. } if all => ("directory", INNER, at.clone(), String::new()),
        MountOp::MountPoint { at } if all => ("file", INNER, at.clone(), String::new()),
        MountOp::Symlink { at, target } if all => ("symlink", INNER, at.clone(), format!("to {target}")),
        MountOp::Seal { at } if all => ("sealed", INNER, at.clone(), "read-only from here on".to_owned()),
        MountOp::Directory { .. }
        | MountOp::MountPoint { .. }
        | MountOp::Symlink { .. }
        | MountOp::Seal { .. } => {
            return None;
        }
    })
}

fn access_word(access: Access) -> (&'static str, Style) {
    match access {
        Access::ReadOnly => ("read-only", READ),
        Access::ReadWrite => ("writable", WRITE),
    }
}

/// A size in the largest unit that divides it.
fn bytes(size: u64) -> String {
    [(30, "GiB"), (20, "MiB"), (10, "KiB")]
        .into_iter()
        .find(|(shift, _)| size >= 1 << shift && size.trailing_zeros() >= *shift)
        .map_or_else(|| format!("{size} B"), |(shift, unit)| format!("{} {unit}", size >> shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(at: &str) -> MountOp {
        MountOp::Bind { from: at.into(), at: at.into(), id: None, access: Access::ReadWrite, devices: true }
    }

    #[test]
    fn shows_what_a_reader_cares_about() {
        let plan = [
            MountOp::HostTree { access: Access::ReadOnly },
            MountOp::Tmpfs { at: "/tmp".into(), mode: 0o1777, size: 2 << 30 },
            MountOp::MountPoint { at: "/dev/null".into() },
            node("/dev/null"),
            node("/dev/zero"),
            MountOp::Mask {
                at: UnixPath::new(b"/home/u/.ssh\n".to_vec()),
                directory: true,
                may_be_gone: false,
            },
            MountOp::Pin { at: "/w/.git".into(), id: None, symlink: false, read_only: false },
            MountOp::Pin { at: "/w/.git/hooks".into(), id: None, symlink: false, read_only: true },
            MountOp::Seal { at: "/dev".into() },
        ];
        let text = anstream::adapter::strip_str(&table(&plan, false).render()).to_string();
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                "  read-only  /              the whole disk",
                "  private    /tmp           tmpfs, at most 2 GiB",
                "  devices    /dev/null /dev/zero",
                "  hidden     /home/u/.ssh\\n",
                "  pinned     /w/.git        stays in place",
                "  protected  /w/.git/hooks  read-only, stays in place",
            ]
        );
        assert_eq!(table(&plan, true).render().lines().count(), 8);
    }

    #[test]
    fn sizes_are_exact() {
        assert_eq!(bytes(64 << 10), "64 KiB");
        assert_eq!(bytes(1536 << 20), "1536 MiB");
        assert_eq!(bytes(100), "100 B");
    }
}
