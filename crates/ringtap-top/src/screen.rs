//! Owns: what a look at a program looks like: what was lost first, then its ledger, rates and latency, then its lists.
//! Does not: ask for anything.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Sparkline, Table, Widget};
use ringtap_output::printable;
use ringtap_run::units;
use ringtap_web::{Latency, Losses};
use serde_json::Value;

use crate::source::Source;

const BAD: Style = Style::new().fg(Color::Red);
const WARN: Style = Style::new().fg(Color::Yellow);
const GOOD: Style = Style::new().fg(Color::Green);
const QUIET: Style = Style::new().add_modifier(Modifier::DIM);
const HEAD: Style = Style::new().add_modifier(Modifier::BOLD);

/// What somebody has chosen.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// The list.
    pub(crate) list: usize,
    /// Its first row on the screen.
    pub(crate) row: usize,
}

/// One look.
pub(crate) struct Screen<'a> {
    pub(crate) source: &'a Source,
    pub(crate) shown: &'a Shown,
    /// What keys do.
    pub(crate) keys: &'a str,
}

impl Screen<'_> {
    pub(crate) fn draw(&self, area: Rect, buffer: &mut Buffer) {
        let said = self.said();
        let ledger = self.ledger();
        let figures = self.figures();
        let middle = ledger.len().max(figures.len() + 3) as u16;
        let [top, verdict, account, list, keys] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(said.len() as u16),
            Constraint::Length(middle),
            Constraint::Min(0),
            Constraint::Length(u16::from(!self.keys.is_empty())),
        ])
        .areas(area);
        let object = printable(self.source.page["object"].as_str().unwrap_or_default());
        let title = Line::from(vec![
            Span::styled(format!("ringtap {}", self.source.program), HEAD),
            format!("  {object}").into(),
        ]);
        Paragraph::new(title).render(top, buffer);
        Paragraph::new(said).render(verdict, buffer);
        let [left, right] = Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)]).areas(account);
        Paragraph::new(ledger).render(left, buffer);
        let [facts, curve] =
            Layout::vertical([Constraint::Length(figures.len() as u16), Constraint::Min(0)]).areas(right);
        Paragraph::new(figures).render(facts, buffer);
        self.curve(curve, buffer);
        self.list(list, buffer);
        Paragraph::new(Line::styled(self.keys, QUIET)).render(keys, buffer);
    }

    /// What is wrong, or that nothing is.
    fn said(&self) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        if let Some(silence) = &self.source.silence {
            lines.push(Line::styled(printable(silence), BAD));
        }
        if let Some(losses) = Losses::of(&self.source.history) {
            lines.push(Line::styled(losses.says(), if losses.is_none() { GOOD } else { BAD }));
        }
        let faults = self.source.page["faults"].as_array().into_iter().flatten().filter_map(Value::as_str);
        lines.extend(faults.map(|fault| Line::styled(printable(fault), BAD)));
        lines.push(Line::default());
        lines
    }

    fn ledger(&self) -> Vec<Line<'static>> {
        let history = &self.source.history;
        let mut lines = vec![Line::styled(format!("{:<28}{:>16}{:>14}", "ledger", "in all", "a second"), HEAD)];
        let rows = ringtap_web::ledger(history);
        lines.extend(rows.into_iter().map(|row| {
            let style = if row.is_loss && row.all.is_some_and(|all| all > 0.0) { BAD } else { Style::new() };
            Line::styled(format!("{:<28}{:>16}{:>14}", row.says, row.counted(), row.per_second()), style)
        }));
        lines
    }

    fn figures(&self) -> Vec<Line<'static>> {
        let history = &self.source.history;
        let fact = |name: &str, value: String| Line::from(format!("{name:<24}{value}"));
        let counter = self.counter();
        let rate = history.rate(counter).map_or_else(|| "–".to_owned(), units::shown_rate);
        let mut lines = vec![Line::styled("now", HEAD), fact(&format!("{counter} a second"), rate)];
        let latency = Latency::of(history);
        if let Some(within) = latency.within(0.99) {
            lines.push(fact("99 % handled within", within));
        }
        if let Some(cpu) = history.rate("engine_cpu_seconds") {
            lines.push(fact("engines' CPU", format!("{:.1} % of a core", cpu * 100.0)));
        }
        lines
    }

    /// The counter of what comes.
    fn counter(&self) -> &'static str {
        let has = |name: &str| self.source.history.now().is_some_and(|figures| figures.family(name).is_some());
        if has("offered") { "offered" } else { "events" }
    }

    fn curve(&self, area: Rect, buffer: &mut Buffer) {
        let rates = self.source.history.rates(self.counter());
        let newest = rates.len().saturating_sub(area.width.into());
        let values: Vec<u64> = rates[newest..].iter().map(|(_, rate)| *rate as u64).collect();
        Sparkline::default().data(values).style(QUIET).render(area, buffer);
    }

    fn list(&self, area: Rect, buffer: &mut Buffer) {
        let lists = self.source.lists();
        let Some(list) = lists.get(self.shown.list.min(lists.len().saturating_sub(1))) else {
            if self.source.page.is_null() {
                let says = "\nlists of what it found come from its page: start it with --web";
                Paragraph::new(says).style(QUIET).render(area, buffer);
            }
            return;
        };
        let text = |value: &Value| printable(value.as_str().unwrap_or_default());
        let [name, rest] = Layout::vertical([Constraint::Length(2), Constraint::Min(0)]).areas(area);
        let mut head = vec![Span::styled(text(&list["title"]), HEAD)];
        if let Some(note) = list["note"].as_str() {
            head.push(Span::styled(format!("  {}", printable(note)), QUIET));
        }
        Paragraph::new(vec![Line::default(), Line::from(head)]).render(name, buffer);
        let columns: Vec<String> = list["columns"].as_array().into_iter().flatten().map(text).collect();
        let rows: Vec<&Value> = list["rows"].as_array().into_iter().flatten().collect();
        if rows.is_empty() {
            return;
        }
        let cells = |row: &Value| -> Vec<(String, Style)> {
            row.as_array().into_iter().flatten().map(|cell| (text(&cell["text"]), style(cell))).collect()
        };
        let all: Vec<Vec<(String, Style)>> = rows.into_iter().map(cells).collect();
        let widths = widths(&columns, &all);
        let first = self.shown.row.min(all.len() - 1);
        let shown = all
            .into_iter()
            .skip(first)
            .map(|row| Row::new(row.into_iter().map(|(text, style)| Span::styled(text, style)).collect::<Vec<_>>()));
        Table::new(shown, widths).header(Row::new(columns).style(QUIET)).render(rest, buffer);
    }
}

/// As wide as what is in them; the widest one takes what is left.
fn widths(columns: &[String], rows: &[Vec<(String, Style)>]) -> Vec<Constraint> {
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(|(text, _)| text.chars().count());
        cells.chain([columns[at].chars().count()]).max().unwrap_or(0) as u16
    };
    let all: Vec<u16> = (0..columns.len()).map(width).collect();
    let widest = all.iter().enumerate().max_by_key(|(_, width)| **width).map(|(at, _)| at);
    let constraint = |(at, width): (usize, u16)| {
        if Some(at) == widest { Constraint::Fill(1) } else { Constraint::Length(width.min(40)) }
    };
    all.into_iter().enumerate().map(constraint).collect()
}

fn style(cell: &Value) -> Style {
    match cell["severity"].as_str() {
        Some("critical" | "major") => BAD,
        Some("minor" | "warning") => WARN,
        Some(_) => QUIET,
        None => Style::new(),
    }
}
