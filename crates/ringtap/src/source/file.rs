//! Replays a capture file as a source.
