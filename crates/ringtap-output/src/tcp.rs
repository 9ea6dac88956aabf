//! Owns: lines into a TCP connection, made again when it is lost.
//! Does not: listen.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::reconnecting::Reconnecting;

/// A lost connection is tried again after this.
const RETRY: Duration = Duration::from_millis(500);
/// A listener that takes nothing for this long is lost.
const PATIENCE: Duration = Duration::from_millis(200);

/// A TCP connection for lines.
#[derive(Debug)]
pub struct TcpOutput {
    to: SocketAddr,
    connection: Reconnecting<TcpStream>,
}

impl TcpOutput {
    /// To this address; nobody needs to listen yet.
    #[must_use]
    pub fn new(to: SocketAddr) -> Self {
        Self { to, connection: Reconnecting::new(RETRY) }
    }

    pub(super) fn line(&mut self, line: &[u8]) -> bool {
        let to = self.to;
        self.connection.send(|| connect(to), |stream| stream.write_all(line).is_ok())
    }
}

fn connect(to: SocketAddr) -> Option<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, PATIENCE).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    // A line must not wait for an answer to the one before.
    stream.set_nodelay(true).ok()?;
    Some(stream)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn lines_come_over_one_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut output = TcpOutput::new(listener.local_addr().unwrap());
        assert!(output.line(b"one\n") && output.line(b"two\n"));
        drop(output);
        let mut text = String::new();
        listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\ntwo\n");
        let address = listener.local_addr().unwrap();
        drop(listener);
        assert!(!TcpOutput::new(address).line(b"three\n"), "nobody listens");
    }
}
