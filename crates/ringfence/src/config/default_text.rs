/// A configuration file with every key commented out at its default, as `ringfence init` writes it.
pub fn commented_default() -> &'static str {
    include_str!("default.toml")
}
