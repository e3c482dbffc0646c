/// FNV-1a, for tables that the build script fills. The names are ours, so nobody can choose them to collide.
fn hash(text: &[u8]) -> u32 {
    text.iter().fold(0x811c_9dc5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
