//! The `ringtap` command.
fn main() {}
