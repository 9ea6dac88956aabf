//! One table of what the guests reported.
//!
//! Owns the reading of their files and what counts as success: every check passed or was absent, and the guest came to its end.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

use crate::outcome::{Line, Outcome, State};

/// What one guest reported.
#[derive(Debug, Default)]
struct Cell {
    name: String,
    kernel: String,
    driver: String,
    checks: Vec<(String, f64, Outcome)>,
    ended: bool,
}

impl Cell {
    fn read(path: &Path) -> io::Result<Self> {
        let text = std::fs::read(path).map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
        let name = path.file_stem().map(|stem| stem.to_string_lossy().replace(',', " ")).unwrap_or_default();
        Ok(Self::parse(name, &String::from_utf8_lossy(&text)))
    }

    /// A guest that was stopped leaves half a line; it is not one.
    fn parse(name: String, text: &str) -> Self {
        let mut cell = Self { name, ..Self::default() };
        for line in text.lines().filter_map(|line| serde_json::from_str(line).ok()) {
            match line {
                Line::Cell { kernel, driver, .. } => (cell.kernel, cell.driver) = (kernel, driver),
                Line::Check { name, seconds, outcome } => cell.checks.push((name, seconds, outcome)),
                Line::End => cell.ended = true,
            }
        }
        cell
    }

    fn succeeded(&self) -> bool {
        self.ended
            && !self.checks.is_empty()
            && self.checks.iter().all(|(_, _, outcome)| outcome.state != State::Failed)
    }
}

/// Prints all; whether all went well.
///
/// # Errors
/// A file can't be read.
pub(crate) fn print(files: &[PathBuf], markdown: bool) -> io::Result<bool> {
    let cells = files.iter().map(|file| Cell::read(file)).collect::<io::Result<Vec<_>>>()?;
    print!("{}", if markdown { matrix(&cells) } else { plain(&cells) });
    Ok(cells.iter().all(Cell::succeeded))
}

fn word(state: State) -> &'static str {
    match state {
        State::Passed => "ok",
        State::Failed => "FAILED",
        State::Absent => "absent",
    }
}

fn plain(cells: &[Cell]) -> String {
    let mut text = String::new();
    for cell in cells {
        let _ = writeln!(text, "{}: Linux {}, {}", cell.name, cell.kernel, cell.driver);
        for (name, seconds, outcome) in &cell.checks {
            let _ = writeln!(text, "  {:<7} {name:<28} {seconds:>5.1} s  {}", word(outcome.state), outcome.detail);
        }
        if !cell.ended {
            let _ = writeln!(text, "  FAILED  the guest did not come to its end");
        }
    }
    text
}

/// A row for each check, a column for each guest.
fn matrix(cells: &[Cell]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for (name, _, _) in cells.iter().flat_map(|cell| &cell.checks) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut text = String::from("| |");
    cells.iter().for_each(|cell| text += &format!(" {}<br>{} |", cell.name, cell.kernel));
    text += &format!("\n|---|{}\n", "---|".repeat(cells.len()));
    for name in names {
        let _ = write!(text, "| {name} |");
        for cell in cells {
            let found = cell.checks.iter().find(|(check, _, _)| check == name);
            let shown = found.map_or_else(|| "not run".to_owned(), |(_, _, outcome)| short(name, outcome));
            let _ = write!(text, " {shown} |");
        }
        text.push('\n');
    }
    text
}

/// What fits a cell of the matrix: how packets are taken in words, interrupts in numbers, all else as it ended.
fn short(name: &str, outcome: &Outcome) -> String {
    if name == "AF_XDP" && outcome.state == State::Passed {
        return outcome.detail.clone();
    }
    let interrupts = outcome.figures.get("interrupts").and_then(serde_json::Value::as_u64);
    match interrupts {
        Some(count) if name.ends_with("mode") => format!("{}, {count} int.", word(outcome.state)),
        _ => word(outcome.state).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CELL: &str = r#"{"line":"cell","kernel":"7.3","driver":"igb","queues":2}"#;
    const GOOD: &str = r#"{"line":"check","name":"timer mode","seconds":1.0,"state":"passed","detail":"d","figures":{"interrupts":3}}"#;
    const ABSENT: &str = r#"{"line":"check","name":"all queues","seconds":1.0,"state":"absent","detail":"one queue"}"#;
    const BAD: &str = r#"{"line":"check","name":"a","seconds":1.0,"state":"failed","detail":"lost 3"}"#;
    const END: &str = r#"{"line":"end"}"#;

    fn cell(lines: &[&str]) -> Cell {
        Cell::parse("7-rt igb".to_owned(), &lines.join("\n"))
    }

    #[test]
    fn only_a_whole_run_without_failures_is_a_success() {
        assert!(cell(&[CELL, GOOD, ABSENT, END]).succeeded());
        assert!(!cell(&[CELL, GOOD, BAD, END]).succeeded());
        assert!(!cell(&[CELL, GOOD, &ABSENT[..40]]).succeeded(), "stopped in the middle of a line");
        assert!(!cell(&[CELL, END]).succeeded(), "nothing was checked");
        assert!(!cell(&[]).succeeded());
    }

    #[test]
    fn the_tables_name_what_failed_and_what_is_missing() {
        let cells = [cell(&[CELL, GOOD, END]), cell(&[CELL, BAD])];
        let text = plain(&cells);
        assert!(text.contains("FAILED  a ") && text.contains("lost 3") && text.contains("did not come to its end"));
        let rows = matrix(&cells);
        assert!(rows.contains("| timer mode | ok, 3 int. | not run |"), "{rows}");
        assert!(rows.contains("| a | not run | FAILED |"), "{rows}");
    }
}
