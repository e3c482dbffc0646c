# A build and the tests of a crate with dependencies, from nothing, then again.
set -eu
cargo build --offline --quiet
cargo test --offline --quiet -- --test-threads=2 2>/dev/null | grep '^test result' | sed 's/; finished.*//'
touch crates/*/src/lib.rs
cargo build --offline 2>&1 | grep -c Compiling
cargo clean --offline --quiet
cargo new --quiet fresh 2>/dev/null
cat fresh/src/main.rs
