use super::source::{Source, words};
use super::{Tree, Violation, is_test_file};

const PAGE: &str = "docs/enforcement.md";
const LAYERS: &str = "crates/ringfence-types/src/layers.rs";

/// Columns of the table after the layer's name, each with the folder of the driver that it describes.
const BACKENDS: [(&str, &str); 1] = [("linux/native", "crates/ringfence-linux/src/")];

/// What a cell may begin with.
const NOT_BUILT: &str = "not built";
const BUILT: [&str; 2] = ["enforced", "partial"];

/// One row for each layer in the order of reports, one column for each backend, and a cell claims a layer only if
/// the driver records that layer. What it records is compared with the table by a test that makes a real run.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let (Some(page), Some(layers)) = (tree.get(PAGE), tree.get(LAYERS)) else {
        return vec![Violation::new(PAGE, 1, format!("this page or {LAYERS} is missing"))];
    };
    let rows = table(page);
    let expected: Vec<_> = std::iter::once("layer").chain(BACKENDS.iter().map(|(name, _)| *name)).collect();
    let Some(((_, header), rows)) = rows.split_first().filter(|((_, header), _)| *header == expected) else {
        return vec![Violation::new(PAGE, 1, format!("no table with the columns {}", expected.join(", ")))];
    };
    let mut found = Vec::new();
    let layers = layer_names(layers);
    let names: Vec<_> = rows.iter().map(|(_, cells)| cells[0].trim_matches('`')).collect();
    let known: Vec<_> = layers.iter().map(|(_, name)| *name).collect();
    if names != known {
        found.push(Violation::new(PAGE, 1, format!("the rows are not {}", known.join(", "))));
        return found;
    }
    for ((line, cells), (variant, name)) in rows.iter().zip(layers) {
        if cells.len() != header.len() {
            found.push(Violation::new(PAGE, *line, format!("{} cells, not {}", cells.len(), header.len())));
            continue;
        }
        for (cell, (backend, folder)) in cells[1..].iter().zip(BACKENDS) {
            let built = BUILT.iter().any(|status| cell.starts_with(status));
            if !built && !cell.starts_with(NOT_BUILT) {
                found.push(Violation::new(PAGE, *line, format!("`{cell}` begins with no status")));
            } else if built && !records(tree, folder, variant) {
                let what = format!("{backend}, {name}: `{cell}`, but the driver never records it");
                found.push(Violation::new(PAGE, *line, what));
            }
        }
    }
    found
}

/// Line number and cells of each row of the page's first table, without the row of dashes.
fn table(page: &str) -> Vec<(usize, Vec<&str>)> {
    let lines = page.lines().enumerate().skip_while(|(_, line)| !line.starts_with('|'));
    lines
        .take_while(|(_, line)| line.starts_with('|'))
        .map(|(at, line)| {
            (at + 1, line.trim().trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>())
        })
        .filter(|(_, cells)| !cells.iter().all(|cell| cell.bytes().all(|byte| byte == b'-')))
        .collect()
}

/// Variant and name of each layer, from the list in the source: `UserNs = "userns", "…";`.
fn layer_names(source: &str) -> Vec<(&str, &str)> {
    source
        .lines()
        .filter(|line| line.trim_end().ends_with("\";"))
        .filter_map(|line| {
            let (variant, rest) = line.trim().split_once(" = \"")?;
            let (name, _) = rest.split_once("\", \"")?;
            variant.bytes().all(|byte| byte.is_ascii_alphanumeric()).then_some((variant, name))
        })
        .collect()
}

fn records(tree: &Tree, folder: &str, variant: &str) -> bool {
    let needle = format!("LayerName::{variant}");
    tree.find(folder, ".rs")
        .filter(|(path, _)| !is_test_file(path))
        .any(|(_, text)| words(&Source::parse(text).code_without_tests(), &needle).next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &str =
        "layer_names! {\n    UserNs = \"userns\", \"a\";\n    Cgroup = \"cgroup\", \"b\";\n}\n";
    const DRIVER: &str = "report.record(LayerName::UserNs, status, \"\");\n";
    const GOOD: &str =
        "# Table\n\n| layer | linux/native |\n|---|---|\n| `userns` | enforced |\n| `cgroup` | not built |\n";

    fn violations(page: &str) -> Vec<(usize, String)> {
        let tree =
            Tree::of(&[(PAGE, page), (LAYERS, NAMES), ("crates/ringfence-linux/src/report.rs", DRIVER)]);
        check(&tree).into_iter().map(|found| (found.line, found.what)).collect()
    }

    #[test]
    fn a_page_that_agrees_passes() {
        assert_eq!(violations(GOOD), []);
    }

    #[test]
    fn a_claim_without_code_and_a_cell_without_a_status_are_found() {
        assert_eq!(violations(&GOOD.replace("| not built |", "| enforced |"))[0].0, 6);
        assert_eq!(violations(&GOOD.replace("| enforced |", "| maybe |"))[0].0, 5);
    }

    #[test]
    fn a_missing_row_is_found() {
        assert_eq!(violations(&GOOD.replace("| `cgroup` | not built |\n", "")).len(), 1);
    }
}
