//! SSH (RFC 4253), as far as the banners of both sides.
//!
//! Owns the definition; the banner is `parser.rs`'s, the names in rules are `keywords.rs`'s.

mod keywords;
mod parser;

pub use parser::{Banner, banner};

use super::{Definition, Found, Progress, Recognition, Side};

pub(super) const DEFINITION: Definition = Definition {
    name: "ssh",
    rule_names: keywords::RULE_NAMES,
    keywords: keywords::KEYWORDS,
    recognition: Recognition::FirstBytes(|bytes, _ports| bytes.starts_with(parser::PREFIX)),
    stream: Some(stream),
    datagram: None,
};

fn stream(side: &mut Side<'_>, found: &mut Found<'_>) -> Progress {
    if !side.is_from_start() {
        return Progress::Done;
    }
    match banner(side.bytes) {
        Banner::Line { protocol, software } => {
            found.add(keywords::PROTOCOL, protocol);
            found.add(keywords::SOFTWARE, software);
            Progress::Done
        }
        Banner::None => Progress::Done,
        Banner::Incomplete => Progress::More,
    }
}
