//! Owns: a connection that is made when it is needed and, not too often, again when it is lost.
//! Does not: know of what kind it is.

use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Reconnecting<C> {
    connection: Option<C>,
    /// A lost connection is tried again after this.
    pause: Duration,
    retry_at: Option<Instant>,
}

impl<C> Reconnecting<C> {
    /// Not connected yet.
    pub(super) fn new(pause: Duration) -> Self {
        Self { connection: None, pause, retry_at: None }
    }

    /// Whether `send` took place over the connection, or over one that `connect` makes. Where it did not, the connection is lost.
    pub(super) fn send(&mut self, connect: impl FnOnce() -> Option<C>, send: impl FnOnce(&mut C) -> bool) -> bool {
        if self.connection.is_none() {
            if self.retry_at.is_some_and(|at| Instant::now() < at) {
                return false;
            }
            self.connection = connect();
        }
        let is_sent = self.connection.as_mut().is_some_and(send);
        if !is_sent {
            self.connection = None;
            self.retry_at = Some(Instant::now() + self.pause);
        }
        is_sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_connection_is_made_again_after_the_pause_only() {
        let mut line = Reconnecting::new(Duration::from_secs(3600));
        assert!(line.send(|| Some(1), |connection| *connection == 1));
        assert!(line.send(|| panic!("there is one"), |connection| *connection == 1));
        assert!(!line.send(|| panic!("there is one"), |_| false));
        assert!(!line.send(|| panic!("too early"), |_| true));
        let mut line = Reconnecting::new(Duration::ZERO);
        assert!(!line.send(|| None, |_: &mut i32| true), "nobody is there");
        assert!(line.send(|| Some(2), |_| true));
    }
}
