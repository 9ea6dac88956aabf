//! Text that came from elsewhere, for a terminal or a log.
//!
//! Owns what of it would steer a terminal.

/// Without what steers: what came from the network must not steer a terminal, nor turn its lines around.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if steers(c) { '\u{fffd}' } else { c }).collect()
}

/// Control characters, and those that turn a line around (Unicode Standard Annex #9).
#[must_use]
pub fn steers(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
