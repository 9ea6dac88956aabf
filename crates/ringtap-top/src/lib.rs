//! `ringtap top`: any running program on the terminal, from what its page (`--web`) shows.
//!
//! Owns the loop, the keyboard and the terminal's state. What is asked is in `source`, what it looks like in `screen`.

mod screen;
mod source;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::Rect;
use ringtap::{Error, Result};
use ringtap_run::signals;
use serde_json::Value;

use screen::{Chosen, Screen};
use source::Source;

/// How often signals and keys are looked for.
const LOOK: Duration = Duration::from_millis(50);
/// The least time between two looks.
const LEAST: Duration = Duration::from_secs(1);
/// What is drawn where there is no terminal: so many columns and rows.
const PLAIN: Rect = Rect { x: 0, y: 0, width: 120, height: 40 };

/// What is shown.
#[derive(Debug, Clone)]
pub struct Options {
    /// `HOST:PORT` of `--web`.
    pub address: String,
    /// A file with the token, where the page asks for one.
    pub token: Option<PathBuf>,
    /// Time between two looks, a second at least: the page has nothing newer.
    pub every: Duration,
    /// End after so many looks; `None`: on q or Ctrl-C.
    pub count: Option<u64>,
}

/// Shows it until the looks are over, or q, SIGINT or SIGTERM ends it.
///
/// # Errors
/// Nobody answers at the start, or what answers is no program of Ringtap's; the terminal can't be used.
pub fn run(options: &Options) -> Result<()> {
    if options.every < LEAST {
        return Err(Error::usage("look each", format!("{:?}", options.every), "a page is made once a second")
            .way_out("leave --every out"));
    }
    let stop = signals::stop_flag()?;
    let mut source = Source::new(&options.address, options.token.as_deref())?;
    // What never answered is a mistyped address; what answered before may come again.
    source.look()?;
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    if !std::io::stdout().is_terminal() || is_dumb {
        return plain(&mut source, options, &stop);
    }
    let mut terminal = ratatui::try_init().map_err(|error| Error::os("draw on", "the terminal", &error))?;
    let ended = interactive(&mut terminal, &mut source, options, &stop);
    ratatui::restore();
    ended
}

/// Draws each look as text, one below the other.
fn plain(source: &mut Source, options: &Options, stop: &AtomicBool) -> Result<()> {
    let mut looks = 0;
    loop {
        let mut buffer = Buffer::empty(PLAIN);
        Screen { source, chosen: &Chosen::default(), keys: "" }.draw(PLAIN, &mut buffer);
        let mut out = std::io::stdout().lock();
        let text = rows(&buffer);
        // Nobody may be left to read it.
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
            return Ok(());
        }
        drop(out);
        looks += 1;
        let next = Instant::now() + options.every;
        while Instant::now() < next {
            if stop.load(Ordering::Relaxed) || options.count.is_some_and(|count| looks >= count) {
                return Ok(());
            }
            std::thread::sleep(LOOK);
        }
        source.again();
    }
}

/// The rows of a screen without what is empty at their ends.
fn rows(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width).max(1);
    let line = |cells: &[ratatui::buffer::Cell]| {
        let line: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        line.trim_end().to_owned()
    };
    let rows: Vec<String> = buffer.content.chunks(width).map(line).collect();
    format!("{}\n", rows.join("\n").trim_end())
}

fn interactive(
    terminal: &mut ratatui::DefaultTerminal,
    source: &mut Source,
    options: &Options,
    stop: &AtomicBool,
) -> Result<()> {
    let failed = |error: std::io::Error| Error::os("draw on", "the terminal", &error);
    let mut chosen = Chosen::default();
    let mut looks = 0;
    loop {
        looks += 1;
        let next = Instant::now() + options.every;
        let mut is_due = true;
        loop {
            if is_due {
                let screen = Screen { source, chosen: &chosen, keys: "q quit  Tab next list  ↑↓ scroll" };
                terminal.draw(|frame| screen.draw(frame.area(), frame.buffer_mut())).map_err(failed)?;
            }
            if stop.load(Ordering::Relaxed) || options.count.is_some_and(|count| looks >= count) {
                return Ok(());
            }
            if Instant::now() >= next {
                break;
            }
            is_due = event::poll(LOOK.min(next.saturating_duration_since(Instant::now()))).map_err(failed)?;
            if is_due && !chosen.turn(&event::read().map_err(failed)?, source.lists()) {
                return Ok(());
            }
        }
        source.again();
    }
}

impl Chosen {
    /// Does what a key asks for; whether to go on.
    fn turn(&mut self, event: &Event, lists: &[Value]) -> bool {
        let Event::Key(key) = event else { return true };
        let rows = |list: usize| lists.get(list).and_then(|list| list["rows"].as_array()).map_or(0, Vec::len);
        let last = rows(self.list).saturating_sub(1);
        let lists = lists.len();
        match key.code {
            KeyCode::Char('q' | 'Q') | KeyCode::Esc => return false,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
            KeyCode::Tab | KeyCode::Right => (self.list, self.row) = ((self.list + 1) % lists.max(1), 0),
            KeyCode::BackTab | KeyCode::Left => {
                (self.list, self.row) = ((self.list + lists.max(1) - 1) % lists.max(1), 0);
            }
            KeyCode::Down => self.row = (self.row + 1).min(last),
            KeyCode::Up => self.row = self.row.saturating_sub(1),
            KeyCode::PageDown => self.row = (self.row + 10).min(last),
            KeyCode::PageUp => self.row = self.row.saturating_sub(10),
            KeyCode::Home => self.row = 0,
            _ => {}
        }
        true
    }
}
