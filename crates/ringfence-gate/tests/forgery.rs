//! Code that skips a stage, or makes a stage's result itself, does not compile.

#[test]
fn proofs_cannot_be_forged() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
