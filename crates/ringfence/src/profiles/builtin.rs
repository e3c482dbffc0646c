/// Where a directory of a tool lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Variable that names a directory, and what lies below it; beats the rest.
    pub var: Option<(&'static str, &'static str)>,
    /// Where it lies by default.
    pub base: Base,
    /// Path below the base.
    pub path: &'static str,
}

/// A base directory (XDG Base Directory Specification).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// The home directory.
    Home,
    /// `XDG_CACHE_HOME`, or `~/.cache`.
    Cache,
    /// `XDG_DATA_HOME`, or `~/.local/share`.
    Data,
    /// `XDG_CONFIG_HOME`, or `~/.config`.
    Config,
}

impl Base {
    /// Its variable and its default below the home directory.
    pub(super) fn xdg(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Home => None,
            Self::Cache => Some(("XDG_CACHE_HOME", ".cache")),
            Self::Data => Some(("XDG_DATA_HOME", ".local/share")),
            Self::Config => Some(("XDG_CONFIG_HOME", ".config")),
        }
    }
}

/// A cache of a built-in profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltinCache {
    /// Where the host's lies.
    pub place: Place,
    /// Variable that moves it and nothing else.
    pub env: Option<&'static str>,
}

/// What one ecosystem of tools needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builtin {
    /// Name for `--profile`.
    pub name: &'static str,
    /// Files or directories directly in the workspace by which `auto` picks it.
    pub markers: &'static [&'static str],
    /// Directories and files that the tools read. They matter in `strict`, where the home directory is not
    /// there.
    pub reads: &'static [Place],
    /// Caches.
    pub caches: &'static [BuiltinCache],
    /// Variables of the host that the tools need and that neither name code to load nor hold secrets. Those that
    /// say where an existing directory of the lists above lies pass too.
    pub env: &'static [&'static str],
}

const fn cache(place: Place, env: Option<&'static str>) -> BuiltinCache {
    BuiltinCache { place, env }
}

const fn home(path: &'static str) -> Place {
    Place { var: None, base: Base::Home, path }
}

const fn xdg(base: Base, path: &'static str) -> Place {
    Place { var: None, base, path }
}

/// At the variable's value with a suffix, else below the home directory.
const fn var(name: &'static str, suffix: &'static str, path: &'static str) -> Place {
    Place { var: Some((name, suffix)), base: Base::Home, path }
}

/// At the variable's value, else below the cache directory.
const fn cache_var(name: &'static str, path: &'static str) -> Place {
    Place { var: Some((name, "")), base: Base::Cache, path }
}

