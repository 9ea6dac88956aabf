//! What a program says beside its results: one line each, on standard error, with the command's name in front.

/// Says one line. For callbacks that take a `&str`, too.
pub fn say(line: &str) {
    eprintln!("ringtap: {line}");
}

/// Says what could not be had.
pub fn warn(warning: &str) {
    eprintln!("ringtap: warning: {warning}");
}
