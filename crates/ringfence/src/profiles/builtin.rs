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

/// A cache of a built-in profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltinCache {
    /// Name of the private layer.
    pub name: &'static str,
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
    /// Variables of the host that the tools need and that neither name code to load nor hold secrets.
    pub env: &'static [&'static str],
}

const fn cache(name: &'static str, place: Place, env: Option<&'static str>) -> BuiltinCache {
    BuiltinCache { name, place, env }
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
            cache("cargo-registry", var("CARGO_HOME", "registry", ".cargo/registry"), None),
            cache("cargo-git", var("CARGO_HOME", "git", ".cargo/git"), None),
            cache("sccache", cache_var("SCCACHE_DIR", "sccache"), Some("SCCACHE_DIR")),
        ],
        env: &["CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "RUST_BACKTRACE", "RUST_LOG"],
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
            cache("npm", var("npm_config_cache", "", ".npm"), Some("npm_config_cache")),
            cache("yarn", cache_var("YARN_CACHE_FOLDER", "yarn"), Some("YARN_CACHE_FOLDER")),
            cache("yarn-berry", home(".yarn/berry"), Some("YARN_GLOBAL_FOLDER")),
            cache("pnpm-store", xdg(Base::Data, "pnpm/store"), Some("npm_config_store_dir")),
            cache("pnpm-cache", xdg(Base::Cache, "pnpm"), Some("npm_config_cache_dir")),
            cache("node-gyp", xdg(Base::Cache, "node-gyp"), Some("npm_config_devdir")),
            cache("corepack", cache_var("COREPACK_HOME", "node/corepack"), Some("COREPACK_HOME")),
            cache(
                "bun",
                var("BUN_INSTALL_CACHE_DIR", "", ".bun/install/cache"),
                Some("BUN_INSTALL_CACHE_DIR"),
            ),
            cache("deno", cache_var("DENO_DIR", "deno"), Some("DENO_DIR")),
        ],
        env: &["NVM_DIR", "VOLTA_HOME", "PNPM_HOME", "NODE_ENV"],
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
            cache("pip", cache_var("PIP_CACHE_DIR", "pip"), Some("PIP_CACHE_DIR")),
            cache("uv", cache_var("UV_CACHE_DIR", "uv"), Some("UV_CACHE_DIR")),
            cache("poetry", cache_var("POETRY_CACHE_DIR", "pypoetry"), Some("POETRY_CACHE_DIR")),
            cache("pre-commit", cache_var("PRE_COMMIT_HOME", "pre-commit"), Some("PRE_COMMIT_HOME")),
            cache("conda-pkgs", var("CONDA_PKGS_DIRS", "", ".conda/pkgs"), Some("CONDA_PKGS_DIRS")),
        ],
        env: &["PYENV_ROOT", "PYENV_VERSION", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV"],
    },
    Builtin {
        name: "go",
        markers: &["go.mod", "go.work"],
        reads: &[var("GOPATH", "", "go"), home("sdk"), xdg(Base::Config, "go")],
        caches: &[
            cache("go-build", cache_var("GOCACHE", "go-build"), Some("GOCACHE")),
            cache("go-mod", var("GOMODCACHE", "", "go/pkg/mod"), Some("GOMODCACHE")),
            cache(
                "golangci-lint",
                cache_var("GOLANGCI_LINT_CACHE", "golangci-lint"),
                Some("GOLANGCI_LINT_CACHE"),
            ),
        ],
        env: &["GOPATH", "GOROOT", "GOOS", "GOARCH", "CGO_ENABLED", "GOTOOLCHAIN"],
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
            cache("maven", home(".m2/repository"), None),
            cache("maven-wrapper", home(".m2/wrapper"), None),
            cache("gradle-caches", var("GRADLE_USER_HOME", "caches", ".gradle/caches"), None),
            cache("gradle-wrapper", var("GRADLE_USER_HOME", "wrapper", ".gradle/wrapper"), None),
            cache("gradle-native", var("GRADLE_USER_HOME", "native", ".gradle/native"), None),
            cache("gradle-daemon", var("GRADLE_USER_HOME", "daemon", ".gradle/daemon"), None),
            cache(
                "gradle-notifications",
                var("GRADLE_USER_HOME", "notifications", ".gradle/notifications"),
                None,
            ),
            cache("gradle-jdks", var("GRADLE_USER_HOME", "jdks", ".gradle/jdks"), None),
            cache("coursier", cache_var("COURSIER_CACHE", "coursier/v1"), Some("COURSIER_CACHE")),
        ],
        env: &["JAVA_HOME", "GRADLE_USER_HOME", "SDKMAN_DIR"],
    },
    Builtin {
        name: "git",
        markers: &[".git"],
        reads: &[home(".gitconfig"), xdg(Base::Config, "git")],
        caches: &[],
        env: &["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"],
    },
];
