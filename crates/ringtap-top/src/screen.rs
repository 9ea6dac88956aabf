//! Owns: what a look at a program looks like: what was lost first, then its ledger, rates and latencies, then its lists.
//! Does not: ask for anything. All texts are another program's: none of them steers the terminal.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Sparkline, Table, Widget, Wrap};
use ringtap_output::printable;
use serde_json::Value;

use crate::source::Source;

const BAD: Style = Style::new().fg(Color::Red);
const WARN: Style = Style::new().fg(Color::Yellow);
const GOOD: Style = Style::new().fg(Color::Green);
const QUIET: Style = Style::new().add_modifier(Modifier::DIM);
const HEAD: Style = Style::new().add_modifier(Modifier::BOLD);
/// Lines of what is wrong, and of an account.
const MOST_SAID: usize = 10;
const MOST_ROWS: usize = 40;
/// Columns of the ledger with a gap behind it, and what is beside it where there is so much room.
const LEDGER_WIDTH: u16 = 61;
const TILES_WIDTH: u16 = 42;

/// What somebody has chosen.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    /// The list.
    pub(crate) list: usize,
    /// Its first row on the screen.
    pub(crate) row: usize,
}

/// One look.
pub(crate) struct Screen<'a> {
    pub(crate) source: &'a Source,
    pub(crate) chosen: &'a Chosen,
    /// What keys do.
    pub(crate) keys: &'a str,
}

fn text(value: &Value) -> String {
    printable(value.as_str().unwrap_or_default())
}