/// The built-in profiles. Sources: each tool's own documentation of its directories and variables.
pub const BUILTIN: &[Builtin] = &[
    Builtin {
        name: "rust",
        markers: &["Cargo.toml", "rust-toolchain.toml", "rust-toolchain", "rust-project.json"],
        reads: &[var("CARGO_HOME", "", ".cargo"), var("RUSTUP_HOME", "", ".rustup")],
        // CARGO_HOME would move configuration and `bin` too, so no variable stands in for these.
        caches: &[
            cache(var("CARGO_HOME", "registry", ".cargo/registry"), None),
            cache(var("CARGO_HOME", "git", ".cargo/git"), None),
            cache(cache_var("SCCACHE_DIR", "sccache"), Some("SCCACHE_DIR")),
        ],
        env: &[
            "RUSTUP_TOOLCHAIN",
            "RUST_BACKTRACE",
            "RUST_LOG",
            "CARGO_HTTP_CAINFO",
            "SSL_CERT_FILE",
            "SSL_CERT_DIR",
        ],
    },
    Builtin {
        name: "node",
        markers: &["package.json", "deno.json", "deno.jsonc", "bun.lockb", "bun.lock"],
        reads: &[
            var("NVM_DIR", "", ".nvm"),
            var("VOLTA_HOME", "", ".volta"),
            xdg(Base::Data, "fnm"),
            var("BUN_INSTALL", "", ".bun"),
            var("DENO_INSTALL_ROOT", "", ".deno"),
            Place { var: Some(("PNPM_HOME", "")), base: Base::Data, path: "pnpm" },
            home(".npmrc"),
            home(".yarnrc"),
            home(".yarnrc.yml"),
            xdg(Base::Config, "pnpm"),
        ],
        caches: &[
            cache(var("npm_config_cache", "", ".npm"), Some("npm_config_cache")),
            cache(cache_var("YARN_CACHE_FOLDER", "yarn"), Some("YARN_CACHE_FOLDER")),
            cache(home(".yarn/berry"), Some("YARN_GLOBAL_FOLDER")),
            cache(xdg(Base::Data, "pnpm/store"), None),
            cache(xdg(Base::Cache, "pnpm"), None),
            cache(xdg(Base::Cache, "node-gyp"), None),
            cache(cache_var("COREPACK_HOME", "node/corepack"), Some("COREPACK_HOME")),
            cache(var("BUN_INSTALL_CACHE_DIR", "", ".bun/install/cache"), Some("BUN_INSTALL_CACHE_DIR")),
            cache(cache_var("DENO_DIR", "deno"), Some("DENO_DIR")),
        ],
        env: &["NODE_ENV", "NODE_EXTRA_CA_CERTS"],
    },
    Builtin {
        name: "python",
        markers: &[
            "pyproject.toml",
            "setup.py",
            "setup.cfg",
            "requirements.txt",
            "requirements-dev.txt",
            "Pipfile",
            "tox.ini",
            "noxfile.py",
            "uv.lock",
            "poetry.lock",
            "environment.yml",
            "manage.py",
        ],
        reads: &[
            var("PYENV_ROOT", "", ".pyenv"),
            home(".local/lib"),
            home(".local/bin"),
            xdg(Base::Data, "uv"),
            xdg(Base::Data, "pipx"),
            xdg(Base::Data, "virtualenvs"),
            xdg(Base::Config, "pip"),
            xdg(Base::Config, "uv"),
            home(".pip"),
            home("miniconda3"),
            home("miniforge3"),
            home("anaconda3"),
            home(".conda"),
            home(".condarc"),
        ],
        caches: &[
            cache(cache_var("PIP_CACHE_DIR", "pip"), Some("PIP_CACHE_DIR")),
            cache(cache_var("UV_CACHE_DIR", "uv"), Some("UV_CACHE_DIR")),
            cache(cache_var("POETRY_CACHE_DIR", "pypoetry"), Some("POETRY_CACHE_DIR")),
            cache(cache_var("PRE_COMMIT_HOME", "pre-commit"), Some("PRE_COMMIT_HOME")),
            cache(home(".conda/pkgs"), Some("CONDA_PKGS_DIRS")),
        ],
        env: &[
            "PYENV_VERSION",
            "VIRTUAL_ENV",
            "CONDA_PREFIX",
            "CONDA_DEFAULT_ENV",
            "PIP_CERT",
            "REQUESTS_CA_BUNDLE",
            "SSL_CERT_FILE",
            "SSL_CERT_DIR",
        ],
    },
    Builtin {
        name: "go",
        markers: &["go.mod", "go.work"],
        reads: &[var("GOPATH", "", "go"), home("sdk"), xdg(Base::Config, "go")],
        caches: &[
            cache(cache_var("GOCACHE", "go-build"), Some("GOCACHE")),
            cache(var("GOMODCACHE", "", "go/pkg/mod"), Some("GOMODCACHE")),
            cache(cache_var("GOLANGCI_LINT_CACHE", "golangci-lint"), Some("GOLANGCI_LINT_CACHE")),
        ],
        env: &["GOROOT", "GOOS", "GOARCH", "CGO_ENABLED", "GOTOOLCHAIN", "SSL_CERT_FILE", "SSL_CERT_DIR"],
    },
    Builtin {
        name: "java",
        markers: &[
            "pom.xml",
            "build.gradle",
            "build.gradle.kts",
            "settings.gradle",
            "settings.gradle.kts",
            "gradlew",
            "mvnw",
            "build.sbt",
        ],
        reads: &[
            home(".m2"),
            var("GRADLE_USER_HOME", "", ".gradle"),
            var("SDKMAN_DIR", "", ".sdkman"),
            home(".jenv"),
            home(".jdks"),
        ],
        // Neither `.gradle/init.d` and `gradle.properties` nor `.m2/settings.xml`: they configure later builds.
        caches: &[
            cache(home(".m2/repository"), None),
            cache(home(".m2/wrapper"), None),
            cache(var("GRADLE_USER_HOME", "caches", ".gradle/caches"), None),
            cache(var("GRADLE_USER_HOME", "wrapper", ".gradle/wrapper"), None),
            cache(var("GRADLE_USER_HOME", "native", ".gradle/native"), None),
            cache(var("GRADLE_USER_HOME", "daemon", ".gradle/daemon"), None),
            cache(var("GRADLE_USER_HOME", "notifications", ".gradle/notifications"), None),
            cache(var("GRADLE_USER_HOME", "jdks", ".gradle/jdks"), None),
            cache(cache_var("COURSIER_CACHE", "coursier/v1"), Some("COURSIER_CACHE")),
        ],
        env: &["JAVA_HOME"],
    },
    Builtin {
        name: "git",
        markers: &[".git"],
        reads: &[home(".gitconfig"), xdg(Base::Config, "git")],
        caches: &[],
        env: &["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"],
    },
];
