//! What options have in common: words of which one is taken, a library's default as it is written, and which have no use beside others.
//!
//! Owns how these become help, completion, value and refusal. Words and options are where the commands are.

use std::time::Duration;

use clap::Arg;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use ringtap_run::units;

/// The words, each with what help says of it and what it means.
pub type Words<T> = &'static [(&'static str, &'static str, T)];

/// Reads one of `words`; the error names them all.
pub fn one_of<T: Copy + Send + Sync + 'static>(words: Words<T>) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(words.iter().map(|&(word, help, _)| PossibleValue::new(word).help(help))).try_map(
        move |told| {
            words.iter().find(|(word, ..)| *word == told).map(|&(.., meaning)| meaning).ok_or("not one of the words")
        },
    )
}

/// A default of a library as it is given on the command line; made once in a program's life.
pub fn time(default: Duration) -> &'static str {
    format!("{default:?}").leak()
}

/// The same of bytes.
pub fn size(default: u64) -> &'static str {
    units::told_size(default).leak()
}

/// `option`, refused beside `mode` unless it is one of `used` there: an option that does nothing is a slip that nobody would see.
pub fn unused_beside(option: Arg, mode: &'static str, used: &[&str]) -> Arg {
    let id = option.get_id().as_str();
    if id == mode || ["help", "version"].contains(&id) || used.contains(&id) {
        option
    } else {
        option.conflicts_with(mode)
    }
}
