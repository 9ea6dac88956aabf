//! Owns: lines into a Unix socket, datagram or stream, as whoever listens has it; connected again when it is lost.
//! Does not: listen.

use std::io::Write;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A lost connection is tried again after this.
const RETRY: Duration = Duration::from_millis(500);
/// A listener that takes nothing for this long is lost.
const PATIENCE: Duration = Duration::from_millis(200);

#[derive(Debug)]
enum Connection {
    Datagram(UnixDatagram),
    Stream(UnixStream),
}

/// A Unix socket.
#[derive(Debug)]
pub struct UnixOutput {
    path: PathBuf,
    connection: Option<Connection>,
    retry_at: Option<Instant>,
}

impl UnixOutput {
    /// For the socket at `path`; nobody needs to listen yet.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), connection: None, retry_at: None }
    }

    pub(super) fn line(&mut self, line: &[u8]) -> bool {
        if self.connection.is_none() && !self.connect() {
            return false;
        }
        let sent = match &mut self.connection {
            Some(Connection::Datagram(socket)) => socket.send(line).is_ok_and(|sent| sent == line.len()),
            Some(Connection::Stream(socket)) => socket.write_all(line).is_ok(),
            None => false,
        };
        if !sent {
            self.connection = None;
            self.retry_at = Some(Instant::now() + RETRY);
        }
        sent
    }

    fn connect(&mut self) -> bool {
        if self.retry_at.is_some_and(|at| Instant::now() < at) {
            return false;
        }
        self.connection = self.datagram().or_else(|| self.stream());
        self.retry_at = self.connection.is_none().then(|| Instant::now() + RETRY);
        self.connection.is_some()
    }

    fn datagram(&self) -> Option<Connection> {
        let socket = UnixDatagram::unbound().ok()?;
        socket.connect(&self.path).ok()?;
        socket.set_write_timeout(Some(PATIENCE)).ok()?;
        Some(Connection::Datagram(socket))
    }

    fn stream(&self) -> Option<Connection> {
        let socket = UnixStream::connect(&self.path).ok()?;
        socket.set_write_timeout(Some(PATIENCE)).ok()?;
        Some(Connection::Stream(socket))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixListener;

    #[test]
    fn both_kinds_of_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        assert!(!UnixOutput::new(&path).line(b"x\n"), "nobody listens");
        let listener = UnixDatagram::bind(&path).unwrap();
        assert!(UnixOutput::new(&path).line(b"one\n"));
        let mut bytes = [0; 16];
        assert_eq!(listener.recv(&mut bytes).unwrap(), 4);
        std::fs::remove_file(&path).unwrap();
        let listener = UnixListener::bind(&path).unwrap();
        let mut output = UnixOutput::new(&path);
        assert!(output.line(b"two\n"));
        drop(output);
        let mut text = String::new();
        listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
        assert_eq!(text, "two\n");
    }
}
