//! The secrets list, read by every route.

use libc::{EACCES, EBUSY, EPERM, EROFS, EXDEV};
use ringfence_testkit::Fixture;

use super::SECRET;
use super::row::{Closed, Row, Setup, row};

/// Paths below the home that hold a secret.
const SECRETS: &[&str] = &[
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".azure/accessTokens.json",
    ".config/gcloud/credentials.db",
    ".kube/config",
    ".docker/config.json",
    ".gnupg/private-keys-v1.d/the-secret-marker.key",
    ".netrc",
    ".git-credentials",
    ".config/gh/hosts.yml",
    ".mozilla/firefox/x.default/logins.json",
    ".config/google-chrome/Default/Login Data",
    ".config/chromium/Default/Cookies",
    ".local/share/keyrings/login.keyring",
    ".npmrc",
    ".pypirc",
    ".cargo/credentials.toml",
    ".subversion/auth/svn.simple/0123",
    ".local/share/python_keyring/keyring_pass.cfg",
];

fn secrets(fixture: &Fixture) -> Setup {
    for path in SECRETS {
        fixture.write(format!("home/{path}"), format!("//registry.invalid/:_authToken={SECRET}\n"));
    }
    fixture.chmod("home/.ssh", 0o700);
    fixture.symlink("../home/.netrc", "ws/alias");
    fixture.write("ws/own", "mine");
    Setup::default()
}

