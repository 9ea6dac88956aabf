//! A table, once as HTML and once as Markdown.
//!
//! Owns escaping for Markdown; maud escapes the HTML.

use maud::{Markup, html};

/// A row whose head is longer than this is named by a sentence, which is set in lines; shorter names stay on one.
const LONGEST_NAME: usize = 40;

/// Rows of text; the first column names the row.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// What it shows, with units.
    pub caption: String,
    /// Column heads.
    pub head: Vec<String>,
    /// Rows as long as the head.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty one.
    pub fn new<'a>(caption: impl Into<String>, head: impl IntoIterator<Item = &'a str>) -> Self {
        Self { caption: caption.into(), head: head.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// In a frame that scrolls sideways when it is wider than the page.
    pub fn html(&self) -> Markup {
        self.framed(true)
    }

    /// To be opened; the caption is what is clicked on.
    pub fn folded(&self) -> Markup {
        html! { details { summary { "Table: " (self.caption) } (self.framed(false)) } }
    }

    fn framed(&self, captioned: bool) -> Markup {
        html! {
            div.wide tabindex="0" role="region" aria-label=(self.caption) {
                table {
                    @if captioned { caption { (self.caption) } }
                    thead { tr { @for head in &self.head { th scope="col" { (head) } } } }
                    tbody {
                        @for row in &self.rows {
                            tr {
                                @for (column, cell) in row.iter().enumerate() {
                                    @if column == 0 && cell.chars().count() > LONGEST_NAME { th.text scope="row" { (cell) } }
                                    @else if column == 0 { th scope="row" { (cell) } }
                                    @else if is_figure(cell) { td { (cell) } }
                                    @else { td.text { (cell) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// The caption as a paragraph, then the table.
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| -> String {
            let cells: Vec<String> = cells.iter().map(|cell| escape(cell)).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let mut text =
            format!("{}\n\n{}|{}\n", escape(&self.caption), line(&self.head), "---|".repeat(self.head.len()));
        for row in &self.rows {
            text += &line(row);
        }
        text
    }
}

/// Begins like a number: set to the right, in digits of one width.
fn is_figure(cell: &str) -> bool {
    cell.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '–' | '-' | '≥' | '<'))
}

/// Text that Markdown takes as text, on one line.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\r' => escaped.push(' '),
            '<' => escaped.push_str("&lt;"),
            '&' => escaped.push_str("&amp;"),
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '~' => {
                escaped.push('\\');
                escaped.push(character);
            }
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_cells_stay_cells() {
        let mut table = Table::new("a | b", ["receiver", "x"]);
        table.rows.push(vec!["<b>|\n".into(), "t_PP".into()]);
        assert_eq!(table.markdown(), "a \\| b\n\n| receiver | x |\n|---|---|\n| &lt;b>\\|  | t\\_PP |\n");
    }

    #[test]
    fn figures_are_set_as_such() {
        assert!(is_figure("148 k") && is_figure("–") && is_figure("≥ 1 M") && !is_figure("none lost"));
    }
}
