//! The order in which the list is looked for, made when this is compiled.

use super::SECRETS;

/// Rows of [`SECRETS`] such that paths with the same first components lie side by side, and a path before those below it.
/// Of a row with a variable its default counts.
pub(super) static BY_COMPONENT: [u16; SECRETS.len()] = by_component();

const fn by_component() -> [u16; SECRETS.len()] {
    assert!(SECRETS.len() <= 1 << 16, "a row's number has 16 bits");
    let mut order = [0; SECRETS.len()];
    let mut sorted = 0;
    while sorted < SECRETS.len() {
        let mut at = sorted;
        while at > 0 && precedes(SECRETS[sorted].path, SECRETS[order[at - 1] as usize].path) {
            order[at] = order[at - 1];
            at -= 1;
        }
        order[at] = sorted as u16;
        sorted += 1;
    }
    order
}

/// Compares component by component: the separator is less than any other byte.
const fn precedes(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let (mut a, mut b) = (default(one), default(other));
    loop {
        let (left, right) = (rank(one, a), rank(other, b));
        if left != right || left == 0 {
            return left < right;
        }
        a += 1;
        b += 1;
    }
}

/// 0 at the end.
const fn rank(path: &[u8], at: usize) -> u16 {
    if at == path.len() {
        0
    } else if path[at] == b'/' {
        1
    } else {
        path[at] as u16 + 1
    }
}

/// Where the default of `$NAME/rest|~/default` begins.
const fn default(path: &[u8]) -> usize {
    let mut at = path.len();
    while at > 0 && path[at - 1] != b'|' {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_components_in_common_lies_side_by_side() {
        let sorted: Vec<Vec<&str>> = BY_COMPONENT
            .iter()
            .map(|&row| SECRETS[usize::from(row)].path.rsplit('|').next().unwrap().split('/').collect())
            .collect();
        assert!(sorted.is_sorted());
        let mut rows = BY_COMPONENT.to_vec();
        rows.sort();
        assert!(rows.iter().enumerate().all(|(at, &row)| at == usize::from(row)), "each row once");
    }

    #[test]
    fn the_separator_is_less_than_any_other_byte() {
        assert!(precedes("~/.a/z", "~/.a-b"));
        assert!(precedes("~/.a", "$V|~/.a/b"));
        assert!(!precedes("~/.a", "~/.a") && !precedes("~/b", "$A|~/a"));
    }
}
