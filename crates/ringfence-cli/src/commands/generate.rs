//! `ringfence completions`, `ringfence man` and `ringfence version`: generated from the definitions of the arguments.

use std::io::{self, Write};

use clap::Command;
use clap_complete::generate;
use clap_mangen::Man;

use crate::args::{self, CompletionsArgs, ManArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::print_bytes;

pub(crate) fn completions(args: &CompletionsArgs) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    generate(args.shell, &mut tree(), "ringfence", &mut script);
    print_bytes(&script)?;
    Ok(Exit::Success)
}

pub(crate) fn man(args: &ManArgs) -> Result<Exit, CliError> {
    let mut root = tree();
    root.build();
    let command = args.command.as_ref().and_then(|name| root.find_subcommand(name)).unwrap_or(&root);
    let mut page = Vec::new();
    write_page(command, &mut page).map_err(CliError::Output)?;
    print_bytes(&page)?;
    Ok(Exit::Success)
}

/// As `ringfence --version`.
pub(crate) fn version() -> Result<Exit, CliError> {
    print_bytes(args::command().render_version().as_bytes())?;
    Ok(Exit::Success)
}

/// The commands without `help`, which names all of them again.
fn tree() -> Command {
    args::command().disable_help_subcommand(true)
}

/// The page in roff (man(7)). The text after the options is laid out as it stands there, examples in lines of their
/// own, where the generator would fill them into paragraphs.
fn write_page(command: &Command, page: &mut impl Write) -> io::Result<()> {
    let source = concat!("ringfence ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).source(source).manual("Ringfence");
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(page)?;
    }
    if let Some(notes) = command.get_after_help() {
        writeln!(page, ".SH NOTES")?;
        for block in notes.to_string().split("\n\n") {
            write_block(block, page)?;
        }
    }
    Ok(())
}

/// A paragraph, or lines that stay lines because some are indented.
fn write_block(block: &str, page: &mut impl Write) -> io::Result<()> {
    let lines = block.lines().any(|line| line.starts_with(' '));
    writeln!(page, ".PP")?;
    if lines {
        writeln!(page, ".nf")?;
    }
    for line in block.lines() {
        writeln!(page, "\\&{}", line.replace('\\', "\\e").replace('-', "\\-"))?;
    }
    if lines {
        writeln!(page, ".fi")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_shows_the_options_and_keeps_examples_in_lines() {
        let mut root = tree();
        root.build();
        for name in args::NAMES {
            let mut page = Vec::new();
            write_page(root.find_subcommand(name).unwrap(), &mut page).unwrap();
            let page = String::from_utf8(page).unwrap();
            assert!(page.contains(&format!(".TH ringfence-{name} 1")), "{page}");
            assert_eq!(page.matches(".nf\n").count(), page.matches(".fi\n").count());
        }
        let mut page = Vec::new();
        write_block("Examples:\n  a -b '\\n'\n.x", &mut page).unwrap();
        assert_eq!(
            String::from_utf8(page).unwrap(),
            ".PP\n.nf\n\\&Examples:\n\\&  a \\-b '\\en'\n\\&.x\n.fi\n"
        );
    }
}
