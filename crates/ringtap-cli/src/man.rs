//! `ringtap man`: the manual pages, from the same definitions as the help. Hidden: `make man` is its user.
//!
//! Owns the pages' sections; every word of them is said where the options are.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use ringtap::{Error, Result};

/// Write the manual pages.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder to write them into
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// A page can't be written.
pub fn run(args: Args) -> Result<ExitCode> {
    let failed = |error: &io::Error| {
        Error::os("write manual pages into", args.out.display().to_string(), error)
            .way_out("name a folder you may write to")
    };
    fs::create_dir_all(&args.out).map_err(|error| failed(&error))?;
    for (name, text) in pages().map_err(|error| failed(&error))? {
        fs::write(args.out.join(name), text).map_err(|error| failed(&error))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// File name and text of each page.
fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let without_help = |command: Command| command.disable_help_subcommand(true);
    let mut root = without_help(crate::Cli::command()).mut_subcommands(without_help);
    root.build();
    let (mut visible, mut names) = (Vec::new(), Vec::new());
    for command in root.get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = format!("ringtap-{}", command.get_name());
        for below in command.get_subcommands() {
            names.push(format!("{name}-{}", below.get_name()));
            visible.push(below.clone());
        }
        names.push(name);
        visible.push(command.clone());
    }
    let mut pages = vec![("ringtap.1".to_owned(), page(root, &names)?)];
    for (command, name) in visible.into_iter().zip(&names) {
        // Leaked once per page, in a program that ends with it: clap keeps names as &'static str.
        let command = command.name(&*name.clone().leak()).bin_name(words(name)).version(env!("CARGO_PKG_VERSION"));
        let others = std::iter::once("ringtap").chain(names.iter().filter(|other| *other != name).map(String::as_str));
        let others: Vec<String> = others.map(str::to_owned).collect();
        pages.push((format!("{name}.1"), page(command, &others)?));
    }
    Ok(pages)
}

/// What is typed for a page's command: of `ringtap-trap-top` three words, of `ringtap-pcap-run` two.
fn words(page: &str) -> String {
    if page == "ringtap-pcap-run" { "ringtap pcap-run".to_owned() } else { page.replace('-', " ") }
}

fn page(command: Command, see_also: &[String]) -> io::Result<Vec<u8>> {
    let extra = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let has_subcommands = command.has_subcommands();
    // clap_mangen's own synopsis lists every option, which nobody reads.
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim().to_owned();
    let man = Man::new(command.after_help("")).manual("Ringtap manual");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    Roff::new().control("SH", ["SYNOPSIS"]).text([roman(usage)]).to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    if has_subcommands {
        man.render_subcommands_section(&mut page)?;
    }
    man.render_options_section(&mut page)?;
    let (examples, notes) = split(&extra);
    let mut roff = Roff::new();
    if !examples.is_empty() {
        roff.control("SH", ["EXAMPLES"]).control("nf", []);
        for example in examples {
            roff.text([roman(example)]);
        }
        roff.control("fi", []);
    }
    if !notes.is_empty() {
        roff.control("SH", ["NOTES"]);
        for note in notes {
            match note {
                Note::Filled(text) => roff.control("PP", []).text([roman(text)]),
                Note::AsIs(lines) => {
                    roff.control("PP", []).control("RS", ["4"]).control("nf", []);
                    for line in lines {
                        roff.text([roman(line)]);
                    }
                    roff.control("fi", []).control("RE", [])
                }
            };
        }
    }
    roff.control("SH", ["EXIT STATUS"]).text([roman("0: done. 1: failed. 2: wrong usage.")]);
    let mut also: Vec<String> = see_also.iter().map(|name| format!("{name}(1)")).collect();
    also.extend(["pcap-filter(7)", "tcpdump(8)"].map(str::to_owned));
    roff.control("SH", ["SEE ALSO"]).text([roman(also.join(", "))]);
    roff.to_writer(&mut page)?;
    Ok(page)
}

/// A part of the help's last text.
#[derive(Debug, PartialEq, Eq)]
enum Note<'t> {
    /// A paragraph, as one line.
    Filled(String),
    /// Indented lines: a file's content, a command.
    AsIs(Vec<&'t str>),
}

/// The help's last part: lines under `Examples:`, and what comes after them.
fn split(after_help: &str) -> (Vec<&str>, Vec<Note<'_>>) {
    let (examples, rest) = match after_help.strip_prefix("Examples:\n") {
        Some(text) => text.split_once("\n\n").unwrap_or((text, "")),
        None => ("", after_help),
    };
    let indented = |line: &&str| line.starts_with("  ");
    let lines: Vec<&str> = rest.lines().collect();
    let parts = lines.chunk_by(|one, next| !one.is_empty() && !next.is_empty() && indented(one) == indented(next));
    let parts = parts.filter(|part| part.iter().any(|line| !line.trim().is_empty()));
    let notes = parts.map(|part| match part.iter().all(indented) {
        true => Note::AsIs(part.iter().map(|line| &line[2..]).collect()),
        false => Note::Filled(part.iter().flat_map(|line| line.split_whitespace()).collect::<Vec<_>>().join(" ")),
    });
    (examples.lines().map(|line| line.strip_prefix("  ").unwrap_or(line)).collect(), notes.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_is_split_into_examples_and_notes() {
        let (examples, notes) = split("Examples:\n  a b\n    c\n\nOne\ntwo:\n  [x]\n    y = 1\nThree.\n\nFour.");
        assert_eq!(examples, ["a b", "  c"]);
        let filled = |text: &str| Note::Filled(text.to_owned());
        assert_eq!(notes, [filled("One two:"), Note::AsIs(vec!["[x]", "  y = 1"]), filled("Three."), filled("Four.")]);
        assert_eq!(split("").0.len(), 0);
    }
}
