//! What a program says beside its results: one line each, on standard error, with the command's name in front.
//!
//! Names of files and words of rules are others'. Whatever is said here can't steer a terminal.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use ringtap_output::printable;

/// A progress line is the terminal's last.
static SHOWS_PROGRESS: AtomicBool = AtomicBool::new(false);

/// Says one line. For callbacks that take a `&str`, too.
pub fn say(line: &str) {
    clear_progress();
    eprintln!("ringtap: {}", printable(line));
}

/// Says what could not be had.
pub fn warn(warning: &str) {
    say(&format!("warning: {warning}"));
}

/// Writes a terminal's progress line anew. Where standard error is none, nothing.
pub fn progress(line: &str) {
    let mut err = std::io::stderr().lock();
    if err.is_terminal() {
        // Nobody may be left to read it, which is no reason to end.
        let _ = write!(err, "\r\x1b[K{}", printable(line)).and_then(|()| err.flush());
        SHOWS_PROGRESS.store(true, Ordering::Relaxed);
    }
}

/// Takes the progress line away, before anything else is written to a terminal.
pub fn clear_progress() {
    if SHOWS_PROGRESS.swap(false, Ordering::Relaxed) {
        eprint!("\r\x1b[K");
    }
}
