/// Bytes that mean nothing by themselves.
pub(super) const PLAIN: u8 = 0;
/// Space and tab.
pub(super) const BLANK: u8 = 1;
const SPECIAL: u8 = 2;

const TABLE: [u8; 256] = {
    let mut table = [PLAIN; 256];
    table[b' ' as usize] = BLANK;
    table[b'\t' as usize] = BLANK;
    let special = b"\0\n\r\\'\"$`#;&|<>(){,}";
    let mut at = 0;
    while at < special.len() {
        table[special[at] as usize] = SPECIAL;
        at += 1;
    }
    table
};

pub(super) fn of(byte: u8) -> u8 {
    TABLE[usize::from(byte)]
}

/// Where a run of plain bytes ends.
pub(super) fn plain_end(text: &[u8], start: usize) -> usize {
    text[start..].iter().position(|&byte| of(byte) != PLAIN).map_or(text.len(), |at| start + at)
}
