use super::{Tree, Violation};
use crate::docs::{FRAME, PAGE, RULES, page};

/// A page that is made from data says what the data say.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let files: Option<Vec<String>> =
        RULES.iter().map(|(path, _)| tree.get(path).map(str::to_owned)).collect();
    let (Some(frame), Some(files)) = (tree.get(FRAME), files) else {
        return vec![Violation::new(FRAME, 1, "it or a file with rules is missing")];
    };
    match page(frame, &files) {
        Err(error) => vec![Violation::new(FRAME, 1, error)],
        Ok(page) if tree.get(PAGE) != Some(page.as_str()) => {
            vec![Violation::new(PAGE, 1, "not current: run `cargo xtask docs`")]
        }
        Ok(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_differs_is_found() {
        let rules = "[[rule]]\nname = 'a'\n";
        let frame = "<!-- rules -->\n";
        let current = page(frame, &vec![rules.to_owned(); 3]).unwrap();
        let files = |text| {
            let mut files = vec![(FRAME, frame), (PAGE, text)];
            files.extend(RULES.iter().map(|(path, _)| (*path, rules)));
            check(&Tree::of(&files)).len()
        };
        assert_eq!((files(current.as_str()), files("old")), (0, 1));
        assert_eq!(check(&Tree::of(&[])).len(), 1);
    }
}
