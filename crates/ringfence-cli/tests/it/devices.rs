//! Devices by name. The tests bring a `/dev` of their own, in a mount namespace of their own, so that they do not
//! depend on what the machine has: each node is the null device by another name.

use libc::ENOENT;
use ringfence_testkit::{Caller, Finished, Fixture, Invocation, needs};

use crate::support::{as_each_caller, binaries};

/// Puts a new `/dev` together and goes on as someone else.
const NEW_DEV: &str = "set -e; mount --make-rprivate /; mount -t tmpfs -o mode=755 dev $0
    for node in null zero full random urandom tty; do cp -a /dev/$node $0/; done
    cp -a /dev/fd /dev/stdin /dev/stdout /dev/stderr $0/; mkdir $0/pts $0/shm $0/dri $0/nvidia-caps
    for node in kvm fuse nvidia0 nvidiactl kfd dri/renderD128 nvidia-caps/nvidia-cap1 secret
    do mknod -m 666 $0/$node c 1 3; done
    mount --bind /dev/pts $0/pts; ln -s pts/ptmx $0/ptmx; mount --move $0 /dev; exec \"$@\"";

/// Runs `program`, which is the caller's, in a mount namespace with the new `/dev`.
fn with_new_dev(fixture: &Fixture, program: Invocation) -> Finished {
    let program = program.into_command();
    let (uid, gid) = (fixture.caller().uid().to_string(), fixture.caller().gid().to_string());
    let mut command = Caller::Root.command("unshare");
    command.args(["--mount", "sh", "-c", NEW_DEV]).arg(fixture.mkdir("dev"));
    command.arg(&fixture.binaries().probe).args(["as", &uid, &gid, "--"]);
    command.arg(program.get_program()).args(program.get_args()).env_clear();
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(directory) = program.get_current_dir() {
        command.current_dir(directory);
    }
    Invocation::new(command).finish()
}

#[test]
fn a_named_device_and_no_other_is_there() {
    needs!(binaries(); "root", "unshare", "mknod");
    as_each_caller(|fixture| {
        let node = |name: &str| format!("/dev/{name}");
        let act = |flags: &[&str], act: &str, path: &str| {
            with_new_dev(fixture, fixture.probe_inside(flags, &[act, path]))
        };
        for (device, modes, nodes) in [
            ("kvm", &["strict", "read-only", "workspace-write"][..], &["kvm"][..]),
            ("fuse", &["workspace-write"], &["fuse"]),
            (
                "gpu",
                &["workspace-write"],
                &["dri/renderD128", "nvidia0", "nvidiactl", "nvidia-caps/nvidia-cap1", "kfd"],
            ),
        ] {
            for mode in modes {
                let without: &[&str] = &["--mode", mode, "--read", "{probe}"];
                let flags = [without, &["--device", device]].concat();
                for path in nodes.iter().map(|name| node(name)) {
                    act(&flags, "write", &path).allowed();
                    act(&flags, "open-read", &path).allowed();
                    assert_eq!(act(without, "open-read", &path).refused(), ENOENT, "{mode}: {path}");
                }
                let others = ["kvm", "fuse", "dri/renderD128", "secret"];
                for path in others.iter().filter(|other| !nodes.contains(other)).map(|name| node(name)) {
                    assert_eq!(act(&flags, "open-read", &path).refused(), ENOENT, "{device}: {path}");
                }
                // What is shown can't be changed, though root's box has its owner's id.
                for path in [node(nodes[0]), node("null")] {
                    act(&flags, "unlink", &path).refused();
                    act(&flags, "utimes", &path).refused();
                    let chmod = fixture.probe_inside(&flags, &["chmod", &path, "600"]);
                    with_new_dev(fixture, chmod).refused();
                }
                act(&flags, "create", "/dev/new").refused();
            }
        }
        for name in ["kvm", "dri/renderD128", "secret"] {
            with_new_dev(fixture, fixture.probe_outside(&["write", &node(name)])).allowed();
        }
        if fixture.caller() == Caller::Root {
            for act in [&["chmod", "/dev/null", "600"][..], &["utimes", "/dev/null"], &["unlink", "/dev/kvm"]]
            {
                with_new_dev(fixture, fixture.probe_outside(act)).allowed();
            }
        }
    });
}
