//! Owns: reading one input to its end: lines into events, in batches, into a bounded channel.
//! Does not: open anything, or number equal records.

use std::io::{BufReader, Read};
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;

use super::counts::InputCounts;
use super::lines;
use super::parse::{Bad, Parser};
use crate::event::Event;

/// Events handed over at once.
const BATCH: usize = 256;
/// Batches that may wait: of lines as long as they may be this is much, so it is little.
pub(super) const WAITING: usize = 8;
const BUFFER: usize = 256 << 10;

/// Reads to the end, or until whoever takes the events has gone.
pub(super) fn read(input: impl Read, mut parser: Parser, counts: &InputCounts, sender: &SyncSender<Vec<Event>>) {
    let mut reader = BufReader::with_capacity(BUFFER, input);
    let (mut line, mut events, mut number) = (Vec::new(), Vec::new(), 0);
    loop {
        let read = match lines::next(&mut reader, &mut line) {
            Ok(read) => read,
            Err(error) => {
                counts.failed.fetch_add(1, Ordering::Relaxed);
                ringtap_run::notes::say(&format!("read {}: {error}", counts.name));
                lines::Read::End
            }
        };
        number += 1;
        match read {
            lines::Read::End => break,
            lines::Read::TooLong => counts.bad(number, &Bad::TooLong),
            lines::Read::Line if line.iter().all(u8::is_ascii_whitespace) => {}
            lines::Read::Line => match parser.event(&line) {
                Ok(event) => events.push(event),
                Err(bad) => counts.bad(number, &bad),
            },
        }
        counts.lines.fetch_add(1, Ordering::Relaxed);
        // Who writes slowly is not kept waiting.
        if (events.len() >= BATCH || reader.buffer().is_empty())
            && !events.is_empty()
            && sender.send(std::mem::take(&mut events)).is_err()
        {
            return;
        }
    }
    if !events.is_empty() {
        let _ = sender.send(events);
    }
}
