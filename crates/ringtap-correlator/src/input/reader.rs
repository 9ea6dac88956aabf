//! Owns: reading one input to its end: lines, and what becomes of each, in batches, into a bounded channel.
//! Does not: open anything, or number equal records.

use std::io::{BufReader, Read};
use std::sync::atomic::Ordering;

use super::channel::{Came, Sender};
use super::counts::InputCounts;
use super::lines;
use super::parse::Bad;

/// What is handed over at once.
const BATCH: usize = 256;
/// Bytes that are handed over at once, or a line more.
const BATCH_BYTES: usize = 1 << 20;
const BUFFER: usize = 256 << 10;

/// A file or stream, ready to be read.
pub(super) fn buffered<R: Read>(input: R) -> BufReader<R> {
    BufReader::with_capacity(BUFFER, input)
}

/// Reads to the end, or until whoever takes it has gone. `understand` makes something of a line, or nothing.
pub(super) fn read(
    mut reader: BufReader<impl Read>,
    mut understand: impl FnMut(&[u8]) -> Result<Option<Came>, Bad>,
    counts: &InputCounts,
    sender: &Sender,
) {
    let (mut line, mut batch, mut bytes, mut number) = (Vec::new(), Vec::new(), 0, 0);
    loop {
        let read = match lines::next(&mut reader, &mut line) {
            Ok(read) => read,
            Err(error) => {
                counts.failed(&error);
                lines::Read::End
            }
        };
        number += 1;
        match read {
            lines::Read::End => break,
            lines::Read::TooLong => counts.bad(number, &Bad::TooLong),
            lines::Read::Line if line.iter().all(u8::is_ascii_whitespace) => {}
            lines::Read::Line => match understand(&line) {
                Ok(came) => {
                    bytes += came.as_ref().map_or(0, Came::weight);
                    batch.extend(came);
                }
                Err(bad) => counts.bad(number, &bad),
            },
        }
        counts.lines.fetch_add(1, Ordering::Relaxed);
        // Who writes slowly is not kept waiting, also where half a line is there already.
        if (batch.len() >= BATCH || bytes >= BATCH_BYTES || !reader.buffer().contains(&b'\n'))
            && !batch.is_empty()
            && !sender.send(std::mem::take(&mut batch))
        {
            return;
        }
        if batch.is_empty() {
            bytes = 0;
        }
    }
    if !batch.is_empty() {
        sender.send(batch);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeWriter, Write};
    use std::time::Duration;

    use super::super::channel;
    use super::super::parse::{Parser, Wanted};
    use super::*;

    #[test]
    fn a_whole_line_does_not_wait_for_the_half_one_behind_it() {
        let (pipe, mut writer): (_, PipeWriter) = std::io::pipe().unwrap();
        let (sender, receiver) = channel::channel(1 << 20);
        let reading = std::thread::spawn(move || {
            let mut parser = Parser::new(Wanted::Auto, "north");
            let understand = |line: &[u8]| parser.event(line).map(|event| Some(Came::Event(event)));
            read(buffered(pipe), understand, &InputCounts::new("a pipe"), &sender);
        });
        writer.write_all(b"{\"time\":1}\n{\"time\":2").unwrap();
        assert_eq!(receiver.recv_timeout(Duration::from_secs(20)).unwrap().len(), 1);
        writer.write_all(b"}\n").unwrap();
        assert_eq!(receiver.recv_timeout(Duration::from_secs(20)).unwrap().len(), 1);
        drop(writer);
        reading.join().unwrap();
    }
}
