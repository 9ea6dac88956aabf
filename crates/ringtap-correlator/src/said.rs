//! Owns: which words of a run are for standard output and which for standard error.
//! Does not: write to standard output.

use ringtap_output::printable_json;
use ringtap_run::notes;

use crate::render;
use crate::run::Event;

/// The line of standard output that an event is, `None` where it has none; what is for standard error is written there. `json`: each line
/// is an object. `explain`: near misses are asked for.
pub fn line(event: &Event<'_>, json: bool, explain: bool) -> Option<String> {
    match event {
        Event::Report(told, automaton, sensors) if json => {
            Some(printable_json(&render::json(told, automaton, *sensors).to_string()))
        }
        Event::Report(told, automaton, sensors) => render::line(told, automaton, *sensors),
        Event::Explained(line) if explain && !json => Some((*line).to_owned()),
        Event::Explained(line) => {
            notes::say(line);
            None
        }
        Event::Interval(status) if json => Some(status.json("interval").to_string()),
        Event::Interval(status) => {
            notes::say(&status.line());
            None
        }
        Event::Progress(status, rate) => {
            let now_ns = i64::try_from(ringtap::clock::realtime_ns()).unwrap_or(i64::MAX);
            notes::progress(&status.progress(*rate, now_ns));
            None
        }
        Event::Summary(status) if json => Some(status.json("summary").to_string()),
        Event::Summary(status) => {
            notes::clear_progress();
            eprint!("{status}");
            None
        }
    }
}