const fn hidden(name: &'static str, act: &'static [&'static str]) -> Row {
    row(name, "1.10", act, Closed::Hidden).setup(secrets)
}

const fn system(name: &'static str, act: &'static [&'static str], path: &'static str) -> Row {
    row(name, "1.10", act, Closed::Errno(&[EACCES, EPERM])).control_as_root().exists(path)
}

const fn fixed(name: &'static str, act: &'static [&'static str], closed: Closed) -> Row {
    row(name, "2.3", act, closed).setup(secrets)
}

const REFUSED: Closed = Closed::Errno(&[EACCES, EPERM, EROFS]);
const PINNED: Closed = Closed::Errno(&[EACCES, EPERM, EROFS, EBUSY, EXDEV]);

pub(crate) const ROWS: &[Row] = &[
    hidden("read an SSH key", &["read", "{home}/.ssh/id_ed25519"]),
    hidden("read a Subversion login", &["read", "{home}/.subversion/auth/svn.simple/0123"]),
    hidden("read a Python keyring", &["read", "{home}/.local/share/python_keyring/keyring_pass.cfg"]),
    hidden("read AWS credentials", &["read", "{home}/.aws/credentials"]),
    hidden("read Azure tokens", &["read", "{home}/.azure/accessTokens.json"]),
    hidden("read Google Cloud credentials", &["read", "{home}/.config/gcloud/credentials.db"]),
    hidden("read a Kubernetes configuration", &["read", "{home}/.kube/config"]),
    hidden("read registry passwords", &["read", "{home}/.docker/config.json"]),
    hidden("list GnuPG keys", &["list", "{home}/.gnupg/private-keys-v1.d"]),
    hidden("read .netrc", &["read", "{home}/.netrc"]),
    hidden("read git credentials", &["read", "{home}/.git-credentials"]),
    hidden("read a GitHub token", &["read", "{home}/.config/gh/hosts.yml"]),
    hidden("read Firefox logins", &["read", "{home}/.mozilla/firefox/x.default/logins.json"]),
    hidden("read Chrome logins", &["read", "{home}/.config/google-chrome/Default/Login Data"]),
    hidden("read Chromium cookies", &["read", "{home}/.config/chromium/Default/Cookies"]),
    hidden("read a keyring", &["read", "{home}/.local/share/keyrings/login.keyring"]),
    hidden("read an npm token", &["read", "{home}/.npmrc"]),
    hidden("read a Python registry token", &["read", "{home}/.pypirc"]),
    hidden("read a cargo token", &["read", "{home}/.cargo/credentials.toml"]),
    hidden("read a secret through a symlink", &["read", "{ws}/alias"]),
    hidden("read a secret through /proc/self/root", &["read", "/proc/self/root{home}/.netrc"]),
    hidden("read a secret through a path descriptor", &["opath-reopen", "{home}/.netrc", "r"]),
    hidden("read a secret in read-only mode", &["read", "{home}/.netrc"]).flags(&["--mode", "read-only"]),
    hidden("read a secret below a readable grant", &["read", "{home}/.netrc"]).flags(&["--read", "{home}"]),
    hidden("read a secret below a writable grant", &["read", "{home}/.netrc"]).flags(&[
        "--write",
        "{home}",
        "--force-root",
    ]),
    system("read the password hashes", &["read", "/etc/shadow"], "/etc/shadow"),
    system("read the group password hashes", &["read", "/etc/gshadow"], "/etc/gshadow"),
    system("list TLS keys", &["list", "/etc/ssl/private"], "/etc/ssl/private"),
    system(
        "read an SSH host key",
        &["read", "/etc/ssh/ssh_host_ed25519_key"],
        "/etc/ssh/ssh_host_ed25519_key",
    ),
    fixed("open a masked folder by chmod", &["chmod", "{home}/.ssh", "777"], REFUSED),
    fixed("open a masked file by chmod", &["chmod", "{home}/.netrc", "777"], REFUSED),
    fixed(
        "open a masked file by chmod of a path descriptor",
        &["opath-chmod", "{home}/.netrc", "777"],
        REFUSED,
    ),
    fixed("create in a masked folder", &["create", "{home}/.ssh/authorized_keys"], REFUSED),
    fixed("write a masked file", &["write", "{home}/.netrc"], REFUSED),
    fixed("link a secret into the workspace", &["link", "{home}/.netrc", "{ws}/netrc"], PINNED),
    fixed("move a secret into the workspace", &["rename", "{home}/.netrc", "{ws}/netrc"], PINNED),
    fixed("move a folder of secrets into the workspace", &["rename", "{home}/.ssh", "{ws}/ssh"], PINNED),
    fixed("rename the parent of a secret", &["rename", "{home}/.config", "{home}/.moved"], PINNED).flags(&[
        "--write",
        "{home}",
        "--force-root",
    ]),
    fixed("remove a secret", &["unlink", "{home}/.netrc"], PINNED).flags(&[
        "--write",
        "{home}",
        "--force-root",
    ]),
    fixed("replace a secret", &["rename", "{ws}/own", "{home}/.netrc"], PINNED).flags(&[
        "--write",
        "{home}",
        "--force-root",
    ]),
    row("undo the mask of a folder", "2.2.5", &["userns-umount", "{home}/.ssh"], Closed::Errno(&[EPERM]))
        .setup(secrets)
        .control(&["in-new", "user,mnt", "--", "mount-fs", "tmpfs", "{ws}"]),
    row("undo the mask of a file", "2.2.5", &["userns-umount", "{home}/.netrc"], Closed::Errno(&[EPERM]))
        .setup(secrets)
        .control(&["in-new", "user,mnt", "--", "mount-fs", "tmpfs", "{ws}"]),
    row("read Ringfence's own state", "0.4", &["read", "{state}/grants.json"], Closed::Hidden).setup(
        |fixture| {
            fixture.write("state/grants.json", SECRET);
            Setup::default()
        },
    ),
    row("read Ringfence's own state below a grant", "0.4", &["read", "{state}/grants.json"], Closed::Hidden)
        .setup(|fixture| {
            fixture.write("state/grants.json", SECRET);
            Setup::default()
        })
        .flags(&["--write", "{root}", "--force-root"]),
    row("write Ringfence's own state below a grant", "0.4", &["create", "{state}/new"], REFUSED).flags(&[
        "--write",
        "{root}",
        "--force-root",
    ]),
    row("move Ringfence's own state", "0.4", &["rename", "{state}", "{root}/moved"], PINNED).flags(&[
        "--write",
        "{root}",
        "--force-root",
    ]),
];
