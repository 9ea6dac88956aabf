//! Owns: attacks that are hidden from a sensor and delivered to their receiver: one case for each known trick, and any number of
//! mixed ones from a seed.
//! Does not: know a sensor. What is delivered follows from how each case is made: tricks are segments and packets that a Linux
//! receiver discards, or that its application never sees.

mod mixed;
mod packets;
mod tricks;

pub use mixed::{LAST_WORDS, PORT, SERVER, mixed, mixed_to};
pub use packets::{Conversation, Packet, fragments};
pub use tricks::tricks;

/// What the receiver gets, in a stream or datagram of other bytes.
pub const ATTACK: &[u8] = b"evil-attack";

/// One hidden attack.
#[derive(Clone, Debug)]
pub struct Evasion {
    /// What it does; the same in each run.
    pub name: String,
    /// The client, whose address is in no other case.
    pub client: String,
    /// Rules for this case alone, by the client's address.
    pub rules: String,
    /// What passes, Ethernet frames.
    pub frames: Vec<Vec<u8>>,
    /// The rule that says that the attack was found.
    pub sid: u32,
    /// The receiver gets the attack.
    pub delivered: bool,
}

/// A rule for the attack in the established streams from this client.
fn stream_rule(client: &str, sid: u32) -> String {
    format!(
        "alert tcp {client} any -> any any (msg:\"{sid}\"; flow:established,to_server; content:\"evil-attack\"; sid:{sid};)\n"
    )
}
