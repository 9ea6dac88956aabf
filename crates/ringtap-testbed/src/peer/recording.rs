//! The judgement over the packets that peers wrote.
//!
//! Owns the reading of their captures. The verdict over the numbers is `sequence`'s.

use std::path::Path;

use ringtap::Result;
use ringtap::source::Source;
use ringtap::source::file::{FileSource, Pace};

use crate::sequence::{SequenceChecker, SequenceReport};
use crate::stamp::Stamp;

/// Reads capture files and checks the numbers in them.
pub(super) fn judge(
    files: &[impl AsRef<Path>],
    expected: u64,
    sent: u64,
    note: &mut Vec<String>,
) -> Result<SequenceReport> {
    let mut checker = SequenceChecker::new(expected);
    // A program that saw nothing may have written not even a header.
    let files: Vec<&Path> =
        files.iter().map(AsRef::as_ref).filter(|path| path.metadata().is_ok_and(|data| data.len() > 0)).collect();
    if !files.is_empty() {
        let mut source = FileSource::open(&files, Pace::AsFast)?;
        while !source.has_ended() {
            for packet in source.receive().iter() {
                match Stamp::from_frame(packet.data) {
                    Some(stamp) => checker.see(stamp.seq),
                    None => checker.see_foreign(),
                }
            }
        }
        note.extend(source.faults().iter().map(|fault| format!("what it wrote is faulty: {fault}")));
    }
    Ok(checker.report(sent))
}