fn all(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

impl Screen<'_> {
    pub(crate) fn draw(&self, area: Rect, buffer: &mut Buffer) {
        let (said, ledger, tiles) = (self.said(), self.ledger(), self.tiles());
        let is_wide = area.width >= LEDGER_WIDTH + TILES_WIDTH;
        // Beside each other where both have room, else what is told first in lines of its own.
        let above = if is_wide { 0 } else { 2 };
        let rows = if is_wide { ledger.len().max(tiles.len() + 3) } else { ledger.len() };
        let [top, verdict, told, account, list, keys] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(said.len() as u16),
            Constraint::Length(above),
            // Of a low screen lists have a part, too.
            Constraint::Length((rows as u16).min(area.height / 2)),
            Constraint::Min(0),
            Constraint::Length(u16::from(!self.keys.is_empty())),
        ])
        .areas(area);
        let page = &self.source.page;
        let program = Span::styled(format!("ringtap {}", text(&page["program"])), HEAD);
        Paragraph::new(Line::from(vec![program, format!("  {}", text(&page["object"])).into()])).render(top, buffer);
        Paragraph::new(said).render(verdict, buffer);
        let tile = |(name, value): &(String, String)| format!("{name} {value}");
        if is_wide {
            let [left, right] =
                Layout::horizontal([Constraint::Length(LEDGER_WIDTH), Constraint::Min(0)]).areas(account);
            Paragraph::new(ledger).render(left, buffer);
            let lines: Vec<Line<'_>> = tiles.iter().map(|(name, value)| format!("{name:<26}{value}").into()).collect();
            let [facts, curve] =
                Layout::vertical([Constraint::Length(lines.len() as u16), Constraint::Min(0)]).areas(right);
            Paragraph::new(lines).render(facts, buffer);
            self.curve(curve, buffer);
        } else {
            let line = tiles.iter().map(tile).collect::<Vec<_>>().join(", ");
            Paragraph::new(line).wrap(Wrap { trim: true }).render(told, buffer);
            Paragraph::new(ledger).render(account, buffer);
        }
        self.list(list, buffer);
        Paragraph::new(Line::styled(self.keys, QUIET)).render(keys, buffer);
    }

    /// What is wrong, or that nothing is.
    fn said(&self) -> Vec<Line<'static>> {
        let account = &self.source.page["account"];
        let is_old = self.source.silence.is_some();
        let silence = self.source.silence.iter().map(|silence| Line::styled(printable(silence), BAD));
        let verdict = account["verdict"].as_object().map(|verdict| {
            let style = match verdict["grade"].as_str() {
                // It may be otherwise by now.
                _ if is_old => QUIET,
                Some("good") => GOOD,
                Some("bad") => BAD,
                _ => WARN,
            };
            Line::styled(text(&verdict["text"]), style)
        });
        let faults = all(&account["faults"]).map(|fault| Line::styled(text(fault), if is_old { QUIET } else { BAD }));
        let mut said: Vec<Line<'static>> = silence.chain(verdict).chain(faults).collect();
        if let Some(left @ 1..) = said.len().checked_sub(MOST_SAID) {
            said.truncate(MOST_SAID);
            said.push(Line::styled(format!("and {left} more"), BAD));
        }
        said.push(Line::default());
        said
    }

    fn ledger(&self) -> Vec<Line<'static>> {
        let account = &self.source.page["account"];
        let mut lines = Vec::new();
        if all(&account["ledger"]).next().is_some() {
            lines.push(Line::styled(format!("{:<32}{:>14}{:>12}", "packets", "in all", "a second"), HEAD));
        }
        lines.extend(all(&account["ledger"]).take(MOST_ROWS).map(|row| {
            let style = if row["loss"] == true { BAD } else { Style::new() };
            let [says, all, rate] = ["says", "all", "a_second"].map(|name| text(&row[name]));
            Line::styled(format!("{says:<32}{all:>14}{rate:>12}"), style)
        }));
        if all(&account["latencies"]).next().is_some() {
            let [half, most, longest, lately] = ["half", "99 %", "longest", "99 % lately"];
            let head = format!("{:<16}{half:>10}{most:>10}{longest:>10}{lately:>12}", "after arrival");
            lines.push(Line::styled(head, HEAD));
        }
        lines.extend(all(&account["latencies"]).take(MOST_ROWS).map(|row| {
            let [name, half, most, longest, lately] = [0, 1, 2, 3, 4].map(|at| text(&row[at]));
            Line::from(format!("{name:<16}{half:>10}{most:>10}{longest:>10}{lately:>12}"))
        }));
        lines
    }

    /// Name and value of what is told first.
    fn tiles(&self) -> Vec<(String, String)> {
        let tile = |tile: &Value| (text(&tile[0]), text(&tile[1]));
        all(&self.source.page["account"]["tiles"]).take(MOST_ROWS).map(tile).collect()
    }

    fn curve(&self, area: Rect, buffer: &mut Buffer) {
        let rates: Vec<u64> = all(&self.source.page["account"]["rates"]).filter_map(Value::as_u64).collect();
        let newest = rates.len().saturating_sub(area.width.into());
        Sparkline::default().data(&rates[newest..]).style(QUIET).render(area, buffer);
    }

    fn list(&self, area: Rect, buffer: &mut Buffer) {
        let lists = self.source.lists();
        let Some(list) = lists.get(self.chosen.list.min(lists.len().saturating_sub(1))) else { return };
        let [name, rest] = Layout::vertical([Constraint::Length(2), Constraint::Min(0)]).areas(area);
        let mut head = vec![Span::styled(text(&list["title"]), HEAD)];
        if list["note"].is_string() {
            head.push(Span::styled(format!("  {}", text(&list["note"])), QUIET));
        }
        Paragraph::new(vec![Line::default(), Line::from(head)]).render(name, buffer);
        let columns: Vec<String> = all(&list["columns"]).map(text).collect();
        let cells = |row: &Value| -> Vec<(String, Style)> {
            all(row).take(columns.len()).map(|cell| (text(&cell["text"]), style(cell))).collect()
        };
        let rows: Vec<Vec<(String, Style)>> = all(&list["rows"]).map(cells).collect();
        if rows.is_empty() {
            return;
        }
        let widths = widths(&columns, &rows);
        let first = self.chosen.row.min(rows.len() - 1);
        let shown = rows
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
        cells.chain([columns[at].chars().count()]).max().unwrap_or(0).min(1000) as u16
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The screen of a program that says this.
    fn drawn(page: Value, silence: Option<&str>, chosen: &Chosen) -> String {
        drawn_on(Rect { x: 0, y: 0, width: 120, height: 24 }, page, silence, chosen)
    }

    fn drawn_on(area: Rect, page: Value, silence: Option<&str>, chosen: &Chosen) -> String {
        let mut source = Source::new("127.0.0.1:1", None).unwrap();
        (source.page, source.silence) = (page, silence.map(str::to_owned));
        let mut buffer = Buffer::empty(area);
        Screen { source: &source, chosen, keys: "q quit" }.draw(area, &mut buffer);
        crate::rows(&buffer)
    }

    #[test]
    fn losses_stand_first_and_lists_scroll() {
        let row = |number: u64| json!([{"text": format!("alarm {number}")}, {"text": "major", "severity": "major"}]);
        let page = json!({
            "program": "trap", "object": "127.0.0.1:162",
            "account": {
                "verdict": {"grade": "bad", "text": "Lost: 2 packets (2 ring_full)."}, "faults": ["The disk is full."],
                "tiles": [["Packets", "1,000"]], "rates": [1, 2, 3],
                "ledger": [{"says": "came", "all": "1,234,567,890", "a_second": "123,456/s", "loss": false}],
                "latencies": [["judged", "1 us", "2 us", "3 us", "4.00 ms"]],
            },
            "lists": [
                {"title": "Incidents", "columns": ["A"], "rows": [], "note": "none"},
                {"title": "Alarms", "columns": ["What", "Severity"], "rows": (0..50).map(row).collect::<Vec<_>>()},
            ],
        });
        let screen = drawn(page.clone(), None, &Chosen::default());
        let lines: Vec<&str> = screen.lines().collect();
        assert_eq!(lines[..3], ["ringtap trap  127.0.0.1:162", "Lost: 2 packets (2 ring_full).", "The disk is full."]);
        assert!(screen.contains("Incidents  none") && screen.ends_with("q quit\n"), "{screen}");
        // Nothing of a number is cut off, however wide the screen is.
        for (width, height) in [(61, 30), (80, 24), (100, 30), (103, 30), (200, 60)] {
            let screen = drawn_on(Rect { x: 0, y: 0, width, height }, page.clone(), None, &Chosen { list: 1, row: 0 });
            for whole in ["1,234,567,890", "123,456/s", "Packets", "4.00 ms", "alarm 0"] {
                assert!(screen.contains(whole), "{whole:?} at {width}: {screen}");
            }
        }
        let screen = drawn(page, Some("it is gone"), &Chosen { list: 1, row: 30 });
        assert!(screen.contains("it is gone\nLost") && screen.contains("alarm 30") && !screen.contains("alarm 29 "));
    }

    #[test]
    fn whatever_answers_steers_no_terminal() {
        let evil = "\u{1b}[2J\u{202e}x\u{7}";
        for page in [
            json!({"program": evil, "object": evil, "account": {
                "verdict": {"grade": evil, "text": evil}, "faults": vec![evil; 70_000], "tiles": [[evil, evil], [], evil],
                "ledger": vec![json!({"says": evil, "all": evil}); 70_000], "rates": [u64::MAX, -1, evil, u64::MAX],
                "latencies": [[evil], evil],
            }, "lists": [{"title": evil, "columns": vec![evil; 300], "rows": vec![json!([{"text": evil}]); 3], "note": evil}]}),
            json!({"account": []}),
            json!({"lists": [{"rows": [[], 1, null], "columns": []}]}),
            Value::Null,
        ] {
            let screen = drawn(page, Some(evil), &Chosen { list: 9, row: 9 });
            assert!(!screen.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{screen:?}");
        }
    }
}
