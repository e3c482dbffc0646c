use std::fmt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::error::Error;
use crate::tools::capture;

const PAGE: &str = "docs/performance.md";
const BEGIN: &str = "<!-- figures: begin -->";
const END: &str = "<!-- figures: end -->";

/// The table, as it is printed and as it stands in docs/performance.md.
#[derive(Debug)]
pub(crate) struct Report {
    machine: String,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    what: String,
    figure: String,
    against: String,
    ratio: Option<f64>,
    bar: Option<f64>,
}

impl Report {
    pub(crate) fn new() -> Result<Self, Error> {
        let date = text_of(Command::new("date").args(["-u", "+%Y-%m-%d"]))?;
        let kernel = text_of(Command::new("uname").args(["-s", "-r", "-m"]))?;
        let compiler = text_of(Command::new("rustc").arg("--version"))?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self { machine: format!("{date}, {kernel}, {cores} cores, {compiler}"), rows: Vec::new() })
    }

    /// A figure, what it is compared with, the ratio and the ratio's upper bound.
    pub(crate) fn add(
        &mut self,
        what: &str,
        figure: String,
        against: &str,
        ratio: Option<f64>,
        bar: Option<f64>,
    ) {
        self.rows.push(Row { what: what.to_owned(), figure, against: against.to_owned(), ratio, bar });
    }

    /// Puts the table between the two markers of the page.
    pub(crate) fn write(&self, root: &Path) -> Result<(), Error> {
        let path = root.join(PAGE);
        let page =
            std::fs::read_to_string(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
        let page = replaced(&page, &self.to_string())
            .map_err(|marker| Error::Marker { path: path.clone(), marker })?;
        std::fs::write(&path, page).map_err(|source| Error::Write { path, source })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}.\n", self.machine)?;
        writeln!(f, "| what | median | compared with | ratio | bar |")?;
        writeln!(f, "|---|---:|---|---:|---:|")?;
        for Row { what, figure, against, ratio, bar } in &self.rows {
            let number = |value: &Option<f64>| value.map_or(String::new(), |value| format!("{value:.2}"));
            writeln!(f, "| {what} | {figure} | {against} | {} | {} |", number(ratio), number(bar))?;
        }
        Ok(())
    }
}

fn replaced(page: &str, table: &str) -> Result<String, &'static str> {
    let (before, rest) = page.split_once(BEGIN).ok_or(BEGIN)?;
    let (_, after) = rest.split_once(END).ok_or(END)?;
    Ok(format!("{before}{BEGIN}\n\n{table}\n{END}{after}"))
}

fn text_of(command: &mut Command) -> Result<String, Error> {
    Ok(String::from_utf8_lossy(&capture(command)?).trim().to_owned())
}

pub(crate) fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

pub(crate) fn mebibytes(kib: u64) -> String {
    format!("{:.2} MiB", kib as f64 / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_figures_are_replaced() {
        let page = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        assert_eq!(replaced(&page, "new").unwrap(), format!("before\n{BEGIN}\n\nnew\n{END}\nafter\n"));
        assert_eq!(replaced("no markers", "new"), Err(BEGIN));
    }
}
